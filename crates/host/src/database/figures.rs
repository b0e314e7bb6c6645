//! Live figures in ephemeral columns: brought up to date when somebody looks, at most once a second.
//!
//! A transaction that names a table with figures, and a monitor of one, make it look; while such a
//! monitor is there, a task looks every second. Nothing is written to the journal.

use super::Hosted;
use super::queue::{Commit, Entry};
use paceline_tables::json::Json;
use paceline_tables::schema::TableId;
use paceline_types::Time;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long figures are good enough.
const FRESH_MS: u64 = 1_000;

impl Hosted {
    /// Brings figures up to date if one of these operations looks at a table that has some.
    pub(super) fn show_figures_to(self: &Arc<Self>, operations: &[Json]) {
        if self.planner.get().is_none() {
            return;
        }
        let schema = self.schema();
        let named = |operation: &Json| {
            let table = operation.as_object()?.get("table")?.as_str()?;
            schema.table_id(table).filter(|table| self.has_figures(*table))
        };
        if operations.iter().any(|operation| named(operation).is_some()) {
            self.show_figures();
        }
    }

    /// Brings figures up to date now and every second, as long as somebody watches these tables.
    pub(super) fn show_figures_while_watched(
        self: &Arc<Self>,
        tables: impl IntoIterator<Item = TableId>,
    ) {
        if !tables.into_iter().any(|table| self.has_figures(table)) {
            return;
        }
        self.show_figures();
        if !self.figures_watched.swap(true, Ordering::AcqRel) {
            let this = Arc::clone(self);
            self.runtime.spawn(async move {
                while this.figures_watched.load(Ordering::Acquire) {
                    tokio::time::sleep(Duration::from_millis(FRESH_MS)).await;
                    this.show_figures();
                    this.flush();
                    let is_watched = this.watchers().watches(|table| this.has_figures(table));
                    this.figures_watched.store(is_watched, Ordering::Release);
                }
            });
        }
    }

    fn show_figures(self: &Arc<Self>) {
        let Some(planner) = self.planner.get() else { return };
        let now = self.clock.now();
        let shown = self.figures_shown.load(Ordering::Acquire);
        if shown > 0 && now < Time(shown).plus_ms(FRESH_MS) {
            return;
        }
        let order = Ordering::AcqRel;
        let taken =
            self.figures_shown.compare_exchange(shown, now.0.max(1), order, Ordering::Acquire);
        if taken.is_err() {
            return;
        }
        let figures = planner.take_figures();
        let mut head = self.head();
        let puts = planner.figures(&figures, head.database.store());
        let schema = head.database.schema().clone();
        match head.database.refresh(puts) {
            Ok(changes) if changes.is_empty() => {}
            Ok(changes) => head.push(Entry::Commit(Commit {
                consequence: None,
                changes: Arc::new(changes),
                schema,
                comment: String::new(),
                durable: false,
                answer: None,
                done: None,
            })),
            Err(error) => tracing::error!(%error, "cannot show figures"),
        }
    }

    fn has_figures(&self, table: TableId) -> bool {
        self.planner.get().is_some_and(|planner| planner.has_figures(table))
    }
}

#[cfg(test)]
mod tests {
    use super::Hosted;
    use crate::control::Admission;
    use crate::{Host, Policy, RealDisk, own};
    use paceline_tables::json;
    use paceline_types::{Attributes, Request};
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    /// Version, running and waiting of the only pool, shown anew.
    fn shown(own: &Arc<Hosted>) -> (String, i64, i64) {
        own.figures_shown.store(0, Ordering::Release);
        own.show_figures();
        own.flush_blocking();
        let head = own.head();
        let schema = head.database.schema();
        let table = schema.table_id("Pool").unwrap();
        let row = head.database.store().rows(table).next().unwrap();
        let value = |name: &str| {
            let column = schema.table(table).column_id(name).unwrap();
            row[column.index()].single().unwrap().clone()
        };
        let number = |name: &str| value(name).as_integer().unwrap();
        (value("_version").to_text(), number("running"), number("waiting"))
    }

    #[test]
    fn figures_are_those_of_the_engine_and_leave_the_version_alone() {
        let directory =
            std::env::temp_dir().join(format!("paceline-figures-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir(&directory).unwrap();
        let builder = &mut tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().build().unwrap();
        let host =
            Host::new(runtime.handle().clone(), Arc::new(RealDisk), Policy::default()).unwrap();
        host.open_own(&directory.join("paceline.db")).unwrap();
        let own = host.database(own::DATABASE).unwrap();
        let insert = br#"[{"op": "insert", "table": "Pool",
            "row": {"name": "default", "threads_max": 1}}]"#;
        let operations = json::parse(insert, 128).unwrap();
        let author = crate::Author { name: "a test", role: paceline_types::Role::Admin };
        own.edit(author, |_| operations.as_array().unwrap().to_vec()).unwrap();
        let (version, running, waiting) = shown(&own);
        assert_eq!((running, waiting), (0, 0));

        let admit = || host.control().admit(Request::new(Attributes::new())).unwrap();
        let Admission::Started(permit) = admit() else { panic!("not started") };
        let Admission::Waiting(next) = admit() else { panic!("not waiting") };
        assert_eq!(shown(&own), (version.clone(), 1, 1));
        drop(next);
        drop(permit);
        assert_eq!(shown(&own), (version, 0, 0));
        host.shut_down();
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
