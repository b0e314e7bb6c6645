//! All checkpoints of a configuration, checked and compiled.
//!
//! Owns the lists per place, in the order in which a request walks them. Promises that a set can be used
//! without an error: [`CheckpointSet::compile`] refuses everything else. Never changes once created.

use crate::at::At;
use crate::limit::Limit;
use crate::spec::{CHECKPOINTS_MAX, Field, Problem, Spec, SpecError};
use paceline_expr::{Expr, Kind, Scope, compile};
use paceline_types::{CheckpointId, Known, Name, On};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// The attributes of a connection that are known before its first request.
const OF_CONNECTIONS: [Known; 4] = [Known::Kind, Known::Frontend, Known::Client, Known::Host];

/// One checked checkpoint.
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
    /// The factor of a flow's share.
    pub weight: Option<Expr>,
}

/// All checkpoints of a configuration.
#[derive(Clone, Debug, Default)]
pub struct CheckpointSet {
    by_id: BTreeMap<CheckpointId, Arc<Checked>>,
    lists: BTreeMap<At, Vec<Arc<Checked>>>,
    warnings: Vec<Warning>,
}

/// Something that works, but probably not as intended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// Requests or connections hold a count of `concurrency` while they wait at `rate`, which is later in the
    /// same list.
    ConcurrencyBeforeRate {
        /// The list.
        at: At,
        /// Whether requests or connections pass both.
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
    /// The first error: a setting out of range, a duplicate name or id, an expression that does not compile
    /// or that reads an attribute it may not.
    pub fn compile(specs: Vec<Spec>, scope: &dyn Scope) -> Result<Self, SpecError> {
        Self::compile_with(specs, vec![], scope)
    }

    /// The same with `gates`, checkpoints that are not written in the configuration. A gate gets its limit by
    /// [`Checkpoints::set_limit`](crate::Checkpoints::set_limit), and does not count towards the maximum
    /// number of checkpoints.
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

    /// The checkpoint with this id.
    #[must_use]
    pub fn checkpoint(&self, id: CheckpointId) -> Option<&Arc<Checked>> {
        self.by_id.get(&id)
    }

    /// All checkpoints, by id.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Checked>> {
        self.by_id.values()
    }

    /// What works, but probably not as intended.
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

    /// The expression that reads an attribute that connections do not have, and the attribute.
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

/// The first concurrency checkpoint of a list with a later rate, once. Requests do not wait at the
/// checkpoints of connections, nor connections at those of requests.
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
