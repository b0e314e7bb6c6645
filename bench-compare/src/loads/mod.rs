//! The loads, one module for each subject, and their list.
//!
//! A load starts the servers it needs, measures both sides in rounds and returns its lines. Loads
//! know nothing of each other and leave nothing running.

mod fanout;
mod insert;
mod lock;
mod memory;
mod select;
mod stall;
mod startup;

use crate::failure::Outcome;
use crate::rounds::{Bench, Line};

/// A load by name.
#[derive(Debug)]
pub struct Load {
    /// The name that `--load` matches.
    pub name: &'static str,
    /// A one-line description.
    pub about: &'static str,
    /// Runs it.
    pub run: fn(&Bench) -> Outcome<Vec<Line>>,
}

/// All loads, in the order of the table.
pub const ALL: &[Load] = &[
    Load {
        name: "insert-single",
        about: "one client, one insert transaction at a time",
        run: insert::single,
    },
    Load {
        name: "insert-pipelined",
        about: "one client, 64 insert transactions outstanding",
        run: insert::pipelined,
    },
    Load {
        name: "insert-8-clients",
        about: "8 clients, 128 insert transactions outstanding each",
        run: insert::eight_clients,
    },
    Load {
        name: "insert-durable",
        about: "8 clients, 128 outstanding, each commit on disk before it is answered",
        run: insert::durable,
    },
    Load { name: "lock-single", about: "lock, then unlock, one call at a time", run: lock::single },
    Load {
        name: "lock-pipelined",
        about: "lock and unlock with 64 calls outstanding",
        run: lock::pipelined,
    },
    Load {
        name: "fanout-monitor",
        about: "50 clients with `monitor`; inserts until all 50 have all rows",
        run: fanout::monitor,
    },
    Load { name: "fanout-since", about: "the same with `monitor_cond_since`", run: fanout::since },
    Load {
        name: "fanout-update",
        about: "the same with `monitor_cond_since` and updates of existing rows",
        run: fanout::update,
    },
    Load {
        name: "select",
        about: "a 100k-row table: by index column, by uuid, by full scan, all rows",
        run: select::run,
    },
    Load {
        name: "stall",
        about: "echo of another client during compaction and during a 100k-row initial monitor",
        run: stall::run,
    },
    Load { name: "memory", about: "memory of 100k rows, loaded and restarted", run: memory::run },
    Load { name: "startup", about: "start to first row with a 100 MB file", run: startup::run },
];
