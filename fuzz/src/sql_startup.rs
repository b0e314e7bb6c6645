//! The first packet of a PostgreSQL connection: a packet that is accepted is written anew byte by byte, and no shorter
//! beginning of it is accepted.

use crate::sql_wire::startup::{
    Packet, read, write_cancel, write_gss_request, write_ssl_request, write_startup,
};

/// Parses `data` as a packet and writes it anew.
pub fn check(data: &[u8]) {
    let (packet, len) = match read(data) {
        Ok(Some(read)) => read,
        Ok(None) => return,
        Err(error) => {
            assert!(!error.to_string().is_empty() && error.state().as_str().len() == 5);
            return;
        }
    };
    let mut out = Vec::new();
    match packet {
        Packet::Tls => return assert_eq!(len, 0, "the handshake is left to TLS"),
        Packet::SslRequest => write_ssl_request(&mut out),
        Packet::GssRequest => write_gss_request(&mut out),
        Packet::Cancel(cancel) => write_cancel(&mut out, cancel),
        Packet::Startup(startup) => {
            assert!(!startup.user.is_empty() && !startup.database.is_empty());
            assert!(startup.parameters.iter().all(|(name, _)| !name.is_empty()));
            assert_eq!(startup.version.agreed().agreed(), startup.version.agreed());
            write_startup(&mut out, startup.version, startup.parameters);
        }
    }
    assert_eq!(out, &data[..len]);
    for shorter in [0, 3, 4, 8, len / 2, len - 1].into_iter().filter(|at| *at < len) {
        assert_eq!(read(&data[..shorter]), Ok(None), "{shorter} bytes");
    }
}
