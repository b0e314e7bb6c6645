//! Which token a byte begins, and which bytes belong to words and blanks.

/// The token that a byte begins.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Blank,
    /// A letter, `_`, or any byte of a character that is not ASCII.
    Letter,
    Digit,
    Quote,
    DoubleQuote,
    Dollar,
    Open,
    Close,
    Comma,
    Semicolon,
    Dot,
    Bracket,
    Colon,
    Operator,
    Unknown,
}

static CLASS: [Class; 256] = classes();
static WORD: [bool; 256] = words();

const fn classes() -> [Class; 256] {
    let mut table = [Class::Unknown; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = match byte as u8 {
            b' ' | 9..=13 => Class::Blank,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | 0x80.. => Class::Letter,
            b'0'..=b'9' => Class::Digit,
            b'\'' => Class::Quote,
            b'"' => Class::DoubleQuote,
            b'$' => Class::Dollar,
            b'(' => Class::Open,
            b')' => Class::Close,
            b',' => Class::Comma,
            b';' => Class::Semicolon,
            b'.' => Class::Dot,
            b'[' | b']' => Class::Bracket,
            b':' => Class::Colon,
            b'~' | b'!' | b'@' | b'#' | b'^' | b'&' | b'|' | b'`' => Class::Operator,
            b'?' | b'+' | b'-' | b'*' | b'/' | b'%' | b'<' | b'>' | b'=' => Class::Operator,
            _ => Class::Unknown,
        };
        byte += 1;
    }
    table
}

const fn words() -> [bool; 256] {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = matches!(CLASS[byte], Class::Letter | Class::Digit | Class::Dollar);
        byte += 1;
    }
    table
}

/// The token that a byte begins.
pub(super) const fn class(byte: u8) -> Class {
    CLASS[byte as usize]
}

/// Whether a byte continues a word.
pub(in crate::text) const fn is_word(byte: u8) -> bool {
    WORD[byte as usize]
}

/// Whether a byte is white space.
pub(in crate::text) const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | 9..=13)
}
