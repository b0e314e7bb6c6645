//! Parts of an expression that can fail on values of a request.
//!
//! A text that must be a number may not be one, and a divisor may be zero. A result that is too large needs such a
//! text first. Strings that become too long are left out: a client would have to send more than
//! [`STRING_BYTES_MAX`](crate::STRING_BYTES_MAX) bytes, which the HTTP door refuses.

use crate::program::{Arithmetic, Bool, Double, If, Int, Number, Program, Read, Text};
use paceline_types::Name;

/// A part of an expression that has no value for some requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hazard<'e> {
    /// How it fails.
    pub how: HazardKind,
    /// The function or operator that fails.
    pub function: &'static str,
    /// The attributes that this depends on, each once.
    pub attributes: Vec<&'e Name>,
}

/// How a part of an expression can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HazardKind {
    /// A string that has to be a number may not be one.
    NotANumber,
    /// A divisor may be zero.
    DivisionByZero,
}

/// The parts of a program that can fail.
pub(crate) fn hazards(program: &Program) -> Vec<Hazard<'_>> {
    let mut found = Found::default();
    match program {
        Program::Condition(condition) => condition.walk(&mut found),
        Program::Key(key) => key.walk(&mut found),
        Program::Weight(weight) => weight.walk(&mut found),
    }
    found.hazards
}

/// The hazards found on a walk.
#[derive(Default)]
struct Found<'e> {
    attributes: Vec<&'e Name>,
    hazards: Vec<Hazard<'e>>,
}

impl<'e> Found<'e> {
    fn add(&mut self, name: &'e Name) {
        if !self.attributes.contains(&name) {
            self.attributes.push(name);
        }
    }

    /// Walks a part that decides whether the whole has a value.
    fn risk(&mut self, how: HazardKind, function: &'static str, part: &'e impl Part) {
        let mut within = Self::default();
        part.walk(&mut within);
        within.attributes.iter().for_each(|name| self.add(name));
        self.hazards.append(&mut within.hazards);
        self.hazards.push(Hazard { how, function, attributes: within.attributes });
    }
}

/// A node of a program.
trait Part {
    fn walk<'e>(&'e self, found: &mut Found<'e>);
}

impl<T: Part> Part for [T] {
    fn walk<'e>(&'e self, found: &mut Found<'e>) {
        self.iter().for_each(|part| part.walk(found));
    }
}

impl<A: Part, B: Part> Part for (A, B) {
    fn walk<'e>(&'e self, found: &mut Found<'e>) {
        self.0.walk(found);
        self.1.walk(found);
    }
}

impl<T: Part> Part for If<T> {
    fn walk<'e>(&'e self, found: &mut Found<'e>) {
        self.test.walk(found);
        self.yes.walk(found);
        self.no.walk(found);
    }
}

impl Part for Read {
    fn walk<'e>(&'e self, found: &mut Found<'e>) {
        if let Some(key) = &self.key {
            key.walk(found);
        }
    }
}

impl Part for Bool {
    fn walk<'e>(&'e self, found: &mut Found<'e>) {
        match self {
            Self::Literal(_) => {}
            Self::All(parts) | Self::Any(parts) => parts.walk(found),
            Self::Not(of) => of.walk(found),
            Self::Same(_, sides) => sides.walk(found),
            Self::Texts(_, sides) | Self::Search(_, sides) => sides.walk(found),
            Self::Numbers(_, sides) => sides.walk(found),
            Self::TextIn(text, _) => text.walk(found),
            Self::NumberIn(number, _) => number.walk(found),
            Self::If(choice) => choice.walk(found),
        }
    }
}

impl Part for Int {
    fn walk<'e>(&'e self, found: &mut Found<'e>) {
        match self {
            Self::Literal(_) | Self::Priority => {}
            Self::Arithmetic { operator, sides, .. } => {
                sides.0.walk(found);
                let divides = match operator {
                    Arithmetic::Divide => Some("/"),
                    Arithmetic::Remainder => Some("%"),
                    Arithmetic::Add | Arithmetic::Subtract | Arithmetic::Multiply => None,
                };
                match (&sides.1, divides) {
                    (Self::Literal(by), _) if *by != 0 => {}
                    (by, Some(sign)) => found.risk(HazardKind::DivisionByZero, sign, by),
                    (other, None) => other.walk(found),
                }
            }
            Self::Negate { of, .. } => of.walk(found),
            Self::Size(of) => of.walk(found),
            Self::FromText { of, .. } => found.risk(HazardKind::NotANumber, "int()", &**of),
            Self::FromDouble { of, .. } => of.walk(found),
            Self::Counter(read) => read.walk(found),
            Self::If(choice) => choice.walk(found),
        }
    }
}

impl Part for Double {
    fn walk<'e>(&'e self, found: &mut Found<'e>) {
        match self {
            Self::Literal(_) => {}
            Self::Arithmetic(_, sides) => sides.walk(found),
            Self::Negate(of) => of.walk(found),
            Self::FromText { of, .. } => {
                found.risk(HazardKind::NotANumber, "double()", &**of);
            }
            Self::FromInt(of) => of.walk(found),
            Self::Counter(read) => read.walk(found),
            Self::If(choice) => choice.walk(found),
        }
    }
}

impl Part for Text {
    fn walk<'e>(&'e self, found: &mut Found<'e>) {
        match self {
            Self::Literal(_) => {}
            Self::Attribute(name) => found.add(name),
            Self::Join { parts, .. } => parts.walk(found),
            Self::LowerAscii { of, .. } | Self::UpperAscii { of, .. } => of.walk(found),
            Self::FromBool(of) => of.walk(found),
            Self::FromNumber(of) => of.walk(found),
            Self::If(choice) => choice.walk(found),
        }
    }
}

impl Part for Number {
    fn walk<'e>(&'e self, found: &mut Found<'e>) {
        match self {
            Self::Int(int) => int.walk(found),
            Self::Double(double) => double.walk(found),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::HazardKind;
    use crate::Kind;
    use crate::tests::good;

    #[test]
    fn parts_that_can_fail_are_found_with_what_they_read() {
        let all = |text: &str| -> Vec<String> {
            let expr = good(text, Kind::Condition);
            let hazards = expr.hazards();
            let told = hazards.iter().map(|hazard| {
                let names: Vec<String> = hazard.attributes.iter().map(|n| n.to_string()).collect();
                let how = match hazard.how {
                    HazardKind::NotANumber => "number",
                    HazardKind::DivisionByZero => "zero",
                };
                format!("{how} {} {}", hazard.function, names.join(" "))
            });
            told.collect()
        };
        for (text, expected) in [
            (r#"int(header["n"]) > 5"#, &["number int() header.n"][..]),
            (r#"user != "" && double(user + host) > 0.5"#, &["number double() user host"]),
            ("1 / size(user) > 0", &["zero / user"]),
            (r#"running("batch") % waiting("batch") == 0"#, &["zero % "]),
            (r#"10 / int(header["n"]) > 0"#, &["number int() header.n", "zero / header.n"]),
            (r#"rate("per-user", string(int(user))) > 1.0"#, &["number int() user"]),
            // These have a value for every request.
            ("size(user) / 2 > 1 && size(user) % 3 == 0", &[]),
            (r#"user.lowerAscii() == "a" || double(size(user)) / 0.0 > 1.0"#, &[]),
            ("int(2.5) + priority > 3", &[]),
        ] {
            assert_eq!(all(text), expected, "{text}");
        }
    }
}
