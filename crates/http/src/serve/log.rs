//! The access log: one line for each request, with the time spent in each checkpoint.
//!
//! Each worker collects its lines, and a separate thread writes them, so that no request waits for a disk. If the
//! disk is too slow for long, lines are dropped, and their number is logged.

use crate::date;
use crate::respond::{Reply, push_json};
use crate::serve::attributes::{self, Asking, Peer};
use crate::serve::table::LiveFrontend;
use crate::serve::worker::Worker;
use crate::wire::{RequestHead, header_value};
use paceline_host::{Permit, rfc3339, wall_ms};
use paceline_routing::LogFormat;
use paceline_types::{Attributes, Span};
use std::cell::{Cell, RefCell, RefMut};
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// The longest target, and the longest other text from a client, in a line.
const TARGET_BYTES_MAX: usize = 2 << 10;
const FIELD_BYTES_MAX: usize = 1 << 10;

/// Pieces of text that wait to be written.
const PIECES_MAX: usize = 64;

/// A worker hands its lines on when they reach this length.
const PIECE_BYTES: usize = 64 << 10;

/// Or after this time.
const PIECE_WAIT: Duration = Duration::from_millis(100);

/// The file, and the thread that writes it.
#[derive(Clone, Debug)]
pub(crate) struct Writer {
    sender: SyncSender<Piece>,
    shared: Arc<Shared>,
}

/// What the thread is sent.
#[derive(Debug)]
enum Piece {
    Lines(String),
    /// Answered when all lines before it were written.
    Flush(oneshot::Sender<()>),
}

#[derive(Debug, Default)]
struct Shared {
    /// Lines that were dropped.
    lost: AtomicU64,
    /// Whether the file is to be opened again, because it was renamed.
    reopens: AtomicBool,
}

impl Writer {
    /// Starts the thread; the file is opened with the first line.
    pub fn start(path: PathBuf) -> std::io::Result<Self> {
        let (sender, receiver) = sync_channel(PIECES_MAX);
        let shared = Arc::<Shared>::default();
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("access-log".into());
        thread.spawn(move || write(&path, &receiver, &theirs))?;
        Ok(Self { sender, shared })
    }

    /// Opens the file again before the next line.
    pub fn reopen(&self) {
        self.shared.reopens.store(true, Ordering::Relaxed);
    }

    /// Waits until everything sent so far is written.
    pub async fn flush(&self) {
        let (sender, written) = oneshot::channel();
        if self.sender.try_send(Piece::Flush(sender)).is_ok() {
            // The sender is dropped if the thread has ended.
            let _ = written.await;
        }
    }

    fn send(&self, lines: String) {
        let count = lines.bytes().filter(|byte| *byte == b'\n').count() as u64;
        if self.sender.try_send(Piece::Lines(lines)).is_err() {
            self.shared.lost.fetch_add(count, Ordering::Relaxed);
        }
    }
}

fn write(path: &Path, pieces: &Receiver<Piece>, shared: &Shared) {
    let mut file: Option<File> = None;
    let (mut is_told, mut is_torn) = (false, false);
    while let Ok(piece) = pieces.recv() {
        let lines = match piece {
            Piece::Lines(lines) => lines,
            Piece::Flush(done) => {
                let _ = done.send(());
                continue;
            }
        };
        if shared.reopens.swap(false, Ordering::Relaxed) {
            file = None;
        }
        let lost = shared.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            tracing::warn!(lines = lost, "the access log is too slow; lines were left out");
        }
        let written = match &mut file {
            Some(file) => put(file, lines.as_bytes(), &mut is_torn),
            None => open(path)
                .and_then(|opened| put(file.insert(opened), lines.as_bytes(), &mut is_torn)),
        };
        if let Err(error) = &written
            && !is_told
        {
            tracing::error!(file = %path.display(), %error, "the access log cannot be written");
        }
        is_told = written.is_err();
        if is_told {
            file = None;
        }
    }
}

