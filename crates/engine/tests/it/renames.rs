//! A renamed frontend is the one that listens at the same address: its requests pass its checkpoints (P1, S1).

use crate::script::holds;

#[test]
fn who_waits_at_a_renamed_frontend_passes_its_other_checkpoints_p1() {
    holds(
        "\
backend app server=one
frontend web backend=app
checkpoint paced at=\"frontend web\" rate=1/s burst=1
checkpoint few at=\"frontend web\" concurrency=1
submit a frontend=web
  -> a started at app/one
submit b frontend=web
  -> b waits at checkpoint \"paced\", until 1s, at most until 30s
submit c frontend=web
  -> c waits at checkpoint \"paced\", behind b, until 2s, at most until 30s
rename-frontends web:web2
advance 5s
counter inflight few
  -> 1
settle a
  -> 5s b started at app/one
settle b
  -> 5s c started at app/one
settle c
",
    );
}

/// Names that are exchanged follow the addresses, also for requests that were prepared before the edit.
#[test]
fn names_that_two_frontends_exchange_go_with_their_addresses_p1() {
    holds(
        "\
backend app server=one
frontend web backend=app
frontend other backend=app
checkpoint few at=\"frontend web\" concurrency=1
submit a frontend=web
  -> a started at app/one
prepare b frontend=web
prepare c frontend=other
rename-frontends web:other,other:web
submit b
  -> b waits at checkpoint \"few\", behind a, at most until 30s
submit c
  -> c started at app/one
rename-frontends web:other,other:web
rename-frontends web:x
settle a
  -> 0s b started at app/one
",
    );
}
