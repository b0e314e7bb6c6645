//! The configuration as one text, and copies of databases, from correct and incorrect servers.

use crate::fake::{Asked, Fake, Reply, error};
use paceline_client::{ApplyOptions, Client, CopyError, Error, Kind, Target};
use serde_json::json;
use std::io::{self, Write};

fn connect(fake: &Fake) -> Client {
    Client::connect(&Target::in_data_directory(fake.dir.path())).unwrap()
}

fn raw(head: &str, body: &str) -> Option<Reply> {
    Some(Reply::Raw(format!("HTTP/1.1 {head}\r\n\r\n{body}").into_bytes()))
}

#[test]
fn a_text_is_sent_as_it_is_and_mistakes_come_back_with_their_places() {
    let fake = Fake::start(|asked: &Asked| match asked.line().as_str() {
        "POST /v1/apply?dry_run=true" => Some(Reply::Json(200, json!([{"op": "create"}]))),
        "POST /v1/apply" => Some(Reply::Json(
            422,
            json!({"error": "constraint", "message": "m", "errors": [{"line": 3}]}),
        )),
        _ => raw("200 OK\r\nContent-Length: 4", "# x\n"),
    });
    let client = connect(&fake);
    let dry_run = ApplyOptions { dry_run: true, ..ApplyOptions::default() };
    assert_eq!(client.apply("# text\n", &dry_run).unwrap(), [json!({"op": "create"})]);
    assert_eq!(fake.world().asked[0].body, json!("# text\n"));
    let Err(Error::Failed(answer)) = client.apply("", &ApplyOptions::default()) else { panic!() };
    assert_eq!(answer.body["errors"][0]["line"], 3);
    assert_eq!(client.config(None).unwrap(), "# x\n");
}

#[test]
fn whoever_creates_is_told_of_a_conflict() {
    let fake = Fake::start(|_| Some(error(409, "conflict", "there")));
    let client = connect(&fake);
    assert!(matches!(client.create(Kind::Pools, "a", &json!({})), Err(Error::Conflict(_))));
    assert!(fake.world().asked[0].only_creates);
    let _ = client.put(Kind::Pools, "a", &json!({}));
    assert!(!fake.world().asked[1].only_creates);
}

#[test]
fn a_copy_is_whole_or_an_error() {
    let fake = Fake::start(|asked: &Asked| match asked.path.rsplit('=').next().unwrap() {
        "Whole" => raw("200 OK\r\nContent-Length: 5", "bytes"),
        "Short" => raw("200 OK\r\nContent-Length: 6", "bytes"),
        "None" => raw("204 No Content", ""),
        _ => Some(error(403, "permission", "no")),
    });
    let client = connect(&fake);
    let copy = |database: &str| {
        let mut out = vec![];
        client.copy(database, &mut out).map(|count| (count, out))
    };
    assert_eq!(copy("Whole").unwrap(), (5, b"bytes".to_vec()));
    let short = copy("Short");
    assert!(matches!(short, Err(CopyError::Asked(Error::Unreachable { .. }))), "{short:?}");
    assert!(matches!(copy("Other"), Err(CopyError::Asked(Error::NotPermitted(_)))));
    assert!(matches!(copy("None"), Err(CopyError::Asked(Error::Protocol(_)))));
}

#[test]
fn a_copy_that_cannot_be_written_says_so() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let fake = Fake::start(|_| raw("200 OK\r\nContent-Length: 5", "bytes"));
    let Err(CopyError::Written(error)) = connect(&fake).copy("Paceline", &mut Full) else {
        panic!()
    };
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
}
