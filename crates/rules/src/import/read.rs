//! The syntax of a file: lines, words, and the properties of rules.
//!
//! Properties are split as Comdb2 splits them: `flags`, `mode`, `sql` and `identity` end at a semicolon, all others at
//! a blank. Of a property that is given several times the last one counts. Words are recognized in any case.

use super::error::{ImportError, ImportProblem};
use super::{
    DEFAULT_POOL, KnownPool, RULESET_FILE_BYTES_MAX, RULESET_LINE_BYTES_MAX, RULESET_RULES_MAX,
    RULESET_THREADS_MAX,
};
use paceline_types::limits;
use std::collections::BTreeMap;

/// What separates words.
pub(super) const BLANKS: [char; 6] = ['\t', '\n', '\r', '\u{b}', '\u{c}', ' '];

/// The most pools that a file can define: each needs a priority other than 0.
const POOLS_MAX: usize = 254;

/// A file whose syntax is valid.
#[derive(Debug, Default)]
pub(super) struct File {
    pub(super) items: BTreeMap<u32, Item>,
    /// The pools that it defines, in order.
    pub(super) pools: Vec<Defined>,
}

#[derive(Debug)]
pub(super) struct Defined {
    pub(super) name: Value,
    pub(super) threads: Option<u32>,
}

/// A text and where it stands.
#[derive(Clone, Debug, Default)]
pub(super) struct Value {
    pub(super) line: usize,
    pub(super) column: usize,
    pub(super) text: String,
}

/// A rule of the file.
#[derive(Debug, Default)]
pub(super) struct Item {
    pub(super) action: Action,
    pub(super) pool: Option<Value>,
    pub(super) flags: Flags,
    pub(super) mode: Mode,
    /// The patterns, by index in [`PATTERNS`].
    pub(super) patterns: [Option<Value>; PATTERNS.len()],
    /// In lower case.
    pub(super) fingerprint: Option<String>,
}

/// The properties that are patterns, with their attributes.
pub(super) const PATTERNS: [(&str, &str); 5] = [
    ("originHost", "host"),
    ("originTask", "task"),
    ("user", "user"),
    ("sql", "text"),
    ("identity", "identity"),
];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Action {
    #[default]
    None,
    Reject,
    Unreject,
    SetPool,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flags {
    pub(super) stop: bool,
    pub(super) print: bool,
    pub(super) disable: bool,
    pub(super) dyn_pool: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Mode {
    pub(super) exact: bool,
    pub(super) glob: bool,
    pub(super) regexp: bool,
    pub(super) nocase: bool,
}

impl Default for Mode {
    fn default() -> Self {
        Self { exact: true, ..Self::NONE }
    }
}

impl Mode {
    pub(super) const NONE: Self = Self { exact: false, glob: false, regexp: false, nocase: false };
}

pub(super) fn read(text: &str, known: &[KnownPool]) -> Result<File, ImportError> {
    if text.len() > RULESET_FILE_BYTES_MAX {
        return Err(ImportError { line: 1, column: 1, problem: ImportProblem::FileTooLong });
    }
    let mut reader = Reader { known, version: None, file: File::default() };
    let mut last = 1;
    for (index, line) in text.split('\n').enumerate() {
        last = index + 1;
        if line.len() > RULESET_LINE_BYTES_MAX {
            let problem = ImportProblem::LineTooLong;
            return Err(ImportError { line: last, column: 1, problem });
        }
        let mut words = Words { line: last, text: line, at: 0, counted: (0, 1) };
        if let Some(nul) = line.find('\0') {
            return Err(words.error(nul, ImportProblem::Character('\0')));
        }
        if !line.trim_start_matches(BLANKS).starts_with('#') {
            reader.line(&mut words)?;
        }
    }
    match reader.version {
        Some(_) => Ok(reader.file),
        None => Err(ImportError::expected(last, 1, "the line \"version 1\" or \"version 2\"", "")),
    }
}

struct Reader<'k> {
    known: &'k [KnownPool],
    version: Option<u8>,
    file: File,
}

impl Reader<'_> {
    fn line(&mut self, words: &mut Words<'_>) -> Result<(), ImportError> {
        let Some(first) = words.next() else { return Ok(()) };
        if self.version.is_none() {
            if !first.is("version") {
                return Err(first.expected("the line \"version 1\" or \"version 2\""));
            }
            let number = words.number("1 or 2", 1..=2)?;
            self.version = u8::try_from(number).ok();
            // Comdb2 ignores the rest of this line.
            return Ok(());
        }
        if first.is("rule") {
            self.rule(words)
        } else if first.is("pool") {
            self.pool(words, &first)
        } else {
            Err(first.expected("rule, pool or a comment that begins with #"))
        }
    }

    fn pool(&mut self, words: &mut Words<'_>, first: &Word<'_>) -> Result<(), ImportError> {
        self.check_version(first)?;
        let name = words.value("the name of the pool")?;
        check_pool_name(&name)?;
        let mut threads = None;
        while let Some(word) = words.next() {
            if !word.is("threads") {
                return Err(word.expected("threads or the end of the line"));
            }
            let number =
                words.number("a number of threads from 0 to 1000000", 0..=RULESET_THREADS_MAX)?;
            threads = Some(number).filter(|threads| *threads > 0);
        }
        // A pool that exists stays as it is.
        if !self.has_pool(name.text) {
            if self.file.pools.len() >= POOLS_MAX {
                return Err(name.error(ImportProblem::NoPriority(name.text.to_owned())));
            }
            self.file.pools.push(Defined { name: name.into(), threads });
        }
        Ok(())
    }

    fn rule(&mut self, words: &mut Words<'_>) -> Result<(), ImportError> {
        let number =
            words.number("the number of the rule, from 1 to 1000", 1..=RULESET_RULES_MAX)?;
        let mut item = self.file.items.remove(&number).unwrap_or_default();
        while let Some(word) = words.next() {
            self.property(&word, words, &mut item)?;
        }
        self.file.items.insert(number, item);
        Ok(())
    }

    fn property(
        &self,
        name: &Word<'_>,
        words: &mut Words<'_>,
        item: &mut Item,
    ) -> Result<(), ImportError> {
        let pattern = PATTERNS.iter().position(|(property, _)| name.is(property));
        if let Some((at, place)) = pattern.and_then(|at| Some((at, item.patterns.get_mut(at)?))) {
            // Comdb2 ends these two at a semicolon.
            let is_text = matches!(PATTERNS.get(at), Some(("sql" | "identity", _)));
            let value = if is_text { words.text()? } else { words.value("a pattern")? };
            *place = Some(value.into());
        } else if name.is("fingerprint") {
            item.fingerprint = Some(fingerprint(&words.value(FINGERPRINT)?)?);
        } else if name.is("action") {
            item.action = action(&words.value(ACTIONS)?)?;
        } else if name.is("pool") {
            self.check_version(name)?;
            let pool = words.value("the name of the pool")?;
            check_pool_name(&pool)?;
            if !item.flags.dyn_pool && !self.has_pool(pool.text) {
                return Err(pool.error(ImportProblem::UnknownPool(pool.text.to_owned())));
            }
            item.pool = Some(pool.into());
        } else if name.is("flags") {
            item.flags = Flags::default();
            words.set(FLAGS, |word| flag(&mut item.flags, word))?;
        } else if name.is("mode") {
            item.mode = Mode::NONE;
            words.set(MODES, |word| mode(&mut item.mode, word))?;
        } else {
            return Err(name.expected(
                "action, pool, flags, mode, originHost, originTask, user, sql, identity or \
                 fingerprint",
            ));
        }
        Ok(())
    }

    fn check_version(&self, at: &Word<'_>) -> Result<(), ImportError> {
        match self.version {
            Some(1) => Err(at.error(ImportProblem::Version1)),
            _ => Ok(()),
        }
    }

    fn has_pool(&self, name: &str) -> bool {
        name.eq_ignore_ascii_case(DEFAULT_POOL)
            || self.known.iter().any(|pool| pool.name == name)
            || self.file.pools.iter().any(|pool| pool.name.text == name)
    }
}

