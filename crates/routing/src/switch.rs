//! The choice of a request's backend: the compiled lines of its frontend.
//!
//! Lines that read no counter can be decided before the engine's lock is taken: [`Switch::begin`] finds the first
//! such line that holds, and reports whether an earlier line reads counters, which [`Switch::end`] then evaluates.

use crate::error::{Of, Problem, RoutingError};
use crate::routing::Routing;
use paceline_expr::{Counter, Expr, Input, Kind, Scope, compile};
use paceline_types::{BackendId, Known, Name, Priority};
use std::collections::BTreeMap;

/// The compiled lines of all frontends.
#[derive(Debug, Default)]
pub struct Switch {
    frontends: BTreeMap<Box<str>, Lines>,
}

#[derive(Debug)]
struct Lines {
    lines: Vec<(Expr, BackendId)>,
    default: Option<BackendId>,
    values: Vec<(Box<str>, Expr)>,
}

/// The result of the lines of a frontend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chosen {
    /// The backend, if there is one.
    pub backend: Option<BackendId>,
    /// How many lines failed.
    pub errors: u32,
    /// How many lines, from the first on, may still change the result, because some of them read counters.
    pub open: usize,
}

impl Switch {
    /// Compiles all expressions.
    ///
    /// # Errors
    ///
    /// When one does not compile: which, and the place in it.
    pub fn compile(routing: &Routing, scope: &dyn Scope) -> Result<Self, RoutingError> {
        let mut switch = Self::default();
        for frontend in routing.frontends() {
            let expression = |text: &str, kind, field, entry: Box<str>| {
                compile(text, kind, scope).map_err(|error| RoutingError {
                    of: Of::Frontend(frontend.name.clone()),
                    field,
                    entry: Some(entry),
                    problem: Problem::Expression(error),
                })
            };
            let id = |name: &str| routing.backend(name).map(|backend| backend.id);
            let mut lines = vec![];
            for (line, to) in frontend.use_backend.iter().enumerate() {
                let number = (line + 1).to_string().into();
                let when = expression(&to.when, Kind::Condition, "use_backend", number)?;
                lines.extend(id(&to.backend).map(|backend| (when, backend)));
            }
            let mut values = vec![];
            for (name, text) in &frontend.log_values {
                let value = expression(text, Kind::Key, "log_values", name.clone())?;
                values.push((name.clone(), value));
            }
            let default = frontend.backend.as_deref().and_then(id);
            switch.frontends.insert(frontend.name.clone(), Lines { lines, default, values });
        }
        Ok(switch)
    }

    /// The result of the lines that read no counter; `None` if the frontend does not exist.
    pub fn begin(&self, frontend: &str, input: &impl Input) -> Option<Chosen> {
        if self.frontends.is_empty() {
            return None;
        }
        let lines = self.frontends.get(frontend)?;
        let mut chosen = Chosen { backend: lines.default, errors: 0, open: 0 };
        for (line, (when, backend)) in lines.lines.iter().enumerate() {
            if when.reads_counters() {
                chosen.open = line + 1;
                continue;
            }
            let answer = when.condition(&Unrouted(input));
            chosen.errors += u32::from(answer.is_err());
            if answer == Ok(true) {
                chosen.backend = Some(*backend);
                break;
            }
        }
        Some(chosen)
    }

    /// Evaluates the lines that [`Switch::begin`] left open; the first that holds is chosen.
    pub fn end(&self, frontend: &str, mut chosen: Chosen, input: &impl Input) -> Chosen {
        let lines = self.frontends.get(frontend).map_or(&[][..], |lines| &lines.lines);
        let open = lines.iter().take(std::mem::take(&mut chosen.open));
        for (when, backend) in open.filter(|(when, _)| when.reads_counters()) {
            let answer = when.condition(&Unrouted(input));
            chosen.errors += u32::from(answer.is_err());
            if answer == Ok(true) {
                chosen.backend = Some(*backend);
                break;
            }
        }
        chosen
    }

    /// Whether a frontend logs any values.
    #[must_use]
    pub fn has_values(&self, frontend: &str) -> bool {
        self.frontends.get(frontend).is_some_and(|lines| !lines.values.is_empty())
    }

    /// The values that a frontend logs, by name; `None` for a value that fails.
    pub fn values(&self, frontend: &str, input: &impl Input) -> Vec<(Box<str>, Option<String>)> {
        let values = self.frontends.get(frontend).map_or(&[][..], |lines| &lines.values);
        let value = |expr: &Expr| expr.key(input).ok().map(std::borrow::Cow::into_owned);
        values.iter().map(|(name, expr)| (name.clone(), value(expr))).collect()
    }

    /// Every expression: of lines, and of values.
    pub fn expressions(&self) -> impl Iterator<Item = &Expr> {
        self.frontends.values().flat_map(|frontend| {
            let lines = frontend.lines.iter().map(|(when, _)| when);
            lines.chain(frontend.values.iter().map(|(_, value)| value))
        })
    }
}

/// The input of a request before its backend is known: it has none, whatever its sender says.
#[derive(Debug)]
pub struct Unrouted<'a, I>(pub &'a I);

impl<I: Input> Input for Unrouted<'_, I> {
    fn attribute(&self, name: &Name) -> &str {
        match name {
            Name::Known(Known::Backend | Known::Server) => "",
            _ => self.0.attribute(name),
        }
    }

    fn priority(&self) -> Priority {
        self.0.priority()
    }

    fn counter(&self, counter: Counter, key: Option<&str>) -> f64 {
        self.0.counter(counter, key)
    }
}
