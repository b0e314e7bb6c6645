//! Compares the manuals of the HTTP door with the daemon: every configuration in them is checked, their links are
//! valid, and their statements about refused requests (promises H1 and D2) and about what a server gets (H2, H3, H4
//! and H5) are true.

use paceline_tests::server::paceline_binary;
use paceline_tests::{Daemon, Launch, Scratch};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const MANUALS: [&str; 3] = ["docs/http.md", "docs/from-haproxy-and-nginx.md", "README.md"];

/// Pages with configurations. Those of the README are parts of its stories, which `readme.rs` runs.
const CONFIGURED: [&str; 3] =
    ["docs/http.md", "docs/from-haproxy-and-nginx.md", "docs/configuration.md"];

/// How long a response may take.
const PATIENCE: Duration = Duration::from_secs(30);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn manual(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap()
}

/// The blocks in this language, each with its first line.
fn blocks(text: &str, language: &str) -> Vec<(usize, String)> {
    let fence = format!("```{language}");
    let mut found = vec![];
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        if !line.starts_with("```") {
            continue;
        }
        let block: Vec<&str> =
            lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
        if line == fence {
            found.push((at + 1, block.join("\n") + "\n"));
        }
    }
    found
}

/// The lines outside of blocks.
fn prose(text: &str) -> Vec<&str> {
    let mut is_fenced = false;
    text.lines()
        .filter(|line| {
            let is_fence = line.starts_with("```");
            is_fenced ^= is_fence;
            !is_fenced && !is_fence
        })
        .collect()
}

/// The anchor of a heading: lower case, without punctuation, with hyphens for spaces.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

fn anchors(text: &str) -> Vec<String> {
    let headings = prose(text).into_iter().filter(|line| line.starts_with('#'));
    headings.map(|line| anchor(line.trim_start_matches('#'))).collect()
}

/// The targets of links within the project.
fn links(text: &str) -> Vec<String> {
    let mut found = vec![];
    for line in prose(text) {
        let line: String = line.split('`').step_by(2).collect();
        for (at, _) in line.match_indices("](") {
            let target = line[at + 2..].split(')').next().unwrap();
            if !target.contains("://") {
                found.push(target.to_owned());
            }
        }
    }
    found
}

#[test]
fn every_configuration_of_the_manuals_is_right() {
    let scratch = Scratch::new();
    for name in CONFIGURED {
        let text = manual(name);
        let blocks = blocks(&text, "toml");
        assert!(!blocks.is_empty(), "{name} shows configurations");
        for (line, block) in blocks {
            let file = scratch.write("block.toml", &block);
            let output = Command::new(paceline_binary()).arg("check").arg(file).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{name}:{line}: {said}\n{block}");
        }
    }
}

#[test]
fn links_of_the_manuals_lead_to_a_file_and_a_heading() {
    for name in MANUALS {
        let text = manual(name);
        let links = links(&text);
        assert!(links.len() >= 3, "{name} has links");
        for link in links {
            let (file, heading) = link.split_once('#').unwrap_or((&link, ""));
            let own = root().join(name);
            let path = if file.is_empty() { own } else { own.with_file_name(file) };
            assert!(path.exists(), "{name}: {link} leads nowhere");
            let there = std::fs::read_to_string(&path).unwrap_or_default();
            let is_found = heading.is_empty() || anchors(&there).contains(&heading.into());
            assert!(is_found, "{name}: {link} has no such heading");
        }
    }
}

/// A daemon with one frontend before one server.
fn proxy(scratch: &Scratch, server: &TcpListener) -> Daemon {
    let text = format!(
        "[[frontend]]\nname = \"web\"\nlisten = \"127.0.0.1:0\"\nbackend = \"app\"\n\
         [[backend]]\nname = \"app\"\nservers = [{{ address = \"{}\" }}]\n",
        server.local_addr().unwrap()
    );
    let file = scratch.write("web.toml", text);
    Launch::new(scratch).option("--config", file).start().unwrap()
}

