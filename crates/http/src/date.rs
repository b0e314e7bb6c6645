//! Formats times for HTTP and for the common log format, from milliseconds since 1970. It reads no clock.

use paceline_types::civil;

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Formats a time for the field `Date` (RFC 9110 5.6.7).
pub(crate) fn http(wall_ms: u64) -> String {
    let weekday = DAYS[(wall_ms / 86_400_000 % 7) as usize];
    let (year, month, day, clock) = parts(wall_ms);
    format!("{weekday}, {day:02} {month} {year:04} {clock} GMT")
}

/// Formats a time for the common log format.
pub(crate) fn common(wall_ms: u64) -> String {
    let (year, month, day, clock) = parts(wall_ms);
    format!("{day:02}/{month}/{year:04}:{clock} +0000")
}

/// Year, month, day, and the time of the day.
fn parts(wall_ms: u64) -> (i64, &'static str, i64, String) {
    let (days, second) = (wall_ms / 86_400_000, wall_ms / 1_000 % 86_400);
    let (year, month, day) = civil(i64::try_from(days).unwrap_or_default());
    let month = MONTHS.get(month as usize - 1).unwrap_or(&"Jan");
    let clock = format!("{:02}:{:02}:{:02}", second / 3_600, second / 60 % 60, second % 60);
    (year, month, day, clock)
}

#[cfg(test)]
mod tests {
    /// The example of RFC 9110 5.6.7.
    #[test]
    fn times_are_written_as_the_formats_want_them() {
        assert_eq!(super::http(784_111_777_000), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(super::common(784_111_777_999), "06/Nov/1994:08:49:37 +0000");
        assert_eq!(super::http(1_709_164_800_000), "Thu, 29 Feb 2024 00:00:00 GMT");
    }
}
