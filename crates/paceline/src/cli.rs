//! The command line, one definition for the parser and for `--help`.
#![allow(rustdoc::broken_intra_doc_links, reason = "the comments here are help texts")]

use crate::command;
use clap::{Args, Parser, Subcommand, ValueEnum};
use paceline_journal::disk::Faults;
use paceline_ovsdb::Remote;
use paceline_types::Role;
use std::path::PathBuf;
use std::time::Duration;

/// Decides which work runs now, which waits, and which is refused.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100, propagate_version = true)]
pub struct Arguments {
    /// How much to log to stderr
    #[arg(long, global = true, default_value = "info", env = "PACELINE_LOG", value_name = "LEVEL", help_heading = command::COMMON)]
    pub log: Level,

    #[command(flatten)]
    pub reach: command::Reach,

    #[command(subcommand)]
    pub command: Command,
}

/// How much is logged.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Level {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl Level {
    /// The level in the types of the log.
    pub fn filter(self) -> tracing::Level {
        match self {
            Self::Error => tracing::Level::ERROR,
            Self::Warn => tracing::Level::WARN,
            Self::Info => tracing::Level::INFO,
            Self::Debug => tracing::Level::DEBUG,
            Self::Trace => tracing::Level::TRACE,
        }
    }
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show a live demo: a daemon with made-up users
    #[command(after_help = crate::demo::HELP)]
    Demo(crate::demo::Demo),
    /// Run the daemon
    #[command(after_help = SERVE_HELP)]
    Serve(Box<Serve>),
    /// Check configuration files without a daemon
    #[command(after_help = CHECK_HELP)]
    Check {
        /// The TOML files, checked together as one configuration; for a directory, all its *.toml files
        #[arg(required = true, value_name = "FILE|DIR")]
        files: Vec<PathBuf>,

        /// Fail on warnings too
        #[arg(long)]
        strict: bool,
    },
    /// Apply a configuration file to a running daemon
    #[command(after_help = command::apply::HELP)]
    Apply(command::apply::Apply),
    /// Write the configuration of a running daemon to a file
    #[command(after_help = command::export::HELP)]
    Export(command::export::Export),
    /// Hold a permit while a command runs
    #[command(after_help = command::permit::HELP)]
    Permit(Box<command::permit::Permit>),
    /// Own a lock while a command runs
    #[command(after_help = command::lock::HELP)]
    Lock(Box<command::lock::Lock>),
    /// Show why a request waits, behind which requests, and for how long
    #[command(after_help = command::why::HELP)]
    Why(command::why::Why),
    /// Show what would happen to a request, without asking for it
    #[command(after_help = command::explain::HELP)]
    Explain(Box<command::explain::Explain>),
    /// Remove a waiting request from its queue
    #[command(after_help = command::cancel::HELP)]
    Cancel(command::cancel::Cancel),
    /// List running and waiting requests
    #[command(after_help = command::ps::HELP)]
    Ps(command::ps::Ps),
    /// Draw the tree of resources, with holders and waiters
    #[command(after_help = command::tree::HELP)]
    Tree(command::tree::Tree),
    /// List, create, change, start and stop pools
    #[command(after_help = command::pools::HELP)]
    Pools(Box<command::pools::Pools>),
    /// List, add, change, delete, clear and save rules
    #[command(after_help = command::rules::HELP)]
    Rules(Box<command::rules::Rules>),
    /// List, create, change and delete checkpoints
    #[command(after_help = command::checkpoints::HELP)]
    Checkpoints(Box<command::checkpoints::Checkpoints>),
    /// Show and change the settings of the API
    #[command(after_help = command::single::API_HELP)]
    Api(command::single::Single<crate::settings::Api>),
    /// Show and change the settings of the HTTP door as a whole
    #[command(after_help = command::single::HTTP_HELP)]
    Http(command::single::Single<crate::settings::Http>),
    /// List, create, change and delete frontends
    #[command(after_help = command::frontends::HELP)]
    Frontends(command::frontends::Frontends),
    /// List, create, change and delete backends
    #[command(after_help = command::backends::HELP)]
    Backends(command::backends::Backends),
    /// List, create, change and delete servers, and set their weights
    #[command(after_help = command::servers::HELP)]
    Servers(command::servers::Servers),
    /// List, create, change and delete the databases that SQL clients connect to
    #[command(after_help = command::sql_targets::HELP)]
    SqlTargets(command::sql_targets::SqlTargets),
    /// List, create, change and delete resources
    #[command(after_help = command::resources::HELP)]
    Resources(command::resources::Resources),
    /// List locks with their owners and waiters
    #[command(after_help = command::locks::HELP)]
    Locks(command::locks::Locks),
    /// List users with their roles, and grant and revoke roles
    #[command(after_help = command::users::HELP)]
    Users(command::users::Users),
    /// List, create and revoke tokens for clients over TCP
    #[command(after_help = command::token::HELP)]
    Token(command::token::Token),
    /// Print events as they happen
    #[command(after_help = command::events::HELP)]
    Events(command::events::Events),
    /// Copy the daemon's database to a file while it serves
    #[command(after_help = command::backup::HELP)]
    Backup(command::backup::Backup),
    /// Restore a backup into the data directory of a stopped daemon
    #[command(after_help = command::restore::HELP)]
    Restore(command::restore::Restore),
    /// Show the state of the daemon on one screen
    #[command(after_help = command::status::HELP)]
    Status(command::status::Status),
    /// Show your user name and role, as the daemon sees them
    #[command(after_help = command::whoami::HELP)]
    Whoami(command::whoami::Whoami),
    /// Check the installation, and report problems with their remedies
    #[command(after_help = command::doctor::HELP)]
    Doctor(command::doctor::Doctor),
    /// Work on database files: create, compact, repair, show the log
    Ovsdb {
        #[command(subcommand)]
        command: OvsdbCommand,
    },
    /// Print a completion script for a shell
    #[command(after_help = command::completions::HELP)]
    Completions(command::completions::Completions),
    /// Print the manual page
    #[command(after_help = command::man::HELP)]
    Man(command::man::Man),
}

