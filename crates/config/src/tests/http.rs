//! Frontends, backends and servers: their rows, every possible error, and warnings.

use super::{HTTP_EXAMPLE, apply, column, database, object, read, wrong};
use crate::How;
use crate::{Change, Place, export};
use paceline_model::Model;
use paceline_model::schema::schema;
use std::sync::Arc;

/// The lines of a valid frontend and a valid backend.
const FRONTEND: &str = "[[frontend]]\nname = 'web'\nlisten = '127.0.0.1:80'\nbackend = 'app'\n";
const BACKEND: &str = "[[backend]]\nname = 'app'\nservers = [{ name = 'a', address = 'app:80' }]\n";

/// Each text, placed after a valid backend and a valid frontend, with its only error. The frontend ends with line 7.
fn check_frontend(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(wrong(&format!("{BACKEND}{FRONTEND}{text}")), [*expected], "{text}");
    }
}

/// The same for a backend that follows the frontend; the texts begin in line 6.
fn check_backend(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        let text = format!("{FRONTEND}[[backend]]\n{text}");
        assert_eq!(wrong(&text), [*expected], "{text}");
    }
}

#[test]
fn keys_of_frontends_that_are_wrong_say_where() {
    check_frontend(&[
        ("upgrade = []", "8:1: unknown key `upgrade` in [[frontend]], did you mean `upgrades`?"),
        (
            "timeouts = { headers = '1s' }",
            "8:14: unknown key `headers` in `timeouts` of [[frontend]], did you mean `header`?",
        ),
        ("timeouts = '1s'", "8:12: `timeouts`: expected a table, found the text \"1s\""),
        (
            "timeouts = { idle = 5 }",
            "8:21: `timeouts.idle`: expected a length of time such as \"10m\", found the number 5",
        ),
        ("timeouts = { idle = '0s' }", "8:14: `timeouts.idle`: expected at least 1ms, found 0s"),
        ("http2 = 'yes'", "8:9: `http2`: expected true or false, found the text \"yes\""),
        (
            "user = 'cookie'",
            "8:8: `user`: expected \"basic\" or \"bearer\", found the text \"cookie\"",
        ),
        ("access_log = true", "8:14: `access_log`: expected \"json\" or \"common\", found true"),
        (
            "max_body = '10M'",
            "8:12: `max_body`: expected a whole number of at least 0, found the text \"10M\"",
        ),
        (
            "max_connections = 0",
            "8:19: `max_connections`: expected a whole number from 1 to 4294967295, found the number 0",
        ),
        (
            "trusted = ['10.0.0.0/8',\n  'intranet']",
            "9:3: `trusted`: expected an address, or a network such as \"10.0.0.0/8\" or \"fd00::/8\", found \"intranet\"",
        ),
        (
            "trusted = [10]",
            "8:12: `trusted`: expected a list of addresses and networks such as \"10.0.0.0/8\", found the number 10",
        ),
        ("trusted = ['::1', '::1']", "8:19: `trusted`: `::1` is named twice"),
        (
            "upgrades = ['web socket']",
            "8:1: `upgrades`: expected a protocol such as \"websocket\", found \"web socket\"",
        ),
        (
            "use_backend = 'app'",
            "8:15: `use_backend`: expected a list of tables { when = \"...\", backend = \"...\" }, found the text \"app\"",
        ),
        (
            "use_backend = [\n  { when = 'true', backend = 'app' },\n  { when = 'true', backend = 'ap' },\n]",
            "10:30: `use_backend.backend`: there is no backend `ap`, did you mean `app`?",
        ),
        (
            "use_backend = [\n  { if = 'true', when = 'true', backend = 'app' }]",
            "9:5: unknown key `if` in `use_backend` of [[frontend]]",
        ),
        ("use_backend = [\n  { backend = 'app' }]", "9:3: `use_backend`: this table has no `when`"),
        (
            "use_backend = [{ when = true, backend = 'app' }]",
            "8:25: `use_backend.when`: expected a text, found true",
        ),
        (
            "use_backend = [\n  1]",
            "9:3: `use_backend`: expected a list of tables { when = \"...\", backend = \"...\" }, found the number 1",
        ),
        (
            "[[frontend.use_backend]]\nwhen = 'true'\nbackend = 'apq'",
            "10:11: `use_backend.backend`: there is no backend `apq`, did you mean `app`?",
        ),
        (
            "tls = 'a.pem'",
            "8:7: `tls`: expected a table { certificate = \"FILE\", key = \"FILE\" }, or a list of them, found the text \"a.pem\"",
        ),
        ("tls = { certificate = '/a' }", "8:7: `tls`: this table has no `key`"),
        (
            "tls = [{ certificate = '/a', key = '/b' },\n  { cert = '/a', certificate = '/a', key = '/b' }]",
            "9:5: unknown key `cert` in `tls` of [[frontend]]",
        ),
        (
            "tls = [{ certificate = '/a', key = '/b' },\n  { certificate = '/a', key = 'b' }]",
            "9:31: `tls.key`: expected an absolute path of at most 4095 bytes, found \"b\"",
        ),
        (
            "errors = { 503 = '/a', 200 = '/a' }",
            "8:24: `errors`: expected a status from 400 to 599, found `200`",
        ),
        (
            "errors = { 503 = 1 }",
            "8:18: `errors.503`: expected the name of a file, found the number 1",
        ),
        (
            "errors = { 502 = '/a', 503 = 'b' }",
            "8:30: `errors`: expected an absolute path of at most 4095 bytes, found \"b\"",
        ),
        (
            "errors = ['/a']",
            "8:10: `errors`: expected a table of files by status, such as { 503 = \"FILE\" }, found a list",
        ),
        (
            "log_values = { 'a b' = 'user' }",
            "8:16: `log_values`: expected a name without blanks and control characters",
        ),
        (
            "log_values = { a = 1 }",
            "8:20: `log_values.a`: expected an expression as a text, found the number 1",
        ),
        (FRONTEND, "9:1: frontend `web` is on line 5 already"),
        ("[http]\nthread = 1", "9:1: unknown key `thread` in [http], did you mean `threads`?"),
        (
            "[http]\nthreads = 0",
            "9:11: `threads`: expected a whole number from 1 to 1024, found the number 0",
        ),
        ("[[http]]\nthreads = 1", "8:3: expected the table [http]"),
        (
            "[[checkpoint]]\nname = 'c'\nat = 'frontend web'\non = 'packet'",
            "11:6: `on`: expected \"request\" or \"connection\", found the text \"packet\"",
        ),
    ]);
}

