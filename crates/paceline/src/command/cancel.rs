//! `paceline cancel`: removes a waiting request from its queue.

use super::Reach;
use super::why::request;
use crate::failure::Failure;
use clap::Args;
use paceline_client::Method;
use serde_json::json;

pub const HELP: &str = "\
The client of the request gets a refusal with the reason. A running request cannot be cancelled. Cancelling needs the role \
operator and is recorded in the audit log.

Example:
  paceline ps                                    shows the numbers
  paceline cancel 17 --reason 'maintenance at 5'";

#[derive(Debug, Args)]
pub struct Cancel {
    /// Number of the request, as in `paceline ps`
    #[arg(value_name = "ID", value_parser = request)]
    id: u64,

    /// The reason, which its client gets
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    #[command(flatten)]
    pub reach: Reach,
}

pub fn run(cancel: &Cancel) -> Result<(), Failure> {
    let asker = cancel.reach.open()?;
    let path = format!("/v1/requests/{}/cancel", cancel.id);
    let body = cancel.reason.as_ref().map(|reason| json!({ "reason": reason }));
    let answer = asker.client.call(Method::Post, &path, body.as_ref());
    let answer = answer
        .map_err(|error| Failure::from(error).or_hint("see what runs and waits: paceline ps"))?;
    asker.show_done(&answer, &format!("request {} is cancelled", cancel.id))
}
