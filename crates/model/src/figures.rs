//! Live figures, from the engine to the ephemeral columns.
//!
//! The engine's figures are read a piece at a time and compared with the rows; only rows whose figures differ are
//! written. They are never journaled, and a row's `_version` does not change with them, so that clients waiting to
//! change a row are not disturbed.

use crate::model::Tables;
use crate::reader::Reader;
use crate::restart::Put;
use paceline_checkpoints::Stats;
use paceline_claims::ResourceId;
use paceline_rules::RuleCounts;
use paceline_tables::schema::{ColumnId, TableId, TableSchema};
use paceline_tables::value::{Atom, Datum};
use paceline_tables::{Row, Store};
use paceline_types::{BackendId, CheckpointId, PoolId, ServerId};
use std::collections::BTreeMap;

/// Figures of the engine at about one time.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Per pool: how many requests run, and how many wait.
    pub pools: BTreeMap<PoolId, (u64, u64)>,
    /// Per rule, by number.
    pub rules: BTreeMap<u32, RuleCounts>,
    /// Per checkpoint.
    pub checkpoints: BTreeMap<CheckpointId, Stats>,
    /// Per resource that is held or waited for: how many requests hold it, and how many wait for it.
    pub resources: BTreeMap<ResourceId, (u64, u64)>,
    /// Per server that is checked or used: whether it is up, and how many requests it has. A server that is not here
    /// keeps the figures of its row.
    pub servers: BTreeMap<ServerId, (bool, u64)>,
    /// Per backend whose servers requests may have to wait for.
    pub backends: BTreeMap<BackendId, Stats>,
    /// Per frontend where something was counted, by name.
    pub frontends: BTreeMap<Box<str>, FrontendFigures>,
}

/// Figures of a frontend.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrontendFigures {
    /// Open connections.
    pub connections: u64,
    /// Connections accepted since the start.
    pub accepted: u64,
    /// Requests received.
    pub requests: u64,
    /// Responses by the first digit of their status, from 1 to 5.
    pub responses: [u64; 5],
    /// Requests whose client disconnected before there was a response.
    pub left: u64,
    /// Truncated responses.
    pub cut: u64,
    /// The addresses where it listens.
    pub listening: Vec<Box<str>>,
    /// Why it differs from its row, if it does.
    pub problem: Option<String>,
}

/// The expected values of a row's columns.
type Columns<'a> = Vec<(&'a str, Datum)>;

impl Figures {
    pub(crate) fn puts(
        &self,
        tables: Tables,
        store: &Store,
        ids: impl Fn(TableId, Reader<'_>) -> Option<u64>,
    ) -> Vec<Put> {
        let mut puts = Vec::new();
        let Tables { pool, rule, checkpoint, resource, frontend, backend, server, .. } = tables;
        for table in [pool, rule, checkpoint, resource, frontend, backend, server] {
            let columns = store.schema().table(table);
            for row in store.rows(table) {
                let reader = Reader::new(columns, row);
                let wanted = match table == frontend {
                    true => Some(self.of_frontend(reader.text("name"))),
                    false => ids(table, reader).map(|id| self.of(tables, table, id)),
                };
                puts.extend(
                    wanted
                        .and_then(|wanted| changed(columns, row, &wanted))
                        .map(|values| (table, reader.uuid(), Some(values))),
                );
            }
        }
        puts
    }

    /// The figures of a frontend; the defaults if nothing was counted there.
    fn of_frontend(&self, name: &str) -> Columns<'static> {
        let none = FrontendFigures::default();
        self.frontends.get(name).unwrap_or(&none).columns()
    }

    fn of(&self, tables: Tables, table: TableId, id: u64) -> Columns<'static> {
        if table == tables.server {
            let of = self.servers.get(&ServerId(id as u32)).copied();
            return of.map_or_else(Vec::new, |(is_up, inflight)| {
                vec![("up", Datum::One(Atom::Boolean(is_up))), ("inflight", number(inflight))]
            });
        }
        let numbers = self.numbers(tables, table, id);
        numbers.into_iter().map(|(name, value)| (name, number(value))).collect()
    }

    fn numbers(&self, tables: Tables, table: TableId, id: u64) -> Vec<(&'static str, u64)> {
        if table == tables.pool {
            let (running, waiting) =
                self.pools.get(&PoolId(id as u32)).copied().unwrap_or_default();
            return vec![("running", running), ("waiting", waiting)];
        }
        if table == tables.rule {
            let RuleCounts { evaluations, matches, errors } =
                self.rules.get(&(id as u32)).copied().unwrap_or_default();
            return vec![("evaluations", evaluations), ("matches", matches), ("errors", errors)];
        }
        if table == tables.checkpoint {
            let of = self.checkpoints.get(&CheckpointId(id as u32)).copied().unwrap_or_default();
            return vec![
                ("arrived", of.arrivals),
                ("passed", of.passed),
                ("refused", refused(of)),
                ("would_wait", of.would_wait),
                ("would_refuse", of.would_refuse),
                ("queued", of.queued_now),
                ("inflight", of.inflight),
                ("keys", of.keys),
            ];
        }
        if table == tables.backend {
            let of = self.backends.get(&BackendId(id as u32)).copied().unwrap_or_default();
            return vec![("queued", of.queued_now), ("refused", refused(of))];
        }
        let (holding, waiting) = self.resources.get(&ResourceId(id)).copied().unwrap_or_default();
        vec![("holding", holding), ("waiting", waiting)]
    }
}

impl FrontendFigures {
    fn columns(&self) -> Columns<'static> {
        // They are in the order of their names, as required for a map.
        let classes = ["1xx", "2xx", "3xx", "4xx", "5xx"].into_iter().zip(self.responses);
        let responses = classes.map(|(class, count)| (Atom::string(class), integer(count)));
        let mut listening: Vec<Atom> =
            self.listening.iter().map(|address| Atom::string(address)).collect();
        listening.sort();
        listening.dedup();
        let problem = self.problem.as_deref().map(Atom::string);
        vec![
            ("connections", number(self.connections)),
            ("accepted", number(self.accepted)),
            ("requests", number(self.requests)),
            ("responses", Datum::from_sorted_pairs(responses.collect())),
            ("left", number(self.left)),
            ("cut", number(self.cut)),
            ("listening", Datum::from_sorted(listening)),
            ("problem", Datum::from_sorted(problem.into_iter().collect())),
        ]
    }
}

/// How many requests were refused there, for any reason.
const fn refused(of: Stats) -> u64 {
    of.refused_full + of.refused_too_long + of.refused_cost + of.expired
}

fn number(number: u64) -> Datum {
    Datum::One(integer(number))
}

fn integer(number: u64) -> Atom {
    Atom::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

/// The row's values with these columns replaced, unless they are equal already.
fn changed(table: &TableSchema, row: &Row, wanted: &Columns<'_>) -> Option<Vec<Datum>> {
    let place =
        |(name, value): &(&str, Datum)| Some((table.column_id(name)?.index(), value.clone()));
    let wanted: Vec<(usize, Datum)> = wanted.iter().filter_map(place).collect();
    if wanted.iter().all(|(at, value)| row[*at] == *value) {
        return None;
    }
    let mut values = row.get(ColumnId::FIRST..)?.to_vec();
    for (at, value) in wanted {
        values[at - ColumnId::FIRST] = value;
    }
    Some(values)
}
