//! Every possible error in a file: one clear message with its place.

use super::{EXAMPLE, wrong};
use crate::{ERRORS_MAX, parse};

/// Each text with its only error.
fn check(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        let found = wrong(text);
        assert_eq!(found, [*expected], "{text}");
    }
}

#[test]
fn unknown_keys_are_named_with_what_may_stand_there() {
    check(&[
        ("[[pol]]\n", "1:3: unknown key `pol`, did you mean `pool`?"),
        ("version = 1\n", "1:1: unknown key `version`"),
        (
            "[[pool]]\nname = 'a'\npriorty = [1, 2]\nstarted = false\n",
            "3:1: unknown key `priorty` in [[pool]], did you mean `priority`?",
        ),
        (
            "[[pool]]\nname = 'a'\nstarted = false\nthreads = { maximum = 3 }\n",
            "4:13: unknown key `maximum` in `threads` of [[pool]]",
        ),
        (
            "[[checkpoint]]\nname = 'a'\nat = 'frontend api'\nqueue = { max_lenn = 3 }\n",
            "4:11: unknown key `max_lenn` in `queue` of [[checkpoint]], did you mean `max_len`?",
        ),
        ("[[rule]]\nnubmer = 3\n", "2:1: unknown key `nubmer` in [[rule]], did you mean `number`?"),
        (
            "[[resource]]\nname = 'a'\nparent = []\n",
            "3:1: unknown key `parent` in [[resource]], did you mean `parents`?",
        ),
        (
            "[[rule]]\nmatch = { user = { globb = 'a*' } }\n",
            "2:20: unknown key `globb` in `match.user`, did you mean `glob`?",
        ),
    ]);
    let errors = parse("[[resource]]\nname = 'a'\nparent = []\n").unwrap_err();
    let hints: Vec<_> = errors.iter().map(|error| error.hint.as_deref()).collect();
    assert_eq!(hints, [Some("expected one of: name, parents, persistent")]);
}

