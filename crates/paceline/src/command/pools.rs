//! `paceline pools`: lists pools, and makes, changes, starts and stops them.

use super::{Asker, Reach, duration, figure, is, text};
use crate::failure::{FAILED, Failure};
use crate::screen::{Screen, Style};
use crate::table::{Cell, Column, Table};
use clap::{Args, Subcommand};
use paceline_client::{Error, Kind};
use serde_json::{Map, Value, json};
use std::time::Duration;

pub const HELP: &str = "\
Without a command: lists them.

Example:
  paceline pools create batch --priority=-127..-1 --threads 0..8
  paceline pools start batch
  paceline pools persist batch      so that it is there after a restart
  paceline pools";

#[derive(Debug, Args)]
pub struct Pools {
    #[command(subcommand)]
    command: Option<PoolsCommand>,

    #[command(flatten)]
    pub reach: Reach,
}

#[derive(Debug, Subcommand)]
enum PoolsCommand {
    /// Make a pool; it is stopped and transient
    #[command(
        after_help = "Example:\n  paceline pools create batch --priority=-127..-1 --threads 0..8"
    )]
    Create {
        /// Name of the new pool
        name: String,
        #[command(flatten)]
        members: Members,
    },
    /// Change what is given, and leave the rest
    #[command(
        after_help = "Example:\n  paceline pools configure batch --threads 2..16 --reset queue"
    )]
    Configure {
        /// Name of the pool
        name: String,
        #[command(flatten)]
        members: Members,
        /// Set a member back to its default; may be repeated
        #[arg(long, value_name = "MEMBER", value_parser = ["priority", "threads", "queue", "group", "stack_bytes", "heap_bytes_max"])]
        reset: Vec<String>,
    },
    /// Let waiting and new work run
    #[command(after_help = "Example:\n  paceline pools start batch")]
    Start(Name),
    /// Let new work wait; what runs goes on to its end
    #[command(after_help = "Example:\n  paceline pools stop batch")]
    Stop(Name),
    /// Refuse new work, while what is queued goes on
    #[command(after_help = "Example:\n  paceline pools drain batch")]
    Drain(Name),
    /// Keep the pool over restarts
    #[command(after_help = "Example:\n  paceline pools persist batch")]
    Persist(Name),
    /// Let the pool go with the next restart
    #[command(after_help = "Example:\n  paceline pools unpersist batch")]
    Unpersist(Name),
    /// Delete the pool
    #[command(after_help = "Example:\n  paceline pools delete batch")]
    Delete(Name),
}

#[derive(Debug, Args)]
struct Name {
    /// Name of the pool
    name: String,
}

/// What can be set.
#[derive(Debug, Args)]
struct Members {
    /// Range of priorities that is its own, such as --priority=-127..-1
    #[arg(long, value_name = "LOW..HIGH", value_parser = range, allow_hyphen_values = true)]
    priority: Option<(i64, i64)>,
    /// Fewest and most threads, such as 0..8
    #[arg(long, value_name = "MIN..MAX", value_parser = range)]
    threads: Option<(i64, i64)>,
    /// Most that may wait
    #[arg(long, value_name = "N")]
    max_len: Option<u64>,
    /// Longest wait in its queue, such as 10m
    #[arg(long, value_name = "TIME", value_parser = duration)]
    max_delay: Option<Duration>,
    /// Group that its threads belong to
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// Stack of each thread
    #[arg(long, value_name = "BYTES")]
    stack_bytes: Option<u64>,
    /// Most memory
    #[arg(long, value_name = "BYTES")]
    heap_bytes_max: Option<u64>,
}

fn range(text: &str) -> Result<(i64, i64), String> {
    let numbers = text.split_once("..").or_else(|| text.split_once(','));
    let read =
        |(low, high): (&str, &str)| Some((low.trim().parse().ok()?, high.trim().parse().ok()?));
    match numbers.and_then(read) {
        Some((low, high)) if low <= high => Ok((low, high)),
        Some(_) => Err("the first number is the lower one".into()),
        None => Err("expected two numbers, such as 0..8".into()),
    }
}

impl Members {
    /// The members as the API names them.
    fn object(&self) -> Map<String, Value> {
        let mut members = Map::new();
        let mut set = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                members.insert(name.into(), value);
            }
        };
        set("priority", self.priority.map(|(low, high)| json!([low, high])));
        set("threads", self.threads.map(|(min, max)| json!({"min": min, "max": max})));
        let mut queue = Map::new();
        if let Some(max_len) = self.max_len {
            queue.insert("max_len".into(), max_len.into());
        }
        if let Some(delay) = self.max_delay {
            let nanos = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
            queue.insert("max_delay".into(), paceline_types::Span(nanos).to_string().into());
        }
        set("queue", (!queue.is_empty()).then_some(Value::Object(queue)));
        set("group", self.group.clone().map(Value::from));
        set("stack_bytes", self.stack_bytes.map(Value::from));
        set("heap_bytes_max", self.heap_bytes_max.map(Value::from));
        members
    }
}

pub fn run(pools: &Pools) -> Result<(), Failure> {
    let asker = pools.reach.open()?;
    let Some(command) = &pools.command else { return list(&asker) };
    change(&asker, command).map_err(|f| f.or_hint("see how they stand with: paceline pools"))
}

