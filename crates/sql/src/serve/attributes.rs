//! The request that a transaction makes, with the attributes that rules and expressions read (`design.md`, Attributes).

use paceline_host::Control;
use paceline_postgres::text::{Dialect, Tags, classify, fingerprint};
use paceline_types::{AttributeError, Attributes, Known, Request};

/// The name of the door among the frontends.
pub(crate) const FRONTEND: &str = "sql";

/// What is known of a session.
#[derive(Debug)]
pub(crate) struct Who {
    pub user: Box<str>,
    /// Where the client is: its address, or `unix`.
    pub host: Box<str>,
    pub database: Box<str>,
}

/// The request for one statement. `program` is the client's `application_name`.
pub(crate) fn request(
    control: &Control,
    who: &Who,
    program: &str,
    text: &str,
    dialect: Dialect,
) -> Result<Request, AttributeError> {
    let mut attributes = Attributes::new();
    attributes.set_known(Known::Kind, "sql")?;
    attributes.set_known(Known::Frontend, FRONTEND)?;
    attributes.set_known(Known::User, &who.user)?;
    attributes.set_known(Known::Host, &who.host)?;
    attributes.set_known(Known::Client, &who.host)?;
    attributes.set_known(Known::Task, program)?;
    attributes.set_known(Known::Database, &who.database)?;
    attributes.set_known(Known::Text, text)?;
    let snapshot = control.snapshot();
    if snapshot.reads().reads(Known::Fingerprint) {
        let mut normal = String::new();
        let print = fingerprint(text, dialect, &mut normal);
        attributes.set_known(Known::Fingerprint, &print.to_string())?;
    }
    attributes.set("command", classify(text, dialect).command.name())?;
    for tag in Tags::new(text, dialect) {
        // A key that cannot be the name of an attribute is no reason to refuse the statement.
        let _ = attributes.set(&format!("tag.{}", tag.key), &tag.value);
    }
    Ok(Request::new(attributes))
}
