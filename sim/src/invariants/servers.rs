//! No server has more requests than its maximum (lowering it drains), and no request waits for a server while
//! one that is up has room, or while none is up.

use super::Invariant;
use crate::history::Step;
use crate::model::Spot;
use crate::model::config::{Backend, Config};
use crate::seen::{Figures, Seen};
use std::rc::Rc;

/// Remembers the last figures, and their configuration.
#[derive(Default)]
pub struct Servers {
    before: Figures,
    config: Option<Rc<Config>>,
}

impl Invariant for Servers {
    fn name(&self) -> &'static str {
        "no server has too many, and none idles"
    }

    fn look(&mut self, seen: &Seen) -> Result<(), String> {
        if let Some(config) = self.config.as_ref().filter(|old| !Rc::ptr_eq(old, &seen.config)) {
            self.before = self.before.renamed(config, &seen.config);
        }
        // After an edit a server may count requests from before; `Sites` checks later arrivals.
        let is_edit = matches!(&*seen.step, Step::Configure(..));
        let servers = seen.config.backends.iter().flat_map(|backend| &backend.servers);
        for server in servers.filter(|_| !is_edit) {
            let (_, held) = figure(&seen.figures, server.name);
            let (_, before) = figure(&self.before, server.name);
            let most = self.old_max(server.id).max(server.max.unwrap_or(u64::MAX)).max(before);
            if held > most {
                return Err(format!("{} has {held}, at most {most} may be", server.name));
            }
        }
        for (id, sight) in &seen.alive {
            let Spot::Checkpoint(name, _) = sight.spot else { continue };
            if let Some(backend) = seen.config.backends.iter().find(|b| b.gate() == name) {
                has_no_room(seen, backend).map_err(|text| format!("request {id} waits: {text}"))?;
            }
        }
        self.before = seen.figures.clone();
        self.config = Some(Rc::clone(&seen.config));
        Ok(())
    }
}

fn figure(figures: &Figures, name: &str) -> (bool, u64) {
    figures.servers.get(name).copied().unwrap_or_default()
}

fn has_no_room(seen: &Seen, backend: &Backend) -> Result<(), String> {
    let up = |name: &str| figure(&seen.figures, name);
    let usable = backend.servers.iter().filter(|server| server.weight > 0 && up(server.name).0);
    let mut usable = usable.peekable();
    if usable.peek().is_none() {
        return Err(format!("no server of {} can be used", backend.name));
    }
    match usable.find(|server| server.max.is_none_or(|max| up(server.name).1 < max)) {
        Some(server) => Err(format!("{} has room", server.name)),
        None => Ok(()),
    }
}

impl Servers {
    fn old_max(&self, id: u32) -> u64 {
        let mut all = self.config.iter().flat_map(|c| &c.backends).flat_map(|b| &b.servers);
        all.find(|server| server.id == id).map_or(0, |server| server.max.unwrap_or(u64::MAX))
    }
}