#[test]
fn addresses_to_listen_on_are_checked_one_by_one() {
    for (listen, expected) in [
        (
            "'80'",
            "3:10: `listen`: expected an address such as \"127.0.0.1:80\", \"[::1]:80\", \"app.internal:80\" or \"unix:/run/app.sock\", found \"80\"",
        ),
        (
            "['127.0.0.1:80', 'localhost:80']",
            "3:27: `listen`: expected an IP address to listen on, such as \"127.0.0.1:80\", found \"localhost:80\"",
        ),
        ("[]", "3:10: `listen`: expected at least one address"),
        (
            "80",
            "3:10: `listen`: expected an address such as \"127.0.0.1:80\", or a list of them, found the number 80",
        ),
        (
            "[['127.0.0.1:80']]",
            "3:11: `listen`: expected an address such as \"127.0.0.1:80\", or a list of them, found a list",
        ),
    ] {
        let text = format!("[[frontend]]\nname = 'web'\nlisten = {listen}\n");
        assert_eq!(wrong(&text), [expected], "{listen}");
    }
    let missing = "[[frontend]]\nname = 'web'\n";
    assert_eq!(wrong(missing), ["1:1: this [[frontend]] has no `listen`"]);
    assert_eq!(wrong("[[frontent]]\n"), ["1:3: unknown key `frontent`, did you mean `frontend`?"]);
    assert_eq!(wrong("[htpp]\n"), ["1:2: unknown key `htpp`, did you mean `http`?"]);
    let unknown = "[[frontend]]\nname = 'web'\nlisten = '127.0.0.1:80'\nbackend = 'app'\n";
    assert_eq!(wrong(unknown), ["4:11: `backend`: there is no backend `app`"]);
}

