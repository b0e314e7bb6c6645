//! Which configurations are accepted, and the errors of those that are not.

use super::{CheckpointSet, Warning};
use crate::at::At;
use crate::limit::Limit;
use crate::spec::{CHECKPOINTS_MAX, KEYS_MAX_MAX, QueueSpec, Spec, WAITERS_MAX};
use paceline_expr::Scope;
use paceline_types::{CheckpointId, On, PoolId, Span, limits};

struct Names;

impl Scope for Names {
    fn checkpoint(&self, name: &str) -> Option<CheckpointId> {
        (name == "per-user").then_some(CheckpointId(1))
    }
    fn pool(&self, name: &str) -> Option<PoolId> {
        (name == "batch").then_some(PoolId(1))
    }
    fn names(&self) -> Vec<&str> {
        vec!["per-user", "batch"]
    }
}

fn spec(id: u32, name: &str) -> Spec {
    let rate = Limit::Rate { count: 5, per: Span::from_secs(1), burst: 1 };
    Spec::new(CheckpointId(id), name, At::Frontend("api".into()), rate)
}

/// The error for one checkpoint with one setting changed.
fn said(change: impl Fn(&mut Spec)) -> String {
    let mut spec = spec(1, "per-user");
    change(&mut spec);
    CheckpointSet::compile(vec![spec], &Names).map_or_else(|e| e.to_string(), |_| "fine".into())
}

#[test]
fn settings_out_of_range_are_named() {
    let rate = |count, per, burst| Limit::Rate { count, per: Span(per), burst };
    type Case<'a> = (&'a str, &'a dyn Fn(&mut Spec));
    let cases: [Case<'_>; 19] = [
        ("fine", &|_| ()),
        ("fine", &|s| s.keys_max = KEYS_MAX_MAX),
        ("checkpoint \"\", name: expected 1 to 1024 bytes", &|s| s.name = "".into()),
        ("checkpoint \"per-user\", status: expected 400 to 599, found 399", &|s| s.status = 399),
        ("checkpoint \"per-user\", status: expected 400 to 599, found 600", &|s| s.status = 600),
        ("checkpoint \"per-user\", keys_max: expected 1 to 100000000, found 0", &|s| {
            s.keys_max = 0;
        }),
        ("checkpoint \"per-user\", keys_max: expected 1 to 100000000, found 100000001", &|s| {
            s.keys_max = KEYS_MAX_MAX + 1;
        }),
        ("checkpoint \"per-user\", rate: expected more than zero", &|s| s.limit = rate(0, 1, 1)),
        ("checkpoint \"per-user\", rate: expected more than zero", &|s| s.limit = rate(1, 0, 1)),
        ("checkpoint \"per-user\", burst: expected more than zero", &|s| s.limit = rate(1, 1, 0)),
        ("checkpoint \"per-user\", burst: the burst may take at most 36500d to come back", &|s| {
            s.limit = rate(1, 86_400_000_000_000, 36_501);
        }),
        ("checkpoint \"per-user\", period: expected more than zero", &|s| {
            s.limit = Limit::Count;
            s.period = Span::ZERO;
        }),
        ("checkpoint \"per-user\", weight: there is no fair that it could weigh", &|s| {
            s.weight = Some("2".into());
        }),
        ("fine", &|s| {
            s.queue = QueueSpec { len_max: WAITERS_MAX, total_max: WAITERS_MAX, ..s.queue }
        }),
        (
            "checkpoint \"per-user\", queue.max_len: expected at most 10000000, found 10000001",
            &|s| {
                s.queue.len_max = WAITERS_MAX + 1;
            },
        ),
        (
            "checkpoint \"per-user\", queue.max_total: expected at most 10000000, found 10000001",
            &|s| s.queue.total_max = WAITERS_MAX + 1,
        ),
        (
            "checkpoint \"per-user\", fair: without rate or concurrency it only counts and has no queue",
            &|s| {
                s.limit = Limit::Count;
                s.fair = Some("user".into());
            },
        ),
        (
            "checkpoint \"per-user\", queue: without rate or concurrency it only counts and has no queue",
            &|s| {
                s.limit = Limit::Count;
                s.queue.len_max = 5;
            },
        ),
        ("fine", &|s| s.limit = Limit::Count),
    ];
    for (expected, change) in cases {
        assert_eq!(said(change), expected);
    }
    let long = "x".repeat(limits::NAME_BYTES_MAX + 1);
    assert!(said(|s| s.name = long.as_str().into()).ends_with("expected 1 to 1024 bytes"));
}

#[test]
fn expressions_are_compiled_and_placed() {
    assert_eq!(said(|s| s.when = Some("rate(\"per-user\", user) > 10.0".into())), "fine");
    assert_eq!(said(|s| s.key = Some("header[\"x-user\"]".into())), "fine");
    let both = |s: &mut Spec| {
        s.key = Some("client".into());
        s.fair = Some("user".into());
        s.weight = Some("user == \"eva\" ? 3 : 1".into());
    };
    assert_eq!(said(both), "fine");
    let broken = said(|s| s.when = Some("user ==".into()));
    assert!(broken.starts_with("checkpoint \"per-user\", when: "), "{broken}");
    for field in ["key", "fair", "weight"] {
        let text = if field == "weight" {
            "inflight(\"per-user\")"
        } else {
            "string(inflight(\"per-user\"))"
        };
        let reads = said(|s| {
            s.fair = Some("user".into());
            let setting = match field {
                "key" => &mut s.key,
                "fair" => &mut s.fair,
                _ => &mut s.weight,
            };
            *setting = Some(text.into());
        });
        assert_eq!(reads, format!("checkpoint \"per-user\", {field}: only when may read counters"));
    }
}

