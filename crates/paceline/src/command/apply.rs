//! `paceline apply`: makes the daemon's configuration match one or several files.

use super::{Asker, Reach, as_text, doctor, text};
use crate::config;
use crate::failure::{self, Failure};
use crate::screen::{Screen, Style, clean};
use clap::Args;
use paceline_client::{Answer, ApplyOptions, ConfigFile, Error};
use serde_json::{Value, json};
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub const HELP: &str = "\
All files are applied in one transaction: everything or nothing. A directory means its files *.toml. An object belongs to the file that created it; a file is known \
by its name without directories (--owner sets another name). Objects that belong to a given FILE and are no longer in it are \
deleted, a backend with all of its servers. Objects that were created by hand stay; if FILE names one, it belongs to FILE \
from then on. An object of another file is refused unless --take-over is given.

A file that is applied again changes only what changed in it since it was last applied. Other edits stay, and are \
shown as drift; --reset makes everything as FILE says. An object that was renamed is still the object that FILE names: it is \
changed and deleted as FILE says, and --reset gives it its name back.

Each change is one line: + is new, ~ is changed (with the settings, or that the object now belongs to the file), - is \
deleted, ! is drift. More than 5 deletions must be confirmed, or allowed with --yes. Errors are printed as \
FILE:LINE:COLUMN: message, and the exit code is 1; with --strict, for warnings too. If a frontend cannot bind its address or \
a certificate cannot be read, the exit code is also 1: everything is applied, and the daemon tries again every \
second. The daemon resolves relative names of files, such as certificates, in the directory of FILE.

Example:
  paceline apply paceline.toml --dry-run      shows changes and drift
  paceline apply paceline.toml
  paceline apply /etc/paceline.d
  paceline export | paceline apply - --owner all.toml --take-over      everything then belongs to all.toml";

#[derive(Debug, Args)]
pub struct Apply {
    /// The files, in TOML; - is standard input
    #[arg(value_name = "FILE|DIR", required = true, num_args = 1..)]
    files: Vec<PathBuf>,

    /// Only show what would change, and drift
    #[arg(long)]
    dry_run: bool,

    /// The file that objects belong to, if one FILE is given [default: its name without directories; stdin for -]
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,

    /// Make everything as the file says, and undo other edits since it was last applied
    #[arg(long)]
    reset: bool,

    /// Take over objects that belong to other files
    #[arg(long)]
    take_over: bool,

    /// Change nothing if there are warnings
    #[arg(long)]
    strict: bool,

    /// Do not ask before deleting many objects
    #[arg(long, short)]
    yes: bool,

    #[command(flatten)]
    pub reach: Reach,
}

