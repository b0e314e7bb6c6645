//! Server against client, the example of RFC 7677, and messages that were changed on the way.

mod verifiers;

use super::{
    Client, ClientError, ClientKey, ITERATIONS, ITERATIONS_MAX, Login, MESSAGE_BYTES_MAX,
    Mechanism, NONCE_BYTES, PASSWORD_BYTES_MAX, Reply, SALT_BYTES, SALT_BYTES_MAX, Server,
    ServerError, Verifier,
};
use paceline_types::UuidSource;

const NONCES: [[u8; NONCE_BYTES]; 2] = [[1; NONCE_BYTES], [2; NONCE_BYTES]];
const HASH: &[u8] = &[0xaa; 32];

/// A login: what both sides have.
struct Sides {
    login: Login,
    verifier: Verifier,
    client_hash: Option<&'static [u8]>,
    server_hash: Option<&'static [u8]>,
}

#[derive(Debug, PartialEq)]
enum Failure {
    Client(ClientError),
    Server(ServerError),
}

/// A password on both sides, with few iterations, so that many logins take little time.
fn both(client: &str, server: &str, hash: Option<&'static [u8]>) -> Sides {
    Sides {
        login: Login::Password(client.into()),
        verifier: Verifier::new(server.as_bytes(), &[7; SALT_BYTES], 2).unwrap(),
        client_hash: hash,
        server_hash: hash,
    }
}

impl Sides {
    fn sides(&self) -> (Client, Server) {
        let offered = Mechanism::offered(self.server_hash.is_some());
        let client = Client::new(self.login.clone(), offered, self.client_hash, NONCES[0]).unwrap();
        let (verifier, hash) = (self.verifier.clone(), self.server_hash);
        let server = Server::new(verifier, client.mechanism(), hash, NONCES[1]).unwrap();
        (client, server)
    }

    /// Plays the exchange; `change` may change each of the four messages on its way.
    fn play(&self, change: impl Fn(usize, &mut Vec<u8>)) -> Result<ClientKey, Failure> {
        let (mut client, mut server) = self.sides();
        let pass = |at, mut message| {
            change(at, &mut message);
            message
        };
        let first = pass(0, client.first());
        let reply = server.receive(&first).map_err(Failure::Server)?;
        let Reply::Continue(server_first) = reply else { panic!("success without a proof") };
        let last = client.answer(&pass(1, server_first)).map_err(Failure::Client)?;
        let reply = server.receive(&pass(2, last)).map_err(Failure::Server)?;
        let Reply::Success { message, client_key } = reply else { panic!("a third round") };
        assert!(!client.is_done());
        client.finish(&pass(3, message)).map_err(Failure::Client)?;
        assert!(client.is_done());
        Ok(client_key)
    }

    fn check(&self, expected: Option<Failure>) {
        assert_eq!(self.play(|_, _| ()).err(), expected);
    }

    /// The four messages.
    fn messages(&self) -> Vec<Vec<u8>> {
        let seen = std::cell::RefCell::new(vec![]);
        self.play(|_, message| seen.borrow_mut().push(message.clone())).unwrap();
        seen.into_inner()
    }
}

