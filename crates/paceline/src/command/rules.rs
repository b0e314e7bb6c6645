//! `paceline rules`: lists rules, and adds, enables, disables, clears and saves them.

use super::{Asker, Reach, attribute, figure, is, text};
use crate::failure::Failure;
use crate::screen::{Screen, Style};
use crate::table::{Cell, Column, Table};
use clap::{Args, Subcommand};
use paceline_client::Kind;
use serde_json::{Map, Value, json};

pub const HELP: &str = "\
Without a command: lists the running rules. They are gone after a restart unless saved.

Example:
  paceline rules new --match 'user=etl-*' --mode glob --lower 20 --then stop
  paceline explain user=etl-7      shows what it does
  paceline rules save";

#[derive(Debug, Args)]
pub struct Rules {
    #[command(subcommand)]
    command: Option<RulesCommand>,

    /// List the saved rules instead
    #[arg(long)]
    saved: bool,

    #[command(flatten)]
    pub reach: Reach,
}

#[derive(Debug, Subcommand)]
enum RulesCommand {
    /// Add a rule to the running list, at its end unless it has a number
    #[command(
        after_help = "Example:\n  paceline rules new --match 'user=etl-*' --mode glob --lower 20 --then stop\n  paceline rules new --when 'rate(\"per-user\", user) > 100.0' --reject"
    )]
    New(New),
    /// Remove all rules from the running list; the saved ones stay
    #[command(after_help = "Example:\n  paceline rules clear")]
    Clear,
    /// Keep the running list as it is for the next start
    #[command(after_help = "Example:\n  paceline rules save")]
    Save,
    /// Let a rule count again
    #[command(after_help = "Example:\n  paceline rules enable 10")]
    Enable(Number),
    /// Leave a rule in the list, but out of account
    #[command(after_help = "Example:\n  paceline rules disable 10")]
    Disable(Number),
}

#[derive(Debug, Args)]
struct Number {
    /// Number of the rule
    number: u32,
}

#[derive(Debug, Args)]
struct New {
    /// Its place in the list [default: highest number + 10]
    #[arg(long, value_name = "N")]
    number: Option<u32>,
    /// Match requests whose attribute fits a pattern; may be repeated, and all must fit
    #[arg(long = "match", value_name = "ATTR=PATTERN", value_parser = attribute)]
    criteria: Vec<(String, String)>,
    /// How patterns are read [default: exact]
    #[arg(long, value_parser = ["exact", "glob", "regex"])]
    mode: Option<String>,
    /// Take large and small letters for the same
    #[arg(long)]
    nocase: bool,
    /// Match only while this expression is true
    #[arg(long, value_name = "EXPRESSION")]
    when: Option<String>,
    #[command(flatten)]
    result: Outcome,
    /// Whether later rules are evaluated if it matches [default: stop with --reject, else continue]
    #[arg(long, value_parser = ["stop", "continue"])]
    then: Option<String>,
    /// Log when it matched
    #[arg(long)]
    log_matches: bool,
    /// Add it disabled
    #[arg(long)]
    disabled: bool,
}

/// What a match does to the priority; without one, nothing.
#[derive(Debug, Args)]
#[group(multiple = false)]
struct Outcome {
    /// Set the priority, -127 to 127
    #[arg(long, value_name = "PRIORITY", allow_negative_numbers = true)]
    set: Option<i64>,
    /// Raise the priority by this
    #[arg(long, value_name = "N")]
    raise: Option<u64>,
    /// Lower the priority by this
    #[arg(long, value_name = "N")]
    lower: Option<u64>,
    /// Reject the request
    #[arg(long)]
    reject: bool,
}

impl New {
    /// Whether a match changes nothing, neither here nor for later rules, and is not logged.
    fn does_nothing(&self) -> bool {
        let Outcome { set, raise, lower, reject } = &self.result;
        let acts = set.is_some() || raise.is_some() || lower.is_some() || *reject;
        !acts && !self.log_matches && self.then.as_deref() != Some("stop")
    }

    /// The rule as the API writes it.
    fn object(&self) -> Value {
        let mut members = Map::new();
        let mut set = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                members.insert(name.into(), value);
            }
        };
        // An attribute that is given several times must fit all of its patterns.
        let mut criteria: Map<String, Value> = Map::new();
        for (name, pattern) in &self.criteria {
            match criteria.get_mut(name) {
                None => _ = criteria.insert(name.clone(), json!(pattern)),
                Some(Value::Array(several)) => several.push(json!(pattern)),
                Some(one) => *one = json!([one.take(), pattern]),
            }
        }
        set("number", self.number.map(Value::from));
        set("match", (!criteria.is_empty()).then_some(Value::Object(criteria)));
        set("mode", self.mode.clone().map(Value::from));
        set("nocase", self.nocase.then_some(true.into()));
        set("when", self.when.clone().map(Value::from));
        set("set", self.result.set.map(Value::from));
        set("raise", self.result.raise.map(Value::from));
        set("lower", self.result.lower.map(Value::from));
        set("reject", self.result.reject.then_some(true.into()));
        set("then", self.then.clone().map(Value::from));
        set("log", self.log_matches.then_some(true.into()));
        set("disabled", self.disabled.then_some(true.into()));
        Value::Object(members)
    }
}

