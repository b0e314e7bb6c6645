//! Names that are similar to a wrong one, for "did you mean".

/// The longest name that is compared.
const NAME_CHARS_MAX: usize = 64;

/// The most names to compare with.
const NAMES_MAX: usize = 10_000;

/// The name that is most similar to `name`, if one is similar enough.
#[must_use]
pub fn nearest<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let near = names.into_iter().take(NAMES_MAX).filter_map(|other| {
        let distance = distance(name, other)?;
        Some((distance, other))
    });
    near.min_by_key(|(distance, _)| *distance).map(|(_, other)| other)
}

/// How many letters were inserted, omitted, changed or swapped, if that is at most a third of them (or one) and not
/// all. Case is ignored.
fn distance(left: &str, right: &str) -> Option<usize> {
    // The lengths in bytes show without a walk whether a text is too long to be compared at all.
    if left.len().max(right.len()) > 4 * NAME_CHARS_MAX {
        return None;
    }
    let fold = |text: &str| text.to_lowercase().chars().collect::<Vec<_>>();
    let (left, right) = (fold(left), fold(right));
    let most = (left.len().min(right.len()) / 3).max(1);
    if left.len().max(right.len()) > NAME_CHARS_MAX || left.len().abs_diff(right.len()) > most {
        return None;
    }
    let mut before: Vec<usize> = vec![];
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, b) in right.iter().enumerate() {
            let mut least = (row[j] + usize::from(a != b)).min(row[j + 1] + 1).min(next[j] + 1);
            if i > 0 && j > 0 && *a == right[j - 1] && left[i - 1] == *b {
                least = least.min(before[j - 1] + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut row, next);
    }
    row.last().copied().filter(|distance| *distance <= most && *distance < left.len())
}

#[cfg(test)]
mod tests {
    use super::{distance, nearest};

    #[test]
    fn similar_names_are_found() {
        assert_eq!(distance("priorty", "priority"), Some(1));
        assert_eq!(distance("nmae", "name"), Some(1), "a swap is one change");
        assert_eq!(distance("NAME", "name"), Some(0));
        assert_eq!(distance("thread", "rate"), None);
        assert_eq!(distance("x", "y"), None, "nothing in common");
        assert_eq!(distance("", "x"), None);
        assert_eq!(distance(&"x".repeat(65), &"x".repeat(65)), None, "too long to compare");
        assert_eq!(nearest("burts", ["rate", "burst"]), Some("burst"));
        assert_eq!(nearest("qeue", ["queue", "key"]), Some("queue"));
        assert_eq!(nearest("zzzz", ["queue", "key"]), None);
        let names = ["attributes", "cost", "claims", "max_wait"];
        assert_eq!(nearest("atributes", names), Some("attributes"));
        assert_eq!(nearest("maxwait", names), Some("max_wait"));
        assert_eq!(nearest("costs", names), Some("cost"));
        assert_eq!(nearest("priority", names), None);
        assert_eq!(nearest(&"c".repeat(1_000), names), None);
    }
}
