//! A small server that implements the API's contract, for tests of its clients.
//!
//! It has sessions (bound ones end with their connection), permits up to a capacity, and locks. A test's own handler
//! is called first. It records the requests that it receives.
#![allow(dead_code, reason = "not every test binary uses all of it")]

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// A received request.
#[derive(Clone, Debug)]
pub struct Asked {
    pub connection: u64,
    pub method: String,
    pub path: String,
    pub token: Option<String>,
    pub only_creates: bool,
    pub body: Value,
}

impl Asked {
    pub fn line(&self) -> String {
        format!("{} {}", self.method, self.path)
    }
}

/// An answer.
pub enum Reply {
    /// A status and a body.
    Json(u16, Value),
    /// The same, then the connection ends without notice.
    JsonThenEnd(u16, Value),
    /// These bytes, then the connection ends.
    Raw(Vec<u8>),
    /// Nothing, until the client disconnects.
    Silence,
}

type Handler = dyn Fn(&Asked) -> Option<Reply> + Send + Sync;

#[derive(Default)]
pub struct World {
    pub asked: Vec<Asked>,
    pub sessions: BTreeMap<String, Option<u64>>,
    pub permits: BTreeMap<String, String>,
    pub locks: BTreeMap<String, String>,
    /// The fencing number of the last grant of each lock.
    pub fencings: std::collections::HashMap<String, u64>,
    pub capacity: usize,
    /// Connections that ended.
    pub ended: Vec<u64>,
    next: u64,
}

pub struct Fake {
    pub dir: Scratch,
    pub address: String,
    shared: Arc<Shared>,
}

struct Shared {
    world: Mutex<World>,
    changed: Condvar,
    handler: Box<Handler>,
}

impl Fake {
    /// A server on `api.sock` in its own directory, and on TCP.
    pub fn start(handler: impl Fn(&Asked) -> Option<Reply> + Send + Sync + 'static) -> Self {
        Self::start_in(Scratch::new(), handler)
    }

    pub fn start_in(
        dir: Scratch,
        handler: impl Fn(&Asked) -> Option<Reply> + Send + Sync + 'static,
    ) -> Self {
        let world = Mutex::new(World { capacity: 1, ..World::default() });
        let handler = Box::new(handler);
        let shared = Arc::new(Shared { world, changed: Condvar::new(), handler });
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = tcp.local_addr().unwrap().to_string();
        let unix = UnixListener::bind(dir.path.join("api.sock")).unwrap();
        let fake = Self { dir, address, shared };
        fake.accept(move || unix.accept().unwrap().0, 0);
        fake.accept(move || tcp.accept().unwrap().0, 1 << 32);
        fake
    }

    fn accept<S>(&self, next: impl Fn() -> S + Send + 'static, first: u64)
    where
        S: Send + 'static,
        for<'a> &'a S: Read + Write,
    {
        let shared = self.shared.clone();
        std::thread::spawn(move || {
            for number in first.. {
                let (stream, shared) = (next(), shared.clone());
                std::thread::spawn(move || {
                    let _ = shared.serve(&stream, number);
                    shared.hang_up(number);
                });
            }
        });
    }

    pub fn world(&self) -> MutexGuard<'_, World> {
        self.shared.world.lock().unwrap()
    }

    /// Waits until a condition holds.
    pub fn wait_until(&self, mut is_so: impl FnMut(&World) -> bool) {
        let waited = self.shared.changed.wait_timeout_while(
            self.world(),
            Duration::from_secs(20),
            |world| !is_so(world),
        );
        assert!(!waited.unwrap().1.timed_out(), "it never came to pass");
    }

    /// The request lines so far.
    pub fn lines(&self) -> Vec<String> {
        self.world().asked.iter().map(Asked::line).collect()
    }
}

impl Shared {
    fn serve<S>(&self, stream: &S, connection: u64) -> std::io::Result<()>
    where
        for<'a> &'a S: Read + Write,
    {
        let mut input = BufReader::new(stream);
        while let Some(asked) = read_request(&mut input, connection)? {
            self.world.lock().unwrap().asked.push(asked.clone());
            self.changed.notify_all();
            let reply = (self.handler)(&asked);
            let mut out = stream;
            match reply.unwrap_or_else(|| self.answer(&asked)) {
                Reply::Json(status, body) => out.write_all(&http(status, &body))?,
                Reply::JsonThenEnd(status, body) => return out.write_all(&http(status, &body)),
                Reply::Raw(bytes) => return out.write_all(&bytes),
                Reply::Silence => return input.read_to_end(&mut Vec::new()).map(drop),
            }
            out.flush()?;
        }
        Ok(())
    }

    /// The implemented part of the contract.
    fn answer(&self, asked: &Asked) -> Reply {
        let mut parts = asked.path.trim_start_matches("/v1/").split('/');
        let (kind, name, verb) =
            (parts.next().unwrap_or(""), parts.next().unwrap_or(""), parts.next().unwrap_or(""));
        match (asked.method.as_str(), kind, name, verb) {
            ("POST", "sessions", "", "") => self.begin(asked),
            ("DELETE", "sessions", id, "") => self.end(id),
            ("POST", "sessions", id, "processes") => self.change(|w| w.sessions.contains_key(id)),
            ("POST", "permits", "", "") => self.grant(asked, None),
            ("PUT", "permits", id, "") => self.grant(asked, Some(id)),
            ("DELETE", "permits", id, "") => self.change(|w| w.permits.remove(id).is_some()),
            ("PUT", "locks", name, "") => self.lock(asked, name),
            ("GET", "locks", name, "") if !name.is_empty() => self.shown(name),
            ("DELETE", "locks", name, "") => self.change(|w| w.locks.remove(name).is_some()),
            _ => error(404, "not_found", "no such path"),
        }
    }

