//! The trace of a history: one line for each step, the same on every run.

use crate::history::Step;
use crate::seen::{Answer, Seen};
use std::fmt::Write as _;

/// One line about one step.
#[must_use]
pub fn line(seen: &Seen) -> String {
    let mut line = format!("{:>16} {}", seen.now, step(&seen.step));
    match &seen.answer {
        Answer::None => {}
        Answer::Done(done) => write_to(&mut line, format_args!(" -> {done}")),
        Answer::Ended(ran) => write_to(&mut line, format_args!(" -> ran {ran:?}")),
        Answer::Server(server) => write_to(&mut line, format_args!(" -> {server:?}")),
        Answer::Back => write_to(&mut line, format_args!(" -> back")),
        Answer::Broken(text) => write_to(&mut line, format_args!(" -> {text}")),
        Answer::Submitted(id, outcome) => write_to(&mut line, format_args!(" -> {id} {outcome:?}")),
    }
    for effect in &seen.effects {
        write_to(&mut line, format_args!("; {effect:?}"));
    }
    if let Some(timeout) = seen.timeout {
        write_to(&mut line, format_args!("; next {timeout}"));
    }
    line
}

/// A description of the step.
#[must_use]
pub fn step(step: &Step) -> String {
    match step {
        Step::Submit(a) => {
            let mut text = format!(
                "submit {:?} {:?} {:?} {:?} via {} {:?} {:?} cost {}",
                a.user, a.host, a.task, a.text, a.frontend, a.backend, a.server, a.cost
            );
            if a.connection {
                text.push_str(" connection");
            }
            if !a.claims.is_empty() {
                write_to(&mut text, format_args!(" claims {:?} {:?}", a.claims, a.unknown));
            }
            if !a.locks.is_empty() {
                write_to(&mut text, format_args!(" locks {:?}", a.locks));
            }
            if let Some(wait) = a.wait_max {
                write_to(&mut text, format_args!(" wait {wait}"));
            }
            if let Some(session) = a.session {
                write_to(&mut text, format_args!(" session {session}"));
            }
            if !a.within.is_empty() {
                write_to(&mut text, format_args!(" within {:?}", a.within));
            }
            text
        }
        Step::Settle(id) => format!("settle {id}"),
        Step::Withdraw(id) => format!("withdraw {id}"),
        Step::End(id) => format!("end {id}"),
        Step::Cancel(id) => format!("cancel {id}"),
        Step::EndSession(session) => format!("end session {session}"),
        Step::LockTaken(session, lock) => format!("session {session} takes lock {lock}"),
        Step::LockLost(session, lock) => format!("session {session} loses lock {lock}"),
        Step::Configure(_, what) => format!("configure: {what}"),
        Step::SetUp(server, up) => format!("server {server} up {up}"),
        Step::Reroute(id) => format!("reroute {id}"),
        Step::Timeout => "timeout".into(),
    }
}

fn write_to(line: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = line.write_fmt(text);
}
