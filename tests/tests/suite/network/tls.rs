//! `pssl:` remotes (promise X1), with certificates created by `openssl`.

use std::io::{BufReader, Read, Write};
use std::process::{Command, Stdio};

use paceline_tests::{Daemon, Launch, Scratch, tool};

/// Files of a small certificate authority.
struct Authority {
    scratch: Scratch,
}

impl Authority {
    fn new() -> Self {
        let this = Self { scratch: Scratch::new() };
        let _ = this.scratch.write("leaf.ext", "basicConstraints=CA:FALSE\n");
        this.openssl(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
             -subj /CN=authority -keyout ca.key -out ca.pem",
        );
        for name in ["server", "client"] {
            this.openssl(&format!(
                "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes \
                 -subj /CN={name} -keyout {name}.key -out {name}.csr"
            ));
            this.openssl(&format!(
                "x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 \
                 -extfile leaf.ext -out {name}.pem"
            ));
        }
        this
    }

    fn openssl(&self, words: &str) {
        let mut command = Command::new("openssl");
        command.args(words.split_whitespace()).current_dir(self.scratch.path());
        let output = command.output().expect("openssl is installed");
        assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn path(&self, name: &str) -> String {
        self.scratch.join(name).display().to_string()
    }

    fn serve(&self, scratch: &Scratch) -> Daemon {
        let launch = Launch::new(scratch).option("--ovsdb", "pssl:0:127.0.0.1");
        let launch = launch.option("--private-key", self.path("server.key"));
        let launch = launch.option("--certificate", self.path("server.pem"));
        launch.option("--ca-cert", self.path("ca.pem")).start().unwrap()
    }
}

/// Lists the databases with `ovsdb-client`, which presents the certificate `name` of `client` and trusts the
/// authority of `server`.
fn list_dbs(
    port: u16,
    client: &Authority,
    name: &str,
    server: &Authority,
) -> Result<String, String> {
    let key = format!("--private-key={}", client.path(&format!("{name}.key")));
    let certificate = format!("--certificate={}", client.path(&format!("{name}.pem")));
    let ca = format!("--ca-cert={}", server.path("ca.pem"));
    let remote = format!("ssl:127.0.0.1:{port}");
    let words = ["--timeout=10", &key, &certificate, &ca, "list-dbs", &remote];
    tool::run("ovsdb-client", &words)
}

/// The response over TLS to one request, until the server closes the connection or one reply has arrived.
fn raw(port: u16, words: &[String]) -> String {
    let mut child = Command::new("openssl")
        .args(["s_client", "-quiet", "-connect", &format!("127.0.0.1:{port}")])
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("openssl is installed");
    let mut stdin = child.stdin.take().unwrap();
    let _ = stdin.write_all(br#"{"id":1,"method":"echo","params":["over TLS"]}"#);
    let mut text = Vec::new();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    for byte in stdout.bytes().map_while(Result::ok) {
        text.push(byte);
        if byte == b'}' {
            break;
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    String::from_utf8(text).unwrap()
}

#[test]
fn a_client_with_a_certificate_is_let_in_and_others_are_not() {
    let (authority, scratch) = (Authority::new(), Scratch::new());
    let daemon = authority.serve(&scratch);
    let port = daemon.port("pssl");
    assert!(list_dbs(port, &authority, "client", &authority).unwrap().contains("Paceline"));
    let shown = ["-key", "client.key", "-cert", "client.pem"]
        .map(|word| if word.starts_with('-') { word.to_owned() } else { authority.path(word) });
    assert!(raw(port, &shown).contains("over TLS"));

    // No certificate, one of another authority, and a self-signed one.
    assert_eq!(raw(port, &[]), "");
    daemon.log_line(&["no TLS handshake"]).unwrap();
    let stranger = Authority::new();
    assert!(list_dbs(port, &stranger, "client", &authority).is_err());
    daemon.log_line(&["no TLS handshake"]).unwrap();
    stranger.openssl(
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
         -subj /CN=client -keyout self.key -out self.pem",
    );
    assert!(list_dbs(port, &stranger, "self", &authority).is_err());
    daemon.log_line(&["no TLS handshake"]).unwrap();
    // Plain text is not a handshake either.
    let mut clear = paceline_tests::Client::connect_tcp(port).unwrap();
    clear.send(br#"{"id":1,"method":"echo","params":[]}"#).unwrap();
    assert!(clear.message().is_err());
    // The valid one is still served.
    assert!(raw(port, &shown).contains("over TLS"));
}

#[test]
fn what_is_missing_is_named() {
    let scratch = Scratch::new();
    let launch = Launch::new(&scratch).option("--ovsdb", "pssl:0:127.0.0.1");
    let ended = launch.start().unwrap_err();
    for part in ["pssl:", "--private-key", "--certificate", "--ca-cert"] {
        assert!(ended.log.contains(part), "no {part} in {}", ended.log);
    }
    let authority = Authority::new();
    let broken = authority.scratch.write("broken.pem", "no certificate");
    let files =
        [authority.path("server.key"), authority.path("server.pem"), authority.path("ca.pem")];
    for wrong in 0..3 {
        let mut files = files.clone();
        files[wrong] = broken.display().to_string();
        let [key, certificate, ca] = files;
        let launch = launch.clone().option("--private-key", key);
        let launch = launch.option("--certificate", certificate).option("--ca-cert", ca);
        let ended = launch.start().unwrap_err();
        assert_eq!(ended.status.code(), Some(1), "{ended:?}");
        assert!(ended.log.contains("broken.pem"), "{ended:?}");
    }
}
