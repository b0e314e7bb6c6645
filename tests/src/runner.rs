//! Runs the cases of a script against one server.
//!
//! Owns, for one case, the server, the clients by name and the names bound so far. Messages are taken strictly in the
//! order of arrival: an expectation applies to the very next message of its client, so every step also proves that
//! nothing else arrived before.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::path::Path;
use std::slice::Iter;
use std::{env, fs};

use serde_json::{Value, json};

use crate::client::Frame;
use crate::matching::Names;
use crate::script::{Act, Action, Case, Outcome, Step, parse};
use crate::server::{Options, create_databases};
use crate::{Client, Kind, Scratch, Server};

/// Runs every case of the script at `path` against each of `kinds`.
///
/// The variable `CASE` limits the run to cases whose name contains it.
///
/// # Panics
/// If the script cannot be read or a case fails, with all failures.
pub fn check_script(path: &Path, kinds: &[Kind]) {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    let cases = parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let wanted = env::var("CASE").unwrap_or_default();
    let mut failures = Vec::new();
    for case in cases.iter().filter(|case| case.name.contains(&wanted)) {
        for kind in kinds {
            if let Err(error) = run_case(case, *kind) {
                let file = path.file_name().unwrap_or_default().display();
                let name = &case.name;
                failures.push(format!("{file}, case {name}, on {}:\n{error}", kind.name()));
            }
        }
    }
    assert!(failures.is_empty(), "{} failed\n\n{}", failures.len(), failures.join("\n\n"));
}

fn run_case(case: &Case, kind: Kind) -> Result<(), String> {
    let steps: Vec<_> =
        case.steps.iter().filter(|step| step.only.is_none_or(|only| only == kind)).collect();
    let is_setup = |step: &Step| matches!(step.action, Action::Schema(_) | Action::ReadOnly);
    if steps.iter().all(|step| is_setup(step)) {
        return Ok(());
    }
    let mut schemas = Vec::new();
    let mut read_only = false;
    for step in &steps {
        match &step.action {
            Action::Schema(text) => schemas.push(text.as_str()),
            Action::ReadOnly => read_only = true,
            _ => {}
        }
    }
    let scratch = Scratch::new();
    let databases = create_databases(&scratch, &schemas)?;
    let options = Options { read_only, ..Options::new(kind, databases) };
    let server = Server::start(scratch, options)?;
    let mut run = Run { server, clients: BTreeMap::new(), names: Names::default() };
    run.all(&mut steps.iter().peekable())
}

struct Run {
    server: Server,
    clients: BTreeMap<String, Connection>,
    names: Names,
}

struct Connection {
    client: Client,
    last_id: Value,
}

impl Run {
    fn all(&mut self, steps: &mut Peekable<Iter<'_, &Step>>) -> Result<(), String> {
        while let Some(step) = steps.next() {
            let at = |error: String| format!("  line {}: {error}", step.line);
            match &step.action {
                Action::Client(name, Act::Loose(first)) => {
                    let mut group = vec![first];
                    while let Some(more) = steps.next_if(|next| loose(next, name).is_some()) {
                        group.extend(loose(more, name));
                    }
                    self.see_group(name, group).map_err(at)?;
                }
                Action::Client(name, act) => self.act(name, act).map_err(at)?,
                Action::Restart => {
                    self.clients.clear();
                    self.server.restart().map_err(at)?;
                }
                Action::KillRestart => {
                    self.clients.clear();
                    self.server.kill_and_restart().map_err(at)?;
                }
                Action::Less(left, right) => self.less(left, right).map_err(at)?,
                Action::Schema(_) | Action::ReadOnly => {}
            }
        }
        Ok(())
    }

