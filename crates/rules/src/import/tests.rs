//! Reading and writing `.ruleset` files: tables of files and errors, and random lists against a model of Comdb2.

mod lists;
mod model;
mod patterns;

use super::{
    ExportProblem, ImportProblem, Imported, KnownPool, RULESET_FILE_BYTES_MAX,
    RULESET_LINE_BYTES_MAX, export_ruleset, import_ruleset,
};
use crate::Rule;
use paceline_types::Priority;

/// A pool with a range.
fn pool(name: &str, low: i64, high: i64) -> KnownPool {
    let range = Priority::new(low).zip(Priority::new(high));
    KnownPool { name: name.to_owned(), range, threads: None }
}

fn known() -> Vec<KnownPool> {
    let bare = KnownPool { name: "bare".to_owned(), range: None, threads: Some(3) };
    vec![pool("slow", -20, -11), pool("fast", 5, 9), bare, pool("wide", -2, 2), pool("zero", 0, 0)]
}

fn imported(text: &str) -> Imported {
    import_ruleset(text, &known()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Imports a file, which must become these rules.
fn check(text: &str, expected: &[&str]) {
    let rules: Vec<String> = imported(text).rules.iter().map(ToString::to_string).collect();
    assert_eq!(rules, expected, "{text}");
    for rule in rules {
        assert_eq!(Rule::parse(&rule).unwrap().to_string(), rule);
    }
}

#[test]
fn rules_become_rules() {
    check("version 1", &[]);
    check("\n  \n # a comment\n#\n\tVERSION 2 \nrule 7\n", &["7 kind exact sql nothing continue"]);
    check(
        "version 2\nrule 3 action reject\nrule 1 action SET_POOL pool fast flags STOP",
        &["1 kind exact sql set 5 stop", "3 kind exact sql reject continue"],
    );
    check(
        "version 2\n\
         rule 1 action REJECT_ALL flags {PRINT, STOP DISABLE}; mode {GLOB NOCASE}; sql drop *;\n\
         rule 1 user bob",
        &["1 kind exact sql and user glob nocase bob and text glob nocase \"drop *\" reject stop \
           log disabled"],
    );
    check(
        "version 2\nrule 9 originHost h.example originTask job\r\nrule 9 identity a b; user x\n\
         rule 9 fingerprint x'0123456789ABCDEF0123456789abcdef' flags NONE\n",
        &["9 kind exact sql and host exact h.example and task exact job and user exact x and \
           identity exact \"a b\" and fingerprint exact 0123456789abcdef0123456789abcdef nothing \
           continue"],
    );
    check(
        "version 2\nrule 2 mode REGEXP NOCASE; sql  drop .*$;\n",
        &["2 kind exact sql and text regex nocase \"(?s) drop .*$\" nothing continue"],
    );
}

#[test]
fn the_last_value_of_a_property_counts() {
    check(
        "version 2\nrule 1 action REJECT flags STOP; action NONE mode GLOB; user a* user b*\n\
         rule 1 mode EXACT\nrule 1 flags PRINT; user c*",
        &["1 kind exact sql and user exact c* nothing continue log"],
    );
}

#[test]
fn a_mode_without_patterns_does_not_matter() {
    for mode in ["NONE", "NOCASE", "EXACT GLOB", "{REGEXP,NONE}"] {
        let text = format!("version 1\nrule 8 action REJECT mode {mode}");
        check(&text, &["8 kind exact sql reject continue"]);
    }
}

#[test]
fn a_pool_is_one_priority() {
    let check = |name: &str, expected: &str| {
        let text = format!("version 2\nrule 1 flags DYN_POOL; action SET_POOL pool {name}");
        let Imported { rules, pools, .. } = imported(&text);
        let pools: Vec<String> =
            pools.iter().map(|p| format!("{} {:?} {}", p.name, p.threads, p.range.0)).collect();
        assert_eq!(format!("{} {}", rules[0].action, pools.join(",")), expected);
    };
    check("default", "set 0 ");
    check("DEFAULT", "set 0 ");
    check("slow", "set -11 ");
    check("fast", "set 5 ");
    check("wide", "set -1 ");
    check("bare", "set -3 bare Some(1) -3");
    check("new", "set -3 new Some(1) -3");
    check("Fast", "set -3 Fast Some(1) -3");
}

#[test]
fn new_pools_get_free_priorities_first_below_0_and_then_above() {
    let names: Vec<String> = (0..254).map(|n| format!("p{n}")).collect();
    let defined = |count: usize| {
        let lines: Vec<String> = names[..count].iter().map(|n| format!("pool {n}\n")).collect();
        format!("version 2\npool default threads 9\n{}", lines.concat())
    };
    let Imported { pools, .. } = import_ruleset(&defined(254), &[]).unwrap();
    let numbers: Vec<i32> = pools.iter().map(|pool| pool.range.0.number().into()).collect();
    let expected: Vec<i32> = (1..=127).map(|n| -n).chain(1..=127).collect();
    assert_eq!(numbers, expected);
    assert!(pools.iter().all(|pool| pool.range.0 == pool.range.1 && !pool.exists));
    let one_more = import_ruleset(&format!("{}pool last", defined(254)), &[]);
    assert_eq!(one_more.unwrap_err().problem, ImportProblem::NoPriority("last".to_owned()));
    // The ranges of pools that exist are not free.
    let Imported { pools, .. } = imported(&defined(8));
    let numbers: Vec<i8> = pools.iter().map(|pool| pool.range.0.number()).collect();
    assert_eq!(numbers, [-3, -4, -5, -6, -7, -8, -9, -10]);
    let full = [pool("low", -127, -1), pool("high", 1, 126)];
    let Imported { pools, .. } = import_ruleset(&defined(1), &full).unwrap();
    assert_eq!(pools[0].range.0.number(), 127);
    let error = import_ruleset(&defined(2), &full).unwrap_err();
    assert_eq!((error.line, error.column), (4, 6));
}

#[test]
fn pools_are_proposed_in_order_with_their_threads() {
    let text = "version 2\npool b threads 7\npool a\npool b threads 9\npool fast threads 1\n\
                pool bare threads 4\npool c threads 0\nrule 2 flags DYN_POOL; pool e action SET_POOL\n\
                rule 1 action SET_POOL flags DYN_POOL; pool d\nrule 3 action SET_POOL pool bare\n\
                rule 4 flags DYN_POOL; pool unused";
    let pools: Vec<String> = imported(text)
        .pools
        .iter()
        .map(|p| format!("{} {:?} {} {}", p.name, p.threads, p.range.0, p.exists))
        .collect();
    let expected = [
        "b Some(7) -3 false",
        "a None -4 false",
        "c None -5 false",
        "d Some(1) -6 false",
        "e Some(1) -7 false",
        "bare Some(1) -8 true",
    ];
    assert_eq!(pools, expected);
}

#[test]
fn rejections_are_undone_as_comdb2_does_it() {
    let check = |lines: &[&str], expected: &[&str]| {
        let lines: Vec<String> =
            lines.iter().zip(1..).map(|(line, n)| format!("rule {n} {line}\n")).collect();
        let text = format!("version 2\n{}", lines.concat());
        let rules: Vec<String> = imported(&text)
            .rules
            .iter()
            .map(|rule| rule.to_string().replace("kind exact sql ", "").replace("and ", ""))
            .collect();
        assert_eq!(rules, expected, "{text}");
    };
    let (reject, fast) = ("user bob action REJECT", "action SET_POOL pool fast");
    check(&["action UNREJECT"], &["1 set 0 continue"]);
    check(&[reject, "action UNREJECT"], &["1 user exact bob reject continue", "2 set 0 continue"]);
    check(&[fast, "action UNREJECT"], &["1 set 5 continue", "2 nothing continue"]);
    check(
        &[fast, "action REJECT flags STOP", "action UNREJECT"],
        &["1 set 5 continue", "2 reject stop", "3 nothing continue"],
    );
    check(&[fast, reject], &["1 set 5 continue", "2 user exact bob reject continue"]);
    check(
        &[reject, fast, "action UNREJECT"],
        &[
            "1 user exact bob reject continue",
            "2 set 5 continue",
            "3 priority exact 0 set 0 continue",
        ],
    );
    check(
        &[fast, &format!("{reject} flags PRINT"), "action UNREJECT user x flags {STOP PRINT}"],
        &[
            "10 set 5 continue",
            "19 user exact bob set 0 continue",
            "20 user exact bob reject continue log",
            "29 user exact x priority exact 0 set 0 continue",
            "30 user exact x nothing stop log",
        ],
    );
}

#[test]
fn errors_say_where_and_what() {
    let check = |lines: &str, expected: &str| {
        let error = import_ruleset(lines, &known()).expect_err(lines);
        assert_eq!(error.to_string(), expected, "{lines:?}");
    };
    let version = "expected the line \"version 1\" or \"version 2\"";
    check("", &format!("line 1, column 1: {version} before the end of the line"));
    check("# only\n\n", &format!("line 3, column 1: {version} before the end of the line"));
    check("rule 1", &format!("line 1, column 1: {version}, found \"rule\""));
    check("version", "line 1, column 8: expected 1 or 2 before the end of the line");
    check("version 3", "line 1, column 9: expected 1 or 2, found \"3\"");
    for (line, expected) in [
        (
            "version 2",
            "column 1: expected rule, pool or a comment that begins with #, found \"version\"",
        ),
        (
            "rule",
            "column 5: expected the number of the rule, from 1 to 1000 before the end of the line",
        ),
        ("rule 0", "column 6: expected the number of the rule, from 1 to 1000, found \"0\""),
        ("rule 1001", "column 6: expected the number of the rule, from 1 to 1000, found \"1001\""),
        (
            "rule 1 action",
            "column 14: expected NONE, REJECT, REJECT_ALL, UNREJECT or SET_POOL before the end of the line",
        ),
        (
            "rule 1 action LOW",
            "column 15: expected NONE, REJECT, REJECT_ALL, UNREJECT or SET_POOL, found \"LOW\"",
        ),
        (
            "rule 1 flags {STOP, X}; user é",
            "column 21: expected NONE, DISABLE, PRINT, STOP or DYN_POOL, and a semicolon behind them, found \"X\"",
        ),
        (
            "rule 1 flags STOP user a",
            "column 19: expected NONE, DISABLE, PRINT, STOP or DYN_POOL, and a semicolon behind them, found \"user\"",
        ),
        (
            "rule 1 flags {STOP",
            "column 14: expected braces around all words, or none, found \"{STOP\"",
        ),
        (
            "rule 1 mode {}",
            "column 13: expected NONE, EXACT, GLOB, REGEXP or NOCASE, and a semicolon behind them, found \"{}\"",
        ),
        ("rule 1 sql", "column 11: expected a pattern before the end of the line"),
        ("rule 1 user", "column 12: expected a pattern before the end of the line"),
        ("rule 1 sql a\r", "column 13: a pattern may not contain '\\r'"),
        ("rule 1 user é\0", "column 14: a pattern may not contain '\\0'"),
        (
            "rule 1 pool none",
            "column 13: there is no pool \"none\", expected a pool that exists or is defined above, or the flag DYN_POOL before it",
        ),
        (
            "rule 1 action SET_POOL pool zero",
            "column 29: no request can reach pool \"zero\", because its only priority is 0; expected a range with another priority, or none",
        ),
        (
            "rule 1 user a mode NOCASE",
            "column 13: Comdb2 never matches this pattern in the mode of its rule, expected exactly one of EXACT, GLOB and REGEXP",
        ),
        (
            "rule 1 mode EXACT GLOB; user a",
            "column 30: Comdb2 never matches this pattern in the mode of its rule, expected exactly one of EXACT, GLOB and REGEXP",
        ),
        ("rule 1 mode GLOB; sql éa[b", "column 25: this set has no closing bracket"),
        ("rule 1 mode REGEXP; sql é(a", "column 26: this group has no closing parenthesis"),
        ("rule 1 mode REGEXP; sql a**", "column 27: expected no repetition of a repetition"),
        (
            "rule 1 adjustment 5",
            "column 8: expected action, pool, flags, mode, originHost, originTask, user, sql, identity or fingerprint, found \"adjustment\"",
        ),
        (
            "rule 1 fingerprint X'12'",
            "column 20: expected 32 hexadecimal digits like X'0123456789abcdef0123456789abcdef', found \"X'12'\"",
        ),
        ("pool", "column 5: expected the name of the pool before the end of the line"),
        ("pool a thread 3", "column 8: expected threads or the end of the line, found \"thread\""),
        (
            "pool a threads 1000001",
            "column 16: expected a number of threads from 0 to 1000000, found \"1000001\"",
        ),
        (
            "pool a threads -1",
            "column 16: expected a number of threads from 0 to 1000000, found \"-1\"",
        ),
    ] {
        check(&format!("version 2\n{line}"), &format!("line 2, {expected}"));
    }
    let old = "pools need version 2, but this file has version 1";
    check("version 1\npool a", &format!("line 2, column 1: {old}"));
    check("version 1\nrule 1 pool default", &format!("line 2, column 8: {old}"));
}

#[test]
fn files_lines_and_patterns_have_limits() {
    let check = |text: &str, expected: Option<&str>| {
        let error = import_ruleset(text, &[]).err().map(|error| error.to_string());
        assert_eq!(error.as_deref(), expected);
    };
    let comment = |bytes: usize| format!("version 2\n#{}\n", " ".repeat(bytes - 1));
    check(&comment(RULESET_LINE_BYTES_MAX), None);
    let long = "line 2, column 1: a line may have at most 65536 bytes";
    check(&comment(RULESET_LINE_BYTES_MAX + 1), Some(long));
    let mut file = "version 2\n".to_owned() + &"\n".repeat(RULESET_FILE_BYTES_MAX - 10);
    check(&file, None);
    file.push('\n');
    let long = "line 1, column 1: a ruleset file may have at most 4194304 bytes";
    check(&file, Some(long));
    let long = format!("version 2\nrule 1 user {}", "x".repeat(4_097));
    let expected = "line 2, column 13: the pattern has 4097 bytes, expected at most 4096";
    check(&long, Some(expected));
    let rules: String =
        (1..=1_000).map(|n| format!("rule {n} user u{n} action REJECT\n")).collect();
    let imported = import_ruleset(&format!("version 2\n{rules}"), &[]).unwrap();
    assert_eq!(imported.rules.len(), 1_000);
}

#[test]
fn a_line_of_many_words_takes_linear_time() {
    let words = "user a ".repeat(9_000);
    let file = format!("version 2\n{}", format!("rule 1 {words}\n").repeat(60));
    check(&file, &["1 kind exact sql and user exact a nothing continue"]);
}

#[test]
fn no_text_panics() {
    let words = [
        "version",
        "2",
        "rule",
        "1",
        "pool",
        "p",
        "threads",
        "action",
        "SET_POOL",
        "UNREJECT",
        "REJECT",
        "flags",
        "{STOP",
        "DYN_POOL}",
        ";",
        "mode",
        "REGEXP",
        "GLOB",
        "NOCASE",
        "sql",
        "user",
        "identity",
        "[a-",
        "(é|",
        "a*",
        "\\x",
        "{2,",
        "fingerprint",
        "X'",
        ",",
        "#",
        "\r",
        "\u{b}",
        "é",
        "]",
        ")",
        "$",
        "^",
    ];
    let mut ends = 0;
    for seed in 0..4_000 {
        let mut random = crate::tests::random::Random::new(seed);
        let mut text = "version 2\npool p\n".to_owned();
        for _ in 0..random.below(30) {
            text.push_str(random.pick(&words));
            text.push_str(random.pick(&[" ", " ", " ", "\n", "\nrule 1 ", ""]));
        }
        ends += usize::from(import_ruleset(&text, &known()).is_ok());
    }
    assert!(ends > 100, "too few are valid: {ends}");
}

/// Exports rules, which must become this file.
fn check_export(rules: &[&str], expected: &str) {
    let rules: Vec<Rule> = rules.iter().map(|rule| Rule::parse(rule).unwrap()).collect();
    assert_eq!(export_ruleset(&rules, &known()).unwrap(), expected);
}

#[test]
fn rules_are_written_like_comdb2_writes_them() {
    check_export(&[], "version 2\n");
    check_export(
        &["5 set 7 stop log", "6 user exact bob and kind exact sql reject continue disabled"],
        "version 2\n\npool fast\n\nrule 5 action SET_POOL\nrule 5 pool fast\n\
         rule 5 flags {PRINT STOP}\n\nrule 6 action REJECT\nrule 6 flags {DISABLE}\n\
         rule 6 mode {EXACT}\nrule 6 user bob\n",
    );
    check_export(
        &["5000 text glob nocase 'drop *' and user exact nocase bob nothing", "6000 set 0"],
        "version 2\n\nrule 1 action NONE\nrule 1 mode {GLOB NOCASE}\nrule 1 user bob\n\
         rule 1 sql drop *\n\nrule 2 action SET_POOL\nrule 2 pool default\n",
    );
    check_export(
        &[
            "1 host exact 'a b' and identity exact nocase x and fingerprint exact 0123456789abcdef0123456789abcdef set -15",
        ],
        "version 2\n\npool slow\n\nrule 1 action SET_POOL\nrule 1 pool slow\n\
         rule 1 mode {REGEXP}\nrule 1 originHost ^a\\x20b$\nrule 1 identity ^[Xx]$\n\
         rule 1 fingerprint X'0123456789abcdef0123456789abcdef'\n",
    );
    check_export(
        &[
            "1 set 5",
            "2 user exact b set 0",
            "3 user exact b reject continue log",
            "4 priority exact 0 set 0",
            "5 nothing stop",
        ],
        "version 2\n\npool fast\n\nrule 1 action SET_POOL\nrule 1 pool fast\n\n\
         rule 3 action REJECT\nrule 3 flags {PRINT}\nrule 3 mode {EXACT}\nrule 3 user b\n\n\
         rule 5 action UNREJECT\nrule 5 flags {STOP}\n",
    );
}

#[test]
fn what_comdb2_cannot_express_is_an_error() {
    let check = |rules: &[&str], rule: u32, expected: ExportProblem| {
        let rules: Vec<Rule> = rules.iter().map(|rule| Rule::parse(rule).unwrap()).collect();
        let error = export_ruleset(&rules, &known()).expect_err("an error");
        assert_eq!((error.rule, &error.problem), (rule, &expected), "{error}");
    };
    let name = |text: &str| text.to_owned();
    check(&["1 set 5", "2 when 'user == text' set 0"], 2, ExportProblem::When);
    check(&["1 raise 5"], 1, ExportProblem::Step);
    check(&["1 lower 5"], 1, ExportProblem::Step);
    check(&["1 set 100"], 1, ExportProblem::NoPool(100));
    check(&["1 set 5", "2 set 6"], 2, ExportProblem::TwoPriorities(name("fast")));
    check(&["1 path glob /* set 5"], 1, ExportProblem::Attribute(name("path")));
    check(&["1 kind exact http set 5"], 1, ExportProblem::Attribute(name("kind")));
    check(&["1 fingerprint glob a* set 5"], 1, ExportProblem::Attribute(name("fingerprint")));
    check(&["1 user glob a* and user glob *b set 5"], 1, ExportProblem::Twice(name("user")));
    check(&["1 text glob ?* and text glob * set 5"], 1, ExportProblem::Twice(name("text")));
    check(&["1 user glob * set 5"], 1, ExportProblem::MatchesMissing(name("user")));
    check(&["1 host exact \"\" set 5"], 1, ExportProblem::MatchesMissing(name("host")));
    check(&["1 priority exact 0 reject"], 1, ExportProblem::Priority);
    check(&["1 priority exact 1 set 0"], 1, ExportProblem::Priority);
    check(
        &["1 set 5", "2 user exact b reject continue", "3 priority exact 0 set 0"],
        3,
        ExportProblem::Priority,
    );
    check(&["1 set 5", "2 priority exact 0 set 0 stop"], 2, ExportProblem::Priority);
    let attribute = name("text");
    let message = name("Comdb2's word boundaries know only ASCII, expected (?-u:\\b)");
    check(&["1 text regex '\\bdrop' set 5"], 1, ExportProblem::Pattern { attribute, message });
    let many: Vec<String> = (1..=1_001).map(|n| format!("{n} set 5")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    check(&many, 1_001, ExportProblem::TooManyRules);
    let long = "x".repeat(4_096);
    let long: Vec<String> =
        (1..=1_000).map(|n| format!("{n} text exact {long} and user exact {long} set 5")).collect();
    let long: Vec<&str> = long.iter().map(String::as_str).collect();
    check(&long, 507, ExportProblem::TooLong);
    for (odd, threads) in
        [("a b", None), ("Default", None), ("", None), ("a", Some(0)), ("a", Some(1_000_001))]
    {
        let pools = [KnownPool { threads, ..pool(odd, 1, 1) }];
        let error = export_ruleset(&[Rule::parse("1 set 1").unwrap()], &pools).unwrap_err();
        assert_eq!(error.problem, ExportProblem::PoolName(name(odd)));
    }
}