#[test]
fn keys_of_backends_and_servers_that_are_wrong_say_where() {
    check_backend(&[
        (
            "name = 'app'\nbalance = 'random'",
            "7:11: `balance`: expected \"round-robin\" or \"least-connections\" or \"power-of-two\", found the text \"random\"",
        ),
        (
            "name = 'app'\nretries = -1",
            "7:11: `retries`: expected a whole number from 0 to 100, found the number -1",
        ),
        (
            "name = 'app'\nqueue = { max_total = 1 }",
            "7:11: unknown key `max_total` in `queue` of [[backend]]",
        ),
        (
            "name = 'app'\nhealth = 'yes'",
            "7:10: `health`: expected a table, true or false, found the text \"yes\"",
        ),
        (
            "name = 'app'\nhealth = { paht = '/' }",
            "7:12: unknown key `paht` in `health` of [[backend]], did you mean `path`?",
        ),
        (
            "name = 'app'\nhealth = { path = 'up' }",
            "7:12: `health.path`: expected a path such as \"/health\", found \"up\"",
        ),
        (
            "name = 'app'\ntls = 'yes'",
            "7:7: `tls`: expected a table, true or false, found the text \"yes\"",
        ),
        ("name = 'app'\ntls = { cert = '/c' }", "7:9: unknown key `cert` in `tls` of [[backend]]"),
        (
            "name = 'app'\ntls = { verify = 'no' }",
            "7:18: `tls.verify`: expected true or false, found the text \"no\"",
        ),
        (
            "name = 'app'\ntls = { verify = true, ca = 'ca.pem' }",
            "7:24: `tls.ca`: expected an absolute path of at most 4095 bytes, found \"ca.pem\"",
        ),
        (
            "name = 'app'\ntls = { certificate = '/c' }",
            "7:1: `tls.key`: expected the key of the certificate",
        ),
        (
            "name = 'app'\ntls = { key = '/c' }",
            "7:1: `tls.certificate`: expected the certificate of the key",
        ),
        (
            "name = 'app'\ntls = { name = 'a b' }",
            "7:9: `tls.name`: expected the name of a host or an IP address, found \"a b\"",
        ),
        (
            "name = 'app'\nservers = [{ name = 'a', address = 'unix:/a' }]\ntls = true",
            "8:1: `tls.name`: expected the name that the certificate of server \"a\" is for, because its address has none",
        ),
        (
            "name = 'app'\nservers = ['app:80']",
            "7:12: `servers`: expected a list of tables { name = \"...\", address = \"...\" }, found the text \"app:80\"",
        ),
        (
            "name = 'app'\nservers = [\n  { address = 'app:80' },\n  { adress = 'app:81', address = 'app:82' },\n]",
            "9:5: unknown key `adress` in `servers` of [[backend]], did you mean `address`?",
        ),
        (
            "name = 'app'\nservers = [\n  { name = 'a' },\n]",
            "8:3: `servers`: this server has no `address`",
        ),
        (
            "name = 'app'\nservers = [\n  { name = 'a', address = 'app' },\n]",
            "8:27: `servers.address`: expected an address such as \"127.0.0.1:80\", \"[::1]:80\", \"app.internal:80\" or \"unix:/run/app.sock\", found \"app\"",
        ),
        (
            "name = 'app'\nservers = [\n  { address = 'app:0' },\n]",
            "8:5: `address`: expected a port to connect to, found \"app:0\"",
        ),
        (
            "name = 'app'\nservers = [\n  { name = 'a', address = 'app:80' },\n  { name = 'a', address = 'app:81' },\n]",
            "9:5: server `app/a` is on line 8 already",
        ),
        (
            "name = 'app'\nservers = [\n  { address = 'app:80' },\n  { address = 'app:80' },\n]",
            "9:5: server `app/app:80` is on line 8 already",
        ),
        (
            "name = 'app'\nservers = [{ address = 'app:80', weight = -1 }]",
            "7:43: `servers.weight`: expected a whole number from 0 to 256, found the number -1",
        ),
        (
            "name = 'app'\n[[backend.servers]]\nname = 'a b'\naddress = 'app:80'",
            "8:8: `servers.name`: expected a name without blanks and control characters",
        ),
    ]);
    let slash = "[[backend]]\nname = 'a/b'\n";
    assert_eq!(wrong(slash), ["2:8: `name`: expected a name without a slash"]);
}

