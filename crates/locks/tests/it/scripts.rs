//! Runs the scripts in `testdata`. Each is a story with one call per line:
//!
//! ```text
//! new 1 100          numbers 1 to 99; a third number is the budget of a session in bytes
//! A lock x           sessions are single capital letters
//! A lock x after 7   one that had waited 7 in the last run
//! A steal x
//! A unlock x
//! A end
//! extend 200
//! show x             owner with its fencing number, then the waiters in order
//! list               the names of all locks
//! ```
//!
//! The effects and answers of a call stand beneath it, indented: effects first, as a host sends
//! them (L4), then the answer after `=`. A line that starts with `#` is a comment.

use std::fmt::Write;
use std::path::Path;

use paceline_locks::{Effect, LockError, Locks, SessionId};
use paceline_types::Span;

#[test]
fn scripts() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= 4, "the scripts are there");
    for path in paths {
        check(&path.display().to_string(), &std::fs::read_to_string(&path).unwrap());
    }
}

/// Plays a script and compares what happens with what it says, call by call.
fn check(path: &str, script: &str) {
    let mut locks = Locks::new(1, 1000, usize::MAX);
    let mut lines = script.lines().enumerate().peekable();
    while let Some((number, line)) = lines.next() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let mut expected = String::new();
        while let Some((_, line)) = lines.next_if(|(_, line)| line.starts_with("  ")) {
            writeln!(expected, "{}", line.trim()).unwrap();
        }
        let answer = call(&mut locks, line);
        let mut actual = String::new();
        while let Some(effect) = locks.poll_effect() {
            writeln!(actual, "{}", told(&effect)).unwrap();
        }
        if !answer.is_empty() {
            writeln!(actual, "= {answer}").unwrap();
        }
        assert_eq!(actual, expected, "{path}:{}: {line}", number + 1);
    }
}

fn call(locks: &mut Locks, line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |word: &str| word.parse::<u64>().unwrap();
    match words[..] {
        ["new", next, until] => {
            *locks = Locks::new(number(next), number(until), usize::MAX);
            String::new()
        }
        ["new", next, until, bytes] => {
            *locks = Locks::new(number(next), number(until), bytes.parse().unwrap());
            String::new()
        }
        ["extend", until] => {
            locks.extend(number(until));
            String::new()
        }
        ["show", name] => show(locks, name),
        ["list"] => list(locks),
        [who, "end"] => {
            locks.release_all(session(who));
            String::new()
        }
        [who, "lock", name] => locked(locks.lock(session(who), name)),
        [who, "lock", name, "after", waited] => {
            locked(locks.lock_after(session(who), name, Span(number(waited))))
        }
        [who, "steal", name] => locks.steal(session(who), name).map_or_else(refused, |()| ok()),
        [who, "unlock", name] => locks.unlock(session(who), name).map_or_else(refused, |()| ok()),
        _ => panic!("no such call: {line}"),
    }
}

fn locked(asked: Result<bool, LockError>) -> String {
    match asked {
        Ok(locked) => format!("locked {locked}"),
        Err(error) => refused(error),
    }
}

fn list(locks: &Locks) -> String {
    let names: Vec<_> = locks.iter().map(|lock| lock.name().to_string()).collect();
    if names.is_empty() { "none".to_string() } else { names.join(" ") }
}

fn show(locks: &Locks, name: &str) -> String {
    let mut text = match locks.owner(name) {
        Some((owner, fencing)) => {
            assert!(locks.is_owner(owner, name), "the owner owns it");
            assert_eq!(locks.fencing(name), Some(fencing), "one number");
            format!("{} #{fencing}", letter(owner))
        }
        None => "nobody".to_string(),
    };
    for (index, waiter) in locks.waiters(name).enumerate() {
        assert!(!locks.is_owner(waiter, name), "a waiter is not the owner");
        write!(text, "{}{}", if index == 0 { ", then " } else { " " }, letter(waiter)).unwrap();
    }
    text
}

fn told(effect: &Effect) -> String {
    match effect {
        Effect::Locked { session, name, fencing } => {
            format!("{} locked {name} #{fencing}", letter(*session))
        }
        Effect::Stolen { session, name } => format!("{} stolen {name}", letter(*session)),
    }
}

fn ok() -> String {
    "ok".to_string()
}

fn refused(error: LockError) -> String {
    match error {
        LockError::MustUnlock => "must unlock",
        LockError::NotLocked => "not locked",
        LockError::Exhausted => "exhausted",
        LockError::TooMany => "too many",
        LockError::TooManyTogether(_) => "too many together",
        LockError::Ended => "ended",
    }
    .to_string()
}

fn session(letter: &str) -> SessionId {
    assert_eq!(letter.len(), 1, "a session is one letter: {letter}");
    SessionId(u64::from(letter.as_bytes()[0]))
}

fn letter(session: SessionId) -> char {
    char::from(u8::try_from(session.0).unwrap())
}
