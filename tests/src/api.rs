//! A raw HTTP/1.1 connection to the daemon's API: one stream, one request after another.
//!
//! Owns the socket and the unread bytes. Promises that every read ends within [`ANSWER_TIMEOUT`] and that a response
//! is returned as it arrived. Never sends anything by itself.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

/// How long a response may take before the test fails. It is long, because a busy machine is no failure.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// One connection.
#[derive(Debug)]
pub struct Api {
    stream: BufReader<UnixStream>,
    token: Option<String>,
}

/// A response.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its headers, the names in lower case.
    pub headers: Vec<(String, String)>,
    /// Its body as it arrived.
    pub text: String,
    /// Its body as JSON, or null if it is not JSON.
    pub body: Value,
}

impl Answer {
    /// Checks the status and returns the body.
    ///
    /// # Panics
    /// If the status differs.
    #[track_caller]
    #[must_use]
    pub fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        self.body
    }

    /// The header of this name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }
}

impl Api {
    /// A connection to the unix socket at `path`.
    ///
    /// # Panics
    /// If there is no daemon.
    #[must_use]
    pub fn unix(path: &Path) -> Self {
        Self::over(UnixStream::connect(path).unwrap(), None)
    }

    /// A connection to the unix socket at `path`, or the error.
    ///
    /// # Errors
    /// If there is no daemon.
    pub fn try_unix(path: &Path) -> std::io::Result<Self> {
        UnixStream::connect(path).map(|stream| Self::over(stream, None))
    }

    /// A connection over TCP that sends `token`.
    ///
    /// # Panics
    /// If there is no daemon.
    #[must_use]
    pub fn tcp(address: SocketAddr, token: Option<&str>) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        // Once connected, stream sockets of both families are read, written and closed in the same way.
        Self::over(UnixStream::from(OwnedFd::from(stream)), token)
    }

    fn over(stream: UnixStream, token: Option<&str>) -> Self {
        stream.set_read_timeout(Some(ANSWER_TIMEOUT)).unwrap();
        Self { stream: BufReader::new(stream), token: token.map(str::to_owned) }
    }

    /// Sends a request without a body and reads the response.
    pub fn get(&mut self, path: &str) -> Answer {
        self.send("GET", path, None);
        self.answer()
    }

    /// Sends a DELETE request and reads the response.
    pub fn delete(&mut self, path: &str) -> Answer {
        self.send("DELETE", path, None);
        self.answer()
    }

    /// Sends a request with a body and reads the response.
    pub fn call(&mut self, method: &str, path: &str, body: &Value) -> Answer {
        self.send(method, path, Some(&body.to_string()));
        self.answer()
    }

    /// Sends a request without waiting for the response.
    pub fn send(&mut self, method: &str, path: &str, body: Option<&str>) {
        self.try_send(method, path, body).unwrap();
    }

    /// Sends a request to a daemon that may be gone.
    ///
    /// # Errors
    /// If the daemon is gone.
    pub fn try_send(
        &mut self,
        method: &str,
        path: &str,
        body: Option<&str>,
    ) -> std::io::Result<()> {
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: paceline\r\n");
        if let Some(token) = &self.token {
            head += &format!("authorization: Bearer {token}\r\n");
        }
        if let Some(body) = body {
            head +=
                &format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len());
        }
        self.raw(format!("{head}\r\n{}", body.unwrap_or_default()).as_bytes())
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// If the daemon has closed the connection.
    pub fn raw(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// The next response.
    ///
    /// # Panics
    /// If the connection closes, nothing arrives in time, or it is not a response.
    #[track_caller]
    pub fn answer(&mut self) -> Answer {
        self.try_answer().unwrap_or_else(|error| panic!("no answer: {error}"))
    }

    /// The next response, or why there is none.
    ///
    /// # Errors
    /// If the connection closes, nothing arrives in time, or it is not a response.
    pub fn try_answer(&mut self) -> Result<Answer, String> {
        let (status, headers) = self.head()?;
        let length = headers.iter().find(|(name, _)| name == "content-length");
        let length = length.map_or(Ok(0), |(_, value)| value.parse());
        let mut bytes = vec![0; length.map_err(|error| format!("content-length: {error}"))?];
        self.stream.read_exact(&mut bytes).map_err(|error| error.to_string())?;
        let text = String::from_utf8(bytes).map_err(|error| error.to_string())?;
        let body = serde_json::from_str(&text).unwrap_or(Value::Null);
        Ok(Answer { status, headers, text, body })
    }

    /// The status of the next answer, whose body is left unread.
    ///
    /// # Panics
    /// If the connection closes, nothing comes in time, or it is no answer.
    pub fn status(&mut self) -> u16 {
        self.head().unwrap_or_else(|error| panic!("no answer: {error}")).0
    }

    /// Whether an answer has begun to arrive.
    ///
    /// # Panics
    /// If the socket cannot be asked.
    pub fn is_answered(&mut self) -> bool {
        self.stream.get_ref().set_nonblocking(true).unwrap();
        let is_answered = self.stream.fill_buf().is_ok_and(|bytes| !bytes.is_empty());
        self.stream.get_ref().set_nonblocking(false).unwrap();
        is_answered
    }

    fn head(&mut self) -> Result<(u16, Vec<(String, String)>), String> {
        let line = self.line()?;
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| format!("{line:?} is no answer"))?;
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            let Some((name, value)) = line.split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        Ok((status, headers))
    }

    fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        match self.stream.read_line(&mut line) {
            Ok(0) => Err("the connection is closed".into()),
            Ok(_) => Ok(line.trim_end().to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Shuts down the sending side, and returns what still arrives until the daemon closes the connection.
    ///
    /// # Panics
    /// If the daemon does not close it in time.
    #[must_use]
    pub fn rest(mut self) -> Vec<u8> {
        // If the daemon has already closed the connection, this fails.
        let _ = self.stream.get_ref().shutdown(Shutdown::Write);
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Ok(_) => rest,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => rest,
            Err(error) => panic!("the daemon does not close: {error}"),
        }
    }

    /// Follows the events from now on.
    ///
    /// # Panics
    /// If the daemon refuses.
    #[must_use]
    pub fn follow(mut self) -> Events {
        self.send("GET", "/v1/events", None);
        assert_eq!(self.head().unwrap().0, 200);
        Events(self)
    }
}

