//! Parsing a rule: first words and quoted texts, then the grammar.

use super::{NewRule, ParseRuleError, Problem, RESERVED, RULE_BYTES_MAX};
use crate::rule::{Action, CRITERIA_MAX, Criterion, PatternMode, Rule, STEP_MAX, Then};
use paceline_types::{Name, Priority};

pub(super) fn read(text: &str) -> Result<NewRule, ParseRuleError> {
    let mut reader = Reader::begin(text)?;
    let number = reader.number()?;
    let criteria = reader.criteria()?;
    let when = match reader.word() {
        Some("when") => {
            reader.advance()?;
            Some(reader.text("a condition")?)
        }
        _ => None,
    };
    let action = reader.action("and, when, nothing, set, raise, lower or reject")?;
    let then = reader.then(action)?;
    let (log, disabled) = reader.flags()?;
    let rule = Rule { number: 0, criteria, when, action, then, disabled, log };
    Ok(NewRule { number, rule })
}

pub(super) fn read_criteria(text: &str) -> Result<Vec<Criterion>, ParseRuleError> {
    let mut reader = Reader::begin(text)?;
    let criteria = reader.criteria()?;
    reader.end("and, or the end")?;
    Ok(criteria)
}

pub(super) fn read_action(text: &str) -> Result<Action, ParseRuleError> {
    let mut reader = Reader::begin(text)?;
    let action = reader.action("nothing, set, raise, lower or reject")?;
    reader.end("the end")?;
    Ok(action)
}

#[derive(Debug)]
enum Token<'t> {
    Word(&'t str),
    Quoted(String),
}

struct Reader<'t> {
    rest: &'t str,
    /// The column of `rest`.
    column: usize,
    /// The next token and its column.
    next: Option<(Token<'t>, usize)>,
}

impl<'t> Reader<'t> {
    /// Starts before the first token.
    fn begin(text: &'t str) -> Result<Self, ParseRuleError> {
        if text.len() > RULE_BYTES_MAX {
            return Err(ParseRuleError { column: 1, problem: Problem::TooLong });
        }
        let mut reader = Self { rest: text, column: 1, next: None };
        reader.advance()?;
        Ok(reader)
    }

    fn end(&self, what: &'static str) -> Result<(), ParseRuleError> {
        if self.next.is_none() { Ok(()) } else { Err(self.expected(what)) }
    }

    fn number(&mut self) -> Result<Option<u32>, ParseRuleError> {
        match self.word() {
            Some(word) if word.starts_with(|c: char| c.is_ascii_digit()) => {
                let number = word.parse();
                let number =
                    number.map_err(|_| self.expected("a rule number of at most 4294967295"))?;
                self.advance()?;
                Ok(Some(number))
            }
            _ => Ok(None),
        }
    }

    fn criteria(&mut self) -> Result<Vec<Criterion>, ParseRuleError> {
        let mut criteria = vec![];
        if self.next.is_none() || self.word().is_some_and(|word| RESERVED.contains(&word)) {
            return Ok(criteria);
        }
        loop {
            if criteria.len() >= CRITERIA_MAX {
                return Err(self.fail(Problem::TooManyCriteria));
            }
            criteria.push(self.criterion()?);
            if self.word() != Some("and") {
                return Ok(criteria);
            }
            self.advance()?;
        }
    }

    fn criterion(&mut self) -> Result<Criterion, ParseRuleError> {
        let column = self.column_of_next();
        let name = self.text("an attribute")?;
        let problem = |error| ParseRuleError { column, problem: Problem::Attribute(error) };
        let attribute = Name::parse(&name).map_err(problem)?;
        let mode = match self.word() {
            Some("exact") => PatternMode::Exact,
            Some("glob") => PatternMode::Glob,
            Some("regex") => PatternMode::Regex,
            _ => return Err(self.expected("exact, glob or regex")),
        };
        self.advance()?;
        let nocase = self.word() == Some("nocase");
        if nocase {
            self.advance()?;
        }
        let pattern = self.text("a pattern")?;
        Ok(Criterion { attribute, mode, nocase, pattern })
    }

    /// An action; `what` describes what is expected here.
    fn action(&mut self, what: &'static str) -> Result<Action, ParseRuleError> {
        let Some(word) = self.word() else { return Err(self.expected(what)) };
        let action = match word {
            "nothing" => Action::Nothing,
            "reject" => Action::Reject,
            "set" => {
                self.advance()?;
                let priority = self.integer().and_then(Priority::new);
                Action::Set(priority.ok_or_else(|| self.expected("a priority of -127 to 127"))?)
            }
            "raise" | "lower" => {
                self.advance()?;
                let step = self.integer().and_then(|n| u8::try_from(n).ok());
                let step = step.filter(|n| (1..=STEP_MAX).contains(n));
                let step = step.ok_or_else(|| self.expected("a step of 1 to 254"))?;
                if word == "raise" { Action::Raise(step) } else { Action::Lower(step) }
            }
            _ => return Err(self.expected(what)),
        };
        self.advance()?;
        Ok(action)
    }

    fn then(&mut self, action: Action) -> Result<Then, ParseRuleError> {
        let then = match self.word() {
            Some("continue") => Then::Continue,
            Some("stop") => Then::Stop,
            _ => return Ok(action.then()),
        };
        self.advance()?;
        Ok(then)
    }

