//! Texts that every match of a regular expression contains.
//!
//! Owns their extraction: given an expression, sets of texts such that every match contains at least one text of each
//! set. A list finds its candidate rules by such texts. Promises only that they are necessary, never that they are
//! sufficient for a match. If a character may be upper or lower case, its representative stands for both.

use crate::fold::{Fold, class_of, has_case};
use regex_syntax::hir::{Class, Hir, HirKind, Look};

/// The most texts in one set.
const SET_MAX: usize = 256;

/// The most bytes in one set while it grows.
const SET_BYTES_MAX: usize = 8 << 10;

/// The most sets kept for one expression.
const SETS_MAX: usize = 8;

/// Classes with more characters than this are not enumerated.
const CLASS_MAX: usize = 8;

/// What is known of an expression.
struct Known {
    /// All texts that it matches, if they are few.
    texts: Option<Vec<String>>,
    /// Sets of texts; each match contains one text of each set.
    required: Vec<Vec<String>>,
}

/// Sets of texts; every match contains at least one text of each set.
pub(crate) fn required(hir: &Hir, fold: &mut Fold) -> Vec<Vec<String>> {
    let known = study(hir, fold);
    let mut sets = known.required;
    sets.extend(known.texts);
    sets.retain(|set| usable(set));
    sets
}

/// A fixed text and whether it must be at the beginning or end, if the expression is no more than that.
pub(crate) struct Fixed {
    pub(crate) text: String,
    pub(crate) at_start: bool,
    pub(crate) at_end: bool,
    /// Whether the text is folded, to be compared with folded texts.
    pub(crate) folded: bool,
}

/// The fixed text that an expression is equivalent to, if there is one.
pub(crate) fn fixed(hir: &Hir, fold: &mut Fold) -> Option<Fixed> {
    let parts = match hir.kind() {
        HirKind::Concat(parts) => &parts[..],
        _ => std::slice::from_ref(hir),
    };
    let at_start = matches!(parts.first()?.kind(), HirKind::Look(Look::Start));
    let parts = &parts[usize::from(at_start)..];
    let at_end = matches!(parts.last()?.kind(), HirKind::Look(Look::End));
    let parts = &parts[..parts.len() - usize::from(at_end)];
    let folded = parts.iter().any(|part| matches!(part.kind(), HirKind::Class(_)));
    let mut text = String::new();
    for part in parts {
        match part.kind() {
            HirKind::Literal(literal) => {
                let literal = str::from_utf8(&literal.0).ok()?;
                // If some letters have either case, a letter with a fixed case cannot be compared in folded form.
                if folded && literal.chars().any(has_case) {
                    return None;
                }
                text.push_str(literal);
            }
            HirKind::Class(class) => text.push(either_case(class, fold, true)?),
            _ => return None,
        }
    }
    Some(Fixed { text, at_start, at_end, folded })
}

fn usable(set: &[String]) -> bool {
    !set.is_empty() && set.iter().all(|text| !text.is_empty())
}

fn study(hir: &Hir, fold: &mut Fold) -> Known {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => Known::one(String::new()),
        HirKind::Literal(literal) => Known::one(String::from_utf8_lossy(&literal.0).into_owned()),
        HirKind::Class(class) => study_class(class, fold),
        HirKind::Capture(capture) => study(&capture.sub, fold),
        HirKind::Repetition(repetition) if repetition.min == 0 => Known::nothing(),
        HirKind::Repetition(repetition) => {
            let mut known = study(&repetition.sub, fold);
            known.give_up_texts();
            known
        }
        HirKind::Concat(parts) => study_concat(parts, fold),
        HirKind::Alternation(branches) => study_branches(branches, fold),
    }
}

fn study_class(class: &Class, fold: &mut Fold) -> Known {
    if let Some(c) = either_case(class, fold, false) {
        return Known::one(c.into());
    }
    let Some(members) = members(class) else { return Known::nothing() };
    Known { texts: Some(members.into_iter().map(String::from).collect()), required: vec![] }
}