/// Writes lines. `is_torn` is set while the last line is incomplete, as on a full disk. The next text then begins on
/// a line of its own.
fn put(out: &mut impl Write, lines: &[u8], is_torn: &mut bool) -> std::io::Result<()> {
    if *is_torn {
        out.write_all(b"\n")?;
        *is_torn = false;
    }
    let mut rest = lines;
    while !rest.is_empty() {
        match out.write(rest) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(len) => {
                let (written, left) = rest.split_at_checked(len).unwrap_or((rest, b""));
                *is_torn = !written.ends_with(b"\n");
                rest = left;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o640).open(path)
}

/// A worker's part of the log.
#[derive(Debug)]
pub(crate) struct Log {
    writer: Writer,
    lines: RefCell<String>,
    is_waiting: Cell<bool>,
}

impl Log {
    pub fn new(writer: Writer) -> Self {
        Self { writer, lines: RefCell::default(), is_waiting: Cell::new(false) }
    }

    /// Hands on the collected lines.
    pub fn flush(&self) {
        let lines = std::mem::take(&mut *self.lines.borrow_mut());
        if !lines.is_empty() {
            self.writer.send(lines);
        }
    }
}

/// The collected lines while one is being written. If that panics, the partial line is removed.
struct Whole<'a> {
    lines: RefMut<'a, String>,
    len: usize,
}

impl<'a> Whole<'a> {
    fn new(lines: RefMut<'a, String>) -> Self {
        let len = lines.len();
        Self { lines, len }
    }

    /// The line is complete.
    fn keep(mut self) {
        self.len = self.lines.len();
    }
}

impl Drop for Whole<'_> {
    fn drop(&mut self) {
        self.lines.truncate(self.len);
    }
}

fn add(worker: &Worker, write: impl FnOnce(&mut String)) {
    let log = &worker.log;
    let mut whole = Whole::new(log.lines.borrow_mut());
    write(&mut whole.lines);
    whole.keep();
    if log.lines.borrow().len() >= PIECE_BYTES {
        log.flush();
    } else if !log.is_waiting.replace(true)
        && let Some(worker) = worker.own()
    {
        tokio::task::spawn_local(async move {
            tokio::time::sleep(PIECE_WAIT).await;
            worker.log.is_waiting.set(false);
            worker.log.flush();
        });
    }
}

/// What is known of a request for its log line.
#[derive(Debug)]
pub(crate) struct Record {
    line: Option<Box<Line>>,
    /// Values from the permit, if there was one.
    settled: Settled,
    /// The attributes that the logged values are read from if there is no permit.
    attributes: Option<Box<Attributes>>,
    /// Bytes of the two bodies.
    pub bytes: (u64, u64),
}

#[derive(Debug)]
struct Line {
    format: LogFormat,
    began: Instant,
    began_ms: u64,
    admitted: Option<Instant>,
    frontend: Box<str>,
    client: Box<str>,
    method: String,
    target: String,
    authority: String,
    protocol: &'static str,
    agent: String,
    referer: String,
}

/// What a log line reports about a permit.
#[derive(Debug, Default)]
struct Settled {
    server: Box<str>,
    slept: Vec<(Box<str>, Span)>,
    values: Vec<(Box<str>, Option<String>)>,
}

impl Settled {
    fn of(worker: &Worker, permit: &Permit) -> Self {
        let server = permit.site().and_then(|site| worker.server_name(site.server));
        let server = server.unwrap_or_default();
        Self { server, slept: permit.slept(), values: permit.values() }
    }
}

/// How a request ended, for its log line.
struct Ended<'a> {
    status: u16,
    error: Option<&'static str>,
    /// The response of the daemon, if the server sent none.
    reply: Option<&'a Reply>,
}

impl Record {
    /// Begins the record of a request whose head was read.
    pub fn begin(frontend: &LiveFrontend, peer: &Peer, head: &RequestHead, bytes: &[u8]) -> Self {
        let protocol = if head.is_11 { "HTTP/1.1" } else { "HTTP/1.0" };
        let mut record = Self::without_head(frontend, peer);
        if let Some(line) = &mut record.line {
            let text =
                |bytes: &[u8]| cut(String::from_utf8_lossy(bytes).into_owned(), FIELD_BYTES_MAX);
            line.method = text(head.method(bytes));
            let (path, query) = (head.target.path(bytes), head.target.query(bytes));
            let mut target = String::from_utf8_lossy(path).into_owned();
            if head.target.query.is_some() {
                let _ = write!(target, "?{}", String::from_utf8_lossy(query));
            }
            line.target = cut(target, TARGET_BYTES_MAX);
            line.client = attributes::client(frontend, peer, head, bytes).into();
            line.authority = text(head.target.authority(bytes));
            line.protocol = protocol;
            line.agent = header_value(head, bytes, "user-agent").map_or_else(String::new, text);
            line.referer = header_value(head, bytes, "referer").map_or_else(String::new, text);
        }
        record
    }

