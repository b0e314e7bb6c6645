//! Compares the table of counters with a sorted map.

use super::{ENTRIES_MAX, MEAN_MAX, MEAN_MIN, Spot, Table};
use crate::counter::Counter;
use crate::edits::{Change, Edits};
use crate::hash::{KeyHash, KeyHasher};
use crate::pace::{Moment, Pace};
use paceline_types::{Span, Time};
use std::collections::BTreeMap;

const PERIOD: Span = Span(100);

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_889);
        (self.0 >> 33) % bound
    }
}

/// What the test knows of one key.
fn state(counter: &Counter) -> (Moment, u32) {
    (counter.tat(), counter.inflight)
}

fn touch(table: &mut Table, key: KeyHash, edits: &Edits) -> Spot {
    table.find(key, edits).unwrap_or_else(|| table.insert(key, Counter::default(), edits).unwrap())
}

fn check(table: &Table, model: &BTreeMap<KeyHash, Counter>, edits: &Edits, seed: u64) {
    assert_eq!(table.keys(), model.len(), "seed {seed}");
    for (key, counter) in model {
        let found = table.peek(*key, edits).map(|c| state(&c));
        assert_eq!(found, Some(state(counter)), "seed {seed}, {key:?}");
    }
}

#[test]
fn equals_a_sorted_map() {
    for seed in 0..60 {
        let mut random = Random(seed);
        let hasher = KeyHasher::new(u128::from(seed));
        let (mut table, mut edits) = (Table::default(), Edits::default());
        let mut model: BTreeMap<KeyHash, Counter> = BTreeMap::new();
        let mut now = Time(1_000);
        let universe = 1 + random.below(3_000);
        for step in 0..6_000 {
            now = Time(now.0 + random.below(5));
            let key = hasher.hash(&random.below(universe).to_le_bytes());
            match random.below(100) {
                0..80 => {
                    let spot = touch(&mut table, key, &edits);
                    let mine = model.entry(key).or_default();
                    let counter = table.at(spot).unwrap();
                    assert_eq!(state(counter), state(mine), "seed {seed}, step {step}");
                    let tat = Moment { ns: now.0 + random.below(2_000), fraction: 1 };
                    for counter in [counter, mine] {
                        counter.set_tat(tat);
                        counter.inflight = u32::from(tat.ns.is_multiple_of(50));
                    }
                }
                80..98 => {
                    // A whole round, in which some counters are looked at twice: counters equal to a new one
                    // are gone, all others are kept.
                    let rounds = 2 * table.keys() + table.store.tables() + 2;
                    table.sweep(rounds, now, PERIOD, &edits);
                    model.retain(|_, counter| !counter.is_fresh(now, PERIOD));
                }
                _ => {
                    let seen = edits.last();
                    let pace = |n| Pace::new(1 + n as u32 % 3, Span(1 + n % 400), 1 + n as u32 % 5);
                    let (from, to) = (pace(random.below(1_000)), pace(random.below(1_000)));
                    edits.push(Some(Change { at: now, from, to, watched: true }), false);
                    model.values_mut().for_each(|counter| edits.bring(seen, counter));
                }
            }
            if step % 500 == 0 {
                check(&table, &model, &edits, seed);
            }
        }
        check(&table, &model, &edits, seed);
        now = Time(now.0 + 10_000);
        model.values_mut().for_each(|counter| counter.inflight = 0);
        for key in model.keys() {
            let spot = table.find(*key, &edits).unwrap();
            table.at(spot).unwrap().inflight = 0;
        }
        for _ in 0..2 * table.store.tables() + 2 {
            table.sweep(table.keys() + 100, now, PERIOD, &edits);
        }
        assert_eq!((table.keys(), table.store.tables()), (0, 0), "seed {seed}: nothing is left");
    }
}

/// One sub-table is split or joined at a time: no insert moves more than a few sub-tables' worth, and the
/// mean stays within its bounds in both directions.
#[test]
fn sub_tables_stay_small() {
    let hasher = KeyHasher::new(1);
    let (mut table, edits) = (Table::default(), Edits::default());
    for key in 0..100_000u32 {
        let before = table.store.tables();
        let spot =
            table.insert(hasher.hash(&key.to_le_bytes()), Counter::default(), &edits).unwrap();
        table.at(spot).unwrap().inflight = 1;
        assert!(table.store.tables() <= before + 1);
    }
    let longest =
        |table: &Table| (0..table.store.tables()).map(|i| table.store.len_of(i)).max().unwrap();
    assert!(table.keys().div_ceil(table.store.tables()) <= MEAN_MAX);
    assert!(longest(&table) <= 4 * MEAN_MAX, "{}", longest(&table));
    for key in 0..99_000u32 {
        let spot = table.find(hasher.hash(&key.to_le_bytes()), &edits).unwrap();
        table.at(spot).unwrap().inflight = 0;
    }
    for _ in 0..40_000 {
        table.sweep(8, Time(1), PERIOD, &edits);
    }
    assert_eq!(table.keys(), 1_000);
    assert!(table.keys() >= (table.store.tables() - 1) * MEAN_MIN, "{}", table.store.tables());
    assert!(longest(&table) <= 8 * MEAN_MIN);
    while table.drop_one() {}
    assert_eq!(table.keys(), 0);
}

/// Keys that share a tag are still distinguished.
#[test]
fn equal_tags_do_not_mix_keys_up() {
    let (mut table, edits) = (Table::default(), Edits::default());
    let keys: Vec<_> = (0..40).map(|n| KeyHash([n << 32, n << 8])).collect();
    for (n, key) in keys.iter().enumerate() {
        let spot = table.insert(*key, Counter::default(), &edits).unwrap();
        table.at(spot).unwrap().inflight = n as u32 + 1;
    }
    for (n, key) in keys.iter().enumerate() {
        assert_eq!(table.peek(*key, &edits).unwrap().inflight, n as u32 + 1);
    }
    assert!(table.peek(KeyHash([99 << 32, 99 << 8]), &edits).is_none());
}

/// Keys that all belong to one sub-table fill it, and then find no place.
#[test]
fn a_sub_table_is_bounded() {
    let (mut table, edits) = (Table::default(), Edits::default());
    let key = |n: usize| KeyHash([0, n as u64]);
    for n in 0..ENTRIES_MAX {
        assert!(table.has_place(key(n)));
        assert!(table.insert(key(n), Counter::default(), &edits).is_some());
    }
    assert!(!table.has_place(key(ENTRIES_MAX)));
    assert!(table.insert(key(ENTRIES_MAX), Counter::default(), &edits).is_none());
    assert_eq!(table.keys(), ENTRIES_MAX);
    let spot = table.find(key(5), &edits).unwrap();
    table.remove(spot, &edits);
    assert!(table.insert(key(ENTRIES_MAX), Counter::default(), &edits).is_some());
    assert!(table.peek(key(5), &edits).is_none() && table.peek(key(6), &edits).is_some());
}
