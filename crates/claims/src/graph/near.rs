//! "Did you mean": the nearest name to one that does not exist.
//!
//! Promises bounded work whatever the number of names: it checks a few neighbours in name order, and the name
//! without one character or with two of them swapped.

use super::Graph;

/// Names checked before and after the place where the name would be.
const NEIGHBOURS: usize = 16;

/// Characters of a name that are left out or swapped in turn.
const SLIPS_MAX: usize = 64;

/// The longest name that is compared: refusals are made under the engine's lock.
const NAME_COMPARED_MAX: usize = 96;

/// A name with more differences than this is not suggested.
const EDITS_MAX: usize = 3;

impl Graph {
    /// The name that was probably meant by `name`.
    #[must_use]
    pub fn near(&self, name: &str) -> Option<&str> {
        if name.len() > NAME_COMPARED_MAX {
            return None;
        }
        self.slip(name).or_else(|| self.neighbour(name))
    }

    /// A name that is `name` without one character, or with two neighbours swapped.
    fn slip(&self, name: &str) -> Option<&str> {
        let chars: Vec<char> = name.chars().collect();
        (0..chars.len().min(SLIPS_MAX)).find_map(|place| {
            let mut other = chars.clone();
            other.remove(place);
            let mut found = self.node_named(&other.iter().collect::<String>());
            if found.is_none() && place > 0 {
                other.clone_from(&chars);
                other.swap(place - 1, place);
                found = self.node_named(&other.iter().collect::<String>());
            }
            found.map(|node| self.name_of(node))
        })
    }

    /// The best of the names near `name` in name order.
    fn neighbour(&self, name: &str) -> Option<&str> {
        let place = self.by_name.partition_point(|node| self.name_of(*node) < name);
        let start = place.saturating_sub(NEIGHBOURS);
        let end = (place + NEIGHBOURS).min(self.by_name.len());
        let max = EDITS_MAX.min(name.chars().count() / 2);
        let names = self.by_name[start..end].iter().map(|node| self.name_of(*node));
        let rated = names.filter_map(|other| Some((edits(name, other, max)?, other)));
        rated.min_by_key(|(edits, _)| *edits).map(|(_, other)| other)
    }
}

/// How many characters must be changed, deleted or inserted to turn one text into the other, if no more than
/// `max`. Only positions that are at most `max` apart are compared.
fn edits(one: &str, two: &str, max: usize) -> Option<usize> {
    let (one, two): (Vec<char>, Vec<char>) = (one.chars().collect(), two.chars().collect());
    if one.len().abs_diff(two.len()) > max {
        return None;
    }
    let mut row: Vec<usize> = (0..=two.len()).collect();
    for (line, a) in one.iter().enumerate() {
        let first = (line + 1).saturating_sub(max).max(1);
        let last = (line + 1 + max).min(two.len());
        let mut corner = row[first - 1];
        row[first - 1] = if first == 1 { line + 1 } else { max + 1 };
        for column in first..=last {
            let same = corner + usize::from(*a != two[column - 1]);
            // The position at the right edge has not been reached from above.
            let above = if column == line + 1 + max { max + 1 } else { row[column] + 1 };
            corner = row[column];
            row[column] = same.min(above).min(row[column - 1] + 1);
        }
    }
    row.last().copied().filter(|edits| *edits <= max)
}

#[cfg(test)]
mod tests {
    use super::edits;

    /// The plain definition, by recursion.
    fn naive(one: &[u8], two: &[u8]) -> usize {
        match (one, two) {
            ([], rest) | (rest, []) => rest.len(),
            ([a, one_rest @ ..], [b, two_rest @ ..]) => {
                let same = naive(one_rest, two_rest) + usize::from(a != b);
                same.min(naive(one_rest, two) + 1).min(naive(one, two_rest) + 1)
            }
        }
    }

    #[test]
    fn edits_equal_the_definition() {
        let mut state = 1u64;
        let mut text = || {
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
                (state >> 40) as u8
            };
            (0..next() % 7).map(|_| b'a' + next() % 3).collect::<Vec<u8>>()
        };
        for _ in 0..3_000 {
            let (one, two) = (text(), text());
            let expected = naive(&one, &two);
            let as_text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            for max in 0..5 {
                let got = edits(&as_text(&one), &as_text(&two), max);
                assert_eq!(got, (expected <= max).then_some(expected), "{one:?} {two:?} {max}");
            }
        }
    }
}