#[test]
fn an_expression_error_has_its_place() {
    let mut wrong = spec(1, "per-user");
    wrong.key = Some("user +\n 1".into());
    let error = CheckpointSet::compile(vec![wrong], &Names).unwrap_err();
    let crate::spec::Problem::Expression(place) = &error.problem else { panic!("{error}") };
    assert!(place.line >= 1 && place.offset <= 9, "{place:?}");
    assert!(std::error::Error::source(&error).is_some());
}

#[test]
fn names_and_numbers_occur_once() {
    let twice = |a, b| CheckpointSet::compile(vec![a, b], &Names).unwrap_err().to_string();
    assert_eq!(
        twice(spec(1, "a"), spec(2, "a")),
        "checkpoint \"a\", name: another checkpoint has the same"
    );
    assert_eq!(
        twice(spec(1, "a"), spec(1, "b")),
        "checkpoint \"b\", id: another checkpoint has the same"
    );
    let many = (0..=CHECKPOINTS_MAX as u32).map(|id| spec(id, &id.to_string())).collect();
    let error = CheckpointSet::compile(many, &Names).unwrap_err().to_string();
    assert_eq!(error, "checkpoint \"10000\", name: there may be at most 10000 checkpoints");
}

#[test]
fn requests_and_connections_are_warned_of_apart() {
    use On::{Connection, Request};
    let count = |on_concurrency: On, on_rate: On| {
        let mut specs = vec![spec(1, "few"), spec(2, "slow")];
        specs[0].limit = Limit::Concurrency(3);
        (specs[0].on, specs[0].number) = (on_concurrency, 10);
        (specs[1].on, specs[1].number) = (on_rate, 20);
        let set = CheckpointSet::compile(specs, &Names).unwrap();
        set.warnings().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    // A connection has passed all its checkpoints before its first request arrives.
    assert!(count(Connection, Request).is_empty());
    assert!(count(Request, Connection).is_empty());
    assert_eq!(count(Request, Request).len(), 1);
    let [warning] = &count(Connection, Connection)[..] else { panic!("not one") };
    assert!(warning.starts_with("frontend api: connections hold a count"), "{warning}");
}

#[test]
fn lists_are_in_order_and_warn() {
    let mut specs = vec![spec(5, "five"), spec(2, "two"), spec(9, "nine"), spec(4, "four")];
    specs[0].number = 10;
    specs[1].number = 20;
    specs[1].limit = Limit::Concurrency(3);
    specs[2].number = 20;
    specs[3].at = At::Pool("batch".into());
    let set = CheckpointSet::compile(specs, &Names).unwrap();
    let names = |at: At| {
        set.list(&at).iter().map(|checked| checked.spec.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(At::Frontend("api".into())), ["five", "two", "nine"]);
    assert_eq!(names(At::Pool("batch".into())), ["four"]);
    assert!(names(At::Backend("db".into())).is_empty());
    assert_eq!(set.iter().count(), 4);
    assert_eq!(set.checkpoint(CheckpointId(4)).unwrap().spec.number, 0);
    let [warning] = set.warnings() else { panic!("{:?}", set.warnings()) };
    assert_eq!(
        *warning,
        Warning::ConcurrencyBeforeRate {
            at: At::Frontend("api".into()),
            on: On::Request,
            concurrency: "two".into(),
            rate: "nine".into()
        }
    );
    assert_eq!(
        warning.to_string(),
        "frontend api: requests hold a count of checkpoint \"two\" while they wait at the rate of \
         checkpoint \"nine\", which comes later"
    );
}

/// Few attributes of a connection are known. Others are refused, and the error lists what may be read.
#[test]
fn expressions_for_connections_read_what_connections_have() {
    let of = |change: &dyn Fn(&mut Spec)| {
        said(|s| {
            s.on = On::Connection;
            change(s);
        })
    };
    for name in ["kind", "frontend", "client", "host"] {
        assert_eq!(of(&|s| s.key = Some(name.into())), "fine");
        assert_eq!(of(&|s| s.when = Some(format!("{name} == 'a'"))), "fine");
    }
    let rest = "of connections, kind, frontend, client and host may be read";
    for (text, name) in [
        ("user", "user"),
        // It arrives with the TLS handshake, and a connection must be let in before that.
        ("sni", "sni"),
        ("path", "path"),
        ("server", "server"),
        ("client + header['X-A']", "header.x-a"),
        ("attr['team']", "team"),
        ("string(priority)", "priority"),
    ] {
        let expected = |field| {
            format!("checkpoint \"per-user\", {field}: a connection has no `{name}`; {rest}")
        };
        assert_eq!(of(&|s| s.key = Some(text.into())), expected("key"));
        assert_eq!(of(&|s| s.fair = Some(text.into())), expected("fair"));
        assert_eq!(of(&|s| s.when = Some(format!("{text} == ''"))), expected("when"));
        let weight = |s: &mut Spec| {
            s.fair = Some("client".into());
            s.weight = Some(format!("size({text})"));
        };
        assert_eq!(of(&weight), expected("weight"));
    }
}
