//! The HTTP door: its own settings, frontends, backends and servers.

use crate::setting::{
    Default, Each, Figure, Holds, Kind, Measure, Setting, Shape, column, count, setting,
};
use crate::work::PERSISTENT;
use paceline_types::Role;

/// A count without its own upper bound.
const COUNT: Holds = Holds::Integer(0, i64::MAX);

/// The range of limits on connections.
const CONNECTIONS: Holds = Holds::Integer(1, u32::MAX as i64);

/// The settings of the HTTP door as a whole.
pub const HTTP: Kind = Kind {
    word: "http",
    plural: "http",
    table: "Http",
    id: "",
    within: None,
    role: Role::Admin,
    doc: "The HTTP door as a whole: one table `[http]`.",
    settings: &[setting(
        "threads",
        Holds::Integer(1, 1_024),
        Default::Machine("the number of processors"),
        "Threads that serve requests.",
    )
    .by_admin()
    .at_start()],
    figures: &[],
};

/// Frontends.
pub const FRONTENDS: Kind = Kind {
    word: "frontend",
    plural: "frontends",
    table: "Frontend",
    id: "name",
    within: None,
    role: Role::Operator,
    doc: "A frontend accepts HTTP connections and sends each request to a backend.",
    settings: &[
        setting("name", Holds::Word, Default::Required, "The name, one word."),
        setting(
            "listen",
            Holds::Texts(Each::Listen),
            Default::Required,
            "The address to listen on, or a list of them: an IP address with a port, or `unix:PATH`.",
        ),
        setting(
            "backend",
            Holds::Own("the name of a backend", Shape::Text),
            Default::None("such requests are refused"),
            "The backend of requests that no line of `use_backend` takes.",
        )
.such_as("\"app\""),
        setting(
            "use_backend",
            Holds::Own(
                "a list of tables { when = \"...\", backend = \"...\" }",
                Shape::Objects(USE_BACKEND),
            ),
            Default::None("no lines"),
            "Conditions with backends: the first condition that holds names the backend.",
        )
.such_as("[{\"when\": \"path == \\\"/\\\"\", \"backend\": \"app\"}]"),
        column(
            "tls",
            "tls_certificate",
            Holds::Own(
                "a table { certificate = \"FILE\", key = \"FILE\" }, or a list of them",
                Shape::Objects(CERTIFICATES),
            ),
            Default::None("no TLS"),
            "The certificate and key to serve TLS with, as PEM files, or a list of them. The name that a client asks for \
             selects one; the first is for all others.",
        )
.such_as("[{\"certificate\": \"/etc/paceline/web.pem\", \"key\": \"/etc/paceline/web.key\"}]")
        .by_admin(),
        setting(
            "http2",
            Holds::Choice,
            Default::Value("true"),
            "Whether HTTP/2 is spoken besides HTTP/1.1.",
        ),
        setting(
            "proxy_protocol",
            Holds::Flag(false),
            Default::Value("false"),
            "Whether every connection begins with a header of the PROXY protocol. Only `trusted` peers may connect then.",
        )
.beside(&[("trusted", "[\"10.0.0.0/8\"]")]),
        setting(
            "trusted",
            Holds::Texts(Each::Network),
            Default::None("no peer"),
            "Peers whose PROXY header and `X-Forwarded-For` are believed: addresses or networks.",
        ),
        setting(
            "user",
            Holds::OneOf(&["basic", "bearer"]),
            Default::None("`user` is empty"),
            "Where the attribute `user` comes from: the name in `Authorization: Basic`, or the subject of a bearer \
             token. Neither is verified.",
        ),
        setting(
            "upgrades",
            Holds::Texts(Each::Protocol),
            Default::Value("[\"websocket\"]"),
            "Protocols that clients may upgrade a connection to; `[]` for none.",
        ),
        setting(
            "max_body",
            COUNT,
            Default::None("no limit"),
            "The longest body of a request, in bytes; a longer one is answered with 413.",
        ),
        setting(
            "max_connections",
            CONNECTIONS,
            Default::Value("10000"),
            "How many connections are open at one time; further ones wait to be accepted.",
        ),
        column(
            "timeouts",
            "timeout",
            Holds::Table(&[
                column(
                    "header",
                    "timeout_header",
                    Holds::Span,
                    Default::Value("\"10s\""),
                    "For the whole head of a request.",
                ),
                column(
                    "body",
                    "timeout_body",
                    Holds::Span,
                    Default::Value("\"30s\""),
                    "For the next piece of a body, in either direction.",
                ),
                column(
                    "idle",
                    "timeout_idle",
                    Holds::Span,
                    Default::Value("\"1m\""),
                    "For the next request of a connection.",
                ),
                column(
                    "queue",
                    "timeout_queue",
                    Holds::Span,
                    Default::None("no limit"),
                    "For all queues of a request together.",
                ),
                column(
                    "tunnel",
                    "timeout_tunnel",
                    Holds::Span,
                    Default::Value("\"1h\""),
                    "For the next byte after an upgrade, in either direction.",
                ),
            ]),
            Default::None(""),
            "How long the frontend waits.",
        ),
        setting(
            "errors",
            Holds::NumberedMap(400, 599),
            Default::None("short texts"),
            "Files to send as the body of the daemon's own answers, by status.",
        )
        .by_admin(),
        setting(
            "access_log",
            Holds::OneOf(&["json", "common"]),
            Default::None("no log"),
            "The format of the access log.",
        ),
        setting(
            "log_values",
            Holds::Map,
            Default::None("no values"),
            "Expressions by name, whose values are logged with each request.",
        ),
        PERSISTENT,
    ],
    figures: &[
        count("connections", "Connections that are open."),
        count("accepted", "Connections that were accepted."),
        count("requests", "Requests that arrived."),
        Figure { name: "responses", measure: Measure::Counts, doc: "Responses, by the class of their status." },
        count("left", "Requests whose client disconnected before a response."),
        count("cut", "Responses that were cut short."),
        Figure { name: "listening", measure: Measure::Texts, doc: "The addresses that it listens on." },
        Figure { name: "problem", measure: Measure::Text, doc: "What is not as the configuration says." },
    ],
};

