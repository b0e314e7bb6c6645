//! Live figures in ephemeral columns: brought up to date when a client reads or monitors them.
//!
//! A transaction that selects from a table with figures reads them as they are at that moment, so that two
//! answers agree. Other operations and monitors update them at most once a second. While a client monitors
//! figures, a task updates them every second. Nothing is written to the journal.

use super::Hosted;
use super::queue::Commit;
use super::watchers::Watchers;
use paceline_tables::schema::TableId;
use paceline_tables::{Operations, Transaction};
use paceline_types::{Span, Time};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How long figures count as up to date.
const FRESH_MS: u64 = 1_000;

impl Hosted {
    /// Updates the figures if one of these operations reads a table that has some.
    pub(super) fn show_figures_to(self: &Arc<Self>, operations: &Transaction) {
        if self.planner.get().is_none() {
            return;
        }
        let schema = self.schema();
        let has_figures =
            |table: &str| schema.table_id(table).is_some_and(|table| self.has_figures(table));
        let operations = Operations::from(operations);
        if operations.selected_tables().any(has_figures) {
            self.show_figures_now();
        } else if operations.tables().any(has_figures) {
            self.show_figures();
        }
    }

    /// Updates the figures for a client that is about to watch these tables.
    pub(super) fn show_figures_of(self: &Arc<Self>, tables: impl IntoIterator<Item = TableId>) {
        if tables.into_iter().any(|table| self.has_figures(table)) {
            self.show_figures();
        }
    }

    /// Updates the figures every second while a client monitors some. To be called when a monitor was added,
    /// with the watchers still locked; the decision to stop is made under the same lock.
    pub(super) fn follow_figures(self: &Arc<Self>, watchers: &Watchers) {
        if self.planner.get().is_none()
            || self.figures_followed.load(Ordering::Acquire)
            || !watchers.watches(&self.schema(), |table| self.has_figures(table))
        {
            return;
        }
        self.figures_followed.store(true, Ordering::Release);
        let this = Arc::clone(self);
        self.tasks.spawn(async move {
            while this.goes_on_following() {
                this.clock.sleep(Span::from_ms(FRESH_MS)).await;
                this.show_figures();
                this.flush();
            }
        });
    }

    /// Whether a client still monitors figures. If not, the next monitor of figures starts the updates again.
    fn goes_on_following(&self) -> bool {
        self.with_watchers(|watchers| {
            let is_watched = watchers.watches(&self.schema(), |table| self.has_figures(table));
            self.figures_followed.store(is_watched, Ordering::Release);
            is_watched
        })
    }

    fn show_figures(self: &Arc<Self>) {
        let now = self.clock.now();
        let shown = self.figures_shown.load(Ordering::Acquire);
        if shown > 0 && now < Time(shown).plus_ms(FRESH_MS) {
            return;
        }
        let order = Ordering::AcqRel;
        let taken =
            self.figures_shown.compare_exchange(shown, now.0.max(1), order, Ordering::Acquire);
        if taken.is_ok() {
            self.show_figures_now();
        }
    }

    fn show_figures_now(self: &Arc<Self>) {
        let Some(planner) = self.planner.get() else { return };
        self.figures_shown.store(self.clock.now().0.max(1), Ordering::Release);
        let figures = planner.take_figures();
        let mut head = self.head();
        let puts = planner.figures(&figures, head.database.store());
        let schema = head.database.schema().clone();
        match head.database.refresh(puts) {
            Ok(changes) if changes.is_empty() => {}
            // A transaction that waits for a figure is tried again when its row changes otherwise, or when it
            // times out.
            Ok(changes) => drop(self.submit(&mut head, Commit::own(Arc::new(changes), schema))),
            Err(error) => tracing::error!(%error, "cannot update the live figures"),
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
    use crate::{Host, Policy, RealDisk, Ticket, WatchRequest, own};
    use paceline_tables::json;
    use paceline_tables::monitor::Version;
    use paceline_types::{Attributes, Request, Role};
    use std::path::PathBuf;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;
    use tokio::runtime::Runtime;

    /// Version, running and waiting of the only pool, after an update.
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

    /// A monitor that is still in the queue when the task checks for the last time is followed all the same:
    /// the updates start again when the monitor is added.
    #[test]
    fn a_monitor_that_comes_while_the_task_ends_is_followed() {
        let (runtime, host, own, directory) = world("follow");
        let session = host.begin_session(Some(Role::Viewer), |id| format!("test#{}", id.0));
        let requests = json::parse(br#"{"Pool": {"columns": ["running"]}}"#, 128).unwrap();
        let (ticket, id): (Ticket, Ticket) = (Arc::from(&b"0"[..]), Arc::from(&b"1"[..]));
        let request = WatchRequest { ticket, id, requests, version: Version::V1, since: None };
        own.head().committing = true;
        own.watch(&session, request).unwrap();
        assert!(!own.goes_on_following(), "nobody watches yet");
        own.head().committing = false;
        own.flush_blocking();
        assert!(own.figures_followed.load(Ordering::Acquire), "nobody brings figures up to date");
        assert!(own.goes_on_following());
        own.end_session(&session);
        assert!(!own.goes_on_following() && !own.figures_followed.load(Ordering::Acquire));
        host.shut_down();
        drop(runtime);
        std::fs::remove_dir_all(&directory).unwrap();
    }

    fn world(name: &str) -> (Runtime, Arc<Host>, Arc<Hosted>, PathBuf) {
        let name = format!("paceline-figures-{name}-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir(&directory).unwrap();
        let builder = &mut tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().build().unwrap();
        let host =
            Host::new(runtime.handle().clone(), Arc::new(RealDisk), Policy::default()).unwrap();
        host.open_own(&directory.join("paceline.db")).unwrap();
        let own = host.database(own::DATABASE).unwrap();
        (runtime, host, own, directory)
    }

    #[test]
    fn figures_are_those_of_the_engine_and_leave_the_version_alone() {
        let (_runtime, host, own, directory) = world("shown");
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
