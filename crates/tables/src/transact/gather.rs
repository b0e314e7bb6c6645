//! Many mutations of one large set or map.
//!
//! A set of 30,000 elements that 2,000 operations add to, one after the other, is not copied 2,000 times:
//! while operations mutate the same row, found by its UUID, its large columns are kept in a form that
//! takes one element at a time. The row is put together again before anything else looks at it.

use super::{Execution, Stop};
use crate::condition::Condition;
use crate::error::Error;
use crate::mutation::{Gathered, Mutation};
use crate::schema::{ColumnId, TableId};
use crate::store::Row;
use crate::value::{Atom, Datum};
use paceline_types::Uuid;

/// Smaller values are copied: that is as fast.
const GATHER_MIN: usize = 64;

/// A row whose large columns are being mutated.
pub(super) struct Gathering {
    table: TableId,
    uuid: Uuid,
    row: Row,
    columns: Vec<(ColumnId, Gathered)>,
}

impl Gathering {
    fn len(&self, column: ColumnId) -> usize {
        let gathered = self.columns.iter().find(|(known, _)| *known == column);
        gathered.map_or_else(|| self.row[column.index()].len(), |(_, gathered)| gathered.len())
    }
}

impl Execution<'_> {
    /// Does `mutations` one element at a time, if they are all of large sets or maps of one row.
    /// Answers whether it did.
    pub(super) fn gather(
        &mut self,
        table: TableId,
        condition: &Condition,
        mutations: &[Mutation],
    ) -> Result<bool, Stop> {
        let by_element = !mutations.is_empty() && mutations.iter().all(Mutation::is_by_element);
        let Some(uuid) = condition.only_uuid().filter(|_| by_element) else { return Ok(false) };
        let same = |known: &Gathering| known.table == table && known.uuid == uuid;
        if !self.gathering.as_ref().is_some_and(same) {
            self.put_together()?;
            let Some(row) = self.rows.edit()?.row(table, uuid) else { return Ok(false) };
            self.gathering = Some(Gathering { table, uuid, row, columns: Vec::new() });
        }
        let Some(gathering) = &mut self.gathering else { return Ok(false) };
        let large = |mutation: &Mutation| gathering.len(mutation.column) >= GATHER_MIN;
        if !mutations.iter().all(large) {
            return Ok(false);
        }
        let schema = self.rows.schema().clone();
        let Gathering { row, columns, .. } = gathering;
        for mutation in mutations {
            let id = mutation.column;
            let at = match columns.iter().position(|(known, _)| *known == id) {
                Some(at) => at,
                None => {
                    self.work.spend(row[id.index()].len())?;
                    columns.push((id, Gathered::new(&row[id.index()])));
                    columns.len() - 1
                }
            };
            self.work.spend(mutation.len())?;
            if let Some((_, gathered)) = columns.get_mut(at) {
                mutation.apply_to(gathered, &schema.table(table).column(id).ty)?;
            }
        }
        Ok(true)
    }

    /// Puts the row together that was being mutated.
    pub(super) fn put_together(&mut self) -> Result<(), Error> {
        let Some(Gathering { table, uuid, row, columns }) = self.gathering.take() else {
            return Ok(());
        };
        if columns.is_empty() {
            return Ok(());
        }
        let mut fields = row.to_vec();
        for (id, gathered) in columns {
            self.work.spend(gathered.len())?;
            fields[id.index()] = gathered.into_datum();
        }
        fields[ColumnId::VERSION.index()] = Datum::One(Atom::Uuid(self.symbols.fresh()));
        self.rows.edit()?.put(table, uuid, Some(fields.into()));
        Ok(())
    }
}
