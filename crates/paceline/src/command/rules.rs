//! `paceline rules`: lists rules, and adds, changes, deletes, enables, disables, clears, saves, imports and exports them.

use super::{Asker, Reach, apply, figure, is, objects, text};
use crate::config;
use crate::failure::Failure;
use crate::keep::keep;
use crate::screen::{Screen, Style};
use crate::settings::{Changes, NewRule, Rule, Settings};
use crate::table::{Cell, Column, Table};
use clap::{Args, Subcommand};
use paceline_client::Kind;
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

pub const HELP: &str = "\
Without a command, lists the running rules. A restart replaces them with the saved ones.

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
    /// List the running rules, as without a command
    #[command(visible_alias = "ls", after_help = "Example:\n  paceline rules list")]
    List,
    /// Add a rule to the running list; without a number, at its end
    #[command(
        after_help = "Example:\n  paceline rules new --match 'user=etl-*' --mode glob --lower 20 --then stop\n  paceline rules new --when 'rate(\"per-user\", user) > 100.0' --reject"
    )]
    New {
        #[command(flatten)]
        settings: Box<Settings<NewRule>>,
    },
    /// Change the given settings of a rule, and keep the rest
    #[command(
        after_help = "Example:\n  paceline rules set 10 --lower 30\n  paceline rules set 10 --reset when"
    )]
    Set {
        /// Number of the rule
        number: u32,
        #[command(flatten)]
        changes: Box<Changes<Rule>>,
    },
    /// Delete a rule from the running list; the saved list stays until the next save
    #[command(visible_alias = "rm", after_help = "Example:\n  paceline rules delete 10")]
    Delete(Number),
    /// Remove all rules from the running list; the saved ones stay
    #[command(after_help = "Example:\n  paceline rules clear")]
    Clear,
    /// Save the running list for the next start
    #[command(after_help = "Example:\n  paceline rules save")]
    Save,
    /// Import a Comdb2 ruleset into the running list, in one transaction
    #[command(after_help = IMPORT_HELP)]
    Import(Import),
    /// Write the running list as a Comdb2 ruleset
    #[command(after_help = EXPORT_HELP)]
    Export(Export),
    /// Enable a disabled rule
    #[command(after_help = "Example:\n  paceline rules enable 10")]
    Enable(Number),
    /// Disable a rule without deleting it
    #[command(after_help = "Example:\n  paceline rules disable 10")]
    Disable(Number),
}

const IMPORT_HELP: &str = "\
All of FILE is imported, or nothing. A rule of FILE replaces the running rule of the same number, and other rules stay. \
Pools that FILE names and that do not exist are created and started, each with one free priority, from -1 downwards. \
Errors are printed as FILE:LINE:COLUMN: message, and the exit code is 1. Each change is one line: + is new, ~ is \
changed.

Example:
  paceline rules import comdb2.ruleset --dry-run
  paceline rules import comdb2.ruleset --persistent && paceline rules save";

const EXPORT_HELP: &str = "\
The file has version 2 of the format. A rule that Comdb2 cannot express is an error that names it, and nothing is \
written.

Example:
  paceline rules export
  paceline rules export comdb2.ruleset --force";

#[derive(Debug, Args)]
struct Import {
    /// The file; - is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Only show what would be imported
    #[arg(long)]
    dry_run: bool,

    /// Keep the pools that are created across restarts
    #[arg(long)]
    persistent: bool,
}

#[derive(Debug, Args)]
struct Export {
    /// Where to write it; - is standard output [default: -]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    /// Replace FILE if it exists
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Args)]
struct Number {
    /// Number of the rule
    number: u32,
}

pub fn run(rules: &Rules) -> Result<ExitCode, Failure> {
    let done = |()| ExitCode::SUCCESS;
    if let Some(RulesCommand::Import(import)) = &rules.command {
        return run_import(rules, import);
    }
    let asker = rules.reach.open()?;
    match &rules.command {
        None | Some(RulesCommand::List) => {
            list(&asker, if rules.saved { Kind::SavedRules } else { Kind::Rules }).map(done)
        }
        Some(RulesCommand::Export(export)) => run_export(&asker, rules, export).map(done),
        Some(command) => change(&asker, command)
            .map(done)
            .map_err(|f| f.or_hint("see how they stand with: paceline rules")),
    }
}