#[test]
fn the_example_of_rfc_7677_is_played_by_both_sides() {
    let client_first = "n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
    let server_first = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                        s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
    let client_final = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                        p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
    let server_final = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";
    let salt = super::message::decode(b"W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
    let verifier = Verifier::new(b"pencil", &salt, ITERATIONS).unwrap();
    let login = Login::Password(b"pencil".into());
    let mut client = Client::new(login, &[Mechanism::Plain], None, NONCES[0])
        .unwrap()
        .with_first("user", "rOprNGfwEbeRWgbNEkqO");
    let mut server = Server::new(verifier, Mechanism::Plain, None, NONCES[1])
        .unwrap()
        .with_nonce("%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    assert_eq!(text(client.first()), client_first);
    let reply = server.receive(client_first.as_bytes()).unwrap();
    assert!(matches!(reply, Reply::Continue(message) if text(message.clone()) == server_first));
    assert_eq!(text(client.answer(server_first.as_bytes()).unwrap()), client_final);
    let reply = server.receive(client_final.as_bytes()).unwrap();
    assert!(
        matches!(reply, Reply::Success { message, .. } if text(message.clone()) == server_final)
    );
    client.finish(server_final.as_bytes()).unwrap();
}

#[test]
fn a_client_with_the_right_password_and_no_other_logs_in() {
    let mut random = UuidSource::from_number(1);
    let alphabets: [&[char]; 3] = [
        &['a', 'Z', '0', ' ', ',', '=', '"', '\\', '\'', '%'],
        &['é', 'e', '\u{301}', '\u{ad}', 'Ⅸ', 'ª', '\u{a0}', '\u{200b}', 'ﬀ', 'A'],
        &['ا', 'ب', '1', '密', '\u{7}', '🙂', '\u{e000}', '\u{340}', 'ℵ', '\u{2028}'],
    ];
    for round in 0..600 {
        let alphabet = alphabets[round % 3];
        let len = random.next_u64() % 12;
        let mut next = || alphabet[(random.next_u64() % alphabet.len() as u64) as usize];
        let password: String = (0..len).map(|_| next()).collect();
        let hash = (round % 2 == 0).then_some(HASH);
        both(&password, &password, hash).check(None);
        let other = format!("{password}x");
        both(&other, &password, hash).check(Some(Failure::Server(ServerError::Proof)));
    }
}

#[test]
fn passwords_that_saslprep_makes_equal_are_equal() {
    for (one, two) in [("I\u{ad}X", "IX"), ("Ⅸ", "IX"), ("e\u{301}", "é"), ("a\u{a0}b", "a b")] {
        both(one, two, None).check(None);
        both(two, one, None).check(None);
    }
    // The last one is forbidden, so its bytes count.
    for (one, two) in [("ix", "IX"), ("é", "e"), ("\u{7}e\u{301}", "\u{7}é")] {
        both(one, two, None).check(Some(Failure::Server(ServerError::Proof)));
    }
}

#[test]
fn any_byte_that_is_changed_or_missing_in_any_message_fails_the_login() {
    for hash in [None, Some(HASH)] {
        let login = both("pencil", "pencil", hash);
        for (at, original) in login.messages().iter().enumerate() {
            for byte in 0..original.len() {
                for mask in [0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0x17, 0xff] {
                    let flipped = login.play(|now, message| {
                        if now == at {
                            message[byte] ^= mask;
                        }
                    });
                    assert!(flipped.is_err(), "message {at}, byte {byte}, mask {mask}");
                }
                let cut = login.play(|now, message| {
                    if now == at {
                        message.truncate(byte);
                    }
                });
                assert!(cut.is_err(), "message {at}, cut at {byte}");
                let dropped = login.play(|now, message| {
                    if now == at {
                        message.remove(byte);
                    }
                });
                assert!(dropped.is_err(), "message {at}, byte {byte} dropped");
            }
            for extra in [&b","[..], b"x", b"=", b",x=1", b"\0", b",p="] {
                let longer = login.play(|now, message| {
                    if now == at {
                        message.extend_from_slice(extra);
                    }
                });
                assert!(longer.is_err(), "message {at}, with {extra:?}");
            }
        }
    }
}

#[test]
fn random_bytes_are_refused_without_a_panic() {
    let mut random = UuidSource::from_number(2);
    let login = both("pencil", "pencil", None);
    let letters = b"nyp=,racsivem01/+A\0\xff";
    for _ in 0..20_000 {
        let at = (random.next_u64() % 4) as usize;
        let len = random.next_u64() % 40;
        let mut next = || letters[(random.next_u64() % letters.len() as u64) as usize];
        let bytes: Vec<u8> = (0..len).map(|_| next()).collect();
        let played = login.play(|now, message| {
            if now == at {
                message.clone_from(&bytes);
            }
        });
        assert!(played.is_err(), "message {at}: {bytes:?}");
    }
}

#[test]
fn an_unknown_user_gets_the_same_messages_and_error_as_a_wrong_password() {
    let real = Verifier::new(b"pencil", &[7; SALT_BYTES], ITERATIONS).unwrap();
    let mock = Verifier::mock(b"secret", b"nobody");
    let outcomes = [real, mock].map(|verifier| {
        let login = Sides { verifier, ..both("wrong", "", None) };
        let seen = std::cell::RefCell::new(vec![]);
        let failure = login.play(|_, message| seen.borrow_mut().push(message.clone()));
        let shapes: Vec<String> = seen.into_inner().iter().map(|message| shape(message)).collect();
        (shapes, failure.err())
    });
    assert_eq!(outcomes[0], outcomes[1]);
    assert_eq!(outcomes[0].1, Some(Failure::Server(ServerError::Proof)));
}

/// A message with `x` in place of the salt and the proof.
fn shape(message: &[u8]) -> String {
    let text = String::from_utf8(message.to_vec()).unwrap();
    let hide = |part: &str| match part.split_at(2) {
        (name @ ("s=" | "p="), value) => format!("{name}{}", "x".repeat(value.len())),
        _ => part.to_owned(),
    };
    text.split(',').map(|part| if part.len() < 2 { part.into() } else { hide(part) }).collect()
}

#[test]
fn no_proof_satisfies_a_mock_verifier() {
    let real = both("pencil", "pencil", None);
    let verifier = Verifier { is_mock: true, ..real.verifier.clone() };
    Sides { verifier, ..real }.check(Some(Failure::Server(ServerError::Proof)));
}

#[test]
fn a_client_key_logs_in_where_the_verifier_is_the_same() {
    let client_key = both("pencil", "pencil", None).play(|_, _| ()).unwrap();
    let check = |password: &[u8], salt: u8, iterations, expected: Option<Failure>| {
        let verifier = both("pencil", "pencil", None).verifier;
        let login = Login::Key { client_key, verifier };
        let verifier = Verifier::new(password, &[salt; SALT_BYTES], iterations).unwrap();
        Sides { login, verifier, ..both("", "", Some(HASH)) }.check(expected);
    };
    check(b"pencil", 7, 2, None);
    check(b"other", 7, 2, Some(Failure::Server(ServerError::Proof)));
    check(b"pencil", 8, 2, Some(Failure::Client(ClientError::OtherVerifier)));
    check(b"pencil", 7, 3, Some(Failure::Client(ClientError::OtherVerifier)));
}

#[test]
fn a_server_that_does_not_know_the_password_is_noticed() {
    let login = both("pencil", "pencil", None);
    let verifier = Verifier { server_key: super::keys::Key([0; 32]), ..login.verifier.clone() };
    let signature = Some(Failure::Client(ClientError::Signature));
    Sides { verifier, ..both("pencil", "pencil", None) }.check(signature);
    let refused = login.play(|at, message| {
        if at == 3 {
            *message = b"e=invalid\nproof".to_vec();
        }
    });
    let reason = ClientError::Refused("invalid?proof".to_owned());
    assert_eq!(refused.err(), Some(Failure::Client(reason)));
}

#[test]
fn both_ends_of_the_channel_must_be_the_same() {
    let check = |client, server, expected: Option<Failure>| {
        let sides = both("pencil", "pencil", None);
        Sides { client_hash: client, server_hash: server, ..sides }.check(expected);
    };
    check(None, None, None);
    check(Some(HASH), None, None);
    check(None, Some(HASH), None);
    check(Some(HASH), Some(HASH), None);
    let other: &[u8] = &[0xbb; 32];
    check(Some(other), Some(HASH), Some(Failure::Server(ServerError::Binding)));
}

#[test]
fn channel_binding_cannot_be_taken_away_or_mixed_up() {
    let check = |mechanism, hash, first: &str, expected: ServerError| {
        let verifier = both("", "", None).verifier;
        let mut server = Server::new(verifier, mechanism, hash, NONCES[1]).unwrap();
        assert_eq!(server.receive(first.as_bytes()).err(), Some(expected), "{first}");
        let over = server.receive(first.as_bytes()).err();
        assert_eq!(over, Some(ServerError::OutOfTurn), "an error ends the exchange");
    };
    let (plain, plus) = (Mechanism::Plain, Mechanism::Plus);
    check(plain, Some(HASH), "y,,n=,r=a", ServerError::Downgrade);
    check(plus, Some(HASH), "y,,n=,r=a", ServerError::Downgrade);
    check(plus, Some(HASH), "n,,n=,r=a", ServerError::WrongMechanism);
    check(plain, Some(HASH), "p=tls-server-end-point,,n=,r=a", ServerError::WrongMechanism);
    check(plain, None, "p=tls-server-end-point,,n=,r=a", ServerError::WrongMechanism);
    check(plus, Some(HASH), "p=tls-unique,,n=,r=a", ServerError::BindingType);
    let server = Server::new(both("", "", None).verifier, plus, None, NONCES[1]);
    assert_eq!(server.err(), Some(ServerError::NotOffered));
    let login = || Login::Password(vec![]);
    for (offered, hash) in [(&[][..], None), (&[][..], Some(HASH)), (&[plus][..], None)] {
        let client = Client::new(login(), offered, hash, NONCES[0]);
        assert_eq!(client.err(), Some(ClientError::NoMechanism));
    }
}

#[test]
fn first_messages_of_clients_are_read_strictly() {
    let receive = |first: &str| {
        let verifier = both("", "", None).verifier;
        let mut server = Server::new(verifier, Mechanism::Plain, None, NONCES[1]).unwrap();
        server.receive(first.as_bytes())
    };
    for good in
        ["n,,n=,r=a", "y,,n=,r=a", "n,,n=any=2Cone,r=!~", "n,,n=,r=a,x=1,y=", "n,,n=\u{e9},r=a"]
    {
        assert!(receive(good).is_ok(), "{good}");
    }
    for (wrong, expected) in [
        ("n,a=bob,n=,r=a", ServerError::AuthorizationIdentity),
        ("n,,m=x,n=,r=a", ServerError::Extension),
    ] {
        assert_eq!(receive(wrong).err(), Some(expected), "{wrong}");
    }
    for wrong in [
        "",
        "n",
        "n,",
        "n,,",
        "n,,r=a",
        "n,,n=",
        "n,,n=,r=",
        "n,,n=,r=a b",
        "n,,n=,r=\u{e9}",
        "n,,n=,r=a\0",
        "n,,n=,r=a,",
        "n,,n=,r=a,1=x",
        "n,,n=,r=a,x",
        "N,,n=,r=a",
        "nn,,n=,r=a",
        "n,x,n=,r=a",
        "y=,,n=,r=a",
        "n,,n=\0,r=a",
    ] {
        let error = receive(wrong).err();
        assert!(matches!(error, Some(ServerError::Malformed(_))), "{wrong}: {error:?}");
    }
}

#[test]
fn first_messages_of_servers_are_read_strictly() {
    let answer = |first: &str| {
        let mut client = both("pencil", "pencil", None).sides().0;
        let nonce = String::from_utf8(client.first().split_off(8)).unwrap();
        client.answer(first.replace("NONCE", &nonce).as_bytes())
    };
    assert!(answer("r=NONCEx,s=AAAA,i=1").is_ok());
    let salt_max = super::message::encode(&[1; SALT_BYTES_MAX]);
    assert!(answer(&format!("r=NONCEx,s={salt_max},i=1")).is_ok());
    assert!(answer(&format!("r=NONCEx,s=AAAA,i={ITERATIONS_MAX}")).is_ok());
    let salt_over = super::message::encode(&[1; SALT_BYTES_MAX + 1]);
    for (wrong, expected) in [
        ("r=NONCE,s=AAAA,i=1".to_owned(), ClientError::Nonce),
        ("r=other,s=AAAA,i=1".to_owned(), ClientError::Nonce),
        ("r=NONCE\u{e9},s=AAAA,i=1".to_owned(), ClientError::Nonce),
        ("r=NONCEx,s=,i=1".to_owned(), ClientError::Salt),
        ("r=NONCEx,s=AAA,i=1".to_owned(), ClientError::Salt),
        (format!("r=NONCEx,s={salt_over},i=1"), ClientError::Salt),
        ("r=NONCEx,s=AAAA,i=0".to_owned(), ClientError::Iterations),
        ("r=NONCEx,s=AAAA,i=-1".to_owned(), ClientError::Iterations),
        ("r=NONCEx,s=AAAA,i=99999999999999".to_owned(), ClientError::Iterations),
        (format!("r=NONCEx,s=AAAA,i={}", ITERATIONS_MAX + 1), ClientError::Iterations),
        ("m=x,r=NONCEx,s=AAAA,i=1".to_owned(), ClientError::Extension),
    ] {
        assert_eq!(answer(&wrong).err(), Some(expected), "{wrong}");
    }
    for wrong in
        ["", "r=NONCEx", "r=NONCEx,s=AAAA", "r=NONCEx,i=1,s=AAAA", "r=NONCEx,s=AAAA,i=1,x=y"]
    {
        let error = answer(wrong).err();
        assert!(matches!(error, Some(ClientError::Malformed(_))), "{wrong}: {error:?}");
    }
}

#[test]
fn long_messages_are_refused() {
    let (client_long, server_long) = (ClientError::TooLong, ServerError::TooLong);
    for (at, expected) in [
        (0, Failure::Server(server_long)),
        (1, Failure::Client(client_long.clone())),
        (2, Failure::Server(server_long)),
        (3, Failure::Client(client_long)),
    ] {
        let grown = |len: usize| {
            both("pencil", "pencil", None).play(|now, message| {
                if now == at {
                    message.resize(len, b'x');
                }
            })
        };
        assert_eq!(grown(MESSAGE_BYTES_MAX + 1).err(), Some(expected), "message {at}");
        let longest = grown(MESSAGE_BYTES_MAX).err();
        let is_too_long = matches!(
            longest,
            Some(Failure::Client(ClientError::TooLong) | Failure::Server(ServerError::TooLong))
        );
        // The longest first message makes the answer too long.
        assert_eq!(is_too_long, at == 0, "message {at}: {longest:?}");
    }
    let password = Login::Password(vec![b'x'; PASSWORD_BYTES_MAX + 1]);
    let client = Client::new(password, &[Mechanism::Plain], None, NONCES[0]);
    assert_eq!(client.err(), Some(ClientError::PasswordTooLong));
}

#[test]
fn messages_out_of_turn_are_refused() {
    let (mut client, mut server) = both("pencil", "pencil", None).sides();
    assert_eq!(client.finish(b"v=AAAA"), Err(ClientError::OutOfTurn));
    assert_eq!(client.answer(b"r=a,s=AAAA,i=1"), Err(ClientError::OutOfTurn), "it is over");
    let first = client.first();
    assert!(server.receive(&first).is_ok());
    assert!(matches!(server.receive(&first), Err(ServerError::Malformed(_))));
    assert_eq!(server.receive(&first).err(), Some(ServerError::OutOfTurn));
}

#[test]
fn secrets_are_not_shown() {
    let login = both("pencil", "pencil", Some(HASH));
    let (mut client, server) = login.sides();
    let client_key = login.play(|_, _| ()).unwrap();
    client.answer(&login.messages()[1]).unwrap();
    let key = Login::Key { client_key, verifier: login.verifier.clone() };
    let shown = format!("{client:?} {server:?} {client_key:?} {key:?} {:?}", login.verifier);
    let text = login.verifier.to_text();
    for secret in [&login.verifier.stored_key, &login.verifier.server_key, &client_key.0] {
        assert!(!shown.contains(&format!("{:?}", secret.0)));
        assert!(!shown.contains(&super::message::encode(&secret.0)));
    }
    assert!(!shown.contains("pencil") && !shown.contains(&format!("{:?}", b"pencil")));
    assert!(!shown.contains(&text) && shown.contains("(secret)"));
}

#[test]
fn mechanisms_have_their_names() {
    for mechanism in Mechanism::offered(true) {
        assert_eq!(Mechanism::parse(mechanism.name().as_bytes()), Some(*mechanism));
    }
    assert_eq!(Mechanism::offered(false), [Mechanism::Plain]);
    for other in ["", "SCRAM-SHA-1", "scram-sha-256", "SCRAM-SHA-256-"] {
        assert_eq!(Mechanism::parse(other.as_bytes()), None, "{other}");
    }
}
