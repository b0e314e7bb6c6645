//! The password of an SQL user: read from the terminal without echo, or from standard input, and turned into a verifier.
//!
//! Promises that the password stays in this process, and that the terminal echoes again afterwards, also after Ctrl-C.

use crate::failure::{FAILED, Failure, USAGE};
use paceline_postgres::scram::{ITERATIONS, PASSWORD_BYTES_MAX, SALT_BYTES, Verifier};
use rustix::rand::{GetRandomFlags, getrandom};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _};

/// What to try next.
const HINT: &str = "type the password on a terminal, or give it as one line on standard input";

/// The keys that end or change a line.
const INTERRUPT: u8 = 0x03;
const END: u8 = 0x04;
const BACKSPACE: [u8; 2] = [0x08, 0x7f];
const CLEAR: u8 = 0x15;

/// The text of the verifier of a password that the user gives.
pub fn verifier(user: &str) -> Result<String, Failure> {
    let password = match io::stdin().is_terminal() {
        true => prompted(user)?,
        false => line(&mut io::stdin().lock())?,
    };
    let mut salt = [0; SALT_BYTES];
    let random = getrandom(&mut salt[..], GetRandomFlags::empty());
    if random.is_ok_and(|count| count == SALT_BYTES) {
        return made(&password, &salt);
    }
    Err(Failure::new(FAILED, "the system gave no random numbers for the salt", "try again"))
}

/// The verifier of a password with this salt.
fn made(password: &str, salt: &[u8]) -> Result<String, Failure> {
    if password.is_empty() {
        return Err(Failure::new(USAGE, "the password is empty", HINT));
    }
    let verifier = Verifier::new(password.as_bytes(), salt, ITERATIONS);
    let wrong = |error: paceline_postgres::scram::VerifierError| {
        Failure::new(USAGE, format!("this password cannot be used: {error}"), HINT)
    };
    verifier.map(|verifier| verifier.to_text()).map_err(wrong)
}

/// The first line, without its end.
fn line(input: &mut impl io::BufRead) -> Result<String, Failure> {
    let mut text = String::new();
    // One byte more shows that it is too long.
    let read = input.take(PASSWORD_BYTES_MAX as u64 + 2).read_line(&mut text);
    read.map_err(|error| Failure::new(FAILED, format!("cannot read the password: {error}"), HINT))?;
    let text = text.strip_suffix('\n').unwrap_or(&text);
    Ok(text.strip_suffix('\r').unwrap_or(text).to_owned())
}

/// The password, typed twice.
fn prompted(user: &str) -> Result<String, Failure> {
    let first = typed(&format!("SQL password of {user}: "))?;
    if first.is_empty() {
        return Ok(first);
    }
    match first == typed("The same again: ")? {
        true => Ok(first),
        false => Err(Failure::new(USAGE, "the two passwords differ; nothing was changed", HINT)),
    }
}

/// A line typed on the terminal, which does not show it.
fn typed(prompt: &str) -> Result<String, Failure> {
    let failed =
        |error: io::Error| Failure::new(FAILED, format!("cannot read the password: {error}"), HINT);
    let _quiet = Quiet::new().map_err(failed)?;
    let mut output = io::stderr();
    write!(output, "{prompt}").and_then(|()| output.flush()).map_err(failed)?;
    let read = keys(&mut io::stdin().lock());
    let _ = writeln!(output);
    let typed = read.map_err(failed)?;
    let typed =
        typed.ok_or_else(|| Failure::new(FAILED, "interrupted; nothing was changed", HINT))?;
    String::from_utf8(typed).map_err(|_| Failure::new(USAGE, "the password is not UTF-8", HINT))
}

/// The keys of one line; `None` if the user interrupted it.
fn keys(input: &mut impl io::BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut typed = Vec::new();
    for byte in input.bytes() {
        match byte? {
            b'\n' | b'\r' | END => break,
            INTERRUPT => return Ok(None),
            CLEAR => typed.clear(),
            byte if BACKSPACE.contains(&byte) => {
                // The other bytes of a character go with its first one.
                while typed.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {}
            }
            byte if typed.len() <= PASSWORD_BYTES_MAX => typed.push(byte),
            _ => {}
        }
    }
    Ok(Some(typed))
}

/// A terminal that passes on every key and shows none, until this is dropped.
struct Quiet(Termios);

impl Quiet {
    fn new() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut modes = before.clone();
        // Without signals, Ctrl-C cannot end the process before the terminal is restored.
        modes.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
        tcsetattr(io::stdin(), OptionalActions::Flush, &modes)?;
        Ok(Self(before))
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::{keys, line, made};
    use paceline_postgres::scram::{PASSWORD_BYTES_MAX, Verifier};

    #[test]
    fn a_line_is_a_password() {
        for (text, expected) in [
            ("secret\n", "secret"),
            ("a b \r\nmore\n", "a b "),
            ("end", "end"),
            ("", ""),
            ("\n", ""),
        ] {
            assert_eq!(line(&mut text.as_bytes()).ok().unwrap(), expected, "{text:?}");
        }
    }

    #[test]
    fn keys_edit_a_line() {
        for (typed, expected) in [
            ("secret\nmore", Some("secret")),
            ("sex\u{7f}cret\r", Some("secret")),
            ("\u{8}grö\u{7f}oß\n", Some("groß")),
            ("wrong\u{15}right\u{4}", Some("right")),
            ("secret\u{3}", None),
        ] {
            let found = keys(&mut typed.as_bytes()).unwrap();
            assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{typed:?}");
        }
    }

    /// The salt and the password of RFC 7677.
    #[test]
    fn a_password_becomes_a_verifier() {
        let text = made("pencil", b"0123456789abcdef").ok().unwrap();
        assert!(text.starts_with("SCRAM-SHA-256$4096:MDEyMzQ1Njc4OWFiY2RlZg==$"), "{text}");
        assert!(Verifier::parse(&text).is_ok() && !text.contains("pencil"));
        assert!(made("", b"0123456789abcdef").is_err());
        assert!(made(&"a".repeat(PASSWORD_BYTES_MAX + 1), b"0123456789abcdef").is_err());
    }
}
