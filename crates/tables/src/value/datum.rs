//! The value of a column: nothing, one atom, a set or a map.
//!
//! The form depends only on the content (a set of one is [`Datum::One`], an empty map is [`Datum::Empty`]). Sets
//! and maps are sorted and without duplicates, so equal values are equal structures.

use super::{Atom, Symbols};
use crate::error::{Error, tag};
use crate::json::Json;
use crate::schema::Type;
use std::cmp::Ordering;
use std::sync::Arc;

/// The value of one column in one row.
#[derive(Clone, Debug, Default)]
pub enum Datum {
    /// The empty set or map.
    #[default]
    Empty,
    /// A scalar, or a set of one.
    One(Atom),
    /// A set of two or more, sorted.
    Set(Arc<[Atom]>),
    /// A map of one or more pairs, sorted by key.
    Map(Arc<[(Atom, Atom)]>),
}

impl Datum {
    /// The set of these atoms, which are sorted and distinct.
    #[must_use]
    pub fn from_sorted(mut atoms: Vec<Atom>) -> Self {
        match atoms.len() {
            0 => Self::Empty,
            1 => atoms.pop().map_or(Self::Empty, Self::One),
            _ => Self::Set(atoms.into()),
        }
    }

    /// The map of these pairs, which are sorted by key and distinct.
    #[must_use]
    pub fn from_sorted_pairs(pairs: Vec<(Atom, Atom)>) -> Self {
        if pairs.is_empty() { Self::Empty } else { Self::Map(pairs.into()) }
    }

    /// The default value of a column of this type.
    #[must_use]
    pub fn default_of(ty: &Type) -> Self {
        match (ty.min, &ty.value) {
            (0, _) => Self::Empty,
            (_, None) => Self::One(Atom::default_of(ty.key.atom)),
            (_, Some(value)) => Self::Map(
                vec![(Atom::default_of(ty.key.atom), Atom::default_of(value.atom))].into(),
            ),
        }
    }