fn run_import(rules: &Rules, import: &Import) -> Result<ExitCode, Failure> {
    let text = match import.file.as_os_str() == "-" {
        true => config::text_of_stdin(),
        false => config::text_of(&import.file),
    };
    let hint = "name the file to import, or - for standard input";
    let text = text.map_err(|error| Failure::from(error).or_hint(hint))?;
    let asker = rules.reach.open()?;
    let edits = match asker.client.import_rules(&text, import.dry_run, import.persistent) {
        Ok(edits) => edits,
        Err(error) => return apply::wrong_file(&import.file, rules.reach.json, error),
    };
    asker.show(&json!(edits), |screen| apply::draw(&edits, screen))?;
    if !rules.reach.json {
        let count = |kind: &str, one: &str, many: &str| match edits
            .iter()
            .filter(|edit| super::text(edit, "kind") == kind)
            .count()
        {
            1 => format!("1 {one}"),
            count => format!("{count} {many}"),
        };
        let (rules, pools) = (count("rule", "rule", "rules"), count("pool", "pool", "pools"));
        let done = match import.dry_run {
            true => format!("{rules} and {pools} would be imported"),
            false => format!("{rules} and {pools} are imported{UNSAVED}"),
        };
        crate::screen::tell(format_args!("{done}"));
    }
    Ok(ExitCode::SUCCESS)
}

fn run_export(asker: &Asker, rules: &Rules, export: &Export) -> Result<(), Failure> {
    let text = asker.client.export_rules()?;
    match export.file.as_ref().filter(|file| file.as_os_str() != "-") {
        None if rules.reach.json => super::print(&format!("{:#}\n", json!({ "ruleset": text }))),
        None => super::print(&text),
        Some(file) => {
            let failed = |error: std::io::Error| super::export::cannot_write(file, &error);
            keep(file, export.force, failed, |out| out.write_all(text.as_bytes()).map_err(failed))?;
            let answer = json!({ "file": file.to_string_lossy(), "bytes": text.len() });
            asker.show_done(&answer, &format!("written to {}", file.display()))
        }
    }
}

/// What becomes of a change of the running list.
const UNSAVED: &str = "; a restart undoes this unless you run: paceline rules save";

/// A rule in one line, with the words of the table.
fn line(rule: &Value) -> String {
    let when = match text(rule, "when") {
        when if when.is_empty() => String::new(),
        when => format!(" when {when}"),
    };
    let flags = ["disabled", "log"].into_iter().filter(|flag| is(rule, flag));
    let end: Vec<&str> = std::iter::once("").chain(flags).collect();
    format!("{}{when}, {}, {}{}", criteria(rule), result(rule), text(rule, "then"), end.join(", "))
}

fn list(asker: &Asker, kind: Kind) -> Result<(), Failure> {
    let list = asker.client.objects(kind)?;
    let nothing = "there are no rules; add one with: paceline rules new";
    asker.show_list(&list, nothing, |screen| draw(&list, screen))
}

fn change(asker: &Asker, command: &RulesCommand) -> Result<(), Failure> {
    let client = &asker.client;
    match command {
        RulesCommand::List => list(asker, Kind::Rules),
        RulesCommand::New { settings } => {
            let members = settings.members();
            let answer = client.add(Kind::Rules, &Value::Object(members))?;
            let number = text(&answer, "number");
            let done = format!("rule {number} is added; keep it with: paceline rules save");
            asker.show_done(&answer, &done)
        }
        RulesCommand::Set { number, changes } => {
            let (kind, number) = (Kind::Rules, number.to_string());
            let now = |rule: &Value| format!(": {}{UNSAVED}", line(rule));
            objects::change_and::<Rule>(asker, kind, &number, changes.members(), now)
        }
        RulesCommand::Delete(rule) => delete(asker, rule.number),
        RulesCommand::Clear => clear(asker),
        RulesCommand::Save => save(asker),
        RulesCommand::Enable(rule) => switch(asker, rule.number, "enable"),
        RulesCommand::Disable(rule) => switch(asker, rule.number, "disable"),
        // They are run before.
        RulesCommand::Import(_) | RulesCommand::Export(_) => Ok(()),
    }
}

