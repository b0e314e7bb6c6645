//! The running and the saved list of rules (seed 000).
//!
//! Owns two lists of plain rules, each in order of its numbers. A new rule goes into the running list
//! and is transient until the list is saved; saving overwrites the saved list as a whole (promise R1);
//! clearing leaves the saved list alone; a restart fills the running list from the saved one.
//! Each command does all or nothing. Never compiles a rule and never writes a file.

use crate::rule::Rule;
use crate::text::NewRule;
use paceline_types::limits;
use std::fmt;

/// The step from the highest number to that of a new rule.
const NUMBER_STEP: u32 = 10;

/// The running and the saved list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lists {
    running: Vec<Rule>,
    saved: Vec<Rule>,
}

/// Why a list was not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListError {
    /// The list has a rule with this number already.
    Duplicate(u32),
    /// The list has no rule with this number.
    NoSuchRule(u32),
    /// The list has [`limits::RULES_MAX`] rules.
    Full,
    /// No number is left behind the highest one.
    NoNumber,
}

impl fmt::Display for ListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Duplicate(number) => write!(f, "there is a rule {number} already"),
            Self::NoSuchRule(number) => write!(f, "there is no rule {number}"),
            Self::Full => write!(f, "a list may have at most {} rules", limits::RULES_MAX),
            Self::NoNumber => {
                f.write_str("no number is left behind the last rule, expected one of its own")
            }
        }
    }
}

impl std::error::Error for ListError {}

impl Lists {
    /// Both lists as a start finds them: the running one is filled from the saved one, whose rules
    /// may come in any order.
    ///
    /// # Errors
    ///
    /// When the saved rules are no list: a number twice, or too many.
    pub fn from_saved(mut saved: Vec<Rule>) -> Result<Self, ListError> {
        if saved.len() > limits::RULES_MAX {
            return Err(ListError::Full);
        }
        saved.sort_by_key(|rule| rule.number);
        if let Some(pair) = saved.windows(2).find(|pair| pair[0].number == pair[1].number) {
            return Err(ListError::Duplicate(pair[0].number));
        }
        Ok(Self { running: saved.clone(), saved })
    }

    /// NEW_RULE: adds a rule to the running list, at the end unless it has a number of its own.
    /// Answers with the number.
    ///
    /// # Errors
    ///
    /// When the number is taken, none is left, or the list is full.
    pub fn add(&mut self, rule: NewRule) -> Result<u32, ListError> {
        if self.running.len() >= limits::RULES_MAX {
            return Err(ListError::Full);
        }
        let number = match rule.number {
            Some(number) => number,
            None => self.next_number()?,
        };
        match self.place(number) {
            Ok(_) => Err(ListError::Duplicate(number)),
            Err(place) => {
                self.running.insert(place, rule.numbered(number));
                Ok(number)
            }
        }
    }

    /// Takes a rule out of the running list.
    ///
    /// # Errors
    ///
    /// When there is no such rule.
    pub fn delete(&mut self, number: u32) -> Result<Rule, ListError> {
        let place = self.place(number).map_err(|_| ListError::NoSuchRule(number))?;
        Ok(self.running.remove(place))
    }

    /// Enables or disables a running rule.
    ///
    /// # Errors
    ///
    /// When there is no such rule.
    pub fn set_disabled(&mut self, number: u32, disabled: bool) -> Result<(), ListError> {
        self.rule_mut(number)?.disabled = disabled;
        Ok(())
    }

    /// Says whether matches of a running rule are told.
    ///
    /// # Errors
    ///
    /// When there is no such rule.
    pub fn set_log(&mut self, number: u32, log: bool) -> Result<(), ListError> {
        self.rule_mut(number)?.log = log;
        Ok(())
    }

    /// NO_RULES: empties the running list; what was saved stays.
    pub fn clear(&mut self) {
        self.running.clear();
    }

    /// SAVE_RULES: the saved list becomes a copy of the running one, in place of what it was.
    pub fn save(&mut self) {
        self.saved.clone_from(&self.running);
    }

    /// A restart: the running list becomes a copy of the saved one; what was not saved is gone.
    pub fn restart(&mut self) {
        self.running.clone_from(&self.saved);
    }

    /// LIST_RULES: the running list, in order.
    #[must_use]
    pub fn running(&self) -> &[Rule] {
        &self.running
    }

    /// The saved list, in order.
    #[must_use]
    pub fn saved(&self) -> &[Rule] {
        &self.saved
    }

    fn next_number(&self) -> Result<u32, ListError> {
        let highest = self.running.last().map_or(0, |rule| rule.number);
        highest.checked_add(NUMBER_STEP).ok_or(ListError::NoNumber)
    }

    fn place(&self, number: u32) -> Result<usize, usize> {
        self.running.binary_search_by_key(&number, |rule| rule.number)
    }

    fn rule_mut(&mut self, number: u32) -> Result<&mut Rule, ListError> {
        let place = self.place(number).map_err(|_| ListError::NoSuchRule(number))?;
        Ok(&mut self.running[place])
    }
}

#[cfg(test)]
mod tests;
