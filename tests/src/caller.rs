//! Plain requests to the API, one connection each: over TCP with a token, or over the unix socket. If the tests run
//! as root, also as another local user.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::Api;

/// Where requests are sent, and by which user.
#[derive(Clone, Debug)]
pub enum Caller {
    /// Over TCP at this address, with a token or without.
    Tcp {
        /// Address and port.
        address: String,
        /// The token.
        token: Option<String>,
    },
    /// Over the unix socket, as the user that runs the tests.
    Unix(PathBuf),
    /// Over the unix socket, as the user with this id.
    User(PathBuf, u32),
}

impl Caller {
    /// Sends a request. Returns the status, and the body if it is JSON. Of a stream of events only the head is read.
    ///
    /// # Panics
    /// If there is no response.
    #[must_use]
    pub fn ask(&self, method: &str, path: &str, body: Option<&str>) -> (u16, Value) {
        if let Self::User(socket, uid) = self {
            return curl(socket, *uid, method, path, body);
        }
        let mut api = match self {
            Self::Tcp { address, token } => {
                Api::tcp(address.parse().expect("an address and a port"), token.as_deref())
            }
            Self::Unix(socket) | Self::User(socket, _) => Api::unix(socket),
        };
        api.send(method, path, body);
        let answer = api.answer();
        (answer.status, answer.body)
    }
}

fn parsed(text: &str) -> (u16, Value) {
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
    let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let status = status.unwrap_or_else(|| panic!("no answer: {text:?}"));
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

fn curl(socket: &PathBuf, uid: u32, method: &str, path: &str, body: Option<&str>) -> (u16, Value) {
    let mut command = Command::new("curl");
    command.uid(uid).gid(uid).current_dir("/").env("HOME", "/");
    command.args(["--silent", "--include", "--max-time", "10", "--request", method]);
    command.arg("--unix-socket").arg(socket);
    if let Some(body) = body {
        command.args(["--header", "content-type: application/json", "--data", body]);
    }
    if path == "/v1/events" {
        // The stream never ends by itself.
        command.args(["--max-time", "0.5", "--no-buffer"]);
    }
    let output = command.arg(format!("http://paceline{path}")).output().expect("curl can be run");
    parsed(&String::from_utf8_lossy(&output.stdout))
}
