//! Settings that have no effect in this version: `check`, `apply` and `doctor` warn about each.

use paceline_tests::server::paceline_binary;
use paceline_tests::{Daemon, Launch, Scratch};
use std::process::Command;

/// Each setting that has no effect, in an otherwise valid file.
const IDLE: [(&str, &str); 6] = [
    ("threads.min", "[[pool]]\nname = 'p'\npriority = [1, 2]\nthreads = { min = 2 }\n"),
    ("group", "[[pool]]\nname = 'p'\npriority = [1, 2]\ngroup = 'g'\n"),
    ("stack_bytes", "[[pool]]\nname = 'p'\npriority = [1, 2]\nstack_bytes = 65536\n"),
    ("heap_bytes_max", "[[pool]]\nname = 'p'\npriority = [1, 2]\nheap_bytes_max = 65536\n"),
    ("sqlite", "[[sql_target]]\nname = 'notes'\nsqlite = 'notes.db'\n"),
    (
        "status",
        "[[frontend]]\nname = 'web'\nlisten = '127.0.0.1:0'\nbackend = 'app'\n\
         [[backend]]\nname = 'app'\nservers = [{ address = '127.0.0.1:1' }]\n\
         [[checkpoint]]\nname = 'c'\nat = 'frontend web'\non = 'connection'\nrate = '1/s'\nstatus = 429\n",
    ),
];

/// The exit code, and all output.
fn paceline(words: &[&str]) -> (i32, String) {
    let output = Command::new(paceline_binary()).args(words).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(text).unwrap())
}

fn doctor(daemon: &Daemon) -> String {
    let data = daemon.data();
    let (_, told) = paceline(&["doctor", "--json", "--data", data.to_str().unwrap()]);
    let findings: serde_json::Value = serde_json::from_str(&told).unwrap();
    let warnings = findings.as_array().unwrap().iter().filter(|one| one["state"] == "warn");
    warnings.map(|one| one["message"].as_str().unwrap().to_owned() + "\n").collect()
}

#[test]
fn check_apply_and_doctor_warn_of_settings_that_do_nothing() {
    let scratch = Scratch::new();
    let daemon = Launch::new(&scratch).start().unwrap();
    let data = daemon.data();
    for (setting, text) in IDLE {
        let file = scratch.write("idle.toml", text);
        let file = file.to_str().unwrap();
        let warns = |told: &str| {
            let lines = told.lines();
            lines.filter(|line| line.contains(setting) && line.contains("does nothing")).count()
                == 1
        };
        let (code, told) = paceline(&["check", file]);
        assert!(code == 0 && warns(&told), "{setting}: {told}");
        let (code, told) = paceline(&["check", "--strict", file]);
        assert!(code == 1 && warns(&told), "{setting}: {told}");
        let (code, told) = paceline(&["apply", file, "--yes", "--data", data.to_str().unwrap()]);
        assert!(code == 0 && warns(&told), "{setting}: {told}");
        let told = doctor(&daemon);
        assert!(warns(&told), "{setting}: {told}");
    }
}

/// A shipped example causes no warning except about missing files.
#[test]
fn examples_use_no_setting_that_does_nothing() {
    for name in ["paceline.toml", "http.toml"] {
        let file = format!("{}/../examples/{name}", env!("CARGO_MANIFEST_DIR"));
        let (code, told) = paceline(&["check", &file]);
        let is_right =
            told.lines().all(|line| line.contains("No such file") || line.starts_with("ok: "));
        assert!(code == 0 && is_right, "{name}: {told}");
    }
}
