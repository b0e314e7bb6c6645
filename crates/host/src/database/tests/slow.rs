//! A disk on which plain writes hang.

use super::*;
use paceline_journal::LockError;
use paceline_journal::disk::{Access, Disk, DiskFile, Facts, Lock};
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// How long a test waits for an event that never happens if the daemon is wrong.
const NEVER: Duration = Duration::from_secs(20);

/// A disk whose writes wait while it hangs.
#[derive(Debug)]
struct HangingDisk(Arc<Gate>);

#[derive(Debug)]
struct Gate {
    hangs: Mutex<bool>,
    changed: Condvar,
    /// Receives a message for each write that waits.
    waits: Sender<()>,
}

impl Gate {
    fn set(&self, hangs: bool) {
        *self.hangs.lock().unwrap() = hangs;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let hangs = self.hangs.lock().unwrap();
        if *hangs {
            self.waits.send(()).unwrap();
            drop(self.changed.wait_while(hangs, |hangs| *hangs).unwrap());
        }
    }
}

/// Resumes the disk when a test ends, also if it failed: the runtime waits for its workers.
struct GoesOn(Arc<Gate>);

impl Drop for GoesOn {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

impl Disk for HangingDisk {
    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        RealDisk.resolve(path)
    }

    fn lock(&self, path: &Path) -> Result<Lock, LockError> {
        RealDisk.lock(path)
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        let inner = RealDisk.open(path, access)?;
        Ok(Arc::new(HangingFile { inner, gate: Arc::clone(&self.0) }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        RealDisk.sync_dir(dir)
    }
}

#[derive(Debug)]
struct HangingFile {
    inner: Arc<dyn DiskFile>,
    gate: Arc<Gate>,
}

impl DiskFile for HangingFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.gate.pass();
        self.inner.write_at(bytes, offset)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.inner.truncate(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.inner.sync()
    }

    fn facts(&self) -> io::Result<Facts> {
        self.inner.facts()
    }
}

/// A task that does `work` whenever it receives a byte, and sends the byte back.
fn served(runtime: &tokio::runtime::Runtime, work: impl Fn() + Send + 'static) -> UnixStream {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_read_timeout(Some(NEVER)).unwrap();
    theirs.set_nonblocking(true).unwrap();
    runtime.spawn(async move {
        let theirs = tokio::net::UnixStream::from_std(theirs).unwrap();
        let mut byte = [0];
        while theirs.readable().await.is_ok() {
            match theirs.try_read(&mut byte) {
                Ok(1..) => {
                    work();
                    theirs.try_write(&byte).unwrap();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                _ => return,
            }
        }
    });
    ours
}

fn call(mut stream: &UnixStream) {
    stream.write_all(b"x").unwrap();
    stream.read_exact(&mut [0]).expect("no answer");
}

/// D4: while plain writes to two databases hang, clients of other databases are served; and when the disk
/// resumes, so do the two.
#[test]
fn a_disk_that_hangs_stops_no_other_client_d4() {
    let directory = std::env::temp_dir().join(format!("paceline-slow-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir(&directory).unwrap();
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build().unwrap();
    let (sender, waits): (_, Receiver<()>) = channel();
    let gate = Gate { hangs: Mutex::new(false), changed: Condvar::new(), waits: sender };
    let gate = Arc::new(gate);
    let disk = Arc::new(HangingDisk(Arc::clone(&gate)));
    let host = Host::new(runtime.handle().clone(), disk.clone(), Policy::default()).unwrap();
    let streams: Vec<UnixStream> = ["One", "Two"]
        .into_iter()
        .map(|name| {
            let schema = parse(&SCHEMA.replace("Things", name));
            let schema = paceline_tables::schema::Schema::parse(&schema).unwrap();
            let path = directory.join(name);
            drop(crate::create_file(disk.clone(), &path, &schema).unwrap());
            let database = host.open(&path).unwrap();
            let client = host.begin_session(Some(Role::Admin), |id| id.0.to_string());
            served(&runtime, move || {
                transact(
                    &database,
                    &client,
                    "1",
                    r#"[{"op": "insert", "table": "Thing", "row": {}}]"#,
                );
                database.flush();
            })
        })
        .collect();
    let other = served(&runtime, || ());
    call(&other);
    streams.iter().for_each(call);
    let goes_on = GoesOn(Arc::clone(&gate));
    gate.set(true);
    for mut stream in &streams {
        stream.write_all(b"x").unwrap();
        waits.recv_timeout(NEVER).expect("nothing is written");
        (0..10).for_each(|_| call(&other));
    }
    drop(goes_on);
    for mut stream in &streams {
        stream.read_exact(&mut [0]).unwrap();
    }
    host.shut_down();
    let _ = std::fs::remove_dir_all(&directory);
}

/// L2, J5: while the next range of fencing numbers is being written, a client that needs a number waits for it.
/// It is not refused as on a full disk.
#[test]
fn a_lock_waits_for_numbers_that_are_being_reserved_l2() {
    use crate::{LockAnswer, LockOperation};
    for wanted in [LockOperation::Lock, LockOperation::Steal] {
        let world = World::new("numbers");
        let client = world.client(Role::Operator);
        let disk = world.own.writer();
        std::thread::scope(|scope| {
            let (locking, client) = (world.host.locking(), &client);
            let asker = scope.spawn(move || {
                // More than any range that this test reserves.
                for number in 0..20_000 {
                    let name = format!("l{number}");
                    let answer = locking.operate(client, wanted, &name);
                    if answer != Ok(LockAnswer::Locked) {
                        return answer;
                    }
                    locking.operate(client, LockOperation::Unlock, &name).unwrap();
                }
                Ok(LockAnswer::Locked)
            });
            while world.host.locking().awaiting() == 0 && !asker.is_finished() {
                std::thread::yield_now();
            }
            assert!(!asker.is_finished(), "{:?}", asker.join());
            drop(disk);
            assert_eq!(asker.join().unwrap(), Ok(LockAnswer::Locked));
        });
    }
}
