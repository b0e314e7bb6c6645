//! The one definition of "without case": Unicode simple case folding, as in regular expressions.
//!
//! Owns the table of characters that differ only by case, as far as some pattern contains one of them; all other
//! characters equal only themselves. Every class of equal characters has a representative: its ASCII lower case
//! letter if it has one, otherwise its lowest character. Texts and patterns are compared after each character is
//! replaced by its representative.

use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange};

/// Characters that differ from their representative.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fold {
    /// Non-ASCII characters with their representatives, by character.
    table: Vec<(char, char)>,
    active: bool,
}

impl Fold {
    /// The representative of a character of a pattern. From now on, texts are folded for it.
    pub(crate) fn learn(&mut self, c: char) -> char {
        if !self.active {
            self.active = true;
            // Two ASCII letters have equals beyond ASCII; texts must fold them from the start.
            self.add(&class_of('k'));
            self.add(&class_of('s'));
        }
        if c.is_ascii() {
            return c.to_ascii_lowercase();
        }
        if let Ok(at) = self.table.binary_search_by_key(&c, |(from, _)| *from) {
            return self.table[at].1;
        }
        let class = class_of(c);
        self.add(&class);
        representative(&class)
    }

    /// Like [`Self::learn`], for a whole text.
    pub(crate) fn learn_text(&mut self, text: &str) -> String {
        text.chars().map(|c| self.learn(c)).collect()
    }

    /// Whether texts must be folded at all.
    pub(crate) fn is_active(&self) -> bool {
        self.active
    }

    /// Writes the folded text.
    pub(crate) fn apply(&self, text: &str, folded: &mut String) {
        folded.clear();
        folded.push_str(text);
        folded.make_ascii_lowercase();
        if text.is_ascii() {
            return;
        }
        if folded.chars().any(|c| self.character(c) != c) {
            let lower = std::mem::take(folded);
            folded.extend(lower.chars().map(|c| self.character(c)));
        }
    }

    /// A folded copy, or the text itself if no pattern ignores case.
    pub(crate) fn text(&self, text: &str) -> String {
        let mut folded = String::new();
        if self.active {
            self.apply(text, &mut folded);
        } else {
            folded.push_str(text);
        }
        folded
    }

    fn character(&self, c: char) -> char {
        if c.is_ascii() {
            return c;
        }
        match self.table.binary_search_by_key(&c, |(from, _)| *from) {
            Ok(at) => self.table[at].1,
            Err(_) => c,
        }
    }

    fn add(&mut self, class: &ClassUnicode) {
        let to = representative(class);
        for c in members(class).filter(|c| !c.is_ascii()) {
            // The representative is in the table too, so that learning it again is only a search.
            if let Err(at) = self.table.binary_search_by_key(&c, |(from, _)| *from) {
                self.table.insert(at, (c, to));
            }
        }
    }
}

/// All characters that differ from `c` only by case.
pub(crate) fn class_of(c: char) -> ClassUnicode {
    let mut class = ClassUnicode::new([ClassUnicodeRange::new(c, c)]);
    // Without the Unicode tables, which are always built in, a character would equal only itself.
    let _ = class.try_case_fold_simple();
    class
}

/// Whether a character has an equal other than itself.
pub(crate) fn has_case(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_alphabetic() } else { members(&class_of(c)).nth(1).is_some() }
}

fn representative(class: &ClassUnicode) -> char {
    let lowercase = members(class).find(char::is_ascii_lowercase);
    lowercase.or_else(|| members(class).next()).unwrap_or_default()
}

fn members(class: &ClassUnicode) -> impl Iterator<Item = char> {
    class.ranges().iter().flat_map(|range| range.start()..=range.end())
}

#[cfg(test)]
mod tests {
    use super::Fold;

    fn folded(fold: &Fold, text: &str) -> String {
        let mut out = String::new();
        fold.apply(text, &mut out);
        out
    }

    #[test]
    fn characters_that_equal_but_for_case_have_one_representative() {
        let mut fold = Fold::default();
        assert!(!fold.is_active());
        assert_eq!(fold.text("ABC"), "ABC", "nothing is folded before a pattern asks for it");
        for (one, other) in [("É", "é"), ("Σ", "ς"), ("K", "\u{212a}"), ("ſ", "S"), ("ß", "ẞ")]
        {
            assert_eq!(fold.learn_text(one), fold.learn_text(other), "{one} {other}");
        }
        assert_eq!(folded(&fold, "ΣÉ\u{212a}Aſ"), folded(&fold, "ςékas"));
        assert_eq!(folded(&fold, "Ö"), "Ö", "no pattern has it, so nothing can equal it");
        assert_eq!(fold.learn_text("ç-1"), folded(&fold, "Ç-1"));
    }
}
