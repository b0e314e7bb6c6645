//! Conditions: the `where` of operations and monitors.
//!
//! A condition is a list of clauses. Operations require all of them to hold, monitors any of them.

use crate::error::{Error, tag};
use crate::json::Json;
use crate::schema::{ColumnId, TableSchema, Type};
use crate::value::{Atom, Datum, Symbols};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// How a clause compares the column with its argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Function {
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `>=`
    GreaterOrEqual,
    /// `>`
    Greater,
    /// The column contains all elements of the argument.
    Includes,
    /// The column contains none of the elements of the argument.
    Excludes,
}

impl Function {
    fn parse(name: &str) -> Result<Self, Error> {
        Ok(match name {
            "<" => Self::Less,
            "<=" => Self::LessOrEqual,
            "==" => Self::Equal,
            "!=" => Self::NotEqual,
            ">=" => Self::GreaterOrEqual,
            ">" => Self::Greater,
            "includes" => Self::Includes,
            "excludes" => Self::Excludes,
            _ => return Err(Error::new("unknown function", format!("No function named {name}."))),
        })
    }

    fn is_order(self) -> bool {
        matches!(self, Self::Less | Self::LessOrEqual | Self::GreaterOrEqual | Self::Greater)
    }
}

/// One clause of a condition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Clause {
    /// `true` or `false`: holds for every row or for none.
    Constant(bool),
    /// A comparison of a column.
    Compare {
        /// The column.
        column: ColumnId,
        /// How it is compared.
        function: Function,
        /// The argument.
        argument: Datum,
    },
}

/// A list of clauses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Condition {
    /// All clauses except those in `equals` and `included`, in the order given.
    clauses: Vec<Clause>,
    /// The arguments of `==` on columns with many such clauses: clients watch thousands of rows by name or UUID
    /// this way. Used only in conditions where any clause may hold.
    equals: Vec<(ColumnId, Many<Datum>)>,
    /// The same for `includes` with one element.
    included: Vec<(ColumnId, Many<Atom>)>,
    /// The columns that clauses look at, sorted: there may be thousands of clauses on few columns.
    tested: Vec<ColumnId>,
    /// The columns whose values are searched for the arguments of `clauses`, with the steps of those arguments.
    searched: Vec<(ColumnId, usize)>,
    /// The steps that the clauses take on any row, whatever its values.
    fixed: usize,
}

/// Arguments of many clauses on one column, sorted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Many<T> {
    sorted: Vec<T>,
    /// The steps of comparing all of them, and of comparing the longest.
    steps: usize,
    longest: usize,
}

/// With more clauses than this, a set is faster.
const FEW: usize = 8;

impl<T: Ord> Many<T> {
    fn new(mut sorted: Vec<T>, steps: impl Fn(&T) -> usize) -> Self {
        sorted.sort();
        sorted.dedup();
        let longest = sorted.iter().map(&steps).max().unwrap_or(0);
        let steps = sorted.iter().map(steps).sum();
        Self { sorted, steps, longest }
    }

    fn contains(&self, wanted: &T) -> bool {
        self.sorted.binary_search(wanted).is_ok()
    }
}

impl Many<Atom> {
    /// Whether `value` contains one of these. The elements of the smaller are searched for in the larger.
    fn any_in(&self, value: &Datum) -> bool {
        let atoms = value.atoms();
        if atoms.len() <= self.sorted.len() {
            atoms.iter().any(|atom| self.contains(atom))
        } else {
            self.sorted.iter().any(|wanted| atoms.binary_search(wanted).is_ok())
        }
    }

    /// The most steps that [`Many::any_in`] takes.
    fn steps_in(&self, value: &Datum) -> usize {
        let (known, wanted) = (value.len(), self.sorted.len());
        if known <= wanted {
            value.steps().saturating_mul(halvings(wanted))
        } else {
            self.steps.saturating_mul(halvings(known))
        }
    }
}

/// How often this many elements are halved to find one of them.
const fn halvings(count: usize) -> usize {
    (usize::BITS - count.leading_zeros()) as usize
}

impl Condition {
    /// The condition of these clauses, for callers that ask whether any of them holds.
    #[must_use]
    pub fn any_of(clauses: Vec<Clause>) -> Self {
        if clauses.len() <= FEW {
            return Self::of(clauses, Vec::new(), Vec::new());
        }
        let mut equals: BTreeMap<ColumnId, Vec<Datum>> = BTreeMap::new();
        let mut included: BTreeMap<ColumnId, Vec<Atom>> = BTreeMap::new();
        let mut others = Vec::new();
        for clause in clauses {
            match clause {
                Clause::Compare {
                    column,
                    function: Function::Includes,
                    argument: Datum::One(atom),
                } => included.entry(column).or_default().push(atom),
                Clause::Compare { column, function: Function::Equal, argument } => {
                    equals.entry(column).or_default().push(argument);
                }
                other => others.push(other),
            }
        }
        let equals = equals.into_iter().map(|(column, all)| (column, Many::new(all, Datum::steps)));
        let included =
            included.into_iter().map(|(column, all)| (column, Many::new(all, Atom::steps)));
        Self::of(others, equals.collect(), included.collect())
    }

