//! Every message that is written is read as it was, and written again byte by byte.

use super::super::frame::{Framed, Side, Walk};
use super::super::startup::{CancelKey, Packet, Version, read, write_cancel, write_startup};
use super::super::{backend, frontend};
use super::lots::Lots;
use super::made::{self, Made};
use super::{CLIENT, ROUNDS, again, startup_again};

/// The bytes of a client's message.
pub fn client_bytes(made: &Made) -> Vec<u8> {
    let mut out = vec![];
    match made {
        Made::Empty(b'S') => frontend::sync(&mut out),
        Made::Empty(b'H') => frontend::flush(&mut out),
        Made::Empty(b'c') => frontend::copy_done(&mut out),
        Made::Empty(b'X') => frontend::terminate(&mut out),
        Made::Text(b'Q', text) => frontend::query(&mut out, text),
        Made::Text(b'f', text) => frontend::copy_fail(&mut out, text),
        Made::Text(b'd', data) => frontend::copy_data(&mut out, data).unwrap(),
        Made::Parse(name, query, types) => {
            frontend::parse(&mut out, name, query, types.iter().copied());
        }
        Made::Bind([portal, statement], formats, values, result_formats) => frontend::bind(
            &mut out,
            frontend::BindNames { portal, statement },
            formats.iter().copied(),
            values.iter().map(Option::as_deref),
            result_formats.iter().copied(),
        ),
        Made::Target(kind, object, name) => {
            let target = frontend::Target { object: *object, name };
            match kind {
                b'D' => frontend::describe(&mut out, target),
                _ => frontend::close(&mut out, target),
            }
        }
        Made::Execute(portal, rows) => {
            frontend::execute(&mut out, frontend::Execute { portal, rows: *rows });
        }
        Made::FunctionCall(function, formats, values, result_format) => frontend::function_call(
            &mut out,
            *function,
            formats.iter().copied(),
            values.iter().map(Option::as_deref),
            *result_format,
        ),
        other => panic!("{other:?} is not of a client"),
    }
    out
}

/// The bytes of a server's message.
pub fn server_bytes(made: &Made) -> Vec<u8> {
    let mut out = vec![];
    match made {
        Made::Empty(b'I') => backend::empty_query_response(&mut out),
        Made::Empty(b'1') => backend::parse_complete(&mut out),
        Made::Empty(b'2') => backend::bind_complete(&mut out),
        Made::Empty(b'3') => backend::close_complete(&mut out),
        Made::Empty(b'n') => backend::no_data(&mut out),
        Made::Empty(b's') => backend::portal_suspended(&mut out),
        Made::Empty(b'c') => backend::copy_done(&mut out),
        Made::Text(b'C', tag) => backend::command_complete(&mut out, tag),
        Made::Text(b'd', data) => backend::copy_data(&mut out, data).unwrap(),
        Made::Authentication(code, data) => {
            let step = backend::Authentication::Other(*code, data);
            backend::authentication(&mut out, step);
        }
        Made::Sasl(list) => backend::authentication_sasl(&mut out, list.iter().map(Vec::as_slice)),
        Made::KeyData(process, key) => {
            backend::key_data(&mut out, CancelKey { process: *process, key });
        }
        Made::ParameterStatus(name, value) => backend::parameter_status(&mut out, name, value),
        Made::Negotiation(version, options) => backend::negotiate_protocol_version(
            &mut out,
            Version::of_number(*version),
            options.iter().map(Vec::as_slice),
        ),
        Made::Ready(status) => backend::ready_for_query(&mut out, *status),
        Made::Columns(columns) => {
            let mut description = backend::RowDescription::begin(&mut out);
            for (name, [table, type_oid, modifier], [number, type_size], format) in columns {
                description.column(backend::Column {
                    name,
                    table: *table,
                    number: *number,
                    type_oid: *type_oid,
                    type_size: *type_size,
                    type_modifier: *modifier as i32,
                    format: *format,
                });
            }
            description.finish().unwrap();
        }
        Made::Row(values) => {
            let mut row = backend::DataRow::begin(&mut out);
            values.iter().for_each(|value| row.value(value.as_deref()));
            row.finish().unwrap();
        }
        Made::Types(types) => backend::parameter_description(&mut out, types.iter().copied()),
        Made::Fields(kind, fields) => fields_bytes(*kind, fields, &mut out),
        Made::Copy(kind, format, columns) => {
            let columns = columns.iter().copied();
            match kind {
                b'G' => backend::copy_in_response(&mut out, *format, columns),
                b'H' => backend::copy_out_response(&mut out, *format, columns),
                // Only servers that replicate send it, so it has no writer of its own.
                _ => {
                    backend::copy_in_response(&mut out, *format, columns);
                    out[0] = *kind;
                }
            }
        }
        Made::Result(value) => backend::function_call_response(&mut out, value.as_deref()),
        Made::Notification(process, channel, payload) => backend::notification(
            &mut out,
            backend::Notification { process: *process, channel, payload },
        ),
        other => panic!("{other:?} is not of a server"),
    }
    out
}