    fn act(&mut self, name: &str, act: &Act) -> Result<(), String> {
        match act {
            Act::Send(label, call) => {
                let params = self.names.expand(&call.params);
                let connection = self.connection(name)?;
                if let Some(label) = label {
                    return connection.client.request_as(&json!(label), &call.method, &params);
                }
                connection.last_id = connection.client.request(&call.method, &params)?;
                Ok(())
            }
            Act::Notify(call) => {
                let params = self.names.expand(&call.params);
                self.connection(name)?.client.request_as(&Value::Null, &call.method, &params)
            }
            Act::Raw(text) => {
                let text = self.names.expand(text);
                self.connection(name)?.client.send(text.as_bytes())
            }
            Act::Reply(label, outcome) => self.see_reply(name, label.as_deref(), outcome),
            Act::Message(expected) => self.see(name, expected),
            Act::Loose(expected) => self.see_group(name, vec![expected]),
            Act::Quiet => self.quiet(name),
            Act::Closed => self.see_end(name),
            Act::Close => {
                self.clients.remove(name).map(drop).ok_or_else(|| "no such client".into())
            }
            Act::HalfClose => self.connection(name)?.client.close_sending(),
        }
    }

    fn connection(&mut self, name: &str) -> Result<&mut Connection, String> {
        if !self.clients.contains_key(name) {
            let client = Client::connect(&self.server.socket())?;
            self.clients.insert(name.into(), Connection { client, last_id: Value::Null });
        }
        self.clients.get_mut(name).ok_or_else(|| "no such client".into())
    }

    fn see_reply(
        &mut self,
        name: &str,
        label: Option<&str>,
        outcome: &Outcome,
    ) -> Result<(), String> {
        let last_id = self.connection(name)?.last_id.clone();
        let id = label.map_or(last_id, |label| json!(label));
        let expected = match outcome {
            Outcome::Result(value) => json!({"id": id, "result": value, "error": null}),
            Outcome::Error(value) => json!({"id": id, "result": null, "error": value}),
        };
        self.see(name, &expected)
    }

    fn see(&mut self, name: &str, expected: &Value) -> Result<(), String> {
        let message = self.connection(name)?.client.message();
        let mut message = message.map_err(|error| format!("expected {expected}\n  but {error}"))?;
        // JSON-RPC 1.0 requires `"result": null` beside an error; ovsdb-server omits it.
        if let Some(fields) = message.as_object_mut().filter(|fields| fields.contains_key("error"))
        {
            fields.entry("result").or_insert(Value::Null);
        }
        if self.names.bind(expected, &message) {
            Ok(())
        } else {
            let expected = self.names.expand(&expected.to_string());
            Err(format!("expected {expected}\n  but got  {message}"))
        }
    }

    fn see_group(&mut self, name: &str, mut group: Vec<&Value>) -> Result<(), String> {
        while !group.is_empty() {
            let message = self.connection(name)?.client.message()?;
            let found = group.iter().position(|expected| self.names.bind(expected, &message));
            match found {
                Some(index) => {
                    group.remove(index);
                }
                None => {
                    let group: Vec<_> = group.iter().map(ToString::to_string).collect();
                    let group = group.join("\n      or ");
                    return Err(format!("expected {group}\n  but got  {message}"));
                }
            }
        }
        Ok(())
    }

    /// A server may notice only in the next iteration of its loop that it has something to send, so two round trips
    /// are made.
    fn quiet(&mut self, name: &str) -> Result<(), String> {
        for id in ["quiet-1", "quiet-2"] {
            self.connection(name)?.client.request_as(&json!(id), "echo", "[]")?;
            self.see(name, &json!({"id": id, "result": [], "error": null}))?;
        }
        Ok(())
    }

    fn see_end(&mut self, name: &str) -> Result<(), String> {
        match self.connection(name)?.client.frame()? {
            Frame::Closed => {
                self.clients.remove(name);
                Ok(())
            }
            Frame::Message(text) => {
                Err(format!("expected the end\n  but got  {}", String::from_utf8_lossy(&text)))
            }
        }
    }

    fn less(&self, left: &str, right: &str) -> Result<(), String> {
        let number = |name: &str| {
            let value = self.names.value(name).and_then(Value::as_i64);
            value.ok_or_else(|| format!("${name} is not a number"))
        };
        let (left, right) = (number(left)?, number(right)?);
        if left < right { Ok(()) } else { Err(format!("{left} is not less than {right}")) }
    }
}

fn loose<'a>(step: &'a Step, client: &str) -> Option<&'a Value> {
    match &step.action {
        Action::Client(name, Act::Loose(expected)) if name == client => Some(expected),
        _ => None,
    }
}
