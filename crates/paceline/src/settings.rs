//! Flags for the settings of an object, made from the catalogue.
//!
//! Every setting of the API's objects is a flag: `max_len` in the table `queue` is `--queue-max-len`. Its help
//! is the setting's sentence. Only [`read`] turns the text of a flag into the JSON of the API. No setting is
//! named here unless its flag cannot have its own name, or its text has a form of its own.

mod form;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use form::{Form, read};
use paceline_catalogue::{Default, Holds, Kind, Setting};
use serde_json::{Map, Value};
use std::marker::PhantomData;

/// A kind of object whose settings are flags.
pub trait Described: Clone + std::fmt::Debug + Send + Sync + 'static {
    /// The kind.
    const KIND: &'static Kind;
    /// Whether the setting that names the object is a flag too, and not an argument before the flags.
    const TAKES_ID: bool = false;
}

/// Makes a type for each kind.
macro_rules! described {
    ($($name:ident is $kind:ident),+ $(,)?) => {$(
        #[doc = concat!("The settings of ", stringify!($kind), ".")]
        #[derive(Clone, Debug)]
        pub struct $name;
        impl Described for $name {
            const KIND: &'static Kind = &paceline_catalogue::$kind;
        }
    )+};
}

described! {
    Pool is POOLS,
    Rule is RULES,
    Checkpoint is CHECKPOINTS,
    Resource is RESOURCES,
    Frontend is FRONTENDS,
    Backend is BACKENDS,
    Server is SERVERS,
    SqlTarget is SQL_TARGETS,
    User is USERS,
    Api is API,
    Http is HTTP,
}

/// The settings of a rule whose number is given by a flag, or by the daemon.
#[derive(Clone, Debug)]
pub struct NewRule;

impl Described for NewRule {
    const KIND: &'static Kind = &paceline_catalogue::RULES;
    const TAKES_ID: bool = true;
}

/// The given settings, as the members of the API's object.
#[derive(Clone, Debug)]
pub struct Settings<K>(Map<String, Value>, PhantomData<K>);

impl<K: Described> Settings<K> {
    /// The members.
    pub fn members(&self) -> Map<String, Value> {
        self.0.clone()
    }
}

/// The given settings, and those that are reset to their defaults.
#[derive(Clone, Debug)]
pub struct Changes<K>(Map<String, Value>, PhantomData<K>);

impl<K: Described> Changes<K> {
    /// The members, with null for what is reset to its default.
    pub fn members(&self) -> Map<String, Value> {
        self.0.clone()
    }
}

/// The name of the flag that resets settings.
const RESET: &str = "reset";