pub fn run(apply: &Apply) -> Result<ExitCode, Failure> {
    let hint = "name the files to apply, or - for standard input";
    let texts = texts(apply).map_err(|failure| failure.or_hint(hint))?;
    let asker = apply.reach.open()?;
    let mut options = options(apply);
    let done = match texts.send(&asker, &options) {
        Err(error) => match deletions(&error) {
            Some(count) if confirmed(count, || list_of(&asker, &texts, &options))? => {
                options.deletions_max = Some(count);
                texts.send(&asker, &options)
            }
            Some(count) => return Err(too_many(count)),
            None => Err(error),
        },
        done => done,
    };
    match done {
        Ok(told) => show(&asker, &texts, told)?,
        Err(error) => return wrong(&texts, asker.json, error),
    }
    if !apply.dry_run {
        as_it_says(&asker.client.status()?)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The files to apply, and the path of each.
struct Texts {
    files: Vec<ConfigFile>,
    paths: Vec<String>,
}

impl Texts {
    fn send(&self, asker: &Asker, options: &ApplyOptions) -> Result<Vec<Value>, Error> {
        match self.files.as_slice() {
            [ConfigFile { name, directory, text }] => {
                let (file, directory) = (Some(name.clone()), directory.clone());
                asker.client.apply(text, &ApplyOptions { file, directory, ..options.clone() })
            }
            files => asker.client.apply_files(files, options),
        }
    }

    /// The path of the file that an error or a warning names.
    fn path(&self, told: &Value) -> String {
        let name = text(told, "file");
        let at = self.files.iter().position(|file| file.name == name);
        match self.paths.as_slice() {
            [only] => only.clone(),
            paths => at.and_then(|at| paths.get(at)).cloned().unwrap_or_default(),
        }
    }
}

fn texts(apply: &Apply) -> Result<Texts, Failure> {
    let usage = |message: &str, hint: &str| Err(Failure::new(failure::USAGE, message, hint));
    if let [file] = apply.files.as_slice()
        && is_stdin(file)
    {
        let name = apply.owner.clone().unwrap_or_else(|| "stdin".to_owned());
        let text = config::text_of_stdin()?;
        let files = vec![ConfigFile { name, directory: None, text }];
        return Ok(Texts { files, paths: vec!["stdin".to_owned()] });
    }
    if apply.files.iter().any(|file| is_stdin(file)) {
        return usage("- cannot be given together with other files", "apply it by itself");
    }
    let (mut files, mut paths) = (vec![], vec![]);
    for (path, name) in config::named_files(&apply.files)? {
        let (directory, text) = (config::directory_of(&path), config::text_of(&path)?);
        files.push(ConfigFile { name, directory, text });
        paths.push(path.to_string_lossy().into_owned());
    }
    match (&apply.owner, files.as_mut_slice()) {
        (Some(owner), [file]) => file.name.clone_from(owner),
        (Some(_), _) => return usage("--owner needs one FILE", "apply each file by itself"),
        (None, _) => {}
    }
    Ok(Texts { files, paths })
}

fn options(apply: &Apply) -> ApplyOptions {
    ApplyOptions {
        dry_run: apply.dry_run,
        file: None,
        directory: None,
        reset: apply.reset,
        take_over: apply.take_over,
        strict: apply.strict,
        deletions_max: apply.yes.then_some(u64::MAX),
    }
}

/// How many objects would be deleted, if the refusal is because they are too many.
fn deletions(error: &Error) -> Option<u64> {
    error.answer()?.body.get("deletions")?.as_u64()
}

/// The lines of the objects that would be deleted.
fn list_of(asker: &Asker, texts: &Texts, options: &ApplyOptions) -> Result<String, Failure> {
    let options = ApplyOptions { dry_run: true, ..options.clone() };
    let changes = texts.send(asker, &options)?;
    let deleted: Vec<Value> =
        changes.into_iter().filter(|change| text(change, "op") == "delete").collect();
    Ok(draw(&deleted, Screen::of_stderr()))
}

/// Asks on a terminal whether so many objects may be deleted, which `list` names.
fn confirmed(count: u64, list: impl FnOnce() -> Result<String, Failure>) -> Result<bool, Failure> {
    let (input, mut output) = (std::io::stdin(), std::io::stderr());
    if !input.is_terminal() || !output.is_terminal() {
        return Ok(false);
    }
    let failed = |error: std::io::Error| Failure::from(error.to_string());
    crate::screen::tell_raw(&list()?);
    write!(output, "this deletes {count} objects; continue? [y/N] ").map_err(failed)?;
    let mut answer = String::new();
    input.read_line(&mut answer).map_err(failed)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn too_many(count: u64) -> Failure {
    let message = format!("this would delete {count} objects; nothing was changed");
    Failure::new(failure::FAILED, message, "see which with --dry-run, then give --yes")
}

/// Shows warnings apart from the changes.
fn show(asker: &Asker, texts: &Texts, told: Vec<Value>) -> Result<(), Failure> {
    let is = |one: &Value, op: &str| text(one, "op") == op;
    if asker.json {
        return asker.show(&json!(told), |_| String::new());
    }
    let (warnings, told): (Vec<Value>, Vec<Value>) =
        told.into_iter().partition(|one| is(one, "warning"));
    for warning in warnings {
        let [line, column, message] =
            ["line", "column", "message"].map(|name| text(&warning, name));
        let place = if line.is_empty() { String::new() } else { format!("{line}:{column}: ") };
        let message = clean(message.strip_prefix(&format!("line {line}: ")).unwrap_or(&message));
        let space = if place.is_empty() { " " } else { "" };
        let path = texts.path(&warning);
        let path = if path.is_empty() { path } else { format!("{path}:{space}") };
        crate::screen::tell(format_args!("{path}{place}warning: {message}"));
    }
    if told.iter().all(|one| is(one, "drift")) {
        crate::screen::tell(format_args!("nothing to change"));
    }
    if told.is_empty() {
        return Ok(());
    }
    asker.show(&json!(told), |screen| draw(&told, screen))
}

/// Checks the HTTP door: the configuration is applied, but an address or a certificate may still be unusable.
fn as_it_says(status: &Value) -> Result<(), Failure> {
    match status.get("http").and_then(|http| http.get("problem")) {
        None => Ok(()),
        Some(problem) => Err(Failure::new(
            failure::FAILED,
            format!(
                "applied, but the HTTP door differs from the configuration: {}",
                as_text(problem)
            ),
            doctor::DOOR_NEXT,
        )),
    }
}

fn is_stdin(file: &Path) -> bool {
    file.as_os_str() == "-"
}

/// The errors of a file are printed alone, in the form that editors and scripts read.
pub fn wrong_file(file: &Path, json: bool, error: Error) -> Result<ExitCode, Failure> {
    let path = if is_stdin(file) { "stdin".into() } else { file.to_string_lossy().into_owned() };
    wrong_at(&path, |_| path.clone(), json, error)
}

/// The same for the errors of several files.
fn wrong(texts: &Texts, json: bool, error: Error) -> Result<ExitCode, Failure> {
    wrong_at(&texts.paths.join(", "), |error| texts.path(error), json, error)
}

fn wrong_at(
    paths: &str,
    path: impl Fn(&Value) -> String,
    json: bool,
    error: Error,
) -> Result<ExitCode, Failure> {
    let errors = error.answer().and_then(places);
    match errors {
        Some(errors) if !json => {
            let lines = lines(&errors, path);
            crate::screen::tell(format_args!("{}", lines.trim_end()));
            if let Some(hint) = error.hint() {
                crate::screen::tell(format_args!("{paths}: {}", clean(hint)));
            }
            Ok(ExitCode::FAILURE)
        }
        _ => Err(Failure::from(error)),
    }
}

fn places(answer: &Answer) -> Option<Vec<Value>> {
    answer.body.get("errors").and_then(Value::as_array).cloned()
}

fn lines(errors: &[Value], path: impl Fn(&Value) -> String) -> String {
    let mut lines = String::new();
    for error in errors {
        let file = path(error);
        let [line, column, message] = ["line", "column", "message"].map(|name| text(error, name));
        lines.push_str(&clean(&format!("{file}:{line}:{column}: {message}")));
        lines.push('\n');
        if let Some(hint) = error.get("hint") {
            lines.push_str(&format!("    {}\n", clean(&as_text(hint))));
        }
    }
    lines
}

/// A line for each change.
pub fn draw(changes: &[Value], screen: Screen) -> String {
    changes.iter().map(|change| line(change, screen)).collect()
}

/// `~ checkpoint per-user  rate burst`
fn line(change: &Value, screen: Screen) -> String {
    let (sign, style) = match text(change, "op").as_str() {
        "create" => ("+", Style::Good),
        "delete" => ("-", Style::Bad),
        "drift" => ("!", Style::Wait),
        _ => ("~", Style::Wait),
    };
    let kind = text(change, "kind").replace('-', " ");
    let mut told = format!("{kind} {}", clean(&text(change, "name")));
    let members = change.get("members").and_then(Value::as_array);
    let members: Vec<String> = members.into_iter().flatten().map(as_text).collect();
    if !members.is_empty() {
        told.push_str(&format!("  {}", members.join(" ")));
    }
    if let Some([low, high]) = change.get("priority").and_then(Value::as_array).map(Vec::as_slice) {
        let range = if low == high { low.to_string() } else { format!("{low}..{high}") };
        told.push_str(&format!("  priority {range}"));
    }
    if change.get("taken_over") == Some(&Value::Bool(true)) {
        told.push_str("  now belongs to the file");
    }
    if text(change, "op") == "drift" {
        let how = match change.get("renamed") {
            _ if change.get("deleted").is_some() => "deleted".to_owned(),
            Some(name) => format!("renamed to {}", clean(&as_text(name))),
            None => "edited".to_owned(),
        };
        told.push_str(&format!("  {how} since the file was applied; --reset undoes that"));
    }
    let room = Screen { width: screen.width.saturating_sub(2), ..screen };
    format!("{} {}", screen.paint(style, sign), room.wrap(&told, 6))
}

#[cfg(test)]
mod tests {
    use super::{draw, lines};
    use crate::screen::Screen;
    use serde_json::json;

    #[test]
    fn changes_are_lines() {
        let changes = [
            json!({"op": "create", "kind": "pool", "name": "batch"}),
            json!({"op": "change", "kind": "checkpoint", "name": "per-user", "members": ["rate", "burst"]}),
            json!({"op": "delete", "kind": "rule", "name": "10"}),
            json!({"op": "change", "kind": "server", "name": "app/c", "members": [], "taken_over": true}),
            json!({"op": "drift", "kind": "pool", "name": "b", "members": ["started"]}),
            json!({"op": "drift", "kind": "rule", "name": "20", "deleted": true}),
            json!({"op": "drift", "kind": "pool", "name": "c", "members": ["name"], "renamed": "d"}),
        ];
        let drawn = draw(&changes, Screen { width: 80, colours: false });
        assert_eq!(
            drawn,
            "+ pool batch\n~ checkpoint per-user  rate burst\n- rule 10\n\
             ~ server app/c  now belongs to the file\n\
             ! pool b  started  edited since the file was applied; --reset undoes that\n\
             ! rule 20  deleted since the file was applied; --reset undoes that\n\
             ! pool c  name  renamed to d since the file was applied; --reset undoes that\n"
        );
    }

    #[test]
    fn mistakes_have_their_place() {
        let errors = [json!({"line": 3, "column": 1, "message": "a\u{1b}b", "hint": "c"})];
        assert_eq!(lines(&errors, |_| "x.toml".to_owned()), "x.toml:3:1: a\\u{1b}b\n    c\n");
    }
}
