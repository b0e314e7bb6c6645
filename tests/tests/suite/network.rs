//! Doors other than the plain unix socket: TCP, TLS, probes, systemd's notification, the socket
//! file itself, and clients that come back. Proves promises L3 and L5 from outside.
//!
//! Run against Paceline alone: the options are its own.

mod doors;
mod probes;
mod since;
mod tls;
