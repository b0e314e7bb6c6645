//! The name that was probably meant, for "did you mean".

/// Longest names that are compared; a longer one is no slip of the finger.
const BYTES_MAX: usize = 64;

/// The name among `names` that is nearest to `wrong`, if one is near: at most one letter in three
/// differs, and two at most.
pub(crate) fn nearest<'a>(
    wrong: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    if wrong.len() > BYTES_MAX {
        return None;
    }
    let slips_max = (wrong.chars().count() / 3).clamp(1, 2);
    let near = names.into_iter().filter(|name| name.len() <= BYTES_MAX);
    let near = near.map(|name| (distance(wrong, name), name));
    near.filter(|(slips, _)| *slips <= slips_max).min().map(|(_, name)| name)
}

/// How many letters must be changed, added or left out to come from one text to the other.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (line, a) in from.chars().enumerate() {
        let mut diagonal = line;
        let mut left = line + 1;
        for (cell, b) in row.iter_mut().skip(1).zip(&to) {
            let changed = diagonal + usize::from(a != *b);
            diagonal = *cell;
            left = changed.min(diagonal + 1).min(left + 1);
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = line + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{distance, nearest};

    #[test]
    fn slips_are_recognised_and_other_words_are_not() {
        let names = ["attributes", "cost", "claims", "max_wait"];
        assert_eq!(nearest("atributes", names), Some("attributes"));
        assert_eq!(nearest("maxwait", names), Some("max_wait"));
        assert_eq!(nearest("costs", names), Some("cost"));
        assert_eq!(nearest("priority", names), None);
        assert_eq!(nearest(&"c".repeat(1_000), names), None);
    }

    #[test]
    fn the_distance_counts_letters() {
        for (from, to, expected) in
            [("", "", 0), ("", "ab", 2), ("ab", "", 2), ("kitten", "sitting", 3)]
        {
            assert_eq!(distance(from, to), expected, "{from} {to}");
        }
    }
}
