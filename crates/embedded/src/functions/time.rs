//! Functions on time. `now()` stands still within a transaction.

use super::{STABLE, Shared, argument, pure, stable};
use crate::failure::Failure;
use crate::types::Type;
use crate::values::{Moment, format_moment, now_micros, parse_moment};
use rusqlite::types::Value;
use rusqlite::{Connection, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub fn define(connection: &Connection, shared: &Arc<Shared>) -> Result<()> {
    let names: [(&str, Type); 5] = [
        ("now", Type::Timestamptz),
        ("transaction_timestamp", Type::Timestamptz),
        ("statement_timestamp", Type::Timestamptz),
        ("pl_localtimestamp", Type::Timestamp),
        ("pl_current_date", Type::Date),
    ];
    for (name, kind) in names {
        let shared = Arc::clone(shared);
        stable(connection, name, 0, move |_| {
            let now = Moment(shared.now.load(Ordering::Relaxed));
            Ok(Some(Value::Text(format_moment(now, kind))))
        })?;
    }
    stable(connection, "clock_timestamp", 0, |_| {
        Ok(Some(Value::Text(format_moment(now_micros(), Type::Timestamptz))))
    })?;
    let kept = Arc::clone(shared);
    pure(connection, "date_part", 2, move |context| {
        let (Some(field), Some(text)) = (argument(context, 0), argument(context, 1)) else {
            return Ok(None);
        };
        match parse_moment(&text).and_then(|moment| part(&field, moment)) {
            Some(number) => Ok(Some(Value::Real(number))),
            None => Err(kept.fail(Failure::unsupported(format!("date_part('{field}', ...)")))),
        }
    })?;
    let kept = Arc::clone(shared);
    pure(connection, "date_trunc", 2, move |context| {
        let (Some(field), Some(text)) = (argument(context, 0), argument(context, 1)) else {
            return Ok(None);
        };
        let kind = if text.contains('+') { Type::Timestamptz } else { Type::Timestamp };
        match parse_moment(&text).and_then(|moment| truncated(&field, moment)) {
            Some(moment) => Ok(Some(Value::Text(format_moment(moment, kind)))),
            None => Err(kept.fail(Failure::unsupported(format!("date_trunc('{field}', ...)")))),
        }
    })?;
    pure(connection, "to_timestamp", 1, |context| {
        let seconds: Option<f64> = argument(context, 0).and_then(|text| text.parse().ok());
        #[allow(clippy::cast_possible_truncation)]
        let moment = seconds.map(|seconds| Moment((seconds * 1e6).round() as i64));
        Ok(moment.map(|moment| Value::Text(format_moment(moment, Type::Timestamptz))))
    })?;
    connection.create_scalar_function("pl_random", 0, STABLE, |context| {
        let _ = context;
        // SQLite's own generator cannot be called from here; the clock's low bits are spread instead.
        let mut bits = u64::from(now_micros().0 as u32)
            ^ NEXT.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        #[allow(clippy::cast_precision_loss)]
        let number = (bits >> 11) as f64 / (1_u64 << 53) as f64;
        Ok(number)
    })
}

static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);

/// The numbers in the text of a moment: year, month, day, hour, minute, second.
fn numbers(moment: Moment) -> Option<[f64; 6]> {
    let text = format_moment(moment, Type::Timestamp);
    let mut parts = text.split(['-', ' ', ':']).map(|part| part.parse::<f64>().ok());
    let mut found = [0.0; 6];
    for slot in &mut found {
        *slot = parts.next()??;
    }
    Some(found)
}

fn part(field: &str, moment: Moment) -> Option<f64> {
    let [year, month, day, hour, minute, second] = numbers(moment)?;
    let days = moment.0.div_euclid(86_400_000_000);
    #[allow(clippy::cast_precision_loss)]
    Some(match field.to_ascii_lowercase().as_str() {
        "year" => year,
        "month" => month,
        "quarter" => ((month - 1.0) / 3.0).floor() + 1.0,
        "day" => day,
        "hour" => hour,
        "minute" => minute,
        "second" => second,
        "milliseconds" => second * 1e3,
        "microseconds" => second * 1e6,
        "epoch" => moment.0 as f64 / 1e6,
        "dow" => (days + 4).rem_euclid(7) as f64,
        "isodow" => ((days + 3).rem_euclid(7) + 1) as f64,
        _ => return None,
    })
}

fn truncated(field: &str, moment: Moment) -> Option<Moment> {
    let text = format_moment(moment, Type::Timestamp);
    let cut = |length: usize, rest: &str| parse_moment(&format!("{}{rest}", text.get(..length)?));
    match field.to_ascii_lowercase().as_str() {
        "year" => cut(4, "-01-01"),
        "month" => cut(7, "-01"),
        "day" => cut(10, ""),
        "hour" => cut(13, ":00:00"),
        "minute" => cut(16, ":00"),
        "second" => cut(19, ""),
        "week" => {
            let days = moment.0.div_euclid(86_400_000_000);
            Some(Moment::of_days(days - (days + 3).rem_euclid(7)))
        }
        _ => None,
    }
}
