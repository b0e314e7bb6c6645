//! Names: the attribute that a name denotes, and a similar one that may have been intended.
//!
//! Owns the table of what an expression can name. Promises that a header is found in any case, and that the search
//! for a similar name takes a bounded time.

use paceline_types::{KNOWN, MAPS, Name, NameError};

/// The map of all attributes, for those without a name of their own.
pub(crate) const ANY: &str = "attr";

/// The variable that is a number.
pub(crate) const PRIORITY: &str = "priority";

/// Longer names are compared with nothing.
const SIMILAR_BYTES_MAX: usize = 64;

/// How many names are searched for a similar one.
const SIMILAR_NAMES_MAX: usize = 10_000;

/// The well-known attribute with this name.
pub(crate) fn known(name: &str) -> Option<Name> {
    KNOWN.iter().find(|(known, _)| *known == name).map(|(_, known)| Name::Known(*known))
}

/// Whether an expression can index this name.
pub(crate) fn is_map(name: &str) -> bool {
    name == ANY || MAPS.contains(&name)
}

/// Every name that an expression can use by itself.
pub(crate) fn variables() -> impl Iterator<Item = &'static str> {
    KNOWN.iter().map(|(name, _)| *name).chain(MAPS).chain([ANY, PRIORITY])
}

/// The attribute `index` of `map`.
pub(crate) fn in_map(map: &str, index: &str) -> Result<Name, NameError> {
    if index.is_empty() {
        return Err(NameError::Empty);
    }
    if map == ANY { Name::parse(index) } else { Name::parse(&format!("{map}.{index}")) }
}

/// `; did you mean X`, if one of the names is similar to `name`.
pub(crate) fn similar<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let near = names
        .into_iter()
        .take(SIMILAR_NAMES_MAX)
        .filter_map(|other| Some((distance(name, other)?, other)))
        .min_by_key(|(distance, _)| *distance);
    near.map(|(_, other)| format!("; did you mean `{other}`")).unwrap_or_default()
}

/// How many letters differ, if that is one or at most a third, and not all. Case is ignored.
fn distance(left: &str, right: &str) -> Option<usize> {
    let most = (left.len() / 3).max(1);
    let fits = left.len().abs_diff(right.len()) <= most && right.len() <= SIMILAR_BYTES_MAX;
    if !fits || left.len() > SIMILAR_BYTES_MAX {
        return None;
    }
    let (left, right) = (left.to_ascii_lowercase(), right.to_ascii_lowercase());
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (above, a) in left.bytes().enumerate() {
        let mut diagonal = above;
        row[0] = above + 1;
        for (column, b) in right.bytes().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row.last().copied().filter(|distance| *distance <= most && *distance < left.len())
}

#[cfg(test)]
mod tests {
    use super::{distance, in_map, similar};

    #[test]
    fn similar_names_are_found() {
        assert_eq!(distance("usr", "user"), Some(1));
        assert_eq!(distance("USER", "user"), Some(0));
        assert_eq!(distance("kitten", "sitting"), None, "three of six is too much");
        assert_eq!(distance("sitten", "sitting"), Some(2));
        assert_eq!(distance("", "x"), None);
        assert_eq!(distance("y", "x"), None, "nothing in common");
        assert_eq!(distance(&"x".repeat(65), &"x".repeat(65)), None, "too long to compare");
        assert_eq!(similar("pth", ["user", "path"]), "; did you mean `path`");
        assert_eq!(similar("nothing", ["user", "path"]), "");
        assert_eq!(similar("é", ["è", "ab"]), "; did you mean `è`");
    }

    #[test]
    fn header_names_are_lower_case() {
        for (map, index, full) in [
            ("header", "X-User", "header.x-user"),
            ("cookie", "Id", "cookie.Id"),
            ("attr", "header.X-User", "header.x-user"),
            ("attr", "Job", "Job"),
            ("attr", "user", "user"),
        ] {
            assert_eq!(in_map(map, index).unwrap().to_string(), full);
        }
    }
}
