//! Random histories from numbered seeds. Each call is compared with the reference model. The
//! promises are checked only from what the sessions receive, as a client would see them.

use std::collections::{BTreeMap, BTreeSet};

use paceline_locks::{ENTRY_BYTES, Effect, LockError, Locks, SessionId};
use paceline_types::Span;

use crate::model::{Model, SplitMix, Told};

const HISTORIES: u64 = 10_000;
const CALLS: u64 = 80;
const SESSIONS: u64 = 6;
/// In name order, and of one length so that a budget in bytes is a number of entries.
const NAMES: [&str; 3] = ["a:a", "bbb", "c_c"];
const ENTRIES_MAX: usize = 2;
const BUDGET: usize = ENTRIES_MAX * (ENTRY_BYTES + 3);

#[test]
fn random_histories() {
    let mut seen = BTreeSet::new();
    for seed in 0..HISTORIES {
        check(seed, &mut seen);
    }
    // If one of these were rare, the histories would prove less than they seem to.
    for word in ["locked", "stolen", "true", "false", "ok", "must", "too", "not", "exhausted"] {
        assert!(seen.contains(word), "no history ever told {word:?}");
    }
}

/// What a call does.
#[derive(Clone, Copy, Debug)]
enum Call {
    /// `waited` is how long it had waited in the last run.
    Ask {
        session: u64,
        lock: usize,
        steal: bool,
        waited: u64,
    },
    Unlock {
        session: u64,
        lock: usize,
    },
    End {
        session: u64,
    },
    Extend {
        by: u64,
    },
    Restart,
}

fn check(seed: u64, seen: &mut BTreeSet<String>) {
    let mut random = SplitMix(seed);
    // Some histories are short of numbers throughout; most are not.
    let range = if seed.is_multiple_of(4) { 2 } else { 50 };
    let mut locks = Locks::new(1, 1 + range, BUDGET);
    let mut model = Model::new(&NAMES, 1, 1 + range, ENTRIES_MAX);
    let mut clients = Clients::default();
    for step in 0..CALLS {
        let place = format!("seed {seed}, step {step}");
        let call = choose(&mut random, range);
        let before = (model.view(), locks.generation());
        if let Call::Restart = call {
            // Reserved numbers count as used, as after a crash.
            let next = locks.next_fencing() + locks.fencing_left();
            locks = Locks::new(next, next + range, BUDGET);
            model = Model::new(&NAMES, next, next + range, ENTRIES_MAX);
            clients.forget();
            continue;
        }
        let expected = play_model(&mut model, call);
        let told = play(&mut locks, call);
        assert_eq!(told, expected, "{place}: {call:?}");
        assert_eq!(view(&locks), model.view(), "{place}: {call:?}");
        assert_eq!(locks.next_fencing(), model.next, "{place}");
        check_changes(&mut locks, &before, &model, &place);
        clients.hear(&locks, call, &told, &place);
        seen.extend(told.iter().flat_map(|line| line.split(' ')).map(String::from));
    }
    for session in 0..SESSIONS {
        locks.release_all(SessionId(session));
        assert_eq!(locks.session_bytes(SessionId(session)), 0, "seed {seed}");
    }
    assert_eq!(locks.iter().len(), 0, "seed {seed}: a lock outlived its sessions");
}

fn choose(random: &mut SplitMix, range: u64) -> Call {
    let session = random.below(SESSIONS);
    let lock = random.below(NAMES.len() as u64) as usize;
    match random.below(100) {
        0..25 => Call::Ask { session, lock, steal: false, waited: 0 },
        25..40 => Call::Ask { session, lock, steal: false, waited: random.below(4) },
        40..55 => Call::Ask { session, lock, steal: true, waited: 0 },
        55..85 => Call::Unlock { session, lock },
        85..92 => Call::End { session },
        92..99 => Call::Extend { by: random.below(range + 1) },
        _ => Call::Restart,
    }
}

fn play_model(model: &mut Model, call: Call) -> Told {
    match call {
        Call::Ask { session, lock, steal, waited } => model.ask(session, lock, steal, waited),
        Call::Unlock { session, lock } => model.unlock(session, lock),
        Call::End { session } => model.end(session),
        Call::Extend { by } => model.extend(model.until + by),
        Call::Restart => vec![],
    }
}

fn play(locks: &mut Locks, call: Call) -> Told {
    let answer = match call {
        Call::Ask { session, lock, steal: false, waited } => {
            let asked = match waited {
                0 => locks.lock(SessionId(session), NAMES[lock]),
                waited => locks.lock_after(SessionId(session), NAMES[lock], Span(waited)),
            };
            Some(asked.map(|locked| if locked { "locked true" } else { "locked false" }))
        }
        Call::Ask { session, lock, steal: true, .. } => {
            Some(locks.steal(SessionId(session), NAMES[lock]).map(|()| "ok"))
        }
        Call::Unlock { session, lock } => {
            Some(locks.unlock(SessionId(session), NAMES[lock]).map(|()| "ok"))
        }
        Call::End { session } => {
            locks.release_all(SessionId(session));
            None
        }
        Call::Extend { by } => {
            locks.extend(locks.next_fencing() + locks.fencing_left() + by);
            None
        }
        Call::Restart => None,
    };
    let effects = std::iter::from_fn(|| locks.poll_effect()).map(|effect| match effect {
        Effect::Locked { session, name, fencing } => {
            format!("{} locked {name} #{fencing}", session.0)
        }
        Effect::Stolen { session, name } => format!("{} stolen {name}", session.0),
    });
    effects.chain(answer.map(|answer| answer.unwrap_or_else(refused).to_string())).collect()
}