/// A line of `use_backend`.
const USE_BACKEND: &[Setting] = &[
    setting("when", Holds::Expression, Default::Required, "The condition.")
        .such_as("\"path == \\\"/\\\"\""),
    setting("backend", Holds::SlashlessWord, Default::Required, "The backend of such requests."),
];

/// A certificate of a frontend.
const CERTIFICATES: &[Setting] = &[
    setting("certificate", Holds::File, Default::Required, "The certificate, as a PEM file."),
    setting("key", Holds::File, Default::Required, "Its private key, as a PEM file."),
];

/// Backends.
pub const BACKENDS: Kind = Kind {
    word: "backend",
    plural: "backends",
    table: "Backend",
    id: "name",
    within: None,
    role: Role::Operator,
    doc: "A backend is a set of servers that do the same work.",
    settings: &[
        setting(
            "name",
            Holds::SlashlessWord,
            Default::Required,
            "The name, one word without a slash.",
        ),
        setting(
            "balance",
            Holds::OneOf(&["round-robin", "least-connections", "power-of-two"]),
            Default::Value("\"round-robin\""),
            "How a server is chosen among those that are up and have room.",
        ),
        setting(
            "servers",
            Holds::Own(
                "a list of tables { name = \"...\", address = \"...\" }",
                Shape::Objects(SERVERS.settings),
            ),
            Default::None("no servers"),
            "Its servers; each table has the settings of a server.",
        )
        .such_as("[{\"address\": \"127.0.0.1:8081\"}]")
        .in_file(),
        column(
            "queue",
            "queue",
            Holds::Table(&[
                column(
                    "max_len",
                    "queue_max_len",
                    COUNT,
                    Default::Value("1000"),
                    "How many requests may wait for a server.",
                ),
                column(
                    "max_delay",
                    "queue_max_delay",
                    Holds::Span,
                    Default::Value("\"30s\""),
                    "How long a request may wait for a server.",
                ),
            ]),
            Default::None(""),
            "The queue before servers that have `max_connections`.",
        ),
        setting(
            "retries",
            Holds::Integer(0, 100),
            Default::Value("2"),
            "How many other servers a request tries if one cannot be connected to.",
        ),
        setting(
            "health",
            Holds::Switch(&[
                column(
                    "path",
                    "health_path",
                    Holds::Text,
                    Default::None("only connects"),
                    "The path to request; any status from 200 to 399 is good.",
                )
                .such_as("\"/health\""),
                column(
                    "host",
                    "health_host",
                    Holds::Text,
                    Default::None("the server's address"),
                    "The `Host` of the health check.",
                ),
                column(
                    "interval",
                    "health_interval",
                    Holds::Span,
                    Default::Value("\"2s\""),
                    "The time between two checks.",
                ),
                column(
                    "timeout",
                    "health_timeout",
                    Holds::Span,
                    Default::Value("\"2s\""),
                    "For the answer to a check.",
                ),
                column(
                    "rise",
                    "health_rise",
                    Holds::Integer(1, 1_000),
                    Default::Value("2"),
                    "Good checks in a row that bring a server up.",
                ),
                column(
                    "fall",
                    "health_fall",
                    Holds::Integer(1, 1_000),
                    Default::Value("3"),
                    "Failed checks in a row that take a server down.",
                ),
            ]),
            Default::None("no health checks"),
            "How servers are checked; `true` only connects.",
        ),
        column(
            "timeouts",
            "timeout",
            Holds::Table(&[
                column(
                    "connect",
                    "timeout_connect",
                    Holds::Span,
                    Default::Value("\"5s\""),
                    "For a connection, its TLS handshake included.",
                ),
                column(
                    "response",
                    "timeout_response",
                    Holds::Span,
                    Default::Value("\"1m\""),
                    "For the head of a response.",
                ),
                column(
                    "idle",
                    "timeout_idle",
                    Holds::Span,
                    Default::Value("\"30s\""),
                    "How long an unused connection is kept.",
                ),
            ]),
            Default::None(""),
            "How long the daemon waits for servers.",
        ),
        setting(
            "tls",
            Holds::Switch(&[
                column(
                    "ca",
                    "tls_ca",
                    Holds::File,
                    Default::None("the system's authorities"),
                    "A file of certificates that are believed instead of the system's.",
                )
                .by_admin(),
                column(
                    "name",
                    "tls_name",
                    Holds::Text,
                    Default::None("the host of each server's address"),
                    "The name to ask for (SNI) and to verify.",
                ),
                column(
                    "verify",
                    "tls_verify",
                    Holds::Choice,
                    Default::Value("true"),
                    "Whether the server's certificate is verified.",
                )
                .by_admin(),
                column(
                    "certificate",
                    "tls_certificate",
                    Holds::File,
                    Default::None("no certificate"),
                    "The certificate to show to servers that ask for one.",
                )
                .beside(&[("tls.key", "\"/etc/paceline/app.key\"")])
                .by_admin(),
                column("key", "tls_key", Holds::File, Default::None("no key"), "Its private key.")
                    .beside(&[("tls.certificate", "\"/etc/paceline/app.pem\"")])
                    .by_admin(),
            ]),
            Default::None("no TLS"),
            "Whether and how servers are spoken to over TLS; `true` believes the system's authorities.",
        ),
        PERSISTENT,
    ],
    figures: &[
        count("queued", "Requests that wait for a server."),
        count(
            "refused",
            "Requests that were refused because the queue was full or the wait too long.",
        ),
    ],
};

/// Servers.
pub const SERVERS: Kind = Kind {
    word: "server",
    plural: "servers",
    table: "Server",
    id: "name",
    within: Some("backend"),
    role: Role::Operator,
    doc: "A server of a backend. In the file, servers are the list `servers` of their backend.",
    settings: &[
        setting(
            "name",
            Holds::Word,
            Default::Machine("its address"),
            "The name within the backend, one word.",
        ),
        setting(
            "address",
            Holds::Address,
            Default::Required,
            "Where it listens: `HOST:PORT`, an IP address with a port, or `unix:PATH`.",
        ),
        setting(
            "weight",
            Holds::Integer(0, 256),
            Default::Value("1"),
            "Its share of the requests; a server of weight 0 gets no new ones.",
        ),
        setting(
            "max_connections",
            CONNECTIONS,
            Default::None("no limit"),
            "How many requests it has at one time; further ones wait.",
        ),
        PERSISTENT,
    ],
    figures: &[
        Figure { name: "up", measure: Measure::Flag, doc: "Whether it is up." },
        count("inflight", "Requests that it has."),
    ],
};
