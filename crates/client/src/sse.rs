//! Server-sent events as text: lines in, events out. Pure.

use crate::events::Event;
use serde_json::Value;

/// The longest event.
pub const EVENT_BYTES_MAX: usize = 1 << 20;

/// The part of an event that was read so far.
#[derive(Debug, Default)]
pub struct Parser {
    input: Vec<u8>,
    kind: String,
    data: String,
}

impl Parser {
    /// Adds received bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// The next complete event.
    ///
    /// # Errors
    /// If it is too long or not JSON.
    pub fn next(&mut self) -> Result<Option<Event>, String> {
        let mut start = 0;
        let mut found = None;
        while let Some(length) = self.input.iter().skip(start).position(|byte| *byte == b'\n') {
            let line = self.input.get(start..start + length).unwrap_or_default();
            let line = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line));
            start += length + 1;
            if line.is_empty() {
                if self.data.is_empty() {
                    self.kind.clear();
                    continue;
                }
                found = Some((std::mem::take(&mut self.kind), std::mem::take(&mut self.data)));
                break;
            }
            take_line(&line, &mut self.kind, &mut self.data);
            if self.data.len() > EVENT_BYTES_MAX {
                return Err(format!("an event is longer than {EVENT_BYTES_MAX} bytes"));
            }
        }
        self.input.drain(..start);
        if found.is_none() && self.input.len() > EVENT_BYTES_MAX {
            return Err(format!("a line of an event is longer than {EVENT_BYTES_MAX} bytes"));
        }
        found.map(|(kind, data)| read(kind, &data)).transpose()
    }
}

fn take_line(line: &str, kind: &mut String, data: &mut String) {
    let (name, value) = line.split_once(':').unwrap_or((line, ""));
    let value = value.strip_prefix(' ').unwrap_or(value);
    match name {
        "event" => value.clone_into(kind),
        "data" => {
            if !data.is_empty() {
                data.push('\n');
            }
            data.push_str(value);
        }
        // Comments, which keep the connection alive, have no name; other fields are ignored.
        _ => {}
    }
}

fn read(kind: String, data: &str) -> Result<Event, String> {
    let data: Value =
        serde_json::from_str(data).map_err(|error| format!("an event is not JSON: {error}"))?;
    Ok(Event { kind, data })
}

#[cfg(test)]
mod tests {
    use super::{EVENT_BYTES_MAX, Parser};
    use serde_json::json;

    fn play(text: &str, step: usize) -> Result<Vec<(String, serde_json::Value)>, String> {
        let mut parser = Parser::default();
        let mut events = vec![];
        for bytes in text.as_bytes().chunks(step) {
            parser.feed(bytes);
            while let Some(event) = parser.next()? {
                events.push((event.kind, event.data));
            }
        }
        Ok(events)
    }

    #[test]
    fn events_come_whole_however_they_are_cut() {
        let text = ": hello\n\nevent: started\ndata: {\"request\":\ndata: 1}\n\nid: 7\nevent: log\r\n\
                    data:{}\r\n\r\nevent: nothing\n\ndata: 3\n\nevent: cut\ndata: 4\n";
        let expected = vec![
            ("started".into(), json!({"request": 1})),
            ("log".into(), json!({})),
            (String::new(), json!(3)),
        ];
        for step in [1, 2, 5, 1000] {
            assert_eq!(play(text, step), Ok(expected.clone()), "{step} bytes at a time");
        }
    }

    #[test]
    fn an_event_has_a_maximum() {
        let long = format!("data: \"{}\"\n\n", "x".repeat(EVENT_BYTES_MAX));
        assert!(play(&long, 4096).unwrap_err().contains("longer than"));
        let lines = format!("data: {}\n", "x".repeat(1000)).repeat(1100);
        assert!(play(&lines, 4096).unwrap_err().contains("longer than"));
        assert!(play("data: {\n\n", 100).unwrap_err().contains("not JSON"));
    }
}