const ACTIONS: &str = "NONE, REJECT, REJECT_ALL, UNREJECT or SET_POOL";
const FLAGS: &str = "NONE, DISABLE, PRINT, STOP or DYN_POOL, and a semicolon behind them";
const MODES: &str = "NONE, EXACT, GLOB, REGEXP or NOCASE, and a semicolon behind them";
const FINGERPRINT: &str = "32 hexadecimal digits like X'0123456789abcdef0123456789abcdef'";

fn action(word: &Word<'_>) -> Result<Action, ImportError> {
    match word.text.to_ascii_uppercase().as_str() {
        "NONE" => Ok(Action::None),
        "REJECT" | "REJECT_ALL" => Ok(Action::Reject),
        "UNREJECT" => Ok(Action::Unreject),
        "SET_POOL" => Ok(Action::SetPool),
        _ => Err(word.expected(ACTIONS)),
    }
}

fn flag(flags: &mut Flags, word: &str) -> bool {
    match word {
        "NONE" => {}
        "STOP" => flags.stop = true,
        "PRINT" => flags.print = true,
        "DISABLE" => flags.disable = true,
        "DYN_POOL" => flags.dyn_pool = true,
        _ => return false,
    }
    true
}

fn mode(mode: &mut Mode, word: &str) -> bool {
    match word {
        "NONE" => {}
        "EXACT" => mode.exact = true,
        "GLOB" => mode.glob = true,
        "REGEXP" => mode.regexp = true,
        "NOCASE" => mode.nocase = true,
        _ => return false,
    }
    true
}

fn fingerprint(word: &Word<'_>) -> Result<String, ImportError> {
    let digits = word.text.strip_prefix(['X', 'x']);
    let digits = digits.and_then(|rest| rest.strip_prefix('\'')?.strip_suffix('\''));
    let is_valid =
        |digits: &&str| digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let digits = digits.filter(is_valid).ok_or_else(|| word.expected(FINGERPRINT))?;
    Ok(digits.to_ascii_lowercase())
}

