//! Random files: valid ones read back the same, and broken ones never panic.

use super::{EXAMPLE, HTTP_EXAMPLE, apply, database, read};
use crate::How;
use crate::{Document, export, parse};
use paceline_tables::value::{Atom, Datum};
use paceline_types::UuidSource;
use std::collections::BTreeMap;
use std::fmt::Write;

struct Random(UuidSource);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        (self.0.next_u64() % n as u64) as usize
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }

    /// A text with everything that could go wrong in quotes.
    fn text(&mut self) -> String {
        let len = self.below(8);
        let parts = [
            "a", "B", " ", "\"", "'", "\\", "\n", "\t", "\u{1}", "\u{7f}", "ä", "€", "*", "?", "[",
            "#", "=", "{", "'''", "nocase", " and ", "\u{85}", "\u{feff}",
        ];
        (0..len).map(|_| self.pick(&parts)).collect()
    }

    fn quoted(&mut self) -> String {
        crate::write::quoted(&self.text())
    }
}

/// A line `key = value`, more often than not.
fn maybe(out: &mut String, random: &mut Random, key: &str, value: String) {
    if random.chance(60) {
        writeln!(out, "{key} = {value}").unwrap();
    }
}

fn pool(out: &mut String, random: &mut Random, n: usize) {
    writeln!(out, "[[pool]]\nname = \"p{n}\"").unwrap();
    let low = random.below(200) as i64 - 100;
    let high = low + random.below(20) as i64;
    maybe(out, random, "priority", format!("[{low}, {high}]"));
    let (min, max) = (random.below(5), random.below(9));
    let threads = [
        format!("{{ min = {min} }}"),
        format!("{{ max = {max} }}"),
        format!("{{ min = {min}, max = {max} }}"),
    ];
    let threads = threads[random.below(3)].clone();
    maybe(out, random, "threads", threads);
    maybe(out, random, "queue", format!("{{ max_len = {max}, max_delay = \"{max}s\" }}"));
    let flag = random.chance(50);
    maybe(out, random, "persistent", flag.to_string());
    maybe(out, random, "started", (!flag).to_string());
    let group = random.quoted();
    maybe(out, random, "group", group);
    maybe(out, random, "stack_bytes", (min + 1).to_string());
}

fn criteria(random: &mut Random) -> String {
    let attributes = [
        "user",
        "text",
        "\"header.x-id\"",
        "header.y",
        "header",
        "\"we ird\"",
        "tag.a",
        "set",
        "\"9x\"",
        "priority",
    ];
    let is_own = random.chance(50);
    let mut seen = vec![];
    let mut each = vec![];
    for _ in 0..random.below(4) {
        let name = random.pick(&attributes);
        let clash = |other: &&str| {
            *other == name || (name.starts_with("header") && other.starts_with("header"))
        };
        if name.contains(' ') || seen.iter().any(clash) {
            continue;
        }
        seen.push(name);
        let pattern = random.quoted();
        let mode = random.pick(&["exact", "glob", "regex"]);
        each.push(match random.below(4) {
            0 if is_own && name != "header" => {
                format!("{name} = {{ {mode} = {pattern}, nocase = true }}")
            }
            1 if is_own && name != "header" => format!("{name} = {{ {mode} = {pattern} }}"),
            _ => format!("{name} = {pattern}"),
        });
    }
    format!("{{ {} }}", each.join(", "))
}

fn rule(out: &mut String, random: &mut Random, n: usize) {
    writeln!(out, "[[rule]]").unwrap();
    if random.chance(50) {
        writeln!(out, "number = {}", n * 1000).unwrap();
    }
    match random.below(4) {
        0 => {}
        1 => writeln!(
            out,
            "match = 'user glob {}* and user glob *b and header regex nocase x'",
            random.below(9)
        )
        .unwrap(),
        _ => {
            writeln!(out, "match = {}", criteria(random)).unwrap();
            let mode = format!("{:?}", random.pick(&["exact", "glob", "regex"]));
            maybe(out, random, "mode", mode);
            let nocase = random.chance(50);
            maybe(out, random, "nocase", nocase.to_string());
        }
    }
    let when = random.quoted();
    maybe(out, random, "when", when);
    let action = random.pick(&[
        "set = -5",
        "set = 5",
        "raise = 254",
        "lower = 1",
        "reject = true",
        "reject = false",
        "",
    ]);
    writeln!(out, "{action}").unwrap();
    let then = format!("{:?}", random.pick(&["stop", "continue"]));
    maybe(out, random, "then", then);
    let flag = random.chance(50);
    maybe(out, random, "disabled", flag.to_string());
    maybe(out, random, "log", flag.to_string());
}

