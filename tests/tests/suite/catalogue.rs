//! Every setting of the catalogue through every door: set by the API and by the command line, read by both and over
//! OVSDB, exported, compared with the current configuration, and found on the reference page and in the help.

use paceline_catalogue::{Default, Holds, KINDS, Kind, Setting, Shape};
use paceline_tests::server::paceline_binary;
use paceline_tests::{Api, Client, Daemon, Launch, Scratch, tool};
use serde_json::{Map, Value, json};

/// A setting with its enclosing table: `max_len` in `queue`.
type Leaf = (Option<&'static Setting>, &'static Setting);

/// Settings that are not tables, each with the table that contains it.
fn leaves(kind: &'static Kind) -> Vec<Leaf> {
    let of = |setting: &'static Setting| {
        let own = (!matches!(setting.holds, Holds::Table(_))).then_some((None, setting));
        let inner = setting.inner().iter().map(move |inner| (Some(setting), inner));
        own.into_iter().chain(inner)
    };
    kind.settings.iter().filter(|setting| setting.is_in_api()).flat_map(of).collect()
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn example(setting: &Setting) -> Value {
    parsed(&setting.example().unwrap())
}

fn path_of((outer, setting): Leaf) -> String {
    outer
        .map_or_else(|| setting.name.to_owned(), |outer| format!("{}.{}", outer.name, setting.name))
}

fn put(body: &mut Map<String, Value>, path: &str, value: Value) {
    match path.split_once('.') {
        None => _ = body.insert(path.to_owned(), value),
        Some((outer, inner)) => {
            let outer = body.entry(outer).or_insert_with(|| json!({}));
            outer[inner] = value;
        }
    }
}

/// The required settings of an object of this kind.
fn bare(kind: &'static Kind) -> Map<String, Value> {
    let needed = kind.settings.iter().filter(|one| one.default == Default::Required);
    let needed = needed.filter(|one| one.name != kind.id);
    let mut bare: Map<String, Value> =
        needed.map(|one| (one.name.to_owned(), example(one))).collect();
    if kind.table == "User" {
        // The command line does not create a user without anything.
        bare.insert("role".into(), "client".into());
    }
    if kind.table == "Sql_Target" {
        // It has exactly one of two settings.
        bare.insert("upstream".into(), "postgresql://127.0.0.1:5432/app".into());
    }
    bare
}

/// The path of the tested object, and its key in the database.
fn place(kind: &Kind) -> (String, Value) {
    let list = format!("/v1/{}", kind.plural);
    match (kind.table, kind.id) {
        (_, "") => (list, json!([])),
        ("Server", _) => (format!("{list}/app/example"), json!([["name", "==", "example"]])),
        (_, "number") => (format!("{list}/10"), json!([["number", "==", 10]])),
        _ => (format!("{list}/example"), json!([["name", "==", "example"]])),
    }
}

struct Walk {
    scratch: Scratch,
    _daemon: Daemon,
    api: Api,
    ovsdb: Client,
    page: String,
}

impl Walk {
    fn start() -> Self {
        let scratch = Scratch::new();
        let socket = format!("punix:{}", scratch.join("db.sock").display());
        let daemon = Launch::new(&scratch).option("--ovsdb", socket).start().unwrap();
        let (mut api, ovsdb) = (daemon.api(), daemon.connect());
        let _ = api.call("PUT", "/v1/backends/app", &json!({ "persistent": true })).expect(201);
        let _ = api.call("PUT", "/v1/resources/disk", &json!({})).expect(201);
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference.md");
        let page = std::fs::read_to_string(page).unwrap();
        Self { scratch, _daemon: daemon, api, ovsdb, page }
    }

    /// The row of the tested object.
    fn row(&mut self, kind: &Kind) -> Value {
        let select = json!({ "op": "select", "table": kind.table, "where": place(kind).1 });
        let answer = self.ovsdb.call("transact", &json!(["Paceline", select])).unwrap();
        answer[0]["rows"][0].clone()
    }

    /// The output of the command line.
    fn paceline(&self, words: &[&str]) -> Result<String, String> {
        let data = self.scratch.join("data");
        let reach = ["--data", data.to_str().unwrap()];
        tool::run(paceline_binary().to_str().unwrap(), &[words, &reach].concat())
    }

    /// The configuration as `paceline export` writes it.
    fn export(&self) -> String {
        self.paceline(&["export"]).unwrap()
    }