    fn of(
        clauses: Vec<Clause>,
        equals: Vec<(ColumnId, Many<Datum>)>,
        included: Vec<(ColumnId, Many<Atom>)>,
    ) -> Self {
        let mut tested: BTreeSet<ColumnId> = clauses.iter().filter_map(Clause::column).collect();
        tested.extend(equals.iter().map(|(column, _)| *column));
        tested.extend(included.iter().map(|(column, _)| *column));
        let mut searched: BTreeMap<ColumnId, usize> = BTreeMap::new();
        for clause in &clauses {
            if let Some((column, steps)) = clause.searched() {
                *searched.entry(column).or_default() += steps;
            }
        }
        let looked_up = |many: &Many<Datum>| halvings(many.sorted.len()) * (1 + many.longest);
        let fixed = clauses.iter().map(Clause::weight).sum::<usize>()
            + equals.iter().map(|(_, many)| looked_up(many)).sum::<usize>()
            + included.iter().map(|(_, many)| halvings(many.sorted.len())).sum::<usize>();
        let (tested, searched) = (tested.into_iter().collect(), searched.into_iter().collect());
        Self { clauses, equals, included, tested, searched, fixed }
    }

    /// Whether there are no clauses.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.clauses.is_empty() && self.equals.is_empty() && self.included.is_empty()
    }

    /// Parses an array of clauses on columns of `table`, for callers that ask whether all of them hold.
    pub fn parse(
        json: &[Json],
        table: &TableSchema,
        symbols: Option<&mut Symbols<'_>>,
    ) -> Result<Self, Error> {
        Clause::parse_all(json, table, symbols).map(Self::all_of)
    }

    /// The condition of these clauses, for callers that ask whether all of them hold.
    pub(crate) fn all_of(clauses: Vec<Clause>) -> Self {
        Self::of(clauses, Vec::new(), Vec::new())
    }

    /// Whether every clause holds for `row`.
    #[must_use]
    pub fn all(&self, row: &[Datum]) -> bool {
        self.clauses.iter().all(|clause| clause.holds(row))
    }

    /// Whether any clause holds for `row`; a condition without clauses holds.
    #[must_use]
    pub fn any(&self, row: &[Datum]) -> bool {
        self.is_empty()
            || self.equals.iter().any(|(column, many)| many.contains(&row[column.index()]))
            || self.included.iter().any(|(column, many)| many.any_in(&row[column.index()]))
            || self.clauses.iter().any(|clause| clause.holds(row))
    }

    /// The value that `column` must equal for all clauses to hold, if a clause requires one.
    #[must_use]
    pub fn equal_to(&self, column: ColumnId) -> Option<&Datum> {
        self.clauses.iter().find_map(|clause| match clause {
            Clause::Compare { column: c, function: Function::Equal, argument } if *c == column => {
                Some(argument)
            }
            _ => None,
        })
    }

    /// The number of clauses that are tested one by one.
    pub(crate) fn len(&self) -> usize {
        self.clauses.len()
    }

    /// Whether a clause looks at `column`.
    pub(crate) fn tests(&self, column: ColumnId) -> bool {
        self.tested.binary_search(&column).is_ok()
    }

    /// The steps of testing all clauses on one row, without what depends on the size of the row's values.
    pub(crate) const fn weight(&self) -> usize {
        1 + self.fixed
    }

    /// The most steps of testing all clauses on this row.
    #[must_use]
    pub fn steps_on(&self, row: &[Datum]) -> usize {
        let included =
            self.included.iter().map(|(column, many)| many.steps_in(&row[column.index()]));
        included.fold(self.weight(), usize::saturating_add).saturating_add(self.search_steps(row))
    }

    /// The part of these steps that is spent on searching large values for the arguments of clauses.
    pub(crate) fn search_steps(&self, row: &[Datum]) -> usize {
        let of = |(column, steps): &(ColumnId, usize)| {
            steps.saturating_mul(halvings(row[column.index()].len()).saturating_sub(1))
        };
        self.searched.iter().map(of).fold(0, usize::saturating_add)
    }

    /// Bytes of memory held.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.clauses
            .iter()
            .map(|clause| match clause {
                Clause::Compare { argument, .. } => argument.memory(),
                Clause::Constant(_) => 0,
            })
            .map(|held| held + size_of::<Clause>())
            .chain(
                self.equals
                    .iter()
                    .flat_map(|(_, many)| &many.sorted)
                    .map(|value| 48 + value.memory()),
            )
            .chain(
                self.included
                    .iter()
                    .flat_map(|(_, many)| &many.sorted)
                    .map(|atom| 48 + atom.memory()),
            )
            .sum()
    }
}

