//! TLS at a frontend (X1), with certificates created by `openssl`: names, protocols, renewal.

use super::curl;
use paceline_tests::server::paceline_binary;
use paceline_tests::{Proxy, Scratch, Upstream, tool, until};
use rustix::process::Signal;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStdout, Command, Stdio};

/// Creates a self-signed certificate for `name`, in `FILE.pem` and `FILE.key`.
fn certify(scratch: &Scratch, file: &str, name: &str) {
    let (key, pem) = (scratch.join(&format!("{file}.key")), scratch.join(&format!("{file}.pem")));
    let (subject, names) = (format!("/CN={name}"), format!("subjectAltName=DNS:{name}"));
    let words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2";
    let mut words: Vec<&str> = words.split(' ').collect();
    let (key, pem) = (key.display().to_string(), pem.display().to_string());
    words.extend(["-subj", &subject, "-addext", &names, "-keyout", &key, "-out", &pem]);
    tool::run("openssl", &words).unwrap();
}

fn proxy(upstream: &Upstream, more: &str) -> Proxy {
    let scratch = Scratch::new();
    certify(&scratch, "one", "one.test");
    certify(&scratch, "two", "two.test");
    let tls = "tls = [{ certificate = \"one.pem\", key = \"one.key\" }, \
               { certificate = \"two.pem\", key = \"two.key\" }]\n";
    Proxy::start_in(scratch, &Proxy::config(upstream.address(), &format!("{tls}{more}")))
}

/// Sends a request for `name`, which must have the certificate in `file`.
fn ask(proxy: &Proxy, name: &str, file: &str, more: &[&str]) -> Result<String, String> {
    let port = proxy.address("web").rsplit_once(':').unwrap().1;
    let resolve = format!("{name}:{port}:127.0.0.1");
    let pem = proxy.scratch.join(&format!("{file}.pem")).display().to_string();
    let url = format!("https://{name}:{port}/");
    let mut words = vec!["-sS", "--max-time", "60", "--resolve", &resolve, "--cacert", &pem, &url];
    words.extend(more);
    tool::run("curl", &words)
}

#[test]
fn the_certificate_is_chosen_by_the_name_and_the_first_is_for_all_others() {
    let upstream = Upstream::saying("hello");
    let proxy = proxy(&upstream, "");
    for name in ["one", "two"] {
        assert_eq!(ask(&proxy, &format!("{name}.test"), name, &[]).unwrap(), "hello");
    }
    assert!(ask(&proxy, "one.test", "two", &[]).is_err(), "the other certificate does not fit");
    let shown = ask(&proxy, "three.test", "one", &["-k", "-w", "%{certs}"]).unwrap();
    assert!(shown.contains("Subject:CN = one.test"), "{shown}");
    // By address, there is no name to choose by.
    let url = format!("https://{}/", proxy.address("web"));
    let shown = curl(&["-k", "-w", "%{certs}", &url]);
    assert!(shown.contains("Subject:CN = one.test"), "{shown}");
    let seen = upstream.seen();
    assert_eq!(seen[0].field("x-forwarded-proto"), Some("https"));
}

#[test]
fn the_protocol_is_agreed_in_the_handshake() {
    let upstream = Upstream::saying("hello");
    let version = ["-w", " %{http_version}"];
    let with = |proxy: &Proxy, word: &str| {
        let words = [&[word], &version[..]].concat();
        ask(proxy, "one.test", "one", &words).unwrap()
    };
    let both = proxy(&upstream, "");
    assert_eq!(with(&both, "--http2"), "hello 2");
    assert_eq!(with(&both, "--http1.1"), "hello 1.1");
    assert_eq!(with(&both, "--no-alpn"), "hello 1.1");
    let old = proxy(&upstream, "http2 = false\n");
    assert_eq!(with(&old, "--http2"), "hello 1.1");
    assert_eq!(upstream.seen()[0].field("host"), upstream.seen()[1].field("host"));
}

#[test]
fn only_tls_1_2_and_newer_are_spoken_x1() {
    let upstream = Upstream::saying("hello");
    let proxy = proxy(&upstream, "");
    for (version, is_spoken) in [("1.0", false), ("1.1", false), ("1.2", true), ("1.3", true)] {
        let word = format!("--tlsv{version}");
        let words = [&word, "--tls-max", version, "--ciphers", "DEFAULT@SECLEVEL=0"];
        assert_eq!(ask(&proxy, "one.test", "one", &words).is_ok(), is_spoken, "{version}");
    }
}

/// Many requests at once on one connection; the server sees at most one connection for each.
#[test]
fn requests_of_http2_share_a_connection() {
    let upstream = Upstream::saying("hello ");
    let proxy = proxy(&upstream, "");
    let port = proxy.address("web").rsplit_once(':').unwrap().1;
    let urls: Vec<String> = (0..20).map(|n| format!("https://127.0.0.1:{port}/{n}")).collect();
    let mut words = vec!["-k", "--http2", "--parallel", "--write-out", "%{http_version};"];
    words.extend(urls.iter().map(String::as_str));
    let shown = curl(&words);
    assert_eq!((shown.matches("hello ").count(), shown.matches("2;").count()), (20, 20), "{shown}");
    assert_eq!(upstream.count(), 20);
    let records = proxy.records(20);
    assert!(records.iter().all(|record| record["protocol"] == "HTTP/2"), "{records:?}");
}

