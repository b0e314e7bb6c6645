//! Bad input in TOML files, through `paceline check`: every key of the example is misspelt and given another type,
//! one at a time. Each error is reported as FILE:LINE:COLUMN.
//!
//! The example contains every key, so a key that is added to it is tested as well.

use paceline_tests::Scratch;
use paceline_tests::server::paceline_binary;
use std::path::Path;
use std::process::Command;

fn example() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/paceline.toml");
    std::fs::read_to_string(path).unwrap()
}

/// The result of `paceline check` for a text: exit code, standard output, standard error.
fn check(scratch: &Scratch, text: &str) -> (i32, String, String) {
    let file = scratch.write("wrong.toml", text);
    let output = Command::new(paceline_binary()).arg("check").arg(file).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// The lines `KEY = VALUE` of the example with their numbers from 1.
fn settings(text: &str) -> Vec<(usize, &str, &str)> {
    let lines = text.lines().zip(1..).filter(|(line, _)| !line.starts_with(['#', '[']));
    lines
        .filter_map(|(line, at)| Some((at, line.split_once(" = ")?)))
        .map(|(at, (k, v))| (at, k, v))
        .collect()
}

fn with_line(text: &str, at: usize, line: &str) -> String {
    let lines = text.lines().zip(1..).map(|(old, number)| if number == at { line } else { old });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn every_key_that_is_misspelt_is_told_with_its_place_and_what_was_meant() {
    let scratch = Scratch::new();
    let text = example();
    for (at, key, value) in settings(&text).into_iter().filter(|(_, key, _)| key.len() > 3) {
        let near = format!("{}{}", &key[..1], &key[2..]);
        let (code, stdout, told) =
            check(&scratch, &with_line(&text, at, &format!("{near} = {value}")));
        assert_eq!((code, stdout.as_str()), (1, ""), "{told}");
        let place = format!("wrong.toml:{at}:1: unknown key `{near}`");
        let line = told.lines().find(|line| line.contains(&place));
        let line = line.unwrap_or_else(|| panic!("{place}: {told}"));
        assert!(line.contains(&format!("did you mean `{key}`?")), "{line}");
    }
}

#[test]
fn every_value_of_another_type_is_told_with_its_place() {
    let scratch = Scratch::new();
    let text = example();
    for (at, key, value) in settings(&text) {
        let is_number = value.parse::<f64>().is_ok();
        let is_flag = ["true", "false"].contains(&value);
        for wrong in ["[[1]]", "1979-05-27", "5.5", "\"\"", "{ x = 1 }", "true"] {
            let fits = (wrong == "\"\"" && !is_number && !is_flag) || (wrong == "true" && is_flag);
            if fits || (key == "match" && wrong.starts_with('{')) {
                continue;
            }
            let line = format!("{key} = {wrong}");
            let (code, stdout, told) = check(&scratch, &with_line(&text, at, &line));
            assert_eq!((code, stdout.as_str()), (1, ""), "{line}: {told}");
            let place = format!("wrong.toml:{at}:");
            let first = told.lines().find(|line| line.contains(&place));
            let first = first.unwrap_or_else(|| panic!("{place} {line}: {told}"));
            assert!(first.contains(&format!("`{key}")), "{line}: {first}");
        }
    }
}

#[test]
fn what_cannot_work_is_told_with_its_place() {
    let scratch = Scratch::new();
    let text = example();
    for (from, to, place, part) in [
        ("priority = [-127, -1]", "priority = [-127, 1]", "priority = [-127, 1]", "overlap"),
        ("number = 100\n", "number = 10\n", "", "10"),
        (r"'(?i)^drop\s'", r"'(?i)^(drop\s'", "match = { user = { exact", "unclosed group"),
        (r#"'waiting("batch") > 50'"#, r#"'waiting("batch") >'"#, "when = 'waiting", "column 19"),
        (r#"'waiting("batch") > 50'"#, r#"'waiting("batsh") > 50'"#, "when = 'waiting", "`batch`"),
        ("key = 'user'\ncount", "key = 'usr'\ncount", "key = 'usr'", "`user`"),
        ("at = \"pool batch\"", "at = \"pool bach\"", "at = \"pool bach\"", "bach"),
        ("rate = \"500/s\"", "rate = \"500/week\"", "rate = \"500/week\"", "rate"),
        ("[\"zpool:tank\"]", "[\"zpool:tnk\"]", "parents = [\"zpool:tnk\"]", "zpool:tank"),
        (
            "name = \"disk:/dev/da0\"\n",
            "name = \"disk:/dev/da0\"\nparents = [\"zpool:tank\"]\n",
            "",
            "cycle",
        ),
        ("max_delay = \"10m\"", "max_delay = \"soon\"", "queue = { max_len = 10000", "max_delay"),
        ("[[resource]]", "[[resource]", "[[resource]", ""),
    ] {
        let wrong = text.replacen(from, to, 1);
        assert_ne!(wrong, text, "{from} is not in the example");
        let (code, stdout, told) = check(&scratch, &wrong);
        assert_eq!((code, stdout.as_str()), (1, ""), "{to}: {told}");
        let at = wrong.lines().position(|line| !place.is_empty() && line.starts_with(place));
        let expected = at.map_or("wrong.toml:".to_owned(), |at| format!("wrong.toml:{}:", at + 1));
        let line = told.lines().find(|line| line.contains(&expected));
        let line = line.unwrap_or_else(|| panic!("{expected} {to}: {told}"));
        assert!(line.contains(part), "{to}: {told}");
        let (_, rest) = line.split_once("wrong.toml:").unwrap();
        let numbers: Vec<_> = rest.split(':').take(2).map(str::parse::<usize>).collect();
        assert!(numbers.iter().all(Result::is_ok), "no line and column: {line}");
    }
}
