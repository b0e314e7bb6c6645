//! The reference model: the same locks as plain vectors, searched from the front. It is short
//! enough to check by eye, and built differently: an owner is the head of its line.

/// A small generator, so that a numbered seed always gives the same history.
pub struct SplitMix(pub u64);

impl SplitMix {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// One line per effect or answer, in words.
pub type Told = Vec<String>;

struct Line {
    name: String,
    /// Sessions, and whether they stole. If `fencing` is set, the first owns the lock.
    line: Vec<(u64, bool)>,
    /// Those in line that were robbed.
    regain: Vec<u64>,
    /// How long each of them had waited in the last run.
    waited: Vec<(u64, u64)>,
    fencing: Option<u64>,
    robbed: Vec<u64>,
}

pub struct Model {
    locks: Vec<Line>,
    pub next: u64,
    pub until: u64,
    entries_max: usize,
}

impl Model {
    pub fn new(names: &[&str], next: u64, until: u64, entries_max: usize) -> Model {
        let line = |name: &&str| Line {
            name: name.to_string(),
            line: vec![],
            regain: vec![],
            waited: vec![],
            fencing: None,
            robbed: vec![],
        };
        Model { locks: names.iter().map(line).collect(), next, until, entries_max }
    }

    /// A session asks for a lock; `waited` is how long it had waited in the last run.
    pub fn ask(&mut self, session: u64, lock: usize, steal: bool, waited: u64) -> Told {
        let held = |lock: &Line| {
            lock.robbed.contains(&session) || lock.line.iter().any(|(id, _)| *id == session)
        };
        if held(&self.locks[lock]) {
            return vec!["must unlock".into()];
        }
        if self.locks.iter().filter(|lock| held(lock)).count() == self.entries_max {
            return vec!["too many".into()];
        }
        let left = self.next < self.until;
        let lock = &mut self.locks[lock];
        if !steal && !lock.line.is_empty() {
            lock.waited.retain(|(id, _)| *id != session);
            lock.waited.push((session, waited));
            let waits_less = |id: u64| {
                let known = lock.waited.iter().find(|(other, _)| *other == id);
                !lock.regain.contains(&id) && known.is_some_and(|(_, other)| *other < waited)
            };
            let first = usize::from(lock.fencing.is_some());
            let at = (first..lock.line.len()).find(|at| waits_less(lock.line[*at].0));
            lock.line.insert(at.unwrap_or(lock.line.len()), (session, false));
            return vec!["locked false".into()];
        }
        if !left {
            return vec!["exhausted".into()];
        }
        let mut told = vec![];
        if let Some((victim, stole)) = lock.line.first().copied()
            && lock.fencing.is_some()
        {
            told.push(format!("{victim} stolen {}", lock.name));
            if stole {
                lock.line.remove(0);
                lock.robbed.push(victim);
            } else {
                lock.regain.push(victim);
            }
        }
        lock.line.insert(0, (session, steal));
        lock.fencing = Some(self.next);
        self.next += 1;
        told.push(if steal { "ok".into() } else { "locked true".into() });
        told
    }

    pub fn unlock(&mut self, session: u64, index: usize) -> Told {
        let lock = &mut self.locks[index];
        if let Some(at) = lock.robbed.iter().position(|id| *id == session) {
            lock.robbed.remove(at);
            return vec!["ok".into()];
        }
        let Some(at) = lock.line.iter().position(|(id, _)| *id == session) else {
            return vec!["not locked".into()];
        };
        lock.line.remove(at);
        lock.regain.retain(|id| *id != session);
        if at == 0 {
            lock.fencing = None;
        }
        let mut told = self.hand_over(index);
        told.push("ok".into());
        told
    }

    pub fn end(&mut self, session: u64) -> Told {
        let mut told = vec![];
        for index in 0..self.locks.len() {
            told.extend(self.unlock(session, index).into_iter().filter(|line| line.len() > 10));
        }
        told
    }

    pub fn extend(&mut self, until: u64) -> Told {
        self.until = until;
        (0..self.locks.len()).flat_map(|index| self.hand_over(index)).collect()
    }

    fn hand_over(&mut self, index: usize) -> Told {
        let lock = &mut self.locks[index];
        if lock.fencing.is_some() || lock.line.is_empty() || self.next == self.until {
            return vec![];
        }
        let first = lock.line[0].0;
        lock.regain.retain(|id| *id != first);
        lock.fencing = Some(self.next);
        self.next += 1;
        vec![format!("{} locked {} #{}", lock.line[0].0, lock.name, self.next - 1)]
    }

    /// Every lock that is not idle: name, owner's number, and the line with its owner in front.
    pub fn view(&self) -> Vec<(String, Option<u64>, Vec<u64>)> {
        let busy = self.locks.iter().filter(|lock| !lock.line.is_empty());
        busy.map(|l| (l.name.clone(), l.fencing, l.line.iter().map(|(id, _)| *id).collect()))
            .collect()
    }
}
