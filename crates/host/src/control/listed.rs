//! Requests as lists show them. Values that can be long are cut.

use super::{Control, EngineState};
use paceline_engine::{WaitsFor, Why};
use paceline_types::{Known, On, Place, Request, RequestId, SessionId, Span};

/// The most bytes of a text that a list shows. A longer text is cut to this and ends in `…`.
pub const LISTED_BYTES_MAX: usize = 4 << 10;

/// The same once the texts before it have used up the bytes of the list.
const CROWDED_BYTES_MAX: usize = 64;

/// Bytes of texts after which a list is crowded: 2,000 of the longest.
const LIST_BYTES_MAX: usize = 2_000 * LISTED_BYTES_MAX;

/// A request that waits or runs.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The user who asked, cut if it is long.
    pub user: Box<str>,
    /// The text of the request, cut if it is long.
    pub text: Box<str>,
    /// Whether it is a request or a connection.
    pub on: On,
    /// For requests of the HTTP door: the client, and where the request is sent.
    pub http: Option<Hop>,
    /// The session that it belongs to.
    pub session: Option<SessionId>,
    /// The nearest of the requests ahead of it.
    pub behind: Option<RequestId>,
    /// Of a permit that outlives the daemon: when it was granted, in microseconds since 1970, and how long it had
    /// waited. The engine counts from the start of the daemon.
    pub granted: Option<(i64, Span)>,
    /// Where it waits or runs, without the requests ahead, and with long keys cut.
    pub why: Why,
}

/// Where a request of the HTTP door comes from and is sent. Unknown values are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hop {
    /// The method, cut if it is long.
    pub method: Box<str>,
    /// The address of the client.
    pub client: Box<str>,
    /// The frontend.
    pub frontend: Box<str>,
    /// The backend that was chosen.
    pub backend: Box<str>,
    /// The server that was chosen, `BACKEND/NAME`.
    pub server: Box<str>,
}

/// The most requests per turn under the engine's lock.
const TURN: usize = 64;

/// A turn ends after the request at which it has taken this long, so that other threads need not wait while
/// many flows are counted.
const TURN_SPAN_MAX: Span = Span(1_000_000);

impl Listed {
    /// A request in a list that shows `bytes` of texts so far.
    fn new(request: &Request, mut why: Why, bytes: &mut usize) -> Self {
        let mut beginning = |text: &str| {
            let is_crowded = *bytes >= LIST_BYTES_MAX;
            let max = if is_crowded { CROWDED_BYTES_MAX } else { LISTED_BYTES_MAX };
            let shown = beginning(text, max);
            *bytes += shown.len();
            shown
        };
        let behind = std::mem::take(&mut why.ahead).first().copied();
        if let WaitsFor::Checkpoint { place: Place::Checkpoint { key: Some(key), .. } } =
            &mut why.waits_for
        {
            *key = beginning(key);
        }
        let mut known = |name| beginning(request.attributes.known(name));
        let (user, text) = (known(Known::User), known(Known::Text));
        let http = (request.attributes.known(Known::Kind) == "http").then(|| Hop {
            method: known(Known::Method),
            client: known(Known::Client),
            frontend: known(Known::Frontend),
            backend: known(Known::Backend),
            server: known(Known::Server),
        });
        Self {
            user,
            text,
            on: request.on,
            http,
            session: request.session,
            behind,
            granted: None,
            why,
        }
    }
}

/// The first `max` bytes of a text, or all of it if it is shorter.
fn beginning(text: &str, max: usize) -> Box<str> {
    match text.len() <= max {
        true => text.into(),
        false => {
            let end = text.floor_char_boundary(max);
            format!("{}…", text.get(..end).unwrap_or_default()).into()
        }
    }
}

impl EngineState {
    /// Fills in when permits were granted.
    fn date(&self, listed: &mut [Listed]) {
        for one in listed {
            one.granted = self.kept.get(&one.why.id).and_then(|kept| kept.granted);
        }
    }
}

impl Control {
    /// The requests that wait or run, in order of arrival, from `first` on; `count` at most. Requests that
    /// arrive or end meanwhile may be missing.
    #[must_use]
    pub fn list(&self, first: RequestId, count: usize) -> Vec<Listed> {
        let (mut listed, mut bytes) = (Vec::new(), 0);
        self.look(first, count, |request, why| listed.push(Listed::new(request, why, &mut bytes)));
        listed.chunks_mut(TURN).for_each(|some| self.state().date(some));
        listed
    }

    /// The first `count` requests of one session that wait or run.
    #[must_use]
    pub fn list_of(&self, session: SessionId, count: usize) -> Vec<Listed> {
        let state = self.state();
        let engine = &state.engine;
        let of = |id| Some(Listed::new(engine.request(id)?, engine.why(id)?, &mut 0));
        let mut listed: Vec<Listed> =
            engine.requests_of(session).take(count).filter_map(of).collect();
        state.date(&mut listed);
        listed
    }

    /// How many requests run, and how many wait: as many as [`Control::list`] lists.
    #[must_use]
    pub fn open_requests(&self) -> (usize, usize) {
        self.state().engine.open_requests()
    }

