//! `paceline pools`: lists pools, and creates, changes, starts and stops them.

use super::{Asker, Reach, figure, is, objects, text};
use crate::failure::Failure;
use crate::screen::{Screen, Style};
use crate::settings::{Changes, Pool, Settings};
use crate::table::{Cell, Column, Table};
use clap::{Args, Subcommand};
use paceline_client::Kind;
use serde_json::{Map, Value};

pub const HELP: &str = "\
Without a command, lists the pools.

Example:
  paceline pools create batch --priority=-127..-1 --threads-max 8
  paceline pools start batch
  paceline pools persist batch      keeps it across restarts
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
    /// List the pools, as without a command
    #[command(visible_alias = "ls", after_help = "Example:\n  paceline pools list")]
    List,
    /// Create a pool; it is stopped and transient
    #[command(
        after_help = "Example:\n  paceline pools create batch --priority=-127..-1 --threads 0..8"
    )]
    Create {
        /// Name of the new pool
        name: String,
        #[command(flatten)]
        settings: Settings<Pool>,
    },
    /// Change the given settings, and keep the rest
    #[command(
        visible_alias = "configure",
        after_help = "Example:\n  paceline pools set batch --threads 16 --reset queue"
    )]
    Set {
        /// Name of the pool
        name: String,
        #[command(flatten)]
        changes: Changes<Pool>,
    },
    /// Start a pool, so that it runs its requests
    #[command(after_help = "Example:\n  paceline pools start batch")]
    Start(Name),
    /// Stop a pool: new requests wait, running ones finish
    #[command(after_help = "Example:\n  paceline pools stop batch")]
    Stop(Name),
    /// Drain a pool: refuse new requests, and finish the queued ones
    #[command(after_help = "Example:\n  paceline pools drain batch")]
    Drain(Name),
    /// Make a pool persistent, so that it exists after a restart
    #[command(after_help = "Example:\n  paceline pools persist batch")]
    Persist(Name),
    /// Make a pool transient, so that a restart deletes it
    #[command(after_help = "Example:\n  paceline pools unpersist batch")]
    Unpersist(Name),
    /// Delete the pool
    #[command(visible_alias = "rm", after_help = "Example:\n  paceline pools delete batch")]
    Delete(Name),
}

#[derive(Debug, Args)]
struct Name {
    /// Name of the pool
    name: String,
}

pub fn run(pools: &Pools) -> Result<(), Failure> {
    let asker = pools.reach.open()?;
    let Some(command) = &pools.command else { return list(&asker) };
    change(&asker, command).map_err(|f| f.or_hint("see their state with: paceline pools"))
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
        PoolsCommand::List => list(asker),
        PoolsCommand::Create { name, settings } => create(asker, name, settings),
        PoolsCommand::Set { name, changes } => {
            objects::change::<Pool>(asker, Kind::Pools, name, changes.members())
        }
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

fn create(asker: &Asker, name: &str, settings: &Settings<Pool>) -> Result<(), Failure> {
    let mut members = settings.members();
    // The defaults of a new pool are sent explicitly, so that they do not depend on the daemon.
    if !members.contains_key("state") {
        members.entry("started").or_insert(false.into());
    }
    members.entry("persistent").or_insert(false.into());
    let is_started = is_started(&members);
    let next = format!(", stopped; start it with: paceline pools start {name}");
    let next = if is_started { "" } else { &next };
    objects::create::<Pool>(asker, Kind::Pools, name, members, next)
}

fn is_started(members: &Map<String, Value>) -> bool {
    members.get("started") == Some(&true.into()) || members.get("state") == Some(&"started".into())
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
        Column::word("PERSISTENT").spare(3),
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

/// The slots: a pool without a maximum has no limit.
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
