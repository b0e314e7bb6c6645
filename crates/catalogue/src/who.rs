//! The API as a whole, and users and tokens, which give clients their roles.

use crate::setting::{Default, Holds, Kind, Setting, Shape, column, setting};
use paceline_types::Role;

const ROLE: Setting = setting(
    "role",
    Holds::OneOf(&["viewer", "client", "operator", "admin"]),
    Default::Required,
    "What they may do; each role may do what those before it may.",
)
.such_as("\"viewer\"")
.by_admin();

/// The settings of the API as a whole.
pub const API: Kind = Kind {
    word: "api",
    plural: "api",
    table: "Api",
    id: "",
    within: None,
    role: Role::Admin,
    doc: "The API as a whole: one table `[api]`.",
    settings: &[setting(
        "show_text",
        Holds::Flag(false),
        Default::Value("false"),
        "Whether viewers see the query strings, arguments and statements of requests, and the keys of checkpoints that are \
         made from them. Without it, they see the path, the program or the first word. Operators see everything, and clients \
         see all of their own requests.",
    )
    .by_admin()],
    figures: &[],
};

/// A verifier, for examples. Its password is `pencil`.
const VERIFIER: &str = "\"SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==\
                        $WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=\
                        :wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=\"";

/// Users.
pub const USERS: Kind = Kind {
    word: "user",
    plural: "users",
    table: "User",
    id: "name",
    within: None,
    role: Role::Admin,
    doc: "A user of this machine that may use the unix sockets, or a user of SQL clients. Root and the user who started the \
          daemon are admins without a row.",
    settings: &[
        setting(
            "name",
            Holds::Name,
            Default::Required,
            "The user's name: that in the system, or the one that SQL clients log in with.",
        )
        .by_admin(),
        Setting {
            default: Default::None("no role: the user may only send SQL and HTTP requests, which are governed"),
            ..ROLE
        }
        .kept(),
        column(
            "sql_verifier",
            "sql_password",
            Holds::Own("a SCRAM-SHA-256 verifier as PostgreSQL stores it", Shape::Secret),
            Default::None("no password: SQL clients cannot log in as this user"),
            "What the daemon keeps of the password of SQL clients: a verifier, from which the password cannot be read. It is \
             never shown; `sql_password` shows whether there is one. `paceline users set NAME --sql-password` makes it.",
        )
        .such_as(VERIFIER)
        .by_admin()
        .in_api()
        .kept()
        .unshown(),
    ],
    figures: &[],
};

/// Tokens of the API.
pub const TOKENS: Kind = Kind {
    word: "token",
    plural: "tokens",
    table: "Token",
    id: "name",
    within: None,
    role: Role::Admin,
    doc: "A token lets its bearer use the API over TCP. The daemon keeps its hash only, so it is shown once; tokens are \
          not part of the configuration file.",
    settings: &[
        setting("name", Holds::Name, Default::Required, "The name, to revoke it by.")
            .by_admin()
            .in_api(),
        ROLE.in_api(),
        setting(
            "user",
            Holds::Text,
            Default::Machine("the name of the token"),
            "The attribute `user` of requests that are made with it.",
        )
        .by_admin()
        .in_api(),
        setting(
            "expires",
            Holds::Own("a time such as `\"90d\"`, or `\"never\"`", Shape::Text),
            Default::Value("\"90d\""),
            "How long it is valid; the API shows when it expires.",
        )
        .such_as("\"30d\"")
        .by_admin()
        .in_api(),
    ],
    figures: &[],
};
