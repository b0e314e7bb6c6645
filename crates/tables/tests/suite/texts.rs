//! JSON texts: written values read back the same, and the parser agrees with a naive one on valid and invalid
//! texts.

use crate::random::Random;
use paceline_tables::json::{self, Json, Object, ParseError, Reader};

const DEPTH: usize = 20;

/// A parser that takes one character at a time and has no shortcuts.
struct Naive {
    text: Vec<char>,
    at: usize,
}

fn naive(text: &[u8]) -> Option<Json> {
    let text = std::str::from_utf8(text).ok()?.chars().collect();
    let mut parser = Naive { text, at: 0 };
    let value = parser.value(DEPTH)?;
    parser.space();
    (parser.at == parser.text.len()).then_some(value)
}

impl Naive {
    fn next(&mut self) -> Option<char> {
        let c = self.text.get(self.at).copied()?;
        self.at += 1;
        Some(c)
    }

    fn take(&mut self, c: char) -> bool {
        let taken = self.text.get(self.at) == Some(&c);
        self.at += usize::from(taken);
        taken
    }

    fn space(&mut self) {
        while self.text.get(self.at).is_some_and(|c| [' ', '\t', '\r', '\n'].contains(c)) {
            self.at += 1;
        }
    }

    fn word(&mut self, word: &str, value: Json) -> Option<Json> {
        word.chars().all(|c| self.take(c)).then_some(value)
    }

    fn value(&mut self, depth: usize) -> Option<Json> {
        self.space();
        match self.text.get(self.at)? {
            'n' => self.word("null", Json::Null),
            't' => self.word("true", Json::Bool(true)),
            'f' => self.word("false", Json::Bool(false)),
            '"' => self.string().map(Json::string),
            '[' => self.array(depth.checked_sub(1)?),
            '{' => self.object(depth.checked_sub(1)?),
            _ => self.number(),
        }
    }

    fn array(&mut self, depth: usize) -> Option<Json> {
        self.at += 1;
        let mut list = Vec::new();
        self.space();
        if self.take(']') {
            return Some(Json::Array(list));
        }
        loop {
            list.push(self.value(depth)?);
            self.space();
            if self.take(']') {
                return Some(Json::Array(list));
            }
            self.take(',').then_some(())?;
        }
    }

    fn object(&mut self, depth: usize) -> Option<Json> {
        self.at += 1;
        let mut members = std::collections::BTreeMap::new();
        self.space();
        let mut more = !self.take('}');
        while more {
            self.space();
            let name = self.string()?;
            self.space();
            self.take(':').then_some(())?;
            members.insert(name, self.value(depth)?);
            self.space();
            more = !self.take('}');
            if more {
                self.take(',').then_some(())?;
            }
        }
        let members = members.into_iter().map(|(name, value)| (name.into(), value)).collect();
        Some(Json::Object(Object::new(members)))
    }

    fn string(&mut self) -> Option<String> {
        self.take('"').then_some(())?;
        let mut units: Vec<u16> = Vec::new();
        loop {
            match self.next()? {
                '"' => return String::from_utf16(&units).ok(),
                '\\' => match self.next()? {
                    'u' => {
                        let digits: String = (0..4).filter_map(|_| self.next()).collect();
                        let plain = digits.len() == 4 && !digits.starts_with('+');
                        let unit = u16::from_str_radix(&digits, 16).ok().filter(|_| plain)?;
                        units.push(Some(unit).filter(|unit| *unit != 0)?);
                    }
                    c => {
                        let at = "\"\\/bfnrt".chars().position(|known| known == c)?;
                        units.push([34, 92, 47, 8, 12, 10, 13, 9][at]);
                    }
                },
                c if c < ' ' => return None,
                c => units.extend(c.encode_utf16(&mut [0; 2]).iter()),
            }
        }
    }

    fn digits(&mut self) -> Option<String> {
        let start = self.at;
        while self.text.get(self.at).is_some_and(char::is_ascii_digit) {
            self.at += 1;
        }
        let digits: String = self.text[start..self.at].iter().collect();
        (!digits.is_empty()).then_some(digits)
    }

