//! Values on their way between SQLite and a client, in the text and the binary form of each type.
//!
//! Owns both directions: [`decode`] reads a parameter, [`encode`] writes a column. Promises that a value that does not
//! fit its type is an error with PostgreSQL's code in binary form, and that in text form it is sent as SQLite has it:
//! SQLite stores any value in any column.

mod date;
mod numeric;
mod text;

pub use date::{Moment, format_moment, now_micros, parse_date, parse_moment, parse_time};
pub use text::{
    array_item, array_items, bytes_of_text, float_text, hex_text, is_true, uuid_bytes, uuid_text,
};

use crate::failure::Failure;
use crate::types::{Declared, Type};
use paceline_postgres::wire::{Format, SqlState};
use rusqlite::types::{Value, ValueRef};
use std::io::Write;

/// Adds a column's value, which is not NULL, to `out`.
pub fn encode(
    out: &mut Vec<u8>,
    value: ValueRef<'_>,
    declared: Declared,
    format: Format,
) -> Result<(), Failure> {
    match format {
        Format::Text => write_text(out, value, declared),
        Format::Binary => write_binary(out, value, declared)?,
    }
    Ok(())
}

fn write_text(out: &mut Vec<u8>, value: ValueRef<'_>, declared: Declared) {
    match (declared.kind, value) {
        (Type::Void, _) | (_, ValueRef::Null) => {}
        (Type::Bool, ValueRef::Integer(_) | ValueRef::Real(_) | ValueRef::Text(_)) => {
            match boolean(value) {
                Some(truth) => out.push(if truth { b't' } else { b'f' }),
                None => raw_text(out, value),
            }
        }
        (Type::BoolArray, ValueRef::Text(bytes)) => {
            // Truth values are numbers in SQLite, also in an array.
            let letter = |byte: &u8| match byte {
                b'0' => b'f',
                b'1' => b't',
                other => *other,
            };
            out.extend(bytes.iter().map(letter));
        }
        (Type::Numeric, ValueRef::Integer(_) | ValueRef::Real(_)) => {
            out.extend_from_slice(numeric::text(value, declared.scale()).as_bytes());
        }
        (Type::Bytea, ValueRef::Text(bytes) | ValueRef::Blob(bytes)) => {
            out.extend_from_slice(hex_text(bytes).as_bytes());
        }
        (Type::Timestamp | Type::Timestamptz | Type::Date, ValueRef::Text(bytes)) => {
            let found = std::str::from_utf8(bytes).ok().and_then(parse_moment);
            match found {
                Some(moment) => {
                    out.extend_from_slice(format_moment(moment, declared.kind).as_bytes());
                }
                None => out.extend_from_slice(bytes),
            }
        }
        (kind, ValueRef::Real(number)) if kind.is_integer() && number.fract() == 0.0 => {
            let _ = write!(out, "{number:.0}");
        }
        (Type::Float4, ValueRef::Real(number)) => {
            #[allow(clippy::cast_possible_truncation)]
            let shorter = text::float4_text(number as f32);
            out.extend_from_slice(shorter.as_bytes());
        }
        _ => raw_text(out, value),
    }
}

/// The value as SQLite has it.
fn raw_text(out: &mut Vec<u8>, value: ValueRef<'_>) {
    match value {
        ValueRef::Null => {}
        ValueRef::Integer(number) => {
            let _ = write!(out, "{number}");
        }
        ValueRef::Real(number) => out.extend_from_slice(float_text(number).as_bytes()),
        ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(_) => out.extend_from_slice(bytes),
            Err(_) => out.extend_from_slice(String::from_utf8_lossy(bytes).as_bytes()),
        },
        ValueRef::Blob(bytes) => out.extend_from_slice(hex_text(bytes).as_bytes()),
    }
}

