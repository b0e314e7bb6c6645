//! Names of servers to their addresses.
//!
//! The system looks names up in a call that blocks, for half a minute if its name servers do not answer.
//! Here that holds up nobody but those who want this name: lookups have threads of their own, few of them,
//! a name is looked up once at a time for all who ask, and whoever asks may stop waiting.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Lookups at one time; further names wait for their turn.
const LOOKUPS_MAX: usize = 32;

/// The lookups of the whole process.
pub(crate) static RESOLVER: Resolver = Resolver::new(|name, port| {
    (name, port).to_socket_addrs().map(Iterator::collect).map_err(|error| error.to_string())
});

/// What a lookup finds, or why it finds nothing.
type Found = Result<Vec<SocketAddr>, String>;

/// A name and a port.
type Wanted = (Box<str>, u16);

/// Looks names up.
#[derive(Debug)]
pub(crate) struct Resolver {
    look_up: fn(&str, u16) -> Found,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Who waits for each name that is looked up, or will be.
    askers: BTreeMap<Wanted, Vec<oneshot::Sender<Found>>>,
    /// Names whose turn has not come.
    waiting: VecDeque<Wanted>,
    threads: usize,
}

impl Resolver {
    const fn new(look_up: fn(&str, u16) -> Found) -> Self {
        let state = State { askers: BTreeMap::new(), waiting: VecDeque::new(), threads: 0 };
        Self { look_up, state: Mutex::new(state) }
    }

    /// The addresses of a name, in the order in which they are to be tried.
    pub async fn addresses(&'static self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let answer = self.ask((name.into(), port))?;
        let found = answer.await.unwrap_or_else(|_| Err("the lookup was given up".into()));
        found.map_err(io::Error::other)
    }

    fn ask(&'static self, wanted: Wanted) -> io::Result<oneshot::Receiver<Found>> {
        let (sender, answer) = oneshot::channel();
        let mut state = self.state();
        if let Some(askers) = state.askers.get_mut(&wanted) {
            // Those who stopped waiting are forgotten, or a name that never comes would gather them.
            askers.retain(|asker| !asker.is_closed());
            askers.push(sender);
            return Ok(answer);
        }
        state.askers.insert(wanted.clone(), vec![sender]);
        if state.threads == LOOKUPS_MAX {
            state.waiting.push_back(wanted);
            return Ok(answer);
        }
        state.threads += 1;
        drop(state);
        let thread = std::thread::Builder::new().name("http-lookup".into());
        let looked = wanted.clone();
        if let Err(error) = thread.spawn(move || self.work(looked)) {
            let mut state = self.state();
            state.threads -= 1;
            state.askers.remove(&wanted);
            return Err(error);
        }
        Ok(answer)
    }

    /// A thread: this name, then those that wait, until none does.
    fn work(&self, first: Wanted) {
        let mut next = Some(first);
        while let Some(wanted) = next {
            let found = (self.look_up)(&wanted.0, wanted.1);
            let mut state = self.state();
            let askers = state.askers.remove(&wanted).unwrap_or_default();
            next = state.waiting.pop_front();
            if next.is_none() {
                state.threads -= 1;
            }
            drop(state);
            for asker in askers {
                // Whoever stopped waiting does not want to know.
                let _ = asker.send(found.clone());
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::{Found, LOOKUPS_MAX, Resolver};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Condvar, Mutex};

    /// A name server that answers when it is allowed to.
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

    #[test]
    fn askers_who_stopped_waiting_are_forgotten() {
        static SLOW: Slow = Slow::new();
        static RESOLVER: Resolver = Resolver::new(|_, port| SLOW.look_up(port));
        for _ in 0..1_000 {
            drop(RESOLVER.ask(("a".into(), 80)).unwrap());
        }
        assert!(RESOLVER.state().askers[&("a".into(), 80)].len() <= 2);
        SLOW.open();
    }
}