    fn set(&mut self, kind: &'static Kind, leaf: Leaf) {
        let (outer, setting) = leaf;
        let (path, name) = (place(kind).0, path_of(leaf));
        let at = format!("{} {name}", kind.word);
        let mut body = bare(kind);
        let made = self.api.call("PUT", &path, &Value::Object(body.clone()));
        assert!(made.status < 300, "{at}: {}", made.text);
        let before = self.row(kind);
        for (other, value) in setting.beside {
            put(&mut body, other, parsed(value));
        }
        let value = example(setting);
        put(&mut body, &name, value.clone());
        let change = self.api.call("PATCH", &path, &Value::Object(body.clone()));
        let changed = match change.status {
            405 => self.api.call("PUT", &path, &Value::Object(body)),
            _ => change,
        };
        assert_eq!(changed.status, 200, "{at}: {}", changed.text);

        let shown = self.api.get(&path).expect(200);
        let shown = outer.map_or(&shown, |outer| &shown[outer.name]);
        if setting.is_shown {
            assert_eq!(shown[setting.name], value, "{at}");
        }
        let row = self.row(kind);
        if setting.default == Default::Required {
            assert!(!row[setting.column].is_null(), "{at}");
        } else {
            assert_ne!(row[setting.column], before[setting.column], "{at}");
        }
        if value.is_number() && setting.name == setting.column {
            assert_eq!(row[setting.column], value, "{at}");
        }
        self.written(kind, leaf, &at);
        if !kind.id.is_empty() {
            let _ = self.api.delete(&path).expect(204);
        }
    }

    /// Checks that the exported file contains the setting and means the same, and that the page describes it.
    fn written(&mut self, kind: &Kind, leaf: Leaf, at: &str) {
        let (_, setting) = leaf;
        let exported = self.export();
        // Only objects that are not persistent are marked in the file.
        let is_written = setting.is_in_file() && setting.is_shown && setting.name != "persistent";
        let key = format!("{} = ", setting.name);
        assert!(!is_written || exported.contains(&key), "{at}: {exported}");
        let applied = self.apply(&exported);
        // Applying also saves the running rules, and warns about doubtful settings.
        let is_same = |edit: &Value| {
            let is_saved = edit["kind"] == "saved-rule" || edit["op"] == "warning";
            let members = edit["members"].as_array();
            is_saved || edit["op"] == "change" && members.is_none_or(Vec::is_empty)
        };
        assert!(applied.as_array().unwrap().iter().all(is_same), "{at}: {applied}\n{exported}");
        let head = format!("table `{}` of the database", kind.table);
        let section = self.page.split("\n## ").find(|section| section.contains(&head)).unwrap();
        assert!(section.contains(&format!("| `{}` | ", path_of(leaf))), "{at}");
    }

    fn apply(&mut self, text: &str) -> Value {
        let head = format!(
            "POST /v1/apply?dry_run=true HTTP/1.1\r\nhost: x\r\ncontent-type: application/toml\r\ncontent-length: {}\r\n\r\n",
            text.len()
        );
        self.api.raw(format!("{head}{text}").as_bytes()).unwrap();
        self.api.answer().expect(200)
    }
}

/// The flags that set this value.
fn flags(path: &str, setting: &Setting, value: &Value) -> Vec<String> {
    let name = match path {
        // On every command, `--log` sets the log level.
        "log" => "--log-matches".to_owned(),
        path => format!("--{}", path.replace(['.', '_'], "-")),
    };
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let one = |text: String| vec![format!("{name}={text}")];
    match (&setting.holds, value) {
        (_, Value::Null) => vec![format!("--reset={path}")],
        (Holds::Own(_, Shape::Objects(_)), value) => one(value.to_string()),
        (Holds::Own(_, Shape::Pair(..)), value) => one(format!("{}..{}", value[0], value[1])),
        (Holds::Own(_, Shape::Patterns(_)), Value::Object(patterns)) => {
            let each = patterns.iter().flat_map(|(attribute, pattern)| match pattern {
                Value::Object(mode) => {
                    let (mode, pattern) = mode.iter().next().unwrap();
                    vec![format!("{name}={attribute}={}", plain(pattern)), format!("--mode={mode}")]
                }
                pattern => vec![format!("{name}={attribute}={}", plain(pattern))],
            });
            each.collect()
        }
        (_, Value::Array(texts)) => {
            texts.iter().map(|text| format!("{name}={}", plain(text))).collect()
        }
        (_, Value::Object(pairs)) => {
            pairs.iter().map(|(key, value)| format!("{name}={key}={}", plain(value))).collect()
        }
        (_, value) => one(plain(value)),
    }
}

