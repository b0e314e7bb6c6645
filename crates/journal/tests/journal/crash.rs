//! Death at every system call of a run that appends, syncs and compacts (J1, J2, J8).
//!
//! The records represent a list of numbers: `add N` appends the next one, `set N` sets it to 1 to N. Whatever the
//! moment of death, the list found afterwards must be 1 to some M that is not below what was synced and not above
//! what was attempted.

use std::sync::Arc;

use paceline_journal::disk::{Death, Disk, Faults, FaultyDisk, MemoryDisk, RealDisk};
use paceline_journal::{FileLog, Log, Mode, OpenError};

use crate::place::Place;
use crate::{framed, replay};

/// What the run had reached when it ended.
#[derive(Debug, Default, Clone, Copy)]
struct Reached {
    created: bool,
    tried: u64,
    synced: u64,
}

/// One run. Stops at the first error, which is its death.
fn live(disk: Arc<dyn Disk>, path: &str, reached: &mut Reached) -> Option<()> {
    let mut log = FileLog::create_on(disk, path, b"schema").ok()?;
    reached.created = true;
    add(&mut log, reached, 2)?;
    sync(&mut log, reached)?;
    add(&mut log, reached, 1)?;

    let set = reached.tried;
    let snapshot_at = log.position();
    let mut rewrite = log.rewrite().ok()?;
    add(&mut log, reached, 1)?;
    rewrite.write(&framed("schema")).ok()?;
    rewrite.write(&framed(&format!("set {set}"))).ok()?;
    rewrite.sync().ok()?;
    let copied = log.position();
    rewrite.copy_tail(snapshot_at, copied).ok()?;
    add(&mut log, reached, 1)?;
    log.install(rewrite, copied).ok()?;
    reached.synced = reached.tried;

    add(&mut log, reached, 3)?;
    sync(&mut log, reached)?;
    add(&mut log, reached, 2)?;
    add(&mut log, reached, 1)
}

fn add(log: &mut FileLog, reached: &mut Reached, count: u64) -> Option<()> {
    let mut batch = Vec::new();
    for _ in 0..count {
        reached.tried += 1;
        batch.extend(framed(&format!("add {}", reached.tried)));
    }
    log.append(log.position(), &batch).ok().map(|_| ())
}

fn sync(log: &mut FileLog, reached: &mut Reached) -> Option<()> {
    log.sync().ok()?;
    reached.synced = reached.tried;
    Some(())
}

/// Opens what a run left and checks the promise. The list is then extended, to show that the log works.
fn check(disk: Arc<dyn Disk>, path: &str, reached: Reached, story: &str) {
    let (mut log, recovery, bodies) = match replay(Arc::clone(&disk), path, Mode::ReadWrite) {
        Ok(opened) => opened,
        Err(OpenError::Io(failure)) if failure.kind() == std::io::ErrorKind::NotFound => {
            assert!(!reached.created, "{story}: the file is gone");
            return;
        }
        Err(error) => panic!("{story}: {error}"),
    };
    let last = list(&bodies).unwrap_or_else(|| panic!("{story}: {bodies:?}"));
    assert!((reached.synced..=reached.tried).contains(&last), "{story}: {last} of {reached:?}");
    assert!(!recovery.lost_synced(), "{story}: {recovery:?}");

    log.append(log.position(), &framed(&format!("add {}", last + 1))).unwrap();
    log.sync().unwrap();
    drop(log);
    let (_, recovery, bodies) = replay(disk, path, Mode::ReadWrite).unwrap();
    assert_eq!((list(&bodies), recovery.torn), (Some(last + 1), None), "{story}: second opening");
}

/// The last number of the list, if the records represent a valid one.
fn list(bodies: &[String]) -> Option<u64> {
    let (schema, bodies) = bodies.split_first()?;
    let mut last = 0;
    for body in bodies {
        let (word, number) = body.split_once(' ')?;
        let number = number.parse().ok()?;
        let fits = (word == "add" && number == last + 1) || (word == "set" && last == 0);
        last = fits.then_some(number)?;
    }
    (schema == "schema").then_some(last)
}

fn dies_at(inner: Arc<dyn Disk>, call: u64) -> Arc<FaultyDisk> {
    let faults = Faults { kill_at: Some(call), ..Faults::default() };
    Arc::new(FaultyDisk::new(inner, faults, Death::Pretend))
}

/// A run on a disk in memory that ends at `call`; `None` if it completed before.
fn life_until(call: u64) -> Option<(MemoryDisk, Reached)> {
    let memory = MemoryDisk::new();
    let faulty = dies_at(Arc::new(memory.clone()), call);
    let mut reached = Reached::default();
    let end = live(faulty.clone(), "db", &mut reached);
    assert_eq!(end.is_none(), faulty.is_dead(), "a life ends by death only");
    faulty.is_dead().then_some((memory, reached))
}

/// J1, J2, J8: killed at call k; the page cache survives.
#[test]
fn killed_at_every_call() {
    let mut call = 1;
    while let Some((memory, reached)) = life_until(call) {
        memory.kill();
        check(Arc::new(memory), "db", reached, &format!("killed at call {call}"));
        call += 1;
    }
    assert!(call > 30, "the life has only {call} calls");
}

/// J1, J2, J8: power is lost at call k; a random part of what was not synced survives.
#[test]
fn power_lost_at_every_call() {
    let mut call = 1;
    while life_until(call).is_some() {
        for seed in 0..100 {
            let (memory, reached) = life_until(call).unwrap();
            memory.lose_power(seed);
            let story = format!("power lost at call {call}, seed {seed}");
            check(Arc::new(memory), "db", reached, &story);
        }
        call += 1;
    }
}

