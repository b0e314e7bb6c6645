//! All checkpoints of a configuration, checked and compiled.
//!
//! Owns the lists per place, in the order in which a request walks them. Promises that what is in a
//! set can be put to use without an error: [`CheckpointSet::compile`] refuses everything that could
//! not. Never changes once made.

use crate::at::At;
use crate::limit::Limit;
use crate::spec::{CHECKPOINTS_MAX, Field, Problem, Spec, SpecError};
use paceline_expr::{Expr, Kind, Scope, compile};
use paceline_types::{CheckpointId, Known, Name, On};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// What is known of a connection before its first request.
const OF_CONNECTIONS: [Known; 4] = [Known::Kind, Known::Frontend, Known::Client, Known::Host];

/// One checkpoint, checked.
#[derive(Clone, Debug)]
pub struct Checked {
    /// Its settings.
    pub spec: Spec,
    /// The condition under which a request stops here.
    pub when: Option<Expr>,
    /// What distinguishes one counter from another.
    pub key: Option<Expr>,
    /// What distinguishes one flow from another.
    pub fair: Option<Expr>,
    /// What a flow's share is multiplied by.
    pub weight: Option<Expr>,
}

/// All checkpoints of a configuration.
#[derive(Clone, Debug, Default)]
pub struct CheckpointSet {
    by_id: BTreeMap<CheckpointId, Arc<Checked>>,
    lists: BTreeMap<At, Vec<Arc<Checked>>>,
    warnings: Vec<Warning>,
}

/// Something that works, but hardly as it was meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// Requests, or connections, hold a count of `concurrency` while they wait at `rate`, which comes
    /// later in the same list.
    ConcurrencyBeforeRate {
        /// The list.
        at: At,
        /// What passes both.
        on: On,
        /// The name of the first of the two.
        concurrency: Box<str>,
        /// The name of the second.
        rate: Box<str>,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::ConcurrencyBeforeRate { at, on, concurrency, rate } = self;
        let who = match on {
            On::Request => "requests",
            On::Connection => "connections",
        };
        write!(
            f,
            "{at}: {who} hold a count of checkpoint \"{concurrency}\" while they wait at the \
             rate of checkpoint \"{rate}\", which comes later"
        )
    }
}

impl CheckpointSet {
    /// Checks and compiles these checkpoints.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong: a setting out of range, a name or number that occurs twice, an
    /// expression that does not compile or reads what it may not.
    pub fn compile(specs: Vec<Spec>, scope: &dyn Scope) -> Result<Self, SpecError> {
        Self::compile_with(specs, vec![], scope)
    }

    /// The same with some that nobody wrote: `gates` keep their number of places by
    /// [`Checkpoints::set_limit`](crate::Checkpoints::set_limit), and are not among those that there
    /// may be so many of.
    ///
    /// # Errors
    ///
    /// As above, and when a checkpoint has the name of a gate.
    pub fn compile_with(
        specs: Vec<Spec>,
        gates: Vec<Spec>,
        scope: &dyn Scope,
    ) -> Result<Self, SpecError> {
        let mut set = Self::default();
        let mut names: BTreeSet<Box<str>> = BTreeSet::new();
        let mut needed: BTreeMap<Box<str>, At> = BTreeMap::new();
        for gate in gates {
            needed.insert(gate.name.clone(), gate.at.clone());
            let [when, key, fair, weight] = [const { None }; 4];
            set.insert(Checked { spec: gate, when, key, fair, weight });
        }
        let most = CHECKPOINTS_MAX + set.by_id.len();
        for spec in specs {
            let wrong = |field, problem| SpecError { name: spec.name.clone(), field, problem };
            if set.by_id.len() >= most {
                return Err(wrong(Field::Name, Problem::TooMany));
            }
            if set.by_id.contains_key(&spec.id) {
                return Err(wrong(Field::Id, Problem::Duplicate));
            }
            if let Some(At::Backend(backend)) = needed.get(&spec.name) {
                return Err(wrong(Field::Name, Problem::GateName(backend.clone())));
            }
            if !names.insert(spec.name.clone()) {
                return Err(wrong(Field::Name, Problem::Duplicate));
            }
            set.insert(Checked::compile(spec, scope)?);
        }
        for list in set.lists.values_mut() {
            list.sort_by_key(|checked| (checked.spec.number, checked.spec.id));
            let on = [On::Request, On::Connection].into_iter();
            set.warnings.extend(on.filter_map(|on| warning(list, on)));
        }
        Ok(set)
    }

