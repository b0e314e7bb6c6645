//! SIGKILL at seeded moments while several clients write.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use paceline_tests::client::READ_TIMEOUT;
use paceline_tests::{Client, Daemon, Launch, Scratch};
use rustix::process::Signal;

use super::ledger::{self, Answer, Chance, Contents, Entry};

/// How many requests a writer sends before it reads.
const WINDOW: i64 = 12;

/// What a writer knows at the end.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Its acknowledged transactions, including those of earlier rounds.
    pub acknowledged: i64,
    /// Its sent transactions.
    pub sent: i64,
}

/// Clients that write until the daemon is gone.
pub struct Load {
    writers: Vec<(i64, JoinHandle<Progress>)>,
    acknowledgements: Receiver<()>,
}

impl Load {
    /// Starts `count` writers that continue where `before` ends; each row has `bytes` bytes.
    pub fn start(daemon: &Daemon, count: i64, before: &Contents, bytes: usize) -> Self {
        let (sender, acknowledgements) = channel();
        let start = |w: i64| {
            let (client, sender) = (daemon.connect(), sender.clone());
            let begin = before.get(&w).copied().unwrap_or(0);
            (w, thread::spawn(move || write(client, w, begin, bytes, &sender)))
        };
        Self { writers: (0..count).map(start).collect(), acknowledgements }
    }

    /// Returns after this many more acknowledgements.
    pub fn wait_for(&self, count: u64) {
        for _ in 0..count {
            self.acknowledgements.recv_timeout(READ_TIMEOUT).expect("the daemon answers");
        }
    }

    /// The progress of each writer; the daemon must be gone.
    pub fn end(self) -> BTreeMap<i64, Progress> {
        self.writers.into_iter().map(|(w, thread)| (w, thread.join().unwrap())).collect()
    }
}

fn write(mut client: Client, w: i64, begin: i64, bytes: usize, heard: &Sender<()>) -> Progress {
    let mut progress = Progress { acknowledged: begin, sent: begin };
    loop {
        while progress.sent - progress.acknowledged < WINDOW {
            let i = progress.sent;
            let mut entry = Entry::new(w, i, (w + i) % 4 == 0);
            entry.text = "x".repeat(bytes);
            progress.sent += 1;
            if client.request("transact", &entry.params().to_string()).is_err() {
                break;
            }
        }
        match ledger::read_answer(&mut client) {
            Answer::Acknowledged => progress.acknowledged += 1,
            Answer::Refused(error) => panic!("transaction {i} of {w}: {error}", i = progress.sent),
            Answer::None => return progress,
        }
        let _ = heard.send(());
    }
}

/// Everything acknowledged is there, and of the transactions that were only sent, a prefix.
pub fn check(contents: &Contents, progress: &BTreeMap<i64, Progress>) {
    for (w, Progress { acknowledged, sent }) in progress {
        let there = contents.get(w).copied().unwrap_or(0);
        assert!((*acknowledged..=*sent).contains(&there), "writer {w}: {there} of {progress:?}");
    }
}

#[test]
fn kill_9_loses_nothing_acknowledged_and_leaves_no_half_j1_j8_l2() {
    let scratch = Scratch::new();
    let file = ledger::create(&scratch);
    let launch = Launch::serving(&scratch, &file);
    let mut chance = Chance(0x5eed);
    let mut before = Contents::new();
    let mut last_fencing = 0;
    for round in 0..30 {
        let daemon = launch.start().unwrap();
        let mut locker = daemon.connect();
        for name in ["one", "two"] {
            let fencing = ledger::lock(&mut locker, name);
            assert!(fencing > last_fencing, "round {round}: {fencing} after {last_fencing}");
            last_fencing = fencing;
        }
        let load = Load::start(&daemon, 4, &before, 0);
        // In every other round a compaction runs, which was started at once or shortly before the kill.
        if round % 2 == 1 {
            load.wait_for(chance.below(40));
            daemon.signal(Signal::USR1);
        }
        load.wait_for(chance.below(60));
        daemon.kill();
        let progress = load.end();

        let daemon = launch.start().unwrap_or_else(|ended| panic!("round {round}: {ended:?}"));
        before = ledger::contents(&mut daemon.connect());
        check(&before, &progress);
    }
    assert!(before.values().sum::<i64>() > 500, "the load was too small to show anything");
}

#[test]
fn sigterm_under_load_ends_cleanly_and_loses_nothing() {
    let scratch = Scratch::new();
    let file = ledger::create(&scratch);
    let launch = Launch::serving(&scratch, &file);
    let mut chance = Chance(0x7e4);
    let mut before = Contents::new();
    for round in 0..6 {
        let daemon = launch.start().unwrap();
        let load = Load::start(&daemon, 4, &before, 0);
        load.wait_for(chance.below(100));
        let ended = daemon.terminate();
        assert!(ended.status.success(), "round {round}: {ended:?}");
        let progress = load.end();
        let daemon = launch.start().unwrap_or_else(|ended| panic!("round {round}: {ended:?}"));
        before = ledger::contents(&mut daemon.connect());
        check(&before, &progress);
    }
}