    /// How many requests a shutdown of the daemon cuts off: those that wait, and those that run at the HTTP
    /// door. A permit that runs elsewhere still belongs to its client in the next run.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        let mut count = 0;
        self.look(RequestId(0), usize::MAX, |request, why| {
            let is_http = request.attributes.known(Known::Kind) == "http";
            let is_cut = is_http || why.waits_for != WaitsFor::Nothing;
            count += usize::from(request.on == On::Request && is_cut);
        });
        count
    }

    /// One request that waits or runs, and the requests ahead of it.
    #[must_use]
    pub fn listed(&self, id: RequestId) -> Option<Listed> {
        let state = self.state();
        let (request, why) = (state.engine.request(id)?, state.engine.why(id)?);
        let ahead = why.ahead.clone();
        let mut listed = Listed::new(request, why, &mut 0);
        listed.why.ahead = ahead;
        state.date(std::slice::from_mut(&mut listed));
        Some(listed)
    }

    /// Calls `look` for the same requests, without copying them. It is called under the engine's lock, which is
    /// released after every few requests, so it must be quick.
    pub fn look(&self, first: RequestId, count: usize, mut look: impl FnMut(&Request, Why)) {
        let (mut left, mut next) = (count, first);
        while left > 0 {
            let state = self.state();
            let (engine, begun) = (&state.engine, self.clock.now());
            let ids: Vec<RequestId> = engine.requests_from(next).take(TURN.min(left)).collect();
            if ids.is_empty() {
                break;
            }
            for id in ids {
                next = RequestId(id.0.saturating_add(1));
                left -= 1;
                if let (Some(request), Some(why)) = (engine.request(id), engine.why(id)) {
                    look(request, why);
                }
                if self.clock.now().since(begun) >= TURN_SPAN_MAX {
                    break;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CROWDED_BYTES_MAX, LIST_BYTES_MAX, LISTED_BYTES_MAX, beginning};
    use crate::clock::Clock;
    use crate::control::{Admission, Control};
    use paceline_checkpoints::{At, Limit, Spec};
    use paceline_engine::{Config, Plan};
    use paceline_types::{Attributes, CheckpointId, Request, RequestId, Span, Time};

    #[test]
    fn a_list_of_many_long_texts_is_bounded() {
        let control = Control::for_tests();
        let mut attributes = Attributes::new();
        attributes.set("text", &"x".repeat(2 * LISTED_BYTES_MAX)).unwrap();
        let count = 2 * LIST_BYTES_MAX / LISTED_BYTES_MAX;
        let admit = |_| control.admit(Request::new(attributes.clone())).unwrap();
        let held: Vec<Admission> = (0..count).map(admit).collect();
        let listed = control.list(RequestId(0), usize::MAX);
        assert_eq!(listed.len(), held.len(), "all are listed");
        let shown = |at: usize| listed[at].text.len() - '…'.len_utf8();
        assert_eq!((shown(0), shown(count - 1)), (LISTED_BYTES_MAX, CROWDED_BYTES_MAX));
        let bytes: usize = listed.iter().map(|listed| listed.text.len()).sum();
        assert!(bytes < LIST_BYTES_MAX + count * 2 * CROWDED_BYTES_MAX, "{bytes}");
    }

    /// Lists 20,000 requests in 20 flows, each with the number ahead of it. When each scanned all others, a
    /// turn under the engine's lock took 0.2 s, and all turns a minute.
    #[test]
    fn a_long_fair_queue_is_listed_at_once() {
        let control = Control::for_tests();
        let (at, limit) = (At::Frontend("api".into()), Limit::Concurrency(1));
        let mut spec = Spec::new(CheckpointId(1), "c", at, limit);
        (spec.fair, spec.queue.len_max) = (Some("user".into()), 100_000);
        let config = Config { checkpoints: vec![spec], ..Config::default() };
        control.configure(&Plan::new(&control.snapshot(), config).unwrap());
        let admit = |number: u64| {
            let mut attributes = Attributes::new();
            attributes.set("frontend", "api").unwrap();
            attributes.set("user", &format!("u{}", number % 20)).unwrap();
            control.admit(Request::new(attributes)).unwrap()
        };
        let held: Vec<Admission> = (0..20_001).map(admit).collect();
        let clock = Clock::new();
        let listed = control.list(RequestId(0), usize::MAX);
        let took = clock.now().since(Time(0));
        assert!(took < Span::from_secs(5), "{took}");
        // Flows take turns, and each request of one flow arrived after those of the other flows in its round.
        let ahead: Vec<usize> = listed.iter().skip(1).map(|one| one.why.ahead_total).collect();
        assert_eq!((held.len(), ahead), (20_001, (1..=20_000).collect()));
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        for (text, kept) in [
            ("x".repeat(LISTED_BYTES_MAX), None),
            ("x".repeat(LISTED_BYTES_MAX + 1), Some(LISTED_BYTES_MAX)),
            ("x".to_owned() + &"ä".repeat(LISTED_BYTES_MAX), Some(LISTED_BYTES_MAX - 1)),
        ] {
            let expected = kept.map_or(text.clone(), |end| format!("{}…", &text[..end]));
            assert_eq!(*beginning(&text, LISTED_BYTES_MAX), *expected);
        }
    }
}
