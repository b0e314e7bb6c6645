//! Sets of regular expressions that have no literal to be found by.
//!
//! Owns automata that run many expressions over a value in one pass. They are filters: an expression that they report
//! may match and is verified; one that they do not report cannot match. So an expression is put into its set in a
//! simpler form that matches no less: all characters beyond ASCII count as one, and word boundaries are left out,
//! which makes the automata small. A set has few members because the time to build it and its memory grow fast. Where
//! sets do not help, or there would be too many, rules are tried one by one, unless the length of the value rules
//! them out.
//!
//! Memory: all sets of a list together take at most [`SETS_MAX`] times [`SET_BYTES_MAX`], and each
//! thread that runs them at most [`SETS_MAX`] times [`CACHE_BYTES_MAX`].

use regex_automata::hybrid::dfa::{Builder, Cache, Config, DFA};
use regex_automata::nfa::thompson;
use regex_automata::{Input, MatchKind, PatternSet};
use regex_syntax::hir::{
    Capture, Class, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Look, Repetition,
};
use std::sync::Arc;

/// The most expressions in one set.
const SET_LEN_MAX: usize = 64;

/// Fewer expressions are tried one by one, which is faster.
const SET_LEN_MIN: usize = 4;

/// The most sets of one list; further expressions are tried one by one.
pub(crate) const SETS_MAX: usize = 160;

/// The most sets of one list that are begun, including those that turn out too large.
const TRIES_MAX: usize = 240;

/// The size of one set before it runs.
const SET_BYTES_MAX: usize = 256 << 10;

/// The memory that one set runs with.
const CACHE_BYTES_MAX: usize = 256 << 10;

/// A set of expressions and the rule of each.
#[derive(Debug)]
pub(crate) struct Set {
    automaton: DFA,
    rules: Vec<u32>,
}

/// Memory for running a set.
#[derive(Debug)]
pub(crate) struct SetWork {
    cache: Cache,
    found: PatternSet,
}

/// How many sets a list may still have, and how many it may still begin.
#[derive(Debug)]
pub(crate) struct Budget {
    sets: usize,
    tries: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self { sets: SETS_MAX, tries: TRIES_MAX }
    }
}

/// A rule that is in no set, with the lengths of values that it can match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Single {
    rule: u32,
    len_min: u32,
    len_max: u32,
}

impl Single {
    fn new(hir: &Hir, rule: u32) -> Self {
        let properties = hir.properties();
        let whole = properties.look_set_prefix().contains(Look::Start)
            && properties.look_set_suffix().contains(Look::End);
        let len_max = properties.maximum_len().filter(|_| whole).unwrap_or(usize::MAX);
        let len_min = properties.minimum_len().unwrap_or(0);
        let number = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        Self { rule, len_min: number(len_min), len_max: number(len_max) }
    }

    /// The rule, if it can match a value of this length.
    pub(crate) fn fits(self, len: usize) -> Option<u32> {
        (self.len_min as usize <= len && len <= self.len_max as usize).then_some(self.rule)
    }
}

/// Builds sets of expressions in their simpler form, each with its rule. The rules that are in no set are added to
/// `rest`.
pub(crate) fn build(
    members: &[(Arc<Hir>, u32)],
    budget: &mut Budget,
    rest: &mut Vec<Single>,
) -> Vec<Set> {
    let mut sets = vec![];
    let mut add_rest = |members: &[(Arc<Hir>, u32)]| {
        rest.extend(members.iter().map(|(hir, rule)| Single::new(hir, *rule)));
    };
    let (mut members, mut len) = (members, SET_LEN_MAX);
    while budget.tries > 0 {
        budget.tries -= 1;
        len = len.min(members.len());
        if budget.sets == 0 || len < SET_LEN_MIN {
            break;
        }
        match Set::new(&members[..len]) {
            // Too large: this set and all later ones are made smaller.
            None if len / 2 >= SET_LEN_MIN => {
                len /= 2;
                continue;
            }
            None => add_rest(&members[..len]),
            Some(set) => {
                budget.sets -= 1;
                sets.push(set);
            }
        }
        members = &members[len..];
    }
    add_rest(members);
    sets
}

