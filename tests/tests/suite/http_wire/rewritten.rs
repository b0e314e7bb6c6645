//! The corpus, second half: what is forwarded, and the exact bytes that a server gets (H2, H3, H5).
//!
//! `{F}` stands for the fields about the client that are added to every request.

/// The lines of `{F}`, without the host.
pub(super) const FORWARDED: &str =
    "X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: ";

/// What a client sends, and the requests that a server gets, each with `Host: a.example` unless stated.
pub(super) struct Passed {
    pub name: &'static str,
    pub sent: &'static str,
    pub got: &'static [&'static str],
}

const fn case(name: &'static str, sent: &'static str, got: &'static [&'static str]) -> Passed {
    Passed { name, sent, got }
}

pub(super) const PASSED: &[Passed] = &[
    case(
        "plain",
        "GET /x?y HTTP/1.1\r\nHost: a.example\r\n\r\n",
        &["GET /x?y HTTP/1.1\r\nHost: a.example\r\n{F}\r\n"],
    ),
    case(
        "fields in any case, with blanks around",
        "GET /x HTTP/1.1\r\nhOsT:a.example\r\nX-A:  b \t\r\nx-b:\tc\td\r\nX-C:\r\n\r\n",
        &["GET /x HTTP/1.1\r\nHost: a.example\r\nX-A: b\r\nx-b: c\td\r\nX-C: \r\n{F}\r\n"],
    ),
    case(
        "values that are not ASCII",
        "GET /x HTTP/1.1\r\nHost: a.example\r\nX-A: \u{e9}\r\n\r\n",
        &["GET /x HTTP/1.1\r\nHost: a.example\r\nX-A: \u{e9}\r\n{F}\r\n"],
    ),
    case(
        "one empty line before",
        "\r\nGET /x HTTP/1.1\r\nHost: a.example\r\n\r\n",
        &["GET /x HTTP/1.1\r\nHost: a.example\r\n{F}\r\n"],
    ),
    case(
        "an empty line behind a body",
        "POST /x HTTP/1.1\r\nHost: a.example\r\nContent-Length: 1\r\n\r\na\r\n\
         GET /y HTTP/1.1\r\nHost: a.example\r\n\r\n",
        &[
            "POST /x HTTP/1.1\r\nHost: a.example\r\n{F}Content-Length: 1\r\n\r\na",
            "GET /y HTTP/1.1\r\nHost: a.example\r\n{F}\r\n",
        ],
    ),
    case(
        "a body that looks like a request",
        "POST /x HTTP/1.1\r\nHost: a.example\r\nContent-Length: 35\r\n\r\n\
         GET /smuggled HTTP/1.1\r\nHost: b\r\n\r\n",
        &["POST /x HTTP/1.1\r\nHost: a.example\r\n{F}Content-Length: 35\r\n\r\n\
           GET /smuggled HTTP/1.1\r\nHost: b\r\n\r\n"],
    ),
    case(
        "GET with a body",
        "GET /x HTTP/1.1\r\nHost: a.example\r\nContent-Length: 3\r\n\r\nabc",
        &["GET /x HTTP/1.1\r\nHost: a.example\r\n{F}Content-Length: 3\r\n\r\nabc"],
    ),
    case(
        "a length with zeros before",
        "POST /x HTTP/1.1\r\nHost: a.example\r\ncontent-length: 003\r\n\r\nabc",
        &["POST /x HTTP/1.1\r\nHost: a.example\r\n{F}Content-Length: 3\r\n\r\nabc"],
    ),
    case(
        "no body, said",
        "POST /x HTTP/1.1\r\nHost: a.example\r\nContent-Length: 0\r\n\r\n",
        &["POST /x HTTP/1.1\r\nHost: a.example\r\n{F}Content-Length: 0\r\n\r\n"],
    ),
    case(
        "chunks with extensions and trailers",
        "POST /x HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: CHUNKED\r\n\r\n\
         0005;a=\"b c\";d\r\nhello\r\nA\r\n0123456789\r\n000\r\nX-T:  1 \r\n\r\n",
        &["POST /x HTTP/1.1\r\nHost: a.example\r\n{F}Transfer-Encoding: chunked\r\n\r\n\
           5\r\nhello\r\na\r\n0123456789\r\n0\r\nX-T: 1\r\n\r\n"],
    ),
    case(
        "chunks that are empty",
        "POST /x HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        &["POST /x HTTP/1.1\r\nHost: a.example\r\n{F}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"],
    ),
    case(
        "trailers that would mislead",
        "POST /x HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\
         Content-Length: 9\r\nHost: b\r\nTransfer-Encoding: gzip\r\nAuthorization: x\r\n\
         Connection: close\r\nX-Forwarded-For: 1.1.1.1\r\nX-T: 1\r\nCookie: a=b\r\n\r\n",
        &["POST /x HTTP/1.1\r\nHost: a.example\r\n{F}Transfer-Encoding: chunked\r\n\r\n\
           1\r\na\r\n0\r\nX-T: 1\r\n\r\n"],
    ),
    case(
        "pipelined, with bodies of all kinds",
        "GET /1 HTTP/1.1\r\nHost: a.example\r\n\r\n\
         POST /2 HTTP/1.1\r\nHost: a.example\r\nContent-Length: 2\r\n\r\nab\
         POST /3 HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n\
         GET /4 HTTP/1.1\r\nHost: a.example\r\n\r\n",
        &[
            "GET /1 HTTP/1.1\r\nHost: a.example\r\n{F}\r\n",
            "POST /2 HTTP/1.1\r\nHost: a.example\r\n{F}Content-Length: 2\r\n\r\nab",
            "POST /3 HTTP/1.1\r\nHost: a.example\r\n{F}Transfer-Encoding: chunked\r\n\r\n\
             2\r\nab\r\n0\r\n\r\n",
            "GET /4 HTTP/1.1\r\nHost: a.example\r\n{F}\r\n",
        ],
    ),
    case(
        "absolute form: its host counts, not the field's",
        "GET http://a.example/x HTTP/1.1\r\nHost: b.example\r\n\r\n",
        &["GET /x HTTP/1.1\r\nHost: a.example\r\n{F}\r\n"],
    ),
    case(
        "absolute form without a path",
        "GET HTTP://a.example?y HTTP/1.1\r\nHost: a.example\r\n\r\n",
        &["GET /?y HTTP/1.1\r\nHost: a.example\r\n{F}\r\n"],
    ),
    case(
        "OPTIONS of the server",
        "OPTIONS * HTTP/1.1\r\nHost: a.example\r\n\r\n",
        &["OPTIONS * HTTP/1.1\r\nHost: a.example\r\n{F}\r\n"],
    ),
    case(
        "a method in lower case is another method",
        "get /x HTTP/1.1\r\nHost: a.example\r\n\r\n",
        &["get /x HTTP/1.1\r\nHost: a.example\r\n{F}\r\n"],
    ),
    case(
        "Connection names Host",
        "GET /x HTTP/1.1\r\nHost: a.example\r\nConnection: Host\r\n\r\n",
        &["GET /x HTTP/1.1\r\nHost: a.example\r\n{F}\r\n"],
    ),
    case(
        "Connection names Content-Length",
        "POST /x HTTP/1.1\r\nHost: a.example\r\nConnection: content-length\r\n\
         Content-Length: 2\r\n\r\nab",
        &["POST /x HTTP/1.1\r\nHost: a.example\r\n{F}Content-Length: 2\r\n\r\nab"],
    ),
    case(
        "Connection names Transfer-Encoding",
        "POST /x HTTP/1.1\r\nHost: a.example\r\nConnection: transfer-encoding\r\n\
         Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
        &["POST /x HTTP/1.1\r\nHost: a.example\r\n{F}Transfer-Encoding: chunked\r\n\r\n\
           1\r\na\r\n0\r\n\r\n"],
    ),
    case(
        "Connection names X-Forwarded-For",
        "GET /x HTTP/1.1\r\nHost: a.example\r\nConnection: X-Forwarded-For, X-Forwarded-Host\r\n\
         X-Forwarded-For: 192.0.2.1\r\n\r\n",
        &["GET /x HTTP/1.1\r\nHost: a.example\r\n{F}\r\n"],
    ),
    case(
        "Connection names other fields",
        "GET /x HTTP/1.1\r\nHost: a.example\r\nX-A: 1\r\nX-B: 2\r\nConnection: x-a\r\n\
         Connection: , x-c ,\r\nX-C: 3\r\nCookie: a=b\r\n\r\n",
        &["GET /x HTTP/1.1\r\nHost: a.example\r\nX-B: 2\r\nCookie: a=b\r\n{F}\r\n"],
    ),
    case(
        "fields between neighbours",
        "GET /x HTTP/1.1\r\nHost: a.example\r\nKeep-Alive: timeout=9\r\nProxy-Connection: close\r\n\
         Proxy-Authorization: Basic eA==\r\nTE: gzip\r\nProxy-Authenticate: x\r\n\r\n",
        &["GET /x HTTP/1.1\r\nHost: a.example\r\n{F}\r\n"],
    ),
    case(
        "TE trailers",
        "GET /x HTTP/1.1\r\nHost: a.example\r\nTE: deflate, Trailers\r\nConnection: TE\r\n\r\n",
        &["GET /x HTTP/1.1\r\nHost: a.example\r\n{F}TE: trailers\r\nConnection: TE\r\n\r\n"],
    ),
    case(
        "an upgrade to HTTP/2",
        "GET /x HTTP/1.1\r\nHost: a.example\r\nUpgrade: h2c\r\n\
         Connection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
        &["GET /x HTTP/1.1\r\nHost: a.example\r\n{F}\r\n"],
    ),
    case(
        "an upgrade to HTTP/2 that hides its name",
        "GET /x HTTP/1.1\r\nHost: a.example\r\nUpgrade: websocket, h2c\r\nConnection: Upgrade\r\n\r\n",
        &["GET /x HTTP/1.1\r\nHost: a.example\r\n{F}\r\n"],
    ),
    case(
        "an upgrade that nobody allowed",
        "GET /x HTTP/1.1\r\nHost: a.example\r\nUpgrade: TLS/1.2\r\nConnection: upgrade\r\n\r\n",
        &["GET /x HTTP/1.1\r\nHost: a.example\r\n{F}\r\n"],
    ),
    case(
        "an upgrade without the option",
        "GET /x HTTP/1.1\r\nHost: a.example\r\nUpgrade: websocket\r\n\r\n",
        &["GET /x HTTP/1.1\r\nHost: a.example\r\n{F}\r\n"],
    ),
    case(
        "an upgrade that a server does not take",
        "GET /x HTTP/1.1\r\nHost: a.example\r\nUpgrade: WebSocket\r\nConnection: upgrade\r\n\r\n",
        &[
            "GET /x HTTP/1.1\r\nHost: a.example\r\n{F}Upgrade: WebSocket\r\nConnection: Upgrade\r\n\r\n",
        ],
    ),
    case(
        "what strangers say of where they come from",
        "GET /x HTTP/1.1\r\nHost: a.example\r\nX-Forwarded-For: 192.0.2.1\r\nForwarded: for=1\r\n\
         X-Forwarded-Host: b\r\nX-Forwarded-Proto: https\r\n\r\n",
        &["GET /x HTTP/1.1\r\nHost: a.example\r\n{F}\r\n"],
    ),
    case(
        "an expectation without a body",
        "GET /x HTTP/1.1\r\nHost: a.example\r\nExpect: 100-continue\r\n\r\n",
        &["GET /x HTTP/1.1\r\nHost: a.example\r\n{F}\r\n"],
    ),
    case(
        "HTTP/1.0 that stays",
        "GET /x HTTP/1.0\r\nHost: a.example\r\nConnection: keep-alive\r\n\r\n",
        &["GET /x HTTP/1.1\r\nHost: a.example\r\n{F}\r\n"],
    ),
    case(
        "a path that climbs",
        "GET /a/./b/%2e%2E/%63/d%2fe/../%7Ef|\\?%2e/../ HTTP/1.1\r\nHost: a.example\r\n\r\n",
        &["GET /a/c/~f%7C%5C?%2e/../ HTTP/1.1\r\nHost: a.example\r\n{F}\r\n"],
    ),
    case(
        "a path that climbs above the root",
        "GET /../%2e%2e/..//x/.. HTTP/1.1\r\nHost: a.example\r\n\r\n",
        &["GET // HTTP/1.1\r\nHost: a.example\r\n{F}\r\n"],
    ),
];