fn checkpoint(out: &mut String, random: &mut Random, n: usize) {
    let at = random.pick(&["frontend api", "backend b", "server b/s", "pool p0"]);
    let name = crate::write::quoted(&format!("{}{n}", random.text()));
    writeln!(out, "[[checkpoint]]\nname = {name}\nat = \"{at}\"").unwrap();
    for key in ["when", "key", "fair", "weight"] {
        let text = random.quoted();
        maybe(out, random, key, text);
    }
    let number = random.below(1000) + 400;
    writeln!(
        out,
        "{}",
        random.pick(&["rate = \"5/s\"\nburst = 7", "concurrency = 0", "count = true", ""])
    )
    .unwrap();
    for key in ["number", "keys_max"] {
        maybe(out, random, key, number.to_string());
    }
    maybe(out, random, "period", format!("\"{number}ms\""));
    maybe(out, random, "queue", format!("{{ max_total = {number}, max_len = 0 }}"));
    maybe(out, random, "status", (number % 200 + 400).to_string());
    let mode = format!("{:?}", random.pick(&["enforce", "watch"]));
    maybe(out, random, "mode", mode);
    let on = format!("{:?}", random.pick(&["request", "connection"]));
    maybe(out, random, "on", on);
    let flag = random.chance(50);
    maybe(out, random, "persistent", flag.to_string());
}

fn resource(out: &mut String, random: &mut Random, names: &mut Vec<String>) {
    let name = crate::write::quoted(&format!("{}{}", random.text(), names.len()));
    writeln!(out, "[[resource]]\nname = {name}").unwrap();
    let parents: Vec<&str> =
        names.iter().filter(|_| random.chance(30)).map(String::as_str).collect();
    let parents = format!("[{}]", parents.join(", "));
    maybe(out, random, "parents", parents);
    names.push(name);
}

fn frontend(out: &mut String, random: &mut Random, (n, backends): (usize, &[String])) {
    writeln!(out, "[[frontend]]\nname = \"f{n}\"").unwrap();
    let listen =
        [format!("'127.0.0.1:{n}'"), format!("['[::1]:{n}', 'unix:/run/{n}', '0.0.0.0:{n}']")];
    writeln!(out, "listen = {}", listen[random.below(2)]).unwrap();
    if let Some(backend) = backends.first() {
        maybe(out, random, "backend", format!("\"{backend}\""));
        let mut each = vec![];
        for _ in 0..random.below(13) {
            let backend = &backends[random.below(backends.len())];
            each.push(format!("{{ when = {}, backend = '{backend}' }}", random.quoted()));
        }
        maybe(out, random, "use_backend", format!("[{}]", each.join(", ")));
    }
    let mut tls = vec![];
    for n in 0..random.below(13) {
        let file = crate::write::quoted(&format!("/{}", random.text()));
        tls.push(format!("{{ certificate = '/c/{n}', key = {file} }}"));
    }
    let is_one = tls.len() == 1 && random.chance(50);
    let tls = if is_one { tls[0].clone() } else { format!("[{}]", tls.join(", ")) };
    maybe(out, random, "tls", tls);
    for key in ["http2", "proxy_protocol", "persistent"] {
        let flag = random.chance(50).to_string();
        maybe(out, random, key, flag);
    }
    let trusted = random.pick(&["[]", "['10.0.0.1']", "['fd00::/8', '10.0.0.0/8']"]);
    maybe(out, random, "trusted", trusted.to_owned());
    let user = format!("{:?}", random.pick(&["basic", "bearer"]));
    maybe(out, random, "user", user);
    let upgrades = random.pick(&["[]", "['websocket']", "['h2c', 'WebSocket']", "'x'"]);
    maybe(out, random, "upgrades", upgrades.to_owned());
    maybe(out, random, "max_body", n.to_string());
    maybe(out, random, "max_connections", (n + 1).to_string());
    maybe(out, random, "timeouts", "{ header = '1s', queue = '0s', tunnel = '1h' }".to_owned());
    let errors = format!("{{ 503 = {}, \"429\" = '/x' }}", random.quoted());
    maybe(out, random, "errors", errors);
    let log = format!("{:?}", random.pick(&["json", "common"]));
    maybe(out, random, "access_log", log);
    let values = format!("{{ a = {}, 'ä\"' = {} }}", random.quoted(), random.quoted());
    maybe(out, random, "log_values", values);
}

