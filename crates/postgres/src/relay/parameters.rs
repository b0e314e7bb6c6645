//! The parameters of a session that the relay tracks, so that they need no pin.
//!
//! Owns their list and the `SET` that brings a server to a client's values. The values come from ParameterStatus alone:
//! the relay never interprets the value in a `SET`.

/// The parameters that are tracked. The last one is reported by PostgreSQL 18 and later only.
pub const TRACKED: [&str; 7] = [
    "client_encoding",
    "DateStyle",
    "IntervalStyle",
    "TimeZone",
    "standard_conforming_strings",
    "application_name",
    "search_path",
];

/// The place of a parameter in [`TRACKED`]; the case of its name does not matter.
pub(super) fn index(name: &[u8]) -> Option<usize> {
    TRACKED.iter().position(|tracked| tracked.as_bytes().eq_ignore_ascii_case(name))
}

/// The values of the tracked parameters, as far as they are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parameters([Option<Box<[u8]>>; TRACKED.len()]);

impl Parameters {
    /// No value is known.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a parameter if it is tracked.
    pub fn set(&mut self, name: &[u8], value: &[u8]) {
        if let Some(slot) = index(name).and_then(|index| self.0.get_mut(index)) {
            *slot = Some(value.into());
        }
    }

    /// The value of a tracked parameter.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&[u8]> {
        self.0.get(index(name.as_bytes())?)?.as_deref()
    }

    /// The parameters whose value in `self` is known and another one in `other`.
    pub(super) fn changes<'a>(
        &'a self,
        other: &'a Self,
    ) -> impl Iterator<Item = (&'static str, &'a [u8])> {
        let pairs = self.0.iter().zip(&other.0).zip(TRACKED);
        pairs.filter_map(|((own, other), name)| {
            own.as_deref()
                .filter(|value| other.as_deref() != Some(*value))
                .map(|value| (name, value))
        })
    }

    /// Writes the statements that bring a session with the values of `server` to those of `self`; nothing if there is
    /// none to change. `search_path` is a list and is written as it was reported.
    #[must_use]
    pub fn settings(&self, server: &Self) -> Vec<u8> {
        let mut text = vec![];
        for (name, value) in self.changes(server) {
            text.extend_from_slice(b"SET ");
            text.extend_from_slice(name.as_bytes());
            text.extend_from_slice(b" TO ");
            match name {
                "search_path" => {
                    text.extend_from_slice(if value.is_empty() { b"''" } else { value })
                }
                _ => quote(&mut text, value),
            }
            text.extend_from_slice(b"; ");
        }
        text
    }
}

/// A literal that reads the same whether backslashes are special or not.
fn quote(text: &mut Vec<u8>, value: &[u8]) {
    if value.contains(&b'\\') {
        text.push(b'E');
    }
    text.push(b'\'');
    for byte in value {
        if matches!(byte, b'\'' | b'\\') {
            text.push(*byte);
        }
        text.push(*byte);
    }
    text.push(b'\'');
}

#[cfg(test)]
mod tests {
    use super::Parameters;

    #[test]
    fn only_what_differs_is_set_and_quoted() {
        let (mut client, mut server) = (Parameters::new(), Parameters::new());
        client.set(b"timezone", b"UTC");
        server.set(b"TimeZone", b"UTC");
        assert_eq!(client.settings(&server), b"");
        client.set(b"application_name", br"it's a \");
        client.set(b"work_mem", b"1");
        client.set(b"search_path", br#""$user", public"#);
        let text = client.settings(&server);
        let expected =
            r#"SET application_name TO E'it''s a \\'; SET search_path TO "$user", public; "#;
        assert_eq!(String::from_utf8_lossy(&text), expected);
        client.set(b"search_path", b"");
        assert!(client.settings(&server).ends_with(b"SET search_path TO ''; "));
    }
}
