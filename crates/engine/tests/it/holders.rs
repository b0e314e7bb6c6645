//! A running request counts where it was admitted until it ends, whatever is edited meanwhile (P1); and a
//! request that cannot reach its server returns to waiting.

use crate::script::holds;

/// P1: a key that is changed and changed back (6 of 2 ran).
#[test]
fn holders_count_by_the_key_of_now_p1() {
    holds(
        "\
checkpoint few at=\"frontend api\" key=user concurrency=2
submit a user=ann host=east
  -> a started
submit b user=ann host=west
  -> b started
checkpoint few at=\"frontend api\" key=host concurrency=2
counter inflight few east
  -> 1
counter inflight few west
  -> 1
submit c user=ann host=east
  -> c started
checkpoint few at=\"frontend api\" key=user concurrency=2
counter inflight few ann
  -> 3
submit d user=ann host=east
  -> d waits at checkpoint \"few\" (key \"ann\"), behind a b c, at most until 30s
settle a
settle b
  -> 0s d started
",
    );
}

/// P1: a checkpoint that is deleted and created again under its name, even with another key.
#[test]
fn a_checkpoint_that_comes_back_counts_who_passed_it_p1() {
    holds(
        "\
checkpoint few at=\"frontend api\" concurrency=2
submit a user=ann
  -> a started
submit b user=bob
  -> b started
delete-checkpoint few
submit c user=ann
  -> c started
checkpoint few at=\"frontend api\" key=user concurrency=1
counter inflight few
  -> 2
submit d user=ann
  -> d waits at checkpoint \"few\" (key \"ann\"), behind a, at most until 30s
settle a
  -> 0s d started
",
    );
}

/// P1: a server that is deleted while it is busy and created again, under another number.
#[test]
fn a_server_that_comes_back_counts_who_is_there_p1() {
    holds(
        "\
backend app server=one,max:1 server=two,max:1
frontend web backend=app
submit a frontend=web
  -> a started at app/one
submit b frontend=web
  -> b started at app/two
backend app server=two,max:1
backend app server=one,max:1 server=two,max:1
servers
  -> app/one up, 1 held
  -> app/two up, 1 held
submit c frontend=web
  -> c waits at checkpoint \"servers of app\", behind a b, at most until 30s
settle a
  -> 0s c started at app/one
",
    );
}

/// A request that cannot connect waits for the server that it has not tried, before requests that arrived
/// later, and not for the one that is down.
#[test]
fn who_cannot_connect_goes_back_with_its_rank() {
    holds(
        "\
backend app server=one,max:1 server=two,max:1
frontend web backend=app
submit a frontend=web
  -> a started at app/one
submit b frontend=web
  -> b started at app/two
advance 1s
submit c frontend=web
  -> c waits at checkpoint \"servers of app\", behind a b, at most until 31s
down app/one
reroute a
  -> back
settle b
  -> 1s a started at app/two
reroute a
  -> none
up app/one
  -> 1s c started at app/one
",
    );
}

/// The same for a request whose server an edit deleted before it could connect.
#[test]
fn who_lost_its_server_to_an_edit_waits_for_another() {
    holds(
        "\
backend app server=one,max:1 server=two,max:1
frontend web backend=app
submit a frontend=web
  -> a started at app/one
submit b frontend=web
  -> b started at app/two
backend app server=two,max:1
reroute a
  -> back
settle b
  -> 0s a started at app/two
",
    );
}
