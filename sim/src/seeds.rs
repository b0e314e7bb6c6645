//! The command lines of the simulators.

use std::process::ExitCode;

/// Which seeds to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seeds {
    /// One, with its whole history.
    One(u64),
    /// From the first to before the second.
    Many {
        /// The first.
        from: u64,
        /// The one after the last.
        to: u64,
        /// Whether failures are counted; otherwise the first one ends the run.
        keep_going: bool,
    },
}

/// The seeds that the command line of `program` asks for.
///
/// # Errors
///
/// The exit code, after the usage was printed, if the command line is invalid.
pub fn asked(program: &str) -> Result<Seeds, ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    parse(&words).ok_or_else(|| {
        eprintln!("usage: {program} --seed N | --seeds A..B [--keep-going]");
        ExitCode::from(2)
    })
}

fn parse(words: &[&str]) -> Option<Seeds> {
    let (range, keep_going) = match words {
        ["--seed", seed] => return seed.parse().ok().map(Seeds::One),
        ["--seeds", range] => (range, false),
        ["--seeds", range, "--keep-going"] => (range, true),
        _ => return None,
    };
    let (from, to) = range.split_once("..")?;
    Some(Seeds::Many { from: from.parse().ok()?, to: to.parse().ok()?, keep_going })
}

#[cfg(test)]
mod tests {
    use super::{Seeds, parse};

    #[test]
    fn seeds_are_read() {
        assert_eq!(parse(&["--seed", "7"]), Some(Seeds::One(7)));
        let many = |keep_going| Some(Seeds::Many { from: 1, to: 9, keep_going });
        assert_eq!(parse(&["--seeds", "1..9"]), many(false));
        assert_eq!(parse(&["--seeds", "1..9", "--keep-going"]), many(true));
        for wrong in [&["--seed", "x"][..], &["--seeds", "1-9"], &["--seed"], &[]] {
            assert_eq!(parse(wrong), None, "{wrong:?}");
        }
    }
}
