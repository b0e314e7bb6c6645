//! Expressions over requests with more and more headers.

use super::engine::{engine, request, submit_to_start};
use crate::Outcome;
use crate::measure::{Bench, Load, Unit, time};
use paceline_checkpoints::{At, Limit, Spec};
use paceline_engine::{Config, Engine, prepare};
use paceline_expr::{Counter, Expr, Input, Kind, Scope, compile};
use paceline_types::{Attributes, CheckpointId, Name, PoolId, Priority, Span, Time};
use std::hint::black_box;
use std::time::Duration;

/// Headers of the request; the expression reads the last one.
const SIZES: [usize; 3] = [1, 10, 100];

/// Evaluations in one round.
const TIMES: usize = 20_000;

const KEY: Load = Load {
    name: "expr key",
    operation: "header[\"x-user\"], the last header of the request",
    of: "headers",
    unit: Unit::Nanoseconds,
};
const TEXT: Load = Load {
    name: "expr when, attributes",
    operation: "a condition that looks at the method, the path and a header; all hold",
    of: "headers",
    unit: Unit::Nanoseconds,
};
const COUNTERS: Load = Load {
    name: "expr when, counters",
    operation: "rate(\"per-user\", user) > 100.0 || waiting(\"default\") > 50, both read",
    of: "headers",
    unit: Unit::Nanoseconds,
};

/// Runs the loads.
pub fn run(bench: &mut Bench) -> Outcome<()> {
    if !bench.wants(&[KEY, TEXT, COUNTERS]) {
        return Ok(());
    }
    let key = compile(r#"header["x-user"]"#, Kind::Key, &Names)?;
    let text = r#"method == "POST" && path.startsWith("/api/") && header["x-user"] != """#;
    let text = compile(text, Kind::Condition, &Names)?;
    let counters = r#"rate("per-user", user) > 100.0 || waiting("default") > 50"#;
    let counters = compile(counters, Kind::Condition, &Names)?;
    for size in SIZES {
        let engine = metered()?;
        let attributes = attributes(size)?;
        let asking = Asking { attributes: &attributes, engine: &engine };
        bench.run(KEY, size, || {
            let (taken, all) = time(|| {
                let hit = |_| black_box(&key).key(&asking).is_ok_and(|key| key.len() == 6);
                (0..TIMES).all(hit)
            });
            if all { Ok((taken, TIMES)) } else { Err("the key is another".into()) }
        })?;
        bench.run(TEXT, size, || conditions(&text, &asking, true))?;
        bench.run(COUNTERS, size, || conditions(&counters, &asking, false))?;
    }
    Ok(())
}

fn conditions(expr: &Expr, asking: &Asking<'_>, right: bool) -> Outcome<(Duration, usize)> {
    let (taken, all) = time(|| (0..TIMES).all(|_| black_box(expr).condition(asking) == Ok(right)));
    if all { Ok((taken, TIMES)) } else { Err("the condition gave another answer".into()) }
}

/// An engine in which the user of [`attributes`] was counted.
fn metered() -> Outcome<Engine> {
    let mut spec = Spec::new(CheckpointId(1), "per-user", At::Frontend("api".into()), Limit::Count);
    spec.key = Some("user".into());
    spec.period = Span::from_secs(3_600);
    let mut engine = engine(Config { checkpoints: vec![spec], ..Config::default() })?;
    for user in 0..1_000 {
        let request = request(&[("frontend", "api"), ("user", &format!("user-{user:06}"))])?;
        let prepared = prepare(&engine.snapshot(), request)?;
        submit_to_start(&mut engine, Time(1), prepared)?;
    }
    Ok(engine)
}

fn attributes(headers: usize) -> Outcome<Attributes> {
    let mut attributes = Attributes::new();
    for (name, value) in [
        ("frontend", "api"),
        ("user", "user-000500"),
        ("method", "POST"),
        ("path", "/api/v1/orders/17"),
    ] {
        attributes.set(name, value)?;
    }
    for number in 1..headers {
        attributes.set(&format!("header.x-{number:03}"), "something")?;
    }
    attributes.set("header.x-user", "user-1")?;
    Ok(attributes)
}

struct Asking<'a> {
    attributes: &'a Attributes,
    engine: &'a Engine,
}

impl Input for Asking<'_> {
    fn attribute(&self, name: &Name) -> &str {
        self.attributes.value(name)
    }

    fn priority(&self) -> Priority {
        Priority::START
    }

    fn counter(&self, counter: Counter, key: Option<&str>) -> f64 {
        self.engine.counter(counter, key)
    }
}

/// The checkpoint of [`metered`] and the default pool.
struct Names;

impl Scope for Names {
    fn checkpoint(&self, name: &str) -> Option<CheckpointId> {
        (name == "per-user").then_some(CheckpointId(1))
    }

    fn pool(&self, name: &str) -> Option<PoolId> {
        (name == "default").then_some(PoolId::DEFAULT)
    }

    fn names(&self) -> Vec<&str> {
        vec!["per-user", "default"]
    }
}
