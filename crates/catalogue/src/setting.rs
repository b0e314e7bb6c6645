//! The entries of the catalogue: a kind of object, and one setting.

use paceline_types::Role;

/// A kind of object.
#[derive(Debug)]
pub struct Kind {
    /// Its singular: `pool` in `[[pool]]` and in messages.
    pub word: &'static str,
    /// Its plural: `pools` in `/v1/pools` and in `paceline pools`.
    pub plural: &'static str,
    /// The table of its rows.
    pub table: &'static str,
    /// The setting, and column, that identifies an object; empty if there is only one.
    pub id: &'static str,
    /// The column that names its parent object, if its name is unique only there.
    pub within: Option<&'static str>,
    /// The least role that may create or delete a transient one.
    pub role: Role,
    /// Its description, in a sentence or two.
    pub doc: &'static str,
    /// Its settings, in the order of an export.
    pub settings: &'static [Setting],
    /// The live figures of each object.
    pub figures: &'static [Figure],
}

/// A live figure: a column that the daemon fills when a client reads or monitors it.
#[derive(Debug)]
pub struct Figure {
    /// Its name, which is also that of the column.
    pub name: &'static str,
    /// The type of its value.
    pub measure: Measure,
    /// What is counted.
    pub doc: &'static str,
}

/// The type of a figure's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// A number.
    Count,
    /// Numbers by name.
    Counts,
    /// `true` or `false`.
    Flag,
    /// A text, or nothing.
    Text,
    /// A list of texts.
    Texts,
}

/// A setting.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its name, in the file and in the API's objects.
    pub name: &'static str,
    /// The column that holds it.
    pub column: &'static str,
    /// The type of its value.
    pub holds: Holds,
    /// Its default.
    pub default: Default,
    /// The least role that may set it on an object that exists.
    pub role: Role,
    /// Where it can be written.
    pub place: Where,
    /// Whether a change takes effect at once, or only when the daemon starts.
    pub is_live: bool,
    /// Whether it stays as it is when the API replaces an object without giving it.
    pub is_kept: bool,
    /// Whether the API shows it. A setting that only says how another setting is read is not shown.
    pub is_shown: bool,
    /// A value other than the default, in JSON, if the type alone does not give one.
    pub example: Option<&'static str>,
    /// Other settings that the example needs, each with its value in JSON.
    pub beside: &'static [(&'static str, &'static str)],
    /// Why it has no effect in this version, if it has none.
    pub idle: Option<&'static str>,
    /// Its description, in a sentence.
    pub doc: &'static str,
}

/// The default of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Default {
    /// It is required.
    Required,
    /// This value, in the notation of the file.
    Value(&'static str),
    /// No value, and what that means.
    None(&'static str),
    /// It depends on the machine; this says how.
    Machine(&'static str),
}

/// Where a setting can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// In the file and in the API's objects.
    Everywhere,
    /// In the file only; the API has its own objects or actions for it.
    File,
    /// In the API only.
    Api,
}

/// The type of a setting's value.
#[derive(Clone, Copy, Debug)]
pub enum Holds {
    /// Any text.
    Text,
    /// An expression.
    Expression,
    /// The name of a file.
    File,
    /// The name of an object.
    Name,
    /// The name of a pool, frontend or server, which is one word.
    Word,
    /// The name of a backend, which is one word without a slash.
    SlashlessWord,
    /// The address of a server.
    Address,
    /// One text or a list of texts, each of this kind.
    Texts(Each),
    /// A length of time.
    Span,
    /// A rate.
    Rate,
    /// The place of a checkpoint.
    At,
    /// A whole number in this range.
    Integer(i64, i64),
    /// `true` or `false`.
    Flag(bool),
    /// `true` or `false`, or nothing.
    Choice,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A table of texts.
    Map,
    /// A table of texts by numbers in this range.
    NumberedMap(i64, i64),
    /// A table of settings. If its default is a word, the word means that none of them is set.
    Table(&'static [Setting]),
    /// A table of settings, or only `true`. The column is true then, and false if there is nothing.
    Switch(&'static [Setting]),
    /// A value that the doors read in their own way: its description for messages, and its form in the API.
    Own(&'static str, Shape),
}

/// The form of a [`Holds::Own`] setting in the API's JSON.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// A text, which is its column.
    Text,
    /// A text that is stored apart and never shown.
    Secret,
    /// `true` or `false`.
    Flag,
    /// A whole number in this range.
    Integer(i64, i64),
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A list of two whole numbers in this range.
    Pair(i64, i64),
    /// A list of texts.
    Texts,
    /// Patterns by attribute: each a text, an object such as `{"glob": "a*"}`, or a list of both.
    Patterns(&'static [&'static str]),
    /// A list of objects with these members; a single object stands for a list of one.
    Objects(&'static [Setting]),
}

/// The type of each text of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Each {
    /// An address to listen on.
    Listen,
    /// An address or a network of peers.
    Network,
    /// A protocol that a connection may be upgraded to; an empty list allows none.
    Protocol,
}

impl Kind {
    /// The setting of this name.
    #[must_use]
    pub fn setting(&self, name: &str) -> Option<&'static Setting> {
        self.settings.iter().find(|setting| setting.name == name)
    }
}

impl Holds {
    /// What is expected of a setting that is not simply one column of the file.
    #[must_use]
    pub const fn own(&self) -> Option<&'static str> {
        match self {
            Self::Own(expected, _) => Some(expected),
            Self::Map => Some("a table of expressions by name"),
            Self::NumberedMap(..) => Some("a table of files by status, such as { 503 = \"FILE\" }"),
            _ => None,
        }
    }
}

