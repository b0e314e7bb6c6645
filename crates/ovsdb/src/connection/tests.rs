//! A connection over a pipe, polled by hand.

use super::*;
use crate::turns::Turns;
use paceline_host::{Host, Outgoing, Part, Peer, Policy, RealDisk, Reply, Session, create_file};
use paceline_tables::{OpResult, json, schema::Schema};
use paceline_types::Role;
use paceline_types::limits::{
    FRAME_BYTES_MAX, REPLY_BYTES_MAX, SNAPSHOT_REPLY_BYTES, UNREAD_BYTES_TOGETHER_MAX,
};
use std::sync::Arc;
use std::task::Waker;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

const SCHEMA: &str = r#"{"name": "Things", "version": "1.0.0", "tables": {"Thing": {"isRoot": true,
    "columns": {"name": {"type": "string"}}}}}"#;

const MONITORS: usize = 60;

impl Watched for DuplexStream {
    fn left(&self) -> Left {
        Box::pin(std::future::pending())
    }

    fn closed(&self) -> Left {
        Box::pin(std::future::pending())
    }
}

fn turns() -> PeerTurns {
    Turns::new().of(Peer::Owner)
}

struct World {
    runtime: tokio::runtime::Runtime,
    directory: std::path::PathBuf,
    host: Arc<Host>,
}

