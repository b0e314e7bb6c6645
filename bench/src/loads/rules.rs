//! Requests against more and more rules, and the same rules tried one by one.

use super::engine::{engine, owns, prepare_all};
use super::one_by_one::{Asking, NoNames, OneByOne};
use super::rule_mix;
use crate::Outcome;
use crate::measure::{Bench, Load, Unit, time};
use paceline_engine::{Config, Engine, Outcome as Submitted, Prepared, prepare};
use paceline_rules::{Rule, Ruleset, Verdict};
use paceline_types::{Priority, Reason, Request, Time};
use std::hint::black_box;
use std::time::Duration;

const SIZES: [usize; 3] = [10, 1_000, 10_000];

/// Requests, each with a different text.
const REQUESTS: usize = 20_000;

/// Requests that are prepared together, so that they are still in the cache when they are submitted.
const BATCH: usize = 250;

/// Rules that one round of one-by-one matching tries.
const TRIED: usize = 500_000;

const fn load(name: &'static str, operation: &'static str) -> Load {
    Load { name, operation, of: "rules", unit: Unit::Nanoseconds }
}

const WHOLE: Load =
    load("rules, whole request", "prepare, submit and settle of requests with 20,000 texts");
const PREPARE: Load = load("rules, prepare", "prepare alone, which needs no lock");
const LOCKED: Load = load("rules, submit+settle", "submit and settle alone, as under the lock");
const COUNTERS: Load = load(
    "rules, counters",
    "submit and settle alone where one rule reads a counter, so that they decide",
);
const PLAIN: Load = load("rules, one by one", "the verdict of every rule tried in turn");
const COMPILE: Load = load("rules, compile", "the whole list compiled");

/// Runs the loads.
pub fn run(bench: &mut Bench) -> Outcome<()> {
    if !bench.wants(&[WHOLE, PREPARE, LOCKED, COUNTERS, PLAIN, COMPILE]) {
        return Ok(());
    }
    let requests = rule_mix::requests(REQUESTS)?;
    for size in SIZES {
        let rules = rule_mix::rules(size)?;
        let mut engine = engine(Config { rules: rules.clone(), ..Config::default() })?;
        bench.run(WHOLE, size, || whole(&mut engine, &requests))?;
        bench.run(PREPARE, size, || halves(&mut engine, &requests).map(|(first, _)| first))?;
        bench.run(LOCKED, size, || halves(&mut engine, &requests).map(|(_, second)| second))?;
        if bench.wants(&[COUNTERS]) {
            let mut engine = counting(rules.clone())?;
            let mut round = || halves(&mut engine, &requests).map(|(_, second)| second);
            bench.run(COUNTERS, size, &mut round)?;
        }
        if bench.wants(&[PLAIN]) {
            plain(bench, &rules, &requests)?;
        }
        if bench.wants(&[COMPILE]) {
            bench.run(COMPILE, size, || {
                let (taken, done) = time(|| Ruleset::compile(black_box(&rules), &NoNames));
                done?;
                Ok((taken, 1))
            })?;
        }
    }
    Ok(())
}

fn whole(engine: &mut Engine, requests: &[Request]) -> Outcome<(Duration, usize)> {
    let snapshot = engine.snapshot();
    let mut all = Duration::ZERO;
    for batch in requests.chunks(BATCH) {
        let batch = batch.to_vec();
        let (taken, done) = time(|| -> Outcome<()> {
            for request in batch {
                go_through(engine, prepare(&snapshot, request)?)?;
            }
            Ok(())
        });
        done?;
        all += taken;
    }
    Ok((all, requests.len()))
}

type Half = (Duration, usize);

/// Times preparing and submitting separately.
fn halves(engine: &mut Engine, requests: &[Request]) -> Outcome<(Half, Half)> {
    let (mut first, mut second) = (Duration::ZERO, Duration::ZERO);
    for batch in requests.chunks(BATCH) {
        let batch = batch.to_vec();
        let (taken, prepared) = time(|| prepare_all(engine, batch));
        first += taken;
        let prepared = prepared?;
        let (taken, done) =
            time(|| prepared.into_iter().try_for_each(|prepared| go_through(engine, prepared)));
        second += taken;
        done?;
    }
    Ok(((first, requests.len()), (second, requests.len())))
}

/// Submits and settles a request. Very few requests are rejected by a rule.
fn go_through(engine: &mut Engine, prepared: Prepared) -> Outcome<()> {
    match black_box(engine.submit(Time(1), prepared, &owns)) {
        (id, Submitted::Started) if engine.settle(Time(1), id) => Ok(()),
        (_, Submitted::Refused(refusal)) if is_rejection(&refusal.reason) => Ok(()),
        (_, other) => Err(format!("a request did not run: {other:?}").into()),
    }
}

fn is_rejection(reason: &Reason) -> bool {
    matches!(reason, Reason::Rejected { .. })
}

/// The same rules, one of which reads a counter.
fn counting(mut rules: Vec<Rule>) -> Outcome<Engine> {
    let last = rules.last().map_or(1, |rule| rule.number);
    let text = format!("{} kind exact sql when 'running(\"default\") > 50' lower 1", last + 1);
    rules.push(Rule::parse(&text)?);
    engine(Config { rules, ..Config::default() })
}

/// Tries the rules one by one, after checking that the verdicts are the same.
fn plain(bench: &mut Bench, rules: &[Rule], requests: &[Request]) -> Outcome<()> {
    let compiled = Ruleset::compile(rules, &NoNames)?;
    let one_by_one = OneByOne::new(rules)?;
    let some = &requests[..(TRIED / rules.len()).min(REQUESTS)];
    for request in some {
        let expected = verdict(&compiled, request)?;
        if one_by_one.decide(&request.attributes) != expected {
            return Err(format!("one-by-one matching differs from {expected:?}").into());
        }
    }
    bench.run(PLAIN, rules.len(), || {
        let decide = |request: &Request| {
            black_box(one_by_one.decide(&request.attributes));
        };
        let (taken, ()) = time(|| some.iter().for_each(decide));
        Ok((taken, some.len()))
    })
}

/// The verdict of an engine with these rules for a request.
fn verdict(rules: &Ruleset, request: &Request) -> Outcome<Verdict> {
    let attributes = &request.attributes;
    let asking = Asking { attributes, priority: Priority::START };
    Ok(rules.decide(&rules.candidates(attributes), &asking).verdict)
}
