//! What holds for requests that have a server, or wait for one.

use crate::script::play;

/// Plays a script and compares all its answers.
fn holds(text: &str) {
    let (actual, count) = play(text);
    assert!(count > 0, "no command");
    assert_eq!(actual, text);
}

#[test]
fn checkpoints_of_a_pool_read_the_server() {
    holds(
        "\
checkpoint each at=\"pool default\" key=server concurrency=1
checkpoint only-two at=\"pool default\" number=2 when='server == \"app/two\"' count
backend app server=one server=two
frontend web backend=app
submit a frontend=web
  -> a started at app/one
submit b frontend=web
  -> b started at app/two
submit c frontend=web
  -> c waits at checkpoint \"each\" (key \"app/one\"), behind a, at most until 30s
counter inflight each app/one
  -> 1
counter inflight only-two
  -> 1
settle a
  -> 0s c started at app/one
",
    );
}

#[test]
fn nobody_in_line_starts_on_a_deleted_server() {
    holds(
        "\
pool default max=1
checkpoint few at=\"server app/two\" concurrency=2
checkpoint all at=\"pool default\" count
resource r
backend app server=one server=two,weight:0
frontend web backend=app
submit a frontend=web
  -> a started at app/one
submit b frontend=web claim=r
  -> b waits for a slot of pool \"default\", behind a
submit c frontend=web
  -> c waits for a slot of pool \"default\", behind b
backend app server=two
advance 1s
settle a
  -> 1s b started at app/two
counter inflight few
  -> 1
counter inflight all
  -> 2
submit d claim=r
  -> d waits for resource \"r\", behind b
slept b
  -> in line 1s
settle b
  -> 1s c started at app/two
settle c
  -> 1s d started
servers
  -> app/two up, 0 held
counter inflight all
  -> 1
",
    );
}

/// With no room at another server it waits for one at the gate, with its rank; with no other server it
/// is refused.
#[test]
fn who_lost_its_server_in_line_waits_for_another_or_is_refused() {
    holds(
        "\
pool p range=1..1 max=1
rule 10 user exact p set 1 stop
backend app server=one,max:2 server=two,max:1
frontend web backend=app
submit a frontend=web user=p
  -> a started at app/one
submit b frontend=web user=q
  -> b started at app/two
submit c frontend=web user=p
  -> c waits for a slot of pool \"p\", behind a
backend app server=two,max:1
settle a
why c
  -> c waits at checkpoint \"servers of app\", behind b, at most until 30s
settle b
  -> 0s c started at app/two
backend app server=two,max:2
submit d frontend=web user=p
  -> d waits for a slot of pool \"p\", behind c
backend app
settle c
  -> 0s d refused: no server of backend \"app\" is up
",
    );
}

#[test]
fn who_sleeps_at_a_checkpoint_of_its_pool_gets_another_server_when_it_goes_on() {
    holds(
        "\
checkpoint slow at=\"pool default\" rate=1/s
backend app server=one
frontend web backend=app
submit a frontend=web
  -> a started at app/one
submit b frontend=web
  -> b waits at checkpoint \"slow\", until 1s, at most until 30s
submit c frontend=web
  -> c waits at checkpoint \"slow\", behind b, until 2s, at most until 30s
backend app server=two
advance 1s
  -> 1s b started at app/two
delete-frontend web
delete-backend app
advance 1s
  -> 2s c refused: no server of backend \"app\" is up
",
    );
}