/// Deletes a rule from the running list, and prints whether the next start restores it.
fn delete(asker: &Asker, number: u32) -> Result<(), Failure> {
    let saved = asker.client.objects(Kind::SavedRules);
    asker.client.delete(Kind::Rules, &number.to_string())?;
    let mut done = format!("rule {number} is deleted from the running list");
    let wanted = number.to_string();
    if saved.is_ok_and(|saved| saved.iter().any(|rule| text(rule, "number") == wanted)) {
        done.push_str(
            "; the saved rule is in use again after the next start, unless you run: paceline rules save",
        );
    }
    asker.show_done(&Value::Null, &done)
}

/// Empties the running list, and prints what the next start restores.
fn clear(asker: &Asker) -> Result<(), Failure> {
    let saved = asker.client.objects(Kind::SavedRules);
    let answer = asker.client.act_on_all(Kind::Rules, "clear")?;
    let next = match saved.map(|saved| saved.len()) {
        Ok(0) => "no rules are saved, so that the next start has none either".to_owned(),
        Ok(1) => "the saved rule is in use again after the next start".to_owned(),
        Ok(count) => format!("the {count} saved rules are in use again after the next start"),
        Err(_) => "see the rules of the next start with: paceline rules --saved".to_owned(),
    };
    asker.show_done(&answer, &format!("the running list is empty; {next}"))
}

/// Saves the running list, and prints what an empty one overwrites.
fn save(asker: &Asker) -> Result<(), Failure> {
    let running = asker.client.objects(Kind::Rules);
    let saved = asker.client.objects(Kind::SavedRules);
    let answer = asker.client.act_on_all(Kind::Rules, "save")?;
    let (Ok(running), Ok(saved)) = (running, saved) else {
        return asker.show_done(&answer, "the rules are saved");
    };
    let told = json!({ "saved": running.len(), "overwritten": saved });
    let done = match (running.len(), saved.len()) {
        (0, 0) => "the running list is empty, and so was the saved one".to_owned(),
        (0, count) => {
            let rules = match count {
                1 => "1 saved rule, which was".to_owned(),
                count => format!("{count} saved rules, which were"),
            };
            let lost = saved.iter().map(|rule| {
                let result = format!("{}, {}", result(rule), text(rule, "then"));
                format!("\n  {}  {}  {result}", text(rule, "number"), criteria(rule))
            });
            let lost: String = lost.map(|line| line.replace("  always  ", "  ")).collect();
            format!("the empty running list overwrote {rules}:{lost}")
        }
        (1, _) => "1 rule is saved".to_owned(),
        (count, _) => format!("{count} rules are saved"),
    };
    asker.show_done(&told, &done)
}

fn switch(asker: &Asker, number: u32, verb: &str) -> Result<(), Failure> {
    let answer = asker.client.act(Kind::Rules, &number.to_string(), verb)?;
    asker.show_done(&answer, &format!("rule {number} is {verb}d{UNSAVED}"))
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

/// The patterns, each as `--match` takes it.
fn criteria(rule: &Value) -> String {
    let Some(Value::Object(members)) = rule.get("match") else { return "always".into() };
    if members.is_empty() {
        return "always".into();
    }
    let mode = text(rule, "mode");
    let mode = if mode.is_empty() { "exact" } else { &mode };
    let shown = members.iter().flat_map(|(name, value)| {
        let several = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        several.iter().map(move |one| format!("{name}={}", pattern(one, mode)))
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// A pattern with its mode, if that is not `exact`. A plain text has the rule's.
fn pattern(value: &Value, mode: &str) -> String {
    let own = value.as_object().and_then(|own| own.iter().find(|(name, _)| *name != "nocase"));
    let (mode, pattern) = own.map_or((mode, value), |(mode, pattern)| (mode, pattern));
    paceline_config::show_pattern(mode, is(value, "nocase"), &super::as_text(pattern))
}
