//! Notifies systemd that the daemon is ready or stopping, if it asked for that.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Sends `state` to the socket that systemd named. It is not an error if no process listens.
pub fn notify(state: &str) {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let name = name.into_encoded_bytes();
    let address = match name.split_first() {
        Some((b'@', rest)) => SocketAddr::from_abstract_name(rest),
        _ => SocketAddr::from_pathname(std::path::Path::new(
            std::str::from_utf8(&name).unwrap_or_default(),
        )),
    };
    let sent = address.and_then(|address| {
        UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(|_| ())
    });
    if let Err(error) = sent {
        tracing::warn!(%error, "cannot tell systemd that {state}");
    }
}