impl Set {
    fn new(members: &[(Arc<Hir>, u32)]) -> Option<Self> {
        let config = thompson::Config::new()
            .which_captures(thompson::WhichCaptures::None)
            .nfa_size_limit(Some(SET_BYTES_MAX));
        let hirs: Vec<&Hir> = members.iter().map(|(hir, _)| &**hir).collect();
        let nfa = thompson::Compiler::new().configure(config).build_many_from_hir(&hirs).ok()?;
        let config = Config::new()
            .match_kind(MatchKind::All)
            .cache_capacity(CACHE_BYTES_MAX)
            // If a value creates new states all the time, the rules are tried one by one instead.
            .minimum_cache_clear_count(Some(3))
            .minimum_bytes_per_state(Some(10));
        let automaton = Builder::new().configure(config).build_from_nfa(nfa).ok()?;
        Some(Self { automaton, rules: members.iter().map(|(_, rule)| *rule).collect() })
    }

    pub(crate) fn work(&self) -> SetWork {
        SetWork {
            cache: self.automaton.create_cache(),
            found: PatternSet::new(self.automaton.pattern_len()),
        }
    }

    /// Adds the rules whose expression may match.
    pub(crate) fn find(&self, value: &str, work: &mut SetWork, rules: &mut Vec<u32>) {
        work.found.clear();
        let searched = self.automaton.try_which_overlapping_matches(
            &mut work.cache,
            &Input::new(value),
            &mut work.found,
        );
        match searched {
            Ok(()) => rules.extend(work.found.iter().map(|at| self.rules[at.as_usize()])),
            Err(_) => rules.extend(&self.rules),
        }
    }
}

/// An expression that matches whatever `hir` matches, and perhaps more, with small classes only.
pub(crate) fn simpler(hir: &Hir) -> Hir {
    match hir.kind() {
        HirKind::Empty => Hir::empty(),
        HirKind::Literal(literal) => Hir::literal(literal.0.clone()),
        HirKind::Class(Class::Unicode(class)) => Hir::class(Class::Unicode(simpler_class(class))),
        HirKind::Class(class) => Hir::class(class.clone()),
        HirKind::Look(look) if is_plain(*look) => Hir::look(*look),
        HirKind::Look(_) => Hir::empty(),
        HirKind::Repetition(repetition) => Hir::repetition(Repetition {
            sub: Box::new(simpler(&repetition.sub)),
            ..repetition.clone()
        }),
        HirKind::Capture(Capture { sub, .. }) => simpler(sub),
        HirKind::Concat(parts) => Hir::concat(parts.iter().map(simpler).collect()),
        HirKind::Alternation(branches) => Hir::alternation(branches.iter().map(simpler).collect()),
    }
}

fn simpler_class(class: &ClassUnicode) -> ClassUnicode {
    const ASCII_MAX: char = '\u{7f}';
    let ascii = class.iter().filter(|range| range.start() <= ASCII_MAX);
    let mut ranges: Vec<_> = ascii
        .map(|range| ClassUnicodeRange::new(range.start(), range.end().min(ASCII_MAX)))
        .collect();
    if class.iter().any(|range| range.end() > ASCII_MAX) {
        ranges.push(ClassUnicodeRange::new('\u{80}', char::MAX));
    }
    ClassUnicode::new(ranges)
}

/// Whether an automaton can check this condition without looking at words.
fn is_plain(look: Look) -> bool {
    use Look::{End, EndCRLF, EndLF, Start, StartCRLF, StartLF};
    matches!(look, Start | End | StartLF | EndLF | StartCRLF | EndCRLF)
}

#[cfg(test)]
mod tests {
    use super::{Budget, SET_LEN_MAX, SETS_MAX, Set, Single, simpler};
    use crate::classes::Classes;
    use crate::program::Program;
    use crate::steps;
    use crate::tests::random::Random;
    use regex_syntax::hir::Hir;
    use std::sync::Arc;

