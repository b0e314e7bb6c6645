//! Comdb2's `.ruleset` files: imported into the running list of rules in one transaction, and exported from it.

use crate::config::own_database;
use crate::identity::Identity;
use crate::objects::own_problem;
use crate::respond::{Answer, Problem, ok};
use crate::turns::wait;
use crate::{Shared, body, large, query};
use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, HeaderValue, Uri};
use paceline_config::{ChangeOp, RulesetEdit, RulesetImport, export_rules, import_rules};
use paceline_host::Author;
use serde_json::{Value, json};

/// The media type of a file.
const PLAIN: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// `POST /v1/rules/import`
pub(crate) async fn import(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let (dry_run, persistent) = (query::flag(&uri, "dry_run")?, query::flag(&uri, "persistent")?);
    let (text, _share) = body::long_text(&app, &identity, &headers, body, &["text/plain"]).await?;
    let _place = wait(&app.answers.working, &identity).await;
    let database = own_database(&app)?;
    let title = identity.title();
    let author = Author { name: &title, role: identity.role };
    let mut told = Ok(vec![]);
    let operations = |store: &paceline_tables::Store| match import_rules(store, &text, persistent) {
        Ok(RulesetImport { operations, edits }) => {
            told = Ok(edits.iter().map(describe).collect());
            operations
        }
        Err(error) => {
            let place = json!({
                "line": error.line, "column": error.column, "message": error.problem.to_string(),
            });
            told = Err(Problem::configuration(vec![place]));
            vec![]
        }
    };
    let done = tokio::task::block_in_place(|| match dry_run {
        true => database.try_edit(author, operations),
        false => database.edit(author, operations),
    });
    done.map_err(|error| own_problem(&error))?;
    ok(&Value::Array(told?))
}

fn describe(edit: &RulesetEdit) -> Value {
    let op = match edit.op {
        ChangeOp::Insert => "create",
        ChangeOp::Update => "change",
        ChangeOp::Delete => "delete",
    };
    let mut told = json!({ "op": op, "kind": edit.kind, "name": edit.name });
    if let Some((low, high)) = edit.priority {
        told["priority"] = json!([low, high]);
    }
    told
}

/// `GET /v1/rules/export`
pub(crate) async fn export(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
) -> Answer {
    let text = async {
        export_rules(&app.host.control().snapshot()).map_err(|error| {
            Problem::conflict(error.to_string()).hint(
                "a Comdb2 ruleset cannot say this; change or delete the rule to export the others",
            )
        })
    };
    let write = |text: String, out: &mut large::Text| out.plain(&text);
    large::text_of_rows(&app, &identity, PLAIN, text, write).await
}
