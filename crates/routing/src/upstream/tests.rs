//! URLs that are read, URLs that are refused with their position, and random texts, which never panic.

use super::{
    SqlTls, UPSTREAM_BYTES_MAX, UPSTREAM_HOSTS_MAX, UpstreamError, UpstreamProblem, UpstreamUrl,
};
use crate::Address;
use paceline_types::Span;

fn read(text: &str) -> UpstreamUrl {
    text.parse().unwrap_or_else(|error: UpstreamError| panic!("{text}: {error}"))
}

fn hosts(url: &UpstreamUrl) -> Vec<String> {
    url.hosts.iter().map(Address::to_string).collect()
}

#[test]
fn urls_are_read() {
    for (text, wanted, database) in [
        ("postgresql://127.0.0.1:5432/app", vec!["127.0.0.1:5432"], "app"),
        ("postgres://db/app", vec!["db:5432"], "app"),
        (
            "postgresql://db1:1,db2:2,[::1],[fe80::1]:7/app",
            vec!["db1:1", "db2:2", "[::1]:5432", "[fe80::1]:7"],
            "app",
        ),
        (
            "postgresql:///app?host=/run/postgresql&port=5433",
            vec!["unix:/run/postgresql/.s.PGSQL.5433"],
            "app",
        ),
        (
            "postgresql:///app?host=/run/postgresql/",
            vec!["unix:/run/postgresql/.s.PGSQL.5432"],
            "app",
        ),
        ("postgresql:///app?port=1,2&host=a,%2Fb", vec!["a:1", "unix:/b/.s.PGSQL.2"], "app"),
        ("postgresql:///app?host=a,::1&port=9", vec!["a:9", "[::1]:9"], "app"),
        ("postgresql://%2Frun%2Fpg:6000/app", vec!["unix:/run/pg/.s.PGSQL.6000"], "app"),
        ("postgresql://db/my%20app%2F%C3%A4", vec!["db:5432"], "my app/ä"),
    ] {
        let url = read(text);
        assert_eq!(
            (hosts(&url), &*url.database),
            (wanted.into_iter().map(str::to_owned).collect(), database),
            "{text}"
        );
    }
}

#[test]
fn parameters_are_read() {
    let url = read("postgresql://db/app");
    assert_eq!((url.tls, url.ca, url.connect_timeout), (SqlTls::Prefer, None, Span::from_secs(5)));
    for mode in SqlTls::ALL {
        assert_eq!(read(&format!("postgresql://db/app?sslmode={}", mode.word())).tls, mode);
    }
    let url =
        read("postgresql://db/app?sslrootcert=/etc/ca.pem&sslmode=verify-full&connect_timeout=60");
    assert_eq!(
        (url.ca.as_deref(), url.connect_timeout),
        (Some("/etc/ca.pem"), Span::from_secs(60))
    );
}

