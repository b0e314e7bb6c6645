//! Compaction because the journal has grown, while clients write and the daemon is killed.

use std::fs;

use paceline_tests::{Launch, Scratch};

use super::kills::{self, Load};
use super::ledger::{self, Chance, Contents};

/// The size at which a journal is compacted, and how much each transaction adds.
const COMPACTED_AT: u64 = 10 << 20;
const TEXT_BYTES: usize = 100 << 10;

#[test]
fn growth_past_10_mib_compacts_and_loses_nothing_j8() {
    let scratch = Scratch::new();
    let file = ledger::create(&scratch);
    let launch = Launch::serving(&scratch, &file);
    let mut chance = Chance(0xf11e);
    let mut before = Contents::new();
    let first_part = COMPACTED_AT / TEXT_BYTES as u64 - 5;
    for round in 0..4 {
        let daemon = launch.start().unwrap();
        let load = Load::start(&daemon, 2, &before, TEXT_BYTES);
        if round == 0 {
            load.wait_for(first_part);
        }
        // About here the journal exceeds the threshold, and a compaction is in some phase.
        load.wait_for(chance.below(20));
        if round == 3 {
            daemon.log_line(&["compacted the journal", "database=db"]).unwrap();
        }
        daemon.kill();
        let progress = load.end();

        let daemon = launch.start().unwrap_or_else(|ended| panic!("round {round}: {ended:?}"));
        before = ledger::contents(&mut daemon.connect());
        kills::check(&before, &progress);
    }
    let size = fs::metadata(&file).unwrap().len();
    assert!(size < COMPACTED_AT, "{size} bytes are left after a compaction");
}
