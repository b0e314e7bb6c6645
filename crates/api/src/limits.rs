//! Bounds of the door, each with the promise it keeps.

use paceline_host::Capacity;
use paceline_host::registry::HoldLimits;
use std::time::Duration;

/// Bounds of the door. The defaults are the documented ones; tests reach them with smaller numbers.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at a time, on the unix socket and again on TCP, so that clients without a token cannot shut
    /// out those that the kernel identifies. A further connection is answered 503 and closed.
    pub connections: Capacity,
    /// How long a client may take to send the head of a request (promise D2). Over TCP the first one must
    /// arrive within this time after the connection was made.
    pub head_max: Duration,
    /// How long a client may pause in the middle of a body (promise D2).
    pub body_pause_max: Duration,
    /// How long a client may take to send a body, beyond the time for its bytes.
    pub body_max: Duration,
    /// The minimum rate at which a client must send it.
    pub body_bytes_per_second_min: u64,
    /// Bytes of all bodies that are being read, beyond the first 16 KiB of each (promise D1).
    pub bodies_bytes_max: usize,
    /// Bytes of all answers of more than 64 KiB and at most 1 MiB that are being sent (promise D1).
    pub answers_bytes_max: usize,
    /// How long a client may accept none of the bytes that are to be sent.
    pub write_pause_max: Duration,
    /// How long a client may take to read an answer of more than 64 KiB, beyond the time for its bytes.
    pub large_max: Duration,
    /// The minimum rate at which a client must read such an answer.
    pub large_bytes_per_second_min: u64,
    /// How long a connection without a bound session may be idle.
    pub idle_max: Duration,
    /// Longest body of a request.
    pub body_bytes_max: usize,
    /// Longest text of a configuration.
    pub config_bytes_max: usize,
    /// What clients may hold and wait for.
    pub holding: HoldLimits,
    /// Sessions that one connection may have bound to it.
    pub bound_max: usize,
    /// Clients that may follow the events at a time.
    pub followers_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: Capacity::default(),
            head_max: Duration::from_secs(10),
            body_pause_max: Duration::from_secs(30),
            body_max: Duration::from_secs(30),
            body_bytes_per_second_min: 256 << 10,
            bodies_bytes_max: 128 << 20,
            answers_bytes_max: 128 << 20,
            write_pause_max: Duration::from_secs(30),
            large_max: Duration::from_secs(30),
            large_bytes_per_second_min: 256 << 10,
            idle_max: Duration::from_secs(75),
            body_bytes_max: 1 << 20,
            config_bytes_max: paceline_config::FILE_BYTES_MAX,
            holding: HoldLimits::default(),
            bound_max: 1_000,
            followers_max: 1_000,
        }
    }
}
