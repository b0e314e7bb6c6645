//! Which columns refer to rows, and which references a change of such a column adds and removes.

use crate::schema::{ColumnId, TableId, TableSchema};
use crate::value::{Atom, Datum, trim_common};
use paceline_types::Uuid;
use std::cmp::Ordering;
use std::ops::RangeInclusive;

/// Which atoms of a column are the references.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    /// The elements of a set, or the keys of a map.
    Key,
    /// The values of a map.
    Value,
}

/// One column (or one side of a map column) that refers to rows of a table.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) column: ColumnId,
    pub(crate) side: Side,
    pub(crate) table: TableId,
    pub(crate) strong: bool,
}

/// The links of one table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Links(Vec<Link>);

impl Links {
    pub(crate) fn new(table: &TableSchema) -> Self {
        let mut links = Vec::new();
        for column in table.column_ids() {
            let ty = &table.column(column).ty;
            let sides = [(Side::Key, Some(&ty.key)), (Side::Value, ty.value.as_ref())];
            for (side, base) in sides {
                if let Some(reference) = base.and_then(|base| base.reference()) {
                    let (table, strong) = (reference.table, reference.strong);
                    links.push(Link { column, side, table, strong });
                }
            }
        }
        Self(links)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Link> {
        self.0.iter()
    }
}

/// The references in one column of a row.
pub(crate) fn reference_atoms(datum: &Datum, side: Side) -> impl Iterator<Item = Uuid> {
    let keys = (side == Side::Key).then(|| datum.keys()).into_iter().flatten();
    let values = (side == Side::Value).then(|| datum.pairs()).into_iter().flatten();
    keys.chain(values.map(|(_, value)| value)).filter_map(Atom::as_uuid)
}

/// The reference in one element of a set, or pair of a map.
pub(crate) fn reference_at(datum: &Datum, side: Side, place: usize) -> Option<Uuid> {
    let atom = match (datum.pairs().get(place), side) {
        (Some((key, _)), Side::Key) => key,
        (Some((_, value)), Side::Value) => value,
        (None, _) => datum.atoms().get(place)?,
    };
    atom.as_uuid()
}

impl Link {
    /// The weak references that a row holds by this link, whose column has this value.
    pub(crate) fn references(
        &self,
        table: TableId,
        uuid: Uuid,
        value: &Datum,
    ) -> impl Iterator<Item = WeakReference> {
        reference_atoms(value, self.side).map(move |to| self.weak(table, uuid, to))
    }

    /// The weak reference to one row that a row holds by this link.
    pub(crate) const fn weak(&self, table: TableId, uuid: Uuid, to: Uuid) -> WeakReference {
        let Self { column, side, .. } = *self;
        WeakReference { to_table: self.table, to, from_table: table, from: uuid, column, side }
    }

    /// The references that were removed and added between two values of the column.
    pub(crate) fn moved(&self, old: &Datum, new: &Datum) -> (Vec<Uuid>, Vec<Uuid>) {
        if self.side == Side::Value || !old.pairs().is_empty() || !new.pairs().is_empty() {
            // Values of a map are not sorted by the rows they refer to, so all of them count as removed and added.
            let references = |datum| reference_atoms(datum, self.side).collect();
            return (references(old), references(new));
        }
        let (old, new) = trim_common(old.atoms(), new.atoms());
        let (mut gone, mut come) = (Vec::new(), Vec::new());
        let mut old = old.iter().filter_map(Atom::as_uuid).peekable();
        let mut new = new.iter().filter_map(Atom::as_uuid).peekable();
        loop {
            let order = match (old.peek(), new.peek()) {
                (Some(a), Some(b)) => a.cmp(b),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => return (gone, come),
            };
            match order {
                Ordering::Less => gone.extend(old.next()),
                Ordering::Greater => come.extend(new.next()),
                Ordering::Equal => {
                    old.next();
                    new.next();
                }
            }
        }
    }
}

/// A weak reference, sorted by the row it points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WeakReference {
    pub(crate) to_table: TableId,
    pub(crate) to: Uuid,
    pub(crate) from_table: TableId,
    pub(crate) from: Uuid,
    pub(crate) column: ColumnId,
    pub(crate) side: Side,
}

impl WeakReference {
    /// The row and column that hold it, and the side of the column.
    pub(crate) const fn holder(&self) -> (TableId, Uuid, ColumnId, Side) {
        (self.from_table, self.from, self.column, self.side)
    }

    /// All weak references to one row.
    pub(crate) fn all_to(to_table: TableId, to: Uuid) -> RangeInclusive<Self> {
        let edge = |table, from, column, side| Self {
            to_table,
            to,
            from_table: TableId(table),
            from,
            column: ColumnId(column),
            side,
        };
        edge(0, Uuid::ZERO, 0, Side::Key)..=edge(u16::MAX, Uuid([255; 16]), u16::MAX, Side::Value)
    }
}