#[test]
fn wrong_types_say_what_was_expected_and_found() {
    check(&[
        ("[pool]\nname = 'a'\n", "1:2: expected [[pool]], one for each pool"),
        ("rule = 3\n", "1:1: expected [[rule]], one for each rule"),
        ("[[pool]]\nname = 3\n", "2:8: `name`: expected a text, found the number 3"),
        (
            "[[pool]]\nname = 'a b'\n",
            "2:8: `name`: expected a name without blanks and control characters",
        ),
        ("[[pool]]\nname = ''\n", "2:8: `name`: expected 1 to 1024 bytes, found 0"),
        (
            "[[pool]]\nname = 'a'\npriority = [-128, 1]\n",
            "3:12: `priority`: -128 is out of range, expected [LOWEST, HIGHEST], each from -127 to 127",
        ),
        (
            "[[pool]]\nname = 'a'\npriority = [1]\n",
            "3:12: `priority`: expected [LOWEST, HIGHEST], each from -127 to 127, found a list",
        ),
        (
            "[[pool]]\nname = 'a'\npriority = [2, 1]\n",
            "3:12: `priority`: the lowest, 2, is above the highest, 1",
        ),
        (
            "[[pool]]\nname = 'a'\nstarted = false\nthreads = true\n",
            "4:11: `threads`: expected a table or a number, found true",
        ),
        (
            "[[pool]]\nname = 'a'\nstarted = false\nthreads = -1\n",
            "4:11: `threads.max`: expected a whole number from 0 to 1000000, found the number -1",
        ),
        (
            "[[pool]]\nname = 'a'\nstarted = false\nqueue = 3\n",
            "4:9: `queue`: expected a table, found the number 3",
        ),
        (
            "[[pool]]\nname = 'a'\nstarted = 'yes'\n",
            "3:11: `started`: expected true or false, found the text \"yes\"",
        ),
        (
            "[[pool]]\nname = 'a'\nstarted = false\nqueue = { max_delay = 10 }\n",
            "4:23: `queue.max_delay`: expected a length of time such as \"10m\", found the number 10",
        ),
        (
            "[[pool]]\nname = 'a'\nstarted = false\nqueue = { max_delay = 'soon' }\n",
            "4:23: `queue.max_delay`: expected a number and a unit, such as 5ms, 1.5s or 10m",
        ),
        (
            "[[checkpoint]]\nname = 'a'\nat = 'pool'\n",
            "3:6: `at`: expected one name, without blanks",
        ),
        (
            "[[checkpoint]]\nname = 'a'\nat = 'frontend api'\nrate = '5/s'\nburst = '50'\n",
            "5:9: `burst`: expected a whole number from 1 to 4294967295, found the text \"50\"",
        ),
        (
            "[[checkpoint]]\nname = 'a'\nat = 'frontend api'\nrate = 500\n",
            "4:8: `rate`: expected a rate such as \"500/s\", found the number 500",
        ),
        (
            "[[checkpoint]]\nname = 'a'\nat = 'frontend api'\nstatus = 200\n",
            "4:10: `status`: expected a whole number from 400 to 599, found the number 200",
        ),
        (
            "[[checkpoint]]\nname = 'a'\nat = 'frontend api'\nmode = 'look'\n",
            "4:8: `mode`: expected \"enforce\" or \"watch\", found the text \"look\"",
        ),
        (
            "[[checkpoint]]\nname = 'a'\nat = 'frontend api'\ncount = false\n",
            "4:9: `count`: expected true, found false",
        ),
        (
            "[[checkpoint]]\nname = 'a'\nat = 'frontend api'\ncount = true\nrate = '5/s'\n",
            "4:9: `count`: a checkpoint that only counts has no `rate`",
        ),
        (
            "[[rule]]\nnumber = -1\n",
            "2:10: `number`: expected a whole number from 0 to 4294967295, found the number -1",
        ),
        (
            "[[rule]]\nset = 128\n",
            "2:7: `set`: expected a whole number from -127 to 127, found the number 128",
        ),
        (
            "[[rule]]\nraise = 0\n",
            "2:9: `raise`: expected a whole number from 1 to 254, found the number 0",
        ),
        (
            "[[rule]]\nlower = 1.5\n",
            "2:9: `lower`: expected a whole number from 1 to 254, found the number 1.5",
        ),
        (
            "[[rule]]\nthen = 1979-05-27\n",
            "2:8: `then`: expected \"continue\" or \"stop\", found a date or time",
        ),
        (
            "[[rule]]\nwhen = 'a'\nwhen = 'b'\n",
            "3:1: this is not TOML: duplicate key, the first is on line 2",
        ),
        (
            "[[resource]]\nname = 'a'\nparents = 'b'\n",
            "3:11: `parents`: expected a list of names of resources, found the text \"b\"",
        ),
        (
            "[[resource]]\nname = 'a'\nparents = [1]\n",
            "3:12: `parents`: expected a list of names of resources",
        ),
        (
            "[[pool]]\nname = 'a'\nstarted = false\ngroup = \"a\\u0000b\"\n",
            "4:9: `group`: a text may not contain the character U+0000",
        ),
    ]);
    let errors = parse("[[rule]]\nset = '5'\n").unwrap_err();
    assert_eq!(errors[0].hint.as_deref(), Some("without quotes: set = 5"));
}

#[test]
fn what_is_not_toml_is_one_error() {
    check(&[
        ("[[pool]\n", "1:8: this is not TOML: unclosed array table, expected `]`"),
        (
            "name = 'a'\nname = 'b'\n",
            "2:1: this is not TOML: duplicate key, the first is on line 1",
        ),
        (
            "[[pool]]\nname = 'a'\n[[rule]]\nset = 1\n[[pool]]\n\"name\" = 'b'\n[pool.queue]\nmax_len = 1\nmax_len = 2\n",
            "9:1: this is not TOML: duplicate key, the first is on line 8",
        ),
        (
            "[[pool]]\nname = 'a'\n[[rule]]\nset = 1\n[[pool]]\n\"name\" = 'b'\nname = 'c'\n",
            "7:1: this is not TOML: duplicate key, the first is on line 6",
        ),
        (
            "[[pool]]\nqueue = { max_len = 1, max_len = 2 }\n",
            "2:24: this is not TOML: duplicate key",
        ),
    ]);
}

