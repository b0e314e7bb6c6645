//! The HTTP door against hostile bytes on both sides: a corpus of smuggled requests, servers that lie,
//! slow and oversized clients, and HTTP/2 frame by frame. Proves promises H1 to H5, D1, D2 and D4.
//!
//! Everything here speaks over plain sockets, so that each byte is the test's own.

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
mod rewritten;
mod server_answers;
mod server_breaks;
mod slow;
mod smuggling;
mod strangers;
mod wire;