const CHECK_HELP: &str = "\
Errors are printed as FILE:LINE:COLUMN: message, one per line, with a hint; the exit code is then 1. A warning \
(FILE:LINE:COLUMN: warning: message) names a setting that works but is probably a mistake, and its consequence; with \
--strict, the exit code is 1 for warnings too. Without errors, standard output has one line: ok: N objects. With --json, it \
has one document for errors, warnings and success. examples/paceline.toml, examples/http.toml and examples/sql.toml show everything that a file can contain. Relative names \
of files, such as certificates, are resolved in the directory of the configuration file; a file that cannot be \
read is a warning.

Example:
  paceline check paceline.toml && paceline serve --config paceline.toml";

const SERVE_HELP: &str = "\
Signals:
  SIGTERM, SIGINT           drain and exit
  SIGHUP                    reopen the logs, and apply what changed in the files of --config
  SIGUSR1                   compact the journals now; they are also compacted as they grow

Examples:
  paceline serve
      OVSDB and the HTTP API on unix sockets in the data directory, the API also on
      127.0.0.1:7070; try: curl --unix-socket DIR/api.sock http://paceline/healthz
  paceline serve --database conf.db --ovsdb punix:/tmp/db.sock
      conf.db as well; try: ovsdb-client dump unix:/tmp/db.sock
  paceline serve --ovsdb ptcp:6640:127.0.0.1
      on TCP, for this machine only

When it is ready, it prints one line that names its doors.";

#[derive(Debug, Args)]
pub struct Serve {
    /// Directory for the daemon's own database and sockets, created if missing
    /// [default: /var/lib/paceline for root, else ~/.local/state/paceline]
    #[arg(long, env = "PACELINE_DATA", value_name = "DIR")]
    pub data: Option<PathBuf>,

    /// TOML files to apply at start and on SIGHUP, together as one configuration; for a directory, all its
    /// *.toml files in the order of their names; may be repeated. Errors are printed as FILE:LINE:COLUMN: message.
    /// The first start with a file that has errors fails; later starts serve what was applied before, and log an error
    #[arg(long, value_name = "FILE|DIR", num_args = 1.., conflicts_with = "read_only")]
    pub config: Vec<PathBuf>,

    /// At start and on SIGHUP, make everything as the files of --config say, also what was edited otherwise since
    /// they were last applied
    #[arg(long, requires = "config")]
    pub reset: bool,

    /// At start and on SIGHUP, take over objects that the files of --config name and that belong to other files
    #[arg(long, requires = "config")]
    pub take_over: bool,

    /// Where OVSDB clients connect: punix:PATH, ptcp:PORT[:IP], pssl:PORT[:IP], or none; may be
    /// repeated [default: punix:DIR/ovsdb.sock]
    #[arg(long, value_name = "REMOTE", num_args = 1.., value_parser = parse_door)]
    pub ovsdb: Vec<RemoteOrNone>,

    /// OVSDB database files to serve besides the daemon's own; may be repeated
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub database: Vec<PathBuf>,

    /// List the daemon's own database, Paceline, beside those of --database. Without this option, it is
    /// listed only if no other database is served; clients can use its name in any case
    #[arg(long)]
    pub list_own: bool,

    /// Sync every transaction to disk before it is answered, not only those that ask for it with
    /// {"op": "commit", "durable": true}
    #[arg(long)]
    pub durable: bool,

    /// Serve the databases as they are now, without accepting changes or locks; changes that another server
    /// makes to the files are not shown
    #[arg(long)]
    pub read_only: bool,

    /// Where the HTTP API listens on TCP, such as 127.0.0.1:7070; the first token is in the file token
    /// of the data directory. none closes TCP only; the unix socket DIR/api.sock is always open
    // A text, because it has the name of an option that every command has, and options before the command
    // belong to this one.
    #[arg(long, value_name = "ADDR|none", default_value = "127.0.0.1:7070", value_parser = api_address)]
    pub api: String,