#[test]
fn the_example_means_these_rows() {
    let document = read(HTTP_EXAMPLE).within("/etc/paceline/");
    let web = object(&document, "Frontend", "web");
    for (name, value) in [
        ("backend", "app"),
        ("http2", "true"),
        ("user", "bearer"),
        ("upgrades", "websocket"),
        ("max_body", "10485760"),
        ("timeout_tunnel", "1h"),
        ("persistent", "true"),
        ("file", "-"),
    ] {
        assert_eq!(column(web, name), value, "{name}");
    }
    let named = object(&document, "Server", "app/a");
    let found = ["backend", "name", "address", "weight", "max_connections", "persistent"]
        .map(|name| column(named, name));
    assert_eq!(found, ["app", "a", "10.0.0.11:8080", "2", "100", "true"]);
    // A server without a name is named by its address.
    let unnamed = object(&document, "Server", "files/unix:/run/files.sock");
    assert_eq!(column(unnamed, "name"), "unix:/run/files.sock");
    assert_eq!(column(object(&document, "Http", "http"), "threads"), "2");
    assert_eq!(column(object(&document, "Checkpoint", "connections"), "on"), "connection");

    let mut database = database();
    apply(&mut database, &document);
    let mut model = Model::new(Arc::new(schema().unwrap())).unwrap();
    let config = model.config(database.store()).unwrap();
    let web = config.frontends.iter().find(|frontend| &*frontend.name == "web").unwrap();
    let files: Vec<&str> = web.certificates.iter().map(|file| &*file.key).collect();
    assert_eq!(files, ["/etc/paceline/tls/example.org.key", "/etc/paceline/tls/example.net.key"]);
    assert_eq!(&*web.errors[0].file, "/etc/paceline/errors/busy.html");
    let backends: Vec<&str> = web.use_backend.iter().map(|line| &*line.backend).collect();
    assert_eq!(backends, ["files", "internal", "overflow"], "in the order of the file");
    let app = config.backends.iter().find(|backend| &*backend.name == "app").unwrap();
    assert_eq!((app.servers.len(), app.retries), (3, 2));
    assert_eq!(app.health.as_ref().unwrap().path.as_deref(), Some("/health"));
    let internal = config.backends.iter().find(|backend| &*backend.name == "internal").unwrap();
    let tls = internal.tls.as_ref().unwrap();
    assert_eq!(tls.ca.as_deref(), Some("/etc/paceline/tls/internal-ca.pem"));
    assert_eq!((tls.name.as_deref(), tls.verify), (Some("api.internal"), true));
    assert_eq!(&*tls.certificate.as_ref().unwrap().key, "/etc/paceline/tls/client.key");
}