impl Clause {
    /// The column that it tests.
    const fn column(&self) -> Option<ColumnId> {
        match self {
            Self::Constant(_) => None,
            Self::Compare { column, .. } => Some(*column),
        }
    }

    /// The steps of testing this clause on one row: those of reading the argument. A value that is compared with
    /// the argument is read no further than the argument is long.
    fn weight(&self) -> usize {
        match self {
            Self::Constant(_) => 1,
            Self::Compare { argument, .. } => 1 + argument.steps(),
        }
    }

    /// A comparison of a column of type `ty`.
    pub(crate) fn new(
        column: ColumnId,
        ty: &Type,
        function: Function,
        argument: Datum,
    ) -> Result<Self, Error> {
        if function.is_order() && (!ty.is_numeric() || ty.max > 1) {
            let details = format!("a column of type {} has no order", ty.describe());
            return Err(Error::new(tag::SYNTAX, details));
        }
        let argument = argument.fitted(ty, argument_bounds(ty, function))?;
        Ok(Self::Compare { column, function, argument })
    }

    /// The column whose value is searched for the argument, and the steps of the argument.
    fn searched(&self) -> Option<(ColumnId, usize)> {
        match self {
            Self::Compare {
                column,
                function: Function::Includes | Function::Excludes,
                argument,
            } => Some((*column, argument.steps())),
            _ => None,
        }
    }

    /// Parses an array of clauses on columns of `table`.
    pub fn parse_all(
        json: &[Json],
        table: &TableSchema,
        mut symbols: Option<&mut Symbols<'_>>,
    ) -> Result<Vec<Self>, Error> {
        json.iter().map(|clause| Self::parse(clause, table, symbols.as_deref_mut())).collect()
    }

    fn parse(
        json: &Json,
        table: &TableSchema,
        symbols: Option<&mut Symbols<'_>>,
    ) -> Result<Self, Error> {
        if let Json::Bool(constant) = json {
            return Ok(Self::Constant(*constant));
        }
        let Some([Json::String(name), Json::String(function), argument]) = json.as_array() else {
            return Err(Error::syntax(json, "Parse error in condition."));
        };
        let Some(column) = table.column_id(name) else {
            let details = format!("No column {name} in table {}.", table.name);
            return Err(Error::quoting("unknown column", json, details));
        };
        let ty = &table.column(column).ty;
        let word = function;
        let function = Function::parse(word)?;
        let bounds = argument_bounds(ty, function);
        if function.is_order() && (!ty.is_numeric() || ty.max > 1) {
            let details = format!(
                "Type mismatch: \"{word}\" operator may not be applied to column {name} of type {}.",
                ty.describe()
            );
            return Err(Error::syntax(json, details));
        }
        let argument = Datum::parse_between(argument, ty, bounds, symbols)?;
        Ok(Self::Compare { column, function, argument })
    }

    /// Whether this clause holds for `row`.
    #[must_use]
    pub fn holds(&self, row: &[Datum]) -> bool {
        let (column, function, argument) = match self {
            Self::Constant(constant) => return *constant,
            Self::Compare { column, function, argument } => (column, function, argument),
        };
        let value = &row[column.index()];
        let order = || match (value.single(), argument.single()) {
            (Some(a), Some(b)) => Some(a.cmp(b)),
            // An optional number that is missing is neither less nor greater than another value.
            _ => None,
        };
        match function {
            Function::Equal => value == argument,
            Function::NotEqual => value != argument,
            Function::Includes => argument.within(value),
            Function::Excludes => argument.apart_from(value),
            Function::Less => order() == Some(Ordering::Less),
            Function::LessOrEqual => order().is_some_and(Ordering::is_le),
            Function::GreaterOrEqual => order().is_some_and(Ordering::is_ge),
            Function::Greater => order() == Some(Ordering::Greater),
        }
    }
}

/// How many elements the argument of a clause may have: `includes` compares sets and maps with smaller ones,
/// `excludes` with any.
fn argument_bounds(ty: &Type, function: Function) -> (u32, u32) {
    match function {
        _ if function.is_order() => (1, ty.max),
        Function::Excludes if !ty.is_scalar() => (0, u32::MAX),
        Function::Includes if !ty.is_scalar() => (0, ty.max),
        _ => (ty.min, ty.max),
    }
}
