//! The requests of clients: prepared in advance. Responses are checked and otherwise ignored.
//!
//! Knows the part of HTTP and RESP that is needed to find the end of a response; gRPC is in `grpc`.

use super::grpc::{self, Streams};
use super::rivals::Running;
use crate::failure::{Failure, Outcome};

/// The length of a session's text.
const SESSION_LEN: usize = 34;

/// The placeholder for the name of a permit in a request.
const NAME: &[u8] = b"{permit}";

/// The usual token bucket for Redis: exact, on the server's clock, and expired once it is full again.
const BUCKET: &str = "\
local now = redis.call('TIME')
local us = now[1] * 1000000 + now[2]
local rate, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local bucket = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens, at = tonumber(bucket[1]) or burst, tonumber(bucket[2]) or us
tokens = math.min(burst, tokens + (us - at) * rate / 1000000)
local given = 0
if tokens >= 1 then tokens = tokens - 1; given = 1 end
redis.call('HSET', KEYS[1], 'tokens', tostring(tokens), 'at', tostring(us))
redis.call('PEXPIRE', KEYS[1], math.ceil(burst / rate * 1000))
return given";

/// The usual semaphore with a lease for Redis.
const TAKE: &str = "\
local now = redis.call('TIME')
local ms = now[1] * 1000 + math.floor(now[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ms)
if redis.call('ZCARD', KEYS[1]) < tonumber(ARGV[1]) then
  redis.call('ZADD', KEYS[1], ms + tonumber(ARGV[2]), ARGV[3])
  return 1
end
return 0";

/// Unlocking as in the documentation of Redis: only the owner can unlock.
const UNLOCK: &str = "\
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0";

/// The protocol, which decides how a response ends.
#[derive(Debug, Clone)]
enum Wire {
    Http,
    Resp,
    Grpc(Streams),
}

/// One request, and what its response must contain.
#[derive(Debug, Clone)]
struct Step {
    text: Vec<u8>,
    /// Where in the request the name of the permit is inserted.
    name_at: Option<usize>,
    expects: &'static str,
}

/// The requests of one client, repeated.
#[derive(Debug, Clone)]
pub struct Talk {
    wire: Wire,
    steps: Vec<Step>,
    at: usize,
    name: Vec<u8>,
}

impl Talk {
    fn new(wire: Wire, steps: Vec<(Vec<u8>, &'static str)>) -> Self {
        let step = |(text, expects): (Vec<u8>, &'static str)| {
            let name_at = find(&text, NAME);
            Step { text, name_at, expects }
        };
        let steps = steps.into_iter().map(step).collect();
        Self { wire, steps, at: 0, name: Vec::new() }
    }

    /// Writes the next request.
    pub fn ask(&mut self, out: &mut Vec<u8>) {
        let step = &self.steps[self.at];
        if let Wire::Grpc(streams) = &mut self.wire {
            return streams.write(&step.text, out);
        }
        let Some(at) = step.name_at else { return out.extend_from_slice(&step.text) };
        out.extend_from_slice(&step.text[..at]);
        out.extend_from_slice(&self.name);
        out.extend_from_slice(&step.text[at + NAME.len()..]);
    }

    /// Reads the response if it is complete; returns its length.
    pub fn take(&mut self, bytes: &[u8]) -> Outcome<Option<usize>> {
        let len = match self.wire {
            Wire::Http => http_len(bytes)?,
            Wire::Resp => resp_len(bytes),
            Wire::Grpc(_) => return self.take_grpc(bytes),
        };
        let Some(answer) = len.and_then(|len| bytes.get(..len)) else { return Ok(None) };
        if find(answer, self.steps[self.at].expects.as_bytes()).is_none() {
            let answer = String::from_utf8_lossy(answer);
            let expects = self.steps[self.at].expects;
            return Err(Failure::new(format!("expected {expects:?}, found {answer}")));
        }
        const PERMIT: &[u8] = b"\"permit\":\"";
        if let Some(at) = find(answer, PERMIT) {
            let name = answer[at + PERMIT.len()..].split(|byte| *byte == b'"').next();
            self.name.clear();
            self.name.extend_from_slice(name.unwrap_or_default());
        }
        self.at = (self.at + 1) % self.steps.len();
        Ok(Some(answer.len()))
    }

    fn take_grpc(&mut self, bytes: &[u8]) -> Outcome<Option<usize>> {
        let Wire::Grpc(streams) = &mut self.wire else { return Ok(None) };
        let Some(message) = streams.read(bytes)? else { return Ok(None) };
        if !grpc::second_is_one(message) {
            return Err(Failure::new(format!("etcd did not do it: {message:02x?}")));
        }
        self.at = (self.at + 1) % self.steps.len();
        Ok(Some(bytes.len()))
    }

    /// Whether the last response completed the client's sequence.
    pub fn is_whole(&self) -> bool {
        self.at == 0
    }
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

/// The length of an HTTP response, once its head has arrived.
fn http_len(bytes: &[u8]) -> Outcome<Option<usize>> {
    let Some(head) = find(bytes, b"\r\n\r\n") else { return Ok(None) };
    let head_text = String::from_utf8_lossy(&bytes[..head]);
    let mut lines = head_text.lines();
    if lines.next().is_some_and(|line| line.contains(" 204")) {
        return Ok(Some(head + 4));
    }
    let length = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let length = length.ok_or_else(|| Failure::new(format!("no length in {head_text}")))?;
    Ok(Some(head + 4 + length))
}

/// The length of a RESP response of one line, as all responses here are.
fn resp_len(bytes: &[u8]) -> Option<usize> {
    find(bytes, b"\r\n").map(|at| at + 2)
}

fn http(method: &str, path: &str, body: &str) -> Vec<u8> {
    let head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n");
    match body {
        "" => format!("{head}\r\n").into_bytes(),
        body => format!(
            "{head}content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes(),
    }
}

fn resp(words: &[&str]) -> Vec<u8> {
    let mut text = format!("*{}\r\n", words.len());
    for word in words {
        text.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    text.into_bytes()
}

/// Paceline: a permit, then its release.
pub fn permit(_: &Running) -> Outcome<Talk> {
    let path = "/v1/permits/{permit}";
    let ask = http("POST", "/v1/permits", "{}");
    Ok(Talk::new(Wire::Http, vec![(ask, " 201 "), (http("DELETE", path, ""), " 204 ")]))
}

/// Paceline: a permit that is settled as soon as it is granted.
pub fn permit_once(_: &Running) -> Outcome<Talk> {
    Ok(Talk::new(Wire::Http, vec![(http("POST", "/v1/permits", "{\"once\":true}"), "HTTP/1.1 20")]))
}

/// Paceline: a lock of a session with a lease, one for each client. For leases up to 60 s the lock is written; for
/// longer ones it is synced.
pub fn lock(server: &Running, number: usize, lease: &str) -> Outcome<Talk> {
    let body = format!("{{\"lease\":\"{lease}\"}}");
    let answer = server.call(&http("POST", "/v1/sessions", &body))?;
    let session = answer.split("\"session\":\"").nth(1).and_then(|rest| rest.get(..SESSION_LEN));
    let session = session.ok_or_else(|| Failure::new(format!("no session in {answer}")))?;
    let path = format!("/v1/locks/lock_{number}");
    let lock = http("PUT", &path, &format!("{{\"session\":\"{session}\"}}"));
    let unlock = http("DELETE", &format!("{path}?session={session}"), "");
    Ok(Talk::new(Wire::Http, vec![(lock, "\"fencing\""), (unlock, " 204 ")]))
}

/// Loads a script; returns its digest.
fn load(server: &Running, script: &str) -> Outcome<String> {
    let answer = server.call(&resp(&["SCRIPT", "LOAD", script]))?;
    let digest = answer.lines().nth(1).filter(|line| line.len() == 40);
    digest.map(str::to_owned).ok_or_else(|| Failure::new(format!("no digest in {answer}")))
}

/// Redis: a token from a bucket.
pub fn bucket(server: &Running, _: usize) -> Outcome<Talk> {
    let digest = load(server, BUCKET)?;
    let ask = resp(&["EVALSHA", &digest, "1", "bucket", "1000000", "1000000"]);
    Ok(Talk::new(Wire::Resp, vec![(ask, ":1\r\n")]))
}

/// Redis: a slot of a semaphore, then its release.
pub fn semaphore(server: &Running, number: usize) -> Outcome<Talk> {
    let (digest, member) = (load(server, TAKE)?, format!("client-{number}"));
    let take = resp(&["EVALSHA", &digest, "1", "places", "1000", "30000", &member]);
    let give = resp(&["ZREM", "places", &member]);
    Ok(Talk::new(Wire::Resp, vec![(take, ":1\r\n"), (give, ":1\r\n")]))
}

/// Redis: a lock with a lease, one for each client.
pub fn redis_lock(server: &Running, number: usize) -> Outcome<Talk> {
    let (digest, name) = (load(server, UNLOCK)?, format!("lock-{number}"));
    let owner = format!("{:032x}", number + 1);
    let lock = resp(&["SET", &name, &owner, "NX", "PX", "30000"]);
    let unlock = resp(&["EVALSHA", &digest, "1", &name, &owner]);
    Ok(Talk::new(Wire::Resp, vec![(lock, "+OK\r\n"), (unlock, ":1\r\n")]))
}

/// etcd: a lock as in its own library, a key with a lease that is put if it does not exist.
pub fn etcd_lock(server: &Running, number: usize) -> Outcome<Talk> {
    use grpc::{bytes_field, number_field};
    let granted = server.call(&http("POST", "/v3/lease/grant", "{\"TTL\":\"600\"}"))?;
    let lease = granted.split("\"ID\":\"").nth(1).and_then(|rest| rest.split('"').next());
    let lease = lease.and_then(|lease| lease.parse::<u64>().ok());
    let lease = lease.ok_or_else(|| Failure::new(format!("no lease in {granted}")))?;
    let key = format!("lock-{number}");
    // A create revision of 0 means that the key does not exist.
    let (created, absent) = (number_field(2, 1), number_field(5, 0));
    let compare = [created, bytes_field(3, key.as_bytes()), absent].concat();
    let put = [bytes_field(1, key.as_bytes()), number_field(3, lease)].concat();
    let success = bytes_field(2, &put);
    let lock = [bytes_field(1, &compare), bytes_field(2, &success)].concat();
    let unlock = bytes_field(1, key.as_bytes());
    let steps = vec![
        (grpc::call("/etcdserverpb.KV/Txn", &lock), ""),
        (grpc::call("/etcdserverpb.KV/DeleteRange", &unlock), ""),
    ];
    Ok(Talk::new(Wire::Grpc(Streams::new()), steps))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_end_where_they_say() {
        let text = b"HTTP/1.1 201 Created\r\nContent-Length: 3\r\n\r\nabc";
        assert_eq!(http_len(text).unwrap(), Some(text.len()));
        assert_eq!(http_len(&text[..30]).unwrap(), None);
        assert_eq!(http_len(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap(), Some(27));
        assert_eq!(resp_len(b":1\r\n"), Some(4));
    }

    #[test]
    fn a_name_goes_from_an_answer_into_the_next_request() {
        let path = "/v1/permits/{permit}";
        let steps = vec![(b"ask".to_vec(), "201"), (http("DELETE", path, ""), "204")];
        let mut talk = Talk::new(Wire::Http, steps);
        let name = "p-17";
        let body = format!("{{\"permit\":\"{name}\"}}");
        let answer = format!("HTTP/1.1 201 C\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        assert_eq!(talk.take(answer.as_bytes()).unwrap(), Some(answer.len()));
        assert!(!talk.is_whole());
        let mut out = Vec::new();
        talk.ask(&mut out);
        assert!(out.starts_with(b"DELETE /v1/permits/p-17 HTTP/1.1\r\n"));
        assert!(talk.take(b"HTTP/1.1 404 N\r\ncontent-length: 0\r\n\r\n").is_err());
    }
}
