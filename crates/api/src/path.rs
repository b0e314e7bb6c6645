//! Request targets: checked for length, and for escapes that are not UTF-8 or have a NUL, before a name is taken from
//! one.

use crate::respond::Problem;
use axum::http::Uri;

/// The longest target, in bytes (promise D2).
const TARGET_BYTES_MAX: usize = 8 << 10;

/// Checks that the target is not too long, and that its unescaped path is UTF-8 without a NUL.
pub(crate) fn check(uri: &Uri) -> Result<(), Problem> {
    let bytes = uri.path_and_query().map_or(0, |target| target.as_str().len());
    if bytes > TARGET_BYTES_MAX {
        return Err(Problem::target_too_long(TARGET_BYTES_MAX));
    }
    if !uri.path().contains('%') {
        return Ok(());
    }
    match String::from_utf8(plain(uri.path())) {
        Ok(path) if !path.contains('\0') => Ok(()),
        Ok(_) => Err(Problem::bad_request("the path has the character NUL")),
        Err(_) => Err(Problem::bad_request("the path is not UTF-8 where it is escaped with %")),
    }
}

/// A path with its escapes decoded; invalid escapes stay as they are.
fn plain(path: &str) -> Vec<u8> {
    let mut plain = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let digits = behind.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = digits.filter(|_| *first == b'%');
        match escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                plain.push(byte);
                rest = behind.get(2..).unwrap_or_default();
            }
            None => {
                plain.push(*first);
                rest = behind;
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn only_text_is_a_path() {
        for (path, is_text) in [
            ("/v1/pools/a", true),
            ("/v1/pools/%C3%A4b%20c", true),
            ("/v1/pools/%", true),
            ("/v1/pools/%4", true),
            ("/v1/pools/%zz", true),
            ("/v1/pools/%00", false),
            ("/v1/pools/%ff", false),
            ("/v1/pools/%C3", false),
            ("/v1/pools/%C3(", false),
        ] {
            assert_eq!(check(&path.parse().unwrap()).is_ok(), is_text, "{path}");
        }
    }
}