fn list(asker: &Asker) -> Result<(), Failure> {
    let list = asker.client.objects(Kind::Pools)?;
    asker.show_list(&list, "there are no pools", |screen| draw(&list, screen))
}

fn change(asker: &Asker, command: &PoolsCommand) -> Result<(), Failure> {
    let act = |name: &Name, verb: &str, done: &str| {
        let answer = asker.client.act(Kind::Pools, &name.name, verb)?;
        asker.show_done(&answer, &format!("pool {} {done}", name.name))
    };
    match command {
        PoolsCommand::Create { name, members } => create(asker, name, members),
        PoolsCommand::Configure { name, members, reset } => configure(asker, name, members, reset),
        PoolsCommand::Start(name) => act(name, "start", "is started"),
        PoolsCommand::Stop(name) => act(name, "stop", "is stopped"),
        PoolsCommand::Drain(name) => act(name, "drain", "drains"),
        PoolsCommand::Persist(name) => act(name, "persist", "is persistent"),
        PoolsCommand::Unpersist(name) => act(name, "unpersist", "is transient"),
        PoolsCommand::Delete(name) => {
            asker.client.delete(Kind::Pools, &name.name)?;
            asker.show_done(&Value::Null, &format!("pool {} is deleted", name.name))
        }
    }
}

fn create(asker: &Asker, name: &str, members: &Members) -> Result<(), Failure> {
    let mut members = members.object();
    members.insert("started".into(), false.into());
    members.insert("persistent".into(), false.into());
    let made = asker.client.create(Kind::Pools, name, &Value::Object(members));
    let answer = made.map_err(|error| match error {
        Error::Conflict(_) => {
            let hint = format!("change it with: paceline pools configure {name}");
            Failure::new(FAILED, format!("there is a pool {name} already"), hint)
        }
        error => error.into(),
    })?;
    let next = format!("pool {name} is there, stopped; start it with: paceline pools start {name}");
    asker.show_done(&answer, &next)
}

fn configure(
    asker: &Asker,
    name: &str,
    members: &Members,
    reset: &[String],
) -> Result<(), Failure> {
    let mut members = members.object();
    for member in reset {
        if members.insert(member.clone(), Value::Null).is_some() {
            let message = format!("{member} is both set and reset");
            return Err(Failure::new(FAILED, message, "give one of the two"));
        }
    }
    if members.is_empty() {
        let hint = "say what, for example: --threads 0..8";
        return Err(Failure::new(FAILED, "nothing to change", hint));
    }
    let answer = asker.client.patch(Kind::Pools, name, &Value::Object(members))?;
    asker.show_done(&answer, &format!("pool {name} is changed"))
}

fn draw(list: &[Value], screen: Screen) -> String {
    let mut table = Table::new(&[
        Column::text("NAME", 6),
        Column::word("STATE"),
        Column::number("RUNNING"),
        Column::number("WAITING"),
        Column::word("PRIORITY").spare(1),
        Column::word("THREADS").spare(2),
        Column::text("QUEUE", 8).spare(4),
        Column::word("KEPT").spare(3),
    ]);
    for pool in list {
        let state = state(pool);
        let style = match state.as_str() {
            "started" => Style::Good,
            "draining" => Style::Wait,
            _ => Style::Bad,
        };
        table.row(vec![
            text(pool, "name").into(),
            Cell::new(state, style),
            figure(pool, "running").into(),
            figure(pool, "waiting").into(),
            pair(pool.get("priority"), "0", "1").into(),
            threads(pool).into(),
            queue(pool.get("queue")).into(),
            if is(pool, "persistent") { "yes" } else { "no" }.into(),
        ]);
    }
    table.draw(screen)
}

fn state(pool: &Value) -> String {
    match text(pool, "state") {
        state if !state.is_empty() => state,
        _ if is(pool, "draining") => "draining".into(),
        _ if pool.get("started") == Some(&Value::Bool(false)) => "stopped".into(),
        _ => "started".into(),
    }
}

/// `low..high` of a list of two.
fn pair(value: Option<&Value>, low: &str, high: &str) -> String {
    let Some(value) = value else { return String::new() };
    let part = |name: &str| {
        let place = name.parse::<usize>().ok().and_then(|place| value.get(place));
        super::as_text(place.unwrap_or(&Value::Null))
    };
    match (part(low), part(high)) {
        (low, high) if low.is_empty() && high.is_empty() => String::new(),
        (low, high) => format!("{low}..{high}"),
    }
}

/// The slots: a pool without a maximum runs as many as come.
fn threads(pool: &Value) -> String {
    let of =
        |name: &str, default: &str| match pool.get("threads").map(|threads| text(threads, name)) {
            Some(number) if !number.is_empty() => number,
            _ => default.to_owned(),
        };
    format!("{}..{}", of("min", "0"), of("max", "unlimited"))
}

fn queue(queue: Option<&Value>) -> String {
    let Some(queue) = queue else { return String::new() };
    let parts = [text(queue, "max_len"), text(queue, "max_delay")];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::range;

    #[test]
    fn ranges_are_two_numbers_in_order() {
        assert_eq!(range("-127..-1"), Ok((-127, -1)));
        assert_eq!(range("0,8"), Ok((0, 8)));
        assert!(range("8..0").is_err());
        assert!(range("8").is_err());
    }
}
