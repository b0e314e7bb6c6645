//! The HTTP door against hostile bytes on both sides: a corpus of smuggled requests, servers that lie, slow and
//! oversized clients, and HTTP/2 frame by frame. Tests promises H1 to H5, D1, D2 and D4.
//!
//! All tests use plain sockets, so that the test controls each byte.

mod crowded;
mod displaced;
mod door;
mod frames;
mod greedy;
mod head_limits;
mod http2_flow;
mod http2_frames;
mod http2_given_up;
mod http2_requests;
mod http2_slow;
mod http2_unread;
mod http2_waiting;
mod kept;
mod no_connection;
mod recorder;
mod refused;
mod reserved;
mod rewritten;
mod server_answers;
mod server_breaks;
mod slow;
mod smuggling;
mod strangers;
mod unsent;
mod wire;