fn backend(out: &mut String, random: &mut Random, backends: &mut Vec<String>) {
    let name = format!("b{}", backends.len());
    writeln!(out, "[[backend]]\nname = \"{name}\"").unwrap();
    backends.push(name);
    let balance =
        format!("{:?}", random.pick(&["round-robin", "least-connections", "power-of-two"]));
    maybe(out, random, "balance", balance);
    let mut servers = vec![];
    for n in 0..random.below(13) {
        let mut server = format!("address = 'a.b:{}'", n + 1);
        if random.chance(50) {
            write!(server, ", name = 's/{n}'").unwrap();
        }
        if random.chance(50) {
            write!(server, ", weight = {n}, max_connections = {}", n + 1).unwrap();
        }
        servers.push(format!("{{ {server} }}"));
    }
    maybe(out, random, "servers", format!("[{}]", servers.join(", ")));
    maybe(out, random, "queue", "{ max_len = 0, max_delay = '5s' }".to_owned());
    maybe(out, random, "retries", "0".to_owned());
    let text = random.quoted();
    let health = ["true", "false", "{}", &format!("{{ path = {text}, fall = 4 }}")];
    let health = random.pick(&health).to_owned();
    maybe(out, random, "health", health);
    let tls = "{ name = 'api.internal', verify = false, certificate = '/c', key = '/k' }";
    let tls = random.pick(&["true", "false", "{}", "{ ca = '/ca' }", tls]).to_owned();
    maybe(out, random, "tls", tls.to_owned());
    maybe(out, random, "timeouts", "{ connect = '1s', idle = '2s' }".to_owned());
    let flag = random.chance(50).to_string();
    maybe(out, random, "persistent", flag);
}

fn file(seed: u64) -> String {
    let mut random = Random(UuidSource::from_number(seed));
    let mut out = String::new();
    let (mut names, mut backends) = (vec![], vec![]);
    if random.chance(20) {
        writeln!(out, "[http]").unwrap();
        maybe(&mut out, &mut random, "threads", "3".to_owned());
    }
    for n in 0..random.below(16) {
        match random.below(6) {
            4 => frontend(&mut out, &mut random, (n, &backends)),
            5 => backend(&mut out, &mut random, &mut backends),
            0 => pool(&mut out, &mut random, n),
            1 => rule(&mut out, &mut random, n),
            2 => checkpoint(&mut out, &mut random, n),
            _ => resource(&mut out, &mut random, &mut names),
        }
    }
    out
}

/// Rows by table and key: their columns, and their parents by name.
type Rows<'d> = BTreeMap<(&'d str, &'d str), (BTreeMap<&'d str, &'d Datum>, Vec<&'d str>)>;

/// The rows of a document: a value equal to the column's default counts as not set.
fn rows(document: &Document) -> Rows<'_> {
    let says = |name: &str, value: &Datum| {
        // For http2, unset differs from false.
        (name == "http2" || *value != Datum::One(Atom::Boolean(false))) && !value.is_empty()
    };
    document
        .objects()
        .iter()
        .map(|object| {
            let columns =
                object.columns.iter().filter(|(k, v)| says(k, v)).map(|(k, v)| (*k, v)).collect();
            let mut parents: Vec<&str> = object.parents.iter().map(String::as_str).collect();
            parents.sort_unstable();
            ((object.table, object.key.as_str()), (columns, parents))
        })
        .collect()
}