/// A connection that receives events.
#[derive(Debug)]
pub struct Events(Api);

impl Events {
    /// The name of the next event, and its data.
    ///
    /// # Panics
    /// If none arrives in time.
    pub fn event(&mut self) -> (String, Value) {
        let mut name = String::new();
        loop {
            let line = self.0.line().unwrap();
            if let Some(text) = line.strip_prefix("event: ") {
                name = text.to_owned();
            } else if let Some(text) = line.strip_prefix("data: ") {
                return (name, serde_json::from_str(text).unwrap());
            }
        }
    }

    /// The data of the next event of this name; others are skipped.
    pub fn next_of(&mut self, name: &str) -> Value {
        loop {
            let (found, data) = self.event();
            if found == name {
                return data;
            }
        }
    }
}

/// Microseconds since the beginning of 2000, for a time from the API such as `granted_at`.
///
/// # Panics
/// If it is not a time.
#[must_use]
pub fn micros(time: &Value) -> i64 {
    let text = time.as_str().unwrap_or_else(|| panic!("{time} is no time"));
    let number = |from: usize, to: usize| text[from..to].parse::<i64>().expect(text);
    let (year, month, day) = (number(0, 4), number(5, 7), number(8, 10));
    // A year that begins in March has its leap day at the end.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap = year / 4 - year / 100 + year / 400;
    let days = 365 * year + leap + (153 * month + 2) / 5 + day - 730_426;
    let seconds = days * 86_400 + number(11, 13) * 3_600 + number(14, 16) * 60 + number(17, 19);
    assert_eq!((&text[19..20], &text[26..]), (".", "Z"), "{text}");
    seconds * 1_000_000 + number(20, 26)
}

#[cfg(test)]
mod tests {
    use super::micros;
    use serde_json::json;

    #[test]
    fn times_are_read_as_microseconds() {
        for (text, expected) in [
            ("2000-01-01T00:00:00.000000Z", 0),
            ("2000-02-29T00:00:01.000002Z", 59 * 86_400_000_000 + 1_000_002),
            ("2000-03-01T00:00:00.000000Z", 60 * 86_400_000_000),
            ("2001-01-01T00:00:00.000000Z", 366 * 86_400_000_000),
        ] {
            assert_eq!(micros(&json!(text)), expected, "{text}");
        }
    }
}
