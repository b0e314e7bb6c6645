//! A command inside a permit that uses another daemon does not send it the secrets of the first one.

use paceline_tests::server::paceline_binary;
use paceline_tests::{Launch, Scratch};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

/// Relays bytes to `daemon`; returns its own address, and what clients send.
fn listen_in(daemon: SocketAddr) -> (SocketAddr, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let heard = Arc::new(Mutex::new(vec![]));
    let all = Arc::clone(&heard);
    thread::spawn(move || {
        for client in listener.incoming() {
            let (client, server) = (client.unwrap(), TcpStream::connect(daemon).unwrap());
            let (answers, to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            let heard = Arc::clone(&all);
            thread::spawn(move || {
                copy(client, server, |bytes| heard.lock().unwrap().extend(bytes))
            });
            thread::spawn(move || copy(answers, to, |_| ()));
        }
    });
    (address, heard)
}

fn copy(mut from: TcpStream, mut to: TcpStream, hear: impl Fn(&[u8])) {
    let mut bytes = [0; 65_536];
    while let Ok(got @ 1..) = from.read(&mut bytes) {
        hear(&bytes[..got]);
        if to.write_all(&bytes[..got]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}

#[test]
fn the_session_of_a_permit_is_sent_to_its_own_daemon_only() {
    let (first, second) = (Scratch::new(), Scratch::new());
    let outer = Launch::new(&first).start().unwrap();
    let inner = Launch::new(&second).api("127.0.0.1:0").start().unwrap();
    let (address, heard) = listen_in(inner.api_address());
    let program = paceline_binary();
    let script = "echo \"$PACELINE_WITHIN\"; exec \"$0\" permit --api \"http://$1\" --token-file \"$2\" -- true";
    let run = Command::new(&program)
        .env("PACELINE_DATA", outer.data())
        .env_remove("PACELINE_WITHIN")
        .args(["permit", "--", "sh", "-c", script])
        .arg(&program)
        .arg(address.to_string())
        .arg(inner.data().join("token"))
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let within = String::from_utf8(run.stdout).unwrap();
    let session = within.split([' ', ',', '\n']).next().unwrap();
    assert!(session.starts_with("s-"), "{within}");
    let heard = String::from_utf8_lossy(&heard.lock().unwrap()).into_owned();
    assert!(heard.contains("/v1/permits"), "{heard}");
    assert!(!heard.contains(session), "{heard}");
}