#[test]
fn relative_files_are_beside_the_file_and_others_stay() {
    let text = format!(
        "{BACKEND}{FRONTEND}tls = {{ certificate = './a.pem', key = '/k/b.pem' }}\nerrors = {{ 503 = 'e/x' }}\n"
    );
    let document = read(&text).within("/etc");
    let mut database = database();
    apply(&mut database, &document);
    let written = export(&database.snapshot());
    for line in [
        "tls = { certificate = \"/etc/a.pem\", key = \"/k/b.pem\" }\n",
        "errors = { 503 = \"/etc/e/x\" }\n",
    ] {
        assert!(written.contains(line), "{written}");
    }
    assert!(document.check().is_ok());
    let errors = read(&text).check().unwrap_err();
    let hint = errors[0].hint.as_deref().unwrap();
    assert!(hint.ends_with("write the whole path"), "{hint}");
}

/// The same for the files of a backend, each in a column of its own.
#[test]
fn files_of_backends_are_beside_the_file_too() {
    let text = format!(
        "{BACKEND}tls = {{ ca = 'tls/ca.pem', certificate = '/k/c.pem', key = './c.key' }}\n{FRONTEND}"
    );
    let document = read(&text).within("/etc");
    let files: Vec<(u32, &str)> =
        document.files().into_iter().map(|(_, place, file)| (place.line, file)).collect();
    assert_eq!(files, [(4, "/etc/tls/ca.pem"), (4, "/k/c.pem"), (4, "/etc/c.key")]);
    let mut database = database();
    apply(&mut database, &document);
    let written = export(&database.snapshot());
    let line =
        "tls = { ca = \"/etc/tls/ca.pem\", certificate = \"/k/c.pem\", key = \"/etc/c.key\" }\n";
    assert!(written.contains(line), "{written}");
    let errors = read(&text).check().unwrap_err();
    let hint = errors[0].hint.as_deref().unwrap();
    assert!(hint.ends_with("write the whole path"), "{hint}");
    let alone = format!("{BACKEND}tls = {{ certificate = '/c' }}\n{FRONTEND}");
    assert_eq!(read(&alone).check().unwrap_err()[0].hint, None);
}

/// A change of one word of `tls` is detected, and so is its removal.
#[test]
fn every_change_of_the_tls_of_a_backend_is_applied() {
    let mut database = database();
    apply(&mut database, &read(BACKEND));
    for tls in [
        "tls = true",
        "tls = { certificate = '/a', key = '/b' }",
        "tls = { certificate = '/a', key = '/c' }",
        "tls = { verify = false }",
        "tls = { verify = true }",
        "tls = false",
    ] {
        let applied = apply(&mut database, &read(&format!("{BACKEND}{tls}\n")));
        let told: Vec<_> = applied.told().map(|c| c.members()).collect();
        assert_eq!(told, [["tls"]], "{tls}");
        let written = export(&database.snapshot()).replace('"', "'");
        assert_eq!(written.contains(&format!("{tls}\n")), tls != "tls = false", "{written}");
        let again = read(&export(&database.snapshot())).apply(database.store(), How::default());
        assert!(again.operations.is_empty(), "{again:?}");
    }
}

#[test]
fn servers_that_the_file_no_longer_names_go() {
    let mut database = database();
    let two = BACKEND.replace("[{", "[{ address = 'unix:/b' }, {");
    apply(&mut database, &read(&two));
    transact_by_hand(&mut database);
    let applied = apply(&mut database, &read(BACKEND));
    let told: Vec<String> =
        applied.told().map(|c| format!("{:?} {} {}", c.op, c.kind(), c.row)).collect();
    assert_eq!(told, ["Delete server app/unix:/b"], "what was made by hand stays");
    let changed = BACKEND.replace("app:80'", "app:81', weight = 3");
    let applied = apply(&mut database, &read(&changed));
    let told: Vec<_> = applied.told().map(|c| (c.row.as_str(), c.members())).collect();
    assert_eq!(told, [("app/a", vec!["address", "weight"])]);
    let kept = changed.replace("name = 'app'", "name = 'app'\npersistent = false");
    let applied = apply(&mut database, &read(&kept));
    assert_eq!(applied.changes.len(), 2, "servers stay for as long as their backend does");
    let applied = apply(&mut database, &read("# nothing\n"));
    assert_eq!(applied.changes.len(), 3, "a backend takes all of its servers along");
}