fn fields_bytes(kind: u8, fields: &[(u8, Vec<u8>)], out: &mut Vec<u8>) {
    let mut body = vec![];
    for (code, text) in fields {
        body.push(*code);
        body.extend_from_slice(text);
        body.push(0);
    }
    body.push(0);
    out.push(kind);
    out.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    out.extend_from_slice(&body);
}

/// The only message in `bytes`.
fn only(side: Side, bytes: &[u8]) -> Framed<'_> {
    let mut walk = Walk::new(side, bytes);
    let framed = walk.step().unwrap().unwrap();
    assert_eq!((framed.bytes, walk.rest()), (bytes, &b""[..]));
    framed
}

#[test]
fn messages_of_clients_are_read_as_they_were_written() {
    for seed in 0..ROUNDS * 10 {
        let made = made::client(&mut Lots::new(seed));
        let bytes = client_bytes(&made);
        let framed = only(CLIENT, &bytes);
        let read = frontend::Message::read(framed.kind, framed.body()).unwrap();
        assert_eq!(made::of_client(read), made, "seed {seed}");
        assert_eq!(again(false, framed.kind, framed.body()).unwrap(), bytes, "seed {seed}");
    }
}

#[test]
fn messages_of_servers_are_read_as_they_were_written() {
    for seed in 0..ROUNDS * 10 {
        let made = made::server(&mut Lots::new(seed));
        let bytes = server_bytes(&made);
        let framed = only(Side::SERVER, &bytes);
        let read = backend::Message::read(framed.kind, framed.body()).unwrap();
        assert_eq!(made::of_server(read), made, "seed {seed}");
        assert_eq!(again(true, framed.kind, framed.body()).unwrap(), bytes, "seed {seed}");
    }
}

/// A random startup message or cancel request.
pub fn startup_bytes(lots: &mut Lots) -> Vec<u8> {
    let mut out = vec![];
    if lots.below(4) == 0 {
        let key = vec![7; 4 + lots.below(40)];
        write_cancel(&mut out, CancelKey { process: lots.word(), key: &key });
        return out;
    }
    let mut pairs = lots.list(|lots| ([lots.text(), b"x".to_vec()].concat(), lots.text()));
    pairs.insert(lots.below(pairs.len() + 1), (b"user".to_vec(), b"ann".to_vec()));
    let version = Version { major: 3, minor: lots.word() as u16 };
    write_startup(&mut out, version, pairs.iter().map(|(name, value)| (&name[..], &value[..])));
    let Ok(Some((Packet::Startup(startup), _))) = read(&out) else { panic!("{out:?}") };
    let read: Vec<_> = startup.parameters.iter().map(|(a, b)| (a.to_vec(), b.to_vec())).collect();
    assert_eq!((read, startup.version), (pairs, version));
    out
}

#[test]
fn first_packets_are_written_again_byte_by_byte() {
    for seed in 0..ROUNDS * 10 {
        let bytes = startup_bytes(&mut Lots::new(seed));
        assert_eq!(startup_again(&bytes), Ok(Some(bytes)), "seed {seed}");
    }
}