    /// The number of elements or pairs.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Empty => 0,
            Self::One(_) => 1,
            Self::Set(atoms) => atoms.len(),
            Self::Map(pairs) => pairs.len(),
        }
    }

    /// Whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Empty)
    }

    /// The only atom of a scalar or of a set of one.
    #[must_use]
    pub fn single(&self) -> Option<&Atom> {
        match self {
            Self::One(atom) => Some(atom),
            _ => None,
        }
    }

    /// The elements of a set or scalar; nothing for a map.
    #[must_use]
    pub fn atoms(&self) -> &[Atom] {
        match self {
            Self::One(atom) => std::slice::from_ref(atom),
            Self::Set(atoms) => atoms,
            Self::Empty | Self::Map(_) => &[],
        }
    }

    /// The pairs of a map; nothing for a set.
    #[must_use]
    pub fn pairs(&self) -> &[(Atom, Atom)] {
        match self {
            Self::Map(pairs) => pairs,
            _ => &[],
        }
    }

    /// The elements of a set, or the keys of a map, in order.
    pub fn keys(&self) -> impl Iterator<Item = &Atom> {
        self.atoms().iter().chain(self.pairs().iter().map(|(key, _)| key))
    }

    /// Whether every element (or pair) of this is in `other`.
    #[must_use]
    pub fn within(&self, other: &Self) -> bool {
        self.atoms().iter().all(|atom| other.atoms().binary_search(atom).is_ok())
            && self.pairs().iter().all(|pair| other.has_pair(pair))
    }

    /// Whether no element (or pair) of this is in `other`.
    #[must_use]
    pub fn apart_from(&self, other: &Self) -> bool {
        !self.atoms().iter().any(|atom| other.atoms().binary_search(atom).is_ok())
            && !self.pairs().iter().any(|pair| other.has_pair(pair))
    }

    fn has_pair(&self, (key, value): &(Atom, Atom)) -> bool {
        self.value_of(key) == Some(value)
    }

    /// The value that a map has for `key`.
    #[must_use]
    pub fn value_of(&self, key: &Atom) -> Option<&Atom> {
        let pairs = self.pairs();
        let found = pairs.binary_search_by(|(k, _)| k.cmp(key)).ok()?;
        pairs.get(found).map(|(_, value)| value)
    }

    /// The index of an element in a set, or of the pair with this key in a map.
    pub(crate) fn place_of(&self, key: &Atom) -> Option<usize> {
        match self {
            Self::Map(pairs) => pairs.binary_search_by(|(known, _)| known.cmp(key)).ok(),
            other => other.atoms().binary_search(key).ok(),
        }
    }

    /// Whether both are the same set, map or long string in memory.
    pub(crate) fn shares_memory_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::One(Atom::Long(a)), Self::One(Atom::Long(b))) => Arc::ptr_eq(a, b),
            (Self::Set(a), Self::Set(b)) => Arc::ptr_eq(a, b),
            (Self::Map(a), Self::Map(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    /// Bytes held outside the value itself.
    #[must_use]
    pub fn memory(&self) -> usize {
        match self {
            Self::Empty => 0,
            Self::One(atom) => atom.memory(),
            Self::Set(atoms) => 16 + atoms.len() * size_of::<Atom>() + outside(atoms, |a| a),
            Self::Map(pairs) => {
                let atoms = 2 * pairs.len() * size_of::<Atom>();
                16 + atoms + outside(pairs, |(key, _)| key) + outside(pairs, |(_, value)| value)
            }
        }
    }

    /// Bytes held outside the value itself, if they are at most `most`. Looks at no more elements than fit in that
    /// many bytes.
    pub(crate) fn memory_within(&self, most: usize) -> Option<usize> {
        let least = self.len().saturating_mul(size_of::<Atom>());
        let memory = if least > most { return None } else { self.memory() };
        (memory <= most).then_some(memory)
    }

    /// The same for several values together.
    pub(crate) fn all_within<'a>(
        mut values: impl Iterator<Item = &'a Self>,
        most: usize,
    ) -> Option<usize> {
        values.try_fold(0, |sum, value| Some(sum + value.memory_within(most - sum)?))
    }

    /// The steps of comparing or copying it: one for each element, and more for long strings, because comparing
    /// reads them.
    pub(crate) fn steps(&self) -> usize {
        self.len() + self.memory() / 64
    }

    /// Parses `json` as a value of type `ty`, checking all its constraints.
    pub fn parse(json: &Json, ty: &Type, symbols: Option<&mut Symbols<'_>>) -> Result<Self, Error> {
        Self::parse_between(json, ty, (ty.min, ty.max), symbols)
    }

    /// Parses `json` as a value of type `ty` with other bounds on the number of elements.
    pub fn parse_between(
        json: &Json,
        ty: &Type,
        bounds: (u32, u32),
        mut symbols: Option<&mut Symbols<'_>>,
    ) -> Result<Self, Error> {
        let Some(value_type) = &ty.value else {
            return Self::parse_set(json, ty, bounds, symbols);
        };
        let Some(elements) = unwrap_array(json, "map") else {
            return Err(Error::syntax(json, "expected [\"map\", <array>]"));
        };
        check_given(json, "map", elements.len(), bounds)?;
        let mut pairs = Vec::with_capacity(elements.len());
        for element in elements {
            let Some([key, value]) = element.as_array() else {
                return Err(Error::syntax(element, "expected 2-element array"));
            };
            pairs.push((
                Atom::parse(key, &ty.key, symbols.as_deref_mut())?,
                Atom::parse(value, value_type, symbols.as_deref_mut())?,
            ));
        }
        pairs.sort();
        if pairs.windows(2).any(|pair| matches!(pair, [a, b] if a.0 == b.0)) {
            return Err(Error::new("ovsdb error", "map contains duplicate key"));
        }
        Ok(Self::from_sorted_pairs(pairs))
    }

    fn parse_set(
        json: &Json,
        ty: &Type,
        bounds: (u32, u32),
        mut symbols: Option<&mut Symbols<'_>>,
    ) -> Result<Self, Error> {
        let is_set = matches!(json.as_array(), Some([Json::String(word), ..]) if **word == *"set");
        if !is_set {
            return Ok(Self::One(Atom::parse(json, &ty.key, symbols)?));
        }
        let Some(elements) = unwrap_array(json, "set") else {
            return Err(Error::syntax(json, "expected [\"set\", <array>]"));
        };
        check_given(json, "set", elements.len(), bounds)?;
        let mut atoms = Vec::with_capacity(elements.len());
        for element in elements {
            atoms.push(Atom::parse(element, &ty.key, symbols.as_deref_mut())?);
        }
        atoms.sort();
        if atoms.windows(2).any(|pair| matches!(pair, [a, b] if a == b)) {
            return Err(Error::new("ovsdb error", "set contains duplicate"));
        }
        Ok(Self::from_sorted(atoms))
    }

    /// The set of these atoms, in any order. Equal atoms are kept once.
    #[must_use]
    pub fn set_of(mut atoms: Vec<Atom>) -> Self {
        atoms.sort();
        atoms.dedup();
        Self::from_sorted(atoms)
    }

    /// The map of these pairs, in any order. Of pairs with equal keys, the last is kept.
    #[must_use]
    pub fn map_of(mut pairs: Vec<(Atom, Atom)>) -> Self {
        pairs.reverse();
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        pairs.dedup_by(|later, kept| later.0 == kept.0);
        Self::from_sorted_pairs(pairs)
    }

    /// Converts this value to type `ty` with this many elements, checking all constraints. Errors have the same
    /// messages as those of [`Datum::parse`].
    pub(crate) fn fitted(self, ty: &Type, bounds: (u32, u32)) -> Result<Self, Error> {
        let class = if ty.value.is_some() { "map" } else { "set" };
        if let Some(details) = given_details(class, self.len(), bounds) {
            return Err(Error::new(tag::SYNTAX, details));
        }
        Ok(match (self, &ty.value) {
            (Self::Empty, _) => Self::Empty,
            (Self::One(atom), None) => Self::One(atom.fitted(&ty.key)?),
            (Self::Set(atoms), None) => {
                let atoms = atoms.iter().map(|atom| atom.clone().fitted(&ty.key));
                Self::set_of(atoms.collect::<Result<_, _>>()?)
            }
            (Self::Map(pairs), Some(value_type)) => {
                let fitted = |(key, value): &(Atom, Atom)| {
                    Ok((key.clone().fitted(&ty.key)?, value.clone().fitted(value_type)?))
                };
                Self::map_of(pairs.iter().map(fitted).collect::<Result<_, Error>>()?)
            }
            _ => return Err(Error::new(tag::SYNTAX, format!("expected {}", ty.describe()))),
        })
    }

    /// Checks every element against the constraints of `ty`.
    pub fn check(&self, ty: &Type) -> Result<(), Error> {
        for key in self.keys() {
            key.check(&ty.key)?;
        }
        if let Some(value_type) = &ty.value {
            for (_, value) in self.pairs() {
                value.check(value_type)?;
            }
        }
        Ok(())
    }

    /// Checks the number of elements against `ty`.
    pub fn check_count(&self, ty: &Type) -> Result<(), Error> {
        check_count(self.len(), ty)
    }

    /// Appends the JSON notation of this value in a column of type `ty`.
    pub fn write(&self, ty: &Type, out: &mut Vec<u8>) {
        match self {
            Self::Empty if ty.value.is_some() => out.extend_from_slice(b"[\"map\",[]]"),
            Self::Empty => out.extend_from_slice(b"[\"set\",[]]"),
            Self::One(atom) => atom.write(out),
            Self::Set(atoms) => {
                out.extend_from_slice(b"[\"set\",[");
                for (i, atom) in atoms.iter().enumerate() {
                    if i > 0 {
                        out.push(b',');
                    }
                    atom.write(out);
                }
                out.extend_from_slice(b"]]");
            }
            Self::Map(pairs) => {
                out.extend_from_slice(b"[\"map\",[");
                for (i, (key, value)) in pairs.iter().enumerate() {
                    if i > 0 {
                        out.push(b',');
                    }
                    out.push(b'[');
                    key.write(out);
                    out.push(b',');
                    value.write(out);
                    out.push(b']');
                }
                out.extend_from_slice(b"]]");
            }
        }
    }

    /// The form in error messages: `[a, b]` for sets, `{a=b}` for maps.
    #[must_use]
    pub fn to_text(&self, ty: &Type) -> String {
        let mut parts: Vec<String> = self.atoms().iter().map(Atom::to_text).collect();
        parts.extend(self.pairs().iter().map(|(k, v)| format!("{}={}", k.to_text(), v.to_text())));
        let body = parts.join(", ");
        match (ty.max > 1 || self.is_empty(), ty.value.is_some()) {
            (false, _) => body,
            (true, true) => format!("{{{body}}}"),
            (true, false) => format!("[{body}]"),
        }
    }
}

