//! The text forms of numbers, truth values, bytes, UUIDs and arrays.

/// A number as PostgreSQL writes it: the shortest text that reads back the same.
pub fn float_text(number: f64) -> String {
    shortest(number.is_finite(), number, format!("{number:e}"))
}

pub fn float4_text(number: f32) -> String {
    shortest(number.is_finite(), number.into(), format!("{number:e}"))
}

fn shortest(is_finite: bool, number: f64, scientific: String) -> String {
    if !is_finite {
        let sign = if number < 0.0 { "-" } else { "" };
        return if number.is_nan() { "NaN".into() } else { format!("{sign}Infinity") };
    }
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-5 < exponent) && exponent < 15 {
        return plain(digits, exponent);
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// The digits without an exponent.
pub fn plain(digits: &str, exponent: i32) -> String {
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |rest| ("-", rest));
    let digits: String = digits.chars().filter(|c| *c != '.').collect();
    if exponent < 0 {
        let zeros = "0".repeat(usize::try_from(-exponent - 1).unwrap_or(0));
        return format!("{sign}0.{zeros}{digits}");
    }
    let whole = usize::try_from(exponent).unwrap_or(0) + 1;
    match digits.split_at_checked(whole) {
        Some((whole, "")) => format!("{sign}{whole}"),
        Some((whole, rest)) => format!("{sign}{whole}.{rest}"),
        None => format!("{sign}{digits}{}", "0".repeat(whole - digits.len())),
    }
}

/// What a text means as a truth value.
pub fn is_true(text: &str) -> Option<bool> {
    let lower = text.to_ascii_lowercase();
    let is = |word: &str, least: usize| lower.len() >= least && word.starts_with(&lower);
    if is("true", 1) || is("yes", 1) || lower == "on" || lower == "1" {
        Some(true)
    } else if is("false", 1) || is("no", 1) || is("off", 2) || lower == "0" {
        Some(false)
    } else {
        None
    }
}

/// Bytes as `\x...`.
pub fn hex_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 + bytes.len() * 2);
    text.push_str("\\x");
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from_digit(digit.into(), 16).unwrap_or('0'));
        }
    }
    text
}

/// The bytes that a text of type `bytea` means, in hexadecimal or in escape format.
pub fn bytes_of_text(text: &str) -> Option<Vec<u8>> {
    if let Some(hex) = text.strip_prefix("\\x") {
        let digits: Option<Vec<u8>> = hex
            .bytes()
            .filter(|byte| !byte.is_ascii_whitespace())
            .map(|byte| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
            .collect();
        let digits = digits.filter(|digits| digits.len().is_multiple_of(2))?;
        return Some(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect());
    }
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        if let [b'\\', after @ ..] = rest {
            bytes.push(b'\\');
            rest = after;
        } else if let [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..] = rest {
            bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
            rest = after;
        } else {
            return None;
        }
    }
    Some(bytes)
}

/// The bytes of a UUID, written with or without hyphens and braces.
pub fn uuid_bytes(text: &str) -> Option<[u8; 16]> {
    let text = text.trim().trim_start_matches('{').trim_end_matches('}');
    let digits: Option<Vec<u8>> = text
        .bytes()
        .filter(|byte| *byte != b'-')
        .map(|byte| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
        .collect();
    let bytes: Vec<u8> = digits?
        .chunks(2)
        .map(|pair| match pair {
            [high, low] => Some(high << 4 | low),
            _ => None,
        })
        .collect::<Option<_>>()?;
    bytes.try_into().ok()
}

pub fn uuid_text(bytes: [u8; 16]) -> String {
    let hex = hex_text(&bytes);
    let part = |from: usize, to: usize| hex.get(from + 2..to + 2).unwrap_or_default();
    format!("{}-{}-{}-{}-{}", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32))
}

/// The text form `{a,b}` of a binary array whose elements are texts or integers, in one dimension.
pub fn array_text(bytes: &[u8]) -> Option<String> {
    let (head, mut rest) = bytes.split_first_chunk::<12>()?;
    let number = |at: usize| Some(i32::from_be_bytes(head.get(at..at + 4)?.try_into().ok()?));
    let (dimensions, element) = (number(0)?, number(8)?);
    if dimensions == 0 {
        return Some("{}".into());
    }
    if dimensions != 1 {
        return None;
    }
    rest = rest.get(8..)?;
    let mut items = Vec::new();
    while !rest.is_empty() {
        let (length, after) = rest.split_first_chunk::<4>()?;
        let length = i32::from_be_bytes(*length);
        let Ok(length) = usize::try_from(length) else {
            items.push("NULL".to_owned());
            rest = after;
            continue;
        };
        let (value, after) = after.split_at_checked(length)?;
        rest = after;
        items.push(match element {
            20 => i64::from_be_bytes(value.try_into().ok()?).to_string(),
            21 => i16::from_be_bytes(value.try_into().ok()?).to_string(),
            23 => i32::from_be_bytes(value.try_into().ok()?).to_string(),
            26 => u32::from_be_bytes(value.try_into().ok()?).to_string(),
            25 | 1043 | 19 => array_item(std::str::from_utf8(value).ok()?),
            _ => return None,
        });
    }
    Some(format!("{{{}}}", items.join(",")))
}

/// An element of an array, in quotes if it needs them.
pub fn array_item(text: &str) -> String {
    let plain = !text.is_empty()
        && !text.eq_ignore_ascii_case("null")
        && !text.contains(|c: char| c.is_whitespace() || "{},\"\\".contains(c));
    if plain {
        return text.to_owned();
    }
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// The elements of `{a,"b",NULL}`; none if the text is no array of one dimension.
pub fn array_items(text: &str) -> Option<Vec<Option<String>>> {
    let inner = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    let mut items = Vec::new();
    let mut chars = inner.chars().peekable();
    while chars.peek().is_some() {
        let (mut item, mut is_quoted) = (String::new(), false);
        while let Some(c) = chars.next() {
            match c {
                ',' => break,
                '"' => {
                    is_quoted = true;
                    while let Some(c) = chars.next() {
                        match c {
                            '"' => break,
                            '\\' => item.extend(chars.next()),
                            other => item.push(other),
                        }
                    }
                }
                '\\' => item.extend(chars.next()),
                '{' | '}' => return None,
                other => item.push(other),
            }
        }
        let is_null = !is_quoted && item.eq_ignore_ascii_case("null");
        items.push((!is_null).then_some(item));
    }
    Some(items)
}
