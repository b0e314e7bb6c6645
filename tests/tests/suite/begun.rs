//! C4: a command of `paceline permit` runs only after the daemon knows its process. Otherwise, if both the command
//! line and the daemon are killed, the next run of the daemon would not wait for the command.

use paceline_tests::server::paceline_binary;
use paceline_tests::{Daemon, Launch, Scratch};
use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};

/// Reports the arrival of the request that names a process, and forwards the request on demand.
struct Between {
    has_come: Receiver<()>,
    pass: Sender<()>,
}

/// Listens at `socket` in front of the daemon's own socket, and holds back the request that names a process.
fn between(socket: &Path, daemon: &Daemon) -> Between {
    let listener = UnixListener::bind(socket).unwrap();
    let own = daemon.data().join("api.sock");
    let ((came, has_come), (pass, passes)) = (channel(), channel());
    std::thread::spawn(move || {
        let passes = std::sync::Arc::new(std::sync::Mutex::new(passes));
        for mut client in listener.incoming().map_while(Result::ok) {
            let mut server = UnixStream::connect(&own).unwrap();
            let (mut from, mut to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut from, &mut to));
            let (came, passes) = (came.clone(), passes.clone());
            std::thread::spawn(move || {
                let mut bytes = [0; 65_536];
                while let Ok(len @ 1..) = client.read(&mut bytes) {
                    if String::from_utf8_lossy(&bytes[..len]).contains("/processes") {
                        came.send(()).unwrap();
                        let _ = passes.lock().unwrap().recv();
                    }
                    server.write_all(&bytes[..len]).unwrap();
                }
                // The session is bound to this connection.
                let _ = server.shutdown(std::net::Shutdown::Both);
            });
        }
    });
    Between { has_come, pass }
}

/// A command that creates a file; its output ends when it and all its children have exited.
fn start(data: &Path, mark: &Path) -> Child {
    let script = format!("touch '{}'; exit 7", mark.display());
    let mut command = Command::new(paceline_binary());
    command.arg("permit").arg("--data").arg(data).args(["--", "sh", "-c", &script]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap()
}

#[test]
fn a_command_begins_when_its_process_is_known_c4() {
    let scratch = Scratch::new();
    let daemon = Launch::new(&scratch).start().unwrap();
    let data = scratch.join("between");
    std::fs::create_dir(&data).unwrap();
    let between = between(&data.join("api.sock"), &daemon);
    let mark = scratch.join("mark");
    // It is killed before the daemon gets the request, so the command never runs.
    let mut killed = start(&data, &mark);
    between.has_come.recv().unwrap();
    killed.kill().unwrap();
    killed.stdout.take().unwrap().read_to_end(&mut vec![]).unwrap();
    killed.wait().unwrap();
    assert!(!mark.exists(), "the command ran");
    between.pass.send(()).unwrap();
    let mut runs = start(&data, &mark);
    between.has_come.recv().unwrap();
    between.pass.send(()).unwrap();
    assert_eq!(runs.wait().unwrap().code(), Some(7));
    assert!(mark.exists());
}
