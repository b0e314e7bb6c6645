//! Operation x role x door: which role may do what, at every door ("Identity and roles" of the promises).
//!
//! The tables are data. Each row has an operation, the least role for it, and what an admin does before each attempt
//! so that it can succeed. A caller with the role must succeed. Every other caller must get the refusal of that door
//! and change nothing.

mod api;
mod cli;
mod ovsdb;
mod places;
mod secrets;
mod texts;

use paceline_tests::caller::Caller;
use paceline_tests::{Daemon, Launch, Scratch};
use rustix::process::geteuid;
use serde_json::{Value, json};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::PathBuf;

/// The message of every refusal.
const REFUSED: &str = "caller does not have the necessary permission";

/// The roles in ascending order; a number is an index into this list.
const ROLES: [&str; 4] = ["viewer", "client", "operator", "admin"];

/// The least role of an operation; `Nothing` is for every caller, even without a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Need {
    Nothing,
    Viewer,
    Client,
    Operator,
    Admin,
    /// No role may.
    Never,
}

use Need::{Admin, Client, Never, Nothing, Operator, Viewer};

/// The rank of a caller with the role at this index of [`ROLES`]; none without a role.
fn rank(role: Option<usize>) -> Need {
    role.map_or(Nothing, |at| [Viewer, Client, Operator, Admin][at])
}

/// The user id of a local user with a role; the one after the last has none.
fn uid(role: Option<usize>) -> u32 {
    424_200 + role.unwrap_or(ROLES.len()) as u32
}

/// A daemon that local users can reach, with tokens and users of every role.
struct World {
    daemon: Daemon,
    scratch: Scratch,
    tokens: Vec<String>,
}

impl World {
    /// Starts it; clients over TCP at the OVSDB door have the role `remote`.
    fn new(remote: &str) -> Self {
        let scratch = Scratch::new();
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(scratch.path(), open).unwrap();
        std::fs::DirBuilder::new().mode(0o755).create(scratch.join("data")).unwrap();
        let database = scratch.join("other.db").display().to_string();
        let schema = json!({ "name": "Other", "version": "1.0.0", "tables": {
            "T": { "columns": { "x": { "type": "integer" } }, "isRoot": true } } });
        let schema = scratch.write("other.ovsschema", schema.to_string());
        let files = [database.as_str(), schema.to_str().unwrap()];
        paceline_tests::tool::run("ovsdb-tool", &["create", files[0], files[1]]).unwrap();
        let daemon = Launch::serving(&scratch, database.as_ref())
            .option("--ovsdb", "ptcp:0:127.0.0.1")
            // Tools of Open vSwitch look a database up in the list before they use it.
            .arg("--list-own")
            .option("--remote-role", remote)
            .option("--socket-mode", "666")
            .api("127.0.0.1:0")
            .start()
            .unwrap();
        let mut world = Self { daemon, scratch, tokens: Vec::new() };
        for (at, role) in ROLES.iter().enumerate() {
            let token = json!({ "name": format!("t-{role}"), "role": role });
            let (status, made) = world.admin("POST", "/v1/tokens", &token);
            assert_eq!(status, 201, "{made}");
            world.tokens.push(made["token"].as_str().unwrap().to_owned());
            let path = format!("/v1/users/{}", uid(Some(at)));
            assert_eq!(world.admin("PUT", &path, &json!({ "role": role })).0, 201);
        }
        world
    }

    fn socket(&self) -> PathBuf {
        self.scratch.join("data/api.sock")
    }

    /// Sends a request as the user that started the daemon.
    fn admin(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let body = (!body.is_null()).then(|| body.to_string());
        Caller::Unix(self.socket()).ask(method, path, body.as_deref())
    }

    /// A session of the API, whose name is a secret.
    fn session(&self) -> String {
        let (_, session) = self.admin("POST", "/v1/sessions", &json!({}));
        session["session"].as_str().unwrap().to_owned()
    }

    fn tcp(&self, token: Option<&str>) -> Caller {
        let (_, rest) = self.daemon.ready.split_once("api http://").unwrap();
        let address = rest.split([',', ';']).next().unwrap().to_owned();
        Caller::Tcp { address, token: token.map(str::to_owned) }
    }

    /// Resets the objects that operations change.
    fn reset(&self) {
        for path in ["/v1/pools/q", "/v1/resources/kept", "/v1/users/eva", "/v1/tokens/ci"] {
            self.admin("DELETE", path, &Value::Null);
        }
        self.admin("DELETE", "/v1/rules/8", &Value::Null);
        self.admin("DELETE", "/v1/permits/job", &Value::Null);
        let pool = json!({ "priority": [-9, -1], "persistent": false, "state": "stopped" });
        self.admin("PUT", "/v1/pools/p", &pool);
        self.admin("PUT", "/v1/rules/7", &json!({ "raise": 1 }));
        let checkpoint = json!({ "at": "frontend api", "rate": "9000/s", "persistent": false });
        self.admin("PUT", "/v1/checkpoints/c", &checkpoint);
        self.admin("PUT", "/v1/resources/r", &json!({ "persistent": false }));
        for path in ["/v1/frontends/g", "/v1/backends/c", "/v1/servers/b/t"] {
            self.admin("DELETE", path, &Value::Null);
        }
        self.admin("DELETE", "/v1/sql-targets/t", &Value::Null);
        self.admin("PUT", "/v1/sql-targets/s", &json!({ "sqlite": "a.db" }));
        self.admin("PUT", "/v1/backends/b", &json!({ "persistent": false }));
        let server = json!({ "address": "127.0.0.1:1", "persistent": false });
        self.admin("PUT", "/v1/servers/b/s", &server);
        let frontend = json!({ "listen": "127.0.0.1:0", "persistent": false });
        self.admin("PUT", "/v1/frontends/f", &frontend);
    }
}

/// Whether the tests can act as other local users.
fn is_root() -> bool {
    let is_root = geteuid().is_root();
    if !is_root {
        eprintln!("not root: other users of this machine are left out");
    }
    is_root
}