#[test]
fn what_is_wrong_with_criteria_and_actions() {
    check(&[
        (
            "[[rule]]\nmatch = 3\n",
            "2:9: `match`: expected a table of patterns, or criteria as one text, found the number 3",
        ),
        (
            "[[rule]]\nmatch = { user = 3 }\n",
            "2:18: `match.user`: expected a pattern, or a table such as { glob = \"etl-*\" }, found the number 3",
        ),
        ("[[rule]]\nmatch = { user = [] }\n", "2:18: `match.user`: expected at least one pattern"),
        (
            "[[rule]]\nmatch = { user = { glob = 'a', regex = 'b' } }\n",
            "2:18: `match.user`: expected one of exact, glob and regex",
        ),
        (
            "[[rule]]\nmatch = { user = { nocase = true } }\n",
            "2:18: `match.user`: expected one of exact, glob and regex",
        ),
        (
            "[[rule]]\nmatch = { 'a b' = 'x' }\n",
            "2:11: `match`: an attribute name may not contain ' '",
        ),
        (
            "[[rule]]\nmatch = 'user globb a'\n",
            "2:9: `match`: column 6: expected exact, glob or regex, found \"globb\"",
        ),
        (
            "[[rule]]\nmatch = 'user glob a'\nmode = 'glob'\n",
            "3:1: `mode`: expected none, because `match` is a text and says the mode of each pattern itself",
        ),
        ("[[rule]]\nnocase = true\n", "2:1: `nocase`: expected none, because there is no `match`"),
        (
            "[[rule]]\nmatch = { user = 'a' }\nmode = 'globs'\n",
            "3:8: `mode`: expected \"exact\", \"glob\" or \"regex\", found the text \"globs\"",
        ),
        (
            "[[rule]]\nset = 5\nraise = 5\n",
            "3:1: `raise`: expected one action, `set` is there already",
        ),
        (
            "[[rule]]\nmatch = { user = 'a', text = 'a(b' }\nmode = 'regex'\n",
            "2:23: `match.text`: column 2: unclosed group",
        ),
        (
            "[[rule]]\nmatch = 'text regex \"a(b\"'\n",
            "2:1: `match`: criterion 1: column 2: unclosed group",
        ),
    ]);
}

#[test]
fn what_is_missing_or_twice_says_so() {
    check(&[
        ("# one\n[[pool]]\npriority = [1, 2]\n", "2:1: this [[pool]] has no `name`"),
        ("[[checkpoint]]\nname = 'a'\n", "1:1: this [[checkpoint]] has no `at`"),
        ("[[checkpoint]]\nat = 'frontend api'\n", "1:1: this [[checkpoint]] has no `name`"),
        ("[[resource]]\n", "1:1: this [[resource]] has no `name`"),
        (
            "[[resource]]\nname = 'a'\n\n[[resource]]\nname = 'a'\n",
            "5:1: resource `a` is on line 2 already",
        ),
        ("resource = [{ name = 'a' }, { name = 'a' }]", "1:31: resource `a` is on line 1 already"),
        (
            "[[rule]]\nnumber = 10\n[[rule]]\n[[rule]]\nnumber = 20\n",
            "5:1: rule `20` is on line 3 already",
        ),
        (
            "[[rule]]\nnumber = 4294967295\n[[rule]]\n",
            "3:1: there is no higher number left for this rule",
        ),
        (
            "[[resource]]\nname = 'tank'\n[[resource]]\nname = 'b'\nparents = ['tnak']\n",
            "5:12: `parents`: there is no resource `tnak`, did you mean `tank`?",
        ),
        (
            "[[resource]]\nname = 'a'\n[[resource]]\nname = 'b'\nparents = ['a', 'a']\n",
            "5:17: `parents`: `a` is named twice",
        ),
    ]);
}

