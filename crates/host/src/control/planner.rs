//! Edits on their way to the engine: planned before they are committed, used when they are published.
//!
//! A transaction that changed the head is planned while the head is locked, so the next one is planned on top of it. An
//! edit that cannot work is a constraint violation, and the head is restored. When the commit is published, the engine
//! swaps its configuration, which cannot fail.

use super::{Configured, Control, Event};
use crate::access::Access;
use crate::audit::Audit;
use crate::database::{Claims, follow_all, followed, renamed_places};
use crate::kept::{KeptPermit, PermitRow};
use crate::own;
use paceline_claims::{Graph, follow};
use paceline_engine::{Plan, Snapshot};
use paceline_model::{Figures, Model, ModelError, Put};
use paceline_tables::schema::TableId;
use paceline_tables::{Changes, Database, Error, Store, Violation, tag};
use paceline_types::{Claim, RequestId, Role, Uuid};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// Claims that an edit may add to what the holders of permits have. Each takes some 140 bytes of memory, and as
/// many in the record of the edit.
const CLAIMS_ADDED_MAX: usize = 1_000_000;

/// An action to run when a commit is published.
pub(crate) type Consequence = Box<dyn FnOnce() + Send>;

/// A graph of resources, and the graph after an edit.
pub(crate) type Graphs = (Arc<Graph>, Arc<Graph>);

/// The result of planning a transaction.
#[derive(Default)]
pub(crate) struct Planned {
    /// The action to run when it is published.
    pub(crate) consequence: Option<Consequence>,
    /// The resources before and after it, if it changes them.
    pub(crate) graphs: Option<Graphs>,
    /// The checkpoints that it renames: old names and new ones.
    pub(crate) renamed: Renamed,
}

/// Old names and new ones.
pub(crate) type Renamed = BTreeMap<Box<str>, Box<str>>;

/// Plans what the transactions of the database `Paceline` mean to the engine.
pub(crate) struct Planner {
    control: Arc<Control>,
    access: Arc<Access>,
    audit: Arc<Audit>,
    state: Mutex<Plans>,
}

struct Plans {
    model: Model,
    /// The configuration of the last plan, whether or not it is in use yet.
    planned: Arc<Snapshot>,
    /// The graphs of the plans that the engine may not use yet, from one that it has used to the last.
    graphs: Vec<Arc<Graph>>,
    /// The warnings about that configuration.
    warnings: Vec<String>,
}

/// Converts an error of the model to a constraint violation of the database.
pub(crate) fn constraint(error: ModelError) -> Error {
    let details = error.to_string();
    let ModelError { table, row, column, message } = error;
    Error::violation(Violation { table, row, column, message }, details)
}

/// Logs the warnings of a plan that are new, and returns all of them.
fn warn(plan: &Plan, before: &[String]) -> Vec<String> {
    let new = plan.warnings().iter().filter(|warning| !before.contains(warning));
    new.for_each(|warning| tracing::warn!("{warning}"));
    plan.warnings().to_vec()
}

impl Planner {
    /// Creates a planner from the content of `store`, which the engine uses at once.
    ///
    /// # Errors
    ///
    /// When the content is not a valid configuration; the error says where.
    pub fn begin(
        (control, access, audit): (Arc<Control>, Arc<Access>, Arc<Audit>),
        mut model: Model,
        store: &Store,
    ) -> Result<Self, ModelError> {
        let plan = model.plan(&control.snapshot(), store)?;
        let warnings = warn(&plan, &[]);
        control.configure(&plan);
        let planned = control.snapshot();
        let graphs = vec![Arc::clone(planned.graph())];
        let state = Mutex::new(Plans { model, planned, graphs, warnings });
        Ok(Self { control, access, audit, state })
    }

    /// The least role that may make these changes, and the change that requires it.
    pub fn least_role(&self, changes: &Changes) -> (Role, String) {
        self.state().model.least_role(changes)
    }

    /// The refusal of these changes. It names the row that requires a higher role, and the file that the row
    /// names if that is the reason.
    pub fn refusal(&self, changes: &Changes, refused: Error) -> Error {
        let state = self.state();
        let named = state.model.named_file(changes);
        let violation = named.or_else(|| state.model.needed_role(changes)).map(|error| {
            let ModelError { table, row, column, message } = error;
            Box::new(Violation { table, row, column, message })
        });
        Error { violation, ..refused }
    }