fn transact_by_hand(database: &mut paceline_tables::Database) {
    super::transact(
        database,
        r#"[{"op": "insert", "table": "Server", "row": {"backend": "app", "name": "mine",
             "address": "app:90"}}]"#,
    );
}

#[test]
fn a_dry_run_names_the_keys_that_differ() {
    let mut database = database();
    apply(&mut database, &read(&format!("[http]\nthreads = 1\n{BACKEND}{FRONTEND}")));
    let text = format!(
        "[http]\nthreads = 2\n{BACKEND}health = {{ path = '/' }}\ntimeouts = {{ idle = '1s' }}\n{FRONTEND}\
         tls = {{ certificate = '/a', key = '/b' }}\nuse_backend = [{{ when = 'true', backend = 'app' }}]\n\
         timeouts = {{ idle = '1s' }}\n"
    );
    let applied = apply(&mut database, &read(&text));
    let told: Vec<_> = applied
        .told()
        .map(|c| format!("{} {}: {}", c.kind(), c.row, c.members().join(" ")))
        .collect();
    assert_eq!(
        told,
        [
            "http http: threads",
            "frontend web: use_backend tls timeouts",
            "backend app: health timeouts"
        ]
    );
    let applied = apply(&mut database, &read(&text.replace("'/b'", "'/c'")));
    let told: Vec<_> = applied.told().map(|c| c.members()).collect();
    assert_eq!(told, [["tls"]]);
}

/// Other numbers of conditions, set by hand, mean the same if their order is the same.
#[test]
fn numbers_of_conditions_and_certificates_mean_only_their_order() {
    let mut database = database();
    super::transact(
        &mut database,
        r#"[{"op": "insert", "table": "Backend", "row": {"name": "app"}},
            {"op": "insert", "table": "Frontend", "row": {"name": "web", "listen": "127.0.0.1:80",
             "use_backend": ["map", [[10, "app when true"], [5, "app when false"]]],
             "tls_certificate": ["map", [[0, "/a"], [7, "/b"]]],
             "tls_key": ["map", [[0, "/c"], [7, "/d"]]]}}]"#,
    );
    let written = export(&database.snapshot());
    let applied = read(&written).apply(database.store(), How::default());
    let is_kept = |change: &Change| matches!(change.members()[..], [] | ["persistent"]);
    assert!(applied.told().all(is_kept), "{applied:?}");
    // When a key changes, its certificates are written too, so that their numbers agree.
    let applied = read(&written.replace("/d", "/e")).apply(database.store(), How::default());
    let text = format!("{:?}", applied.operations);
    assert!(text.contains("tls_certificate") && text.contains("tls_key"), "{text}");
    let first = written.find("when = \"false\"").unwrap();
    assert!(first < written.find("when = \"true\"").unwrap(), "{written}");
}

/// The warnings for a file that can work.
fn doubts(text: &str) -> Vec<String> {
    let told = read(text).check().unwrap_or_else(|errors| panic!("{errors:?}\n{text}"));
    told.iter().map(ToString::to_string).collect()
}

