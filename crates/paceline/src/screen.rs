//! The terminal: its width, its colours, and text made safe for it.
//!
//! Promises that nothing the daemon or another user wrote can move the cursor, change colours or hide
//! text: control characters are shown, not sent.

use std::fmt;
use std::io::{self, IsTerminal as _, Write as _};
use unicode_width::UnicodeWidthChar as _;

/// Columns if the terminal does not report its width.
const WIDTH_DEFAULT: usize = 80;
/// The narrowest and the widest screen that is drawn for.
const WIDTH_MIN: usize = 20;
const WIDTH_MAX: usize = 10_000;

/// Prints a line on standard error. A write that fails cannot be reported either, and is no reason to stop.
pub fn tell(line: fmt::Arguments<'_>) {
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Writes a text to standard error as it is, without a newline.
pub fn tell_raw(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Prints a warning that is not a failure of the command: as a line for people, or as a line of JSON.
pub fn warn(as_json: bool, message: &str) {
    match as_json {
        true => tell(format_args!("{}", serde_json::json!({ "warning": message }))),
        false => tell(format_args!("paceline: {}", clean(message))),
    }
}

/// The output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Screen {
    /// Columns.
    pub width: usize,
    /// Whether colours are sent.
    pub colours: bool,
}

/// The style of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    #[default]
    Plain,
    Head,
    Good,
    Wait,
    Bad,
    Faint,
}

impl Screen {
    /// The properties of standard output.
    pub fn of_stdout() -> Self {
        let stdout = std::io::stdout();
        let wanted = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
        let width = wanted.or_else(|| {
            let size = rustix::termios::tcgetwinsize(&stdout).ok()?;
            Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
        });
        // A file or a pipe should get whole words, however wide.
        let unknown = if stdout.is_terminal() { WIDTH_DEFAULT } else { WIDTH_MAX };
        let width = width.unwrap_or(unknown).clamp(WIDTH_MIN, WIDTH_MAX);
        Self { width, colours: has_colours(stdout.is_terminal()) }
    }

    /// The properties of standard error.
    pub fn of_stderr() -> Self {
        let stderr = std::io::stderr();
        let size = rustix::termios::tcgetwinsize(&stderr).ok();
        let width = size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0);
        let width = width.unwrap_or(WIDTH_DEFAULT).clamp(WIDTH_MIN, WIDTH_MAX);
        Self { width, colours: false }
    }

    /// A text with its colour, if there are colours.
    pub fn paint(self, style: Style, text: &str) -> String {
        let code = match style {
            Style::Plain => return text.to_owned(),
            Style::Head => "1",
            Style::Good => "32",
            Style::Wait => "33",
            Style::Bad => "31",
            Style::Faint => "2",
        };
        if self.colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Lines wrapped at blanks; continuation lines are indented by `indent`.
    pub fn wrap(self, text: &str, indent: usize) -> String {
        let mut out = String::new();
        for line in text.lines() {
            let line = clean(line);
            let mut used = 0;
            for (place, word) in line.split(' ').enumerate() {
                let width = width(word);
                if place > 0 && used + 1 + width > self.width {
                    out.push('\n');
                    out.push_str(&" ".repeat(indent));
                    used = indent;
                } else if place > 0 {
                    out.push(' ');
                    used += 1;
                }
                out.push_str(word);
                used += width;
            }
            out.push('\n');
        }
        out
    }
}

/// Colours are for people: see no-color.org; scripts request them with `CLICOLOR_FORCE`.
fn has_colours(is_terminal: bool) -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if set("NO_COLOR") {
        return false;
    }
    let forced = std::env::var_os("CLICOLOR_FORCE").is_some_and(|v| !v.is_empty() && v != "0");
    forced || (is_terminal && std::env::var_os("TERM").is_none_or(|term| term != "dumb"))
}

/// A text on one line, with its control characters made visible.
pub fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        // In addition to control characters, marks that reverse the direction of writing.
        let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if c.is_control() || turns || matches!(c, '\u{2028}' | '\u{2029}') {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

/// The number of columns of a text.
pub fn width(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// The text, cut to `max` columns with an ellipsis if it is wider.
pub fn cut(text: &str, max: usize) -> String {
    if width(text) <= max {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 1;
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used > max {
            break;
        }
        out.push(c);
    }
    if max > 0 {
        out.push('…');
    }
    out
}

/// Compares the output on wide, normal and narrow screens, with and without colour, with a file of
/// `testdata/screens`; `SCREEN_UPDATE=1` writes it.
#[cfg(test)]
pub fn check_screens(name: &str, draw: impl Fn(Screen) -> String) {
    let mut actual = String::new();
    for width_max in [200, 80, 40] {
        for colours in [false, true] {
            let drawn = draw(Screen { width: width_max, colours });
            let note = if colours { ", colour" } else { "" };
            actual.push_str(&format!("--- {width_max} columns{note}\n"));
            actual.push_str(&drawn.replace('\x1b', "␛"));
            if !colours {
                assert!(!drawn.contains('\x1b'), "{drawn}");
                let fits = |line: &str| width(line) <= width_max;
                assert!(drawn.lines().all(fits), "{width_max} columns:\n{drawn}");
            }
        }
    }
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/screens");
    let path = directory.join(format!("{name}.txt"));
    if std::env::var_os("SCREEN_UPDATE").is_some() {
        std::fs::write(&path, &actual).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(expected == actual, "{}: now it is\n{actual}", path.display());
}

#[cfg(test)]
mod tests {
    use super::{Screen, clean, cut, width};

    #[test]
    fn texts_are_cut_by_columns_not_by_bytes() {
        assert_eq!(cut("select", 6), "select");
        assert_eq!(cut("select", 5), "sele…");
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("日本語", 4), "日…");
        assert_eq!(cut("abc", 1), "…");
        assert_eq!(cut("abc", 0), "");
        assert_eq!(width("日本語"), 6);
    }

    #[test]
    fn nobody_can_draw_on_the_terminal() {
        assert_eq!(clean("a\x1b[31mb\nc\u{202e}d\u{9b}"), "a\\u{1b}[31mb\\nc\\u{202e}d\\u{9b}");
        assert_eq!(clean("größe 日本"), "größe 日本");
    }

    #[test]
    fn lines_are_broken_at_blanks() {
        let screen = Screen { width: 20, colours: false };
        assert_eq!(
            screen.wrap("would wait for resource \"tank\"\nend", 2),
            "would wait for\n  resource \"tank\"\nend\n"
        );
    }
}
