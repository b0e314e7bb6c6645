//! Crashes, failing disks and damaged files, seen by clients of the daemon. Proves promises J1 to
//! J6, J8 and L2 from outside.
//!
//! Every test plays the writers of `ledger.rs`, which know afterwards what must be there. Run
//! against Paceline alone: the faults are its own.

mod damage;
mod faults;
mod growth;
mod kills;
mod ledger;
mod place;
