//! Plays a script against the engine, on a made-up clock: a way to try a configuration by hand.
//!
//! ```text
//! cargo run -p paceline-engine --example play                 # type commands, one a line
//! cargo run -p paceline-engine --example play -- script.txt   # or play a file
//! ```
//!
//! The commands are those of the scripts in `testdata`: `help` lists them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../tests/it/commands.rs"]
mod commands;
#[path = "../tests/it/lists.rs"]
mod lists;
#[path = "../tests/it/routing.rs"]
mod routing;
#[path = "../tests/it/world.rs"]
mod world;

use std::io::{BufRead, IsTerminal, Write};

const HELP: &str = "\
configure   pool NAME range=LOW..HIGH max=N [min=N] [len=N] [delay=SPAN] [stopped]
            create | start | stop | drain | persist | unpersist | delete-pool NAME; pools; restart
            rule [NUMBER] [ATTRIBUTE exact|glob|regex [nocase] TEXT [and ...]] [when 'CONDITION']
                 nothing | set P | raise N | lower N | reject   [continue|stop] [log] [disabled]
            rules; no-rules; save-rules; saved-rules; rule-counts
            checkpoint NAME at='frontend api' rate=N/SPAN [burst=N] | concurrency=N | count
                 [key=EXPR] [when=EXPR] [fair=EXPR] [weight=EXPR] [number=N] [len=N] [total=N]
                 [delay=SPAN] [period=SPAN] [keys=N] [status=N] [mode=enforce|watch]
                 (said again it is replaced: what is left out is the default, delay 30s)
            delete-checkpoint NAME
            resource NAME [under PARENT...]; delete-resource NAME; rename-resource OLD NEW
requests    submit NAME [ATTRIBUTE=VALUE...] [claim=RESOURCE[:shared]] [cost=N] [wait=SPAN]
                 [session=N] [lock=NAME] [unknown=refuse|wait|create]
                 (attributes: user host task text kind method path query ..., or any other name)
            settle NAME; cancel NAME; end-session N; owns N LOCK; lose N LOCK
clock       advance SPAN; late SPAN
questions   why NAME; explain [as submit, without a name]; timeout
            counter rate|inflight|queued CHECKPOINT [KEY]; counter running|waiting POOL
new         forget everything
";

fn main() {
    let files: Vec<String> = std::env::args().skip(1).collect();
    let mut world = world::World::new();
    if files.is_empty() {
        let stdin = std::io::stdin();
        let shown = stdin.is_terminal();
        if shown {
            eprintln!("commands, one a line; `help` lists them");
        }
        for line in stdin.lock().split(b'\n') {
            match line {
                Ok(line) => play(&mut world, &String::from_utf8_lossy(&line), false),
                Err(error) => return eprintln!("play: {error}"),
            }
        }
        return;
    }
    if files.iter().any(|file| file == "--help") {
        return print!(
            "play [SCRIPT...]: plays scripts, or commands from standard input\n\n{HELP}"
        );
    }
    for file in files {
        let text = match std::fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) => {
                eprintln!("play: {file}: {error}");
                std::process::exit(1);
            }
        };
        text.lines().for_each(|line| play(&mut world, line, true));
    }
}

fn play(world: &mut world::World, line: &str, echo: bool) {
    if line.trim_start().starts_with("->") {
        return;
    }
    if echo {
        println!("{line}");
    }
    match line.trim() {
        "" => {}
        comment if comment.starts_with('#') => {}
        "new" => *world = world::World::new(),
        "help" => print!("{HELP}"),
        command => world.command(command).iter().for_each(|answer| println!("  -> {answer}")),
    }
    let _ = std::io::stdout().flush();
}
