//! The choice of the criterion by which each rule is found.
//!
//! Owns a heuristic that never affects the result: any choice gives the same answers, a good one gives fewer
//! candidates. Texts that many rules contain (`select`) are assumed to be common in requests too. Long texts are
//! rarer than short ones, and whole values rarer than parts.

use crate::fold::Fold;
use crate::pattern::{Compiled, Key};
use std::collections::BTreeMap;

/// Literals are cut to this length: it bounds how many can end at one place of a text.
pub(crate) const LITERAL_BYTES_MAX: usize = 32;

/// How a rule is found: by the key of one of its criteria.
#[derive(Debug)]
pub(crate) struct Choice {
    pub(crate) rule: u32,
    pub(crate) attribute: u32,
    pub(crate) key: Key,
}

/// A criterion that may be used to find its rule.
pub(crate) struct Offer {
    pub(crate) attribute: u32,
    pub(crate) compiled: Compiled,
}

/// Chooses for each rule; `rules` are the rules with the criteria that do not always match.
pub(crate) fn choose(mut rules: Vec<(u32, Vec<Offer>)>, fold: &Fold) -> Vec<Choice> {
    for offer in rules.iter_mut().flat_map(|(_, offers)| offers) {
        offer.compiled.keys.iter_mut().for_each(|key| finish(key, fold));
    }
    let mut common: BTreeMap<(u32, &str), u32> = BTreeMap::new();
    for offer in rules.iter().flat_map(|(_, offers)| offers) {
        for text in offer.compiled.keys.iter().flat_map(texts) {
            *common.entry((offer.attribute, text)).or_default() += 1;
        }
    }
    let best = rules.iter().filter_map(|(rule, offers)| {
        let keys = offers
            .iter()
            .flat_map(|offer| offer.compiled.keys.iter().map(|key| (offer.attribute, key)));
        let (attribute, key) =
            keys.min_by_key(|(attribute, key)| load(*attribute, key, &common))?;
        Some((*rule, attribute, key.clone()))
    });
    best.map(|(rule, attribute, key)| Choice { rule, attribute, key }).collect()
}

/// Folds and cuts the texts of a key, now that all characters that need folding are known.
fn finish(key: &mut Key, fold: &Fold) {
    match key {
        Key::Whole(text) => *text = fold.text(text),
        Key::Literals(texts) => {
            for text in &mut *texts {
                *text = fold.text(text);
                text.truncate(text.floor_char_boundary(LITERAL_BYTES_MAX));
            }
            texts.sort_unstable();
            texts.dedup();
        }
        Key::Expression(_) => {}
    }
}

fn texts(key: &Key) -> impl Iterator<Item = &str> {
    let (whole, literals) = match key {
        Key::Whole(text) => (Some(text), &[][..]),
        Key::Literals(texts) => (None, &texts[..]),
        Key::Expression(_) => (None, &[][..]),
    };
    whole.into_iter().chain(literals).map(String::as_str)
}

/// How often a key is expected to find its rule in vain, and the cost of looking it up.
fn load(attribute: u32, key: &Key, common: &BTreeMap<(u32, &str), u32>) -> u64 {
    const EXPRESSION: u64 = 1 << 40;
    match key {
        Key::Expression(_) => EXPRESSION,
        key => texts(key)
            .map(|text| {
                let uses = common.get(&(attribute, text)).copied().unwrap_or(1);
                let rarity = match (key, text.len()) {
                    (Key::Whole(_), _) => 1,
                    (_, 8..) => 2,
                    (_, 4..) => 3,
                    (_, 3) => 6,
                    (_, 2) => 12,
                    _ => 40,
                };
                u64::from(uses) * rarity
            })
            .sum(),
    }
}
