//! `paceline resources`: what can be claimed.

use super::{Reach, figure, text};
use crate::failure::Failure;
use crate::screen::Screen;
use crate::table::{Column, Table};
use clap::Args;
use paceline_client::Kind;
use serde_json::Value;

pub const HELP: &str = "\
Example:
  paceline resources
  paceline tree      the same as a drawing, with who holds and who waits";

#[derive(Debug, Args)]
pub struct Resources {
    #[command(flatten)]
    pub reach: Reach,
}

pub fn run(resources: &Resources) -> Result<(), Failure> {
    let asker = resources.reach.open()?;
    let list = asker.client.objects(Kind::Resources)?;
    let nothing = "there are no resources; add them to a configuration file";
    asker.show_list(&list, nothing, |screen| draw(&list, screen))
}

fn draw(list: &[Value], screen: Screen) -> String {
    let mut table = Table::new(&[
        Column::text("NAME", 16),
        Column::number("HOLDING"),
        Column::number("WAITING"),
        Column::text("PARENTS", 8).spare(1),
    ]);
    for resource in list {
        let parents = resource.get("parents").and_then(Value::as_array);
        let parents: Vec<String> = parents.into_iter().flatten().map(super::as_text).collect();
        table.row(vec![
            text(resource, "name").into(),
            figure(resource, "holding").into(),
            figure(resource, "waiting").into(),
            parents.join(", ").into(),
        ]);
    }
    table.draw(screen)
}
