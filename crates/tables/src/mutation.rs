//! Mutations: changes of a column by arithmetic, insertion or deletion.

use crate::error::{Error, tag};
use crate::json::Json;
use crate::schema::{BaseType, ColumnId, TableSchema, Type};
use crate::value::{Atom, Datum, Symbols, check_count};
use std::collections::{BTreeMap, BTreeSet};

/// What a mutation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Insert,
    Delete,
}

impl Mutator {
    fn parse(name: &str) -> Result<Self, Error> {
        Ok(match name {
            "+=" => Self::Add,
            "-=" => Self::Subtract,
            "*=" => Self::Multiply,
            "/=" => Self::Divide,
            "%=" => Self::Remainder,
            "insert" => Self::Insert,
            "delete" => Self::Delete,
            _ => return Err(Error::new("unknown mutator", format!("No mutator named {name}."))),
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Add => "+=",
            Self::Subtract => "-=",
            Self::Multiply => "*=",
            Self::Divide => "/=",
            Self::Remainder => "%=",
            Self::Insert => "insert",
            Self::Delete => "delete",
        }
    }
}

/// One change to one column, ready to be applied to rows.
#[derive(Clone, Debug)]
pub struct Mutation {
    /// The column it changes.
    pub column: ColumnId,
    mutator: Mutator,
    argument: Datum,
    /// For a map column: deletes by keys rather than by pairs.
    by_key: bool,
}

impl Mutation {
    /// Parses `[column, mutator, argument]`.
    pub fn parse(
        json: &Json,
        table: &TableSchema,
        mut symbols: Option<&mut Symbols<'_>>,
    ) -> Result<Self, Error> {
        let Some([Json::String(name), Json::String(mutator), argument]) = json.as_array() else {
            return Err(Error::syntax(json, "Parse error in mutation."));
        };
        let Some(column) = table.column_id(name) else {
            let details = format!("No column {name} in table {}.", table.name);
            return Err(Error::quoting("unknown column", json, details));
        };
        if !table.column(column).mutable {
            let details = format!("Cannot mutate immutable column {name} in table {}.", table.name);
            return Err(Error::quoting(tag::CONSTRAINT, json, details));
        }
        let ty = &table.column(column).ty;
        let mutator = Mutator::parse(mutator)?;
        let mismatch = || {
            let details = format!(
                "Type mismatch: \"{}\" operator may not be applied to column {name} of type {}.",
                mutator.name(),
                ty.describe()
            );
            Err(Error::syntax(json, details))
        };
        let mut by_key = false;
        let argument = match mutator {
            Mutator::Insert | Mutator::Delete if ty.is_scalar() => return mismatch(),
            Mutator::Insert => Datum::parse_between(argument, ty, (0, ty.max), symbols)?,
            Mutator::Delete => {
                let whole =
                    Datum::parse_between(argument, ty, (0, u32::MAX), symbols.as_deref_mut());
                match whole {
                    Err(_) if ty.value.is_some() => {
                        by_key = true;
                        let keys = Type { value: None, ..ty.clone() };
                        Datum::parse_between(argument, &keys, (0, u32::MAX), symbols)?
                    }
                    other => other?,
                }
            }
            _ if !ty.is_numeric() => return mismatch(),
            Mutator::Remainder if ty.key.atom == crate::schema::AtomType::Real => {
                return mismatch();
            }
            _ => Datum::parse(argument, &Type::scalar(ty.key.atom), symbols)?,
        };
        Ok(Self { column, mutator, argument, by_key })
    }

    /// The value of the column after this mutation.
    pub fn apply(&self, value: &Datum, ty: &Type) -> Result<Datum, Error> {
        let changed = match self.mutator {
            Mutator::Insert => union(value, &self.argument),
            Mutator::Delete => subtract(value, &self.argument, self.by_key),
            _ => return self.arithmetic(value, &ty.key),
        };
        changed.check_count(ty)?;
        Ok(changed)
    }

    /// Whether it adds or removes elements of a set or map.
    pub(crate) fn is_by_element(&self) -> bool {
        matches!(self.mutator, Mutator::Insert | Mutator::Delete)
    }

    /// The steps of its argument.
    pub(crate) fn steps(&self) -> usize {
        self.argument.steps()
    }

    /// The same as [`Mutation::apply`], one element at a time.
    pub(crate) fn apply_to(&self, value: &mut Gathered, ty: &Type) -> Result<(), Error> {
        let inserts = self.mutator == Mutator::Insert;
        match value {
            Gathered::Set(set) if inserts => set.extend(self.argument.atoms().iter().cloned()),
            Gathered::Set(set) => self.argument.atoms().iter().for_each(|atom| {
                set.remove(atom);
            }),
            Gathered::Map(map) if inserts => {
                for (key, value) in self.argument.pairs() {
                    map.entry(key.clone()).or_insert_with(|| value.clone());
                }
            }
            Gathered::Map(map) if self.by_key => self.argument.atoms().iter().for_each(|key| {
                map.remove(key);
            }),
            Gathered::Map(map) => {
                for (key, value) in self.argument.pairs() {
                    if map.get(key) == Some(value) {
                        map.remove(key);
                    }
                }
            }
        }
        check_count(value.len(), ty)
    }