#[test]
fn what_is_hardly_meant_draws_a_warning() {
    let good = format!("{BACKEND}{FRONTEND}");
    let checkpoint =
        |at: &str, more: &str| format!("{good}[[checkpoint]]\nname = 'c'\nat = '{at}'\n{more}");
    let open = good.replace("127.0.0.1", "0.0.0.0");
    assert_eq!(doubts(&good), [""; 0]);
    assert_eq!(doubts(&open), [""; 0], "a proxy is open by nature");
    assert_eq!(doubts(&format!("{good}user = 'basic'\n")), [""; 0]);
    let tls = "tls = { certificate = '/a', key = '/b' }\n";
    assert_eq!(doubts(&format!("{open}user = 'basic'\n{tls}")), [""; 0]);
    for (text, expected) in [
        (
            format!("{good}[[backend]]\nname = 'b'\nservers = [{{ address = 'b:1' }}]\n"),
            "line 8: backend \"b\": no frontend uses it",
        ),
        (
            format!("{FRONTEND}[[backend]]\nname = 'app'\n"),
            "line 5: backend \"app\": it has no servers",
        ),
        (
            "[[frontend]]\nname = 'web'\nlisten = '127.0.0.1:80'\n".to_owned(),
            "line 1: frontend \"web\": it has no backend and refuses every request; give it backend",
        ),
        (
            good.replace(
                "backend = 'app'\n",
                "use_backend = [{ when = 'true', backend = 'app' }]\n",
            ),
            "line 4: frontend \"web\": it refuses requests that match no line of use_backend; give it backend",
        ),
        (
            format!("{open}user = 'basic'\n"),
            "line 8: frontend \"web\": user: it receives passwords without encryption; give it tls",
        ),
        (
            format!("{good}proxy_protocol = true\n"),
            "line 8: frontend \"web\": proxy_protocol: it accepts no connection, because proxy_protocol needs trusted with the peers that send it",
        ),
        (
            format!("{BACKEND}tls = {{ verify = false }}\n{FRONTEND}"),
            "line 4: backend \"app\": tls.verify: it accepts any certificate, so an attacker on the network can read and change its traffic; remove verify and give it ca",
        ),
        (
            checkpoint("frontend wep", "count = true\n"),
            "line 10: checkpoint \"c\": at: there is no frontend \"wep\", did you mean \"web\"? (it holds only permits that name this frontend)",
        ),
        (
            checkpoint("backend apq", "count = true\n"),
            "line 10: checkpoint \"c\": at: there is no backend \"apq\", did you mean \"app\"? (it holds only permits that name this backend)",
        ),
        (
            checkpoint("server app/z", "count = true\n"),
            "line 10: checkpoint \"c\": at: there is no server \"app/z\", did you mean \"app/a\"? (it holds only permits that name this server)",
        ),
    ] {
        assert_eq!(doubts(&text), [expected], "{text}");
    }
}

#[test]
fn places_of_servers_are_their_own() {
    let document = read(
        "[[backend]]\nname = 'app'\nservers = [\n  { address = 'a:1' },\n  { name = 'b', address = 'a:2' },\n]\n",
    );
    let place = |line, column| Some(Place { line, column });
    assert_eq!(document.place_of("Server", "app/b", None).map(|(_, place)| place), place(5, 3));
    assert_eq!(
        document.place_of("Server", "app/b", Some("address")).map(|(_, place)| place),
        place(5, 17)
    );
    assert_eq!(
        document.place_of("Server", "app/a:1", Some("weight")).map(|(_, place)| place),
        place(4, 3)
    );
}

/// A server that was added until the next restart does not become persistent.
#[test]
fn a_transient_server_of_a_persistent_backend_comes_back_as_one() {
    let text = "[[backend]]\nname = 'app'\nservers = [\n  { name = 'a', address = '127.0.0.1:1' },\n  \
                { name = 'b', address = '127.0.0.1:2', persistent = false },\n]\n";
    let mut database = database();
    apply(&mut database, &read(text));
    let written = export(&database.snapshot());
    let lines = "    { name = \"a\", address = \"127.0.0.1:1\" },\n    \
                 { name = \"b\", address = \"127.0.0.1:2\", persistent = false },\n";
    assert!(written.contains(lines), "{written}");
    let document = read(&written);
    let kept =
        ["app/a", "app/b"].map(|name| column(object(&document, "Server", name), "persistent"));
    assert_eq!(kept, ["true", "false"]);
    let transient =
        read(&format!("{}persistent = false\n", text.replace(", persistent = false", "")));
    assert_eq!(
        column(object(&transient, "Server", "app/a"), "persistent"),
        "false",
        "as its backend"
    );
}