    fn number(&mut self) -> Option<Json> {
        let start = self.at;
        let negative = self.take('-');
        let whole = self.digits()?;
        if whole.len() > 1 && whole.starts_with('0') {
            return None;
        }
        let fraction = if self.take('.') { self.digits()? } else { String::new() };
        let mut exponent = 0;
        if self.take('e') || self.take('E') {
            let sign = if self.take('-') { -1 } else { i64::from(!self.take('+')).max(1) };
            exponent = sign * self.digits()?.parse::<i64>().ok()?;
        }
        let text: String = self.text[start..self.at].iter().collect();
        if let Some(integer) = whole_number(negative, &whole, &fraction, exponent) {
            return Some(Json::Integer(integer));
        }
        // A double that cannot be distinguished from a whole number counts as one.
        let real = text.parse::<f64>().ok().filter(|real| real.is_finite())?;
        let whole = real == real.trunc() && real >= i64::MIN as f64 && real < i64::MAX as f64;
        Some(if whole { Json::Integer(real as i64) } else { Json::Real(real) })
    }
}

/// Writes the number without a point, if it has no fraction, and parses the result.
fn whole_number(negative: bool, whole: &str, fraction: &str, exponent: i64) -> Option<i64> {
    let digits = format!("{whole}{fraction}");
    let point = whole.len() as i64 + exponent;
    if digits.bytes().all(|c| c == b'0') {
        return Some(0);
    }
    let place = usize::try_from(point).ok().filter(|place| *place < 400)?;
    let padded = format!("{digits}{}", "0".repeat(400));
    let (whole, rest) = padded.split_at(place);
    if rest.bytes().any(|c| c != b'0') {
        return None;
    }
    format!("{}{whole}", if negative { "-" } else { "" }).parse().ok()
}

fn random_string(random: &mut Random) -> String {
    let all = ['a', 'é', '"', '\\', '\n', '\u{1}', '\u{7f}', '😀', '/', '\u{ffff}', 'z', ' '];
    (0..random.below(6)).map(|_| *random.pick(&all)).collect()
}

/// A value that is the same after being written and read.
fn random_value(random: &mut Random, depth: usize) -> Json {
    let integers = [0, 1, -1, i64::MAX, i64::MIN, 1 << 53, (1 << 53) + 1, 1_000_000];
    let reals = [0.5, -0.1, 1e300, -2.5e-300, 1.7976931348623157e308, 5e-324, 1e19, 123456.789];
    match random.below(if depth == 0 { 5 } else { 8 }) {
        0 => Json::Null,
        1 => Json::Bool(random.chance(50)),
        2 => Json::Integer(*random.pick(&integers)),
        3 if random.chance(50) => Json::Real(*random.pick(&reals)),
        3 => loop {
            let real = f64::from_bits(random.next());
            if real.is_finite() && real.fract() != 0.0 {
                break Json::Real(real);
            }
        },
        4 => Json::string(random_string(random)),
        5 | 6 => {
            Json::Array((0..random.below(4)).map(|_| random_value(random, depth - 1)).collect())
        }
        _ => {
            let member = |_| (random_string(random).into(), random_value(random, depth - 1));
            Json::Object(Object::new((0..4).map(member).collect()))
        }
    }
}

#[test]
fn what_is_written_reads_back() {
    let mut random = Random::new(1);
    for _ in 0..20_000 {
        let value = random_value(&mut random, 4);
        let text = value.to_text();
        assert_eq!(json::parse(text.as_bytes(), DEPTH).as_ref(), Ok(&value), "{text}");
        assert_eq!(naive(text.as_bytes()).as_ref(), Some(&value), "{text}");
    }
}

/// Reads the outermost object in pieces.
fn by_pieces(text: &[u8]) -> Result<Json, ParseError> {
    let mut members = Vec::new();
    let mut reader = Reader::new(text, DEPTH);
    reader.object(|reader, name| {
        members.push((name.into(), reader.value()?));
        Ok::<(), ParseError>(())
    })?;
    reader.end()?;
    Ok(Json::Object(Object::new(members)))
}

fn check(text: &[u8]) {
    let shown = String::from_utf8_lossy(text);
    let parsed = json::parse(text, DEPTH);
    let expected = naive(text);
    assert_eq!(parsed.as_ref().ok(), expected.as_ref(), "{shown} gives {parsed:?}");
    if let Err(error) = &parsed {
        assert!(error.offset <= text.len(), "{shown}: {error}");
    }
    let is_object = text.trim_ascii_start().first() == Some(&b'{');
    assert_eq!(by_pieces(text).ok(), expected.filter(|_| is_object), "{shown} by pieces");
}