    /// Begins the record of a request whose head cannot be parsed.
    pub fn without_head(frontend: &LiveFrontend, peer: &Peer) -> Self {
        let line = frontend.spec.access_log.map(|format| {
            Box::new(Line {
                format,
                began: Instant::now(),
                began_ms: wall_ms(),
                admitted: None,
                frontend: frontend.spec.name.clone(),
                client: peer.client.as_ref().unwrap_or(&peer.address).clone(),
                method: String::new(),
                target: String::new(),
                authority: String::new(),
                protocol: "",
                agent: String::new(),
                referer: String::new(),
            })
        });
        Self { line, settled: Settled::default(), attributes: None, bytes: (0, 0) }
    }

    /// Keeps the attributes that the frontend logs, in case the request is refused.
    pub fn keep(&mut self, frontend: &LiveFrontend, asking: &mut Asking) {
        if self.line.is_some() && !frontend.spec.log_values.is_empty() {
            let attributes = asking.request.attributes.clone();
            asking.request.kept_bytes += attributes.bytes();
            self.attributes = Some(Box::new(attributes));
        }
    }

    /// The request arrived over HTTP/2.
    pub fn is_http2(&mut self) {
        if let Some(line) = &mut self.line {
            line.protocol = "HTTP/2";
        }
    }

    /// The request got its permit.
    pub fn admitted(&mut self) {
        if let Some(line) = &mut self.line {
            line.admitted = Some(Instant::now());
        }
    }

    /// The permit is released before the request ends.
    pub fn settle(&mut self, worker: &Worker, permit: &Permit) {
        if self.line.is_some() {
            self.settled = Settled::of(worker, permit);
        }
    }

    /// The request ended with the server's response: complete, or cut short for the reason in `error`.
    pub fn end(
        mut self,
        worker: &Worker,
        permit: Option<&Permit>,
        status: u16,
        error: Option<&'static str>,
    ) {
        permit.inspect(|permit| self.settle(worker, permit));
        self.write(worker, &Ended { status, error, reply: None });
    }

    /// The request ended with a response of the daemon.
    pub fn end_reply(self, worker: &Worker, reply: &Reply) {
        let (status, error) = (reply.status, Some(reply.word));
        self.write(worker, &Ended { status, error, reply: Some(reply) });
    }

    /// The client disconnected. `status` is the status of the response that was being sent. Without one it is 499, as
    /// in other proxies.
    pub fn end_left(self, worker: &Worker, permit: Option<&Permit>, status: Option<u16>) {
        self.end(worker, permit, status.unwrap_or(499), Some("client_left"));
    }

    /// A connection was closed without a response, for the reason in `reply`.
    pub fn end_unanswered(self, worker: &Worker, reply: &Reply) {
        let ended = Ended { status: 0, error: Some(reply.word), reply: Some(reply) };
        self.write(worker, &ended);
    }

    fn write(mut self, worker: &Worker, ended: &Ended<'_>) {
        let Some(line) = self.line else { return };
        if let Some(attributes) = self.attributes.filter(|_| self.settled.values.is_empty()) {
            self.settled.values = worker.control.values(&attributes);
        }
        add(worker, |out| line.write(out, &self.settled, self.bytes, ended));
    }
}

impl Line {
    fn write(&self, out: &mut String, settled: &Settled, bytes: (u64, u64), ended: &Ended<'_>) {
        match self.format {
            LogFormat::Json => self.write_json(out, settled, bytes, ended),
            LogFormat::Common => self.write_common(out, settled, bytes, ended),
        }
    }

    fn waited(&self) -> Duration {
        self.admitted.unwrap_or_else(Instant::now).saturating_duration_since(self.began)
    }

    fn write_json(
        &self,
        out: &mut String,
        settled: &Settled,
        bytes: (u64, u64),
        ended: &Ended<'_>,
    ) {
        out.push_str("{\"time\":");
        push_json(out, &rfc3339(self.began_ms));
        let reason = ended.reply.map_or("", |reply| &*reply.message);
        for (name, text) in [
            ("frontend", &*self.frontend),
            ("client", &*self.client),
            ("method", &*self.method),
            ("target", &*self.target),
            ("authority", &*self.authority),
            ("protocol", self.protocol),
            ("server", &*settled.server),
            ("user_agent", &*self.agent),
            ("referer", &*self.referer),
            ("error", ended.error.unwrap_or_default()),
            ("reason", reason),
        ] {
            if !text.is_empty() {
                let _ = write!(out, ",\"{name}\":");
                push_json(out, text);
            }
        }
        if let Some(reply) = ended.reply {
            reply.push_place(out);
        }
        let (received, sent) = bytes;
        let _ = write!(
            out,
            ",\"status\":{},\"bytes_in\":{received},\"bytes_out\":{sent}",
            ended.status
        );
        let _ = write!(out, ",\"seconds\":{}", Seconds(self.began.elapsed()));
        let _ = write!(out, ",\"waited\":{}", Seconds(self.waited()));
        write_objects(out, settled, ",\"queues\":", ",\"values\":");
        out.push_str("}\n");
    }