    fn arithmetic(&self, value: &Datum, base: &BaseType) -> Result<Datum, Error> {
        let Some(argument) = self.argument.single() else { return Ok(value.clone()) };
        let mut atoms = value
            .atoms()
            .iter()
            .map(|atom| self.compute(atom, argument))
            .collect::<Result<Vec<_>, _>>()?;
        atoms.iter().try_for_each(|atom| atom.check(base))?;
        atoms.sort();
        if atoms.windows(2).any(|pair| matches!(pair, [a, b] if a == b)) {
            let details =
                format!("Result of \"{}\" operation contains duplicates.", self.mutator.name());
            return Err(Error::new(tag::CONSTRAINT, details));
        }
        Ok(Datum::from_sorted(atoms))
    }

    fn compute(&self, atom: &Atom, argument: &Atom) -> Result<Atom, Error> {
        let divides = matches!(self.mutator, Mutator::Divide | Mutator::Remainder);
        if divides && matches!(argument, Atom::Integer(0) | Atom::Real(0.0)) {
            return Err(Error::new("domain error", "Division by zero."));
        }
        let result = match (atom, argument) {
            (Atom::Integer(x), Atom::Integer(y)) => match self.mutator {
                Mutator::Add => x.checked_add(*y),
                Mutator::Subtract => x.checked_sub(*y),
                Mutator::Multiply => x.checked_mul(*y),
                Mutator::Divide => x.checked_div(*y),
                // The remainder by -1 is 0, even where the quotient would be out of range.
                _ => Some(x.wrapping_rem(*y)),
            }
            .map(Atom::Integer),
            (Atom::Real(x), Atom::Real(y)) => {
                let real = match self.mutator {
                    Mutator::Add => x + y,
                    Mutator::Subtract => x - y,
                    Mutator::Multiply => x * y,
                    _ => x / y,
                };
                real.is_finite().then(|| Atom::real(real))
            }
            _ => None,
        };
        result.ok_or_else(|| {
            let name = self.mutator.name();
            Error::new("range error", format!("Result of \"{name}\" operation is out of range."))
        })
    }
}

/// A large set or map in a form to which elements can be added and removed one at a time.
pub(crate) enum Gathered {
    Set(BTreeSet<Atom>),
    Map(BTreeMap<Atom, Atom>),
}

impl Gathered {
    pub(crate) fn new(value: &Datum) -> Self {
        match value {
            Datum::Map(pairs) => Self::Map(pairs.iter().cloned().collect()),
            other => Self::Set(other.atoms().iter().cloned().collect()),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Set(set) => set.len(),
            Self::Map(map) => map.len(),
        }
    }

    pub(crate) fn into_datum(self) -> Datum {
        match self {
            Self::Set(set) => Datum::from_sorted(set.into_iter().collect()),
            Self::Map(map) => Datum::from_sorted_pairs(map.into_iter().collect()),
        }
    }
}

/// All elements of `value`, and those of `more` that `value` does not have. Keys that a map already has keep their
/// value.
fn union(value: &Datum, more: &Datum) -> Datum {
    if value.pairs().is_empty() && more.pairs().is_empty() {
        return union_of_sets(value.atoms(), more.atoms());
    }
    let mut pairs = [value.pairs(), more.pairs()].concat();
    // The sort is stable and the old pairs come first, so the old pairs are kept.
    pairs.sort_by(|a, b| a.0.cmp(&b.0));
    pairs.dedup_by(|later, kept| later.0 == kept.0);
    Datum::from_sorted_pairs(pairs)
}

/// Runs of the larger set between two new elements are copied whole.
fn union_of_sets(value: &[Atom], more: &[Atom]) -> Datum {
    let mut atoms = Vec::with_capacity(value.len() + more.len());
    let mut rest = value;
    for atom in more {
        let (Ok(place) | Err(place)) = rest.binary_search(atom);
        let (before, from) = rest.split_at(place);
        atoms.extend_from_slice(before);
        atoms.push(atom.clone());
        rest = if from.first() == Some(atom) { &from[1..] } else { from };
    }
    atoms.extend_from_slice(rest);
    Datum::from_sorted(atoms)
}

fn subtract(value: &Datum, less: &Datum, by_key: bool) -> Datum {
    let Datum::Map(pairs) = value else {
        let mut gone = Walk::new(less.atoms());
        let kept = |atom: &&Atom| gone.find(|known| known.cmp(atom)).is_none();
        return Datum::from_sorted(value.atoms().iter().filter(kept).cloned().collect());
    };
    let (mut keys, mut gone) = (Walk::new(less.atoms()), Walk::new(less.pairs()));
    let kept = |(key, value): &&(Atom, Atom)| {
        if by_key {
            keys.find(|known| known.cmp(key)).is_none()
        } else {
            gone.find(|known| known.0.cmp(key)).is_none_or(|known| known.1 != *value)
        }
    };
    Datum::from_sorted_pairs(pairs.iter().filter(kept).cloned().collect())
}

/// A walk along a sorted list that finds elements in the order of the list. All look-ups together take as many
/// steps as the list and the look-ups have elements.
struct Walk<'a, T>(&'a [T]);

impl<'a, T> Walk<'a, T> {
    const fn new(sorted: &'a [T]) -> Self {
        Self(sorted)
    }

    fn find(&mut self, order: impl Fn(&T) -> std::cmp::Ordering) -> Option<&'a T> {
        while let [first, rest @ ..] = self.0 {
            match order(first) {
                std::cmp::Ordering::Less => self.0 = rest,
                std::cmp::Ordering::Equal => return Some(first),
                std::cmp::Ordering::Greater => return None,
            }
        }
        None
    }
}
