//! Simulated users that ask the demo's daemon for permits and locks through the client library.
//!
//! Each user is a thread with its own random source, derived from the seed. They send the decisions about them
//! on a channel. They end when asked to, or when the daemon has stopped.

use super::view::{Decision, Verdict};
use paceline_client::{Client, Error, LockOptions, PermitRequest, SessionOptions};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A kind of user.
#[derive(Clone, Copy, Debug)]
struct User {
    name: &'static str,
    task: &'static str,
    /// How many of them there are.
    count: u64,
    /// Milliseconds between two requests, and of the work: minimum and maximum.
    pause: (u64, u64),
    work: (u64, u64),
    claims: &'static [&'static str],
    /// The tables that it loads, if any.
    tables: &'static [&'static str],
    lock: Option<&'static str>,
}

const USER: User = User {
    name: "",
    task: "",
    count: 1,
    pause: (300, 900),
    work: (50, 250),
    claims: &[],
    tables: &[],
    lock: None,
};

/// All users.
const USERS: &[User] = &[
    User { name: "alice", task: "web", count: 2, ..USER },
    User { name: "bob", task: "web", pause: (150, 600), work: (100, 400), ..USER },
    User {
        name: "etl",
        task: "load",
        count: 5,
        pause: (200, 1_200),
        work: (400, 1_100),
        tables: &["orders", "users", "events"],
        ..USER
    },
    User { name: "crawler", task: "fetch", count: 8, pause: (200, 900), work: (20, 60), ..USER },
    User { name: "mallory", task: "probe", pause: (900, 2_500), ..USER },
    User {
        name: "backup",
        task: "nightly",
        pause: (1_500, 3_000),
        work: (900, 1_800),
        claims: &["zpool:tank"],
        ..USER
    },
    User {
        name: "snapshots",
        task: "snap",
        count: 2,
        pause: (600, 1_500),
        work: (200, 600),
        claims: &["dataset:home", "dataset:vm"],
        ..USER
    },
    User {
        name: "deploy",
        task: "release",
        count: 2,
        pause: (800, 2_000),
        work: (700, 1_500),
        lock: Some("deploy"),
        ..USER
    },
];

/// The longest wait of a user.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// A way to end a sleep early.
#[derive(Debug, Default)]
struct Bell {
    rung: Mutex<bool>,
    heard: Condvar,
}

impl Bell {
    /// Sleeps; false if the bell rang.
    fn sleep(&self, time: Duration) -> bool {
        let rung = self.rung.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = self.heard.wait_timeout_while(rung, time, |rung| !*rung);
        !*wait.unwrap_or_else(PoisonError::into_inner).0
    }

    fn ring(&self) {
        *self.rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.heard.notify_all();
    }
}

/// All running users.
pub struct Traffic {
    bell: Arc<Bell>,
    threads: Vec<JoinHandle<()>>,
}

impl Traffic {
    /// Starts them; `tell` receives the decision about each request.
    pub fn start(client: &Client, seed: u64, tell: &Sender<Decision>) -> Result<Self, String> {
        let mut traffic = Self { bell: Arc::default(), threads: vec![] };
        let started = Instant::now();
        for (kind, user) in (0_u64..).zip(USERS) {
            for number in 1..=user.count {
                let worker = Worker {
                    user: *user,
                    name: format!("{}-{number}", user.name),
                    client: client.clone(),
                    random: Random::new(seed ^ (kind << 32) ^ (number << 40)),
                    bell: Arc::clone(&traffic.bell),
                    tell: tell.clone(),
                    started,
                };
                let thread = std::thread::Builder::new().name(worker.name.clone());
                let thread = thread.spawn(move || worker.run());
                traffic.threads.push(thread.map_err(|error| format!("cannot start: {error}"))?);
            }
        }
        Ok(traffic)
    }

    /// Asks them to end. Those that wait at the daemon end when it stops.
    pub fn ring(&self) {
        self.bell.ring();
    }

