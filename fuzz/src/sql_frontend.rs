//! The messages of a PostgreSQL client: each that is accepted is written anew byte by byte, a statement can be renamed
//! in it whatever has arrived of it, and the walk over the messages does not depend on the pieces they arrive in. The
//! first byte selects the place of the split, the largest message, and whether the client is logging in.

use crate::sql_wire::frame::{FrameError, Framed, HEAD_BYTES, LENGTH_MAX, Side, Walk};
use crate::sql_wire::frontend::{
    Bind, BindNames, Message, Object, Parse, SaslInitialResponse, Target, rename,
    sasl_initial_response,
};
use crate::sql_wire::kind::client;
use std::ops::Range;

/// Walks over `data` and reads every message.
pub fn check(data: &[u8]) {
    let Some((first, data)) = data.split_first() else { return };
    let side = match first & 3 {
        0 => Side::LOGIN,
        1 => Side::client(20_000),
        _ => Side::client(LENGTH_MAX),
    };
    let mut found = Vec::new();
    let end = walk(side, data, &mut found);
    for framed in &found {
        match framed.kind {
            client::PASSWORD => check_login(*framed),
            _ => check_message(side, *framed),
        }
    }
    split_walk(side, data, usize::from(*first), &found, end);
}

/// Adds the messages of `bytes`. Returns how many bytes they have, and what stopped the walk.
pub fn walk<'a>(
    side: Side,
    bytes: &'a [u8],
    found: &mut Vec<Framed<'a>>,
) -> (usize, Option<FrameError>) {
    let mut walk = Walk::new(side, bytes);
    loop {
        match walk.step() {
            Ok(Some(framed)) => found.push(framed),
            Ok(None) => return (walk.at(), None),
            Err(error) => return (walk.at(), Some(error)),
        }
    }
}

/// Checks that the walk over `data` in two pieces is `expected`.
pub fn split_walk(
    side: Side,
    data: &[u8],
    at: usize,
    expected: &[Framed<'_>],
    end: (usize, Option<FrameError>),
) {
    let mut found = Vec::new();
    let (passed, error) = walk(side, &data[..at.min(data.len())], &mut found);
    if error.is_some() {
        assert_eq!((passed, error), end, "what comes later does not mend it");
    } else {
        let (more, error) = walk(side, &data[passed..], &mut found);
        assert_eq!((passed + more, error), end);
    }
    assert_eq!(found, expected);
}

fn check_login(framed: Framed<'_>) {
    let Ok(read) = SaslInitialResponse::read(framed.body()) else { return };
    let mut out = Vec::new();
    sasl_initial_response(&mut out, read.mechanism, read.data);
    assert_eq!(out, framed.bytes);
}

fn check_message(side: Side, framed: Framed<'_>) {
    let message = match Message::read(framed.kind, framed.body()) {
        Ok(message) => message,
        Err(error) => return assert!(error.at <= framed.body().len(), "{error}"),
    };
    let mut out = Vec::new();
    message.write(&mut out).unwrap();
    assert_eq!(out, framed.bytes);
    match message {
        Message::Parse(parse) => {
            assert_eq!(parse.types.iter().count(), parse.types.len());
            check_rename(side, framed, parse.name_at(), parse.name);
        }
        Message::Bind(bind) => check_bind(side, framed, bind),
        Message::Describe(target) | Message::Close(target)
            if target.object == Object::Statement =>
        {
            check_rename(side, framed, target.name_at(), target.name);
        }
        _ => {}
    }
}

fn check_bind(side: Side, framed: Framed<'_>, bind: Bind<'_>) {
    let names = BindNames::find(framed.body()).expect("they have an end");
    assert_eq!((names.portal, names.statement), (bind.portal, bind.statement));
    assert_eq!(bind.values.iter().count(), bind.values.len());
    assert_eq!(bind.formats.iter().count(), bind.formats.len());
    check_rename(side, framed, names.statement_at(), names.statement);
}

/// Renames a statement, with what has arrived to the end of the name and with the whole, and reads the result.
fn check_rename(side: Side, framed: Framed<'_>, at: Range<usize>, name: &[u8]) {
    let body = framed.body();
    assert_eq!(&body[at.clone()], name);
    let head = side.head(framed.bytes).unwrap().unwrap();
    for arrived in [at.end, body.len()] {
        let mut out = Vec::new();
        let new = rename(&mut out, head, &body[..arrived], at.clone(), b"paceline_1");
        out.extend_from_slice(&body[arrived..]);
        assert_eq!(out.len(), new.total());
        let renamed = match new.kind {
            client::PARSE => Parse::read(&out[HEAD_BYTES..]).unwrap().name,
            client::BIND => Bind::read(&out[HEAD_BYTES..]).unwrap().statement,
            _ => Target::read("Describe", &out[HEAD_BYTES..]).unwrap().name,
        };
        assert_eq!(renamed, b"paceline_1");
    }
}
