//! Random histories against the naive model, checked after every operation.

use crate::model::{IDS, Model, NAMES, Request, Stage, name};
use crate::random::Random;
use paceline_claims::{Blocked, Claims, Event, Graph, WantedClaims};
use paceline_types::{Claim, Mode, Priority, Rank, RequestId, SessionId, Span, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

type Resources = BTreeMap<u64, (String, BTreeSet<u64>)>;

/// Edits that may wait to be applied.
const EDITS_MAX: usize = 8;

type Prepared = (Vec<(String, Option<u64>, Mode)>, WantedClaims);

struct History {
    seed: u64,
    random: Random,
    claims: Claims,
    model: Model,
    /// Waiters that may be tried at any time; the others were found blocked.
    free: BTreeSet<u64>,
    /// Claims resolved some time ago, perhaps against an older graph.
    prepared: Vec<Prepared>,
    old_graph: Option<Arc<Graph>>,
    next_id: u64,
    next_resource: u64,
    granted: u64,
    is_hasty: bool,
}

/// Whether each kind of event happened over all seeds.
#[derive(Default)]
struct Tally {
    granted: u64,
    busy: u64,
    made: usize,
    aside: usize,
    own_way: u64,
    tangles: u64,
}

impl History {
    /// A `hasty` caller leaves work undone between operations.
    fn new(seed: u64, is_hasty: bool) -> Self {
        let mut history = Self {
            seed,
            random: Random::new(seed),
            claims: Claims::new(),
            model: Model::default(),
            free: BTreeSet::new(),
            prepared: vec![],
            old_graph: None,
            next_id: 1,
            next_resource: 1,
            granted: 0,
            is_hasty,
        };
        for _ in 0..history.random.below(12) {
            history.add_resource();
        }
        let resources = std::mem::take(&mut history.model.resources);
        history.model.edit(resources);
        history.configure();
        history
    }

    fn play(&mut self, tally: &mut Tally) {
        for _ in 0..120 {
            match self.random.below(100) {
                0..30 => self.prepare(),
                30..55 => self.submit(tally),
                55..65 => self.set_eligible(),
                65..75 => self.take(tally),
                75..90 => self.remove(),
                90..94 => self.create(),
                _ => self.edit(),
            }
            let stats = self.claims.stats();
            tally.made = tally.made.max(stats.made);
            tally.aside = tally.aside.max(stats.aside);
            self.work();
            self.check();
            self.untangle(tally);
        }
        self.finish();
        tally.granted += self.granted;
    }

    fn prepare(&mut self) {
        let count = 1 + self.random.below(3);
        let mode = |random: &mut Random| {
            if random.chance(40) { Mode::Shared } else { Mode::Exclusive }
        };
        let mut claims: Vec<_> =
            (0..count).map(|_| (name(self.random.below(NAMES)), mode(&mut self.random))).collect();
        // Most claims are on resources that exist.
        let known: Vec<_> = self.model.resources.values().map(|(name, _)| name.clone()).collect();
        for (name, _) in &mut claims {
            if self.random.chance(85)
                && let Some(known) = self.random.pick(&known)
            {
                name.clone_from(known);
            }
        }
        let list: Vec<_> = claims
            .iter()
            .map(|(name, mode)| Claim { resource: name.as_str().into(), mode: *mode })
            .collect();
        let wanted = self.claims.graph().resolve(&list).unwrap();
        let with_id = |(name, mode): (String, Mode)| {
            let id = self.model.find(&name);
            (name, id, mode)
        };
        let claims = claims.into_iter().map(with_id).collect();
        self.prepared.push((claims, wanted));
    }

    fn submit(&mut self, tally: &mut Tally) {
        if self.prepared.is_empty() {
            self.prepare();
        }
        let index = self.random.below(self.prepared.len() as u64) as usize;
        let (names, mut wanted) = self.prepared.swap_remove(index);
        let id = self.next_id;
        self.next_id += 1;
        let priority = Priority::new(self.random.below(7) as i64 - 3).unwrap();
        let rank = Rank::new(Time(id), priority, Span(5), RequestId(id));
        let session = self.random.chance(70).then(|| self.random.below(4));
        let session_id = session.map(SessionId);
        let count = self.random.below(4).saturating_sub(1);
        let within: Vec<u64> = (0..count).map(|_| self.random.below(4)).collect();
        let within_ids: Vec<SessionId> = within.iter().copied().map(SessionId).collect();
        self.claims.note_submitted(RequestId(id));
        if self.random.chance(50) {
            let claim =
                |(name, _, mode): &_| Claim { resource: String::as_str(name).into(), mode: *mode };
            let list: Vec<_> = names.iter().map(claim).collect();
            wanted = self.claims.wake(&wanted.rest(), &list);
        }
        self.claims.refresh(&mut wanted);
        let roots = self.model.resolve_again(&names);
        let names: Vec<_> = names
            .into_iter()
            .map(|(name, id, mode)| (self.model.name_now(id).unwrap_or(name), mode))
            .collect();
        let unknown = roots.keys().filter(|node| **node >= IDS).count();
        assert_eq!(wanted.unknown().len(), unknown, "seed {}", self.seed);
        let is_eligible = false;
        let mut request = Request {
            rank,
            session,
            within,
            last_at_start: id,
            stage: Stage::Waiting,
            is_eligible,
            is_told_known: true,
            roots,
        };
        if unknown > 0 && self.random.chance(50) {
            assert!(self.claims.add_aside(RequestId(id), rank, session_id, wanted));
            self.claims.set_within(RequestId(id), &within_ids, &[]);
            let mut all = BTreeMap::new();
            for (name, mode) in names {
                let entry = all.entry(name).or_insert(mode);
                *entry = mode.min(*entry);
            }
            request.stage = Stage::Aside(all);
            request.roots.clear();
            request.is_told_known = false;
            self.model.requests.insert(id, request);
            return;
        }
        let checked = self.claims.check(&mut wanted, rank);
        self.expect(checked, &request);
        if let (Some(session), false) = (session, self.claims.is_busy()) {
            let own = self.claims.own_way(&wanted, rank, SessionId(session), &[]);
            let expected = self.model.is_in_own_way(&request.roots, rank, session);
            assert_eq!(own.is_some(), expected, "seed {} {own:?}", self.seed);
            if let Some((resource, holder)) = own {
                tally.own_way += 1;
                assert!(names.iter().any(|(name, _)| **name == *resource), "{resource}");
                assert_eq!(self.model.requests[&holder.0].session, Some(session));
            }
        }
        if checked.is_ok() && self.random.chance(70) {
            self.claims.take_at_once(RequestId(id), rank, session_id, wanted);
            request.stage = Stage::Held;
            self.granted += 1;
        } else {
            self.claims.add(RequestId(id), rank, session_id, wanted);
            self.claims.set_within(RequestId(id), &within_ids, &[]);
            self.free.insert(id);
        }
        self.model.requests.insert(id, request);
        if self.random.chance(70) {
            self.eligible(id, true);
        }
    }

    /// C1, C2, C3: exactly those claims can be taken that nothing blocks.
    fn expect(&self, result: Result<(), Blocked>, request: &Request) {
        let blockers = self.model.blockers(&request.roots, request.rank);
        match result {
            Ok(()) => assert!(blockers.is_empty(), "seed {}: {blockers:?}", self.seed),
            Err(Blocked::By { id, is_held }) => {
                assert!(blockers.contains(&(id.0, is_held)), "seed {}: {blockers:?}", self.seed);
            }
            Err(Blocked::Busy) => assert!(self.claims.is_busy(), "seed {}", self.seed),
            Err(other @ (Blocked::NotWaiting | Blocked::TooWide)) => {
                panic!("seed {}: {other:?}", self.seed)
            }
        }
        assert_eq!(self.claims.is_busy(), result == Err(Blocked::Busy), "seed {}", self.seed);
    }

    fn eligible(&mut self, id: u64, is_eligible: bool) {
        self.claims.set_eligible(RequestId(id), is_eligible);
        let request = self.model.requests.get_mut(&id).unwrap();
        if request.stage != Stage::Held {
            request.is_eligible = is_eligible;
        }
    }

    /// A request in this stage, if there is one. The engine acts on the events it received.
    fn pick(&mut self, wanted: impl Fn(&Request) -> bool) -> Option<u64> {
        let ids: Vec<_> =
            self.model.requests.iter().filter(|(_, r)| wanted(r)).map(|(id, _)| *id).collect();
        self.random.pick(&ids).copied()
    }

    fn set_eligible(&mut self) {
        if let Some(id) = self.pick(|request| request.is_told_known) {
            let is_eligible = self.random.chance(60);
            self.eligible(id, is_eligible);
        }
    }

    fn take(&mut self, tally: &mut Tally) {
        let Some(id) = self.pick(|request| request.stage != Stage::Held) else { return };
        // While an edit is being applied, the stages of the two may differ for a moment.
        let request = self.model.requests[&id].clone();
        let result = self.claims.take(RequestId(id));
        if self.claims.is_busy() {
            assert!(matches!(result, Err(Blocked::Busy | Blocked::NotWaiting)), "{result:?}");
            self.free.remove(&id);
            tally.busy += 1;
        } else if request.stage == Stage::Waiting {
            self.expect(result, &request);
            self.free.remove(&id);
            if result.is_ok() {
                let request = self.model.requests.get_mut(&id).unwrap();
                request.stage = Stage::Held;
                request.is_eligible = false;
                request.last_at_start = self.next_id - 1;
                self.granted += 1;
            }
        } else {
            assert_eq!(result, Err(Blocked::NotWaiting), "seed {}", self.seed);
        }
    }

    fn remove(&mut self) {
        if let Some(id) = self.pick(|_| true) {
            assert!(self.claims.remove(RequestId(id)), "seed {}", self.seed);
            self.model.requests.remove(&id);
            self.free.remove(&id);
        }
    }

    fn create(&mut self) {
        let is_aside = |request: &Request| matches!(request.stage, Stage::Aside(_));
        let Some(id) = self.pick(is_aside) else { return };
        if self.claims.is_busy() {
            return;
        }
        assert!(self.claims.create(RequestId(id)), "seed {}", self.seed);
        let Stage::Aside(names) = &self.model.requests[&id].stage else { unreachable!() };
        let names: Vec<_> = names.iter().map(|(name, mode)| (name.clone(), *mode)).collect();
        let roots = self.model.resolve(&names);
        let request = self.model.requests.get_mut(&id).unwrap();
        request.roots = roots;
        request.stage = Stage::Waiting;
        request.is_told_known = true;
        self.free.insert(id);
    }

    fn add_resource(&mut self) {
        let names: Vec<_> =
            (0..NAMES).map(name).filter(|name| self.model.find(name).is_none()).collect();
        let Some(name) = self.random.pick(&names).cloned() else { return };
        if self.next_resource >= IDS {
            return;
        }
        let ids: Vec<u64> = self.model.resources.keys().copied().collect();
        let count = self.random.below(4).saturating_sub(self.random.below(2));
        let mut parents = (0..count).filter_map(|_| self.random.pick(&ids).copied()).collect();
        // Resources with the same parents are common.
        if self.random.chance(30)
            && let Some(twin) = self.random.pick(&ids)
        {
            parents = self.model.resources[twin].1.clone();
        }
        self.model.resources.insert(self.next_resource, (name, parents));
        self.next_resource += 1;
    }

    /// Several random changes at once, applied as one edit.
    fn edit(&mut self) {
        if self.random.chance(5) {
            return self.flood();
        }
        if self.claims.stats().edits == EDITS_MAX {
            self.work_in();
        }
        if let Some(after) = self.changed() {
            self.model.edit(after);
            self.configure();
        }
    }

    /// More edits in a row than may wait: the newest waiting one is merged and never applied by itself.
    fn flood(&mut self) {
        self.work_in();
        let mut before_newest = self.model.clone();
        for _ in 0..EDITS_MAX + 4 {
            let Some(after) = self.changed() else { continue };
            if self.claims.stats().edits < EDITS_MAX {
                before_newest = self.model.clone();
            } else {
                self.model = before_newest.clone();
            }
            self.model.edit(after);
            self.configure();
        }
    }

    fn work_in(&mut self) {
        while self.claims.is_busy() {
            assert!(self.claims.step(1) > 0, "seed {}", self.seed);
        }
    }

    /// The resources after several random changes at once. A cycle must be refused.
    fn changed(&mut self) -> Option<Resources> {
        let before = self.model.resources.clone();
        for _ in 0..1 + self.random.below(3) {
            self.change();
        }
        let after = std::mem::replace(&mut self.model.resources, before);
        let probe = Model { resources: after.clone(), ..Model::default() };
        let up = |(id, (_, parents)): (&u64, &(String, BTreeSet<u64>))| {
            parents.iter().any(|parent| probe.below(*id) >> parent & 1 == 1)
        };
        let has_cycle = after.iter().any(up);
        let built = Graph::build(Some(self.claims.graph()), probe.list());
        assert_eq!(built.is_err(), has_cycle, "seed {}: {built:?}", self.seed);
        (!has_cycle).then_some(after)
    }

    fn change(&mut self) {
        let ids: Vec<u64> = self.model.resources.keys().copied().collect();
        let (Some(one), Some(two)) =
            (self.random.pick(&ids).copied(), self.random.pick(&ids).copied())
        else {
            return self.add_resource();
        };
        let kind = self.random.below(12);
        let resources = &mut self.model.resources;
        match kind {
            0..3 => self.add_resource(),
            3..5 => self.delete(one),
            5 => {
                // Deleted and created again: the same name, another number, elsewhere in the graph.
                let (name, _) = resources[&one].clone();
                self.delete(one);
                if self.next_resource < IDS {
                    let parents = [two].into_iter().filter(|two| *two != one).collect();
                    self.model.resources.insert(self.next_resource, (name, parents));
                    self.next_resource += 1;
                }
            }
            6..8 => {
                resources.get_mut(&one).unwrap().1.insert(two);
            }
            8..10 => {
                let parents = &mut resources.get_mut(&one).unwrap().1;
                let list: Vec<_> = parents.iter().copied().collect();
                if let Some(parent) = self.random.pick(&list) {
                    parents.remove(parent);
                }
            }
            10 => {
                let free: Vec<_> =
                    (0..NAMES).map(name).filter(|name| self.model.find(name).is_none()).collect();
                if let Some(name) = self.random.pick(&free).cloned() {
                    self.model.resources.get_mut(&one).unwrap().0 = name;
                }
            }
            _ => {
                let (first, second) = (resources[&one].0.clone(), resources[&two].0.clone());
                resources.get_mut(&one).unwrap().0 = second;
                resources.get_mut(&two).unwrap().0 = first;
            }
        }
    }

    fn delete(&mut self, id: u64) {
        self.model.resources.remove(&id);
        for (_, parents) in self.model.resources.values_mut() {
            parents.remove(&id);
        }
    }

    /// Builds the model's graph, mostly as the next after the one in use, and swaps it in.
    fn configure(&mut self) {
        let current = Arc::clone(self.claims.graph());
        let previous = match self.random.below(10) {
            0 => None,
            1 => self.old_graph.as_ref(),
            _ => Some(&current),
        };
        let graph = Graph::build(previous, self.model.list()).unwrap();
        self.claims.configure(Arc::new(graph));
        self.old_graph = Some(current);
    }

    fn work(&mut self) {
        if self.is_hasty {
            if self.random.chance(60) {
                self.claims.step(self.random.below(3) as usize);
            }
            for _ in 0..self.random.below(4) {
                if let Some(event) = self.claims.poll() {
                    self.hear(event);
                }
            }
            return;
        }
        while self.claims.has_work() {
            let used = self.claims.step(4);
            match self.claims.poll() {
                Some(event) => self.hear(event),
                None => assert!(used > 0 || !self.claims.has_work(), "seed {}", self.seed),
            }
        }
    }

    fn hear(&mut self, event: Event) {
        let (Event::Unblocked(id) | Event::Known(id) | Event::Unknown(id) | Event::TooWide(id)) =
            event;
        let request = self.model.requests.get_mut(&id.0).expect("it is there");
        match event {
            Event::Unblocked(_) => {
                self.free.insert(id.0);
            }
            Event::Known(_) => {
                assert!(!request.is_told_known, "seed {}", self.seed);
                request.is_told_known = true;
                self.free.insert(id.0);
            }
            Event::Unknown(_) => {
                assert!(request.is_told_known, "seed {}", self.seed);
                request.is_told_known = false;
                request.is_eligible = false;
                self.free.remove(&id.0);
            }
            Event::TooWide(_) => panic!("seed {}: request {id} is not wide", self.seed),
        }
    }

    /// Circles are found by checking only the waiters that may have closed them.
    fn untangle(&mut self, tally: &mut Tally) {
        if self.claims.has_work() {
            return;
        }
        while self.claims.has_looks() {
            if self.claims.look().is_some() {
                continue;
            }
            for tangled in self.claims.tangles() {
                let last = self.claims.last_of_tangle(tangled).map(|id| id.0);
                assert_eq!(last, self.model.last_of_tangle(tangled.0), "seed {}", self.seed);
                let last = last.expect("nothing has happened since");
                assert!(self.claims.remove(RequestId(last)), "seed {}", self.seed);
                self.model.requests.remove(&last);
                self.free.remove(&last);
                tally.tangles += 1;
            }
            self.work();
            if self.claims.has_work() {
                return;
            }
        }
        for id in self.model.requests.keys().filter(|id| self.model.is_nested(**id)) {
            assert!(!self.model.reached(*id).contains(id), "seed {}: {id} is tangled", self.seed);
        }
    }

    /// The invariants whenever there is no work left.
    fn check(&self) {
        if self.claims.has_work() {
            return;
        }
        let seed = self.seed;
        let mut counts = (0, 0, 0);
        for (id, request) in &self.model.requests {
            let found = self.claims.blockers(RequestId(*id), 1_000).nearest.into_iter();
            let found: BTreeSet<_> = found.map(|other| (other.id.0, other.is_held)).collect();
            match request.stage {
                Stage::Waiting => {
                    let blockers = self.model.blockers(&request.roots, request.rank);
                    assert_eq!(found, blockers, "seed {seed}: request {id}");
                    let is_idle = blockers.is_empty() && !self.free.contains(id);
                    assert!(!is_idle, "seed {seed}: nobody told request {id} to try again");
                    assert!(request.is_told_known, "seed {seed}: request {id}");
                    counts.0 += 1;
                }
                Stage::Held => counts.1 += 1,
                Stage::Aside(_) => {
                    assert!(self.claims.missing(RequestId(*id)).is_some(), "seed {seed}: {id}");
                    assert!(!request.is_told_known, "seed {seed}: request {id}");
                    counts.2 += 1;
                }
            }
        }
        let stats = self.claims.stats();
        assert_eq!((stats.waiting, stats.holding, stats.aside), counts, "seed {seed}");
        for node in 0..IDS + NAMES {
            self.check_view(node);
        }
    }

    fn check_view(&self, node: u64) {
        let resource = match self.model.resources.get(&node) {
            Some((name, _)) => name.clone(),
            None if node >= IDS && self.model.find(&name(node - IDS)).is_none() => name(node - IDS),
            None => return,
        };
        let at = |stage: Stage| {
            let requests = self.model.requests.values().filter(move |r| r.stage == stage);
            requests.filter(|request| request.roots.contains_key(&node)).count()
        };
        let view = self.claims.view(&resource);
        let (holding, waiting) = view.map_or((0, 0), |view| (view.holding, view.waiting));
        assert_eq!(waiting, at(Stage::Waiting), "seed {}: {resource}", self.seed);
        // The model counts every node of a sub-tree that a holder once had.
        assert!(holding <= at(Stage::Held), "seed {}: {resource}", self.seed);
    }

    /// When all requests are removed, nothing is left behind.
    fn finish(&mut self) {
        self.is_hasty = false;
        self.work();
        self.check();
        let ids: Vec<_> = self.model.requests.keys().copied().collect();
        for id in ids {
            assert!(self.claims.remove(RequestId(id)));
        }
        self.model.requests.clear();
        self.free.clear();
        self.work();
        let stats = self.claims.stats();
        assert_eq!(stats, paceline_claims::Stats::default(), "seed {}", self.seed);
    }
}

fn play(seeds: std::ops::Range<u64>, is_hasty: bool) -> Tally {
    let mut tally = Tally::default();
    for seed in seeds {
        History::new(seed, is_hasty).play(&mut tally);
    }
    assert!(tally.granted > 1_000 && tally.made > 0 && tally.aside > 0 && tally.own_way > 0);
    assert!(tally.tangles > 100, "{} tangles", tally.tangles);
    tally
}

/// C1, C2, C3.
#[test]
fn claims_equal_the_model() {
    play(0..3_000, false);
}

/// C1, C2, C3 with work left undone between operations, and edits on top of edits.
#[test]
fn claims_equal_the_model_in_small_steps() {
    let tally = play(100_000..103_000, true);
    assert!(tally.busy > 0, "edits were under way when claims were tried");
}