fn write_binary(out: &mut Vec<u8>, value: ValueRef<'_>, declared: Declared) -> Result<(), Failure> {
    let kind = declared.kind;
    match kind {
        Type::Bool => out.push(u8::from(boolean(value).ok_or_else(|| misfit(value, kind))?)),
        Type::Int2 => put_integer::<i16, 2>(out, value, kind, i16::to_be_bytes)?,
        Type::Int4 => put_integer::<i32, 4>(out, value, kind, i32::to_be_bytes)?,
        Type::Int8 => put_integer::<i64, 8>(out, value, kind, i64::to_be_bytes)?,
        Type::Oid => put_integer::<u32, 4>(out, value, kind, u32::to_be_bytes)?,
        #[allow(clippy::cast_possible_truncation)]
        Type::Float4 => {
            out.extend_from_slice(&(float(value, kind)? as f32).to_be_bytes());
        }
        Type::Float8 => out.extend_from_slice(&float(value, kind)?.to_be_bytes()),
        Type::Numeric => {
            let text = match value {
                ValueRef::Text(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                number => numeric::text(number, declared.scale()),
            };
            numeric::write_binary(out, &text).ok_or_else(|| misfit(value, kind))?;
        }
        Type::Bytea => match value {
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => out.extend_from_slice(bytes),
            other => raw_text(out, other),
        },
        Type::Date | Type::Timestamp | Type::Timestamptz => {
            let moment = moment_of(value).ok_or_else(|| misfit(value, kind))?;
            date::write_binary(out, moment, kind);
        }
        Type::Time => {
            let micros = text_of(value).and_then(parse_time).ok_or_else(|| misfit(value, kind))?;
            out.extend_from_slice(&micros.to_be_bytes());
        }
        Type::Uuid => {
            let bytes = match value {
                ValueRef::Blob(bytes) => bytes.try_into().ok(),
                other => text_of(other).and_then(uuid_bytes),
            };
            out.extend_from_slice(&bytes.ok_or_else(|| misfit(value, kind))?);
        }
        Type::Jsonb => {
            out.push(1);
            raw_text(out, value);
        }
        Type::Void => {}
        Type::Interval
        | Type::TextArray
        | Type::BoolArray
        | Type::Int8Array
        | Type::Int2Vector
        | Type::OidVector
        | Type::Regclass
        | Type::Regtype
        | Type::Regproc => {
            return Err(Failure::unsupported(format!("binary format of type {}", kind.name())));
        }
        _ => raw_text(out, value),
    }
    Ok(())
}

fn put_integer<T: TryFrom<i64>, const N: usize>(
    out: &mut Vec<u8>,
    value: ValueRef<'_>,
    kind: Type,
    bytes: fn(T) -> [u8; N],
) -> Result<(), Failure> {
    let number = integer(value).ok_or_else(|| misfit(value, kind))?;
    let number = T::try_from(number).map_err(|_| out_of_range(kind))?;
    out.extend_from_slice(&bytes(number));
    Ok(())
}

fn integer(value: ValueRef<'_>) -> Option<i64> {
    match value {
        ValueRef::Integer(number) => Some(number),
        #[allow(clippy::cast_possible_truncation)]
        ValueRef::Real(number) if number.fract() == 0.0 && number.abs() < 9.0e18 => {
            Some(number as i64)
        }
        other => text_of(other)?.trim().parse().ok(),
    }
}

fn float(value: ValueRef<'_>, kind: Type) -> Result<f64, Failure> {
    let found = match value {
        #[allow(clippy::cast_precision_loss)]
        ValueRef::Integer(number) => Some(number as f64),
        ValueRef::Real(number) => Some(number),
        other => text_of(other).and_then(|text| text.trim().parse().ok()),
    };
    found.ok_or_else(|| misfit(value, kind))
}

fn boolean(value: ValueRef<'_>) -> Option<bool> {
    match value {
        ValueRef::Integer(number) => Some(number != 0),
        ValueRef::Real(number) => Some(number != 0.0),
        other => is_true(text_of(other)?),
    }
}

fn moment_of(value: ValueRef<'_>) -> Option<Moment> {
    text_of(value).and_then(parse_moment)
}

fn text_of(value: ValueRef<'_>) -> Option<&str> {
    match value {
        ValueRef::Text(bytes) => std::str::from_utf8(bytes).ok(),
        _ => None,
    }
}

fn misfit(value: ValueRef<'_>, kind: Type) -> Failure {
    let mut shown = Vec::new();
    raw_text(&mut shown, value);
    shown.truncate(100);
    let shown = String::from_utf8_lossy(&shown).into_owned();
    invalid(kind, &shown)
}

fn invalid(kind: Type, text: &str) -> Failure {
    let message = format!("invalid input syntax for type {}: \"{text}\"", kind.sql_name());
    Failure::new(SqlState::INVALID_TEXT_REPRESENTATION, message)
}

fn out_of_range(kind: Type) -> Failure {
    let message = format!("value is out of range for type {}", kind.sql_name());
    Failure::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message)
}

/// Reads a parameter as a client sent it.
pub fn decode(bytes: &[u8], kind: Type, format: Format) -> Result<Value, Failure> {
    match format {
        Format::Text => {
            let text = std::str::from_utf8(bytes).map_err(|_| not_utf8())?;
            from_text(text, kind)
        }
        Format::Binary => from_binary(bytes, kind),
    }
}

fn not_utf8() -> Failure {
    let message = "invalid byte sequence for encoding \"UTF8\"";
    Failure::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, message)
}