    fn insert(&mut self, checked: Checked) {
        let checked = Arc::new(checked);
        self.by_id.insert(checked.spec.id, Arc::clone(&checked));
        self.lists.entry(checked.spec.at.clone()).or_default().push(checked);
    }

    /// The checkpoints of a place, in the order in which a request walks them.
    #[must_use]
    pub fn list(&self, at: &At) -> &[Arc<Checked>] {
        self.lists.get(at).map_or(&[], Vec::as_slice)
    }

    /// The checkpoint with this number.
    #[must_use]
    pub fn checkpoint(&self, id: CheckpointId) -> Option<&Arc<Checked>> {
        self.by_id.get(&id)
    }

    /// All checkpoints, by number.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Checked>> {
        self.by_id.values()
    }

    /// What works, but hardly as it was meant.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }
}

impl Checked {
    fn compile(spec: Spec, scope: &dyn Scope) -> Result<Self, SpecError> {
        spec.check()?;
        let expression = |text: &Option<String>, field, kind| {
            let Some(text) = text else { return Ok(None) };
            let wrong = |problem| SpecError { name: spec.name.clone(), field, problem };
            let expr = compile(text, kind, scope).map_err(|e| wrong(Problem::Expression(e)))?;
            if field != Field::When && expr.reads_counters() {
                return Err(wrong(Problem::ReadsCounters));
            }
            Ok(Some(expr))
        };
        let checked = Self {
            when: expression(&spec.when, Field::When, Kind::Condition)?,
            key: expression(&spec.key, Field::Key, Kind::Key)?,
            fair: expression(&spec.fair, Field::Fair, Kind::Key)?,
            weight: expression(&spec.weight, Field::Weight, Kind::Weight)?,
            spec,
        };
        match checked.reads_beyond() {
            Some((field, attribute)) => {
                let problem = Problem::NotOfConnection(attribute);
                Err(SpecError { name: checked.spec.name, field, problem })
            }
            None => Ok(checked),
        }
    }

    /// The expression that reads of a connection what no connection has, and the attribute.
    fn reads_beyond(&self) -> Option<(Field, Box<str>)> {
        if self.spec.on == On::Request {
            return None;
        }
        let has =
            |name: &Name| matches!(name, Name::Known(known) if OF_CONNECTIONS.contains(known));
        let beyond = |expr: &Expr| {
            let priority = expr.reads_priority().then_some(&Name::Priority);
            expr.attributes().chain(priority).find(|name| !has(name)).map(ToString::to_string)
        };
        let all = [
            (Field::When, self.when.as_ref()),
            (Field::Key, self.key.as_ref()),
            (Field::Fair, self.fair.as_ref()),
            (Field::Weight, self.weight.as_ref()),
        ];
        all.into_iter().find_map(|(field, expr)| Some((field, beyond(expr?)?.into())))
    }

    /// Whether an expression reads this attribute.
    #[must_use]
    pub fn reads(&self, known: Known) -> bool {
        self.expressions().flat_map(Expr::attributes).any(|name| *name == Name::Known(known))
    }

    /// Every expression.
    pub fn expressions(&self) -> impl Iterator<Item = &Expr> {
        [&self.when, &self.key, &self.fair, &self.weight].into_iter().flatten()
    }
}

/// The first concurrency checkpoint of a list that has a rate behind it, once. Requests and connections
/// do not wait at each other's.
fn warning(list: &[Arc<Checked>], on: On) -> Option<Warning> {
    let mut specs = list.iter().map(|checked| &checked.spec).filter(|spec| spec.on == on);
    let concurrency = specs.find(|spec| matches!(spec.limit, Limit::Concurrency(_)))?;
    let rate = specs.find(|spec| matches!(spec.limit, Limit::Rate { .. }))?;
    Some(Warning::ConcurrencyBeforeRate {
        at: rate.at.clone(),
        on,
        concurrency: concurrency.name.clone(),
        rate: rate.name.clone(),
    })
}

#[cfg(test)]
mod tests;
