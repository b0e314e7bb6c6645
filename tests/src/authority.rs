//! Certificates made on the spot by `openssl`, and a server of TLS in front of a plain one.
//!
//! Owns the files in the folder it was given, and the server's process, which ends when it is dropped.

use crate::Scratch;
use crate::tool::{self, Running};

/// An authority that certifies, in `NAME.pem` and `NAME.key` of a folder.
#[derive(Debug)]
pub struct Authority<'s> {
    scratch: &'s Scratch,
    name: String,
}

impl<'s> Authority<'s> {
    /// Makes an authority.
    ///
    /// # Panics
    /// If `openssl` cannot.
    #[must_use]
    pub fn new(scratch: &'s Scratch, name: &str) -> Self {
        make(scratch, name, &["-subj", &format!("/CN={name}")]);
        Self { scratch, name: name.to_owned() }
    }

    /// Certifies in `FILE.pem` and `FILE.key` that whoever has the key is all of `names`, such as
    /// `DNS:api.test` or `IP:127.0.0.1`.
    ///
    /// # Panics
    /// If `openssl` cannot.
    pub fn certify(&self, file: &str, names: &str) {
        let own = |end: &str| path(self.scratch, &format!("{}.{end}", self.name));
        let (certificate, key) = (own("pem"), own("key"));
        let (subject, names) = (format!("/CN={file}"), format!("subjectAltName={names}"));
        let words = ["-CA", &certificate, "-CAkey", &key, "-subj", &subject, "-addext", &names];
        let is_none = ["-addext", "basicConstraints=critical,CA:FALSE"];
        make(self.scratch, file, &[&words[..], &is_none].concat());
    }
}

/// Makes a certificate for `names` that vouches for itself, as `openssl` makes them unless told otherwise.
///
/// # Panics
/// If `openssl` cannot.
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

/// A server of TLS (Python's, which is OpenSSL) that passes on what it gets to a plain one.
#[derive(Debug)]
pub struct Relay {
    running: Running,
    address: String,
}

impl Relay {
    /// One with the certificate in `FILE.pem` before the plain server at `address`; `more` are further
    /// words of `tls_relay.py`.
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

    /// Where it listens, as a server's `address` says it.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The next connection whose handshake went well: `tls NAME ALPN new|resumed CLIENT`; or `end` of one,
    /// where that was asked for.
    ///
    /// # Panics
    /// If none comes in time.
    #[must_use]
    pub fn connection(&self) -> String {
        self.running.line()
    }

    /// Further connections that it told of by now.
    #[must_use]
    pub fn more(&self) -> Vec<String> {
        self.running.told()
    }
}