    /// Plans the changes of a transaction by `who`. There is no consequence if the changes neither concern the
    /// engine nor give a role.
    ///
    /// # Errors
    ///
    /// When the changed database is not a valid configuration: the changes must be undone.
    pub fn plan(
        &self,
        database: &Database,
        changes: &Arc<Changes>,
        who: &str,
    ) -> Result<Planned, Error> {
        let Plans { model, planned, graphs: known, warnings } = &mut *self.state();
        let (configures, grants) = (model.concerns(changes), model.concerns_grants(changes));
        if !configures && !grants {
            return Ok(Planned::default());
        }
        let grants = model.grant_changes(changes, database.store()).map_err(constraint)?;
        let plan = configures.then(|| model.plan(planned, database.store())).transpose();
        let plan = plan.map_err(constraint)?;
        let (mut graphs, mut renamed) = (None, Renamed::new());
        if let Some(plan) = &plan {
            let names = planned.renamed_checkpoints(plan.snapshot());
            renamed.extend(names.map(|(old, new)| (old.into(), new.into())));
            let (old, new) = (Arc::clone(planned.graph()), Arc::clone(plan.snapshot().graph()));
            if !Arc::ptr_eq(&old, &new) {
                let both = (old, new);
                check_growth(model, database.store(), &both)?;
                known.push(Arc::clone(&both.1));
                forget_used(known, self.control.snapshot().graph());
                graphs = Some(both);
            }
            *planned = Arc::clone(plan.snapshot());
            *warnings = warn(plan, warnings);
        }
        let (control, access) = (Arc::clone(&self.control), Arc::clone(&self.access));
        let audit = Arc::clone(&self.audit);
        let (schema, changes) = (Arc::clone(database.schema()), Arc::clone(changes));
        let who = who.to_owned();
        let consequence: Consequence = Box::new(move || {
            if let Some(plan) = plan {
                control.configure(&plan);
            }
            access.change(grants);
            if Configured::is_told(&schema, &changes) {
                let told = || Arc::new(Configured::new(&who, &schema, &changes));
                control.tell(|| Event::Configured(told()));
            }
            audit.edit(&who, &schema, &changes);
        });
        Ok(Planned { consequence: Some(consequence), graphs, renamed })
    }

    /// The rows of permits that an edit of the resources changes, to be added to the record of the edit.
    pub fn follow(&self, store: &Store, graphs: &Graphs) -> Vec<Put> {
        let Plans { model, graphs: known, .. } = &mut *self.state();
        let puts = followed(model, store, graphs);
        // Last, because a permit may claim a row that has just been deleted.
        model.forget_gone(store, |id| known.iter().any(|graph| graph.name(id).is_some()));
        puts
    }

    /// The rows of permits that name checkpoints which an edit renames, to be added to the record of the edit.
    pub fn rename(&self, store: &Store, renamed: &Renamed) -> Vec<Put> {
        if renamed.is_empty() {
            vec![]
        } else {
            renamed_places(&self.state().model, store, renamed)
        }
    }

    /// The rows of permits as the engine holds them now, with what they claim in the graph planned last; `None`
    /// for a permit that it does not hold.
    pub fn kept_permits(
        &self,
        control: &Control,
        ids: &[RequestId],
    ) -> Vec<(RequestId, Option<PermitRow>)> {
        let Plans { model, graphs, .. } = &*self.state();
        control.kept(ids, |graph, permit, holding| {
            if holding.is_empty() {
                return PermitRow::of(permit, &Claims::default());
            }
            let used = graphs.iter().position(|known| Arc::ptr_eq(known, graph));
            let later = used.and_then(|used| graphs.get(used..)).unwrap_or(graphs);
            let holding = follow_all(later, holding);
            PermitRow::of(permit, &Claims::from_holding(model, later.last(), &holding))
        })
    }

    /// What a restored permit claims, by the names that resources have now.
    pub fn claims_of(&self, permit: &KeptPermit) -> Vec<Claim> {
        let Plans { model, planned, .. } = &*self.state();
        let name = |row: &Uuid| {
            let id = model.resource_of(*row)?;
            planned.graph().name(id).map(Box::from)
        };
        let resources = permit.resources.iter().map(|(row, mode)| {
            // The UUID of an unknown row is a name that no request can claim.
            let resource = name(row).unwrap_or_else(|| row.to_string().into());
            Claim { resource, mode: *mode }
        });
        let names = permit.names.iter();
        let names = names.map(|(name, mode)| Claim { resource: name.clone(), mode: *mode });
        resources.chain(names).collect()
    }