fn check_pool_name(name: &Word<'_>) -> Result<(), ImportError> {
    let is_valid =
        name.text.len() <= limits::NAME_BYTES_MAX && !name.text.contains(char::is_control);
    let what = "a pool's name of at most 1024 bytes without control characters";
    if is_valid { Ok(()) } else { Err(name.expected(what)) }
}

/// A part of a line.
struct Word<'l> {
    line: usize,
    column: usize,
    text: &'l str,
}

impl Word<'_> {
    fn is(&self, name: &str) -> bool {
        self.text.eq_ignore_ascii_case(name)
    }

    fn expected(&self, what: &'static str) -> ImportError {
        ImportError::expected(self.line, self.column, what, self.text)
    }

    fn error(&self, problem: ImportProblem) -> ImportError {
        ImportError { line: self.line, column: self.column, problem }
    }
}

impl From<Word<'_>> for Value {
    fn from(word: Word<'_>) -> Self {
        Self { line: word.line, column: word.column, text: word.text.to_owned() }
    }
}

/// What is left of a line.
struct Words<'l> {
    line: usize,
    text: &'l str,
    /// The offset of what is left.
    at: usize,
    /// The offset and the column of the last word. Columns are counted from there, so that a line takes linear time.
    counted: (usize, usize),
}

impl<'l> Words<'l> {
    /// The next word. One blank behind it is consumed with it.
    fn next(&mut self) -> Option<Word<'l>> {
        let rest = self.text.get(self.at..)?;
        let trimmed = rest.trim_start_matches(BLANKS);
        let start = self.text.len() - trimmed.len();
        let text = trimmed.split(BLANKS).next().filter(|text| !text.is_empty())?;
        self.at = start + text.len() + 1;
        Some(self.word(start, text))
    }

    fn value(&mut self, what: &'static str) -> Result<Word<'l>, ImportError> {
        match self.next() {
            Some(word) => Ok(word),
            None => Err(self.ends(what)),
        }
    }

    fn number(
        &mut self,
        what: &'static str,
        range: std::ops::RangeInclusive<u32>,
    ) -> Result<u32, ImportError> {
        let word = self.value(what)?;
        let number = word.text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| word.expected(what))
    }

    /// What comes before the next semicolon, blanks included.
    fn text(&mut self) -> Result<Word<'l>, ImportError> {
        let Some((_, value)) = self.before_semicolon() else { return Err(self.ends("a pattern")) };
        match value.text.find('\r') {
            Some(at) => {
                let column = value.column + value.text.get(..at).map_or(0, |s| s.chars().count());
                let problem = ImportProblem::Character('\r');
                Err(ImportError { line: value.line, column, problem })
            }
            None => Ok(value),
        }
    }

    /// The same, with its offset.
    fn before_semicolon(&mut self) -> Option<(usize, Word<'l>)> {
        let rest = self.text.get(self.at..)?;
        let trimmed = rest.trim_start_matches(';');
        let start = self.text.len() - trimmed.len();
        let text = trimmed.split(';').next().filter(|text| !text.is_empty())?;
        self.at = start + text.len() + 1;
        Some((start, self.word(start, text)))
    }

    /// Words up to the next semicolon, in braces or not; `add` returns whether it knows a word.
    fn set(
        &mut self,
        what: &'static str,
        mut add: impl FnMut(&str) -> bool,
    ) -> Result<(), ImportError> {
        let Some((mut start, value)) = self.before_semicolon() else { return Err(self.ends(what)) };
        start += value.text.len() - value.text.trim_start_matches(BLANKS).len();
        let trimmed = value.text.trim_matches(BLANKS);
        let inner = match (trimmed.strip_prefix('{'), trimmed.ends_with('}')) {
            (Some(inner), true) => inner.strip_suffix('}'),
            (None, false) => Some(trimmed),
            _ => None,
        };
        let inner = inner.filter(|inner| !inner.contains(['{', '}']));
        let inner = inner.ok_or_else(|| value.expected("braces around all words, or none"))?;
        start += usize::from(trimmed.starts_with('{'));
        let mut count = 0;
        for text in inner.split(|c| c == ',' || BLANKS.contains(&c)) {
            let word = self.word(start, text);
            start += text.len() + 1;
            if text.is_empty() {
                continue;
            }
            if !add(&text.to_ascii_uppercase()) {
                return Err(word.expected(what));
            }
            count += 1;
        }
        if count == 0 { Err(value.expected(what)) } else { Ok(()) }
    }

    fn ends(&mut self, what: &'static str) -> ImportError {
        ImportError::expected(self.line, self.column(self.text.len()), what, "")
    }

    fn error(&mut self, at: usize, problem: ImportProblem) -> ImportError {
        ImportError { line: self.line, column: self.column(at), problem }
    }

    fn word(&mut self, start: usize, text: &'l str) -> Word<'l> {
        Word { line: self.line, column: self.column(start), text }
    }

    fn column(&mut self, at: usize) -> usize {
        let (from, column) = if at < self.counted.0 { (0, 1) } else { self.counted };
        let between = self.text.get(from..at).unwrap_or_default();
        self.counted = (at, column + between.chars().count());
        self.counted.1
    }
}
