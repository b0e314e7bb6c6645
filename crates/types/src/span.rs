//! Lengths of time, with their text form.
//!
//! A [`Span`] counts nanoseconds. Its text form is a number and a unit (`5ms`, `1.5s`, `10m`, `2h`,
//! `1d`), the same in files, scripts, SQL and messages.

use std::fmt;
use std::str::FromStr;

/// A length of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub u64);

/// Units from long to short; the text form uses the longest that leaves a short number.
const UNITS: [(&str, u64); 7] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// Digits after the decimal point that still denote a nanosecond of the longest unit.
const FRACTION_DIGITS_MAX: usize = 14;

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// This many milliseconds.
    #[must_use]
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000_000))
    }

    /// This many seconds.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// The length for display: in whole milliseconds, if it is at least one.
    #[must_use]
    pub const fn rounded(self) -> Self {
        const MS: u64 = 1_000_000;
        match self.0 < MS {
            true => self,
            false => Self((self.0 / MS + (self.0 % MS >= MS / 2) as u64) * MS),
        }
    }

    /// The length for people: three digits, rounded up, because the rest does not matter to them.
    #[must_use]
    pub const fn brief(self) -> Self {
        const DIGITS: u32 = 3;
        if self.0 == 0 {
            return self;
        }
        let step = 10_u64.pow((self.0.ilog10() + 1).saturating_sub(DIGITS));
        Self(self.0.div_ceil(step).saturating_mul(step))
    }

    /// The length in seconds, for display and rates.
    #[must_use]
    pub fn as_secs(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, size) =
            UNITS.iter().copied().find(|(_, size)| self.0 >= *size).unwrap_or(("s", 1));
        let (whole, rest) = (self.0 / size, self.0 % size);
        if rest == 0 {
            return write!(f, "{whole}{unit}");
        }
        // A fraction of a day, an hour or a minute has no short decimal form: use seconds.
        if size > 1_000_000_000 {
            let (unit, size) = UNITS
                .iter()
                .copied()
                .find(|(_, size)| *size <= 1_000_000_000 || self.0.is_multiple_of(*size))
                .unwrap_or(("ns", 1));
            return decimal(f, self.0, unit, size);
        }
        decimal(f, self.0, unit, size)
    }
}

fn decimal(f: &mut fmt::Formatter<'_>, nanos: u64, unit: &str, size: u64) -> fmt::Result {
    let (whole, rest) = (nanos / size, nanos % size);
    if rest == 0 {
        return write!(f, "{whole}{unit}");
    }
    let width = size.ilog10() as usize;
    let fraction = format!("{rest:0width$}");
    write!(f, "{whole}.{}{unit}", fraction.trim_end_matches('0'))
}

/// Why a text is not a length of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseSpanError {
    /// It does not start with a number.
    NoNumber,
    /// The unit after the number is not one of `ns us ms s m h d`.
    Unit,
    /// It is longer than 584 years.
    TooLong,
}

impl fmt::Display for ParseSpanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoNumber => "expected a number and a unit, such as 5ms, 1.5s or 10m",
            Self::Unit => "expected one of the units ns, us, ms, s, m, h, d after the number",
            Self::TooLong => "this length of time is out of range",
        })
    }
}

impl std::error::Error for ParseSpanError {}

impl FromStr for Span {
    type Err = ParseSpanError;

    fn from_str(text: &str) -> Result<Self, ParseSpanError> {
        let number_len =
            text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
        let (number, unit) = text.split_at(number_len);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() || fraction.contains('.') || fraction.len() > FRACTION_DIGITS_MAX {
            return Err(ParseSpanError::NoNumber);
        }
        let whole: u64 = whole.parse().map_err(|_| ParseSpanError::TooLong)?;
        if number == "0" && unit.is_empty() {
            return Ok(Self::ZERO);
        }
        let (_, size) =
            UNITS.iter().copied().find(|(name, _)| *name == unit).ok_or(ParseSpanError::Unit)?;
        let mut nanos = u128::from(whole) * u128::from(size);
        if !fraction.is_empty() {
            let digits: u128 = fraction.parse().map_err(|_| ParseSpanError::NoNumber)?;
            nanos += digits * u128::from(size) / 10u128.pow(fraction.len() as u32);
        }
        u64::try_from(nanos).map(Self).map_err(|_| ParseSpanError::TooLong)
    }
}

#[cfg(test)]
mod tests {
    use super::{ParseSpanError, Span};

    #[test]
    fn people_see_three_digits() {
        for (nanos, text) in [
            (0, "0s"),
            (7, "7ns"),
            (461_219_647, "462ms"),
            (461_000_000, "461ms"),
            (14_285_714_286, "14.3s"),
            (999_999_999, "1s"),
            (u64::MAX, "18446744073.709551615s"),
        ] {
            assert_eq!(Span(nanos).brief().to_string(), text);
        }
    }

    #[test]
    fn text_and_back() {
        for (text, nanos) in [
            ("0s", 0),
            ("1ns", 1),
            ("2us", 2_000),
            ("5ms", 5_000_000),
            ("1.5s", 1_500_000_000),
            ("90s", 90_000_000_000),
            ("10m", 600_000_000_000),
            ("2h", 7_200_000_000_000),
            ("1d", 86_400_000_000_000),
            ("1.000000001s", 1_000_000_001),
        ] {
            assert_eq!(text.parse(), Ok(Span(nanos)), "{text}");
            let shown = Span(nanos).to_string();
            assert_eq!(shown.parse(), Ok(Span(nanos)), "{text} shown as {shown}");
        }
        assert_eq!("0".parse(), Ok(Span(0)));
        assert_eq!(Span::from_secs(90).to_string(), "90s");
        assert_eq!(Span::from_secs(600).to_string(), "10m");
    }

    #[test]
    fn wrong_texts_say_what_was_expected() {
        for (text, error) in [
            ("", ParseSpanError::NoNumber),
            ("s", ParseSpanError::NoNumber),
            (".5s", ParseSpanError::NoNumber),
            ("1.2.3s", ParseSpanError::NoNumber),
            ("5", ParseSpanError::Unit),
            ("5 ms", ParseSpanError::Unit),
            ("5 parsecs", ParseSpanError::Unit),
            ("-5ms", ParseSpanError::NoNumber),
            ("99999999999999999999s", ParseSpanError::TooLong),
            ("999999d", ParseSpanError::TooLong),
        ] {
            assert_eq!(text.parse::<Span>(), Err(error), "{text}");
        }
    }
}
