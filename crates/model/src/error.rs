//! Why rows are not a valid configuration, and where: table, row and column, if it is one place.
//!
//! Owns the translation of the rooms' errors, which name their own objects, to rows and columns.

use crate::schema::{BACKEND, CHECKPOINT, FRONTEND, POOL, RESOURCE, RULE, SERVER, SQL_TARGET};
use paceline_checkpoints::{Field, SpecError};
use paceline_claims::GraphError;
use paceline_engine::{PlanError, RoutingError, RoutingOf as Of};
use paceline_pools::PoolError;
use paceline_rules::{CompileRuleError, Part};
use std::fmt;

/// How many characters of a long name an error shows.
const SHOWN_CHARS_MAX: usize = 64;

/// Why rows are not a valid configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelError {
    /// The table.
    pub table: String,
    /// The row's name or number, if the error concerns one row.
    pub row: Option<String>,
    /// The column, if the error concerns one.
    pub column: Option<String>,
    /// What is wrong there.
    pub message: String,
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.table)?;
        if let Some(row) = &self.row {
            let row: String = row.chars().take(SHOWN_CHARS_MAX).collect();
            write!(f, " {row}")?;
        }
        if let Some(column) = &self.column {
            write!(f, ": {column}")?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for ModelError {}

impl ModelError {
    fn at(table: &str, row: Option<&str>, column: Option<&str>, message: String) -> Self {
        let [row, column] = [row, column].map(|text| text.map(str::to_owned));
        Self { table: table.to_owned(), row, column, message }
    }
}

impl From<PlanError> for ModelError {
    fn from(error: PlanError) -> Self {
        match error {
            PlanError::Rule(error) => of_rule(&error),
            PlanError::Checkpoint(error) => of_checkpoint(&error),
            PlanError::Resource(error) => of_resource(&error),
            PlanError::Routing(error) => of_routing(&error),
            PlanError::NoSuchPool { checkpoint, pool } => {
                let message = format!("there is no pool \"{pool}\"");
                Self::at(CHECKPOINT, Some(&checkpoint), Some("at"), message)
            }
        }
    }
}

fn of_rule(error: &CompileRuleError) -> ModelError {
    let (column, message) = match error.part {
        Part::Whole => (None, error.fault.to_string()),
        Part::Criterion(_) => (Some("criteria"), format!("{}{}", error.part, error.fault)),
        Part::When => (Some("when"), error.fault.to_string()),
        Part::Action => (Some("action"), error.fault.to_string()),
    };
    ModelError::at(RULE, Some(&error.rule.to_string()), column, message)
}

fn of_checkpoint(error: &SpecError) -> ModelError {
    let column = match error.field {
        Field::LenMax => "queue_max_len",
        Field::TotalMax => "queue_max_total",
        field => field.name(),
    };
    ModelError::at(CHECKPOINT, Some(&error.name), Some(column), error.problem.to_string())
}

fn of_resource(error: &GraphError) -> ModelError {
    let (row, column) = match error {
        GraphError::NameTooLong(name) | GraphError::DuplicateName(name) => (Some(name), "name"),
        GraphError::UnknownParent { resource, .. } | GraphError::ParentTwice { resource, .. } => {
            (Some(resource), "parents")
        }
        GraphError::Cycle(names) => (names.first(), "parents"),
        _ => (None, ""),
    };
    let column = row.and(Some(column));
    ModelError::at(RESOURCE, row.map(AsRef::as_ref), column, error.to_string())
}

fn of_routing(error: &RoutingError) -> ModelError {
    let (table, row) = match &error.of {
        Of::Frontend(name) => (FRONTEND, name.to_string()),
        Of::Backend(name) => (BACKEND, name.to_string()),
        Of::Server { backend, name } => (SERVER, format!("{backend}/{name}")),
        Of::SqlTarget(name) => (SQL_TARGET, name.to_string()),
    };
    let message = match &error.entry {
        Some(entry) => format!("{entry}: {}", error.problem),
        None => error.problem.to_string(),
    };
    ModelError::at(table, Some(&row), Some(error.field), message)
}

impl From<PoolError> for ModelError {
    fn from(error: PoolError) -> Self {
        let (row, column) = match &error {
            PoolError::OverlappingRange { name, .. } => (Some(name), Some("priority_min")),
            PoolError::NoRange { name } => (Some(name), Some("state")),
            PoolError::Threads { name, .. } => (Some(name), Some("threads_max")),
            PoolError::Name { name } | PoolError::AlreadyExists { name } => {
                (Some(name), Some("name"))
            }
            _ => (None, None),
        };
        Self::at(POOL, row.map(AsRef::as_ref), column, error.to_string())
    }
}
