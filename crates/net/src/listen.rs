//! Listening sockets: one for each worker at each address, so that no worker waits for another.

use paceline_routing::Address;
use rustix::net::sockopt::{set_ipv6_v6only, set_socket_reuseaddr, set_socket_reuseport};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixListener;

/// Connections that may wait to be accepted. The system may allow fewer.
pub const BACKLOG: i32 = 4_096;

/// An address, for as long as the door listens there. A connection belongs to the place where it was accepted, not to
/// the name of the frontend that listened there, because an edit may give that name to another frontend.
#[derive(Debug)]
pub struct ListenPoint {
    /// The number of the place; never reused.
    pub number: u64,
    /// The address as configured.
    pub address: Address,
}

/// A listening socket that no runtime has registered yet.
#[derive(Debug)]
pub enum Listening {
    /// At an address and a port.
    Tcp(TcpListener),
    /// At a path.
    Unix(UnixListener),
}

/// Binds `count` sockets that share an address. Also returns the bound address, with the port that the system chose
/// for port 0. `is_ours` means that a listener of this door uses the same port.
pub fn open(
    address: &Address,
    count: usize,
    is_ours: bool,
) -> io::Result<(Address, Vec<Listening>)> {
    match address {
        Address::Socket(wanted) => open_tcp(*wanted, count, is_ours),
        Address::Unix(path) => {
            let listener = open_unix(path)?;
            let more = (1..count).map(|_| listener.try_clone().map(Listening::Unix));
            let mut all = more.collect::<io::Result<Vec<_>>>()?;
            all.push(Listening::Unix(listener));
            Ok((address.clone(), all))
        }
        Address::Host { .. } => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "a frontend listens at an IP address, not at the name of a host",
        )),
    }
}

fn open_tcp(
    wanted: SocketAddr,
    count: usize,
    is_ours: bool,
) -> io::Result<(Address, Vec<Listening>)> {
    // Sockets that share a port do not detect sockets of another program that also shares it: that program would
    // serve half of the clients. So the port is first bound exclusively, as a test. This cannot work if a listener of
    // this door overlaps.
    if !is_ours {
        drop(bound(wanted, false)?);
    }
    let first = TcpListener::from(bound(wanted, true)?);
    let address = first.local_addr()?;
    let mut all = vec![Listening::Tcp(first)];
    for _ in 1..count {
        all.push(Listening::Tcp(TcpListener::from(bound(address, true)?)));
    }
    for listening in &all {
        if let Listening::Tcp(listener) = listening {
            listen(listener, BACKLOG)?;
        }
    }
    Ok((Address::Socket(address), all))
}

fn bound(address: SocketAddr, is_shared: bool) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    if address.is_ipv6() {
        // Otherwise it would conflict with an IPv4 address on that port.
        set_ipv6_v6only(&socket, true)?;
    }
    set_socket_reuseaddr(&socket, true)?;
    if is_shared {
        set_socket_reuseport(&socket, true)?;
    }
    bind(&socket, &address)?;
    Ok(socket)
}

/// Takes over a socket file that no process listens at any more.
fn open_unix(path: &str) -> io::Result<UnixListener> {
    let listener = match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let is_socket = std::fs::symlink_metadata(path)?.file_type().is_socket();
            if !is_socket || std::os::unix::net::UnixStream::connect(path).is_ok() {
                return Err(error);
            }
            std::fs::remove_file(path)?;
            UnixListener::bind(path)?
        }
        bound => bound?,
    };
    listener.set_nonblocking(true)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::open_unix;

    /// A socket without a listening process is taken over; a file, or a socket in use, never is.
    #[test]
    fn only_dead_sockets_are_taken_over() {
        let directory =
            std::env::temp_dir().join(format!("paceline-listen-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let (file, socket) = (directory.join("file"), directory.join("socket"));
        std::fs::write(&file, "precious").unwrap();
        assert!(open_unix(file.to_str().unwrap()).is_err());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
        let first = open_unix(socket.to_str().unwrap()).unwrap();
        assert!(open_unix(socket.to_str().unwrap()).is_err(), "somebody listens there");
        drop(first);
        assert!(open_unix(socket.to_str().unwrap()).is_ok());
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
