//! Tokens: issued, listed and revoked. A token is shown once, when it is issued; only its hash is stored.
//!
//! The first token is in the file `token` of the data directory and in no row. It is listed as `admin`. Revoking it
//! writes another one to the file, so that an admin is never locked out.

use super::database::{self, begin, edit, select_all};
use super::values::{Row, number, number_in, text};
use super::{Object, columns_of, delete, describe};
use crate::identity::{Identity, Role};
use crate::members::Members;
use crate::moment::rfc3339_of_ms;
use crate::openapi::{name_of, new_of};
use crate::operation::{EDIT, Operation};
use crate::respond::{Answer, Problem, created, done, ok, shown};
use crate::router::Routes;
use crate::sessions::checked_name;
use crate::token::{BYTES, hash, hex, secret};
use crate::{Shared, body};
use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::{HeaderMap, Uri};
use paceline_catalogue::{Kind, TOKENS};
use paceline_host::{FIRST_TOKEN, wall_ms};
use paceline_tables::tag;
use paceline_types::Span;
use serde_json::{Map, Value, json};

/// The default lifetime of a token.
const LIFE: Span = Span(90 * 86_400 * 1_000_000_000);

/// The shortest lifetime of a token.
const LIFE_MIN: Span = Span(1_000_000_000);

/// Longest name of a token.
const NAME_BYTES_MAX: usize = 128;

/// The table Token.
pub(super) struct Token;

impl Object for Token {
    const KIND: &'static Kind = &TOKENS;

    fn show(row: &Row, object: &mut Map<String, Value>) {
        for member in ["created", "expires"] {
            let moment = number_in(row, member).map(rfc3339_of_ms);
            object.extend(moment.map(|text| (member.to_owned(), Value::String(text))));
        }
    }
}

/// Adds the operations.
pub(super) fn routes(routes: Routes) -> Routes {
    let all = "/v1/tokens";
    let list_of = "Lists tokens, without the tokens themselves";
    let list_of = Operation::new(Role::Admin, "GET", all, "list_tokens", list_of);
    let issue = "Issues a token, which is shown only once";
    let issue = Operation::new(Role::Admin, "POST", all, "issue_token", issue);
    let issue = issue.takes(&new_of(Token::KIND)).gives(201, "IssuedToken").fails(EDIT);
    let revoke_of = ("/v1/tokens/{name}", "revoke_token", "Revokes a token");
    let revoke_of = Operation::new(Role::Admin, "DELETE", revoke_of.0, revoke_of.1, revoke_of.2);
    routes
        .add(list_of.gives_list(&name_of(Token::KIND)), list)
        .add(issue, new)
        .add(revoke_of.gives_nothing().fails(EDIT).fails([404]), revoke)
}

/// `GET /v1/tokens`
async fn list(State(app): State<Shared>, Extension(identity): Extension<Identity>) -> Answer {
    let rows = select_all(&app, &identity, Token::KIND.table).await?;
    let mut tokens: Vec<Value> = rows.iter().map(describe::<Token>).collect();
    tokens.push(json!({ "name": FIRST_TOKEN, "role": "admin", "user": FIRST_TOKEN }));
    tokens.sort_by_cached_key(|token| token["name"].as_str().unwrap_or_default().to_owned());
    ok(&Value::Array(tokens))
}

/// The parsed body.
struct New {
    name: String,
    role: Role,
    user: String,
    life: Option<Span>,
}

impl New {
    fn read(mut members: Members) -> Result<Self, Problem> {
        let name = checked(members.required_text("name")?)?;
        let role = role(&mut members)?;
        let user = match members.text("user")? {
            Some(user) => checked_name("user", user)?,
            None => name.clone(),
        };
        let life = life(&mut members)?;
        members.finish()?;
        Ok(Self { name, role, user, life })
    }
}

/// The required member `role`.
fn role(members: &mut Members) -> Result<Role, Problem> {
    let words = Role::ALL.map(|role| (role.word(), role));
    members.word("role", &words)?.ok_or_else(|| {
        Problem::bad_request("role: expected viewer, client, operator or admin, but it is missing")
    })
}

fn checked(name: String) -> Result<String, Problem> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if name.is_empty() {
        return Err(Problem::bad_request("name: expected a text, but it is empty"));
    }
    if name.len() > NAME_BYTES_MAX || !name.bytes().all(fits) {
        return Err(Problem::bad_request(format!(
            "name: expected 1 to {NAME_BYTES_MAX} of the characters A-Z a-z 0-9 . _ -, found {:?}",
            shown(&name)
        )));
    }
    match name == FIRST_TOKEN {
        true => Err(Problem::conflict("the first token has this name")
            .hint("choose another; DELETE /v1/tokens/admin replaces the first token")),
        false => Ok(name),
    }
}

/// The lifetime of the token: `None` for unlimited.
fn life(members: &mut Members) -> Result<Option<Span>, Problem> {
    let Some(text) = members.text("expires")? else { return Ok(Some(LIFE)) };
    if text == "never" {
        return Ok(None);
    }
    match text.parse() {
        Ok(span) if span >= LIFE_MIN => Ok(Some(span)),
        _ => Err(Problem::bad_request(format!(
            "expires: expected a time of 1s and more, such as \"90d\", or \"never\", found {:?}",
            shown(&text)
        ))),
    }
}

/// `POST /v1/tokens`
async fn new(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let members = body::members(&app, &identity, &headers, body).await?;
    let New { name, role, user, life } = New::read(members)?;
    let token = secret::<BYTES>().map_err(|error| Problem::internal(&error.to_string()))?;
    let created_ms = wall_ms();
    let moment = |ms: u64| number(i64::try_from(ms).unwrap_or(i64::MAX));
    let mut row = Row::from([
        ("name".into(), text(&name)),
        ("role".into(), text(role.word())),
        ("user".into(), text(&user)),
        ("hash".into(), text(&hex(&hash(&token)))),
        ("created".into(), moment(created_ms)),
    ]);
    if let Some(life) = life {
        row.insert("expires".into(), moment(created_ms.saturating_add(life.0 / 1_000_000)));
    }
    let insert = begin(&app)?.insert(Token::KIND.table, columns_of(&row));
    edit(&app, &identity, insert).await.map_err(|error| match error.tag {
        tag::CONSTRAINT if error.details.contains("at most") => Problem::resources(error.details),
        _ => database::problem::<Token>(&error, &name),
    })?;
    let mut made = describe::<Token>(&row);
    made["token"] = token.into();
    created(&made)
}

/// `DELETE /v1/tokens/{name}`
async fn revoke(
    app: State<Shared>,
    identity: Extension<Identity>,
    Path(name): Path<String>,
) -> Answer {
    if name != FIRST_TOKEN {
        return delete::<Token>(app, identity, Path(name), Uri::default()).await;
    }
    tokio::task::block_in_place(|| app.first_token.replace(app.host.access()))
        .map_err(Problem::resources)?;
    app.host.record(&identity.title(), "token replaced", FIRST_TOKEN);
    done()
}