/// A text as clients may write it: with spaces, escapes, exponents and repeated names.
fn random_text(random: &mut Random, depth: usize) -> String {
    let numbers = [
        "0",
        "-0",
        "-0.0",
        "1e0",
        "10.50e1",
        "1e18",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "9223372036854775807.0",
        "92233720368547758.07e2",
        "1E+2",
        "2e-2",
        "200e-2",
        "123456789012345678901234567890",
        "1e308",
        "1e309",
        "0.1",
        "1e-400",
        "01",
        "1.",
        ".5",
        "+1",
        "1e",
        "--1",
        "0x1",
        "9007199254740993.0",
        "1.5e1",
        "0e5",
        "0.000e-3",
    ];
    let strings = [
        r#""""#,
        r#""\u00e9\ud83d\ude00""#,
        r#""\ud83d""#,
        r#""\ude00\ud83d""#,
        r#""\u0000""#,
        r#""\b\f\n\r\t\/\\\"""#,
        r#""\x""#,
        r#""\u12""#,
        "\"\t\"",
        "\"é😀\"",
        r#""\uD83D\u0041""#,
        r#""\u+123""#,
        r#""a"#,
    ];
    let space = *random.pick(&["", "", " ", "\n\t", "\r"]);
    let name = *random.pick(&[r#""a""#, r#""b""#, r#""\u0061""#, r#""""#]);
    let inner: Vec<String> = match depth {
        0 => Vec::new(),
        _ => (0..random.below(4)).map(|_| random_text(random, depth - 1)).collect(),
    };
    let text = match random.below(8) {
        0 => "null".to_owned(),
        1 => (*random.pick(&["true", "false"])).to_owned(),
        2 => (*random.pick(&numbers)).to_owned(),
        3 => (*random.pick(&strings)).to_owned(),
        4 | 5 => format!("[{}]", inner.join(",")),
        _ => {
            let member = |value| format!("{name}{space}:{value}");
            format!("{{{space}{}}}", inner.into_iter().map(member).collect::<Vec<_>>().join(","))
        }
    };
    format!("{space}{text}{space}")
}

#[test]
fn right_and_wrong_texts_are_told_apart() {
    let mut random = Random::new(2);
    let (mut right, mut wrong) = (0, 0);
    for _ in 0..60_000 {
        let mut text = random_text(&mut random, 3).into_bytes();
        check(&text);
        for _ in 0..random.below(3) {
            let at = random.below(text.len() + 1);
            let byte = *random.pick(b"{}[],:\"\\ntfu0129-+.eE \n\x00\x1f\x7f\xff\xc3");
            match random.below(3) {
                0 => text.insert(at, byte),
                1 if at < text.len() => drop(text.remove(at)),
                _ if at < text.len() => text[at] = byte,
                _ => {}
            }
        }
        check(&text);
        if naive(&text).is_some() { right += 1 } else { wrong += 1 }
    }
    assert!(right > 5_000 && wrong > 5_000, "{right} {wrong}");
}

/// D4: for any bytes, the answer is a value or an error.
#[test]
fn random_bytes_never_panic() {
    let mut random = Random::new(3);
    for _ in 0..50_000 {
        let text: Vec<u8> = (0..random.below(40)).map(|_| random.next() as u8).collect();
        check(&text);
        let _ = Reader::new(&text, DEPTH).skip();
    }
}

/// D1: the bound on depth is exact.
#[test]
fn depth_is_bounded_exactly() {
    for depth in [0, 1, 2, 5, 1_000] {
        for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("[{\"a\":", "}]")] {
            let levels = open.matches(['[', '{']).count();
            let nested = |n: usize| format!("{}1{}", open.repeat(n), close.repeat(n));
            let fits = nested(depth / levels);
            assert!(json::parse(fits.as_bytes(), depth).is_ok(), "{depth} of {open}");
            let too_deep = nested(depth / levels + 1);
            let error = json::parse(too_deep.as_bytes(), depth).unwrap_err();
            assert_eq!(error.reason, "nested too deeply", "{depth} of {open}");
        }
        // Closed brackets no longer count.
        let flat = format!("[{}]", vec!["[]"; 50].join(","));
        assert_eq!(json::parse(flat.as_bytes(), depth).is_ok(), depth >= 2, "{depth}");
    }
    let unclosed = vec![b'['; 100_000];
    assert_eq!(json::parse(&unclosed, 1_000).unwrap_err().offset, 1_000);
}

/// Reals have an exponent where `ovsdb-server` writes one, with a sign and at least two digits.
#[test]
fn reals_are_written_as_c_writes_them() {
    for (real, expected) in [
        (1e37, "1e+37"),
        (-2.5e-300, "-2.5e-300"),
        (1e-5, "1e-05"),
        (1e-4, "0.0001"),
        (1e15, "1e+15"),
        (123_456_789_012_345.0, "123456789012345"),
        (0.5, "0.5"),
        (0.0, "0"),
    ] {
        let mut text = Vec::new();
        json::write_real(real, &mut text);
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }
}
