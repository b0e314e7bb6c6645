//! Doors other than the plain unix socket: TCP, TLS, probes, systemd's notification, the socket file itself, and
//! clients that reconnect. Tests promises L3 and L5 from outside.
//!
//! Runs only against Paceline, because the options are its own.

mod doors;
mod probes;
mod since;
mod tls;
