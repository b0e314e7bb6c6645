//! Hints with names that are similar to a wrong one.

use paceline_types::nearest;

/// `, did you mean X?`, if one of the names is similar to `name`.
pub(crate) fn did_you_mean<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, names).map(|near| format!(", did you mean `{near}`?")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::did_you_mean;

    #[test]
    fn a_near_name_is_asked_about() {
        assert_eq!(did_you_mean("qeue", ["queue", "key"]), ", did you mean `queue`?");
        assert_eq!(did_you_mean("zzzz", ["queue", "key"]), "");
    }
}
