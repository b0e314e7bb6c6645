//! The type `numeric`. SQLite computes with 64-bit integers and floating point, so a number has 15 digits for sure;
//! the binary form of PostgreSQL is written and read digit by digit.

use super::text::plain;
use rusqlite::types::ValueRef;

/// A number without an exponent, with as many digits after the point as its type asks for.
pub fn text(value: ValueRef<'_>, scale: Option<usize>) -> String {
    match (value, scale) {
        (ValueRef::Integer(number), None | Some(0)) => number.to_string(),
        (ValueRef::Integer(number), Some(scale)) => format!("{number}.{}", "0".repeat(scale)),
        (ValueRef::Real(number), _) if !number.is_finite() => super::float_text(number),
        (ValueRef::Real(number), Some(scale)) => format!("{number:.scale$}"),
        (ValueRef::Real(number), None) => {
            let scientific = format!("{number:e}");
            let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
            plain(digits, exponent.parse().unwrap_or(0))
        }
        _ => String::new(),
    }
}

const NEGATIVE: u16 = 0x4000;

/// Adds the binary form: groups of four digits, the weight of the first, sign, digits after the point.
pub fn write_binary(out: &mut Vec<u8>, text: &str) -> Option<()> {
    let text = text.trim();
    if text == "NaN" {
        out.extend_from_slice(&[0, 0, 0, 0, 0xc0, 0, 0, 0]);
        return Some(());
    }
    let (sign, text) = text.strip_prefix('-').map_or((0, text), |rest| (NEGATIVE, rest));
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if !whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let whole = whole.trim_start_matches('0');
    let padded_whole = format!("{}{whole}", "0".repeat((4 - whole.len() % 4) % 4));
    let padded = format!("{padded_whole}{fraction}{}", "0".repeat((4 - fraction.len() % 4) % 4));
    let mut groups: Vec<u16> = padded
        .as_bytes()
        .chunks(4)
        .map(|group| group.iter().fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0')))
        .collect();
    let mut weight = i16::try_from(padded_whole.len() / 4).ok()? - 1;
    while groups.first() == Some(&0) {
        groups.remove(0);
        weight -= 1;
    }
    while groups.last() == Some(&0) {
        groups.pop();
    }
    if groups.is_empty() {
        weight = 0;
    }
    out.extend_from_slice(&u16::try_from(groups.len()).ok()?.to_be_bytes());
    out.extend_from_slice(&weight.to_be_bytes());
    out.extend_from_slice(&sign.to_be_bytes());
    out.extend_from_slice(&u16::try_from(fraction.len()).ok()?.to_be_bytes());
    groups.iter().for_each(|group| out.extend_from_slice(&group.to_be_bytes()));
    Some(())
}

/// The text of a binary number.
pub fn read_binary(bytes: &[u8]) -> Option<String> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let [count, weight, sign, scale, groups @ ..] = pairs else { return None };
    if !rest.is_empty() || groups.len() != usize::from(u16::from_be_bytes(*count)) {
        return None;
    }
    let sign = match u16::from_be_bytes(*sign) {
        0 => "",
        NEGATIVE => "-",
        _ => return None,
    };
    let (weight, scale) = (i16::from_be_bytes(*weight), u16::from_be_bytes(*scale));
    let group = |place: i32| {
        let at = usize::try_from(i32::from(weight) - place).ok();
        at.and_then(|at| groups.get(at)).map_or(0, |group| u16::from_be_bytes(*group))
    };
    let mut text = String::new();
    for place in (0..=i32::from(weight).max(0)).rev() {
        text.push_str(&format!("{:04}", group(place)));
    }
    let whole = text.trim_start_matches('0');
    let mut fraction = String::new();
    for place in 1..=i32::from(scale).div_euclid(4) + 1 {
        fraction.push_str(&format!("{:04}", group(-place)));
    }
    let fraction = fraction.get(..usize::from(scale)).unwrap_or(&fraction);
    let whole = if whole.is_empty() { "0" } else { whole };
    Some(match fraction {
        "" => format!("{sign}{whole}"),
        fraction => format!("{sign}{whole}.{fraction}"),
    })
}
