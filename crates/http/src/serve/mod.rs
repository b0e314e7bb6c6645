//! The door at work: sockets, workers, connections.

mod accept;
mod admit;
mod attributes;
mod clients;
mod connections;
mod descriptors;
pub(crate) mod door;
mod floors;
mod h1;
mod h2;
mod health;
mod log;
mod lost;
mod orphan;
mod orphans;
mod presence;
mod server_half;
mod table;
mod tunnel;
mod unsent;
mod upstream;
mod vitals;
mod worker;

use crate::wire::RequestHead;
pub(crate) use attributes::Unfit;
pub(crate) use lost::Failure;
pub(crate) use paceline_net::tls::why as tls_why;

/// Whether a client asks for JSON.
fn wants_json(head: &RequestHead, bytes: &[u8]) -> bool {
    head.fields.iter().any(|field| {
        field.name.of_bytes(bytes).eq_ignore_ascii_case(b"accept")
            && memchr::memmem::find(field.value.of_bytes(bytes), b"json").is_some()
    })
}
