//! The stories of the README, each run as one script, as a reader would run it.

use paceline_tests::Scratch;
use paceline_tests::server::paceline_binary;
use std::net::TcpListener;
use std::process::{Command, Stdio};

const README: &str = include_str!("../../../README.md");

/// Maximum lines of a story, and of the whole page.
const STORY_LINES_MAX: usize = 10;
const LINES_MAX: usize = 150;

/// The scripts, in the order of the page.
fn stories() -> [String; 4] {
    let rest = README.split("<!-- story -->\n```sh\n").skip(1);
    let scripts: Vec<String> =
        rest.filter_map(|rest| rest.split("```").next()).map(str::to_owned).collect();
    scripts.try_into().unwrap()
}

fn free_port() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string()
}

/// Runs a story and returns its standard output.
fn run(script: &str) -> String {
    let scratch = Scratch::new();
    let path = format!(
        "{}:{}",
        paceline_binary().parent().unwrap().display(),
        std::env::var("PATH").unwrap()
    );
    let mut command = Command::new("bash");
    command.args(["--norc", "-c", script]).current_dir(scratch.path()).env("PATH", path);
    for name in ["PACELINE_DATA", "PACELINE_API", "PACELINE_TOKEN"] {
        command.env_remove(name);
    }
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_page_and_its_stories_are_short() {
    assert!(README.lines().count() <= LINES_MAX);
    for story in stories() {
        assert!(story.lines().count() <= STORY_LINES_MAX, "{story}");
    }
}

#[test]
fn an_http_service_is_shaped() {
    let [story, ..] = stories();
    let printed = run(&story.replace("8080", &free_port()).replace("9001", &free_port()));
    let answers = printed.lines().filter(|line| line.starts_with("200 after "));
    assert_eq!(answers.count(), 4, "{printed}");
}

#[test]
fn jobs_are_kept_apart() {
    let [_, story, ..] = stories();
    let printed = run(&story);
    // The list shows both jobs, and the second one runs only after it.
    let line = |text: &str| printed.lines().position(|line| line.contains(text));
    let done = printed.lines().position(|line| line == "done");
    assert!(line("sleep 3").is_some() && line("sleep 3") < done, "{printed}");
    assert!(line("echo done").is_some() && line("echo done") < done, "{printed}");
}

#[test]
fn each_owner_of_a_lock_has_a_higher_number() {
    let [_, _, story, _] = stories();
    let printed = run(&story);
    let number = |owner: &str| -> u64 {
        let line = printed.lines().find_map(|line| line.strip_prefix(owner));
        line.and_then(|number| number.trim().parse().ok()).unwrap_or_else(|| panic!("{printed}"))
    };
    assert!(number("the first owner has") < number("the next one has"), "{printed}");
}

#[test]
fn an_ovsdb_server_takes_and_shows_a_row() {
    let [.., story] = stories();
    let printed = run(&story);
    assert!(printed.contains("alpha"), "{printed}");
}

/// The example with a database of its own runs to its end, and shows the lock with its fencing number.
#[test]
fn the_example_of_an_ovsdb_server_runs() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/fleet.sh");
    let mut command = Command::new("bash");
    command.arg(script).env("PACELINE_BIN", paceline_binary()).stdin(Stdio::null());
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(told.contains("constraint violation"), "{told}");
    let lock = told.lines().find(|line| line.contains("Fleet:maintenance"));
    assert!(lock.is_some(), "{told}");
}
