//! Resolves the names of servers to addresses.
//!
//! The system's lookup call blocks, for half a minute if its name servers do not answer. Here this delays only
//! requests that need the same name. Lookups have a few threads of their own, each name is looked up once at a time
//! for all requests that need it, and a request may stop waiting. Names that were slow last time cannot use all
//! threads, nor can names that are not known yet: some threads stay available for names that resolve quickly.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Concurrent lookups; further names wait.
const LOOKUPS_MAX: usize = 32;

/// Maximum of these for names that did not resolve quickly last time, including new names.
const UNKNOWN_MAX: usize = 24;

/// Maximum of these for names that were slow last time.
const SLOW_MAX: usize = 16;

/// A lookup that takes longer than this is slow.
const SLOW: Duration = Duration::from_secs(1);

/// Names whose pace is remembered. When there are more, all are forgotten.
const KNOWN_MAX: usize = 20_000;

/// The lookups of the whole process.
pub static RESOLVER: Resolver = Resolver::new(|name, port| {
    (name, port).to_socket_addrs().map(Iterator::collect).map_err(|error| error.to_string())
});

/// The result of a lookup, or why it failed.
type Found = Result<Vec<SocketAddr>, String>;

/// A name and a port.
type HostPort = (Box<str>, u16);

/// How long a name took last time. Faster names are looked up first and may use more threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Pace {
    Quick,
    Unknown,
    Slow,
}

/// Looks names up.
#[derive(Debug)]
pub struct Resolver {
    look_up: fn(&str, u16) -> Found,
    state: Mutex<Lookups>,
}

#[derive(Debug)]
struct Lookups {
    /// The requests that wait for each name, whether its lookup has begun or not.
    askers: BTreeMap<HostPort, Askers>,
    /// Names whose lookup has not begun, by pace.
    waiting: [VecDeque<HostPort>; 3],
    /// Running lookup threads, by the pace of the name.
    threads: [usize; 3],
    known: BTreeMap<HostPort, Pace>,
}

/// The requests that wait for a name.
#[derive(Debug, Default)]
struct Askers {
    all: Vec<oneshot::Sender<Found>>,
    /// How many were left when askers that stopped waiting were last removed.
    kept: usize,
    /// How many were examined for that in total.
    #[cfg(test)]
    looked_at: usize,
}

impl Askers {
    /// Adds an asker. Askers that stopped waiting are removed, because a name that never resolves would collect them.
    /// This happens only when there are twice as many as last time, so that the cost for each asker is constant.
    fn add(&mut self, asker: oneshot::Sender<Found>) {
        if self.all.len() >= 2 * self.kept.max(1) {
            #[cfg(test)]
            {
                self.looked_at += self.all.len();
            }
            self.all.retain(|asker| !asker.is_closed());
            self.kept = self.all.len();
        }
        self.all.push(asker);
    }
}

impl Lookups {
    fn pace(&self, wanted: &HostPort) -> Pace {
        self.known.get(wanted).copied().unwrap_or(Pace::Unknown)
    }

    /// Whether another name of this pace may be looked up now.
    const fn has_thread(&self, pace: Pace) -> bool {
        let [quick, unknown, slow] = self.threads;
        quick + unknown + slow < LOOKUPS_MAX
            && match pace {
                Pace::Quick => true,
                Pace::Unknown => unknown + slow < UNKNOWN_MAX,
                Pace::Slow => unknown + slow < UNKNOWN_MAX && slow < SLOW_MAX,
            }
    }

    /// The next name that may be looked up; counts its thread.
    fn next(&mut self) -> Option<(HostPort, Pace)> {
        for pace in [Pace::Quick, Pace::Unknown, Pace::Slow] {
            if self.has_thread(pace)
                && let Some(wanted) = self.waiting[pace as usize].pop_front()
            {
                self.threads[pace as usize] += 1;
                return Some((wanted, pace));
            }
        }
        None
    }

    fn learn(&mut self, wanted: &HostPort, pace: Pace) {
        if self.known.len() >= KNOWN_MAX && !self.known.contains_key(wanted) {
            self.known.clear();
        }
        self.known.insert(wanted.clone(), pace);
    }
}

impl Resolver {
    const fn new(look_up: fn(&str, u16) -> Found) -> Self {
        let waiting = [VecDeque::new(), VecDeque::new(), VecDeque::new()];
        let askers = BTreeMap::new();
        let state = Lookups { askers, waiting, threads: [0; 3], known: BTreeMap::new() };
        Self { look_up, state: Mutex::new(state) }
    }

