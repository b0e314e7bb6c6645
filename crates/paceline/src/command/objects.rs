//! Creating, changing and deleting objects: the same for every kind.

use super::Asker;
use crate::failure::{FAILED, Failure, USAGE};
use crate::settings::Described;
use clap::Args;
use paceline_catalogue::Default;
use paceline_client::{Error, Kind};
use serde_json::{Map, Value};

/// Creates an object that does not exist, and prints that with what to do `next`.
pub fn create<K: Described>(
    asker: &Asker,
    kind: Kind,
    name: &str,
    members: Map<String, Value>,
    next: &str,
) -> Result<(), Failure> {
    let (word, plural) = (K::KIND.word, K::KIND.plural);
    let usage = |message: String| {
        Err(Failure::new(USAGE, message, format!("see: paceline {plural} create --help")))
    };
    if name.is_empty() {
        return usage("the name may not be empty".to_owned());
    }
    if let Some(flag) = missing_flag::<K>(&members) {
        return usage(format!("a {word} needs --{flag}"));
    }
    let made = asker.client.create(kind, name, &Value::Object(members));
    let answer = made.map_err(|error| match error {
        Error::Conflict(_) => {
            let hint = format!("change it with: paceline {plural} set {name}");
            Failure::new(FAILED, format!("there is a {word} {name} already"), hint)
        }
        error => error.into(),
    })?;
    let kept = match super::is(&answer, "persistent") || answer.get("persistent").is_none() {
        true => String::new(),
        false => match kind {
            Kind::Pools => format!("; a restart deletes it unless: paceline pools persist {name}"),
            _ => {
                format!("; a restart deletes it unless: paceline {plural} set {name} --persistent")
            }
        },
    };
    let done = format!("{word} {name} is created");
    asker.show_done(&told_of(asker, &answer), &format!("{done}{next}{kept}"))?;
    as_it_says(&done, &answer)
}

/// The flag of a setting that has no default and was not given.
fn missing_flag<K: Described>(members: &Map<String, Value>) -> Option<String> {
    let settings = K::KIND.settings.iter();
    let mut needed = settings.filter(|setting| {
        let is_named = setting.name == K::KIND.id || Some(setting.name) == K::KIND.within;
        setting.is_in_api() && setting.default == Default::Required && !is_named
    });
    let missing = needed.find(|setting| !members.contains_key(setting.name))?;
    Some(missing.name.replace('_', "-"))
}

/// Changes what was given of an object, and says so with what `done` makes of it.
pub fn change_and<K: Described>(
    asker: &Asker,
    kind: Kind,
    name: &str,
    members: Map<String, Value>,
    done: impl FnOnce(&Value) -> String,
) -> Result<(), Failure> {
    let word = K::KIND.word;
    if members.is_empty() {
        let hint = format!("see what can be set with: paceline {} set --help", K::KIND.plural);
        return Err(Failure::new(FAILED, "nothing to change", hint));
    }
    let answer = asker.client.patch(kind, name, &Value::Object(members));
    let answer = answer.map_err(|error| {
        let failure = Failure::from(error);
        match failure.message().contains("only counts and has no queue") {
            true => failure.hint("add --reset queue".to_owned()),
            false => failure,
        }
    })?;
    let told = format!("{word} {name} is changed");
    asker.show_done(&told_of(asker, &answer), &format!("{told}{}", done(&answer)))?;
    as_it_says(&told, &answer)
}

/// Why the object does not serve as configured, such as an address in use.
fn problem(answer: &Value) -> Option<&str> {
    answer.pointer("/figures/problem").and_then(Value::as_str)
}

/// The object; for people, without the warning that [`as_it_says`] reports.
fn told_of(asker: &Asker, answer: &Value) -> Value {
    let mut answer = answer.clone();
    if asker.json {
        return answer;
    }
    if let (Some(problem), Some(Value::Array(warnings))) =
        (problem(&answer).map(str::to_owned), answer.get_mut("warnings"))
    {
        warnings.retain(|warning| !warning.as_str().is_some_and(|text| text.ends_with(&problem)));
    }
    answer
}

/// Fails if the object is edited, and does not serve as configured.
fn as_it_says(done: &str, answer: &Value) -> Result<(), Failure> {
    let Some(problem) = problem(answer) else { return Ok(()) };
    let message = format!("{done}, but the HTTP door differs from the configuration: {problem}");
    Err(Failure::new(FAILED, message, super::doctor::DOOR_NEXT))
}

/// Changes the given settings of an object.
pub fn change<K: Described>(
    asker: &Asker,
    kind: Kind,
    name: &str,
    members: Map<String, Value>,
) -> Result<(), Failure> {
    change_and::<K>(asker, kind, name, members, |_| String::new())
}

/// What is to be deleted.
#[derive(Debug, Args)]
pub struct Delete {
    /// Its name
    name: String,
}

impl Delete {
    /// Deletes it.
    pub fn run(&self, asker: &Asker, kind: Kind, word: &str) -> Result<(), Failure> {
        asker.client.delete(kind, &self.name)?;
        asker.show_done(&Value::Null, &format!("{word} {} is deleted", self.name))
    }
}
