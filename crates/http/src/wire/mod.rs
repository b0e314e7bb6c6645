//! HTTP/1.1 as bytes: heads, bodies and the PROXY header, parsed strictly and written anew.
//!
//! Owns the definition of a message and of its end (RFC 9112). Promises H1 (an ambiguous message is refused), H2 (no
//! bytes are forwarded as they were received) and D2 (every length has a maximum). Pure: it sees slices, never
//! sockets or clocks.

mod body;
mod byte;
mod chunked;
mod field;
mod host;
mod proxy;
mod request;
mod response;
mod target;
mod write;

pub(crate) use body::{Decoder, Encoder, Framing};
pub(crate) use field::{Header, header_value};
pub(crate) use proxy::read_proxy_header;
pub(crate) use request::{HeadError, RequestHead, check_beginning, head_end, leading_blank};
pub(crate) use response::ResponseHead;
pub(crate) use write::{
    Forwarded, RequestWriter, ResponseWriter, line, number_line, push_number, read_trailers,
    write_trailers,
};
