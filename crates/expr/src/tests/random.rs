//! Random expressions are compared with a naive second evaluator. This also tests precedence: each expression is
//! written with as few brackets as the table of precedence allows.

use super::{Dice, good, request};
use crate::{EvalError, Kind};

#[derive(Clone, Debug)]
enum Tree {
    Int(i64),
    Bool(bool),
    Negate(Box<Tree>),
    Not(Box<Tree>),
    Pair(&'static str, Box<Tree>, Box<Tree>),
    If(Box<Tree>, Box<Tree>, Box<Tree>),
}

fn int(dice: &mut Dice, depth: usize) -> Tree {
    if depth == 0 || dice.roll(5) == 0 {
        return Tree::Int(*dice.pick(&[0, 1, 2, 3, 7, i64::MAX]));
    }
    let below = depth - 1;
    match dice.roll(8) {
        0 => Tree::Negate(Box::new(int(dice, below))),
        1 => {
            let test = Box::new(bool(dice, below));
            Tree::If(test, Box::new(int(dice, below)), Box::new(int(dice, below)))
        }
        _ => {
            let operator = *dice.pick(&["+", "-", "*", "/", "%"]);
            Tree::Pair(operator, Box::new(int(dice, below)), Box::new(int(dice, below)))
        }
    }
}

fn bool(dice: &mut Dice, depth: usize) -> Tree {
    if depth == 0 || dice.roll(6) == 0 {
        return Tree::Bool(dice.roll(2) == 0);
    }
    let below = depth - 1;
    match dice.roll(8) {
        0 => Tree::Not(Box::new(bool(dice, below))),
        1 => {
            let test = Box::new(bool(dice, below));
            Tree::If(test, Box::new(bool(dice, below)), Box::new(bool(dice, below)))
        }
        2 | 3 => {
            let operator = *dice.pick(&["<", "<=", ">", ">=", "==", "!="]);
            Tree::Pair(operator, Box::new(int(dice, below)), Box::new(int(dice, below)))
        }
        4 => {
            let operator = *dice.pick(&["==", "!="]);
            Tree::Pair(operator, Box::new(bool(dice, below)), Box::new(bool(dice, below)))
        }
        _ => {
            let operator = *dice.pick(&["&&", "||"]);
            Tree::Pair(operator, Box::new(bool(dice, below)), Box::new(bool(dice, below)))
        }
    }
}

/// How tightly a tree's outermost operator binds, from CEL's table.
fn binding(tree: &Tree) -> u8 {
    match tree {
        Tree::If(..) => 0,
        Tree::Pair("||", ..) => 1,
        Tree::Pair("&&", ..) => 2,
        Tree::Pair("+" | "-", ..) => 4,
        Tree::Pair("*" | "/" | "%", ..) => 5,
        Tree::Pair(..) => 3,
        Tree::Negate(_) | Tree::Not(_) => 6,
        Tree::Int(_) | Tree::Bool(_) => 7,
    }
}

fn write(tree: &Tree, at_least: u8, out: &mut String) {
    let brackets = binding(tree) < at_least;
    if brackets {
        out.push('(');
    }
    match tree {
        Tree::Int(value) => out.push_str(&value.to_string()),
        Tree::Bool(value) => out.push_str(&value.to_string()),
        Tree::Negate(of) => {
            out.push('-');
            write(of, 7, out);
        }
        Tree::Not(of) => {
            out.push('!');
            write(of, 7, out);
        }
        Tree::Pair(operator, left, right) => {
            let own = binding(tree);
            write(left, own, out);
            out.push_str(&format!(" {operator} "));
            write(right, own + 1, out);
        }
        Tree::If(test, yes, no) => {
            write(test, 1, out);
            out.push_str(" ? ");
            write(yes, 1, out);
            out.push_str(" : ");
            write(no, 0, out);
        }
    }
    if brackets {
        out.push(')');
    }
}

/// An int or bool as a number, or the error, without its place.
fn naive(tree: &Tree) -> Result<i64, &'static str> {
    match tree {
        Tree::Int(value) => Ok(*value),
        Tree::Bool(value) => Ok(i64::from(*value)),
        Tree::Negate(of) => naive(of)?.checked_neg().ok_or("overflow"),
        Tree::Not(of) => Ok(1 - naive(of)?),
        Tree::If(test, yes, no) => naive(if naive(test)? == 1 { yes } else { no }),
        Tree::Pair("&&", left, right) => match (naive(left), naive(right)) {
            (Ok(0), _) | (_, Ok(0)) => Ok(0),
            (Err(error), _) | (_, Err(error)) => Err(error),
            _ => Ok(1),
        },
        Tree::Pair("||", left, right) => match (naive(left), naive(right)) {
            (Ok(1), _) | (_, Ok(1)) => Ok(1),
            (Err(error), _) | (_, Err(error)) => Err(error),
            _ => Ok(0),
        },
        Tree::Pair(operator, left, right) => pair(operator, naive(left)?, naive(right)?),
    }
}

fn pair(operator: &str, left: i64, right: i64) -> Result<i64, &'static str> {
    let (wide_left, wide_right) = (i128::from(left), i128::from(right));
    let result = match operator {
        "+" => wide_left + wide_right,
        "-" => wide_left - wide_right,
        "*" => wide_left * wide_right,
        "/" | "%" if right == 0 => return Err("zero"),
        "/" => wide_left / wide_right,
        // CEL: the least int has no remainder by -1, just as it has no quotient.
        "%" if right == -1 && left == i64::MIN => return Err("overflow"),
        "%" => wide_left % wide_right,
        "<" => i128::from(left < right),
        "<=" => i128::from(left <= right),
        ">" => i128::from(left > right),
        ">=" => i128::from(left >= right),
        "==" => i128::from(left == right),
        _ => i128::from(left != right),
    };
    i64::try_from(result).map_err(|_| "overflow")
}

fn error_name(error: EvalError) -> &'static str {
    match error {
        EvalError::DivisionByZero { .. } => "zero",
        EvalError::Overflow { .. } => "overflow",
        _ => "other",
    }
}

#[test]
fn random_expressions_equal_the_naive_evaluator() {
    let request = request();
    let (mut errors, mut values) = (0, [0, 0]);
    for seed in 0..4_000 {
        let mut dice = Dice(seed);
        let tree = bool(&mut dice, 5);
        let mut text = String::new();
        write(&tree, 0, &mut text);
        if text.len() > 4_096 {
            continue;
        }
        let expected = naive(&tree).map(|value| value == 1);
        let found = good(&text, Kind::Condition).condition(&request).map_err(error_name);
        assert_eq!(found, expected, "seed {seed}: {text}");
        match found {
            Ok(value) => values[usize::from(value)] += 1,
            Err(_) => errors += 1,
        }
    }
    assert!(errors > 100 && values[0] > 500 && values[1] > 500, "{errors} {values:?}");
}
