//! Requests that have a server, or wait for one.

use crate::script::holds;

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
  -> c waits for a slot of pool \"default\", behind b a
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

/// If no other server has room it waits for one at the gate, with its rank; if there is no other server it is
/// refused.
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
  -> 0s d refused: no server of backend \"app\" is up or has a weight
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
  -> 2s c refused: backend \"app\" was deleted while the request waited for it
",
    );
}

/// Other doors submit no connections; a limit at a frontend that does not exist is hardly intended.
#[test]
fn connections_are_limited_at_configured_frontends() {
    holds(
        "\
checkpoint a at=\"frontend web\" on=connection count
checkpoint b at=\"frontend api\" on=connection count
  -> error: checkpoint \"b\", on: connections of frontend \"api\" are not limited, only those of configured frontends
checkpoint b at=\"frontend sql\" on=connection count
  -> error: checkpoint \"b\", on: connections of frontend \"sql\" are not limited, only those of configured frontends
checkpoint b at=\"frontend ovsdb\" on=connection count
  -> error: checkpoint \"b\", on: connections of frontend \"ovsdb\" are not limited, only those of configured frontends
checkpoint b at=\"frontend api\" count
backend app server=one
frontend webb backend=app
frontend web backend=app
",
    );
}

#[test]
fn servers_without_a_weight_are_none() {
    holds(
        "\
backend app server=one,weight:0 server=two,weight:0
frontend web backend=app
submit a frontend=web
  -> a refused: no server of backend \"app\" is up or has a weight
",
    );
}

/// A server, or its backend, may be renamed while a request has it.
#[test]
fn renames_follow_the_seat() {
    holds(
        "\
checkpoint slow at=\"server app/one\" rate=1/s
checkpoint each at=\"pool default\" key=server count
backend app server=one server=two,weight:0
frontend web backend=app
submit a frontend=web
  -> a started at app/one
submit b frontend=web
  -> b waits at checkpoint \"slow\", until 1s, at most until 30s
submit c frontend=web
  -> c waits at checkpoint \"slow\", behind b, until 2s, at most until 30s
rename-server app/one uno
advance 1s
  -> 1s b started at app/uno
counter inflight each app/uno
  -> 1
backend app server=uno,at:one server=two
down app/uno
  -> 1s c started at app/two
counter inflight each app/two
  -> 1
",
    );
}

/// For the lists of frontend and backend a request has no server yet, whatever it would get.
#[test]
fn explain_names_the_server_behind_the_backend_alone() {
    holds(
        "\
checkpoint f at=\"frontend web\" key=server concurrency=1
checkpoint b at=\"backend app\" when='server == \"\"' concurrency=1
checkpoint s at=\"server app/one\" key=server concurrency=1
checkpoint p at=\"pool default\" key=server concurrency=1
backend app server=one
frontend web backend=app
explain frontend=web
  -> backend \"app\", server \"app/one\"
  -> priority 0, pool \"default\"
  -> checkpoint \"f\" (key \"\"): would pass
  -> checkpoint \"b\": would pass
  -> checkpoint \"s\" (key \"app/one\"): would pass
  -> checkpoint \"p\" (key \"app/one\"): would pass
  -> would start
submit a frontend=web
  -> a started at app/one
counter inflight f ''
  -> 1
counter inflight p app/one
  -> 1
",
    );
}

/// A request that returns to the gate because its server went down has the rest of its wait there (S2), and
/// waits there even beyond `max_len`, because it was let through before.
#[test]
fn who_comes_back_to_the_gate_keeps_its_deadline_s2() {
    holds(
        "\
checkpoint slow at=\"server app/one\" rate=1/5s
backend app len=1 delay=10s server=one,max:1 server=two,max:1
frontend web backend=app
submit a frontend=web
  -> a started at app/one
submit b frontend=web
  -> b started at app/two
submit c frontend=web
  -> c waits at checkpoint \"servers of app\", behind a b, at most until 10s
advance 1s
settle a
why c
  -> c waits at checkpoint \"slow\", until 5s, at most until 31s
submit d frontend=web
  -> d waits at checkpoint \"servers of app\", behind b c, at most until 11s
down app/one
why c
  -> c waits at checkpoint \"servers of app\", behind b, at most until 10s
submit e frontend=web
  -> e refused: checkpoint \"servers of app\": the queue is full, 1 may wait; come back in 1s
advance 10s
  -> 10s c refused: checkpoint \"servers of app\": waited 10s; come back in 1s
  -> 11s d refused: checkpoint \"servers of app\": waited 10s; come back in 1s
",
    );
}

/// One call tries as many servers as the backend has retries, plus one. Then the request returns to waiting,
/// and gets the next.
#[test]
fn reroute_tries_a_few_servers() {
    holds(
        "\
checkpoint none-b at=\"server app/b\" concurrency=0
checkpoint none-c at=\"server app/c\" concurrency=0
checkpoint none-d at=\"server app/d\" concurrency=0
backend app server=a server=b server=c server=d server=e
frontend web backend=app
submit x frontend=web
  -> x started at app/a
reroute x
  -> back
  -> 0s x started at app/e
new
checkpoint none-b at=\"server app/b\" concurrency=0
checkpoint none-c at=\"server app/c\" concurrency=0
checkpoint none-d at=\"server app/d\" concurrency=0
backend app retries=3 server=a server=b server=c server=d server=e
frontend web backend=app
submit y frontend=web
  -> y started at app/a
reroute y
  -> app/e
",
    );
}
