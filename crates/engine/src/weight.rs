//! The number of requests, and the bytes that are kept for them.
//!
//! Promises that requests at frontends, where clients may be unauthenticated, take at most half of the room:
//! permits and locks are not refused because of them (D1).

use crate::prepare::Draft;
use paceline_types::Request;

/// Requests and the bytes that are kept for them.
#[derive(Clone, Copy, Debug)]
struct Amount {
    requests: usize,
    bytes: usize,
}

/// All requests, and those of frontends.
#[derive(Debug)]
pub(crate) struct Weight {
    all: Amount,
    of_frontends: Amount,
}

impl Weight {
    pub const fn new() -> Self {
        let none = Amount { requests: 0, bytes: 0 };
        Self { all: none, of_frontends: none }
    }

    /// How many requests there are.
    pub const fn requests(&self) -> usize {
        self.all.requests
    }

    fn change(&mut self, request: &Request, change: impl Fn(&mut Amount)) {
        change(&mut self.all);
        if request.named_in.is_some() {
            change(&mut self.of_frontends);
        }
    }

    pub fn add(&mut self, request: &Request) {
        self.change(request, |amount| {
            amount.requests += 1;
            amount.bytes += request.bytes();
        });
    }

    pub fn remove(&mut self, request: &Request) {
        self.change(request, |amount| {
            amount.requests -= 1;
            amount.bytes -= request.bytes();
        });
    }

    /// Changes the attributes of a request.
    pub fn edit<T>(&mut self, draft: &mut Draft, change: impl FnOnce(&mut Draft) -> T) -> T {
        let before = draft.request.bytes();
        let result = change(draft);
        let after = draft.request.bytes();
        self.change(&draft.request, |amount| amount.bytes = amount.bytes + after - before);
        result
    }

    /// What there is no room for, and its maximum, if there is no room for this request.
    pub fn lacks(
        &self,
        request: &Request,
        requests_max: usize,
        bytes_max: usize,
    ) -> Option<(&'static str, usize)> {
        let within = |amount: Amount, requests_max: usize, bytes_max: usize| {
            if amount.requests >= requests_max {
                return Some(("requests", requests_max));
            }
            let is_much = amount.bytes + request.bytes() > bytes_max;
            is_much.then_some(("bytes of attributes", bytes_max))
        };
        let of_frontends = request
            .named_in
            .and_then(|_| within(self.of_frontends, requests_max.div_ceil(2), bytes_max / 2));
        of_frontends.or_else(|| within(self.all, requests_max, bytes_max))
    }
}

#[cfg(test)]
mod tests {
    use super::Weight;
    use paceline_types::{Attributes, Request};

    /// D1: requests that arrive at frontends leave half to others.
    #[test]
    fn frontends_take_half_of_it_d1() {
        let http =
            Request { named_in: Some(1), kept_bytes: 100, ..Request::new(Attributes::new()) };
        let permit = Request { named_in: None, ..http.clone() };
        let (count_max, bytes_max) = (10, 100_000);
        let mut weight = Weight::new();
        for _ in 0..5 {
            assert_eq!(weight.lacks(&http, count_max, bytes_max), None);
            weight.add(&http);
        }
        assert_eq!(weight.lacks(&http, count_max, bytes_max), Some(("requests", 5)));
        assert_eq!(weight.lacks(&permit, count_max, bytes_max), None);
        let heavy = Request { kept_bytes: 50_000, ..http.clone() };
        assert_eq!(weight.lacks(&heavy, 100, bytes_max), Some(("bytes of attributes", 50_000)));
        assert_eq!(weight.lacks(&Request { named_in: None, ..heavy }, 100, bytes_max), None);
        (0..5).for_each(|_| weight.remove(&http));
        assert_eq!(weight.lacks(&http, 1, 200), None, "all of it is given back");
    }
}