#[test]
fn errors_say_what_and_where() {
    use UpstreamProblem as P;
    let unknown = |name: &str, near| P::Unknown(name.into(), near);
    let form = P::Host(crate::ParseAddressError::Form);
    let host = P::Host(crate::ParseAddressError::Host);
    let long = format!("postgresql://{}", "a".repeat(UPSTREAM_BYTES_MAX));
    let many = format!("postgresql://{}/app", ["a"; UPSTREAM_HOSTS_MAX + 1].join(","));
    let deep = format!("postgresql:///app?host=/{}", "a".repeat(120));
    for (text, at, problem) in [
        ("", 1, P::Scheme),
        ("mysql://db/app", 1, P::Scheme),
        ("postgresql:/db/app", 1, P::Scheme),
        ("host=db dbname=app", 8, P::Character(' ')),
        ("postgresql://dä/app", 15, P::Character('ä')),
        ("postgresql://db/app#x", 20, P::Fragment),
        ("postgresql://me@db/app", 16, P::User),
        ("postgresql://me:secret@db/app", 23, P::User),
        ("postgresql://db", 16, P::Database),
        ("postgresql://db/", 16, P::Database),
        ("postgresql://db/a%00b", 16, P::Database),
        ("postgresql://db/a/b", 18, P::Slash),
        ("postgresql://db/a%2", 18, P::Percent),
        ("postgresql://db/a%zz", 18, P::Percent),
        ("postgresql://db/%ff", 17, P::Percent),
        ("postgresql:///app", 14, P::NoHost),
        ("postgresql:///app?port=1", 14, P::NoHost),
        ("postgresql://a,,b/app", 16, P::NoHost),
        ("postgresql://a,/app", 16, P::NoHost),
        ("postgresql://:5432/app", 14, P::NoHost),
        ("postgresql://db:/app", 17, P::Port),
        ("postgresql://db:0/app", 17, P::Port),
        ("postgresql://db:65536/app", 17, P::Port),
        ("postgresql://db:+1/app", 17, P::Port),
        ("postgresql://db::1/app", 17, P::Port),
        ("postgresql://a:1,b:x/app", 20, P::Port),
        ("postgresql://::1/app", 15, P::Port),
        ("postgresql://[::1/app", 14, form.clone()),
        ("postgresql://[127.0.0.1]/app", 14, form.clone()),
        ("postgresql://[::1]x/app", 14, form),
        ("postgresql://a..b/app", 14, host.clone()),
        ("postgresql://a%3A1/app", 14, host),
        ("postgresql://db/app?host=x", 26, P::HostTwice),
        ("postgresql://db/app?port=1", 26, P::HostTwice),
        ("postgresql:///app?host=a,b&port=1,2,3", 33, P::PortCount),
        ("postgresql:///app?host=a&port=1,x", 31, P::Port),
        ("postgresql://db/app?", 21, P::Pair),
        ("postgresql://db/app?sslmode", 21, P::Pair),
        ("postgresql://db/app?sslmode=disable&", 37, P::Pair),
        ("postgresql://db/app?sslmod=require", 21, unknown("sslmod", Some("sslmode"))),
        ("postgresql://db/app?user=me", 21, unknown("user", None)),
        ("postgresql://db/app?sslmode=disable&sslmode=disable", 37, P::Twice("sslmode")),
        ("postgresql://db/app?sslmode=verify-ca", 29, P::Mode),
        ("postgresql:///app?host=/run&sslmode=require", 37, P::UnixTls),
        ("postgresql://db/app?sslrootcert=/ca", 33, P::UnusedCa),
        ("postgresql://db/app?sslmode=verify-full&sslrootcert=ca", 53, P::Ca),
        ("postgresql://db/app?connect_timeout=0", 37, P::Timeout),
        ("postgresql://db/app?connect_timeout=5s", 37, P::Timeout),
        (&long, 1, P::Length),
        (&many, 14, P::Hosts),
        (&deep, 24, P::Host(crate::ParseAddressError::Path)),
    ] {
        assert_eq!(text.parse::<UpstreamUrl>(), Err(UpstreamError { at, problem }), "{text}");
    }
    let error = "postgresql://me@db/app".parse::<UpstreamUrl>().unwrap_err();
    assert!(error.to_string().starts_with("character 16: expected hosts only"), "{error}");
}

/// The written form of a URL is read as the same URL.
#[test]
fn what_is_written_is_read_again() {
    for text in [
        "postgresql://127.0.0.1/app",
        "postgresql://127.0.0.1:6432,[::1],[::1]:7,db,db:8/app",
        "postgresql://%2Frun%2Fpostgresql:5432/app",
        "postgresql://db/a%2Fb%20%C3%A4?sslmode=verify-full&sslrootcert=%2Fetc%2Fca.pem&connect_timeout=7",
    ] {
        assert_eq!(read(text).to_string(), text);
    }
}

/// Pieces that a URL is made of, joined at random: each text is read or refused, and what is read can be written and
/// read again.
#[test]
fn random_texts_are_read_or_refused() {
    const PIECES: [&str; 34] = [
        "postgresql://",
        "postgres://",
        "db",
        "127.0.0.1",
        "[::1]",
        "::1",
        ":",
        ":5432",
        ",",
        "/",
        "app",
        "?",
        "&",
        "=",
        "host=",
        "port=",
        "sslmode=",
        "sslmode=require",
        "sslmode=verify-full",
        "sslrootcert=/ca",
        "connect_timeout=9",
        "%",
        "%2F",
        "%00",
        "%ff",
        "%C3%A4",
        "@",
        "#",
        " ",
        "ä",
        "[",
        "]",
        "/run/postgresql",
        ".",
    ];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: usize| {
        // xorshift64.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let (mut read, mut refused) = (0, 0);
    for round in 0..200_000 {
        let mut text = String::from(if round % 4 == 0 { "" } else { "postgresql://" });
        if round % 4 == 2 {
            text += ["db", "a,b:1", "[::1]:2", "%2Frun"][next(4)];
            text += "/app";
        }
        (0..next(8)).for_each(|_| text += PIECES[next(PIECES.len())]);
        match text.parse::<UpstreamUrl>() {
            Ok(url) => {
                let written = url.to_string();
                assert_eq!(written.parse::<UpstreamUrl>().as_ref(), Ok(&url), "{text} {written}");
                read += 1;
            }
            Err(error) => {
                assert!((1..=text.chars().count() + 2).contains(&error.at), "{text}: {error}");
                refused += 1;
            }
        }
    }
    assert!(read > 1_000 && refused > 1_000, "{read} read, {refused} refused");
}
