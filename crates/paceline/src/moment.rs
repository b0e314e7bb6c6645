//! Points in time as the API writes them (RFC 3339), and how long ago they were, for people.

use std::time::{SystemTime, UNIX_EPOCH};

/// How long ago a time was, in its largest unit; negative for future times.
pub fn age(at: &str) -> Option<String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    let now = i64::try_from(now.as_millis()).ok()?;
    Some(coarse(now.saturating_sub(millis(at)?)))
}

/// A duration in its largest unit.
pub fn span(length: std::time::Duration) -> String {
    match i64::try_from(length.as_millis()) {
        Ok(millis) if millis < 1_000 => "0s".into(),
        Ok(millis) => coarse(millis),
        Err(_) => coarse(i64::MAX),
    }
}

/// How long until then, or `now`.
pub fn ahead(at: &str) -> Option<String> {
    let left = left(at)?;
    Some(if left <= 0 { "now".into() } else { format!("in {}", nearest(left)) })
}

/// The time of day, to the second.
pub fn clock(at: &str) -> Option<&str> {
    millis(at)?;
    at.get(11..19)
}

/// The time of day now, to the second, in UTC.
pub fn clock_now() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let (hours, minutes, seconds) = (now / 3_600 % 24, now / 60 % 60, now % 60);
    format!("{hours:02}:{minutes:02}:{seconds:02}")
}

fn coarse(millis: i64) -> String {
    let seconds = millis.max(0) / 1000;
    match seconds {
        0 => format!("{}ms", millis.max(0)),
        1..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// The same, rounded to the nearest: 90 days minus an instant are 90 days.
fn nearest(millis: i64) -> String {
    let seconds = (millis.max(0) + 500) / 1000;
    let of = |unit: i64| (seconds + unit / 2) / unit;
    match seconds {
        0 => format!("{}ms", millis.max(0)),
        1..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", of(60)),
        7_200..172_800 => format!("{}h", of(3_600)),
        _ => format!("{}d", of(86_400)),
    }
}

/// Milliseconds left until then; `None` if it is not a valid time.
pub fn left(at: &str) -> Option<i64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    Some(millis(at)?.saturating_sub(i64::try_from(now.as_millis()).ok()?))
}

/// Milliseconds since 1970 of a text such as `2026-01-31T23:59:59.123456Z`.
pub fn millis(text: &str) -> Option<i64> {
    let text = text.strip_suffix('Z')?;
    let (date, time) = text.split_once('T')?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
    let numbers = |text: &str, separator: char| -> Option<Vec<i64>> {
        text.split(separator).map(|part| part.parse().ok()).collect()
    };
    let (date, time) = (numbers(date, '-')?, numbers(time, ':')?);
    let ([year, month, day], [hour, minute, second]) = (date.as_slice(), time.as_slice()) else {
        return None;
    };
    let fits = (1970..=9999).contains(year)
        && (1..=12).contains(month)
        && (1..=31).contains(day)
        && (0..24).contains(hour)
        && (0..60).contains(minute)
        && (0..=60).contains(second);
    let fraction: i64 = format!("{fraction:0<3}").get(..3)?.parse().ok()?;
    let seconds = days(*year, *month, *day) * 86_400 + hour * 3_600 + minute * 60 + second;
    fits.then_some(seconds * 1_000 + fraction)
}

/// Days since 1970 in the Gregorian calendar: years begin in March, so that the leap day is the last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year * 365 + year / 4 - year / 100 + year / 400 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::{coarse, millis, nearest};

    #[test]
    fn times_are_read() {
        assert_eq!(millis("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(millis("2000-02-29T12:00:00.500000Z"), Some(951_825_600_500));
        assert_eq!(millis("2026-11-16T04:01:13.000001Z"), Some(1_794_801_673_000));
        for bad in ["", "2026", "2026-13-01T00:00:00Z", "2026-01-01T00:00:00", "x-y-zT1:2:3Z"] {
            assert_eq!(millis(bad), None, "{bad}");
        }
    }

    #[test]
    fn what_is_ahead_is_rounded_to_the_nearest() {
        let day = 86_400_000;
        for (millis, text) in [
            (1, "1ms"),
            (1_999, "2s"),
            (90 * day - 1, "90d"),
            (90 * day, "90d"),
            (90 * day + 1, "90d"),
            (7_230_000, "2h"),
            (3_599_000, "60m"),
        ] {
            assert_eq!(nearest(millis), text);
        }
    }

    #[test]
    fn ages_have_one_unit() {
        for (millis, text) in
            [(-5, "0ms"), (999, "999ms"), (119_000, "119s"), (150_000, "2m"), (7_200_000, "2h")]
        {
            assert_eq!(coarse(millis), text);
        }
    }
}