/// Rules see the name in the handshake, and a frontend with TLS accepts no plain text.
#[test]
fn the_name_is_an_attribute_and_plain_text_is_refused() {
    let upstream = Upstream::saying("hello");
    let proxy = proxy(&upstream, "[[rule]]\nmatch = { sni = \"two.test\" }\nreject = true\n");
    let status = ["-o", "/dev/null", "-w", "%{http_code}"];
    assert_eq!(ask(&proxy, "one.test", "one", &status).unwrap(), "200");
    assert_eq!(ask(&proxy, "two.test", "two", &status).unwrap(), "403");
    let mut web = proxy.connect();
    web.ask("/", "");
    assert!(web.try_answer(false).is_err());
    assert_eq!(upstream.count(), 1);
}

/// A certificate that was renewed under the same name is used after SIGHUP. A broken one is not, and the previous one
/// stays.
#[test]
fn a_renewed_certificate_is_used_after_a_reload() {
    let upstream = Upstream::saying("hello");
    let proxy = proxy(&upstream, "");
    assert_eq!(ask(&proxy, "one.test", "one", &[]).unwrap(), "hello");
    certify(&proxy.scratch, "one", "one.test");
    assert!(ask(&proxy, "one.test", "one", &[]).is_err(), "not before it is told");
    let config = std::fs::read_to_string(proxy.scratch.join("http.toml")).unwrap();
    proxy.reload(&config);
    until(|| ask(&proxy, "one.test", "one", &[]), Result::is_ok).unwrap();
    let kept = std::fs::read(proxy.scratch.join("one.pem")).unwrap();
    let _ = proxy.scratch.write("one.pem", "nonsense");
    proxy.daemon.signal(rustix::process::Signal::HUP);
    proxy.daemon.log_line(&["is not as configured", "one.pem"]).unwrap();
    let _ = proxy.scratch.write("one.pem", kept);
    assert_eq!(ask(&proxy, "one.test", "one", &[]).unwrap(), "hello");
}

/// The check finds a key that does not match its certificate, with its place, before a daemon has to refuse it.
#[test]
fn check_tells_a_key_that_is_not_that_of_its_certificate() {
    let scratch = Scratch::new();
    certify(&scratch, "one", "one.test");
    certify(&scratch, "two", "two.test");
    let check = |key: &str| {
        let text = format!(
            "[[frontend]]\nname = \"web\"\nlisten = \"127.0.0.1:0\"\n\
             tls = {{ certificate = \"one.pem\", key = \"{key}\" }}\nbackend = \"app\"\n\
             [[backend]]\nname = \"app\"\nservers = [{{ address = \"127.0.0.1:1\" }}]\n"
        );
        let file = scratch.write("web.toml", text);
        let output = Command::new(paceline_binary()).arg("check").arg(file).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(check("one.key"), (0, String::new()));
    let (code, told) = check("two.key");
    assert_eq!(code, 1);
    let names = ["web.toml:4:", "two.key is no key of the certificate", "one.pem"];
    assert!(names.iter().all(|name| told.contains(name)), "{told}");
    let (code, told) = check("one.pem");
    assert!(code == 1 && told.contains("cannot read the key"), "{told}");
}

/// Certificates that change continuously fail no request.
#[test]
fn certificates_change_under_load() {
    let upstream = Upstream::saying("hello");
    let proxy = proxy(&upstream, "");
    let config = std::fs::read_to_string(proxy.scratch.join("http.toml")).unwrap();
    let other = config.replacen("one.pem", "two.pem", 1).replacen("one.key", "two.key", 1);
    let url = format!("https://{}/", proxy.address("web"));
    let words = ["-t1", "-c8", "-d3s", "-H", "Connection: close", url.as_str()];
    let shown = std::thread::scope(|scope| {
        let wrk = scope.spawn(|| tool::run("wrk", &words).unwrap());
        while !wrk.is_finished() {
            proxy.reload(&other);
            proxy.reload(&config);
        }
        wrk.join().unwrap()
    });
    assert!(shown.contains(" requests in "), "{shown}");
    assert!(!shown.contains("Socket errors") && !shown.contains("Non-2xx"), "{shown}");
    assert!(upstream.count() > 10, "{shown}");
}

/// A client that agrees on HTTP/2 in the handshake and then says nothing; and what it prints, without which it would end.
struct Silent(Child, BufReader<ChildStdout>);

impl Silent {
    fn connect(proxy: &Proxy) -> Self {
        let words = ["s_client", "-connect", proxy.address("web"), "-alpn", "h2"];
        let mut command = Command::new("openssl");
        command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().unwrap();
        let printed = BufReader::new(process.stdout.take().unwrap());
        let mut silent = Self(process, printed);
        // It prints that when the handshake is done, and goes on as long as its input does.
        let mut lines = silent.1.by_ref().lines().map_while(Result::ok);
        assert!(lines.any(|line| line == "ALPN protocol: h2"));
        silent
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const PATIENT: &str = "max_connections = 1\ntimeouts = { header = \"1h\" }\n";

#[test]
fn a_client_that_only_agreed_on_http2_does_not_hold_up_the_end() {
    let proxy = proxy(&Upstream::saying("ok"), PATIENT);
    let silent = Silent::connect(&proxy);
    proxy.daemon.signal(Signal::TERM);
    let ended = proxy.daemon.wait();
    assert!(ended.status.success(), "{}", ended.log);
    // What is cut off at the end of --drain-max is told.
    assert!(!ended.log.contains("--drain-max has passed"), "{}", ended.log);
    drop(silent);
}

#[test]
fn a_client_that_only_agreed_on_http2_makes_room_for_another_d1() {
    let upstream = Upstream::saying("ok");
    let proxy = proxy(&upstream, PATIENT);
    let silent = Silent::connect(&proxy);
    assert_eq!(ask(&proxy, "one.test", "one", &["--max-time", "20"]).unwrap(), "ok");
    drop(silent);
}