impl<K: Described> Args for Settings<K> {
    fn augment_args(command: Command) -> Command {
        flags(K::KIND, K::TAKES_ID).iter().fold(command, |command, flag| command.arg(flag.arg()))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<K: Described> FromArgMatches for Settings<K> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self(given(K::KIND, K::TAKES_ID, matches), PhantomData))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<K: Described> Args for Changes<K> {
    fn augment_args(command: Command) -> Command {
        // A required setting has no default to reset to.
        let names: Vec<String> = resettable(K::KIND);
        let reset = Arg::new(RESET)
            .long(RESET)
            .value_name("SETTING")
            .action(ArgAction::Append)
            .value_parser(clap::builder::PossibleValuesParser::new(names))
            .hide_possible_values(true)
            .help("Set a setting back to its default, such as queue or queue.max_len; may be repeated");
        Settings::<K>::augment_args(command).arg(reset)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<K: Described> FromArgMatches for Changes<K> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut members = given(K::KIND, K::TAKES_ID, matches);
        for path in matches.get_many::<String>(RESET).into_iter().flatten() {
            let (outer, inner) = path.split_once('.').unwrap_or((path, ""));
            let is_free = match (members.get_mut(outer), inner) {
                (None, _) => {
                    put(&mut members, path, Value::Null);
                    true
                }
                (Some(Value::Object(table)), inner) if !inner.is_empty() => {
                    table.insert(inner.to_owned(), Value::Null).is_none_or(|old| old.is_null())
                }
                (Some(old), _) => old.is_null(),
            };
            if !is_free {
                let message = format!("{path} is both set and reset, give one of the two\n");
                return Err(clap::Error::raw(clap::error::ErrorKind::ArgumentConflict, message));
            }
        }
        Ok(Self(members, PhantomData))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The paths of settings that have a default.
fn resettable(kind: &'static Kind) -> Vec<String> {
    let settings = kind.settings.iter().filter(|setting| {
        setting.is_in_api() && setting.name != kind.id && setting.default != Default::Required
    });
    let paths = settings.flat_map(|setting| {
        let inner = setting.inner().iter().map(|inner| format!("{}.{}", setting.name, inner.name));
        std::iter::once(setting.name.to_owned()).chain(inner)
    });
    paths.collect()
}

/// A flag.
struct Flag {
    /// The setting's path, such as `queue.max_len`.
    path: String,
    setting: &'static Setting,
    form: Form,
    /// Other names of the flag.
    aliases: Vec<String>,
    /// Paths of flags that cannot be given together with it.
    conflicts: Vec<String>,
    /// The path of the flag that it requires.
    requires: Option<String>,
}

/// The flags of a kind of object.
fn flags(kind: &'static Kind, takes_id: bool) -> Vec<Flag> {
    let settings = kind.settings.iter();
    let settings = settings.filter(|s| s.is_in_api() && (takes_id || s.name != kind.id));
    settings.flat_map(|setting| of_setting(kind, setting)).collect()
}

fn of_setting(kind: &'static Kind, setting: &'static Setting) -> Vec<Flag> {
    let plain = |path: String, setting: &'static Setting, form: Form| Flag {
        path,
        setting,
        form,
        aliases: vec![],
        conflicts: vec![],
        requires: None,
    };
    let inner = setting.inner().iter().map(|inner| {
        let path = format!("{}.{}", setting.name, inner.name);
        let mut flag = plain(path, inner, Form::of(inner));
        // An object has only one queue, and its flags had these names first.
        if setting.name == "queue" {
            flag.aliases.push(dashed(inner.name));
        }
        flag
    });
    let mut flags: Vec<Flag> = inner.collect();
    let names: Vec<&str> = setting.inner().iter().map(|inner| inner.name).collect();
    match setting.holds {
        // Two bounds can be given as one range.
        Holds::Table(_) if names == ["min", "max"] => {
            flags.iter_mut().for_each(|flag| flag.conflicts.push(setting.name.to_owned()));
            flags.insert(0, plain(setting.name.to_owned(), setting, Form::Bounds));
        }
        Holds::Table(_) => {}
        _ => {
            let mut flag = plain(setting.name.to_owned(), setting, Form::of(setting));
            beside(kind, setting, &mut flag);
            flags.insert(0, flag);
        }
    }
    flags
}

/// The relation of settings of one column: they are alternatives, or say how patterns are read.
fn beside(kind: &'static Kind, setting: &'static Setting, flag: &mut Flag) {
    let same = kind.settings.iter().filter(|other| {
        other.column == setting.column && other.name != setting.name && other.is_in_api()
    });
    let same: Vec<&Setting> = same.collect();
    match same.iter().find(|other| matches!(Form::of(other), Form::Patterns)) {
        Some(patterns) => flag.requires = Some(patterns.name.to_owned()),
        None if matches!(flag.form, Form::Patterns) => {}
        None => flag.conflicts.extend(same.iter().map(|other| other.name.to_owned())),
    }
}

/// The parser's id of a flag: no other argument has such a name.
fn id(path: &str) -> String {
    format!("setting {path}")
}

fn dashed(path: &str) -> String {
    path.replace(['.', '_'], "-")
}

impl Flag {
    /// Its name. Every command has a flag `--log` already, so the setting `log` has another one.
    fn long(&self) -> String {
        match self.path.as_str() {
            "log" => "log-matches".into(),
            path => dashed(path),
        }
    }

    fn arg(&self) -> Arg {
        let form = self.form;
        let mut arg = Arg::new(id(&self.path))
            .long(self.long())
            .help(self.help())
            .value_name(form.value_name())
            .allow_hyphen_values(form.may_be_negative())
            // So that -5 is a wrong number, and not an unknown flag.
            .allow_negative_numbers(form.is_number())
            .action(if form.repeats() { ArgAction::Append } else { ArgAction::Set })
            .conflicts_with_all(self.conflicts.iter().map(|path| id(path)))
            .aliases(self.aliases.clone());
        if let Some(path) = &self.requires {
            arg = arg.requires(id(path));
        }
        if form.is_switch() {
            arg = arg.num_args(0..=1).require_equals(true).default_missing_value("true");
        }
        match form.words() {
            Some(words) => {
                let words = clap::builder::PossibleValuesParser::new(words);
                let parser =
                    clap::builder::TypedValueParser::try_map(words, move |text: String| {
                        read(form, &text)
                    });
                arg.value_parser(parser).hide_possible_values(form.is_switch())
            }
            None => arg.value_parser(move |text: &str| read(form, text)),
        }
    }

    /// The setting's sentence, with its default.
    fn help(&self) -> String {
        let mut help = self.setting.doc.trim_end_matches('.').replace('`', "");
        if let Some(why) = self.setting.idle {
            help.push_str(&format!(". Does nothing yet: {why}"));
        }
        if self.form.repeats() {
            help.push_str("; may be repeated");
        }
        if let Some(default) = self.default() {
            help.push_str(&format!(" [default: {default}]"));
        }
        help
    }

    /// The default as it is shown. That of a switch is not shown: without the flag it is off, or the sentence
    /// says otherwise.
    fn default(&self) -> Option<String> {
        let text = match self.setting.default {
            Default::Value(_) if matches!(self.form, Form::Flag) => return None,
            Default::Required | Default::None("") => return None,
            Default::Value(text) | Default::None(text) | Default::Machine(text) => text,
        };
        Some(text.replace(['`', '"'], ""))
    }
}

/// The given settings, as the API's object.
fn given(kind: &'static Kind, takes_id: bool, matches: &ArgMatches) -> Map<String, Value> {
    let mut members = Map::new();
    for flag in flags(kind, takes_id) {
        let Some(values) = matches.get_many::<Value>(&id(&flag.path)) else { continue };
        put(&mut members, &flag.path, flag.form.join(values.cloned().collect()));
    }
    members
}

/// Stores a value at its path; a table that is only switched on becomes an object when a value is stored in it.
fn put(members: &mut Map<String, Value>, path: &str, value: Value) {
    match path.split_once('.') {
        None => {
            members.insert(path.to_owned(), value);
        }
        Some((outer, inner)) => {
            let table = members.entry(outer).or_insert_with(|| Value::Object(Map::new()));
            if !table.is_object() {
                *table = Value::Object(Map::new());
            }
            if let Some(table) = table.as_object_mut() {
                table.insert(inner.to_owned(), value);
            }
        }
    }
}

#[cfg(test)]
mod tests;
