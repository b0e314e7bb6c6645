//! The text form: valid and invalid texts, and displayed rules that parse back.

use super::{Problem, RULE_BYTES_MAX, parse_action, parse_criteria, show_criteria};
use crate::tests::random::Random;
use crate::{Action, CRITERIA_MAX, Criterion, PatternMode, Rule, Then};
use paceline_types::{Known, Name, Priority, limits};

fn check(text: &str, shown: &str) {
    let rule = Rule::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(rule.to_string(), shown);
}

#[test]
fn the_example_reads() {
    let text = r#" 10 user glob "etl-*" and text regex nocase "^select" when "rate(\"per-user\", user) > 100.0" lower 20 stop log disabled"#;
    let criterion = |known, mode, nocase, pattern: &str| Criterion {
        attribute: Name::Known(known),
        mode,
        nocase,
        pattern: pattern.into(),
    };
    let expected = Rule {
        number: 10,
        criteria: vec![
            criterion(Known::User, PatternMode::Glob, false, "etl-*"),
            criterion(Known::Text, PatternMode::Regex, true, "^select"),
        ],
        when: Some("rate(\"per-user\", user) > 100.0".into()),
        action: Action::Lower(20),
        then: Then::Stop,
        disabled: true,
        log: true,
    };
    assert_eq!(Rule::parse(text), Ok(expected));
    check(
        text,
        r#"10 user glob etl-* and text regex nocase "^select" when 'rate("per-user", user) > 100.0' lower 20 stop log disabled"#,
    );
}

#[test]
fn texts_are_shown_in_the_plainest_way() {
    check("1 nothing", "1 nothing continue");
    check("1 when true set -127 disabled log", "1 when true set -127 continue log disabled");
    check("1 user exact '' reject", "1 user exact \"\" reject stop");
    check("1 user exact 'it''s' raise 254", "1 user exact \"it's\" raise 254 continue");
    check("1 text regex '\\d+''' set 1", "1 text regex '\\d+''' set 1 continue");
    check("1 text regex \"a\\nb\" set 1", "1 text regex \"a\\nb\" set 1 continue");
    check(
        "1 text exact \"\\u{7}\\u{2028}é\" set 1",
        "1 text exact \"\\u{7}\\u{2028}é\" set 1 continue",
    );
    check("1 user exact \"stop\" reject", "1 user exact \"stop\" reject stop");
    check("1 \"7up\" exact 7 reject", "1 \"7up\" exact 7 reject stop");
    check("1 header.x-user exact a reject", "1 header.x-user exact a reject stop");
    for name in ["header[\"X-User\"]", "header['x-user']", "'header[\"x-user\"]'"] {
        let text = format!("1 {name} exact a reject");
        check(&text, "1 header.x-user exact a reject stop");
    }
    check("1 tag[\"job\"] exact a reject", "1 tag.job exact a reject stop");
    check("1 priority exact -5 reject", "1 priority exact -5 reject stop");
}

#[test]
fn a_rule_may_have_no_number_yet() {
    let new = Rule::parse_new("user exact eva set 5").unwrap();
    assert_eq!(new.number, None);
    assert_eq!(new.numbered(30).to_string(), "30 user exact eva set 5 continue");
    assert_eq!(Rule::parse_new("7 set 5").unwrap().number, Some(7));
    let error = Rule::parse("  user exact eva set 5").unwrap_err().to_string();
    assert_eq!(error, "column 3: expected the number of the rule, found \"user\"");
}

#[test]
fn wrong_texts_say_where_and_what_was_expected() {
    let actions = "and, when, nothing, set, raise, lower or reject";
    for (text, error) in [
        ("", format!("column 1: expected {actions} before the end")),
        ("1 ", format!("column 3: expected {actions} before the end")),
        ("1 user", "column 7: expected exact, glob or regex before the end".into()),
        ("1 user like x", "column 8: expected exact, glob or regex, found \"like\"".into()),
        ("1 user exact", "column 13: expected a pattern before the end".into()),
        ("1 user exact reject", "column 14: expected a pattern, found \"reject\"".into()),
        ("1 user exact eva", format!("column 17: expected {actions} before the end")),
        ("1 user exact eva or", format!("column 18: expected {actions}, found \"or\"")),
        ("1 user exact é and and", "column 20: expected an attribute, found \"and\"".into()),
        ("1 \"\" exact a set 1", "column 3: an attribute name may not be empty".into()),
        ("1 \"a b\" exact a set 1", "column 3: an attribute name may not contain ' '".into()),
        ("1 when reject", "column 8: expected a condition, found \"reject\"".into()),
        ("1 set 128", "column 7: expected a priority of -127 to 127, found \"128\"".into()),
        ("1 set -128", "column 7: expected a priority of -127 to 127, found \"-128\"".into()),
        ("1 set +5", "column 7: expected a priority of -127 to 127, found \"+5\"".into()),
        ("1 raise +5", "column 9: expected a step of 1 to 254, found \"+5\"".into()),
        ("1 raise 0", "column 9: expected a step of 1 to 254, found \"0\"".into()),
        ("1 lower 255", "column 9: expected a step of 1 to 254, found \"255\"".into()),
        (
            "1 set 1 stop continue",
            "column 14: expected continue, stop, log, disabled or the end, found \"continue\""
                .into(),
        ),
        ("1 set 1 log log", "column 13: expected each flag once, found \"log\"".into()),
        (
            "1 set 1 'log'",
            "column 9: expected continue, stop, log, disabled or the end, found \"log\"".into(),
        ),
        (
            "4294967296 set 1",
            "column 1: expected a rule number of at most 4294967295, found \"4294967296\"".into(),
        ),
        ("1 user exact \"é", "column 14: this quoted text has no end, expected its quote".into()),
        ("1 user exact 'a", "column 14: this quoted text has no end, expected its quote".into()),
        (
            "1 user exact \"é\\d\"",
            "column 16: expected one of \" \\ n r t u{...} after the backslash".into(),
        ),
        (
            "1 user exact \"\\u{d800}\"",
            "column 15: expected one of \" \\ n r t u{...} after the backslash".into(),
        ),
        (
            "1 user exact \"\\u{+41}\"",
            "column 15: expected one of \" \\ n r t u{...} after the backslash".into(),
        ),
        (
            "1 user regex \\d set 1",
            "column 14: expected quotes around a text, found \"\\\\d set 1\"".into(),
        ),
        ("1 user exact \"a\"b set 1", "column 17: expected a blank, found \"b set 1\"".into()),
    ] {
        let found = Rule::parse(text).map_err(|error| error.to_string());
        assert_eq!(found, Err(error), "{text}");
    }
}

