//! `paceline locks`: locks with their owners and waiters.

use super::{Reach, text};
use crate::failure::Failure;
use crate::screen::Screen;
use crate::table::{Column, Table};
use clap::Args;
use paceline_client::Kind;
use serde_json::Value;

pub const HELP: &str = "\
Example:
  paceline locks
  paceline lock deploy -- ./deploy.sh      runs a command that owns the lock";

#[derive(Debug, Args)]
pub struct Locks {
    #[command(flatten)]
    pub reach: Reach,
}

pub fn run(locks: &Locks) -> Result<(), Failure> {
    let asker = locks.reach.open()?;
    let list = asker.client.objects(Kind::Locks)?;
    asker.show_list(&list, "no lock is owned", |screen| draw(&list, screen))
}

fn draw(list: &[Value], screen: Screen) -> String {
    let mut table = Table::new(&[
        Column::text("NAME", 8),
        Column::text("OWNER", 6),
        Column::number("WAITING"),
        Column::number("FENCING").spare(1),
        Column::text("WAITERS", 8).spare(2),
    ]);
    for lock in list {
        let waiters = lock.get("waiters").and_then(Value::as_array).cloned().unwrap_or_default();
        let names: Vec<String> = waiters.iter().map(super::as_text).collect();
        table.row(vec![
            text(lock, "name").into(),
            text(lock, "owner").into(),
            text(lock, "waiting").into(),
            text(lock, "fencing").into(),
            names.join(", ").into(),
        ]);
    }
    table.draw(screen)
}
