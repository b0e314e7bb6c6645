//! The SQL door: its targets.

use crate::setting::{Default, Holds, Kind, column, setting};
use crate::work::PERSISTENT;
use paceline_types::Role;

/// Why an embedded target has no effect.
const NOT_EMBEDDED: &str = "this version has no embedded databases";

/// A URL for the examples of settings that only such a target has.
const UPSTREAM: &[(&str, &str)] = &[("upstream", "\"postgresql://127.0.0.1:5432/app\"")];

/// The range of limits on connections.
const CONNECTIONS_MAX: i64 = 100_000;

/// Targets of the SQL door.
pub const SQL_TARGETS: Kind = Kind {
    word: "sql_target",
    plural: "sql-targets",
    table: "Sql_Target",
    id: "name",
    within: None,
    role: Role::Admin,
    doc: "A target is a database that SQL clients connect to: one on a PostgreSQL server, to which statements are \
          relayed (`upstream`), or an embedded SQLite database (`sqlite`). It has exactly one of the two.",
    settings: &[
        setting(
            "name",
            Holds::Word,
            Default::Required,
            "The database name that clients connect to, one word.",
        )
        .by_admin(),
        setting(
            "upstream",
            Holds::Text,
            Default::None("the target is embedded"),
            "The PostgreSQL server and its database: `postgresql://HOST[:PORT]/DATABASE`, with several hosts separated by \
             commas, `?host=/DIRECTORY` for a unix socket, and the parameters `sslmode` (`disable`, `prefer`, `require` or \
             `verify-full`), `sslrootcert` and `connect_timeout`.",
        )
        .such_as("\"postgresql://db1,db2:5433/app?sslmode=verify-full\"")
        .by_admin(),
        setting(
            "sqlite",
            Holds::Text,
            Default::None("the target is on a PostgreSQL server"),
            "The file of an embedded SQLite database, a name in the data directory; it is created if it does not exist.",
        )
        .such_as("\"notes.db\"")
        .beside(&[("upstream", "null")])
        .idle(NOT_EMBEDDED)
        .by_admin(),
        setting(
            "pooling",
            Holds::OneOf(&["transaction", "session"]),
            Default::Value("\"transaction\""),
            "How long a client keeps a server connection: for one transaction, or until it disconnects.",
        )
        .beside(UPSTREAM),
        setting(
            "connections",
            Holds::Table(&[
                column(
                    "max",
                    "connections_max",
                    Holds::Integer(1, CONNECTIONS_MAX),
                    Default::Value("20"),
                    "How many server connections are open at one time.",
                )
                .beside(UPSTREAM),
                column(
                    "min",
                    "connections_min",
                    Holds::Integer(0, CONNECTIONS_MAX),
                    Default::Value("0"),
                    "How many server connections are kept open when there is nothing to do.",
                )
                .beside(UPSTREAM),
                column(
                    "idle",
                    "connections_idle",
                    Holds::Span,
                    Default::Value("\"10m\""),
                    "How long an unused server connection is kept open.",
                )
                .beside(UPSTREAM),
                column(
                    "lifetime",
                    "connections_lifetime",
                    Holds::Span,
                    Default::Value("\"1h\""),
                    "The age at which a server connection is closed, once it is unused.",
                )
                .beside(UPSTREAM),
            ]),
            Default::None(""),
            "The server connections.",
        ),
        setting(
            "login",
            Holds::Table(&[
                column(
                    "user",
                    "login_user",
                    Holds::Text,
                    Default::None("each client logs in to the server as itself"),
                    "The user that all server connections log in as. `login = \"client\"` says that there is none.",
                )
                .such_as("\"app\"")
                .beside(UPSTREAM)
                .by_admin(),
                column(
                    "password_file",
                    "login_password_file",
                    Holds::File,
                    Default::None("no password"),
                    "The file whose first line is the password of `login.user`.",
                )
                .such_as("\"/etc/paceline/app.pw\"")
                .beside(&[
                    ("upstream", "\"postgresql://127.0.0.1:5432/app\""),
                    ("login.user", "\"app\""),
                ])
                .by_admin(),
            ]),
            Default::Value("\"client\""),
            "How server connections log in; `\"client\"` stands for no user of its own.",
        ),
        setting(
            "notice",
            Holds::Choice,
            Default::Value("true"),
            "Whether a statement that waits longer than a second sends a NOTICE that says for what it waits.",
        ),
        PERSISTENT,
    ],
    figures: &[],
};