impl World {
    fn new(name: &str) -> Self {
        let name = format!("paceline-connection-{name}-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir(&directory).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let disk = Arc::new(RealDisk);
        let host = Host::new(runtime.handle().clone(), disk.clone(), Policy::default()).unwrap();
        host.open_own(&directory.join("paceline.db")).unwrap();
        let path = directory.join("things.db");
        let schema = Schema::parse(&json::parse(SCHEMA.as_bytes(), 100).unwrap()).unwrap();
        drop(create_file(disk, &path, &schema).unwrap());
        host.open(&path).unwrap();
        Self { runtime, directory, host }
    }

    fn connect(&self, role: Role, turns: &PeerTurns) -> (Connection<DuplexStream>, DuplexStream) {
        let (near, far) = duplex(256 << 10);
        (self.serve(near, role, turns, None), far)
    }

    fn serve<S: AsyncRead + AsyncWrite + Watched + Unpin>(
        &self,
        stream: S,
        role: Role,
        turns: &PeerTurns,
        probe: Option<Duration>,
    ) -> Connection<S> {
        let session = self.host.begin_session(Some(role), |id| format!("test#{}", id.0));
        let bounds = Bounds { frame_bytes_max: FRAME_BYTES_MAX, depth_max: 100, probe };
        let methods = Methods::new(self.host.clone(), session);
        Connection::new(stream, methods, bounds, turns.clone())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.host.shut_down();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Polls until the connection waits for an external event.
fn settle(connection: &mut Connection<DuplexStream>) {
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..1_000 {
        assert!(connection.poll(&mut cx).is_pending());
    }
}

/// D1: requests that arrive in one piece are handled only while there is room for their responses, and all are
/// answered once the client reads.
#[test]
fn requests_wait_while_answers_are_unread_d1() {
    let world = World::new("unread");
    let _guard = world.runtime.enter();
    let turns = turns();
    let (mut writer, mut far) = world.connect(Role::Admin, &turns);
    let text = "x".repeat(50_000);
    let insert = format!(r#"{{"op":"insert","table":"Thing","row":{{"name":"{text}"}}}}"#);
    for _ in 0..8 {
        let request = format!(r#"{{"id":1,"method":"transact","params":["Things",{insert}]}}"#);
        world.runtime.block_on(far.write_all(request.as_bytes())).unwrap();
        settle(&mut writer);
    }

    let (mut reader, mut far) = world.connect(Role::Viewer, &turns);
    let requests: String = (0..MONITORS)
        .map(|n| {
            format!(r#"{{"id":{n},"method":"monitor","params":["Things",{n},{{"Thing":{{}}}}]}}"#)
        })
        .collect();
    world.runtime.block_on(far.write_all(requests.as_bytes())).unwrap();
    settle(&mut reader);
    let session = reader.methods.session().clone();
    let begun = (0..MONITORS)
        .filter(|n| session.monitor(&n.to_string().into_bytes().into()).is_some())
        .count();
    let room = REPLY_BYTES_MAX / SNAPSHOT_REPLY_BYTES;
    assert!((2..=room + 3).contains(&begun), "{begun} monitors of a client that reads nothing");

    let mut answers = Vec::new();
    let mut piece = vec![0; 64 << 10];
    let ended =
        |answers: &[u8]| answers.ends_with(format!(r#""id":{}}}"#, MONITORS - 1).as_bytes());
    for _ in 0..100_000 {
        let mut cx = Context::from_waker(Waker::noop());
        assert!(reader.poll(&mut cx).is_pending());
        let mut buffer = ReadBuf::new(&mut piece);
        if Pin::new(&mut far).poll_read(&mut cx, &mut buffer).is_ready() {
            answers.extend_from_slice(buffer.filled());
        }
        if ended(&answers) {
            break;
        }
    }
    assert!(ended(&answers), "{} bytes of answers", answers.len());
    let text = String::from_utf8(answers).unwrap();
    let ids: Vec<usize> =
        (0..MONITORS).map(|n| text.find(&format!(r#""error":null,"id":{n}}}"#)).unwrap()).collect();
    assert!(ids.is_sorted());
}

/// D1: only a limited amount of long messages is parsed at a time on all connections; the others wait for their turn.
#[test]
fn long_messages_take_turns_d1() {
    let world = World::new("turns");
    let turns = turns();
    let all = FRAME_BYTES_MAX;
    let message = format!(r#"{{"id":1,"method":"echo","params":["{}"]}}"#, "x".repeat(200_000));
    world.runtime.block_on(async {
        let (mut connection, mut far) = world.connect(Role::Viewer, &turns);
        let others = turns.wait(all - 100_000).await.unwrap();
        far.write_all(message.as_bytes()).await.unwrap();
        tokio::task::block_in_place(|| settle(&mut connection));
        let mut piece = [0; 16];
        let mut cx = Context::from_waker(Waker::noop());
        let mut buffer = ReadBuf::new(&mut piece);
        assert!(Pin::new(&mut far).poll_read(&mut cx, &mut buffer).is_pending());
        drop(others);
        let serving = tokio::spawn(connection.run());
        let mut answer = vec![0; message.len()];
        far.read_exact(&mut answer[..200_000]).await.unwrap();
        assert!(answer.starts_with(br#"{"result":["xxx"#));
        drop(far);
        serving.await.unwrap();
    });
}

/// Counts unread bytes of other clients, so that `left` bytes are left of the budget.
fn leave_of_budget(connection: &Connection<DuplexStream>, left: usize) -> Part {
    let mut others = connection.methods.session().outbox.budget().part();
    // A tenth is reserved for root.
    others.set(UNREAD_BYTES_TOGETHER_MAX - UNREAD_BYTES_TOGETHER_MAX / 10 - left);
    others
}

/// D1: unfinished messages count in the budget of all connections. A message that exceeds its share is refused.
#[test]
fn messages_that_do_not_end_count_d1() {
    let world = World::new("unended");
    let _guard = world.runtime.enter();
    let (mut first, mut far) = world.connect(Role::Viewer, &turns());
    let budget = first.methods.session().outbox.budget().clone();
    let begin = format!(r#"{{"id":1,"method":"echo","params":["{}"#, "x".repeat(200_000));
    world.runtime.block_on(far.write_all(begin.as_bytes())).unwrap();
    settle(&mut first);
    assert!(first.ending.is_none());
    assert!(budget.used() >= 200_000, "{} bytes count", budget.used());

    let (mut second, mut far) = world.connect(Role::Viewer, &turns());
    let _others = leave_of_budget(&second, 500_000);
    world.runtime.block_on(far.write_all(begin.as_bytes())).unwrap();
    let mut cx = Context::from_waker(Waker::noop());
    let end = (0..1_000).find_map(|_| match second.poll(&mut cx) {
        Poll::Ready(end) => Some(end),
        Poll::Pending => None,
    });
    let Some(End::Cut(reason)) = end else { panic!("{end:?}") };
    assert!(reason.contains("no memory"), "{reason}");

    // A short message is always accepted.
    let (mut third, mut far) = world.connect(Role::Viewer, &turns());
    world.runtime.block_on(far.write_all(&begin.as_bytes()[..50_000])).unwrap();
    settle(&mut third);
    assert!(third.ending.is_none());
    drop((first, second, third, _others));
    assert_eq!(budget.used(), 0);
}

/// D1: a response that has left the outbox counts until the client has read it. If there is no room for it, it is
/// dropped.
#[test]
fn an_answer_that_is_being_sent_counts_d1() {
    let world = World::new("sending");
    let turns = turns();
    let message = format!(r#"{{"id":1,"method":"echo","params":["{}"]}}"#, "x".repeat(2_000_000));
    world.runtime.block_on(async {
        let (connection, mut far) = world.connect(Role::Viewer, &turns);
        let budget = connection.methods.session().outbox.budget().clone();
        let serving = tokio::spawn(connection.run());
        far.write_all(message.as_bytes()).await.unwrap();
        let mut first = [0; 1];
        far.read_exact(&mut first).await.unwrap();
        assert!(budget.used() > 1_000_000, "{} bytes count", budget.used());
        let mut rest = vec![0; 2_000_000];
        far.read_exact(&mut rest).await.unwrap();
        drop(far);
        serving.await.unwrap();
        assert_eq!(budget.used(), 0);
    });
}

/// D1: a client that reads a long response in small pieces, and always leaves some, does not make the buffer grow.
#[test]
fn a_client_that_reads_in_bits_keeps_no_more_than_a_piece_d1() {
    let world = World::new("bits");
    let _guard = world.runtime.enter();
    let turns = turns();
    let (mut writer, mut far) = world.connect(Role::Admin, &turns);
    let text = "x".repeat(20_000);
    let insert = format!(r#"{{"op":"insert","table":"Thing","row":{{"name":"{text}"}}}}"#);
    for _ in 0..50 {
        let request = format!(r#"{{"id":1,"method":"transact","params":["Things",{insert}]}}"#);
        world.runtime.block_on(far.write_all(request.as_bytes())).unwrap();
        settle(&mut writer);
    }
    let session = world.host.begin_session(Some(Role::Viewer), |id| format!("test#{}", id.0));
    let (near, mut far) = duplex(4 << 10);
    let bounds = Bounds { frame_bytes_max: FRAME_BYTES_MAX, depth_max: 100, probe: None };
    let methods = Methods::new(world.host.clone(), session);
    let mut reader = Connection::new(near, methods, bounds, turns);
    let request = br#"{"id":7,"method":"monitor","params":["Things",1,{"Thing":{}}]}"#;
    world.runtime.block_on(far.write_all(request)).unwrap();
    let mut cx = Context::from_waker(Waker::noop());
    let (mut answer, mut longest) = (Vec::new(), 0);
    let mut piece = vec![0; 4 << 10];
    for _ in 0..100_000 {
        assert!(reader.poll(&mut cx).is_pending());
        longest = longest.max(reader.out.len());
        let mut buffer = ReadBuf::new(&mut piece);
        if Pin::new(&mut far).poll_read(&mut cx, &mut buffer).is_ready() {
            answer.extend_from_slice(buffer.filled());
        }
        if answer.ends_with(br#""id":7}"#) {
            break;
        }
    }
    assert!(answer.len() > 1_000_000, "{} bytes of answer", answer.len());
    assert!(longest < 400_000, "a buffer of {longest} bytes");
}

fn echo(bytes: usize) -> String {
    format!(r#"{{"id":1,"method":"echo","params":["{}"]}}"#, "x".repeat(bytes))
}

/// L3: a disconnect is noticed even while a message of the client waits for its turn and the stream is not read.
#[test]
fn a_client_that_leaves_while_its_message_waits_is_noticed_l3() {
    let world = World::new("left");
    let turns = turns();
    world.runtime.block_on(async {
        let others = turns.wait(FRAME_BYTES_MAX).await.unwrap();
        let (near, mut far) = UnixStream::pair().unwrap();
        let serving = tokio::spawn(world.serve(near, Role::Viewer, &turns, None).run());
        far.write_all(echo(200_000).as_bytes()).await.unwrap();
        far.write_all(echo(10).as_bytes()).await.unwrap();
        drop(far);
        let end = serving.await.unwrap();
        assert!(matches!(end, End::Closed), "{end:?}");
        drop(others);
    });
}

/// Polls a connection repeatedly, while its timer fires every millisecond.
async fn poll_often<S: AsyncRead + AsyncWrite + Watched + Unpin>(
    connection: &mut Connection<S>,
) -> Option<End> {
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..200 {
        if let Poll::Ready(end) = tokio::task::block_in_place(|| connection.poll(&mut cx)) {
            return Some(end);
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    None
}

/// L3: a client whose message waits for its turn is not considered silent, because what it sent since is not read.
#[test]
fn a_client_that_is_not_read_is_not_silent_l3() {
    let world = World::new("unread-probe");
    let turns = turns();
    world.runtime.block_on(async {
        let others = turns.wait(FRAME_BYTES_MAX).await.unwrap();
        let (near, mut far) = duplex(1 << 20);
        let probe = Some(Duration::from_millis(1));
        let mut connection = world.serve(near, Role::Viewer, &turns, probe);
        far.write_all(echo(200_000).as_bytes()).await.unwrap();
        let end = poll_often(&mut connection).await;
        assert!(end.is_none(), "{end:?}");
        drop(others);
        // From now on the stream is read and the client sends nothing.
        let Some(End::Cut(reason)) = poll_often(&mut connection).await else { panic!("no end") };
        assert!(reason.contains("probe"), "{reason}");
        let mut answer = vec![0; 200_000];
        far.read_exact(&mut answer).await.unwrap();
        assert!(answer.starts_with(br#"{"result":["xxx"#));
    });
}

/// L3: a client whose stream is not read because it does not read its responses is considered silent.
#[test]
fn a_client_that_takes_no_answers_is_silent_l3() {
    let world = World::new("unread-answers");
    let turns = turns();
    world.runtime.block_on(async {
        let (near, mut far) = duplex(4 << 10);
        let probe = Some(Duration::from_millis(1));
        let mut connection = world.serve(near, Role::Viewer, &turns, probe);
        let _others = leave_of_budget(&connection, 400_000);
        let session = connection.methods.session().clone();
        let requests = echo(30_000).repeat(20);
        let mut rest = requests.as_bytes();
        let mut cx = Context::from_waker(Waker::noop());
        while !session.is_full() {
            if let Poll::Ready(written) = Pin::new(&mut far).poll_write(&mut cx, rest) {
                rest = &rest[written.unwrap()..];
            }
            if let Poll::Ready(end) = tokio::task::block_in_place(|| connection.poll(&mut cx)) {
                panic!("{end:?} while it sends");
            }
            connection.probe.as_mut().unwrap().heard = Instant::now();
        }
        let Some(End::Cut(reason)) = poll_often(&mut connection).await else { panic!("no end") };
        assert!(reason.contains("probe"), "{reason}");
    });
}

fn lock(id: usize) -> String {
    format!(r#"{{"id":{id},"method":"lock","params":["L"]}}"#)
}

/// Reads until `end` has arrived.
async fn read_until(far: &mut UnixStream, end: &str) -> String {
    let mut text = Vec::new();
    while !String::from_utf8_lossy(&text).contains(end) {
        assert_ne!(far.read_buf(&mut text).await.unwrap(), 0, "closed before {end}");
    }
    String::from_utf8(text).unwrap()
}

/// L3: the locks of a disconnected client are released even while its connection's task is busy. Here that task is
/// not polled again.
#[test]
fn locks_are_freed_though_the_connection_is_at_work_l3() {
    let world = World::new("at-work");
    let turns = turns();
    world.runtime.block_on(async {
        let (near, mut far) = UnixStream::pair().unwrap();
        let mut at_work = world.serve(near, Role::Client, &turns, None);
        // Messages that arrive together with the lock are handled after the watcher was started.
        far.write_all(format!("{}{}", lock(1), echo(10)).as_bytes()).await.unwrap();
        let is_answered = |far: &UnixStream, text: &mut Vec<u8>| {
            let _ = far.try_read_buf(text);
            let text = String::from_utf8_lossy(text);
            text.contains("xxxxxxxxxx") && text.contains(r#""locked":true"#)
        };
        let mut text = Vec::new();
        while !is_answered(&far, &mut text) {
            let mut cx = Context::from_waker(Waker::noop());
            assert!(at_work.poll(&mut cx).is_pending());
            tokio::task::yield_now().await;
        }
        let (near, mut waiter) = UnixStream::pair().unwrap();
        let serving = tokio::spawn(world.serve(near, Role::Client, &turns, None).run());
        waiter.write_all(lock(1).as_bytes()).await.unwrap();
        read_until(&mut waiter, r#""locked":false"#).await;
        drop(far);
        read_until(&mut waiter, r#""method":"locked""#).await;
        let mut cx = Context::from_waker(Waker::noop());
        let end = at_work.poll(&mut cx);
        assert!(end.is_ready(), "{end:?}");
        drop(waiter);
        serving.await.unwrap();
    });
}

/// L3: when a client disconnects, the remaining messages of a piece that arrived before are not handled.
#[test]
fn messages_of_a_client_that_has_left_are_not_handled_l3() {
    let world = World::new("left-behind");
    let turns = turns();
    world.runtime.block_on(async {
        let (near, mut far) = UnixStream::pair().unwrap();
        let mut gone = world.serve(near, Role::Client, &turns, None);
        gone.methods.session().outbox.close("it is gone");
        far.write_all(format!("{}{}", echo(10), lock(1)).as_bytes()).await.unwrap();
        let end = poll_fn(|cx| gone.poll(cx)).await;
        assert!(matches!(end, End::Cut(_)), "{end:?}");
        assert!(!gone.methods.has_locked());
    });
}

/// D4: after a change of conditions, rows are tested in pieces. All but the first are made by other threads, so that
/// other connections get their turn and this one reads, which notices a disconnect (L3).
#[test]
fn changed_conditions_are_tested_in_pieces_d4_l3() {
    let world = World::new("conditions");
    let turns = turns();
    let _guard = world.runtime.enter();
    let (mut connection, mut far) = world.connect(Role::Admin, &turns);
    let insert = r#"{"op":"insert","table":"Thing","row":{"name":"a"}}"#;
    let inserts = vec![insert; 1_000].join(",");
    let never = vec![r#"["name","!=","a"]"#; 500].join(",");
    for request in [
        format!(r#"{{"id":1,"method":"transact","params":["Things",{inserts}]}}"#),
        r#"{"id":2,"method":"monitor_cond","params":["Things","m",{"Thing":[{"where":[false]}]}]}"#
            .to_owned(),
    ] {
        world.runtime.block_on(far.write_all(request.as_bytes())).unwrap();
        settle(&mut connection);
    }
    let change = format!(
        r#"{{"id":3,"method":"monitor_cond_change","params":["m","m",{{"Thing":[{{"where":[{never}]}}]}}]}}"#
    );
    // The writer is driven by hand: the connection would write as many pieces in one go as the threads have ready.
    connection.intake.take(change.as_bytes(), &mut connection.methods).unwrap();
    let (mut pieces, mut out) = (0, Vec::new());
    while pieces == 0 {
        let item = next_item(&world, connection.methods.session());
        connection.writer.write(item, &mut out);
        while connection.writer.is_unfinished() {
            pieces += 1;
            connection.writer.go_on(&mut out);
            assert!(connection.writer.is_away(), "piece {pieces} is made here");
            let made = poll_fn(|cx| connection.writer.poll_away(cx, &mut out));
            world.runtime.block_on(made).unwrap();
        }
    }
    // A million steps, of which each piece takes a hundred thousand.
    assert!(pieces >= 9, "all was tested in {pieces} pieces");
}

/// Waits for the next item that is to be sent to a client.
fn next_item(world: &World, session: &Session) -> Outgoing {
    world.runtime.block_on(poll_fn(|cx| match session.outbox.take() {
        Some(item) => Poll::Ready(item),
        None => {
            session.outbox.register(cx.waker(), Interest::Items);
            Poll::Pending
        }
    }))
}

/// A client's session, what makes its answers into text, and how it asks for something.
fn writer(world: &World) -> (Arc<Session>, Writer) {
    let session = world.host.begin_session(Some(Role::Admin), |id| format!("test#{}", id.0));
    let writer = Writer::new(world.host.beside().clone(), session.clone());
    (session, writer)
}

/// All that is written of `item`, and the longest piece of it.
fn written(writer: &mut Writer, item: Outgoing) -> (String, usize) {
    let (mut text, mut piece, mut longest) = (Vec::new(), Vec::new(), 0);
    writer.write(item, &mut piece);
    loop {
        longest = longest.max(piece.len());
        text.append(&mut piece);
        if !writer.go_on(&mut piece) {
            return (String::from_utf8(text).unwrap(), longest);
        }
    }
}

/// D1, D4: an answer is made in pieces, also if it has many short results, results for many operations that do not
/// count, or is one long text.
#[test]
fn answers_of_every_kind_are_made_in_pieces_d1_d4() {
    const COUNT: usize = 100_000;
    let world = World::new("answers");
    let (_, mut writer) = writer(&world);
    let error = || OpResult::Error(paceline_tables::Error::new("planted", ""));
    let long = "x".repeat(10 * PIECE_BYTES);
    let nulls = ["null"; COUNT].join(",");
    let failed = r#"{"details":"","error":"planted"}"#;
    for (reply, expected) in [
        (
            Reply::Results((0..COUNT).map(|_| OpResult::Empty).collect()),
            format!("[{}]", ["{}"; COUNT].join(",")),
        ),
        (Reply::Results(vec![error(), OpResult::Nulls(COUNT)]), format!("[{failed},{nulls}]")),
        (Reply::Results(vec![OpResult::Nulls(COUNT), error()]), format!("[{nulls},{failed}]")),
        (Reply::Results(vec![OpResult::Nulls(1)]), "[null]".to_owned()),
        (Reply::Results(vec![]), "[]".to_owned()),
        (Reply::Text(long.clone().into()), long.clone()),
        (Reply::Shared(long.as_bytes().into()), long.clone()),
        (Reply::Text(b"{}".to_vec()), "{}".to_owned()),
    ] {
        let item = Outgoing::Reply(Arc::from(&b"7"[..]), reply);
        let (text, longest) = written(&mut writer, item);
        assert_eq!(text, format!(r#"{{"result":{expected},"error":null,"id":7}}"#));
        assert!(longest < PIECE_BYTES + 100, "a piece of {longest} bytes");
    }
}

/// D4: a row that takes long to write is never written by a task of the runtime, however many clients ask for it. The
/// pieces are made beside, and each client gets all of its answer.
#[test]
fn however_many_ask_a_long_row_is_written_beside_d4() {
    let world = World::new("long-rows");
    let things = world.host.database("Things").unwrap();
    let (admin, _) = writer(&world);
    let text = "x".repeat(2 << 20);
    let parsed = |text: &str| vec![json::parse(text.as_bytes(), 100).unwrap()];
    let insert = format!(r#"{{"op":"insert","table":"Thing","row":{{"name":"{text}"}}}}"#);
    things.transact(&admin, [(Arc::from(&b"1"[..]), parsed(&insert))]);
    things.flush();
    let select = parsed(r#"{"op":"select","table":"Thing","where":[],"columns":["name"]}"#);
    let mut readers: Vec<_> = (0..40)
        .map(|_| {
            let (session, mut writer) = writer(&world);
            things.transact(&session, [(Arc::from(&b"2"[..]), select.clone())]);
            things.flush();
            let item = next_item(&world, &session);
            let mut out = Vec::new();
            writer.write(item, &mut out);
            writer.go_on(&mut out);
            (writer, out)
        })
        .collect();
    for (writer, out) in &readers {
        assert!(writer.is_away(), "it is made here");
        assert!(out.len() < 100, "{} bytes are written here", out.len());
    }
    for (writer, out) in &mut readers {
        while writer.is_unfinished() {
            world.runtime.block_on(poll_fn(|cx| writer.poll_away(cx, out))).unwrap();
            writer.go_on(out);
        }
        let expected =
            format!(r#"{{"result":[{{"rows":[{{"name":"{text}"}}]}}],"error":null,"id":2}}"#);
        assert!(*out == expected.as_bytes(), "{} bytes", out.len());
    }
}

/// D4: of what one read gives, a part is handled before others have their turn: so many messages, and fewer if they
/// ask for much.
#[test]
fn a_part_of_a_read_is_handled_in_a_turn_d4() {
    let world = World::new("part");
    let column = |n: usize| format!(r#""column_{n}": {{"type": "string"}}"#);
    let columns = (0..1_000).map(column).collect::<Vec<_>>().join(",");
    let schema = format!(
        r#"{{"name": "Wide", "version": "1.0.0", "tables": {{"T": {{"columns": {{{columns}}}}}}}}}"#
    );
    let schema = Schema::parse(&json::parse(schema.as_bytes(), 100).unwrap()).unwrap();
    let path = world.directory.join("wide.db");
    drop(create_file(Arc::new(RealDisk), &path, &schema).unwrap());
    let answer = world.host.open(&path).unwrap().schema_text().len();
    for (request, most) in [
        (r#"{"id":1,"method":"echo","params":[]}"#.to_owned(), 256),
        (
            r#"{"id":1,"method":"get_schema","params":["Wide"]}"#.to_owned(),
            (256 << 10) / answer + 1,
        ),
    ] {
        let (session, _) = writer(&world);
        let mut methods = Methods::new(world.host.clone(), session.clone());
        let part = session.outbox.budget().part();
        let mut intake = Intake::new(FRAME_BYTES_MAX, 100, turns(), part);
        let sent = 1_000;
        let mut counts = Vec::new();
        let mut count = || {
            let answered = std::iter::from_fn(|| session.outbox.take()).count();
            counts.push(answered);
            answered
        };
        intake.take(request.repeat(sent).as_bytes(), &mut methods).unwrap();
        let mut left = sent - count();
        while left > 0 {
            let mut cx = Context::from_waker(Waker::noop());
            let Poll::Ready(Some(Ok(()))) = intake.poll_rest(&mut cx, &mut methods) else {
                panic!("{left} are not answered");
            };
            left -= count();
        }
        assert!(counts.iter().all(|count| *count <= most), "{counts:?} of {most}");
    }
}