/// A connection to its frontend.
fn connect(daemon: &Daemon) -> TcpStream {
    let (_, rest) = daemon.ready.split_once("http web ").expect(&daemon.ready);
    let address = rest.split([',', ';']).next().unwrap();
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Refused requests, each with the line of the manual about it.
fn refused() -> Vec<(Vec<u8>, &'static str)> {
    let get = |rest: &str| format!("GET / HTTP/1.1\r\nHost: a\r\n{rest}\r\n").into_bytes();
    let post = |rest: &str| format!("POST / HTTP/1.1\r\nHost: a\r\n{rest}").into_bytes();
    let line = |line: &str| format!("{line}\r\nHost: a\r\n\r\n").into_bytes();
    let host = |host: &str| format!("GET / HTTP/1.1\r\n{host}\r\n").into_bytes();
    let chunked = |body: &str| post(&format!("Transfer-Encoding: chunked\r\n\r\n{body}"));
    vec![
        (
            post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
            "400 Content-Length and Transfer-Encoding stand in one head",
        ),
        (
            post("Content-Length: 1\r\nContent-Length: 1\r\n\r\nx"),
            "400 there are two Content-Length fields",
        ),
        (post("Content-Length: +1\r\n\r\nx"), "400 Content-Length is no number"),
        (
            post("Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
            "400 the only transfer coding known is chunked, once",
        ),
        (
            b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".to_vec(),
            "400 Transfer-Encoding stands in a head of HTTP/1.0",
        ),
        (b"GET / HTTP/1.1\nHost: a\n\n".to_vec(), "400 a line of the head does not end with CR LF"),
        (get("X: a\rb\r\n"), "400 a line of the head does not end with CR LF"),
        (get("X: a\0b\r\n"), "400 a header field's value has a control character"),
        (get("X : a\r\n"), "400 a header field's name has a character that is not allowed"),
        (get("X: a\r\n b\r\n"), "400 a header field is continued on the next line"),
        (host(""), "400 there is no Host field"),
        (host("Host: a\r\nHost: a\r\n"), "400 there are two Host fields"),
        (host("Host: a/b\r\n"), "400 the Host field is no host"),
        (line("GET / HTTP/1.2"), "400 the version is neither HTTP/1.1 nor HTTP/1.0"),
        (
            line("GET /"),
            "400 the first line is not METHOD TARGET HTTP/1.1, with one blank between each",
        ),
        (line("GET  / HTTP/1.1"), "400 the target has a character that is not allowed"),
        (line("GET /a#b HTTP/1.1"), "400 the target has a fragment"),
        (line("GET /%zz HTTP/1.1"), "400 the path has a percent sign without two digits"),
        (line("GET /%00 HTTP/1.1"), "400 the path has an encoded control character"),
        (line("CONNECT a:443 HTTP/1.1"), "405 the method CONNECT is not for this server"),
        (
            line(&format!("GET /{} HTTP/1.1", "a".repeat(8_192))),
            "414 the target of the request has more than 8192 bytes",
        ),
        (
            post("Expect: more\r\nContent-Length: 1\r\n\r\nx"),
            "417 the only expectation known is 100-continue",
        ),
        (
            get(&"X: a\r\n".repeat(100)),
            "431 the head of the request has more than 32768 bytes or 100 fields",
        ),
        (
            get(&format!("X: {}\r\n", "a".repeat(32_768))),
            "431 the head of the request has more than 32768 bytes or 100 fields",
        ),
        (chunked("0x1\r\nx\r\n0\r\n\r\n"), "400 the size of a chunk is no number"),
        (chunked("1;a\nx\r\n0\r\n\r\n"), "400 a line of a chunk does not end with CR LF"),
    ]
}

#[test]
fn what_is_refused_is_what_the_manual_lists() {
    let scratch = Scratch::new();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let daemon = proxy(&scratch, &server);
    let listed: Vec<String> = blocks(&manual("docs/http.md"), "text")
        .into_iter()
        .flat_map(|(_, block)| block.lines().map(str::to_owned).collect::<Vec<_>>())
        .filter(|line| line.starts_with('4') && !line.contains("checkpoint"))
        .collect();
    let refused = refused();
    for line in &listed {
        let is_tried = refused.iter().any(|(_, message)| message == line);
        assert!(is_tried, "the manual says {line}, which nobody has tried");
    }
    for (request, message) in refused {
        assert!(listed.iter().any(|line| line == message), "the manual has no line {message}");
        let mut stream = connect(&daemon);
        stream.write_all(&request).unwrap();
        let mut answer = String::new();
        // The connection is closed after each of them, so the response ends.
        stream.read_to_string(&mut answer).unwrap();
        let shown = String::from_utf8_lossy(&request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {} ", &message[..3])), "{shown}\n{answer}");
        assert!(answer.contains("\r\nConnection: close\r\n"), "{shown}\n{answer}");
        assert!(answer.ends_with(&format!("\r\n\r\n{message}\n")), "{shown}\n{answer}");
    }
}

/// Reads a head from a connection to the server, and answers it.
fn head_at(server: &TcpListener) -> String {
    let (mut stream, _) = server.accept().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).unwrap() > 0, "it ends within {head}");
    }
    stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
    head
}

#[test]
fn what_a_server_gets_is_what_the_manual_shows() {
    let scratch = Scratch::new();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let daemon = proxy(&scratch, &server);
    let text = manual("docs/http.md");
    let (line, sent) = blocks(&text, "http").pop().expect("the manual shows a request");
    let got = blocks(&text, "text").into_iter().find(|(at, _)| *at > line);
    let (_, got) = got.expect("and what becomes of it");
    let lines = |text: &str| text.replace('\n', "\r\n") + "\r\n";
    let mut stream = connect(&daemon);
    stream.write_all(lines(&sent).as_bytes()).unwrap();
    assert_eq!(head_at(&server), lines(&got));
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 204 "), "{answer}");
}
