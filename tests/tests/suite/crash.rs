//! Crashes, failing disks and damaged files, as clients of the daemon see them. Tests promises J1 to J6, J8 and L2
//! from outside.
//!
//! Every test uses the writers of `ledger.rs`, which know afterwards what must be there. Runs only against Paceline,
//! because the faults are injected into it.

mod damage;
mod faults;
mod growth;
mod kills;
mod ledger;
mod place;
