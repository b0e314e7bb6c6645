//! The reference page, `docs/reference.md`, generated from the catalogue.

use crate::KINDS;
use crate::example::as_toml;
use crate::setting::{Default, Each, Holds, Kind, Setting, Where};
use std::fmt::Write as _;

const HEAD: &str = "\
# Reference: objects and settings

Every kind of object that can be configured, and each of its settings. The names are those of the configuration file and
of the API's objects. A setting `queue.max_len` is `max_len` in the table `queue`. \"Role\" is the least role that may change the setting. Changes take effect at once unless the page says
otherwise. This page is generated from the catalogue (`crates/catalogue`); do not edit it.
";

/// The whole page.
#[must_use]
pub fn reference() -> String {
    let mut page = HEAD.to_owned();
    page.push('\n');
    for kind in KINDS {
        let _ = writeln!(
            page,
            "- [{}](#{})",
            title(kind),
            title(kind).to_lowercase().replace(' ', "-")
        );
    }
    KINDS.into_iter().for_each(|kind| write_kind(kind, &mut page));
    page
}

fn title(kind: &Kind) -> String {
    let word = kind.plural.replace('-', " ");
    let mut letters = word.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    let title: String = first.into_iter().chain(letters).collect();
    title.replace("Sql", "SQL")
}

fn write_kind(kind: &Kind, page: &mut String) {
    let _ = write!(page, "\n## {}\n\n{}\n\n", title(kind), kind.doc);
    let is_in_file = kind.settings.iter().any(Setting::is_in_file);
    let word = kind.word;
    let file = match kind.id {
        _ if !is_in_file || kind.word.contains(' ') => None,
        "" => Some(format!("`[{word}]` in the file")),
        _ if kind.within.is_some() => None,
        _ => Some(format!("`[[{word}]]` in the file")),
    };
    let api = Some(format!("`/v1/{}` in the API", kind.plural));
    let table = Some(format!("table `{}` of the database", kind.table));
    let places: Vec<String> = [file, api, table].into_iter().flatten().collect();
    let role = match kind.settings.iter().find(|setting| setting.name == "persistent") {
        _ if kind.id.is_empty() => format!("Role for changing it: {}", kind.role),
        Some(persistent) if persistent.role != kind.role => {
            let (role, admin) = (kind.role, persistent.role);
            format!("Role for creating or deleting: {role} (persistent ones: {admin})")
        }
        _ => format!("Role for creating or deleting: {}", kind.role),
    };
    let _ = write!(page, "{}. {role}.\n\n", places.join(", "));
    page.push_str(
        "| setting | type | default | example | role | what it does |\n| --- | --- | --- | --- | --- | --- |\n",
    );
    kind.settings.iter().for_each(|setting| write_setting("", setting, page));
    if kind.figures.is_empty() {
        return;
    }
    page.push_str("\n| figure | what it counts |\n| --- | --- |\n");
    for figure in kind.figures {
        let _ = writeln!(page, "| `{}` | {} |", figure.name, figure.doc);
    }
}

fn write_setting(outer: &str, setting: &Setting, page: &mut String) {
    let inner = setting.inner();
    let is_group = matches!(setting.holds, Holds::Table(_));
    if !is_group {
        let doc = [Some(setting.doc.to_owned()), place(setting), start(setting), idle(setting)];
        let doc: Vec<String> = doc.into_iter().flatten().collect();
        let _ = writeln!(
            page,
            "| `{outer}{}` | {} | {} | {} | {} | {} |",
            setting.name,
            cell(&type_of(&setting.holds)),
            cell(&default(setting.default)),
            cell(
                &setting.example().map(|json| format!("`{}`", as_toml(&json))).unwrap_or_default()
            ),
            setting.role,
            cell(&doc.join(" ")),
        );
    }
    let outer = format!("{outer}{}.", setting.name);
    inner.iter().for_each(|inner| write_setting(&outer, inner, page));
}

/// A bar would end the cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn place(setting: &Setting) -> Option<String> {
    match setting.place {
        Where::Everywhere => None,
        Where::File => Some("In the file only.".into()),
        Where::Api => Some("In the API only.".into()),
    }
}

fn start(setting: &Setting) -> Option<String> {
    (!setting.is_live).then(|| "Takes effect at the next start.".into())
}

fn idle(setting: &Setting) -> Option<String> {
    setting.idle.map(|why| format!("**Does nothing yet:** {why}."))
}

fn default(default: Default) -> String {
    match default {
        Default::Required => "required".into(),
        Default::Value(value) => format!("`{value}`"),
        Default::None(meaning) | Default::Machine(meaning) => meaning.into(),
    }
}

fn type_of(holds: &Holds) -> String {
    let words = |words: &[&str]| -> String {
        words.iter().map(|word| format!("`\"{word}\"`")).collect::<Vec<_>>().join(" or ")
    };
    match holds {
        Holds::Text => "text".into(),
        Holds::Expression => "expression".into(),
        Holds::File => "name of a file".into(),
        Holds::Name | Holds::Word | Holds::SlashlessWord => "name".into(),
        Holds::Address => "address".into(),
        Holds::Texts(Each::Listen) => "address, or a list".into(),
        Holds::Texts(Each::Network) => "address or network, or a list".into(),
        Holds::Texts(Each::Protocol) => "list of protocols".into(),
        Holds::Span => "time, such as `\"10s\"`".into(),
        Holds::Rate => "rate, such as `\"500/s\"`".into(),
        Holds::At => "place".into(),
        Holds::Integer(min, i64::MAX) => format!("whole number from {min}"),
        Holds::Integer(min, max) => format!("whole number from {min} to {max}"),
        Holds::Flag(_) | Holds::Choice => "`true` or `false`".into(),
        Holds::OneOf(all) => words(all),
        Holds::Map => "table of texts".into(),
        Holds::NumberedMap(min, max) => format!("table of texts by numbers from {min} to {max}"),
        Holds::Table(_) => "table".into(),
        Holds::Switch(_) => "table, or `true`".into(),
        Holds::Own(what, _) => (*what).into(),
    }
}
