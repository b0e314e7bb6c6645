//! Edits on their way to the engine: planned before they are committed, used when they are published.
//!
//! A transaction that changed the head is planned while the head is locked, so that the next one is
//! planned behind it; what cannot work is a constraint violation, and the head is put back. When the
//! commit is published, the engine swaps its configuration, which cannot fail.

use super::{Configured, Control, Event};
use crate::access::Access;
use crate::audit::Audit;
use paceline_engine::{Plan, Snapshot};
use paceline_model::{Figures, Model, ModelError, Put};
use paceline_tables::schema::TableId;
use paceline_tables::{Changes, Database, Error, Store, Violation};
use paceline_types::Role;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is to be done when a commit is published.
pub(crate) type Consequence = Box<dyn FnOnce() + Send>;

/// Plans what the transactions of the database `Paceline` mean to the engine.
pub(crate) struct Planner {
    control: Arc<Control>,
    access: Arc<Access>,
    audit: Arc<Audit>,
    state: Mutex<State>,
}

struct State {
    model: Model,
    /// The configuration behind the last plan, whether it is in use yet or not.
    planned: Arc<Snapshot>,
    /// What is doubtful about it.
    warnings: Vec<String>,
}

/// An error of the model in the words of the database.
pub(crate) fn constraint(error: ModelError) -> Error {
    let details = error.to_string();
    let ModelError { table, row, column, message } = error;
    Error::violation(Violation { table, row, column, message }, details)
}

/// Tells in the log what is doubtful about a plan, and gives it.
fn warn(plan: &Plan) -> Vec<String> {
    plan.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
    plan.warnings().to_vec()
}

impl Planner {
    /// A planner that begins with what `store` says, which the engine uses at once.
    ///
    /// # Errors
    ///
    /// When that cannot work; the error says where.
    pub fn begin(
        (control, access, audit): (Arc<Control>, Arc<Access>, Arc<Audit>),
        mut model: Model,
        store: &Store,
    ) -> Result<Self, ModelError> {
        let plan = model.plan(&control.snapshot(), store)?;
        let warnings = warn(&plan);
        control.configure(&plan);
        let planned = control.snapshot();
        let state = Mutex::new(State { model, planned, warnings });
        Ok(Self { control, access, audit, state })
    }

    /// The least role that may make these changes, and the change that needs it.
    pub fn least_role(&self, changes: &Changes) -> (Role, String) {
        self.state().model.least_role(changes)
    }

    /// A refusal of these changes, with the place of a file that they name if that is why.
    pub fn refusal(&self, changes: &Changes, refused: Error) -> Error {
        let violation = self.state().model.named_file(changes).map(|error| {
            let ModelError { table, row, column, message } = error;
            Box::new(Violation { table, row, column, message })
        });
        Error { violation, ..refused }
    }

    /// Plans what a transaction of `who` changed; none if that is nothing to the engine and gives
    /// nobody a role.
    ///
    /// # Errors
    ///
    /// When what the database says now cannot work: the changes must be undone.
    pub fn plan(
        &self,
        database: &Database,
        changes: &Arc<Changes>,
        who: &str,
    ) -> Result<Option<Consequence>, Error> {
        let State { model, planned, warnings } = &mut *self.state();
        let (configures, grants) = (model.concerns(changes), model.concerns_grants(changes));
        if !configures && !grants {
            return Ok(None);
        }
        let grants = model.grant_changes(changes).map_err(constraint)?;
        let plan = configures.then(|| model.plan(planned, database.store())).transpose();
        let plan = plan.map_err(constraint)?;
        if let Some(plan) = &plan {
            *planned = Arc::clone(plan.snapshot());
            *warnings = warn(plan);
        }
        let (control, access) = (Arc::clone(&self.control), Arc::clone(&self.access));
        let audit = Arc::clone(&self.audit);
        let (schema, changes) = (Arc::clone(database.schema()), Arc::clone(changes));
        let who = who.to_owned();
        Ok(Some(Box::new(move || {
            if let Some(plan) = plan {
                control.configure(&plan);
            }
            access.change(grants);
            if Configured::is_told(&schema, &changes) {
                let told = || Arc::new(Configured::new(&who, &schema, &changes));
                control.tell(|| Event::Configured(told()));
            }
            audit.edit(&who, &schema, &changes);
        })))
    }

    /// Plans what a transaction changed, without remembering it: the changes must be undone.
    ///
    /// # Errors
    ///
    /// Those of [`Planner::plan`].
    pub fn try_plan(&self, database: &Database, changes: &Changes) -> Result<(), Error> {
        let State { model, planned, .. } = &*self.state();
        model.grant_changes(changes).map_err(constraint)?;
        if !model.concerns(changes) {
            return Ok(());
        }
        let mut model = model.clone();
        model.plan(planned, database.store()).map(drop).map_err(constraint)
    }

    /// What is doubtful about the configuration planned last.
    pub fn warnings(&self) -> Vec<String> {
        self.state().warnings.clone()
    }

    /// Whether a table shows figures of the engine.
    pub fn has_figures(&self, table: TableId) -> bool {
        self.state().model.has_figures(table)
    }

    /// How many threads the HTTP door has, if a row says it. What cannot be read was never written.
    pub fn http_threads(&self, store: &Store) -> Option<u32> {
        self.state().model.http_threads(store).ok().flatten()
    }

    /// The engine's figures now.
    pub fn take_figures(&self) -> Figures {
        self.control.figures()
    }

    /// The rows that do not show these figures, with those that they should show.
    pub fn figures(&self, figures: &Figures, store: &Store) -> Vec<Put> {
        self.state().model.figures(figures, store)
    }

    /// Transactions were undone because they could not be written: the engine never heard of them.
    pub fn undone(&self) {
        self.state().planned = self.control.snapshot();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
