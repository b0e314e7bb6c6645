//! The calendar: from days since 1970 to a date, in UTC.

/// Year, month and day of a number of days since 1970. Years are counted from March, so that the leap
/// day is the last one; 400 of them always have 146,097 days.
#[must_use]
pub const fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + (month <= 2) as i64, month, day)
}

#[cfg(test)]
mod tests {
    use super::civil;

    #[test]
    fn every_day_follows_the_one_before() {
        let days = |year: i64, month: i64| match month {
            2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        let (mut year, mut month, mut day) = (1600, 1, 1);
        for number in -135_140..200_000 {
            assert_eq!(civil(number), (year, month, day), "{number}");
            day += 1;
            if day > days(year, month) {
                (month, day) = (month + 1, 1);
            }
            if month > 12 {
                (year, month) = (year + 1, 1);
            }
        }
    }
}
