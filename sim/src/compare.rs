//! The first difference between the expected and the observed state.

use crate::seen::{Seen, Sight};

/// The difference as text; `None` if there is none.
#[must_use]
pub fn difference(expected: &Seen, seen: &Seen) -> Option<String> {
    let differs =
        |what: &str, one: String, two: String| Some(format!("{what}: expected {one}, seen {two}"));
    if expected.answer != seen.answer {
        return differs("answer", format!("{:?}", expected.answer), format!("{:?}", seen.answer));
    }
    if expected.effects != seen.effects {
        return differs(
            "effects",
            format!("{:?}", expected.effects),
            format!("{:?}", seen.effects),
        );
    }
    for (id, sight) in &expected.alive {
        let Some(other) = seen.alive.get(id) else {
            return Some(format!("request {id}: expected {sight:?}, seen nowhere"));
        };
        if let Some(text) = differing_sight(sight, other) {
            return Some(format!("request {id}: {text}"));
        }
    }
    if let Some(id) = seen.alive.keys().find(|id| !expected.alive.contains_key(id)) {
        return Some(format!("request {id}: expected nowhere, seen {:?}", seen.alive[id]));
    }
    if expected.figures != seen.figures {
        return differs(
            "figures",
            format!("{:?}", expected.figures),
            format!("{:?}", seen.figures),
        );
    }
    if expected.timeout != seen.timeout {
        return differs(
            "timeout",
            format!("{:?}", expected.timeout),
            format!("{:?}", seen.timeout),
        );
    }
    None
}

fn differing_sight(expected: &Sight, seen: &Sight) -> Option<String> {
    let differs =
        |what: &str, one: String, two: String| Some(format!("{what}: expected {one}, seen {two}"));
    if expected.spot != seen.spot {
        return differs("where", format!("{:?}", expected.spot), format!("{:?}", seen.spot));
    }
    if expected.since.is_some() && expected.since != seen.since {
        return differs("since", format!("{:?}", expected.since), format!("{:?}", seen.since));
    }
    if expected.until.is_some() && expected.until != seen.until {
        return differs("until", format!("{:?}", expected.until), format!("{:?}", seen.until));
    }
    if expected.names != seen.names {
        return differs("names", format!("{:?}", expected.names), format!("{:?}", seen.names));
    }
    if expected.grant != seen.grant {
        return differs("grant", format!("{:?}", expected.grant), format!("{:?}", seen.grant));
    }
    if expected.deadline != seen.deadline {
        return differs(
            "deadline",
            format!("{:?}", expected.deadline),
            format!("{:?}", seen.deadline),
        );
    }
    None
}