#[test]
fn limits_are_reached() {
    let criteria = |n| format!("1 {} set 1", vec!["user exact a"; n].join(" and "));
    assert!(Rule::parse(&criteria(CRITERIA_MAX)).is_ok());
    let error = Rule::parse(&criteria(CRITERIA_MAX + 1)).unwrap_err();
    assert_eq!(error.problem, Problem::TooManyCriteria);
    let long = format!("1 set 1{}", " ".repeat(RULE_BYTES_MAX));
    assert_eq!(Rule::parse(&long).unwrap_err().problem, Problem::TooLong);
}

#[test]
fn the_longest_rule_reads_back() {
    let criterion = Criterion {
        attribute: Name::parse(&"n".repeat(limits::ATTRIBUTE_NAME_BYTES_MAX)).unwrap(),
        mode: PatternMode::Exact,
        nocase: true,
        pattern: "\u{7f}".repeat(limits::PATTERN_BYTES_MAX),
    };
    let rule = Rule {
        number: u32::MAX,
        criteria: vec![criterion; CRITERIA_MAX],
        when: Some("\u{7f}".repeat(limits::EXPRESSION_BYTES_MAX)),
        action: Action::Set(Priority::MIN),
        then: Then::Continue,
        disabled: true,
        log: true,
    };
    assert_eq!(Rule::parse(&rule.to_string()), Ok(rule));
}

#[test]
fn what_is_shown_reads_back() {
    let names = ["set", "when", "7up", "x\"y", "it's", "a\\b", "é", "header.x", "'", "\u{2029}x"];
    for seed in 0..5_000 {
        let mut random = Random::new(seed);
        let mut rule = random.rule(seed as u32);
        for criterion in &mut rule.criteria {
            if let (true, Ok(name)) = (random.one_in(2), Name::parse(random.pick(&names))) {
                criterion.attribute = name;
            }
            if random.one_in(3) {
                let odd = ["'", "\"", "\\", "\t", "\u{0}", "\u{85}", "''", "\\n", "nocase"];
                criterion.pattern.push_str(random.pick(&odd));
            }
        }
        let shown = rule.to_string();
        assert_eq!(shown.lines().count(), 1, "seed {seed}: {shown:?}");
        assert_eq!(Rule::parse(&shown), Ok(rule), "seed {seed}: {shown}");
    }
}

#[test]
fn any_text_is_read_or_refused() {
    let words = [
        "1", "user", "exact", "\"a", "a\"", "'", "\\", "and", "when", "set", "5", "stop", "\"\\u{",
        "é", "regex", "nocase",
    ];
    for seed in 0..20_000 {
        let mut random = Random::new(seed);
        let text: String = (0..random.below(12))
            .map(|_| random.pick(&words).to_owned() + random.pick(&["", " ", " ", "  "]))
            .collect();
        match Rule::parse_new(&text) {
            Ok(new) => {
                let rule = new.numbered(3);
                assert_eq!(Rule::parse(&rule.to_string()), Ok(rule), "seed {seed}: {text}");
            }
            Err(error) => {
                assert!(error.column <= text.chars().count() + 1, "seed {seed}: {text}: {error}");
            }
        }
    }
}

#[test]
fn criteria_and_action_alone() {
    let text = r#"user glob etl-* and text regex nocase "^select" and "a b" exact 'x y'"#;
    let whole = Rule::parse_new(&format!("{text} nothing"));
    assert!(whole.is_err(), "an attribute has no blank in it");
    let text = r#"user glob etl-* and text regex nocase "^select""#;
    let criteria = parse_criteria(text).unwrap();
    assert_eq!(criteria, Rule::parse(&format!("10 {text} nothing")).unwrap().criteria);
    assert_eq!(parse_criteria(&show_criteria(&criteria)), Ok(criteria));
    assert_eq!(parse_criteria("  "), Ok(vec![]), "no criteria: every request");
    assert_eq!(parse_action("lower 20"), Ok(Action::Lower(20)));
    for (text, error) in [
        ("user glob a reject", "column 13: expected and, or the end, found \"reject\""),
        ("10 user glob a", "column 4: expected exact, glob or regex, found \"user\""),
        ("user", "column 5: expected exact, glob or regex before the end"),
    ] {
        assert_eq!(parse_criteria(text).unwrap_err().to_string(), error, "{text}");
    }
    for (text, error) in [
        ("", "column 1: expected nothing, set, raise, lower or reject before the end"),
        ("set 128", "column 5: expected a priority of -127 to 127, found \"128\""),
        ("reject stop", "column 8: expected the end, found \"stop\""),
        ("when x", "column 1: expected nothing, set, raise, lower or reject, found \"when\""),
    ] {
        assert_eq!(parse_action(text).unwrap_err().to_string(), error, "{text}");
    }
}
