//! Connections that clients keep open while edits rename frontends, swap their names and remove them: a request
//! belongs to the frontend that listens where it was accepted, whatever its current name.

use super::frames::{DATA, GOAWAY, HEADERS, Http2};
use paceline_tests::{Proxy, Upstream, Web, until};
use std::net::TcpListener;

/// Two frontends, each before a server that returns its name.
struct Two {
    public: Upstream,
    internal: Upstream,
    /// Where they listen.
    addresses: [String; 2],
}

impl Two {
    fn new() -> Self {
        // Ports that are free now. The system does not assign them again as long as it has others.
        let sockets = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        Self {
            public: Upstream::saying("public"),
            internal: Upstream::saying("internal"),
            addresses: sockets.map(|socket| socket.local_addr().unwrap().to_string()),
        }
    }

    /// The configuration in which the frontends have these names.
    fn named(&self, names: [&str; 2]) -> String {
        let backends = [("app", &self.public), ("admin", &self.internal)].map(|(name, server)| {
            format!(
                "[[backend]]\nname = \"{name}\"\nservers = [{{ name = \"a\", address = \"{}\" }}]\n",
                server.address()
            )
        });
        let [public, internal] = &self.addresses;
        let frontends = [(names[0], public, "app"), (names[1], internal, "admin")].map(
            |(name, address, backend)| {
                format!(
                    "[[frontend]]\nname = \"{name}\"\nlisten = \"{address}\"\nbackend = \"{backend}\"\n"
                )
            },
        );
        format!("{}{}", backends.concat(), frontends.concat())
    }

    /// The same with the second frontend alone.
    fn without_first(&self, name: &str) -> String {
        let text = self.named(["gone", name]);
        let (start, end) =
            (text.find("[[frontend]]").unwrap(), text.rfind("[[frontend]]").unwrap());
        format!("{}{}", &text[..start], &text[end..])
    }
}

/// A persistent connection of each protocol to the public frontend.
struct Kept {
    http1: Web,
    http2: Http2,
    stream: u32,
}

impl Kept {
    fn connect(two: &Two) -> Self {
        let address = &two.addresses[0];
        let http2 = Http2::connect(address.parse().unwrap());
        Self { http1: Web::connect(address), http2, stream: 1 }
    }

    /// Checks that the public server serves both.
    #[track_caller]
    fn are_public(&mut self, when: &str) {
        let answer = self.http1.get("/");
        assert_eq!((answer.status, answer.text()), (200, "public"), "HTTP/1 {when}");
        assert_eq!(answer.field("connection"), None, "{when} it goes on");
        self.http2.ask(self.stream, "/");
        let answer = self.http2.response(self.stream);
        assert_eq!(answer, (200, "public".to_owned()), "HTTP/2 {when}");
        self.stream += 2;
    }
}

#[test]
fn a_kept_connection_follows_a_frontend_that_is_renamed() {
    let two = Two::new();
    let proxy = Proxy::start(&two.named(["public", "internal"]));
    let mut kept = Kept::connect(&two);
    kept.are_public("at first");
    for name in ["renamed", "public"] {
        proxy.reload(&two.named([name, "internal"]));
        // Before and after the workers have learned of it.
        for _ in 0..20 {
            kept.are_public("renamed");
        }
    }
}

/// P1: connections count against `max_connections` of their frontend, whatever its current name.
#[test]
fn connections_count_at_a_frontend_that_is_renamed_p1() {
    let two = Two::new();
    let proxy = Proxy::start(&two.named(["public", "internal"]));
    let mut kept = Kept::connect(&two);
    kept.are_public("at first");
    let connections = |name: &str| {
        let frontend = proxy.daemon.api().get(&format!("/v1/frontends/{name}")).expect(200);
        frontend["figures"]["connections"].as_u64()
    };
    until(|| connections("public"), |count| *count == Some(2));
    for names in [["renamed", "internal"], ["internal", "renamed"]] {
        proxy.reload(&two.named(names));
        kept.are_public("renamed");
        until(|| names.map(connections), |counts| *counts == [Some(2), Some(0)]);
    }
}

#[test]
fn names_that_are_swapped_send_nobody_to_the_other_frontend() {
    let two = Two::new();
    let proxy = Proxy::start(&two.named(["public", "internal"]));
    let mut kept = Kept::connect(&two);
    kept.are_public("at first");
    for names in [["internal", "public"], ["public", "internal"]] {
        proxy.reload(&two.named(names));
        for _ in 0..20 {
            kept.are_public("swapped");
            assert_eq!(Web::connect(&two.addresses[0]).get("/").text(), "public");
            assert_eq!(Web::connect(&two.addresses[1]).get("/").text(), "internal");
        }
    }
    assert!(two.internal.count() > 0);
}

/// A deleted frontend serves no request, even if another one now has its name. Its clients get one error response,
/// and then the connection ends.
#[test]
fn a_kept_connection_of_a_frontend_that_is_gone_is_told_and_ends() {
    for name in ["internal", "public"] {
        let two = Two::new();
        let proxy = Proxy::start(&two.named(["public", "internal"]));
        let mut kept = Kept::connect(&two);
        kept.are_public("at first");
        proxy.reload(&two.without_first(name));
        until(|| Web::try_connect(&two.addresses[0]).is_err(), |is_closed| *is_closed);
        let Kept { mut http1, mut http2, stream } = kept;
        let answer = http1.get_with("/", "Accept: application/json\r\n");
        assert_eq!((answer.status, answer.field("connection")), (503, Some("close")));
        assert_eq!(answer.json()["error"], "no_frontend", "{}", answer.text());
        assert!(http1.is_closed());
        http2.ask(stream, "/");
        let frames: Vec<_> = std::iter::from_fn(|| http2.next()).collect();
        let head = frames.iter().find(|frame| frame.kind == HEADERS).expect("it is answered");
        assert_eq!((head.stream, head.status()), (stream, 503));
        assert!(frames.iter().any(|frame| frame.kind == DATA && frame.ends()), "{frames:?}");
        let goodbyes: Vec<_> = frames.iter().filter(|frame| frame.kind == GOAWAY).collect();
        assert!(!goodbyes.is_empty() && goodbyes.iter().all(|frame| frame.code() == 0));
        assert_eq!(two.internal.count(), 0, "nobody came to the other frontend");
        assert_eq!(Web::connect(&two.addresses[1]).get("/").text(), "internal");
    }
}
