//! The examples of `docs/expressions.md` compile.

use super::Names;
use crate::{Kind, compile};

const MANUAL: &str = include_str!("../../../../docs/expressions.md");

/// The lines of the manual's code blocks, by block.
fn blocks() -> Vec<Vec<&'static str>> {
    let blocks = MANUAL.split("```cel\n").skip(1);
    blocks
        .filter_map(|rest| rest.split("```").next())
        .map(|block| block.lines().collect())
        .collect()
}

#[test]
fn the_examples_of_the_manual_compile() {
    let [conditions, others] = blocks().try_into().unwrap();
    assert!(conditions.len() >= 5 && others.len() >= 5);
    for condition in conditions {
        compile(condition, Kind::Condition, &Names).unwrap();
    }
    for other in others {
        let kind = if other.contains("gold") { Kind::Weight } else { Kind::Key };
        compile(other, kind, &Names).unwrap();
    }
}

/// Every attribute and function that the crate's documentation lists is in the manual.
#[test]
fn the_manual_has_every_attribute_and_function() {
    let names = "kind user host task text priority method path query authority sni client frontend backend server \
                 database fingerprint header cookie tag attr rate inflight queued running waiting startsWith endsWith \
                 contains lowerAscii upperAscii size string int double";
    for name in names.split_whitespace() {
        assert!(
            MANUAL.contains(&format!("`{name}")) || MANUAL.contains(&format!(".{name}(")),
            "{name}"
        );
    }
}