pub fn run(rules: &Rules) -> Result<(), Failure> {
    let asker = rules.reach.open()?;
    match &rules.command {
        None => list(&asker, if rules.saved { Kind::SavedRules } else { Kind::Rules }),
        Some(command) => change(&asker, command)
            .map_err(|f| f.or_hint("see how they stand with: paceline rules")),
    }
}

fn list(asker: &Asker, kind: Kind) -> Result<(), Failure> {
    let list = asker.client.objects(kind)?;
    let nothing = "there are no rules; add one with: paceline rules new";
    asker.show_list(&list, nothing, |screen| draw(&list, screen))
}

fn change(asker: &Asker, command: &RulesCommand) -> Result<(), Failure> {
    let client = &asker.client;
    match command {
        RulesCommand::New(new) => {
            let answer = client.add(Kind::Rules, &new.object())?;
            let number = text(&answer, "number");
            let mut done = format!("rule {number} is added; keep it with: paceline rules save");
            if new.does_nothing() {
                done.push_str(
                    "\nit does nothing when it matches; say --set, --raise, --lower or --reject",
                );
            }
            asker.show_done(&answer, &done)
        }
        RulesCommand::Clear => {
            let done = "the running list is empty; the saved rules come back at the next start";
            asker.show_done(&client.act_on_all(Kind::Rules, "clear")?, done)
        }
        RulesCommand::Save => {
            asker.show_done(&client.act_on_all(Kind::Rules, "save")?, "the rules are saved")
        }
        RulesCommand::Enable(rule) => switch(asker, rule.number, "enable"),
        RulesCommand::Disable(rule) => switch(asker, rule.number, "disable"),
    }
}

fn switch(asker: &Asker, number: u32, verb: &str) -> Result<(), Failure> {
    let answer = asker.client.act(Kind::Rules, &number.to_string(), verb)?;
    asker.show_done(&answer, &format!("rule {number} is {verb}d"))
}

fn draw(list: &[Value], screen: Screen) -> String {
    let mut table = Table::new(&[
        Column::number("NUMBER"),
        Column::text("MATCH", 16),
        Column::text("WHEN", 10).spare(2),
        Column::word("RESULT"),
        Column::word("THEN").spare(3),
        Column::number("MATCHES").spare(1),
        Column::number("EVALUATIONS").spare(5),
        Column::word("FLAGS").spare(4),
    ]);
    for rule in list {
        let result = result(rule);
        let style = match result.as_str() {
            "reject" => Style::Bad,
            _ if is(rule, "disabled") => Style::Faint,
            _ => Style::Plain,
        };
        let flags = ["disabled", "log"].into_iter().filter(|flag| is(rule, flag));
        table.row(vec![
            text(rule, "number").into(),
            criteria(rule).into(),
            text(rule, "when").into(),
            Cell::new(result, style),
            text(rule, "then").into(),
            figure(rule, "matches").into(),
            figure(rule, "evaluations").into(),
            flags.collect::<Vec<_>>().join(",").into(),
        ]);
    }
    table.draw(screen)
}

fn result(rule: &Value) -> String {
    if is(rule, "reject") {
        return "reject".into();
    }
    let found = ["set", "raise", "lower"]
        .into_iter()
        .find(|name| rule.get(*name).is_some_and(|v| !v.is_null()));
    found.map_or_else(|| "nothing".into(), |name| format!("{name} {}", text(rule, name)))
}

/// The patterns, each with its mode if that is not exact.
fn criteria(rule: &Value) -> String {
    let Some(Value::Object(members)) = rule.get("match") else { return "always".into() };
    if members.is_empty() {
        return "always".into();
    }
    let mode = text(rule, "mode");
    let one = |(name, value): (&String, &Value)| match value {
        Value::Object(inner) => {
            let parts =
                inner.iter().map(|(mode, pattern)| format!("{mode} {}", super::as_text(pattern)));
            format!("{name}={}", parts.collect::<Vec<_>>().join(" "))
        }
        pattern if mode.is_empty() || mode == "exact" => {
            format!("{name}={}", super::as_text(pattern))
        }
        pattern => format!("{name}={mode} {}", super::as_text(pattern)),
    };
    members.iter().map(one).collect::<Vec<_>>().join(", ")
}