impl Setting {
    /// The settings of the table, if its value is a table.
    #[must_use]
    pub const fn inner(&self) -> &'static [Setting] {
        match self.holds {
            Holds::Table(settings) | Holds::Switch(settings) => settings,
            _ => &[],
        }
    }

    /// The word that may be written in place of a table of settings, none of which is set then.
    #[must_use]
    pub fn word(&self) -> Option<&'static str> {
        match (&self.holds, self.default) {
            (Holds::Table(_), Default::Value(word)) => Some(word.trim_matches('"')),
            _ => None,
        }
    }

    /// Whether it can be written in the file.
    #[must_use]
    pub const fn is_in_file(&self) -> bool {
        !matches!(self.place, Where::Api)
    }

    /// Whether the API's objects have it.
    #[must_use]
    pub const fn is_in_api(&self) -> bool {
        !matches!(self.place, Where::File)
    }
}

/// A setting whose column has its name.
pub(crate) const fn setting(
    name: &'static str,
    holds: Holds,
    default: Default,
    doc: &'static str,
) -> Setting {
    column(name, name, holds, default, doc)
}

/// A setting with a column of another name.
pub(crate) const fn column(
    name: &'static str,
    column: &'static str,
    holds: Holds,
    default: Default,
    doc: &'static str,
) -> Setting {
    let (role, place) = (Role::Operator, Where::Everywhere);
    let (is_live, is_kept, is_shown, idle) = (true, false, true, None);
    let (example, beside): (_, &[_]) = (None, &[]);
    Setting {
        name,
        column,
        holds,
        default,
        role,
        place,
        is_live,
        is_kept,
        is_shown,
        example,
        beside,
        idle,
        doc,
    }
}

impl Setting {
    /// The same, settable by admins only.
    pub(crate) const fn by_admin(self) -> Self {
        Self { role: Role::Admin, ..self }
    }

    /// The same, in the file only.
    pub(crate) const fn in_file(self) -> Self {
        Self { place: Where::File, ..self }
    }

    /// The same, in the API only.
    pub(crate) const fn in_api(self) -> Self {
        Self { place: Where::Api, ..self }
    }

    /// The same, read at start only.
    pub(crate) const fn at_start(self) -> Self {
        Self { is_live: false, ..self }
    }

    /// The same, kept when an object is replaced.
    pub(crate) const fn kept(self) -> Self {
        Self { is_kept: true, ..self }
    }

    /// The same, read but not shown.
    pub(crate) const fn unshown(self) -> Self {
        Self { is_shown: false, ..self }
    }

    /// The same, with this example.
    pub(crate) const fn such_as(self, example: &'static str) -> Self {
        Self { example: Some(example), ..self }
    }

    /// The same, with other settings that the example needs.
    pub(crate) const fn beside(self, beside: &'static [(&'static str, &'static str)]) -> Self {
        Self { beside, ..self }
    }

    /// The same, without effect yet.
    pub(crate) const fn idle(self, why: &'static str) -> Self {
        Self { idle: Some(why), ..self }
    }
}

/// A figure that is a number.
pub(crate) const fn count(name: &'static str, doc: &'static str) -> Figure {
    Figure { name, measure: Measure::Count, doc }
}
