//! The form of a password that is hashed: SASLprep (RFC 4013) as PostgreSQL does it.
//!
//! PostgreSQL hashes the raw bytes of a password that SASLprep does not allow. It looks for forbidden characters before
//! it normalizes, not after it as the RFC says. Both decide who can log in, so both are repeated here.

use std::borrow::Cow;
use stringprep::tables;

/// The bytes to be hashed.
pub(super) fn prepared(password: &[u8]) -> Cow<'_, [u8]> {
    let text = std::str::from_utf8(password).ok().filter(|text| !text.is_ascii());
    match text.and_then(saslprep) {
        Some(text) => Cow::Owned(text.into_bytes()),
        None => Cow::Borrowed(password),
    }
}

/// The prepared text, if it is allowed.
fn saslprep(text: &str) -> Option<String> {
    // The zero width space is in both tables, and PostgreSQL makes a space of it.
    let as_space = |c| if tables::non_ascii_space_character(c) { ' ' } else { c };
    let mapped = text.chars().map(as_space).filter(|&c| !tables::commonly_mapped_to_nothing(c));
    // This profile alone has no rule about the result of normalization that the text could break. It forbids a
    // combining character at the start, but no character combines with a space.
    let mapped: String = std::iter::once(' ').chain(mapped).collect();
    mapped.get(1..).filter(|inner| is_allowed(inner))?;
    let normalized = stringprep::x520prep(&mapped, false).ok()?;
    normalized.get(1..).map(str::to_owned)
}

fn is_allowed(mapped: &str) -> bool {
    !mapped.is_empty() && !mapped.contains(is_forbidden) && is_one_direction(mapped)
}

/// RFC 4013 2.3 and 2.5.
fn is_forbidden(c: char) -> bool {
    tables::non_ascii_space_character(c)
        || tables::ascii_control_character(c)
        || tables::non_ascii_control_character(c)
        || tables::private_use(c)
        || tables::non_character_code_point(c)
        || tables::inappropriate_for_plain_text(c)
        || tables::inappropriate_for_canonical_representation(c)
        || tables::change_display_properties_or_deprecated(c)
        || tables::tagging_character(c)
        || tables::unassigned_code_point(c)
}

/// RFC 3454 6: a text with a letter that is written from right to left begins and ends with one, and has none that is
/// written from left to right.
fn is_one_direction(text: &str) -> bool {
    if !text.contains(tables::bidi_r_or_al) {
        return true;
    }
    let ends = [text.chars().next(), text.chars().next_back()];
    !text.contains(tables::bidi_l) && ends.into_iter().flatten().all(tables::bidi_r_or_al)
}