    fn flags(&mut self) -> Result<(bool, bool), ParseRuleError> {
        let (mut log, mut disabled) = (false, false);
        while self.next.is_some() {
            let flag = match self.word() {
                Some("log") => &mut log,
                Some("disabled") => &mut disabled,
                _ => return Err(self.expected("continue, stop, log, disabled or the end")),
            };
            if *flag {
                return Err(self.expected("each flag once"));
            }
            *flag = true;
            self.advance()?;
        }
        Ok((log, disabled))
    }

    fn word(&self) -> Option<&'t str> {
        match &self.next {
            Some((Token::Word(word), _)) => Some(word),
            _ => None,
        }
    }

    fn integer(&self) -> Option<i64> {
        // Parsing a number would accept a plus sign, which could be mistaken for a raise.
        self.word().filter(|word| !word.starts_with('+'))?.parse().ok()
    }

    /// A word that is not reserved, or a quoted text.
    fn text(&mut self, what: &'static str) -> Result<String, ParseRuleError> {
        let text = match &mut self.next {
            Some((Token::Word(word), _)) if !RESERVED.contains(word) => word.to_string(),
            Some((Token::Quoted(text), _)) => std::mem::take(text),
            _ => return Err(self.expected(what)),
        };
        self.advance()?;
        Ok(text)
    }

    fn column_of_next(&self) -> usize {
        self.next.as_ref().map_or(self.column, |(_, column)| *column)
    }

    fn fail(&self, problem: Problem) -> ParseRuleError {
        ParseRuleError { column: self.column_of_next(), problem }
    }

    fn expected(&self, what: &'static str) -> ParseRuleError {
        let found = match &self.next {
            Some((Token::Word(word), _)) => word,
            Some((Token::Quoted(text), _)) if text.is_empty() => "\"\"",
            Some((Token::Quoted(text), _)) => text.as_str(),
            None => "",
        };
        ParseRuleError::expected(self.column_of_next(), what, found)
    }

    /// Reads the next token.
    fn advance(&mut self) -> Result<(), ParseRuleError> {
        let trimmed = self.rest.trim_start();
        let blanks = self.rest.len() - trimmed.len();
        self.skip(blanks);
        let column = self.column;
        let token = match self.rest.chars().next() {
            None => None,
            Some('"') => Some(Token::Quoted(self.double_quoted()?)),
            Some('\'') => Some(Token::Quoted(self.single_quoted()?)),
            Some(_) => Some(Token::Word(self.bare()?)),
        };
        self.next = token.map(|token| (token, column));
        let behind = self.rest.chars().next();
        if self.next.is_some() && behind.is_some_and(|c| !c.is_whitespace()) {
            return Err(ParseRuleError::expected(self.column, "a blank", self.rest));
        }
        Ok(())
    }

    fn skip(&mut self, bytes: usize) -> &'t str {
        let (skipped, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        self.column += skipped.chars().count();
        skipped
    }

    fn bare(&mut self) -> Result<&'t str, ParseRuleError> {
        let len = self.rest.find(char::is_whitespace).unwrap_or(self.rest.len());
        let wrong = |c: char| c.is_control() || matches!(c, '"' | '\'' | '\\');
        let word = &self.rest[..len];
        // The quotes of `header["x-user"]` are not part of the name.
        let is_entry = || Name::parse(word).is_ok_and(|name| !name.to_string().contains(wrong));
        if let Some(at) = word.find(wrong).filter(|_| !is_entry()) {
            self.skip(at);
            return Err(ParseRuleError::expected(self.column, "quotes around a text", self.rest));
        }
        Ok(self.skip(len))
    }

    fn single_quoted(&mut self) -> Result<String, ParseRuleError> {
        let unclosed = ParseRuleError { column: self.column, problem: Problem::Unclosed };
        let mut text = String::new();
        self.skip(1);
        loop {
            let Some(len) = self.rest.find('\'') else { return Err(unclosed) };
            text.push_str(self.skip(len));
            self.skip(1);
            if !self.rest.starts_with('\'') {
                return Ok(text);
            }
            text.push_str(self.skip(1));
        }
    }

    fn double_quoted(&mut self) -> Result<String, ParseRuleError> {
        let unclosed = ParseRuleError { column: self.column, problem: Problem::Unclosed };
        let mut text = String::new();
        self.skip(1);
        loop {
            let Some(len) = self.rest.find(['"', '\\']) else { return Err(unclosed) };
            text.push_str(self.skip(len));
            if self.skip(1) == "\"" {
                return Ok(text);
            }
            text.push(self.escaped()?);
        }
    }

    /// The character after a backslash.
    fn escaped(&mut self) -> Result<char, ParseRuleError> {
        let wrong = ParseRuleError { column: self.column - 1, problem: Problem::Escape };
        let (c, len) = match self.rest.chars().next() {
            Some('n') => ('\n', 1),
            Some('r') => ('\r', 1),
            Some('t') => ('\t', 1),
            Some(c @ ('"' | '\\')) => (c, 1),
            Some('u') => {
                let digits = self.rest.strip_prefix("u{").and_then(|rest| rest.split_once('}'));
                let (digits, _) = digits.ok_or_else(|| wrong.clone())?;
                // Parsing a number would accept a plus sign, which is not a digit.
                let is_hex = digits.len() <= 6 && digits.chars().all(|c| c.is_ascii_hexdigit());
                let number = u32::from_str_radix(digits, 16).ok().filter(|_| is_hex);
                let c = number.and_then(char::from_u32).ok_or_else(|| wrong.clone())?;
                (c, digits.len() + 3)
            }
            _ => return Err(wrong),
        };
        self.skip(len);
        Ok(c)
    }
}