    /// A copy of the plan, to check whether an edit would work without changing this planner.
    pub fn trial(&self) -> Trial {
        let Plans { model, planned, .. } = &*self.state();
        Trial { model: model.clone(), planned: Arc::clone(planned) }
    }

    /// The warnings about the configuration planned last.
    pub fn warnings(&self) -> Vec<String> {
        self.state().warnings.clone()
    }

    /// Whether a table shows figures of the engine.
    pub fn has_figures(&self, table: TableId) -> bool {
        self.state().model.has_figures(table)
    }

    /// How many threads the HTTP door has, if a row says so. An unreadable value was never accepted.
    pub fn http_threads(&self, store: &Store) -> Option<u32> {
        self.state().model.http_threads(store).ok().flatten()
    }

    /// Whether viewers see the whole text of requests.
    pub fn shows_text(&self, store: &Store) -> bool {
        self.state().model.shows_text(store)
    }

    /// The engine's figures now.
    pub fn take_figures(&self) -> Figures {
        self.control.figures()
    }

    /// The rows that do not show these figures, with the figures that they should show.
    pub fn figures(&self, figures: &Figures, store: &Store) -> Vec<Put> {
        self.state().model.figures(figures, store)
    }

    /// Forgets transactions that were undone because they could not be written. The engine never used them.
    pub fn undone(&self) {
        let mut state = self.state();
        state.planned = self.control.snapshot();
        state.graphs = vec![Arc::clone(state.planned.graph())];
    }

    fn state(&self) -> MutexGuard<'_, Plans> {
        crate::sync::lock(&self.state)
    }
}

/// A planner whose plans are never used.
pub(crate) struct Trial {
    model: Model,
    planned: Arc<Snapshot>,
}

impl Trial {
    /// Checks whether the database is a valid configuration after these changes.
    ///
    /// # Errors
    ///
    /// Those of [`Planner::plan`].
    pub fn plan(mut self, database: &Database, changes: &Changes) -> Result<(), Error> {
        self.model.grant_changes(changes, database.store()).map_err(constraint)?;
        if !self.model.concerns(changes) {
            return Ok(());
        }
        let plan = self.model.plan(&self.planned, database.store()).map_err(constraint)?;
        let graphs = (Arc::clone(self.planned.graph()), Arc::clone(plan.snapshot().graph()));
        check_growth(&self.model, database.store(), &graphs)
    }
}

/// Checks that an edit does not give the holders of permits more claims than there is room for (D1). Deleting a
/// resource that is held gives each of its holders a claim for each of its children.
pub(crate) fn check_growth(model: &Model, store: &Store, (old, new): &Graphs) -> Result<(), Error> {
    let schema = model.schema();
    let Some(permits) = schema.table_id(own::PERMIT_TABLE) else { return Ok(()) };
    let nodes = old.len().saturating_add(new.len());
    if Arc::ptr_eq(old, new) || store.row_count(permits).saturating_mul(nodes) <= CLAIMS_ADDED_MAX {
        return Ok(());
    }
    let table = schema.table(permits);
    let growth = |row| {
        let holding = Claims::of(table, row)?.holding(model);
        let is_held = !holding.is_empty();
        is_held.then(|| follow((old, new), &holding).len().saturating_sub(holding.len()))
    };
    let (mut added, mut holders) = (0usize, 0usize);
    for more in store.rows(permits).filter_map(growth).filter(|more| *more > 0) {
        (added, holders) = (added.saturating_add(more), holders + 1);
        if added > CLAIMS_ADDED_MAX {
            let details = format!(
                "{holders} permits or more would gain more than {CLAIMS_ADDED_MAX} claims, because they hold what \
                 is changed; wait until some are given back, or change fewer resources at a time"
            );
            return Err(Error::new(tag::RESOURCES, details));
        }
    }
    Ok(())
}

/// Drops the graphs before the one that the engine uses.
fn forget_used(graphs: &mut Vec<Arc<Graph>>, used: &Arc<Graph>) {
    if let Some(place) = graphs.iter().position(|graph| Arc::ptr_eq(graph, used)) {
        graphs.drain(..place);
    }
}
