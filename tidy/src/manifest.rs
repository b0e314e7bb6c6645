//! Reads the dependencies of a package from its `Cargo.toml`. It knows the few forms in which a dependency can be
//! written, not TOML in general.

use crate::numbered;

/// What a dependency is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Normal,
    Dev,
    Build,
    /// Named in `[workspace.dependencies]`, for packages to inherit.
    Workspace,
}

/// One dependency of a package, by the package's real name.
#[derive(Debug, PartialEq, Eq)]
pub struct Dependency {
    pub name: String,
    pub kind: Kind,
    pub line: usize,
}

impl Dependency {
    /// The short name of the crate in this workspace, if it is one.
    pub fn room(&self) -> Option<&str> {
        self.name.strip_prefix("paceline-").or((self.name == "paceline").then_some("paceline"))
    }
}

/// All dependencies in a manifest.
pub fn dependencies(text: &str) -> Vec<Dependency> {
    let mut found = Vec::new();
    let mut kind = None;
    for (line, text) in numbered(text) {
        let text = text.trim();
        if let Some(section) = text.strip_prefix('[') {
            let (new, name) = section_kind(section.trim_end_matches(']'));
            // `[dependencies.name]` is itself a dependency; the lines after it are its settings.
            kind = if name.is_some() { None } else { new };
            if let (Some(kind), Some(name)) = (new, name) {
                found.push(Dependency { name: name.into(), kind, line });
            }
            continue;
        }
        let (Some(kind), Some((key, value))) = (kind, text.split_once('=')) else { continue };
        if text.starts_with('#') {
            continue;
        }
        let key = key.trim().trim_matches('"');
        let name = renamed(value).unwrap_or(key.split('.').next().unwrap_or(key));
        found.push(Dependency { name: name.into(), kind, line });
    }
    found
}

/// The kind of dependencies in a section, and the name if the section is about a single one.
fn section_kind(section: &str) -> (Option<Kind>, Option<&str>) {
    // `[target.'cfg(...)'.dependencies]` counts as `[dependencies]`.
    let section = match section.strip_prefix("target.") {
        Some(rest) => rest.rsplit_once("'.").map_or(rest, |(_, section)| section),
        None => section,
    };
    let kinds = [
        ("dependencies", Kind::Normal),
        ("dev-dependencies", Kind::Dev),
        ("build-dependencies", Kind::Build),
        ("workspace.dependencies", Kind::Workspace),
    ];
    for (word, kind) in kinds {
        match section.strip_prefix(word) {
            Some("") => return (Some(kind), None),
            Some(rest) if rest.starts_with('.') => return (Some(kind), Some(&rest[1..])),
            _ => {}
        }
    }
    (None, None)
}

fn renamed(value: &str) -> Option<&str> {
    let (_, rest) = value.split_once("package")?;
    rest.trim_start().strip_prefix('=')?.trim_start().strip_prefix('"')?.split('"').next()
}

#[test]
fn reads_all_ways_to_depend() {
    let text = r#"
[package]
name = "paceline-x"
[dependencies]
# tokio = "1"
paceline-types.workspace = true
sha1 = "0.11"
other = { package = "real", version = "1" }
[target.'cfg(unix)'.dependencies]
rustix = { version = "1" }
[dependencies.long]
version = "1"
[dev-dependencies]
tempfile = "3"
[lints]
workspace = true
"#;
    let found: Vec<_> = dependencies(text).into_iter().map(|d| (d.name, d.kind, d.line)).collect();
    let expected = [
        ("paceline-types", Kind::Normal, 6),
        ("sha1", Kind::Normal, 7),
        ("real", Kind::Normal, 8),
        ("rustix", Kind::Normal, 10),
        ("long", Kind::Normal, 11),
        ("tempfile", Kind::Dev, 14),
    ];
    assert_eq!(found, expected.map(|(name, kind, line)| (name.to_string(), kind, line)));
}