fn refused(error: LockError) -> &'static str {
    match error {
        LockError::MustUnlock => "must unlock",
        LockError::NotLocked => "not locked",
        LockError::Exhausted => "exhausted",
        LockError::TooMany => "too many",
        LockError::TooManyTogether(_) => "too many together",
        LockError::Ended => "ended",
    }
}

type View = Vec<(String, Option<u64>, Vec<u64>)>;

fn view(locks: &Locks) -> View {
    let line = |lock: paceline_locks::LockView<'_>| {
        let owner = lock.owner().map(|(owner, _)| owner.0);
        owner.into_iter().chain(lock.waiters().map(|waiter| waiter.0)).collect()
    };
    locks
        .iter()
        .map(|lock| (lock.name().to_string(), lock.owner().map(|(_, f)| f), line(lock)))
        .collect()
}

/// The generation moves exactly with visible changes, and the changed names are the right ones.
fn check_changes(locks: &mut Locks, before: &(View, u64), model: &Model, place: &str) {
    let after = model.view();
    let of = |view: &View, name: &str| view.iter().find(|lock| lock.0 == name).cloned();
    let differs = |name: &&&str| of(&before.0, name) != of(&after, name);
    let names: BTreeSet<_> = NAMES.iter().filter(differs).map(|name| (*name).to_owned()).collect();
    assert_eq!(locks.generation() != before.1, !names.is_empty(), "{place}: generation");
    let mut changed = BTreeSet::new();
    while let Some(name) = locks.take_changed(changed.last().map_or("", String::as_str)) {
        changed.insert(name.to_string());
    }
    assert_eq!(changed, names, "{place}: changed names");
}

/// What the sessions know from answers and effects alone.
#[derive(Default)]
struct Clients {
    /// Per lock: the session that believes it owns the lock.
    owners: BTreeMap<String, u64>,
    /// Per lock: who was told `false` and has not heard since, with how long it had waited in the last run: the longest
    /// first, and else in the order they came.
    queued: BTreeMap<String, Vec<(u64, u64)>>,
    last_fencing: u64,
}

impl Clients {
    fn forget(&mut self) {
        self.owners.clear();
        self.queued.clear();
    }

    fn hear(&mut self, locks: &Locks, call: Call, told: &Told, place: &str) {
        let (caller, name) = match call {
            Call::Ask { session, lock, .. } | Call::Unlock { session, lock } => {
                (Some(session), NAMES[lock])
            }
            Call::End { session } => (Some(session), ""),
            _ => (None, ""),
        };
        // A session that leaves knows it when it calls, before any other session is notified.
        let leaves = match call {
            Call::Unlock { .. } if told.last().is_some_and(|line| line == "ok") => vec![name],
            Call::End { .. } => NAMES.to_vec(),
            _ => vec![],
        };
        for name in leaves {
            self.owners.retain(|lock, owner| lock != name || Some(*owner) != caller);
            self.queued.entry(name.into()).or_default().retain(|(id, _)| Some(*id) != caller);
        }
        for line in told {
            self.hear_line(locks, caller, name, call, line, place);
        }
        for (name, owner) in &self.owners {
            assert!(locks.is_owner(SessionId(*owner), name), "{place}: {owner} thinks it owns");
        }
        let owned = locks.iter().filter(|lock| lock.owner().is_some()).count();
        assert_eq!(owned, self.owners.len(), "{place}: an owner was not told");
    }

    fn hear_line(
        &mut self,
        locks: &Locks,
        caller: Option<u64>,
        name: &str,
        call: Call,
        line: &str,
        place: &str,
    ) {
        let words: Vec<&str> = line.split(' ').collect();
        match (&words[..], call, caller) {
            (&[who, "locked", name, fencing], ..) => {
                let who: u64 = who.parse().unwrap();
                assert_ne!(Some(who), caller, "{place}: L4, the caller hears only its answer");
                self.granted(name, who, fencing[1..].parse().unwrap(), place);
            }
            (&[who, "stolen", name], ..) => {
                assert_ne!(who.parse().ok(), caller, "{place}: L4, nobody robs itself");
                let loser = self.owners.remove(name);
                assert_eq!(loser, who.parse().ok(), "{place}: only the owner is robbed");
            }
            (["locked", "false"], Call::Ask { waited, .. }, Some(caller)) => {
                let queued = self.queued.entry(name.into()).or_default();
                let at = queued.partition_point(|(_, other)| *other >= waited);
                queued.insert(at, (caller, waited));
            }
            (["locked", "true"], _, Some(caller))
            | (["ok"], Call::Ask { steal: true, .. }, Some(caller)) => {
                self.granted(name, caller, locks.fencing(name).unwrap(), place);
            }
            _ => {}
        }
    }

    fn granted(&mut self, name: &str, who: u64, fencing: u64, place: &str) {
        let other = self.owners.insert(name.into(), who);
        assert_eq!(other, None, "{place}: L1, {name} has two owners");
        assert!(fencing > self.last_fencing, "{place}: L2, {fencing} does not grow");
        self.last_fencing = fencing;
        let queued = self.queued.entry(name.into()).or_default();
        if let Some(at) = queued.iter().position(|(id, _)| *id == who) {
            assert_eq!(at, 0, "{place}: L1, {who} was served before {}", queued[0].0);
            queued.remove(0);
        }
    }
}