#[test]
fn what_is_exported_reads_back_as_the_same_rows() {
    let mut objects = 0;
    for seed in 0..2_000 {
        let text = file(seed);
        let document = match parse(&text) {
            Ok(document) => document,
            // Two rules may have the same number; everything else is valid.
            Err(errors) => {
                let twice = |error: &crate::ConfigError| error.message.ends_with("already");
                assert!(errors.iter().all(twice), "seed {seed}: {errors:?}\n{text}");
                continue;
            }
        };
        objects += document.objects().len();
        let mut database = database();
        apply(&mut database, &document);
        let written = export(&database.snapshot());
        let again = read(&written);
        assert_eq!(rows(&document), rows(&again), "seed {seed}\n{text}\n{written}");
        assert_eq!(
            again.apply(database.store(), How::default()).changes,
            [],
            "seed {seed}\n{written}"
        );
        assert_eq!(export(&database.snapshot()), written, "seed {seed}");
    }
    assert!(objects > 5_000, "too few files were valid: {objects} objects");
}

/// From one random file to another: the database then agrees with the second.
#[test]
fn a_file_applied_over_another_leaves_only_its_own() {
    for seed in 0..500 {
        let (Ok(one), Ok(two)) = (parse(&file(seed)), parse(&file(seed + 10_000))) else {
            continue;
        };
        let mut database = database();
        apply(&mut database, &one);
        apply(&mut database, &two);
        let again = read(&export(&database.snapshot()));
        assert_eq!(rows(&two), rows(&again), "seed {seed}");
        assert_eq!(two.apply(database.store(), How::default()).operations, [], "seed {seed}");
    }
}

fn mutate(text: &str, random: &mut Random) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for _ in 0..=random.below(3) {
        let at = random.below(chars.len().max(1));
        let end = (at + random.below(30)).min(chars.len());
        match random.below(5) {
            0 => drop(chars.drain(at..end)),
            1 => {
                let part: Vec<char> = chars[at..end].to_vec();
                let to = random.below(chars.len().max(1));
                chars.splice(to..to, part);
            }
            2 => {
                let part = random.text();
                chars.splice(at..at, part.chars());
            }
            3 => {
                let token = random.pick(&[
                    "[[",
                    "]]",
                    "= ",
                    "{",
                    "}",
                    "\"",
                    "''",
                    "-1",
                    "99999999999",
                    "true",
                    "\u{0}",
                    "\r",
                    "[",
                    ",",
                    "1e9",
                ]);
                chars.splice(at..end, token.chars());
            }
            _ => chars.truncate(at.max(chars.len() / 2)),
        }
    }
    chars.into_iter().collect()
}

#[test]
fn broken_files_never_panic_and_say_where() {
    let mut random = Random(UuidSource::from_number(7));
    let (mut broken, mut valid) = (0, 0);
    for round in 0..3_000 {
        let text = match round % 3 {
            0 => mutate(EXAMPLE, &mut random),
            1 => mutate(HTTP_EXAMPLE, &mut random),
            _ => mutate(&file(round), &mut random),
        };
        let result = parse(&text).and_then(|document| {
            // Planning is expensive, and a text that parses is mostly the same.
            if round % 8 == 0 { document.check().map(drop) } else { Ok(()) }
        });
        let lines = text.matches('\n').count() + 1;
        match result {
            Ok(()) => valid += 1,
            Err(errors) => {
                broken += 1;
                let inside = |error: &crate::ConfigError| {
                    (1..=lines).contains(&(error.line as usize)) && error.column > 0
                };
                assert!(!errors.is_empty() && errors.iter().all(inside), "{errors:?}\n{text}");
                assert!(errors.iter().all(|error| !error.message.contains('\n')), "{errors:?}");
            }
        }
    }
    assert!(broken > 500 && valid > 100, "{broken} broken, {valid} valid");
}
