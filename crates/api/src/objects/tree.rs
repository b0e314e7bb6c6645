//! The resources with who holds them and who waits for them.

use super::Object as _;
use super::database::select_all;
use super::resource::{Resource, name_parents};
use crate::Shared;
use crate::identity::Identity;
use crate::respond::{Answer, ok};
use axum::extract::{Extension, State};
use paceline_host::WaitsFor;
use paceline_types::RequestId;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Most requests that are looked at for their claims.
const REQUESTS_MAX: usize = 100_000;

/// What is known of one resource.
#[derive(Default)]
struct Node {
    parents: Value,
    holders: Vec<u64>,
    waiters: Vec<u64>,
}

/// `GET /v1/tree`
pub(super) async fn tree(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
) -> Answer {
    let mut rows = select_all(&app, &identity, Resource::TABLE).await?;
    name_parents::<Resource>(&app, &identity, &mut rows).await?;
    let mut nodes: BTreeMap<String, Node> = BTreeMap::new();
    for mut row in rows {
        let Some(Value::String(name)) = row.remove("name") else { continue };
        nodes.entry(name).or_default().parents = row.remove("parents").unwrap_or_default();
    }
    for listed in app.host.control().list(RequestId(0), REQUESTS_MAX) {
        for claim in &listed.request.claims {
            // One that was made for a claim has no row and no parents.
            let node = nodes.entry(claim.resource.to_string()).or_default();
            let list = match listed.why.waits_for {
                WaitsFor::Nothing => &mut node.holders,
                _ => &mut node.waiters,
            };
            list.push(listed.why.id.0);
        }
    }
    let describe = |(name, node): (String, Node)| {
        let parents = if node.parents.is_null() { json!([]) } else { node.parents };
        json!({ "name": name, "parents": parents, "holders": node.holders, "waiters": node.waiters })
    };
    ok(&nodes.into_iter().map(describe).collect::<Value>())
}
