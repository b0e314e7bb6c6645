//! Dates and times: texts as SQLite stores them, and PostgreSQL's count of microseconds since the year 2000.
//!
//! A timestamp is stored as text (`2026-01-31 12:30:00.5`), one with time zone in UTC with `+00`, so that texts sort as
//! the moments do.

use crate::types::Type;
use std::time::{SystemTime, UNIX_EPOCH};

/// Microseconds since 1970, in UTC or in no zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub i64);

const DAY: i64 = 86_400_000_000;
/// Days from 1970 to 2000.
const EPOCH_DAYS: i64 = 10_957;

impl Moment {
    pub const fn of_days(days: i64) -> Self {
        Self(days * DAY)
    }
}

/// The clock, in microseconds since 1970.
pub fn now_micros() -> Moment {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Moment(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

/// Days since 1970 of a date in the proleptic Gregorian calendar (Hinnant's algorithm).
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Year, month and day of a count of days since 1970.
fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

/// Days since 1970 of `2026-01-31`.
pub fn parse_date(text: &str) -> Option<i64> {
    let text = text.split([' ', 'T']).next()?;
    let mut parts = text.splitn(3, '-');
    let mut number = || parts.next()?.parse::<i64>().ok();
    let (year, month, day) = (number()?, number()?, number()?);
    let fits = (0..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    let days = days_of(year, month, day);
    // A day that the month does not have comes back as another date.
    (fits && date_of(days) == (year, month, day)).then_some(days)
}

/// Microseconds since midnight of `12:30:00.5`.
pub fn parse_time(text: &str) -> Option<i64> {
    let mut parts = text.split(':');
    let (hour, minute): (i64, i64) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let second = parts.next().unwrap_or("0");
    let (whole, fraction) = second.split_once('.').unwrap_or((second, ""));
    let whole: i64 = whole.parse().ok()?;
    let fraction = format!("{fraction:0<6}");
    let micros: i64 = fraction.get(..6)?.parse().ok()?;
    let fits = (0..=24).contains(&hour) && (0..60).contains(&minute) && (0..=60).contains(&whole);
    let total = ((hour * 60 + minute) * 60 + whole) * 1_000_000 + micros;
    (fits && parts.next().is_none() && total <= DAY).then_some(total)
}

/// A date, or a date and a time, with or without an offset from UTC.
pub fn parse_moment(text: &str) -> Option<Moment> {
    let text = text.trim();
    let Some((date, time)) = text.split_once([' ', 'T']) else {
        return parse_date(text).map(Moment::of_days);
    };
    let time = time.trim().trim_end_matches("UTC").trim_end();
    let (time, offset) = match time.find(['+', '-', 'Z', 'z']) {
        Some(at) => (time.get(..at)?.trim_end(), parse_offset(time.get(at..)?)?),
        None => (time, 0),
    };
    Some(Moment(parse_date(date)? * DAY + parse_time(time)? - offset))
}

/// Microseconds of `+02`, `-0330`, `+02:00` and `Z`.
fn parse_offset(text: &str) -> Option<i64> {
    if text.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let (sign, digits) = match text.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let digits: String = digits.chars().filter(|c| *c != ':').collect();
    let hours: i64 = digits.get(..2).unwrap_or(&digits).parse().ok()?;
    let minutes: i64 = digits.get(2..4).map_or(Some(0), |text| text.parse().ok())?;
    Some(sign * (hours * 60 + minutes) * 60_000_000)
}

/// The text of a moment in this type.
pub fn format_moment(moment: Moment, kind: Type) -> String {
    let (days, micros) = (moment.0.div_euclid(DAY), moment.0.rem_euclid(DAY));
    let (year, month, day) = date_of(days);
    let date = format!("{year:04}-{month:02}-{day:02}");
    match kind {
        Type::Date => date,
        Type::Timestamptz => format!("{date} {}+00", format_time(micros)),
        _ => format!("{date} {}", format_time(micros)),
    }
}

pub fn format_time(micros: i64) -> String {
    let (seconds, fraction) = (micros / 1_000_000, micros % 1_000_000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let text = format!("{hour:02}:{minute:02}:{second:02}");
    if fraction == 0 {
        return text;
    }
    let fraction = format!("{fraction:06}");
    format!("{text}.{}", fraction.trim_end_matches('0'))
}

pub fn write_binary(out: &mut Vec<u8>, moment: Moment, kind: Type) {
    if kind == Type::Date {
        let days = moment.0.div_euclid(DAY) - EPOCH_DAYS;
        out.extend_from_slice(&i32::try_from(days).unwrap_or(i32::MAX).to_be_bytes());
    } else {
        out.extend_from_slice(&(moment.0 - EPOCH_DAYS * DAY).to_be_bytes());
    }
}

pub fn read_binary(bytes: &[u8], kind: Type) -> Option<Moment> {
    if kind == Type::Date {
        let days = i32::from_be_bytes(bytes.try_into().ok()?);
        return Some(Moment::of_days(i64::from(days) + EPOCH_DAYS));
    }
    let micros = i64::from_be_bytes(bytes.try_into().ok()?);
    micros.checked_add(EPOCH_DAYS * DAY).map(Moment)
}