/// The setting of this path, such as `queue.max_len`.
fn at_path(kind: &'static Kind, path: &str) -> &'static Setting {
    let (outer, inner) = path.split_once('.').unwrap_or((path, ""));
    let outer = kind.setting(outer).unwrap();
    outer.inner().iter().find(|setting| setting.name == inner).unwrap_or(outer)
}

/// The verbs of the command line that create and change the tested object.
fn verbs(kind: &Kind) -> (Vec<&'static str>, Vec<&'static str>) {
    match (kind.table, kind.plural) {
        (_, plural) if kind.id.is_empty() => (vec![], vec![plural, "set"]),
        ("Rule", _) => (vec!["rules", "new", "--number", "10"], vec!["rules", "set", "10"]),
        ("Server", _) => {
            (vec!["servers", "create", "app/example"], vec!["servers", "set", "app/example"])
        }
        ("User", _) => (vec!["users", "set", "example"], vec!["users", "set", "example"]),
        (_, plural) => (vec![plural, "create", "example"], vec![plural, "set", "example"]),
    }
}

impl Walk {
    /// Runs a command with these flags.
    #[track_caller]
    fn run(&self, words: &[&str], flags: &[String], at: &str) -> String {
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let words = [words, &flags].concat();
        // The files of the examples do not exist, so the frontend is changed and cannot serve as it says.
        let is_changed = "is changed, but the HTTP door differs from the configuration";
        match self.paceline(&words) {
            Err(error) if error.contains(is_changed) => String::new(),
            done => done.unwrap_or_else(|error| panic!("{at}: {words:?}: {error}")),
        }
    }

    /// The tested object as the command line lists it.
    fn listed(&self, kind: &Kind) -> Value {
        let shown = parsed(&self.paceline(&[kind.plural, "--json"]).unwrap());
        let Value::Array(list) = shown else { return shown };
        let is_ours = |one: &Value| match kind.id {
            "number" => one["number"] == 10,
            id => one[id].as_str().is_some_and(|name| name.ends_with("example")),
        };
        list.into_iter().find(is_ours).unwrap()
    }

    fn set_by_flags(&mut self, kind: &'static Kind, leaf: Leaf) {
        let (outer, setting) = leaf;
        let (path, value) = (path_of(leaf), example(setting));
        let at = format!("{} {path}", kind.plural);
        let (create, change) = verbs(kind);
        let of = |name: &str, value: &Value| flags(name, at_path(kind, name), value);
        if !create.is_empty() {
            let bare = bare(kind);
            let given: Vec<String> =
                bare.iter().flat_map(|(name, value)| of(name, value)).collect();
            self.run(&create, &given, &at);
        }
        let beside = setting.beside.iter().flat_map(|(name, value)| of(name, &parsed(value)));
        let given: Vec<String> = beside.chain(of(&path, &value)).collect();
        self.run(&change, &given, &at);
        let shown = self.listed(kind);
        let shown = outer.map_or(&shown, |outer| &shown[outer.name]);
        if setting.is_shown {
            assert_eq!(shown[setting.name], value, "{at}");
        }
        self.written(kind, leaf, &at);
        let help = self.paceline(&[&change[..2], &["--help"]].concat()).unwrap();
        let flag = given.last().unwrap().split('=').next().unwrap();
        assert!(help.contains(flag), "{at}: {flag} is not in the help:\n{help}");
        if !create.is_empty() {
            let name = change[2];
            self.run(&[kind.plural, "delete", name], &[], &at);
        }
    }
}

/// Settings that the test sets. Saved rules are read-only, and tokens are secrets that are created once.
fn walked() -> Vec<(&'static Kind, Leaf)> {
    let kinds = KINDS.into_iter().filter(|kind| !["Saved_Rule", "Token"].contains(&kind.table));
    let all: Vec<(&Kind, Leaf)> = kinds
        .flat_map(|kind| {
            let leaves = leaves(kind).into_iter().filter(|(_, setting)| setting.name != kind.id);
            leaves.map(move |leaf| (kind, leaf))
        })
        .collect();
    assert!(all.len() > 70, "{}", all.len());
    all
}

#[test]
fn every_setting_is_set_read_exported_and_described() {
    let mut walk = Walk::start();
    walked().into_iter().for_each(|(kind, leaf)| walk.set(kind, leaf));
}

#[test]
fn every_setting_is_set_and_read_by_the_command_line() {
    let mut walk = Walk::start();
    walked().into_iter().for_each(|(kind, leaf)| walk.set_by_flags(kind, leaf));
}