    fn members(patterns: impl IntoIterator<Item = String>) -> Vec<(Arc<Hir>, u32)> {
        let hir = |pattern: String| Arc::new(steps::parse(&pattern, false).unwrap());
        patterns.into_iter().zip(0..).map(|(pattern, rule)| (hir(pattern), rule)).collect()
    }

    fn build(members: &[(Arc<Hir>, u32)], rest: &mut Vec<Single>) -> Vec<Set> {
        build_within(members, &mut Budget::default(), rest)
    }

    fn build_within(
        members: &[(Arc<Hir>, u32)],
        budget: &mut Budget,
        rest: &mut Vec<Single>,
    ) -> Vec<Set> {
        let simple = members.iter().map(|(hir, rule)| (Arc::new(simpler(hir)), *rule));
        super::build(&simple.collect::<Vec<_>>(), budget, rest)
    }

    fn found(sets: &[Set], text: &str) -> Vec<u32> {
        let mut rules = vec![];
        sets.iter().for_each(|set| set.find(text, &mut set.work(), &mut rules));
        rules
    }

    #[test]
    fn what_matches_is_found() {
        for seed in 0..300 {
            let mut random = Random::new(seed);
            let members = members((0..10).map(|_| random.small_regex(2)));
            let sets = build(&members, &mut vec![]);
            assert_eq!(sets.len(), 1, "seed {seed}");
            for _ in 0..20 {
                let text = random.text(10);
                let found = found(&sets, &text);
                for (hir, rule) in &members {
                    let program = Program::compile(hir, &mut Classes::default()).unwrap();
                    let matches = program.matches(&text);
                    assert!(!matches || found.contains(rule), "seed {seed}: {hir} {text:?}");
                }
            }
        }
    }

    #[test]
    fn sets_tell_apart_what_ascii_tells_apart() {
        let members = members((1..=8).map(|n| format!("^\\w{{{n}}}\\d$")));
        let sets = build(&members, &mut vec![]);
        assert_eq!(found(&sets, "abc1"), [2]);
        assert_eq!(found(&sets, "abc"), []);
    }

    #[test]
    fn a_set_that_gives_up_names_all_its_rules() {
        // Each of these needs a state for every combination of the last letters; no text here matches.
        let members = members((12..20).map(|n| format!("[ab]*a[ab]{{{n}}}[cd]")));
        let sets = build(&members, &mut vec![]);
        let mut random = Random::new(1);
        let text: String = (0..20_000).map(|_| random.pick(&["a", "b"])).collect();
        assert_eq!(found(&sets, &text), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(found(&sets, "ab"), [], "it does not give up on a short text");
    }

    #[test]
    fn number_and_size_of_sets_are_bounded() {
        let many = SET_LEN_MAX * SETS_MAX + 5;
        let mut rest = vec![];
        let mut budget = Budget::default();
        let short = members((0..many).map(|_| "[a-z]".to_owned()));
        let sets = build_within(&short, &mut budget, &mut rest);
        assert_eq!((sets.len(), rest.len()), (SETS_MAX, 5));
        let more = build_within(&short, &mut budget, &mut rest);
        assert_eq!((more.len(), rest.len()), (0, many + 5), "one bound for all attributes");
        let mut rest = vec![];
        let large = members((0..8).map(|n| format!("[ab]{{{}}}", 9_000 + n)));
        assert_eq!(build(&large, &mut rest).len(), 0);
        let fitting = |len: usize| rest.iter().filter_map(|one| one.fits(len)).collect::<Vec<_>>();
        assert_eq!(fitting(9_007), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(fitting(9_002), [0, 1, 2], "a value must be long enough");
        let few = members(["[a-z]".to_owned()]);
        assert_eq!(build(&few, &mut rest).len(), 0, "a few are tried one by one");
        let (mut rest, exact) = (vec![], members(["^[ab]{3}$".to_owned(), "^[ab]{3}".to_owned()]));
        build(&exact, &mut rest);
        let fitting = |len: usize| rest.iter().filter_map(|one| one.fits(len)).collect::<Vec<_>>();
        assert_eq!((fitting(2), fitting(3), fitting(4)), (vec![], vec![0, 1], vec![1]));
    }
}
