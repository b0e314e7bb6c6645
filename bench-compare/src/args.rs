//! The command line: its options, the help text, and the checked result.
//!
//! Owns the defaults of a run and of `--quick`. It never touches a file or starts anything.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::failure::{Failure, Outcome};
use crate::pattern::Pattern;
use crate::server::Side;

/// What `--help` prints.
pub const HELP: &str = "\
bench-compare: the same load against ovsdb-server and Paceline, in one run

usage: bench-compare [options]
       bench-compare permits [options]     beside Redis and etcd; see its --help
       bench-compare http [options]        beside HAProxy and nginx; see its --help

Starts Debian's ovsdb-server and Paceline on the same schema, runs every load
on both in turn (first one, then the other, the order changing every round) and
prints a Markdown table: the median of the rounds, the spread, and the ratio,
where above 1 means Paceline is better. Progress goes to stderr, the table to
stdout, ready for docs/benchmarks.md.

options:
  --quick           about one minute instead of about six: fewer, shorter rounds
  --load PATTERN    only loads whose name matches; PATTERN knows . * ^ $ and |
                    (several: --load 'insert|lock')
  --only SIDE       one side alone: ovsdb-server or paceline
  --rounds N        measured rounds of the short loads (default 5; 2 with --quick)
  --paceline PATH   the binary (default: beside this one, or target/release/paceline)
  --ovsdb-server PATH
                    the rival (default: ovsdb-server, from PATH or /usr/sbin)
  --dir DIR         where scratch databases go (default: the temporary directory);
                    give a directory on the disk you care about
  --json            JSON with every round's reading instead of the table
  --list            name the loads and say what each does, then stop
  --help            this text

examples:
  cargo build --release && cargo run --release -p paceline-bench-compare
  bench-compare --quick --load 'insert|fanout'
  bench-compare --only ovsdb-server --load select --json

CPU is the server's own user and system time per operation. Client and server
share the machine, so on few cores it is the fairer figure of the two.
Needs ovsdb-server, ovsdb-tool and ovs-appctl (Debian: openvswitch-switch).
The exit status is 0 when every load ran, 1 when one failed, 2 for bad usage.
";

/// The options of a run.
#[derive(Debug, Clone)]
pub struct Options {
    /// The Paceline binary.
    pub paceline: PathBuf,
    /// The binary of ovsdb-server.
    pub ovsdb_server: PathBuf,
    /// The sides to measure, ovsdb-server first.
    pub sides: Vec<Side>,
    /// The loads to run; all if not given.
    pub load: Option<Pattern>,
    /// The parent of the scratch directory.
    pub dir: PathBuf,
    /// Counted rounds of a short load.
    pub rounds: usize,
    /// Counted rounds of a load that takes seconds.
    pub long_rounds: usize,
    /// Target duration of one round of a short load on the slower side.
    pub round: Duration,
    /// Print JSON instead of Markdown.
    pub json: bool,
    /// Only list the loads.
    pub list: bool,
    /// Print the help.
    pub help: bool,
    /// Whether the shortened run was requested.
    pub quick: bool,
}

impl Options {
    /// Parses the arguments after the program's name.
    pub fn parse(args: impl Iterator<Item = String>) -> Outcome<Self> {
        let mut options = Self::usual();
        let mut rounds = None;
        let mut args = args;
        while let Some(arg) = args.next() {
            let mut value =
                || args.next().ok_or_else(|| Failure::new(format!("{arg} needs a value")));
            match arg.as_str() {
                "--quick" => options.quicken(),
                "--load" => options.load = Some(Pattern::new(&value()?)),
                "--only" => options.sides = vec![Side::parse(&value()?)?],
                "--rounds" => rounds = Some(parse_rounds(&value()?)?),
                "--paceline" => options.paceline = value()?.into(),
                "--ovsdb-server" => options.ovsdb_server = value()?.into(),
                "--dir" => options.dir = value()?.into(),
                "--json" => options.json = true,
                "--list" => options.list = true,
                "--help" | "-h" => options.help = true,
                _ => return Err(Failure::new(format!("unknown option {arg}; see --help"))),
            }
        }
        if let Some(rounds) = rounds {
            options.rounds = rounds;
            options.long_rounds = rounds.min(options.long_rounds);
        }
        Ok(options)
    }

    fn usual() -> Self {
        Self {
            paceline: usual_paceline(),
            ovsdb_server: "ovsdb-server".into(),
            sides: vec![Side::OvsdbServer, Side::Paceline],
            load: None,
            dir: std::env::temp_dir(),
            rounds: 5,
            long_rounds: 3,
            round: Duration::from_millis(1000),
            json: false,
            list: false,
            help: false,
            quick: false,
        }
    }

    fn quicken(&mut self) {
        self.quick = true;
        self.rounds = 2;
        self.long_rounds = 1;
        self.round = Duration::from_millis(300);
    }
}

/// The default path of Paceline: beside this binary, where cargo puts both when both are built for release, or else
/// in the release directory of the workspace.
pub fn usual_paceline() -> PathBuf {
    let release = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("target/release");
    let this = std::env::current_exe().unwrap_or_default();
    let beside = this.with_file_name("paceline");
    if beside.exists() { beside } else { release.join("paceline") }
}

fn parse_rounds(text: &str) -> Outcome<usize> {
    match text.parse() {
        Ok(rounds @ 1..=100) => Ok(rounds),
        _ => Err(Failure::new(format!("--rounds takes 1 to 100, not {text:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str) -> Result<Options, String> {
        Options::parse(line.split_whitespace().map(String::from)).map_err(|e| e.to_string())
    }

    #[test]
    fn options_are_read() {
        let options = check("--quick --only ovsdb-server --load lock --rounds 7").unwrap();
        assert_eq!(options.sides, [Side::OvsdbServer]);
        assert_eq!((options.rounds, options.long_rounds), (7, 1));
        assert!(options.load.unwrap().matches("lock-single"));
        assert_eq!(check("").unwrap().sides.len(), 2);
    }

    #[test]
    fn bad_usage_says_what_is_wrong() {
        let cases = [
            ("--fast", "unknown option --fast; see --help"),
            ("--load", "--load needs a value"),
            ("--rounds 0", "--rounds takes 1 to 100, not \"0\""),
            ("--only etcd", "no side \"etcd\": ovsdb-server or paceline"),
        ];
        for (line, message) in cases {
            assert_eq!(check(line).err().as_deref(), Some(message), "{line}");
        }
    }
}
