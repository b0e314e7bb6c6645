//! Differences between two values of a column, as used in update2 messages and journal records.
//!
//! For a column of at most one element, the difference is the new value. For sets it is the elements in exactly one
//! of the two. For maps it is the added and removed pairs, and changed keys with their new value. Applying the
//! difference to the old value gives the new one.

use super::{Atom, Datum};
use crate::schema::Type;
use std::cmp::Ordering;

/// The difference that turns `old` into `new` in a column of type `ty`.
#[must_use]
pub fn diff(old: &Datum, new: &Datum, ty: &Type) -> Datum {
    if ty.max <= 1 {
        new.clone()
    } else if ty.value.is_some() {
        let (old, new) = trim_common(old.pairs(), new.pairs());
        Datum::from_sorted_pairs(merge(
            old,
            new,
            |a, b| a.0.cmp(&b.0),
            |a, b| (a.1 != b.1).then(|| b.clone()),
        ))
    } else {
        let (old, new) = trim_common(old.atoms(), new.atoms());
        Datum::from_sorted(merge(old, new, Ord::cmp, |_: &Atom, _| None))
    }
}

/// The result of applying `diff` to `old` in a column of type `ty`.
#[must_use]
pub fn apply_diff(old: &Datum, diff: &Datum, ty: &Type) -> Datum {
    if ty.max <= 1 {
        diff.clone()
    } else if ty.value.is_some() {
        // A pair that exists already is removed; a key with another value gets the new one.
        Datum::from_sorted_pairs(merge(
            old.pairs(),
            diff.pairs(),
            |a, b| a.0.cmp(&b.0),
            |a, b| (a.1 != b.1).then(|| b.clone()),
        ))
    } else {
        Datum::from_sorted(merge(old.atoms(), diff.atoms(), Ord::cmp, |_: &Atom, _| None))
    }
}

/// Two lists without their common beginning and end. Two values of a large set usually differ in a few elements,
/// and then only those need to be compared.
pub(crate) fn trim_common<'a, T: PartialEq>(a: &'a [T], b: &'a [T]) -> (&'a [T], &'a [T]) {
    let start = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let (a, b) = (&a[start..], &b[start..]);
    let end = a.iter().rev().zip(b.iter().rev()).take_while(|(x, y)| x == y).count();
    (&a[..a.len() - end], &b[..b.len() - end])
}

/// Merges two sorted lists: elements of only one side are kept, elements of both sides are replaced by the result
/// of `both`.
fn merge<T: Clone>(
    a: &[T],
    b: &[T],
    order: impl Fn(&T, &T) -> Ordering,
    both: impl Fn(&T, &T) -> Option<T>,
) -> Vec<T> {
    let mut out = Vec::with_capacity(a.len().max(b.len()));
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    loop {
        let side = match (a.peek(), b.peek()) {
            (Some(x), Some(y)) => order(x, y),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return out,
        };
        match side {
            Ordering::Less => out.extend(a.next().cloned()),
            Ordering::Greater => out.extend(b.next().cloned()),
            Ordering::Equal => {
                if let (Some(x), Some(y)) = (a.next(), b.next()) {
                    out.extend(both(x, y));
                }
            }
        }
    }
}
