//! Settings that work but are probably not intended are reported with their line and their consequence.

use super::read;

fn doubts(text: &str) -> Vec<String> {
    let told = read(text).check().unwrap_or_else(|errors| panic!("{errors:?}\n{text}"));
    told.iter().map(ToString::to_string).collect()
}

/// Each text causes one warning, at this line, with this message.
fn check(cases: &[(&str, u32, &str)]) {
    for (text, line, says) in cases {
        let told = doubts(text);
        let [one] = &told[..] else { panic!("{text}\n{told:#?}") };
        assert!(one.starts_with(&format!("line {line}: ")) && one.contains(says), "{text}\n{one}");
    }
}

#[test]
fn limits_that_let_nothing_through_are_told() {
    check(&[
        ("[[pool]]\nname = 'p'\npriority = [0, 0]\n", 3, "no request reaches it"),
        (
            "[[pool]]\nname = 'p'\npriority = [1, 2]\nthreads = { min = 0, max = 0 }\n",
            4,
            "none of them runs",
        ),
        ("[[pool]]\nname = 'default'\nthreads.max = 0\n", 3, "none of them runs"),
        (
            "[[checkpoint]]\nname = 'c'\nat = 'frontend api'\nconcurrency = 0\n",
            4,
            "no request passes",
        ),
        (
            "[[checkpoint]]\nname = 'c'\nat = 'frontend api'\n",
            1,
            "it limits nothing and only counts",
        ),
    ]);
    for fine in [
        "[[pool]]\nname = 'p'\npriority = [-1, 1]\nthreads = { max = 1 }\n",
        "[[checkpoint]]\nname = 'c'\nat = 'frontend api'\nconcurrency = 0\nmode = 'watch'\n",
        "[[checkpoint]]\nname = 'c'\nat = 'frontend api'\ncount = true\n",
    ] {
        assert_eq!(doubts(fine), [""; 0], "{fine}");
    }
}

#[test]
fn rules_that_are_hardly_meant_are_told() {
    check(&[
        (
            "[[rule]]\nnumber = 1\nmatch = { user = 'etl-*' }\nreject = true\n",
            3,
            "exactly \"etl-*\"",
        ),
        ("[[rule]]\nnumber = 1\nreject = true\n", 3, "it rejects every request that reaches it"),
        (
            "[[rule]]\nnumber = 1\nreject = true\n[[rule]]\nnumber = 2\nset = 5\n",
            3,
            "no request reaches the rule behind it",
        ),
    ]);
    for fine in [
        "[[rule]]\nnumber = 1\nmatch = { user = { glob = 'etl-*' } }\nreject = true\n",
        "[[rule]]\nnumber = 1\nmatch = { user = 'etl' }\nreject = true\n",
        "[[rule]]\nnumber = 1\nreject = true\nthen = 'continue'\n[[rule]]\nnumber = 2\nset = 5\n",
        "[[rule]]\nnumber = 1\nreject = true\nwhen = 'user == \"ann\"'\n",
    ] {
        assert_eq!(doubts(fine), [""; 0], "{fine}");
    }
}

#[test]
fn places_that_do_not_exist_are_told() {
    let checkpoint = |at: &str| format!("[[checkpoint]]\nname = 'c'\nat = '{at}'\ncount = true\n");
    for (at, missing) in [
        ("frontend web", "frontend \"web\" (it holds only permits that name this frontend)"),
        ("backend db", "backend \"db\" (it holds only permits that name this backend)"),
        ("server db/one", "server \"db/one\" (it holds only permits that name this server)"),
    ] {
        check(&[(&checkpoint(at), 3, &format!("at: there is no {missing}"))]);
    }
    for fine in ["frontend api", "frontend sql", "frontend ovsdb", "pool default"] {
        let text = format!("[[pool]]\nname = 'default'\n{}", checkpoint(fine));
        assert_eq!(doubts(&text), [""; 0], "{fine}");
    }
}

#[test]
fn a_status_for_connections_does_nothing() {
    let http = "[[backend]]\nname = 'app'\nservers = [{ address = '127.0.0.1:1' }]\n\
                [[frontend]]\nname = 'web'\nlisten = '127.0.0.1:80'\nbackend = 'app'\n\
                [[checkpoint]]\nname = 'c'\nat = 'frontend web'\nconcurrency = 5\nstatus = 429\n";
    assert_eq!(doubts(http), [""; 0]);
    check(&[(&format!("{http}on = 'connection'\n"), 12, "status: does nothing")]);
}

/// A failure counts as no match, so a client could send a value that makes it fail.
#[test]
fn conditions_that_can_fail_are_told() {
    let rule = |when: &str, more: &str| format!("[[rule]]\nwhen = '{when}'\n{more}\n");
    let limit = |when: &str| {
        format!("[[checkpoint]]\nname = 'c'\nat = 'frontend api'\nrate = '1/s'\nwhen = '{when}'\n")
    };
    check(&[
        (
            &rule(r#"user != "" && int(header["x-size"]) > 5"#, "reject = true"),
            2,
            "int() fails if header.x-size is not a number: the rule does not match then, so the request \
             is not rejected; reject other values with an earlier rule, such as header.x-size regex '[^0-9]|.{10}'",
        ),
        (
            &rule("1000 / size(user) > 5", "raise = 1"),
            2,
            "/ fails if the divisor is 0, which depends on user: the rule does not match then; multiply \
             instead",
        ),
        (
            &limit("double(user) > 0.5"),
            5,
            "double() fails if user is not a number: the checkpoint does not hold the request then; \
             reject other values with an earlier rule, such as user regex",
        ),
    ]);
    // The recommended alternatives cause no warning, unless they come too late or let some requests through.
    let guard = |more: &str| {
        format!(
            "[[rule]]\nnumber = 1\nmatch = {{ user = {{ regex = '[^0-9]|.{{10}}' }} }}\nreject = true\n{more}\n"
        )
    };
    let late = rule("int(user) > 5", "number = 2\nreject = true");
    let early = rule("int(user) > 5", "number = 0\nreject = true");
    assert_eq!(doubts(&format!("{}{late}", guard(""))), [""; 0]);
    assert_eq!(doubts(&format!("{}{}", guard(""), limit("int(user) > 5"))), [""; 0]);
    assert_eq!(doubts(&format!("{early}{}", guard(""))).len(), 1);
    for weak in ["disabled = true", "then = 'continue'", "when = 'host == \"a\"'"] {
        assert_eq!(doubts(&format!("{}{late}", guard(weak))).len(), 1, "{weak}");
        assert_eq!(
            doubts(&format!("{}{}", guard(weak), limit("int(user) > 5"))).len(),
            1,
            "{weak}"
        );
    }
    assert_eq!(doubts(&rule("1000 > 5 * size(user)", "reject = true")), [""; 0]);
    for fine in [
        rule("size(user) > 5", "reject = true"),
        // The pattern excludes values that are not numbers.
        rule(
            r#"int(header["n"]) > 5"#,
            "reject = true\nmatch = { header.n = { regex = '^[0-9]{1,9}$' } }",
        ),
        rule(r#"int(header["n"]) > 5"#, "reject = true\ndisabled = true"),
    ] {
        assert_eq!(doubts(&fine), [""; 0], "{fine}");
    }
}
