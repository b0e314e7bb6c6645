//! Requests as a list shows them: of what can be long, the beginning.

use super::Control;
use paceline_engine::{WaitsFor, Why};
use paceline_types::{Known, Place, Request, RequestId, SessionId};

/// Most bytes of a text that a list shows; of a longer one it shows so many and `…`.
pub const LISTED_BYTES_MAX: usize = 4 << 10;

/// A request that waits or runs.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Who asked, cut if it is long.
    pub user: Box<str>,
    /// What it is, cut if it is long.
    pub text: Box<str>,
    /// The session that it belongs to.
    pub session: Option<SessionId>,
    /// Where it stands, without who is ahead, and with keys that are cut if they are long.
    pub why: Why,
}

/// Requests that one turn under the engine's lock looks at.
const TURN: usize = 64;

impl Listed {
    fn new(request: &Request, mut why: Why) -> Self {
        why.ahead = Vec::new();
        if let WaitsFor::Checkpoint { place: Place::Checkpoint { key: Some(key), .. } } =
            &mut why.waits_for
        {
            *key = beginning(key);
        }
        let known = |name| beginning(request.attributes.known(name));
        Self { user: known(Known::User), text: known(Known::Text), session: request.session, why }
    }
}

/// As much of a text as a list shows.
fn beginning(text: &str) -> Box<str> {
    match text.len() <= LISTED_BYTES_MAX {
        true => text.into(),
        false => {
            let end = text.floor_char_boundary(LISTED_BYTES_MAX);
            format!("{}…", text.get(..end).unwrap_or_default()).into()
        }
    }
}

impl Control {
    /// The requests that wait or run, in the order they came, from `first` on; `count` at most. What
    /// comes or goes meanwhile may be missing.
    #[must_use]
    pub fn list(&self, first: RequestId, count: usize) -> Vec<Listed> {
        let mut listed = Vec::new();
        self.look(first, count, |request, why| listed.push(Listed::new(request, why)));
        listed
    }

    /// Has `look` see the same, without a copy of any. It is called under the engine's lock, which is
    /// let go between every few, so it must be quick.
    pub fn look(&self, first: RequestId, count: usize, mut look: impl FnMut(&Request, Why)) {
        let (mut left, mut next) = (count, first);
        while left > 0 {
            let state = self.state();
            let engine = &state.engine;
            let ids: Vec<RequestId> = engine.requests_from(next).take(TURN.min(left)).collect();
            let Some(last) = ids.last() else { break };
            next = RequestId(last.0.saturating_add(1));
            left -= ids.len();
            for id in &ids {
                if let (Some(request), Some(why)) = (engine.request(*id), engine.why(*id)) {
                    look(request, why);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LISTED_BYTES_MAX, beginning};

    #[test]
    fn a_long_text_is_cut_between_characters() {
        for (text, kept) in [
            ("x".repeat(LISTED_BYTES_MAX), None),
            ("x".repeat(LISTED_BYTES_MAX + 1), Some(LISTED_BYTES_MAX)),
            ("x".to_owned() + &"ä".repeat(LISTED_BYTES_MAX), Some(LISTED_BYTES_MAX - 1)),
        ] {
            let expected = kept.map_or(text.clone(), |end| format!("{}…", &text[..end]));
            assert_eq!(*beginning(&text), *expected);
        }
    }
}
