//! The command line: exit code 77 and a hint on what to try next.

use super::{Admin, Client, Need, Operator, REFUSED, ROLES, Viewer, World, is_root, rank, uid};
use paceline_tests::server::paceline_binary;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

const TABLE: &[(&[&str], Need)] = &[
    (&["ps"], Viewer),
    (&["pools"], Viewer),
    (&["frontends"], Viewer),
    (&["backends"], Viewer),
    (&["servers"], Viewer),
    (&["explain", "user=x"], Viewer),
    (&["permit", "--", "true"], Client),
    (&["lock", "x", "--", "true"], Client),
    (&["lock", "x", "--steal", "--", "true"], Operator),
    (&["pools", "configure", "p", "--threads", "0..2"], Operator),
    (&["rules", "new", "--raise", "1"], Operator),
    (&["rules", "clear"], Operator),
    (&["servers", "weight", "b/s", "0"], Operator),
    (&["servers", "delete", "b/s"], Operator),
    (&["backends", "rm", "b"], Operator),
    (&["frontends", "delete", "f"], Operator),
    (&["pools", "create", "q"], Admin),
    (&["pools", "persist", "p"], Admin),
    (&["rules", "save"], Admin),
    (&["token"], Admin),
    (&["token", "new", "ci", "--role", "viewer"], Admin),
    (&["token", "revoke", "t-client"], Admin),
];

#[test]
fn roles_at_the_command_line() {
    if !is_root() {
        return;
    }
    let world = World::new("operator");
    let mut wrong = String::new();
    for (arguments, need) in TABLE {
        for role in (0..ROLES.len()).map(Some).chain([None]) {
            world.reset();
            let mut command = Command::new(paceline_binary());
            command.uid(uid(role)).gid(uid(role)).current_dir("/").env("HOME", "/");
            command.env("PACELINE_DATA", world.scratch.join("data")).args(*arguments);
            let output = command.output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let may = rank(role) >= *need;
            let expected = if may { 0 } else { 77 };
            let mut told = may || said.contains(REFUSED) && said.lines().count() == 2;
            if role.is_none() {
                let user = uid(None);
                let next =
                    format!("an admin gives one with: paceline users set {user} --role client");
                told &= said.contains(&format!("user {user} has no role here; {next}"));
            }
            if output.status.code() != Some(expected) || !told {
                wrong +=
                    &format!("{arguments:?} by {:?}: {:?}: {said}\n", rank(role), output.status);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