    fn write_common(
        &self,
        out: &mut String,
        settled: &Settled,
        bytes: (u64, u64),
        ended: &Ended<'_>,
    ) {
        let target = format!("{} {} {}", self.method, self.target, self.protocol);
        let _ = write!(out, "{} - - [{}] ", self.client, date::common(self.began_ms));
        push_json(out, target.trim());
        let _ = write!(out, " {} {} ", ended.status, bytes.1);
        push_json(out, or_dash(&self.referer));
        out.push(' ');
        push_json(out, or_dash(&self.agent));
        let _ = write!(
            out,
            " frontend={} server={} seconds={} waited={}",
            self.frontend,
            or_dash(&settled.server),
            Seconds(self.began.elapsed()),
            Seconds(self.waited())
        );
        if let Some(error) = ended.error {
            let _ = write!(out, " error={error}");
        }
        if let Some(reply) = ended.reply {
            out.push_str(" reason=");
            push_json(out, &reply.message);
        }
        write_objects(out, settled, " queues=", " values=");
        out.push('\n');
    }
}

/// The text, or the common format's mark for an empty one.
fn or_dash(text: &str) -> &str {
    if text.is_empty() { "-" } else { text }
}

/// The text, or its beginning and a mark. Over HTTP/2 one byte can name a field of several thousand bytes, and the
/// log must not grow that much faster than the traffic.
fn cut(mut text: String, max: usize) -> String {
    if text.len() > max {
        text.truncate(text.floor_char_boundary(max));
        text.push('…');
    }
    text
}

/// Writes the time in each queue, and the configured values, if there are any.
fn write_objects(out: &mut String, settled: &Settled, queues: &str, values: &str) {
    write_object(out, queues, &settled.slept, |out, span| {
        let _ = write!(out, "{}", Seconds(Duration::from_nanos(span.0)));
    });
    write_object(out, values, &settled.values, |out, value| match value {
        Some(value) => push_json(out, &cut(value.clone(), FIELD_BYTES_MAX)),
        None => out.push_str("null"),
    });
}

fn write_object<T>(
    out: &mut String,
    title: &str,
    members: &[(Box<str>, T)],
    write: impl Fn(&mut String, &T),
) {
    if members.is_empty() {
        return;
    }
    out.push_str(title);
    for (index, (name, value)) in members.iter().enumerate() {
        out.push(if index == 0 { '{' } else { ',' });
        push_json(out, name);
        out.push(':');
        write(out, value);
    }
    out.push('}');
}

/// A time in seconds, to the microsecond.
struct Seconds(Duration);

impl std::fmt::Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:06}", self.0.as_secs(), self.0.subsec_micros())
    }
}

#[cfg(test)]
mod tests {
    use super::{Seconds, put};
    use std::io::{Error, ErrorKind, Write};
    use std::time::Duration;

    /// A disk with `room` bytes left, which takes a few bytes at a time.
    struct Disk {
        bytes: Vec<u8>,
        room: usize,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> Result<usize, Error> {
            let len = bytes.len().min(self.room).min(3);
            if len == 0 {
                return Err(ErrorKind::StorageFull.into());
            }
            self.room -= len;
            self.bytes.extend_from_slice(&bytes[..len]);
            Ok(len)
        }

        fn flush(&mut self) -> Result<(), Error> {
            Ok(())
        }
    }

    #[test]
    fn a_line_that_was_cut_short_ends_before_the_next_begins() {
        let (mut disk, mut is_torn) = (Disk { bytes: vec![], room: 6 }, false);
        assert!(put(&mut disk, b"one\ntwo\n", &mut is_torn).is_err());
        assert!(put(&mut disk, b"three\n", &mut is_torn).is_err(), "it is still full");
        disk.room = 100;
        put(&mut disk, b"four\n", &mut is_torn).unwrap();
        disk.room = 5;
        assert!(put(&mut disk, b"five\nsix\n", &mut is_torn).is_err(), "between two lines");
        disk.room = 100;
        put(&mut disk, b"seven\n", &mut is_torn).unwrap();
        assert_eq!(String::from_utf8(disk.bytes).unwrap(), "one\ntw\nfour\nfive\nseven\n");
    }

    #[test]
    fn seconds_are_written_to_the_microsecond() {
        assert_eq!(Seconds(Duration::from_micros(1_000_042)).to_string(), "1.000042");
    }
}