    /// Waits until all have ended.
    pub fn join(self) {
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

struct Worker {
    user: User,
    name: String,
    client: Client,
    random: Random,
    bell: Arc<Bell>,
    tell: Sender<Decision>,
    started: Instant,
}

impl Worker {
    fn run(mut self) {
        while self.pause(self.user.pause) {
            let done = match self.user.lock {
                Some(lock) => self.with_lock(lock),
                None => self.with_permit(),
            };
            match done {
                Err(Error::Unreachable { .. } | Error::Protocol(_)) => return,
                Err(error) => self.say(Verdict::Refused, error.to_string()),
                Ok(()) => {}
            }
        }
    }

    fn with_permit(&mut self) -> Result<(), Error> {
        let mut request = PermitRequest::new()
            .attribute("user", self.user.name)
            .attribute("task", self.user.task)
            .attribute("text", &self.name);
        request.max_wait = Some(WAIT_MAX);
        if let Some(table) = self.random.one_of(self.user.tables) {
            request = request.attribute("tag.table", table);
        }
        if let Some(claim) = self.random.one_of(self.user.claims) {
            request = request.claim(claim);
        }
        let permit = self.client.permit(request)?;
        if let Some(grant) = permit.grant() {
            let (pool, priority, waited) = (&grant.pool, grant.priority, short(&grant.waited));
            let text = format!("in pool {pool} at priority {priority}, after {waited}");
            self.say(Verdict::Admitted, text);
        }
        self.pause(self.user.work);
        permit.settle()
    }

    fn with_lock(&mut self, name: &str) -> Result<(), Error> {
        let options = SessionOptions { name: Some(self.name.clone()), lease: None };
        let session = self.client.session(&options)?;
        let lock = session.lock(name, &LockOptions { wait: WAIT_MAX, ..LockOptions::default() })?;
        let text = format!("with lock {name}, fencing number {}", lock.fencing());
        self.say(Verdict::Admitted, text);
        self.pause(self.user.work);
        lock.unlock()?;
        session.end()
    }

    /// Does nothing for a while; false if the bell rang.
    fn pause(&mut self, (low, high): (u64, u64)) -> bool {
        let millis = low + self.random.below(high.saturating_sub(low) + 1);
        self.bell.sleep(Duration::from_millis(millis))
    }

    fn say(&self, verdict: Verdict, text: String) {
        let (at, who) = (self.started.elapsed(), self.name.clone());
        // The receiver may have ended.
        let _ = self.tell.send(Decision { at, verdict, who, text });
    }
}

/// A duration as the API writes it, with no more digits than people read.
pub fn short(span: &str) -> String {
    let parsed: Result<paceline_types::Span, _> = span.parse();
    parsed.map_or_else(|_| span.to_owned(), |span| seconds(Duration::from_nanos(span.0)))
}

/// `0.4 s`, or `0 s`.
pub fn seconds(time: Duration) -> String {
    match time.as_millis() {
        0..50 => "0 s".to_owned(),
        millis => format!("{}.{} s", (millis + 50) / 1_000, (millis + 50) % 1_000 / 100),
    }
}

/// Pseudo-random numbers from a seed (SplitMix64).
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        let mut random = Self(seed);
        random.next();
        random
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    fn one_of<'a>(&mut self, list: &[&'a str]) -> Option<&'a str> {
        let place = self.below(list.len() as u64);
        list.get(usize::try_from(place).ok()?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::{Random, seconds};
    use std::time::Duration;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let numbers = |seed: u64| {
            let mut random = Random::new(seed);
            std::array::from_fn::<u64, 5, _>(|_| random.below(1_000))
        };
        assert_eq!(numbers(7), numbers(7));
        assert_ne!(numbers(7), numbers(8));
    }

    #[test]
    fn times_have_one_digit() {
        for (millis, text) in [(0, "0 s"), (49, "0 s"), (449, "0.4 s"), (960, "1.0 s")] {
            assert_eq!(seconds(Duration::from_millis(millis)), text);
        }
    }
}
