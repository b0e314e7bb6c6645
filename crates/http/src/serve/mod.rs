//! The door at work: sockets, workers, connections.

mod accept;
mod admit;
mod attributes;
mod buffer;
pub(crate) mod door;
mod exchange;
mod h1;
mod h2;
mod health;
mod listen;
mod log;
mod stream;
mod table;
mod timer;
mod tls;
mod tunnel;
mod upstream;
mod worker;

use crate::respond::Reply;
use crate::wire::RequestHead;

/// Whether a client asks for JSON.
fn wants_json(head: &RequestHead, bytes: &[u8]) -> bool {
    head.fields.iter().any(|field| {
        field.name.of_bytes(bytes).eq_ignore_ascii_case(b"accept")
            && memchr::memmem::find(field.value.of_bytes(bytes), b"json").is_some()
    })
}

/// The answer to a body that is too long.
fn body_too_long() -> Reply {
    Reply::new(413, "too_large", "the body of the request is longer than the frontend allows")
}
