//! What lists, figures and `status` show agrees with what the daemon does.

use paceline_tests::server::paceline_binary;
use paceline_tests::{Daemon, Launch, Scratch, until};
use serde_json::{Value, json};
use std::net::TcpListener;
use std::process::Command;

/// Runs a command against the daemon: exit code, and output.
fn run(daemon: &Daemon, words: &[&str]) -> (i32, String) {
    let mut command = Command::new(paceline_binary());
    let output = command.args(words).arg("--data").arg(daemon.data()).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(text).unwrap())
}

/// A limit on trial reports what it would have done; otherwise it is no trial.
#[test]
fn a_checkpoint_that_watches_counts_what_it_would_have_done() {
    let scratch = Scratch::new();
    let daemon = Launch::new(&scratch).start().unwrap();
    let mut api = daemon.api();
    let trial = json!({"at": "frontend api", "rate": "1 per 1h", "burst": 1, "mode": "watch",
        "queue": {"max_len": 0}});
    let _ = api.call("PUT", "/v1/checkpoints/trial", &trial).expect(201);
    let few =
        json!({"at": "frontend api", "concurrency": 1, "mode": "watch", "queue": {"max_len": 9}});
    let _ = api.call("PUT", "/v1/checkpoints/few", &few).expect(201);
    for _ in 0..4 {
        let _ = api.call("POST", "/v1/permits", &json!({})).expect(201);
    }
    let figures = |api: &mut paceline_tests::Api, name: &str| {
        let list = api.get("/v1/checkpoints").expect(200);
        let one = list.as_array().unwrap().iter().find(|one| one["name"] == name).unwrap();
        let figure = |figure: &str| one["figures"][figure].as_u64().unwrap();
        (figure("passed"), figure("refused"), figure("would_refuse"), figure("would_wait"))
    };
    assert_eq!(figures(&mut api, "trial"), (4, 0, 3, 0));
    assert_eq!(figures(&mut api, "few"), (4, 0, 0, 3));
    let metrics = api.get("/metrics").text;
    let shown = "paceline_checkpoint_would_refuse_total{checkpoint=\"trial\"} 3\n";
    assert!(metrics.contains(shown), "{metrics}");
    let (code, told) = run(&daemon, &["checkpoints"]);
    assert!(code == 0 && told.contains("watch: would refuse 3, hold 0"), "{told}");
}

/// A start that fails leaves nothing behind that the next start takes for good: it fails in the same way.
#[test]
fn a_first_start_that_fails_fails_again() {
    let scratch = Scratch::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let text = |settings: &str| {
        format!(
            "[[frontend]]\nname = 'web'\nbackend = 'app'\n{settings}\n\
             [[backend]]\nname = 'app'\nservers = [{{ address = '127.0.0.1:1' }}]\n"
        )
    };
    let files = [
        (
            "missing.toml",
            text("listen = '127.0.0.1:0'\ntls = { certificate = 'none.pem', key = 'none.key' }"),
            "none.pem",
        ),
        ("taken.toml", text(&format!("listen = '{address}'")), address.as_str()),
    ];
    for (name, text, reason) in files {
        let file = scratch.write(name, text);
        let launch = Launch::new(&scratch).option("--config", &file);
        for _ in 0..2 {
            let ended = launch.start().err().unwrap_or_else(|| panic!("{name}: it serves"));
            assert!(ended.log.contains(reason), "{}", ended.log);
        }
    }
    // Another door that cannot be opened, with a file that is right.
    let file = scratch.write("right.toml", text("listen = '127.0.0.1:0'"));
    let ended = Launch::new(&scratch).api(&address).option("--config", &file).start();
    assert!(ended.is_err(), "it serves");
    let daemon = Launch::new(&scratch).start().unwrap();
    assert_eq!(daemon.api().get("/v1/frontends").expect(200), json!([]), "nothing was applied");
}

/// `paceline frontends` says that an address could not be bound, and why.
#[test]
fn a_frontend_that_cannot_listen_is_shown_with_the_reason() {
    let scratch = Scratch::new();
    let daemon = Launch::new(&scratch).start().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let text = format!(
        "[[frontend]]\nname = 'web'\nlisten = '{address}'\nbackend = 'app'\n\
         [[backend]]\nname = 'app'\nservers = [{{ address = '127.0.0.1:1' }}]\n"
    );
    let file = scratch.write("web.toml", text);
    let _ = run(&daemon, &["apply", file.to_str().unwrap()]);
    let problem = || daemon.api().get("/v1/frontends").expect(200)[0]["figures"]["problem"].clone();
    let _ = until(problem, Value::is_string);
    let (_, told) = run(&daemon, &["frontends"]);
    let line =
        told.lines().find(|line| line.starts_with("web: ")).unwrap_or_else(|| panic!("{told}"));
    assert!(line.contains(&address), "{told}");
}

/// Rules that only run until the next restart, and saved ones that are in use after it, are not a surprise.
#[test]
fn status_and_doctor_say_that_a_restart_changes_the_rules() {
    let scratch = Scratch::new();
    let daemon = Launch::new(&scratch).start().unwrap();
    let differ = "which differ: a restart brings back the saved ones";
    let told =
        |words: &[&str]| run(&daemon, words).1.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(!told(&["status"]).contains(differ));
    assert_eq!(run(&daemon, &["rules", "new", "--match", "user=eva", "--lower", "5"]).0, 0);
    assert!(told(&["status"]).contains(&format!("1 running and 0 saved, {differ}")));
    assert!(told(&["doctor"]).contains(differ));
    assert_eq!(run(&daemon, &["rules", "save"]).0, 0);
    assert!(!told(&["status"]).contains(differ) && !told(&["doctor"]).contains(differ));
}

/// A request that waits at a checkpoint is not in line for its claims yet: `tree` and `resources` agree.
#[test]
fn the_tree_shows_only_requests_that_are_in_line() {
    let scratch = Scratch::new();
    let daemon = Launch::new(&scratch).start().unwrap();
    let mut api = daemon.api();
    let _ = api.call("PUT", "/v1/resources/db", &json!({})).expect(201);
    let one = json!({"at": "frontend api", "concurrency": 1, "queue": {"max_len": 9}});
    let _ = api.call("PUT", "/v1/checkpoints/one", &one).expect(201);
    let held = api.call("POST", "/v1/permits", &json!({})).expect(201);
    let mut waits = daemon.api();
    waits.send("POST", "/v1/permits", Some(&json!({"claims": [{"resource": "db"}]}).to_string()));
    let queued = || daemon.api().get("/v1/checkpoints").expect(200)[0]["figures"]["queued"].clone();
    let _ = until(queued, |queued| *queued == 1);
    let node =
        |api: &mut paceline_tests::Api| -> Value { api.get("/v1/tree").expect(200)[0].clone() };
    assert_eq!(node(&mut api)["waiters"], json!([]));
    assert_eq!(api.get("/v1/resources").expect(200)[0]["figures"]["waiting"], 0);
    let _ = api.delete(&format!("/v1/permits/{}", held["permit"].as_str().unwrap())).expect(204);
    let granted = waits.answer().expect(201);
    assert_eq!(node(&mut api)["holders"], json!([granted["request"]]));
}