/// J2: one call fails, the run continues if it can, and then power is lost. What was not synced may survive in part
/// and in any order; the next start cuts it and never treats it as damage.
#[test]
fn power_lost_after_one_failure_is_a_torn_tail_j2() {
    let kinds: [fn(&mut Faults) -> &mut Option<u64>; 3] = [
        |faults| &mut faults.write_error,
        |faults| &mut faults.sync_error,
        |faults| &mut faults.truncate_error,
    ];
    for (kind, fault) in kinds.into_iter().enumerate() {
        for number in 1..=30 {
            for seed in 0..100 {
                let mut faults = Faults::default();
                *fault(&mut faults) = Some(number);
                let story = format!("{faults:?}, seed {seed}");
                let memory = MemoryDisk::new();
                let inner = Arc::new(memory.clone());
                let faulty = Arc::new(FaultyDisk::new(inner, faults, Death::Pretend));
                let mut reached = Reached::default();
                let end = live(faulty, "db", &mut reached);
                assert!(number < 30 || end.is_some(), "kind {kind}: a life has more than 30 calls");
                memory.lose_power(seed);
                check(Arc::new(memory), "db", reached, &story);
            }
        }
    }
}

/// J2: a side file that could not be written at first is written as soon as possible, before the first record.
#[test]
fn a_side_file_that_was_not_written_is_made_up_for_j2() {
    for seed in 0..100 {
        let memory = MemoryDisk::new();
        // The calls before are: remove, create, write, sync and rename the journal, and sync its directory.
        let faults = Faults { read_only_at: Some(7), ..Faults::default() };
        let inner = Arc::new(memory.clone());
        let faulty = Arc::new(FaultyDisk::new(inner, faults, Death::Pretend));
        let mut log = FileLog::create_on(faulty.clone(), "db", b"schema").unwrap();
        assert!(memory.contents(".db.synced").is_none(), "the side file was written");
        faulty.set(Faults::default());
        let mut reached = Reached { created: true, ..Reached::default() };
        (0..3).for_each(|_| add(&mut log, &mut reached, 1).unwrap());
        memory.lose_power(seed);
        check(Arc::new(memory), "db", reached, &format!("seed {seed}"));
    }
}

/// J8: recovery itself is killed, or loses power, at every call of its own.
#[test]
fn recovery_is_killed_too() {
    let mut deaths = 0;
    let mut call = 1;
    while life_until(call).is_some() {
        for seed in 0..10 {
            for again in 1.. {
                let (memory, reached) = life_until(call).unwrap();
                memory.lose_power(seed);
                let faulty = dies_at(Arc::new(memory.clone()), again);
                let opened = replay(faulty.clone(), "db", Mode::ReadWrite).map(drop);
                if !faulty.is_dead() {
                    break;
                }
                drop(opened);
                deaths += 1;
                if again % 2 == 0 {
                    memory.lose_power(seed + again);
                } else {
                    memory.kill();
                }
                let story = format!("call {call}, seed {seed}, recovery at call {again}");
                check(Arc::new(memory), "db", reached, &story);
            }
        }
        call += 1;
    }
    assert!(deaths > 1000, "only {deaths} recoveries were killed");
}

/// J1: what an opening has returned is safe from then on, although the killed process never synced it.
#[test]
fn what_was_read_is_synced() {
    for seed in 0..50 {
        let memory = MemoryDisk::new();
        let mut log = FileLog::create_on(Arc::new(memory.clone()), "db", b"schema").unwrap();
        add(&mut log, &mut Reached::default(), 3).unwrap();
        memory.kill();
        drop(replay(Arc::new(memory.clone()), "db", Mode::ReadWrite).unwrap());
        memory.lose_power(seed);
        let (_, _, bodies) = replay(Arc::new(memory), "db", Mode::ReadWrite).unwrap();
        assert_eq!(list(&bodies), Some(3), "seed {seed}");
    }
}

/// J2, J8: a torn tail is in the journal or in a separate file, whenever power is lost in the meantime.
#[test]
fn a_torn_tail_is_never_lost() {
    let tail = &framed("add 1")[..40];
    for seed in 0..50 {
        for call in 1.. {
            let memory = MemoryDisk::new();
            let mut log = FileLog::create_on(Arc::new(memory.clone()), "db", b"schema").unwrap();
            add(&mut log, &mut Reached::default(), 1).unwrap();
            drop(log);
            memory.damage("db", |bytes| bytes.extend_from_slice(tail));
            let faulty = dies_at(Arc::new(memory.clone()), call);
            let _ = replay(faulty.clone(), "db", Mode::ReadWrite);
            memory.lose_power(seed);
            let names = memory.names();
            let found = names.iter().any(|name| memory.contents(name).unwrap().ends_with(tail));
            assert!(found, "seed {seed}, call {call}: {names:?}");
            if !faulty.is_dead() {
                break;
            }
        }
    }
}

/// J8: killed at every call on the machine's own file system.
#[test]
fn killed_at_every_call_on_a_real_disk() {
    for call in 1.. {
        let place = Place::new("crash");
        let path = place.path("db");
        let faulty = dies_at(Arc::new(RealDisk), call);
        let mut reached = Reached::default();
        live(faulty.clone(), &path, &mut reached);
        if !faulty.is_dead() {
            break;
        }
        check(Arc::new(RealDisk), &path, reached, &format!("killed at call {call}"));
    }
}