/// The representative of a class whose members are one character in some or all of its cases.
fn either_case(class: &Class, fold: &mut Fold, all: bool) -> Option<char> {
    let members = members(class)?;
    let first = *members.first()?;
    let cases = class_of(first);
    let count: u32 = cases.iter().map(|r| r.end() as u32 - r.start() as u32 + 1).sum();
    let is_case = |c: char| cases.iter().any(|r| r.start() <= c && c <= r.end());
    let fits = members.len() > 1 && members.iter().all(|c| is_case(*c));
    (fits && (!all || members.len() as u32 == count)).then(|| fold.learn(first))
}

/// The characters of a class, if they are few.
fn members(class: &Class) -> Option<Vec<char>> {
    let ranges: Vec<(char, char)> = match class {
        Class::Unicode(class) if class.ranges().len() > CLASS_MAX => return None,
        Class::Unicode(class) => class.iter().map(|r| (r.start(), r.end())).collect(),
        Class::Bytes(class) => class.iter().map(|r| (r.start().into(), r.end().into())).collect(),
    };
    let count = ranges.iter().map(|(start, end)| *end as usize - *start as usize + 1);
    let few = count.sum::<usize>() <= CLASS_MAX;
    few.then(|| ranges.into_iter().flat_map(|(start, end)| start..=end).collect())
}

fn study_concat(parts: &[Hir], fold: &mut Fold) -> Known {
    let mut all = Known::one(String::new());
    let mut whole = true;
    for part in parts {
        let Known { texts, required } = study(part, fold);
        required.into_iter().for_each(|set| all.require(set));
        let run = all.texts.take().unwrap_or_default();
        let joined = texts.as_ref().and_then(|texts| cross(&run, texts));
        whole &= joined.is_some();
        all.texts = joined.or_else(|| {
            // The run ends here; a new one begins with the next texts, if they are known.
            all.require(run);
            Some(texts.unwrap_or_else(|| vec![String::new()]))
        });
    }
    if !whole {
        all.give_up_texts();
    }
    all
}

fn study_branches(branches: &[Hir], fold: &mut Fold) -> Known {
    let mut texts = Some(vec![]);
    let mut union = Some(vec![]);
    for branch in branches {
        let known = study(branch, fold);
        let best = best(&known);
        texts = texts.zip(known.texts).and_then(|(all, new)| join(all, new));
        union = union.zip(best).and_then(|(all, new)| join(all, new));
    }
    match texts {
        Some(texts) => Known { texts: Some(texts), required: vec![] },
        None => Known { texts: None, required: union.into_iter().collect() },
    }
}

fn join(mut all: Vec<String>, new: Vec<String>) -> Option<Vec<String>> {
    all.extend(new);
    (all.len() <= SET_MAX).then_some(all)
}

/// The most selective set: the one whose shortest text is the longest, or the smallest set.
fn best(known: &Known) -> Option<Vec<String>> {
    let shortest = |set: &&Vec<String>| set.iter().map(String::len).min().unwrap_or(0);
    known
        .required
        .iter()
        .chain(&known.texts)
        .filter(|set| usable(set))
        .max_by_key(|set| (shortest(set), SET_MAX.saturating_sub(set.len())))
        .cloned()
}

fn cross(run: &[String], texts: &[String]) -> Option<Vec<String>> {
    let bytes = |set: &[String]| set.iter().map(String::len).sum::<usize>();
    let count = run.len() * texts.len();
    let size = bytes(run) * texts.len() + bytes(texts) * run.len();
    if count > SET_MAX || size > SET_BYTES_MAX {
        return None;
    }
    Some(run.iter().flat_map(|a| texts.iter().map(move |b| format!("{a}{b}"))).collect())
}

impl Known {
    fn one(text: String) -> Self {
        Self { texts: Some(vec![text]), required: vec![] }
    }

    fn nothing() -> Self {
        Self { texts: None, required: vec![] }
    }

    fn require(&mut self, set: Vec<String>) {
        if usable(&set) && self.required.len() < SETS_MAX {
            self.required.push(set);
        }
    }

    fn give_up_texts(&mut self) {
        if let Some(texts) = self.texts.take() {
            self.require(texts);
        }
    }
}

#[cfg(test)]
mod tests;
