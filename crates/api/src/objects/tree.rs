//! The resources with the requests that hold them and those that wait for them.

use super::Object as _;
use super::database::select_all;
use super::resource::{Resource, name_parents};
use super::values::{Row, text_in};
use crate::identity::Identity;
use crate::large::Text;
use crate::respond::{Answer, Problem};
use crate::{App, Shared, large};
use axum::extract::{Extension, State};
use paceline_host::WaitsFor;
use paceline_tables::value::{Atom, Datum};
use paceline_types::RequestId;
use serde::Serialize;
use std::collections::BTreeMap;

/// The most requests whose claims are read.
const REQUESTS_MAX: usize = 100_000;

/// The most claims that are shown.
const CLAIMS_MAX: usize = 1_000_000;

/// The state of one resource.
#[derive(Default, Serialize)]
struct Node {
    parents: Vec<String>,
    holders: Vec<u64>,
    waiters: Vec<u64>,
}

/// A resource as it is shown.
#[derive(Serialize)]
struct Named<'a> {
    name: &'a str,
    #[serde(flatten)]
    node: &'a Node,
}

/// `GET /v1/tree`
pub(super) async fn tree(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
) -> Answer {
    let rows = async {
        let mut rows = select_all(&app, &identity, Resource::KIND.table).await?;
        name_parents::<Resource>(&app, &identity, &mut rows).await?;
        Ok(rows)
    };
    large::list_rows(&app, &identity, rows, |rows, text| drawn(&app, rows, text)).await
}

/// The tree as it is sent.
fn drawn(app: &App, rows: Vec<Row>, text: &mut Text) -> Result<(), Problem> {
    let mut nodes: BTreeMap<String, Node> = BTreeMap::new();
    for row in &rows {
        let Some(name) = text_in(row, "name") else { continue };
        let parents = row.get("parents").map(Datum::atoms).unwrap_or_default();
        let parents = parents.iter().filter_map(Atom::as_str).map(str::to_owned).collect();
        nodes.entry(name.to_owned()).or_default().parents = parents;
    }
    let mut left = CLAIMS_MAX;
    app.host.control().look(RequestId(0), REQUESTS_MAX, |request, why| {
        // It is in line for its claims only when it has passed its checkpoints.
        if matches!(why.waits_for, WaitsFor::Checkpoint { .. }) {
            return;
        }
        for claim in request.claims.iter().take(left) {
            // A resource that was made for a claim has no row and no parents.
            let node = nodes.entry(claim.resource.to_string()).or_default();
            let list = match why.waits_for {
                WaitsFor::Nothing => &mut node.holders,
                _ => &mut node.waiters,
            };
            list.push(why.id.0);
        }
        left = left.saturating_sub(request.claims.len());
    });
    text.json(&nodes.iter().map(|(name, node)| Named { name, node }).collect::<Vec<_>>())
}
