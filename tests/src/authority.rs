//! Certificates created by `openssl`, and a TLS server in front of a plain one.
//!
//! Owns the files in the given folder, and the server's process, which ends on drop.

use crate::Scratch;
use crate::tool::{self, Running};

/// A certificate authority, in `NAME.pem` and `NAME.key` of a folder.
#[derive(Debug)]
pub struct Authority<'s> {
    scratch: &'s Scratch,
    name: String,
}

impl<'s> Authority<'s> {
    /// Creates an authority.
    ///
    /// # Panics
    /// If `openssl` fails.
    #[must_use]
    pub fn new(scratch: &'s Scratch, name: &str) -> Self {
        make(scratch, name, &["-subj", &format!("/CN={name}")]);
        Self { scratch, name: name.to_owned() }
    }

    /// Creates a certificate for all of `names`, such as `DNS:api.test` or `IP:127.0.0.1`, in `FILE.pem` and
    /// `FILE.key`.
    ///
    /// # Panics
    /// If `openssl` fails.
    pub fn certify(&self, file: &str, names: &str) {
        let own = |end: &str| path(self.scratch, &format!("{}.{end}", self.name));
        let (certificate, key) = (own("pem"), own("key"));
        let (subject, names) = (format!("/CN={file}"), format!("subjectAltName={names}"));
        let words = ["-CA", &certificate, "-CAkey", &key, "-subj", &subject, "-addext", &names];
        let is_none = ["-addext", "basicConstraints=critical,CA:FALSE"];
        make(self.scratch, file, &[&words[..], &is_none].concat());
    }
}

/// Creates a self-signed certificate for `names`, as `openssl` does by default.
///
/// # Panics
/// If `openssl` fails.
pub fn certify_itself(scratch: &Scratch, file: &str, names: &str) {
    let names = format!("subjectAltName={names}");
    make(scratch, file, &["-subj", &format!("/CN={file}"), "-addext", &names]);
}

fn make(scratch: &Scratch, file: &str, more: &[&str]) {
    let words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2";
    let mut words: Vec<&str> = words.split(' ').collect();
    let (key, pem) = (path(scratch, &format!("{file}.key")), path(scratch, &format!("{file}.pem")));
    words.extend(["-keyout", &key, "-out", &pem]);
    words.extend(more);
    tool::run("openssl", &words).unwrap();
}

fn path(scratch: &Scratch, file: &str) -> String {
    scratch.join(file).display().to_string()
}

/// A TLS server (Python's, which uses OpenSSL) that relays to a plain server.
#[derive(Debug)]
pub struct Relay {
    running: Running,
    address: String,
}

impl Relay {
    /// Starts a relay with the certificate in `FILE.pem` before the plain server at `address`. `more` are further
    /// arguments of `tls_relay.py`.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn start(scratch: &Scratch, file: &str, address: &str, more: &[&str]) -> Self {
        let script = format!("{}/python/tls_relay.py", env!("CARGO_MANIFEST_DIR"));
        let (pem, key) =
            (path(scratch, &format!("{file}.pem")), path(scratch, &format!("{file}.key")));
        let words = [&[script.as_str(), &pem, &key, address], more].concat();
        let running = Running::start("/usr/bin/python3", &words);
        let address = running.line();
        Self { running, address }
    }

    /// Its address, in the form of a server's `address`.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The next connection with a successful handshake: `tls NAME ALPN new|resumed CLIENT`; or the `end` of one, if
    /// that was requested.
    ///
    /// # Panics
    /// If none arrives in time.
    #[must_use]
    pub fn connection(&self) -> String {
        self.running.line()
    }

    /// Further connections that it has reported by now.
    #[must_use]
    pub fn more(&self) -> Vec<String> {
        self.running.told()
    }
}
