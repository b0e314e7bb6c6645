//! What a checkpoint limits: a rate, a concurrency, or nothing.
//!
//! Owns the text form of a rate (`500/s`, `3 per 10s`), which is the same in files, SQL and messages. The
//! burst is a separate setting and not part of that text.

use paceline_types::{ParseSpanError, Span};
use std::fmt;
use std::str::FromStr;

/// What is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// An amount of cost per length of time.
    Rate {
        /// The amount per `per`.
        count: u32,
        /// The length of time.
        per: Span,
        /// How much may be spent at once after a quiet time.
        burst: u32,
    },
    /// A number of requests at once, from passing the checkpoint to settlement.
    Concurrency(u32),
    /// Nothing: only the meters run.
    Count,
}

impl Limit {
    /// Whether both limit the same kind of thing, whatever the numbers.
    #[must_use]
    pub const fn is_same_kind(&self, other: &Self) -> bool {
        matches!(
            (self, other),
            (Self::Rate { .. }, Self::Rate { .. })
                | (Self::Concurrency(_), Self::Concurrency(_))
                | (Self::Count, Self::Count)
        )
    }
}

/// A rate without its burst: what its text form says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// The amount per `per`.
    pub count: u32,
    /// The length of time.
    pub per: Span,
}

impl Rate {
    /// The limit of this rate with a burst.
    #[must_use]
    pub const fn limit(self, burst: u32) -> Limit {
        Limit::Rate { count: self.count, per: self.per, burst }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match UNITS.iter().find(|(_, span)| *span == self.per) {
            Some((unit, _)) => write!(f, "{}/{unit}", self.count),
            None => write!(f, "{} per {}", self.count, self.per),
        }
    }
}

/// Lengths of time that need no number before them.
const UNITS: [(&str, Span); 7] = [
    ("ns", Span(1)),
    ("us", Span(1_000)),
    ("ms", Span::from_ms(1)),
    ("s", Span::from_secs(1)),
    ("m", Span::from_secs(60)),
    ("h", Span::from_secs(3_600)),
    ("d", Span::from_secs(86_400)),
];

/// Why a text is not a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseRateError {
    /// It is not a number followed by `/` or `per` and a length of time.
    Form,
    /// The number is not a whole number from 1 to 4,294,967,295.
    Count,
    /// The length of time cannot be parsed.
    Per(ParseSpanError),
    /// The length of time is zero.
    Zero,
}

impl fmt::Display for ParseRateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form => {
                f.write_str("expected a number per length of time, such as 500/s or 3 per 10s")
            }
            Self::Count => {
                f.write_str("the number of a rate must be a whole one from 1 to 4294967295")
            }
            Self::Per(error) => write!(f, "the length of time of a rate: {error}"),
            Self::Zero => f.write_str("the length of time of a rate must be more than zero"),
        }
    }
}

impl std::error::Error for ParseRateError {}

impl FromStr for Rate {
    type Err = ParseRateError;

    fn from_str(text: &str) -> Result<Self, ParseRateError> {
        let (count, per) = text
            .split_once('/')
            .or_else(|| text.split_once(" per "))
            .ok_or(ParseRateError::Form)?;
        let (count, per) = (count.trim(), per.trim());
        if count.is_empty() || !count.bytes().all(|b| b.is_ascii_digit()) {
            return Err(ParseRateError::Count);
        }
        let count = count.parse().ok().filter(|count| *count > 0).ok_or(ParseRateError::Count)?;
        let per = match UNITS.iter().find(|(unit, _)| *unit == per) {
            Some((_, span)) => *span,
            None => per.parse().map_err(ParseRateError::Per)?,
        };
        if per == Span::ZERO {
            return Err(ParseRateError::Zero);
        }
        Ok(Self { count, per })
    }
}

#[cfg(test)]
mod tests {
    use super::{ParseRateError, Rate};
    use paceline_types::{ParseSpanError, Span};

    #[test]
    fn text_and_back() {
        for (text, count, per, shown) in [
            ("500/s", 500, Span::from_secs(1), "500/s"),
            ("3 per 10s", 3, Span::from_secs(10), "3 per 10s"),
            ("100/m", 100, Span::from_secs(60), "100/m"),
            ("10/500ms", 10, Span::from_ms(500), "10 per 500ms"),
            ("7 per s", 7, Span::from_secs(1), "7/s"),
            ("1 / h", 1, Span::from_secs(3_600), "1/h"),
            ("4294967295/d", u32::MAX, Span::from_secs(86_400), "4294967295/d"),
            ("2 per 1.5s", 2, Span::from_ms(1_500), "2 per 1.5s"),
        ] {
            let rate: Rate = text.parse().unwrap();
            assert_eq!(rate, Rate { count, per }, "{text}");
            assert_eq!(rate.to_string(), shown);
            assert_eq!(shown.parse(), Ok(rate));
        }
    }

    #[test]
    fn wrong_texts_say_what_was_expected() {
        for (text, error) in [
            ("", ParseRateError::Form),
            ("500", ParseRateError::Form),
            ("500s", ParseRateError::Form),
            ("/s", ParseRateError::Count),
            ("0/s", ParseRateError::Count),
            ("-1/s", ParseRateError::Count),
            ("+1/s", ParseRateError::Count),
            ("1.5/s", ParseRateError::Count),
            ("4294967296/s", ParseRateError::Count),
            ("1/", ParseRateError::Per(ParseSpanError::NoNumber)),
            ("1/fortnight", ParseRateError::Per(ParseSpanError::NoNumber)),
            ("1/2", ParseRateError::Per(ParseSpanError::Unit)),
            ("1 per 0s", ParseRateError::Zero),
        ] {
            assert_eq!(text.parse::<Rate>(), Err(error), "{text}");
        }
    }
}