/// Bytes that atoms of one type hold outside themselves. Only strings hold any, so other types are not examined one
/// by one.
fn outside<T>(elements: &[T], atom: impl Fn(&T) -> &Atom) -> usize {
    match elements.first() {
        Some(first) if atom(first).as_bytes().is_some() => {
            elements.iter().map(|element| atom(element).memory()).sum()
        }
        _ => 0,
    }
}

impl PartialEq for Datum {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Empty, Self::Empty) => true,
            (Self::One(a), Self::One(b)) => a == b,
            (Self::Set(a), Self::Set(b)) => Arc::ptr_eq(a, b) || a == b,
            (Self::Map(a), Self::Map(b)) => Arc::ptr_eq(a, b) || a == b,
            _ => false,
        }
    }
}

impl Eq for Datum {}

impl Ord for Datum {
    fn cmp(&self, other: &Self) -> Ordering {
        self.atoms().cmp(other.atoms()).then_with(|| self.pairs().cmp(other.pairs()))
    }
}

impl PartialOrd for Datum {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl std::hash::Hash for Datum {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        state.write_usize(self.len());
        for atom in self.atoms() {
            atom.hash(state);
        }
        for (key, value) in self.pairs() {
            key.hash(state);
            value.hash(state);
        }
    }
}

/// Checks the number of elements of a value of type `ty`.
pub(crate) fn check_count(count: usize, ty: &Type) -> Result<(), Error> {
    if count >= ty.min as usize && count <= ty.max as usize {
        return Ok(());
    }
    let details = format!("Attempted to store {count} elements in {}.", ty.describe());
    Err(Error::new(tag::CONSTRAINT, details))
}

/// The inner array of `[word, <array>]`.
fn unwrap_array<'a>(json: &'a Json, word: &str) -> Option<&'a [Json]> {
    match json.as_array() {
        Some([Json::String(first), Json::Array(inner)]) if **first == *word => Some(inner),
        _ => None,
    }
}

fn check_given(json: &Json, class: &str, n: usize, bounds: (u32, u32)) -> Result<(), Error> {
    match given_details(class, n, bounds) {
        None => Ok(()),
        Some(details) => Err(Error::syntax(json, details)),
    }
}

/// The error for a set or map of `n` members, if that is too few or too many.
fn given_details(class: &str, n: usize, (min, max): (u32, u32)) -> Option<String> {
    if n >= min as usize && n <= max as usize {
        return None;
    }
    Some(if (min, max) == (1, 1) {
        format!("{class} must have exactly one member but {n} are present")
    } else {
        format!("{class} must have {min} to {max} members but {n} are present")
    })
}

const _: () = assert!(size_of::<Datum>() == 24, "a column's value should stay small");
