//! The management interface as the engine sees it: what the door implements, and the functions by name.
//!
//! The engine knows names, parameters and whether a function returns a value or rows. What a function does, who may
//! call it and which columns its rows have is the door's.

use crate::failure::Failure;
use crate::types::Type;
use paceline_postgres::wire::SqlState;

/// A value that goes to or comes from a management function.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    Bytes(Vec<u8>),
}

/// A column of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: Type,
}

impl Column {
    /// A column.
    pub fn new(name: impl Into<String>, kind: Type) -> Self {
        Self { name: name.into(), kind }
    }
}

/// Rows with their columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// The columns.
    pub columns: Vec<Column>,
    /// A value for each column, row by row.
    pub rows: Vec<Vec<Value>>,
}

/// What a function returns.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Nothing.
    Void,
    /// One value.
    Value(Value),
    /// Rows.
    Rows(Rows),
}

/// What stands behind the `comdb2_` functions and the tables of the schema `paceline`.
pub trait Management: Send + Sync {
    /// Calls a function. An argument has a name if the client wrote one (`name => value`). Called once for each call
    /// in the text of a statement that runs, in the order of the text, before the statement itself.
    fn call(&self, function: &str, args: &[(Option<&str>, Value)]) -> Result<Output, Failure>;

    /// The rows of a table, read when a statement that names it begins. Tables of the schema `paceline` are called
    /// `paceline.NAME`.
    fn table(&self, name: &str) -> Result<Rows, Failure>;

    /// The columns of a table, or of the rows of a function, without reading them; none if there is no such table.
    /// They must not change while a session lives.
    fn columns(&self, name: &str) -> Option<Vec<Column>>;
}

/// Refuses every function and knows no table.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoManagement;

impl Management for NoManagement {
    fn call(&self, function: &str, _: &[(Option<&str>, Value)]) -> Result<Output, Failure> {
        let message = format!("function {function} does not exist");
        Err(Failure::new(SqlState::UNDEFINED_FUNCTION, message))
    }

    fn table(&self, name: &str) -> Result<Rows, Failure> {
        let message = format!("relation \"{name}\" does not exist");
        Err(Failure::new(SqlState::UNDEFINED_TABLE, message))
    }

    fn columns(&self, _: &str) -> Option<Vec<Column>> {
        None
    }
}

/// What a function returns, as far as the text of a statement must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returns {
    Value(Type),
    Rows,
}

/// A management function.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    pub name: &'static str,
    /// The names of its parameters, in order.
    pub parameters: &'static [&'static str],
    /// How many must be given.
    pub least: usize,
    /// Whether it takes other names too: those of a rule's fields.
    pub is_open: bool,
    pub returns: Returns,
}

const fn function(
    name: &'static str,
    parameters: &'static [&'static str],
    returns: Returns,
) -> Function {
    Function { name, parameters, least: parameters.len(), is_open: false, returns }
}

const VOID: Returns = Returns::Value(Type::Void);

const CONFIGURE: &[&str] = &[
    "name",
    "min_threads",
    "max_threads",
    "priority_low",
    "priority_high",
    "stack_bytes",
    "heap_bytes_max",
    "queue_max",
];

const FUNCTIONS: &[Function] = &[
    function("comdb2_create_pool", &["name"], VOID),
    function("comdb2_drop_pool", &["name"], VOID),
    function("comdb2_persist_pool", &["name"], VOID),
    function("comdb2_unpersist_pool", &["name"], VOID),
    function("comdb2_start_pool", &["name"], VOID),
    function("comdb2_stop_pool", &["name"], VOID),
    Function { least: 1, ..function("comdb2_configure_pool", CONFIGURE, VOID) },
    function("comdb2_list_pools", &[], Returns::Rows),
    function("comdb2_list_rules", &[], Returns::Rows),
    function("comdb2_no_rules", &[], VOID),
    function("comdb2_save_rules", &[], VOID),
    Function {
        least: 0,
        is_open: true,
        ..function("comdb2_new_rule", &["json"], Returns::Value(Type::Int8))
    },
    function("comdb2_delete_rule", &["number"], VOID),
    function("comdb2_explain", &["sql"], Returns::Rows),
    function("comdb2_why", &["id"], Returns::Rows),
    function("comdb2_import_ruleset", &["text"], Returns::Value(Type::Int8)),
];

impl Function {
    /// The function with this name, in lower case.
    pub fn find(name: &str) -> Option<&'static Self> {
        FUNCTIONS.iter().find(|function| function.name == name)
    }

    /// Refuses a wrong number of arguments, an unknown name, and a parameter that is given twice or not at all.
    pub fn check<'a>(&self, names: impl Iterator<Item = Option<&'a str>>) -> Result<(), Failure> {
        let mut given: Vec<&str> = vec![];
        for (at, name) in names.enumerate() {
            let positional = self.parameters.get(at).copied();
            let known = |name: &&str| self.is_open || self.parameters.contains(name);
            let Some(name) = name.filter(known).or(positional.filter(|_| name.is_none())) else {
                return Err(self.no_such(name));
            };
            if given.contains(&name) {
                let message = format!("argument \"{name}\" of {} is given twice", self.name);
                return Err(Failure::syntax(message));
            }
            given.push(name);
        }
        let is_missing = |name: &&&str| !given.contains(*name);
        match self.parameters.iter().take(self.least).find(is_missing) {
            Some(name) => {
                Err(self.no_such(Some(name)).hint(format!("Give the argument \"{name}\".")))
            }
            None => Ok(()),
        }
    }

    fn no_such(&self, _: Option<&str>) -> Failure {
        let message = format!("function {} has no variant with these arguments", self.name);
        let parameters = format!("Its parameters are ({}).", self.parameters.join(", "));
        Failure::new(SqlState::UNDEFINED_FUNCTION, message).hint(parameters)
    }
}

#[cfg(test)]
mod tests {
    use super::Function;

    #[test]
    fn arguments_are_checked() {
        let check = |name: &str, args: &[Option<&str>]| {
            Function::find(name).unwrap().check(args.iter().copied()).is_ok()
        };
        assert!(check("comdb2_create_pool", &[None]));
        assert!(check("comdb2_create_pool", &[Some("name")]));
        assert!(check("comdb2_configure_pool", &[None, Some("queue_max")]));
        assert!(check("comdb2_new_rule", &[Some("user"), Some("priority")]));
        assert!(!check("comdb2_create_pool", &[]));
        assert!(!check("comdb2_create_pool", &[None, None]));
        assert!(!check("comdb2_create_pool", &[Some("title")]));
        assert!(!check("comdb2_configure_pool", &[None, Some("name")]));
        assert!(!check("comdb2_list_pools", &[None]));
    }
}