    fn change(&self, change: impl FnOnce(&mut World) -> bool) -> Reply {
        let found = change(&mut self.world.lock().unwrap());
        self.changed.notify_all();
        if found { Reply::Json(204, Value::Null) } else { error(404, "not_found", "no such thing") }
    }

    fn begin(&self, asked: &Asked) -> Reply {
        let mut world = self.world.lock().unwrap();
        let id = world.id("s-");
        let bound = (asked.body["bound"] == true).then_some(asked.connection);
        world.sessions.insert(id.clone(), bound);
        Reply::Json(201, json!({"session": id, "lease": "30s", "expires_at": "x"}))
    }

    fn end(&self, id: &str) -> Reply {
        self.change(|world| {
            world.permits.retain(|_, session| session != id);
            world.locks.retain(|_, session| session != id);
            world.sessions.remove(id).is_some()
        })
    }

    fn hang_up(&self, connection: u64) {
        let mut world = self.world.lock().unwrap();
        world.ended.push(connection);
        let bound =
            |(id, bound): (&String, &Option<u64>)| (*bound == Some(connection)).then(|| id.clone());
        let ended: Vec<String> = world.sessions.iter().filter_map(bound).collect();
        drop(world);
        for id in ended {
            self.end(&id);
        }
        self.changed.notify_all();
    }

    fn grant(&self, asked: &Asked, id: Option<&str>) -> Reply {
        let session = asked.body["session"].as_str().unwrap_or_default().to_owned();
        let mut world = self.world.lock().unwrap();
        if !session.is_empty() && !world.sessions.contains_key(&session) {
            return error(404, "not_found", "no such session");
        }
        let wait: u64 = match asked.body["max_wait"].as_str() {
            Some("0s") => 0,
            _ => 20,
        };
        let until = Instant::now() + Duration::from_secs(wait);
        while world.permits.len() >= world.capacity {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let body = json!({"error": "refused", "message": "pool \"default\": waited 0s",
                    "reason": "expired", "request": 3, "retry_after": 2});
                return Reply::Json(503, body);
            }
            world = self.changed.wait_timeout(world, left).unwrap().0;
        }
        let permit = id.map_or_else(|| world.id("p-"), str::to_owned);
        world.permits.insert(permit.clone(), session.clone());
        let expires = session.is_empty().then_some("2026-01-01T00:00:30.000000Z");
        self.changed.notify_all();
        Reply::Json(
            201,
            json!({"permit": permit, "request": 17, "priority": 0, "pool": "default",
                "granted_at": "2026-01-01T00:00:00.000000Z", "waited": "0s", "expires_at": expires}),
        )
    }

    fn shown(&self, name: &str) -> Reply {
        let world = self.world.lock().unwrap();
        match world.locks.get(name) {
            Some(owner) => {
                let fencing = world.fencings.get(name);
                Reply::Json(200, json!({"name": name, "owner": owner, "fencing": fencing}))
            }
            None => error(404, "not_found", "nobody owns this lock or waits for it"),
        }
    }

    fn lock(&self, asked: &Asked, name: &str) -> Reply {
        let session = asked.body["session"].as_str().unwrap().to_owned();
        let mut world = self.world.lock().unwrap();
        if world.locks.contains_key(name) && asked.body["steal"] != true {
            let message = format!("lock \"{name}\" is owned by somebody else");
            return error(409, "conflict", &message);
        }
        world.locks.insert(name.to_owned(), session);
        world.next += 1;
        let fencing = world.next;
        world.fencings.insert(name.to_owned(), fencing);
        self.changed.notify_all();
        Reply::Json(200, json!({"lock": name, "fencing": fencing}))
    }
}

impl World {
    fn id(&mut self, prefix: &str) -> String {
        self.next += 1;
        format!("{prefix}{}", self.next)
    }
}

pub fn error(status: u16, word: &str, message: &str) -> Reply {
    Reply::Json(status, json!({"error": word, "message": message}))
}

fn http(status: u16, body: &Value) -> Vec<u8> {
    if status == 204 {
        return b"HTTP/1.1 204 No Content\r\n\r\n".to_vec();
    }
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 {status} Word\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    (head + &body).into_bytes()
}

fn read_request(
    input: &mut impl std::io::BufRead,
    connection: u64,
) -> std::io::Result<Option<Asked>> {
    let mut line = String::new();
    if input.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next().unwrap(), words.next().unwrap());
    let (mut length, mut token, mut only_creates) = (0, None, false);
    loop {
        let mut field = String::new();
        input.read_line(&mut field)?;
        let Some((name, value)) = field.trim_end().split_once(": ") else { break };
        match name {
            "Content-Length" => length = value.parse().unwrap(),
            "Authorization" => token = value.strip_prefix("Bearer ").map(str::to_owned),
            "If-None-Match" => only_creates = value == "*",
            _ => {}
        }
    }
    let mut body = vec![0; length];
    input.read_exact(&mut body)?;
    // A body that is not JSON is a text.
    let text = || Value::String(String::from_utf8(body.clone()).unwrap());
    let body = match body.is_empty() {
        true => Value::Null,
        false => serde_json::from_slice(&body).unwrap_or_else(|_| text()),
    };
    Ok(Some(Asked { connection, method, path, token, only_creates, body }))
}

/// A directory that is removed with its content.
pub struct Scratch {
    pub path: PathBuf,
}

impl Scratch {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("plc-{}-{number}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self { path }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