    /// How long waiting requests may continue after SIGTERM, while new ones are refused; then they are refused as
    /// well, and the log has their number. A second signal exits immediately
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = crate::command::duration)]
    pub drain_max: Duration,

    /// Address where SQL clients log in with a password, or none. The default is 127.0.0.1:5433, if it is free; the unix
    /// socket .s.PGSQL.5433 in the data directory is always there
    #[arg(long, value_name = "ADDR|none")]
    pub sql: Option<String>,

    /// Private key for pssl: remotes, in PEM form
    #[arg(long, value_name = "FILE", requires_all = ["certificate", "ca_cert"])]
    pub private_key: Option<PathBuf>,

    /// Certificate for pssl: remotes, in PEM form
    #[arg(long, value_name = "FILE", requires_all = ["private_key", "ca_cert"])]
    pub certificate: Option<PathBuf>,

    /// Certificates of the authorities whose clients pssl: remotes accept, in PEM form
    #[arg(long, value_name = "FILE", requires_all = ["private_key", "certificate"])]
    pub ca_cert: Option<PathBuf>,

    /// Allow ptcp: remotes on addresses that other machines can reach. Any client that reaches such an address can
    /// read and change everything that --remote-role allows
    #[arg(long)]
    pub allow_unauthenticated_remote: bool,

    /// The role of clients of ptcp: and pssl: remotes: viewer, client, operator or admin
    #[arg(long, value_name = "ROLE", default_value = "operator")]
    pub remote_role: Role,

    /// Mode of the unix sockets, which decides which users can connect: 600, 660 or 666. Users other than the owner
    /// and root also need a role. If the data directory is created, it gets mode 750 for 660 and 711 for 666, so that
    /// the sockets can be reached; the files in it keep mode 600
    #[arg(long, value_name = "MODE", default_value = "600", value_parser = socket_mode)]
    pub socket_mode: u32,

    /// Seconds after which a silent network client is probed; if it does not answer within the same time, it is
    /// disconnected; 0 for never
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(..=86_400))]
    pub probe_interval: u64,

    /// Longest message accepted from an OVSDB client, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = paceline_types::limits::FRAME_BYTES_MAX as u64, value_parser = clap::value_parser!(u64).range(1024..))]
    pub frame_max: u64,

    /// Make the journals fail on purpose, for tests, e.g. sync-error=3,kill-at=57
    #[arg(long, value_name = "FAULTS", hide = true)]
    pub journal_faults: Option<Faults>,
}

#[derive(Clone, Debug)]
pub enum RemoteOrNone {
    None,
    Remote(Remote),
}

/// The mode of a socket, in octal digits; its owner can always use it.
fn socket_mode(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode & !0o666 == 0 && mode & 0o600 == 0o600 => Ok(mode),
        _ => Err("expected 600 (the owner), 660 (and the group) or 666 (everyone)".into()),
    }
}

fn api_address(text: &str) -> Result<String, String> {
    let address: Result<paceline_api::Address, _> = text.parse();
    address.map(|_| text.to_owned()).map_err(|error| error.to_string())
}

fn parse_door(text: &str) -> Result<RemoteOrNone, String> {
    if text == "none" {
        return Ok(RemoteOrNone::None);
    }
    text.parse()
        .map(RemoteOrNone::Remote)
        .map_err(|error: paceline_ovsdb::ParseRemoteError| format!("{error}, or none"))
}

#[derive(Debug, Subcommand)]
pub enum OvsdbCommand {
    /// Create a database file with the schema in SCHEMA and no rows
    Create {
        /// The file to create; it must not exist
        file: PathBuf,
        /// The schema, a JSON file
        schema: PathBuf,
    },
    /// Rewrite a database file, which no server has open, without its history
    Compact {
        /// The database file
        file: PathBuf,
        /// Write the result here instead of over FILE; it must not exist
        target: Option<PathBuf>,
    },
    /// Save the records of a damaged database file that precede the damage in a new file
    ///
    /// FILE stays as it is. If it is the daemon's own database, put TARGET in its place with `paceline restore TARGET`,
    /// so that fencing numbers still grow.
    Repair {
        /// The damaged database file, which no server has open
        file: PathBuf,
        /// The file to create; it must not exist
        target: PathBuf,
    },
    /// Print the records of a database file, which a server may have open
    ShowLog {
        /// The database file
        file: PathBuf,
        /// Show changed rows; twice: their columns too
        #[arg(short, long, action = clap::ArgAction::Count)]
        more: u8,
        /// Print each record as one line of JSON
        #[arg(long, conflicts_with = "more")]
        json: bool,
    },
}

#[cfg(test)]
mod tests {
    use super::Arguments;
    use clap::CommandFactory as _;

    #[test]
    fn no_two_arguments_share_a_name() {
        Arguments::command().debug_assert();
    }
}