#[test]
fn what_cannot_work_is_found_by_planning() {
    let pools = "[[pool]]\nname = 'low'\npriority = [-10, -1]\n[[pool]]\nname = 'b'\n";
    check(&[
        (
            &format!("{pools}priority = [-5, 5]\n"),
            "6:1: `priority`: priorities -5 to 5 of pool \"b\" overlap -10 to -1 of pool \"low\"",
        ),
        (
            pools,
            "4:1: `started`: pool \"b\" has no range of priorities: configure one before starting it",
        ),
        (
            &format!("{pools}started = true\n"),
            "6:1: `started`: pool \"b\" has no range of priorities: configure one before starting it",
        ),
        (
            &format!("{pools}priority = [1, 2]\nthreads = {{ min = 9, max = 4 }}\n"),
            "7:22: `threads.max`: pool \"b\": threads.min (9) is above threads.max (4)",
        ),
        (
            "[[pool]]\nname = 'a'\npriority = [1, 2]\n[[pool]]\nname = 'default'\nstarted = false\n",
            "6:1: `started`: the default pool cannot be stopped",
        ),
        (
            "[[pool]]\nname = 'default'\npriority = [1, 2]\n",
            "3:1: `priority`: the default pool cannot be given a range",
        ),
        ("[[rule]]\nwhen = 'user =='\n", "2:1: `when`: column 8: expected a value, found the end"),
        (
            "[[rule]]\nwhen = '''\nuser ==\n1'''\n",
            "2:1: `when`: line 2, column 1: cannot compare string with int",
        ),
        (
            "[[rule]]\nwhen = 'rate(\"per-usr\", user) > 1.0'\n[[checkpoint]]\nname = 'per-user'\nat = 'frontend api'\n",
            "2:1: `when`: column 6: there is no checkpoint `per-usr`; did you mean `per-user`",
        ),
        (
            "[[checkpoint]]\nname = 'c'\nat = 'frontend api'\nkey = 'usr'\n",
            "4:1: `key`: column 1: there is no attribute `usr`; did you mean `user` (what callers send is attr[\"usr\"])",
        ),
        (
            "[[checkpoint]]\nname = 'c'\nat = 'pool nowhere'\n",
            "3:1: `at`: there is no pool \"nowhere\"",
        ),
        (
            "[[checkpoint]]\nname = 'c'\nat = 'frontend api'\nrate = '5/s'\nconcurrency = 5\n",
            "5:1: `concurrency`: a checkpoint has rate or concurrency, not both; make a second one",
        ),
        (
            "[[checkpoint]]\nname = 'c'\nat = 'frontend api'\nburst = 5\n",
            "4:1: `burst`: expected none, because rate is not set",
        ),
        (
            "[[checkpoint]]\nname = 'c'\nat = 'frontend api'\nconcurrency = 5\nqueue = { max_len = 99999999 }\n",
            "5:11: `queue.max_len`: expected at most 10000000, found 99999999",
        ),
        (
            "[[checkpoint]]\nname = 'c'\nat = 'frontend api'\nqueue = { max_len = 9 }\n",
            "4:1: `queue`: without rate or concurrency it only counts and has no queue",
        ),
        (
            "[[resource]]\nname = 'a'\nparents = ['b']\n[[resource]]\nname = 'b'\nparents = ['a']\n",
            "6:1: `parents`: resources form a cycle: \"b\" -> \"a\" -> \"b\"",
        ),
    ]);
}

#[test]
fn concurrency_before_rate_draws_a_warning() {
    let text = "[[checkpoint]]\nname = 'c'\nat = 'frontend api'\nnumber = 1\nconcurrency = 5\n\
                [[checkpoint]]\nname = 'r'\nat = 'frontend api'\nnumber = 2\nrate = '5/s'\n";
    let warnings = super::read(text).check().unwrap();
    assert_eq!(warnings.len(), 1);
    let text = &warnings[0].text;
    assert!(text.contains("\"c\"") && text.contains("\"r\""), "{warnings:?}");
}

#[test]
fn all_errors_are_told_in_the_order_of_the_file() {
    let text = "[[pool]]\nnam = 'a'\n[[rule]]\nset = 1\nraise = 'x'\n[[resource]]\nname = 3\n[[pool]]\nname = 'b'\nthreads = 'x'\n";
    let lines: Vec<_> =
        wrong(text).iter().map(|line| line.split(':').next().unwrap().to_owned()).collect();
    assert_eq!(lines, ["1", "2", "5", "7", "10"]);
    // Planning finds one error in each object, even where one would hide the next.
    let text = "[[rule]]\nwhen = 'user =='\n[[rule]]\nmatch = { text = '(' }\nmode = 'regex'\n\
                [[pool]]\nname = 'p'\n[[checkpoint]]\nname = 'c'\nat = 'pool q'\n\
                [[checkpoint]]\nname = 'd'\nat = 'pool p'\nkey = 'usr'\n[[resource]]\nname = 'r'\nparents = ['r']\n";
    let lines: Vec<_> =
        wrong(text).iter().map(|line| line.split(':').next().unwrap().to_owned()).collect();
    assert_eq!(lines, ["2", "4", "6", "10", "14", "17"]);
}

