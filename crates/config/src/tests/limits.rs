//! Texts that would take too much memory or stack are refused.

use super::wrong;
use crate::check::COMPARED;
use crate::{FILE_BYTES_MAX, How, NESTING_MAX, OBJECTS_MAX, Others, VALUES_MAX, parse};

#[test]
fn a_file_that_is_too_long_is_not_read() {
    let mut text = " ".repeat(FILE_BYTES_MAX);
    assert!(parse(&text).is_ok());
    text.push(' ');
    let expected = "1:1: the file has 16777217 bytes, expected at most 16777216";
    assert_eq!(wrong(&text), [expected]);
}

#[test]
fn a_file_with_too_many_values_is_not_read() {
    let text = format!("# {}", ",".repeat(VALUES_MAX));
    assert!(parse(&text).is_ok());
    let expected = "1:1: the file has about 2000001 keys and values, expected at most 2000000";
    for mark in ["=", ",", "."] {
        assert_eq!(wrong(&format!("{text}{mark}")), [expected], "{mark}");
    }
}

#[test]
fn a_file_has_only_so_many_objects() {
    let text = "[[rule]]\n".repeat(OBJECTS_MAX);
    assert_eq!(parse(&text).unwrap().objects().len(), OBJECTS_MAX);
    let line = OBJECTS_MAX + 1;
    let expected = format!("{line}:1: a file may have at most 250000 objects");
    let errors = parse(&format!("{text}[[rule]]\n")).unwrap_err();
    assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
}

/// Servers are objects too, although they are in the list of a backend.
#[test]
fn a_file_has_only_so_many_servers() {
    let server = |n: usize| format!("{{ name = '{n}', address = 'a:1' }},\n");
    let servers: String = (1..OBJECTS_MAX).map(server).collect();
    let file = |more: &str| format!("[[backend]]\nname = 'b'\nservers = [\n{servers}{more}]\n");
    assert_eq!(parse(&file("")).unwrap().objects().len(), OBJECTS_MAX);
    let errors = parse(&file("{ name = 'x', address = 'a:1' }\n")).unwrap_err();
    let expected = format!("{}:1: a file may have at most 250000 objects", OBJECTS_MAX + 3);
    assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
}

#[test]
fn nesting_is_bounded() {
    let list = |depth: usize| format!("x = {}1{}", "[".repeat(depth), "]".repeat(depth));
    let table = |depth: usize| format!("x = {}1{}", "{a = ".repeat(depth), "}".repeat(depth));
    let dotted = |depth: usize| format!("{}x = 1", "x.".repeat(depth));
    let header = |depth: usize| format!("[{}x]", "x.".repeat(depth));
    for text in [list, table] {
        assert_eq!(wrong(&text(NESTING_MAX)), ["1:1: unknown key `x`"]);
    }
    for text in [list, table, dotted, header] {
        for depth in [NESTING_MAX + 1, 100_000] {
            let found = wrong(&text(depth));
            assert_eq!(found.len(), 1);
            assert!(found[0].contains("recur"), "{found:?}");
        }
    }
}

/// D4: what a check costs grows with the objects, not with their square.
#[test]
fn a_check_compares_few_names_for_each_object_d4() {
    let compared = |count: usize| {
        let resource =
            |n: usize| format!("[[resource]]\nname = 'r{n}'\nparents = ['r{}']\n", n / 8);
        let first = "[[resource]]\nname = 'r0'\n".to_owned();
        let text: String = std::iter::once(first).chain((1..count).map(resource)).collect();
        let document = parse(&text).unwrap();
        let before = COMPARED.get();
        document.check_beside(&others(count)).unwrap();
        COMPARED.get() - before
    };
    let (few, many) = (compared(500), compared(4_000));
    assert!(few > 500, "{few}");
    assert!(many < 16 * few, "8 times the objects: {few} comparisons, then {many}");
}

/// Objects of other files, as many.
fn others(count: usize) -> Others {
    let text: String = (0..count).map(|n| format!("[[resource]]\nname = 'o{n}'\n")).collect();
    let mut database = super::database();
    let applied = parse(&text).unwrap().apply(database.store(), How::default());
    super::execute(&mut database, &applied.operations).unwrap();
    Others::besides(&parse("").unwrap(), &database.snapshot())
}
