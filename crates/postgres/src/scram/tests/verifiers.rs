//! Verifiers that PostgreSQL 15 made, their text form, and the limits of its parts.

use crate::scram::{
    ITERATIONS, ITERATIONS_MAX, PASSWORD_BYTES_MAX, SALT_BYTES, SALT_BYTES_MAX, Verifier,
    VerifierError,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Passwords given to `CREATE ROLE`, and the salt, `StoredKey` and `ServerKey` that PostgreSQL stored for them after
/// 4,096 iterations. Among them are all that SASLprep changes, and all that it refuses or PostgreSQL treats unlike
/// the RFC, which are hashed as they are.
const MADE_BY_POSTGRESQL: [(&str, &str, &str, &str); 26] = [
    (
        "pencil",
        "M6pF0xTXWzWuApgmlUPLfg==",
        "WhZU6zc8AfTm4rIx/go0r+zeObM1mggZX+QCoTzbkkc=",
        "CwVoyH6vegakjzzuwHtcCUI/PJEtZlYe81KX8/+G1D8=",
    ),
    (
        "p=,a",
        "ULkOnHdd0IhQ8tnxiww8nQ==",
        "h1BI1/+9X23x3UfPq97/O0YWi7NplskpA/tFiCTRkXc=",
        "SuNkmh4K2y/0mIKxi4ZvInSzs4YjD5OXfAPVeIiH21Q=",
    ),
    (
        "I\u{ad}X",
        "Umrmn4YAYbqhHbooNOLOUw==",
        "XW7V01PqNDnKSojTcKGNiwp3mXBRNjHredZ7SI24i4Y=",
        "R60XVTuw9VMIr25Nszg763eo9PqPLRWCNC1BEf2HAsk=",
    ),
    (
        "\u{2168}",
        "XvI0NtZ1FJBNVQeDOPxrHQ==",
        "BguRsR7Ho+2x+Z7XOYUQvbtK1iZxog+WZUT4J8Gdg1A=",
        "cDnPhcz6rph11oCc4VkqN5fe3WAYYB7DFPrXiVaJDGQ=",
    ),
    (
        "\u{aa}",
        "QGoDei10U5CWkxpVi1Aofw==",
        "wsFh5eNLN+X6popd5eawWrLyCX+Hv1hO7Dc7pRJUVe0=",
        "B0vJ1afxjARhCFERWvEARu4ZQSlo8FmT6Xhw2sODHws=",
    ),
    (
        "a\u{a0}b",
        "aDe1XKmi/1g5rjOQj2dFBg==",
        "+HLwpARHKf2+DRTeB2dyFeaL+/ebbnu2BkacmyYOtiM=",
        "YcvOWxAsfBEoAddr7xoOM9N0/qgcvyM16Y77/A4qBCc=",
    ),
    (
        "\u{627}1",
        "H0bjX4tzjAwKmfZNgGGy4A==",
        "Kt4qGUxkgxD+5emrCgPwNl9FfaXiu8sfTFw34u6GKwQ=",
        "rFyMaZkJDC2GosFN+5KicIW4AJHUzdoNfK0CIJvwFhE=",
    ),
    (
        "\u{627}a\u{628}",
        "QGdhbzJI9SRCEEnEnHzc3A==",
        "jLQTb8etOPkTTmYL5OR0i3kdGS9XW8A33iJ/dlBSx6U=",
        "GiAId30hLt6s8lIQPDv7PYXQUtn+HNEL0iYVKLenwoE=",
    ),
    (
        "a\u{340}",
        "v3rnQKs+c5sZ1LE1ouxGSg==",
        "HXo3maHij7t2wj9DngMK0reGOVtBmuhFTcFDd5y5/R4=",
        "4rw+DgE8v3KshnzgOLomfZMFR6PuWqmi64AhSdui8Sc=",
    ),
    (
        "\u{1f100}x",
        "uo4lKqsnpd83ArdyoNLFYA==",
        "Kg4veO++0HCztdNCifXyYD7kl5CuBiF5z46v1suKZGA=",
        "cgvFS6IfF73sAjmWKwlgMMRUbfk0oVH7wlnDGobEkLI=",
    ),
    (
        "a\u{2135}",
        "rnBZAVqHqlwqo8YQNJubvw==",
        "tTKSt4QIwBTHuUxdB7nzqk4WlTLpq33W/EQCq1Z5YM4=",
        "OxP9JyL7LILrusvevQF52UMXa/+jM3Nzbb6nuYdHSTs=",
    ),
    (
        "\u{fc5e}",
        "D1CYKgL4NN/MMJQXezQ/Qg==",
        "DZBbtQvbkQLivc4iAdje8FBohfl7XslyF9dMjTi0AKk=",
        "RjZ2Z41BaZNt3zpDnbS/joQCx8iogcTQWWGbZEk5/CY=",
    ),
    (
        "\u{ad}",
        "dsQCTN96Mnfec37U2D45oQ==",
        "TC9lWFvS7DU5QZ+CdazoEp2MofU9I/aqbKSmM+iqNMw=",
        "wMJ09XUwKWwPJQ+Uu8NB3DXE9wWbf4IrJufGZRELbu0=",
    ),
    (
        "x\u{7}y",
        "Oyg2vOhYfMxIzWj3AC4xGg==",
        "YnMFEyEbnJSCslbYDJACVcMJiAmnLnxiREpqvbzry28=",
        "oPl7yqH8RHA7eZYBBYxEAsNZzD7H0apSVkrSdr0Ujq0=",
    ),
    (
        "\u{e9}\u{7}",
        "8USiA2bDh9Zxz/KojVdHhg==",
        "ffiok4xlCIoLWDe6yLKTSNv60h/dRzZVKDwtzCGDRRw=",
        "gy/nsMekQcptI6MkQ7hOv8QlDNCsSIPApOoZBPcsqUY=",
    ),
    (
        "e\u{301}",
        "Xa4QUBN2yU+sBAVgcOr7Gg==",
        "Gtcbjko91nHwnbZgGTBeVvLWeOaocYLUFkPAXGQnx2Q=",
        "F8wFyfDgaWRQS0i9NbUrvt/n9vzCtT5T/JuEFSe5t+E=",
    ),
    (
        "\u{1e9b}\u{323}",
        "tIN90trHf1khjIDiZkrSeA==",
        "i6uTkO4xahjcJNBZxYbXlW/T2FeiDYaiRDfFJfJeBQA=",
        "+G2j+dRvUX9UnmF0LgVCMqPPWzKgW1S2rX4gMvTr6Eo=",
    ),
    (
        "\u{ff21}\u{ff42}\u{ff43}",
        "pPvcNSBHHxlyNsqAPJKHPA==",
        "EXnEfVB1SIw1WX6SAojXsj2FbL5DJoqUHJ0dJ7h1QEY=",
        "ETWlofR6M0z4ATkwAuWy2gpEi7Y/Zluace83VUykmIo=",
    ),
    (
        "\u{43f}\u{430}\u{440}\u{43e}\u{43b}\u{44c}",
        "jBzqoa9QmHyBP+zy7T74vA==",
        "Uh4CkUatj899yIn7wXq0gKYm4nhN8HUnk0VfoF4kaGs=",
        "M+z8NoWDa0PJXNeAIdsyFQXtFDe2+nyRUNLikDiD/GA=",
    ),
    (
        "\u{5bc6}\u{7801}",
        "ytb7V6JB0lP/qPkugwNRCw==",
        "pR7tEvuL8JW/bzlUs0oBz53pSOVSidEwzk2snbP+kbE=",
        "aw5W7aJvlvDODCZeG0Rt8wElG4Tgjwd0cCp32QJ/9oA=",
    ),
    (
        "\u{1f642} ok",
        "t23or2EsAQq4GaN1NUSHNQ==",
        "omcUXI2zvgyqgFyBdkKRoip7AyiNtvwVhp2ReIrev7w=",
        "m5pav6+lHsVn6lavhyMQS3okxGOj40wpB5j8NLI4yUc=",
    ),
    (
        "\u{221}",
        "sR9g65mxE2pvc/bim/sikw==",
        "8sVquaiMlo28A2Q0Qo6/iq6tt5O6e7PqTu0SjSMK4H8=",
        "GPsBAMI3HKai6SR6MLtZwrnBwFR47pGeoiipvDXl0jc=",
    ),
    (
        "a\u{200b}b",
        "rlK9Xoy18gCjKijaBNuKug==",
        "Xy1livt8wWtNj8QrLVWFmf3+4NYDmjPtduui0c1kYLY=",
        "oKCLF18ZMjb+6vQnAcP8ymWJtaPSMJKvyHItXTssXuE=",
    ),
    (
        "\u{2028}",
        "dMk5Khvmxvye7PPo0/E0GA==",
        "dBMNnCuaDeqEcIt+9NSlsznZ7tboBvHvO0LCsIQGn8M=",
        "t8cw8qElKAAaQ6lDXkNQTTNBOr+r/tf5/zntWqt2JgI=",
    ),
    (
        "\u{3d2}\u{301}",
        "txbR096loUEC+onsVkP5gQ==",
        "jyPqmvPMPSwT4etzxFaLMqV7oW8gfrtQFDhQXljouEM=",
        "ugpCS8bAmAbrAQmRbzvM2sa3xk6fSsEUfpC1pSh8yc0=",
    ),
    (
        "\u{fb00}",
        "FcCRZ9CtGpoqHfspCb+IyQ==",
        "0e/eJroJmev2ZhfuGM6Kas5Oj5xOC7wjVw5ok9VXgH0=",
        "B75JPlxv9MZ4mnCnckr87PBBnfs5i9wwEuPabphrcLc=",
    ),
];

fn text(salt: &str, stored_key: &str, server_key: &str) -> String {
    format!("SCRAM-SHA-256${ITERATIONS}:{salt}${stored_key}:{server_key}")
}

#[test]
fn passwords_give_the_verifiers_that_postgresql_makes() {
    for (password, salt, stored_key, server_key) in MADE_BY_POSTGRESQL {
        let made = STANDARD.decode(salt).unwrap();
        let made = Verifier::new(password.as_bytes(), &made, ITERATIONS).unwrap();
        assert_eq!(made.to_text(), text(salt, stored_key, server_key), "{password:?}");
    }
}

#[test]
fn a_verifier_is_written_as_it_was_read() {
    for (_, salt, stored_key, server_key) in MADE_BY_POSTGRESQL {
        let text = text(salt, stored_key, server_key);
        assert_eq!(Verifier::parse(&text).unwrap().to_text(), text);
    }
}

#[test]
fn bytes_that_are_not_utf_8_are_hashed_as_they_are() {
    let verifier = |password: &[u8]| Verifier::new(password, b"salt", 1).unwrap().to_text();
    assert_ne!(verifier(b"\xff\xc2\xad"), verifier(b"\xff"));
    assert_eq!(verifier(b"x\xc2\xad"), verifier(b"x"), "valid ones are prepared");
}

#[test]
fn other_texts_are_not_verifiers() {
    let (_, salt, stored, server) = MADE_BY_POSTGRESQL[0];
    let short = STANDARD.encode([1; 31]);
    let check = |text: String, expected: VerifierError| {
        assert_eq!(Verifier::parse(&text).map(|v| v.to_text()), Err(expected), "{text}");
    };
    for form in [
        String::new(),
        "md5d41d8cd98f00b204e9800998ecf8427e".to_owned(),
        format!("scram-sha-256$4096:{salt}${stored}:{server}"),
        format!("SCRAM-SHA-256$4096:{salt}"),
        format!("SCRAM-SHA-256$4096${stored}:{server}"),
        format!("SCRAM-SHA-256$4096:{salt}${stored}"),
    ] {
        check(form, VerifierError::Form);
    }
    for iterations in ["", "0", "04096", "+4096", "-1", " 4096", "4096 ", "0x10", "1000001", "1e3"]
    {
        let text = format!("SCRAM-SHA-256${iterations}:{salt}${stored}:{server}");
        check(text, VerifierError::Iterations);
    }
    let bare = salt.trim_end_matches('=');
    let loose = bare.replace("fg", "fh");
    for salt in ["", "====", "!", bare, &format!("{loose}=="), &format!(" {salt}")] {
        check(format!("SCRAM-SHA-256$4096:{salt}${stored}:{server}"), VerifierError::Salt);
    }
    for key in ["", &short, &stored[1..], &format!("{stored}="), &format!("{stored}\n")] {
        check(format!("SCRAM-SHA-256$4096:{salt}${key}:{server}"), VerifierError::Key);
        check(format!("SCRAM-SHA-256$4096:{salt}${stored}:{key}"), VerifierError::Key);
    }
}

#[test]
fn salts_iterations_and_passwords_have_limits() {
    let check = |password: usize, salt: usize, iterations, expected: Option<VerifierError>| {
        let made = Verifier::new(&vec![b'x'; password], &vec![1; salt], iterations);
        let read = made.as_ref().map(Verifier::to_text).map(|text| Verifier::parse(&text));
        assert!(read.is_err() || read.is_ok_and(|read| read.is_ok()), "it is not read again");
        assert_eq!(made.err(), expected, "{password} {salt} {iterations}");
    };
    check(PASSWORD_BYTES_MAX, SALT_BYTES_MAX, 1, None);
    check(0, 1, 1, None);
    check(1, 1, ITERATIONS_MAX, None);
    check(PASSWORD_BYTES_MAX + 1, 1, 1, Some(VerifierError::PasswordTooLong));
    check(1, 0, 1, Some(VerifierError::Salt));
    check(1, SALT_BYTES_MAX + 1, 1, Some(VerifierError::Salt));
    check(1, 1, 0, Some(VerifierError::Iterations));
    check(1, 1, ITERATIONS_MAX + 1, Some(VerifierError::Iterations));
    let salt = STANDARD.encode([1; SALT_BYTES_MAX + 1]);
    let (_, _, stored_key, server_key) = MADE_BY_POSTGRESQL[0];
    let long = Verifier::parse(&text(&salt, stored_key, server_key));
    assert_eq!(long.err(), Some(VerifierError::Salt));
}

#[test]
fn the_mock_verifier_of_a_user_is_always_the_same_and_looks_like_any_other() {
    let mock = |secret: &[u8], user: &[u8]| Verifier::mock(secret, user).to_text();
    assert_eq!(mock(b"secret", b"alice"), mock(b"secret", b"alice"));
    assert_ne!(mock(b"secret", b"alice"), mock(b"secret", b"bob"));
    assert_ne!(mock(b"secret", b"alice"), mock(b"other", b"alice"));
    let real = Verifier::new(b"pencil", &[7; SALT_BYTES], ITERATIONS).unwrap();
    assert_eq!(mock(b"secret", b"alice").len(), real.to_text().len());
    assert_eq!(Verifier::mock(b"secret", b"alice").iterations(), real.iterations());
    let known = Verifier::or_mock(Some(&real), b"secret", b"alice");
    assert_eq!(known.to_text(), real.to_text());
    let unknown = Verifier::or_mock(None, b"secret", b"alice");
    assert_eq!(unknown.to_text(), mock(b"secret", b"alice"));
}