#[test]
fn no_more_than_so_many_errors_are_told() {
    let text = "[[rule]]\nx = 1\n".repeat(ERRORS_MAX + 50);
    assert_eq!(wrong(&text).len(), ERRORS_MAX);
    let text = "[[rule]]\nwhen = '('\n".repeat(ERRORS_MAX + 50);
    assert_eq!(wrong(&text).len(), ERRORS_MAX);
}

#[test]
fn too_many_of_a_kind_is_one_error() {
    let pool = |n: usize| format!("[[pool]]\nname = 'p{n}'\nstarted = false\n");
    let pools: String = (0..1_000).map(pool).collect();
    assert_eq!(wrong(&pools), ["2998:1: out of resources: 1000 pools exist"]);
    let checkpoint = |n: usize| format!("[[checkpoint]]\nname = 'c{n}'\nat = 'backend b'\n");
    let checkpoints: String = (0..10_002).map(checkpoint).collect();
    let expected = ["30002:1: `name`: there may be at most 10000 checkpoints"];
    assert_eq!(wrong(&checkpoints)[..1], expected);
}

#[test]
fn messages_stay_in_one_line() {
    let text = "[[resource]]\nname = \"a\\nb\"\nparents = [\"a\\nb\"]\n";
    let expected = "3:1: `parents`: resources form a cycle: \"a\\nb\" -> \"a\\nb\"";
    assert_eq!(wrong(text), [expected]);
}

#[test]
fn a_check_changes_nothing_and_repeats() {
    let document = super::read(EXAMPLE);
    let before = document.clone();
    assert_eq!(document.check(), document.check());
    assert_eq!(document, before);
}

#[test]
fn a_user_needs_a_name_and_may_have_one_of_the_roles() {
    for (text, line) in [
        ("[[user]]\nrole = \"viewer\"\n", "1:1: this [[user]] has no `name`"),
        ("[[user]]\nname = \"eva\"\nrole = \"root\"\n", "3:8: `role`: "),
        ("[[user]]\nname = \"eva\"\nrole = \"viewer\"\npersistent = true\n", "4:1: "),
        ("[[token]]\nname = \"ci\"\n", "1:"),
    ] {
        let errors = wrong(text);
        assert!(errors.first().is_some_and(|error| error.starts_with(line)), "{text}{errors:?}");
    }
    assert_eq!(wrong("[[user]]\nname = \"eva\"\nrole = \"viewer\"\n"), [""; 0]);
    assert_eq!(wrong("[[user]]\nname = \"eva\"\n"), [""; 0], "it may only send governed requests");
}

#[test]
fn the_number_that_is_no_priority_is_named() {
    for list in ["[-127, 300]", "[300, -127]"] {
        let told = super::wrong(&format!("[[pool]]\nname = 'a'\npriority = {list}\n"));
        assert!(told[0].contains("`priority`: 300 is out of range"), "{told:?}");
    }
}

/// Attributes may have any name, so a name that is nearly a well-known one causes a warning, not an error.
#[test]
fn names_that_are_nearly_well_known_and_rules_that_do_nothing_are_doubtful() {
    for (rule, expected) in [
        (
            "match = { usr = 'x' }\nreject = true",
            "line 2: rule 10: match: it matches `usr`, did you mean `user`?",
        ),
        (
            "match = 'usr exact x'\nreject = true",
            "line 2: rule 10: match: it matches `usr`, did you mean `user`?",
        ),
        ("match = { user = 'x' }\nreject = true", ""),
        ("match = { colour = 'x', 'tag.usr' = 'y' }\nset = 3", ""),
        (
            "match = { user = 'x' }",
            "line 1: rule 10: it does nothing when it matches; \
            give it set, raise, lower or reject",
        ),
        ("match = { user = 'x' }\nlog = true", ""),
        ("match = { user = 'x' }\nthen = 'stop'", ""),
        ("disabled = true", ""),
    ] {
        let told = super::read(&format!("[[rule]]\n{rule}\n")).check().unwrap();
        let told: Vec<String> = told.iter().map(ToString::to_string).collect();
        assert_eq!(told.join("\n"), expected, "{rule}");
    }
    let many = "[[rule]]\nmatch = { usr = 'x' }\nreject = true\n".repeat(101);
    assert_eq!(super::read(&many).check().unwrap().len(), 100);
}
