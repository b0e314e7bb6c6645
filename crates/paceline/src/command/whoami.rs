//! `paceline whoami`: the caller's user name and role, as the daemon sees them.

use super::{Reach, text};
use crate::failure::Failure;
use clap::Args;
use paceline_client::Method;

pub const HELP: &str = "\
Example:
  paceline whoami
  paceline whoami --api http://127.0.0.1:7070 --token-file ci.token";

#[derive(Debug, Args)]
pub struct Whoami {
    #[command(flatten)]
    pub reach: Reach,
}

pub fn run(whoami: &Whoami) -> Result<(), Failure> {
    let asker = whoami.reach.open()?;
    let answer = asker.client.call(Method::Get, "/v1/whoami", None)?;
    asker.show(&answer, |screen| {
        let (user, role, host) =
            (text(&answer, "user"), text(&answer, "role"), text(&answer, "host"));
        screen.wrap(&format!("{user} from {host}, role {role}"), 2)
    })
}