    /// The addresses of a name, in the order in which they are tried.
    pub async fn addresses(&'static self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let answer = self.ask((name.into(), port))?;
        let found = answer.await.unwrap_or_else(|_| Err("the lookup was abandoned".into()));
        found.map_err(io::Error::other)
    }

    fn ask(&'static self, wanted: HostPort) -> io::Result<oneshot::Receiver<Found>> {
        let (sender, answer) = oneshot::channel();
        let mut state = self.state();
        if let Some(askers) = state.askers.get_mut(&wanted) {
            askers.add(sender);
            return Ok(answer);
        }
        state.askers.entry(wanted.clone()).or_default().add(sender);
        let pace = state.pace(&wanted);
        state.waiting[pace as usize].push_back(wanted);
        // No other name can be next: it would have used the thread that ended last.
        let Some((wanted, pace)) = state.next() else { return Ok(answer) };
        drop(state);
        let thread = std::thread::Builder::new().name("lookup".into());
        let looked = wanted.clone();
        if let Err(error) = thread.spawn(move || self.work(looked, pace)) {
            let mut state = self.state();
            state.threads[pace as usize] -= 1;
            state.askers.remove(&wanted);
            return Err(error);
        }
        Ok(answer)
    }

    /// The body of a thread: looks up this name, then waiting names, until there are none.
    fn work(&self, first: HostPort, pace: Pace) {
        let mut next = Some((first, pace));
        while let Some((wanted, pace)) = next {
            let begun = Instant::now();
            let found = (self.look_up)(&wanted.0, wanted.1);
            let is_quick = begun.elapsed() < SLOW;
            let mut state = self.state();
            state.learn(&wanted, if is_quick { Pace::Quick } else { Pace::Slow });
            let askers = state.askers.remove(&wanted).unwrap_or_default();
            state.threads[pace as usize] -= 1;
            next = state.next();
            drop(state);
            for asker in askers.all {
                // An asker that stopped waiting needs no result.
                let _ = asker.send(found.clone());
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, Lookups> {
        self.state.lock().unwrap_or_else(paceline_host::broken)
    }
}

#[cfg(test)]
mod tests {
    use super::{Askers, Found, LOOKUPS_MAX, Pace, Resolver, SLOW_MAX, UNKNOWN_MAX};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Condvar, Mutex};
    use tokio::sync::oneshot;

    /// A name server that answers only when allowed to.
    struct Slow {
        is_open: Mutex<bool>,
        opened: Condvar,
        lookups: AtomicUsize,
        now: AtomicUsize,
        most: AtomicUsize,
    }

    impl Slow {
        const fn new() -> Self {
            Self {
                is_open: Mutex::new(false),
                opened: Condvar::new(),
                lookups: AtomicUsize::new(0),
                now: AtomicUsize::new(0),
                most: AtomicUsize::new(0),
            }
        }

        fn look_up(&self, port: u16) -> Found {
            self.lookups.fetch_add(1, Ordering::SeqCst);
            let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(now, Ordering::SeqCst);
            let mut is_open = self.is_open.lock().unwrap();
            while !*is_open {
                is_open = self.opened.wait(is_open).unwrap();
            }
            self.now.fetch_sub(1, Ordering::SeqCst);
            Ok(vec![([127, 0, 0, 1], port).into()])
        }

        fn open(&self) {
            *self.is_open.lock().unwrap() = true;
            self.opened.notify_all();
        }
    }

    #[test]
    fn all_who_ask_for_a_name_share_one_lookup() {
        static SLOW: Slow = Slow::new();
        static RESOLVER: Resolver = Resolver::new(|_, port| SLOW.look_up(port));
        let answers: Vec<_> = (0..100).map(|_| RESOLVER.ask(("a".into(), 80)).unwrap()).collect();
        SLOW.open();
        for answer in answers {
            let found = answer.blocking_recv().unwrap().unwrap();
            assert_eq!(found, [([127, 0, 0, 1], 80).into()]);
        }
        assert_eq!(SLOW.lookups.load(Ordering::SeqCst), 1);
        let again = RESOLVER.ask(("a".into(), 80)).unwrap();
        assert!(again.blocking_recv().unwrap().is_ok());
        assert_eq!(SLOW.lookups.load(Ordering::SeqCst), 2, "what was found is not kept");
    }

    #[test]
    fn many_names_have_few_threads_and_all_get_their_turn() {
        static SLOW: Slow = Slow::new();
        static RESOLVER: Resolver = Resolver::new(|_, port| SLOW.look_up(port));
        let names = 4 * LOOKUPS_MAX as u16;
        let answers: Vec<_> =
            (0..names).map(|port| (port, RESOLVER.ask(("a".into(), port)).unwrap())).collect();
        SLOW.open();
        for (port, answer) in answers {
            assert_eq!(answer.blocking_recv().unwrap().unwrap()[0].port(), port);
        }
        assert!(SLOW.most.load(Ordering::SeqCst) <= LOOKUPS_MAX);
        assert_eq!(SLOW.lookups.load(Ordering::SeqCst), usize::from(names));
    }

    /// A name server that never answers for names that begin with `x`.
    #[test]
    fn names_that_hang_leave_threads_for_the_others() {
        static SLOW: Slow = Slow::new();
        static RESOLVER: Resolver = Resolver::new(|name, port| match name.starts_with('x') {
            true => SLOW.look_up(port),
            false => Ok(vec![([127, 0, 0, 1], port).into()]),
        });
        let good = || RESOLVER.ask(("good".into(), 80)).unwrap();
        assert!(good().blocking_recv().unwrap().is_ok());
        let ask = |port| RESOLVER.ask(("x".into(), port)).unwrap();
        let hanging: Vec<_> = (0..4 * LOOKUPS_MAX as u16).map(ask).collect();
        for _ in 0..100 {
            assert!(good().blocking_recv().unwrap().is_ok(), "it is found while the others hang");
        }
        SLOW.open();
        for answer in hanging {
            assert!(answer.blocking_recv().unwrap().is_ok());
        }
        assert!(SLOW.most.load(Ordering::SeqCst) <= UNKNOWN_MAX);
    }

    /// Slow names also leave room for new names.
    #[test]
    fn each_pace_has_its_share() {
        let resolver = Resolver::new(|_, _| Ok(vec![]));
        let mut state = resolver.state();
        let names: Vec<_> = (0..100).map(|port| (Box::<str>::from("a"), port)).collect();
        for (n, wanted) in names.iter().enumerate() {
            let pace = [Pace::Slow, Pace::Unknown, Pace::Quick][n / 34];
            state.learn(wanted, pace);
            assert_eq!(state.pace(wanted), pace);
            state.waiting[pace as usize].push_back(wanted.clone());
        }
        // The names queue in the order slow, new, quick.
        let [quick, unknown, slow] = std::mem::take(&mut state.waiting);
        let mut paces = vec![];
        for (pace, queue) in [(Pace::Slow, slow), (Pace::Unknown, unknown), (Pace::Quick, quick)] {
            state.waiting[pace as usize] = queue;
            while let Some((_, pace)) = state.next() {
                paces.push(pace);
            }
        }
        let count = |pace| paces.iter().filter(|own| **own == pace).count();
        assert_eq!(count(Pace::Slow), SLOW_MAX);
        assert_eq!(count(Pace::Unknown), UNKNOWN_MAX - SLOW_MAX);
        assert_eq!(count(Pace::Quick), LOOKUPS_MAX - UNKNOWN_MAX);
    }

    #[test]
    fn askers_who_stopped_waiting_are_forgotten() {
        static SLOW: Slow = Slow::new();
        static RESOLVER: Resolver = Resolver::new(|_, port| SLOW.look_up(port));
        for _ in 0..1_000 {
            drop(RESOLVER.ask(("a".into(), 80)).unwrap());
        }
        assert!(RESOLVER.state().askers[&("a".into(), 80)].all.len() <= 2);
        SLOW.open();
    }

    /// However many askers wait, another one costs the same, and askers that leave are removed before they outnumber
    /// those that stay.
    #[test]
    fn many_who_wait_for_a_name_cost_no_more_each() {
        const ASKERS: usize = 40_000;
        let mut askers = Askers::default();
        let mut waiting: Vec<_> = (0..ASKERS)
            .map(|_| {
                let (sender, answer) = oneshot::channel();
                askers.add(sender);
                answer
            })
            .collect();
        assert_eq!(askers.all.len(), ASKERS);
        assert!(askers.looked_at <= 2 * ASKERS, "{} looked at", askers.looked_at);
        waiting.truncate(ASKERS / 4);
        for _ in 0..4 * ASKERS {
            let (sender, _) = oneshot::channel();
            askers.add(sender);
        }
        assert!(askers.all.len() <= ASKERS, "{} are kept", askers.all.len());
        assert!(askers.looked_at <= 12 * ASKERS, "{} looked at", askers.looked_at);
        let is_kept = |answer: &mut oneshot::Receiver<Found>| {
            matches!(answer.try_recv(), Err(oneshot::error::TryRecvError::Empty))
        };
        assert!(waiting.iter_mut().all(is_kept), "whoever waits is not forgotten");
    }
}