/// The value that a text means in this type, as a cast reads it.
pub fn from_text(text: &str, kind: Type) -> Result<Value, Failure> {
    let trimmed = text.trim();
    let wrong = || invalid(kind, text);
    Ok(match kind {
        Type::Bool => Value::Integer(is_true(trimmed).ok_or_else(wrong)?.into()),
        Type::Int2 | Type::Int4 | Type::Int8 | Type::Oid => {
            let number: i128 = trimmed.parse().map_err(|_| wrong())?;
            Value::Integer(ranged(number, kind)?)
        }
        Type::Float4 | Type::Float8 => {
            let lower = trimmed.to_ascii_lowercase();
            let number = match lower.as_str() {
                "infinity" | "inf" => f64::INFINITY,
                "-infinity" | "-inf" => f64::NEG_INFINITY,
                // SQLite has no NaN; it stores NULL.
                "nan" => return Ok(Value::Null),
                other => other.parse().map_err(|_| wrong())?,
            };
            Value::Real(number)
        }
        Type::Numeric => match (trimmed.parse::<i64>(), trimmed.parse::<f64>()) {
            (Ok(number), _) => Value::Integer(number),
            (_, Ok(number)) if number.is_finite() => Value::Real(number),
            _ => return Err(wrong()),
        },
        Type::Bytea => Value::Blob(bytes_of_text(text).ok_or_else(wrong)?),
        Type::Date => {
            let days = parse_date(trimmed).ok_or_else(wrong)?;
            let moment = Moment::of_days(days);
            Value::Text(format_moment(moment, kind))
        }
        Type::Timestamp | Type::Timestamptz => {
            let moment = parse_moment(trimmed).ok_or_else(wrong)?;
            Value::Text(format_moment(moment, kind))
        }
        Type::Uuid => Value::Text(uuid_text(uuid_bytes(trimmed).ok_or_else(wrong)?)),
        Type::Void => Value::Null,
        _ => Value::Text(text.to_owned()),
    })
}

/// The number, if it fits the type.
pub fn ranged(number: i128, kind: Type) -> Result<i64, Failure> {
    let fits = match kind {
        Type::Int2 => i16::try_from(number).is_ok(),
        Type::Int4 => i32::try_from(number).is_ok(),
        Type::Oid => u32::try_from(number).is_ok(),
        _ => i64::try_from(number).is_ok(),
    };
    match i64::try_from(number) {
        Ok(number) if fits => Ok(number),
        _ => Err(out_of_range(kind)),
    }
}

fn from_binary(bytes: &[u8], kind: Type) -> Result<Value, Failure> {
    let wrong = || {
        let message = format!("incorrect binary data format of type {}", kind.sql_name());
        Failure::new(SqlState::INVALID_BINARY_REPRESENTATION, message)
    };
    Ok(match kind {
        Type::Bool => Value::Integer(i64::from(*bytes.first().ok_or_else(wrong)? != 0)),
        Type::Int2 => Value::Integer(i16::from_be_bytes(array(bytes).ok_or_else(wrong)?).into()),
        Type::Int4 => Value::Integer(i32::from_be_bytes(array(bytes).ok_or_else(wrong)?).into()),
        Type::Int8 => Value::Integer(i64::from_be_bytes(array(bytes).ok_or_else(wrong)?)),
        Type::Oid | Type::Regclass | Type::Regtype | Type::Regproc => {
            Value::Integer(u32::from_be_bytes(array(bytes).ok_or_else(wrong)?).into())
        }
        Type::Float4 => Value::Real(f32::from_be_bytes(array(bytes).ok_or_else(wrong)?).into()),
        Type::Float8 => Value::Real(f64::from_be_bytes(array(bytes).ok_or_else(wrong)?)),
        Type::Numeric => from_text(&numeric::read_binary(bytes).ok_or_else(wrong)?, kind)?,
        Type::Bytea => Value::Blob(bytes.to_vec()),
        Type::Date | Type::Timestamp | Type::Timestamptz => {
            let moment = date::read_binary(bytes, kind).ok_or_else(wrong)?;
            Value::Text(format_moment(moment, kind))
        }
        Type::Time => {
            let micros = i64::from_be_bytes(array(bytes).ok_or_else(wrong)?);
            Value::Text(date::format_time(micros))
        }
        Type::Uuid => Value::Text(uuid_text(array(bytes).ok_or_else(wrong)?)),
        Type::Jsonb => match bytes {
            [1, rest @ ..] => {
                Value::Text(String::from_utf8(rest.to_vec()).map_err(|_| not_utf8())?)
            }
            _ => return Err(wrong()),
        },
        Type::TextArray | Type::Int8Array => {
            Value::Text(text::array_text(bytes).ok_or_else(wrong)?)
        }
        Type::Interval | Type::BoolArray | Type::Int2Vector | Type::OidVector => {
            return Err(Failure::unsupported(format!("binary format of type {}", kind.name())));
        }
        _ => Value::Text(String::from_utf8(bytes.to_vec()).map_err(|_| not_utf8())?),
    })
}

fn array<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    bytes.try_into().ok()
}

#[cfg(test)]
mod tests;
