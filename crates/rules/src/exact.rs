//! A hash table from whole values to the rules that match them.
//!
//! Owns one immutable table. Its hash is fixed, so every run behaves the same. That is safe because keys come from
//! rules only: a value that is looked up can collide with keys, but never add one.

/// Whole values and the lists of rules that they find.
#[derive(Debug, Default)]
pub(crate) struct Exact {
    /// Index into `keys` plus one, 0 if free. The length is a power of two, and at most half of the slots are used.
    slots: Vec<u32>,
    keys: Vec<(u64, Box<str>, Vec<u32>)>,
}

impl Exact {
    /// A table of these values, which are all different.
    pub(crate) fn new(entries: impl IntoIterator<Item = (String, Vec<u32>)>) -> Self {
        let keys: Vec<_> =
            entries.into_iter().map(|(text, rules)| (hash(&text), text.into(), rules)).collect();
        let mut slots = vec![0; (keys.len() * 2).next_power_of_two().max(2)];
        for (index, (hash, ..)) in keys.iter().enumerate() {
            let mut slot = *hash as usize & (slots.len() - 1);
            while slots[slot] != 0 {
                slot = (slot + 1) & (slots.len() - 1);
            }
            slots[slot] = index as u32 + 1;
        }
        Self { slots, keys }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The rules that match this value.
    pub(crate) fn find(&self, value: &str) -> &[u32] {
        if self.keys.is_empty() {
            return &[];
        }
        let wanted = hash(value);
        let mut slot = wanted as usize & (self.slots.len() - 1);
        while let Some(index) = self.slots[slot].checked_sub(1) {
            let (hash, text, rules) = &self.keys[index as usize];
            if *hash == wanted && **text == *value {
                return rules;
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        &[]
    }
}

/// Eight bytes per step, well mixed at the end so that the low bits can be used.
fn hash(text: &str) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut state = text.len() as u64;
    for chunk in text.as_bytes().chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        state = (state.rotate_left(23) ^ u64::from_le_bytes(word)).wrapping_mul(FACTOR);
    }
    state ^= state >> 32;
    state = state.wrapping_mul(FACTOR);
    state ^ (state >> 29)
}

#[cfg(test)]
mod tests {
    use super::Exact;

    #[test]
    fn every_key_is_found_and_nothing_else() {
        let text = |n: u32| format!("user-{n}");
        let table = Exact::new((0..5_000).map(|n| (text(n * 2), vec![n])));
        for n in 0..5_000 {
            assert_eq!(table.find(&text(n * 2)), [n]);
            assert_eq!(table.find(&text(n * 2 + 1)), []);
        }
        assert_eq!(table.find(""), []);
        assert_eq!(Exact::new([]).find("x"), []);
        assert_eq!(Exact::new([(String::new(), vec![7])]).find(""), [7]);
    }
}
