//! Which attributes a configuration reads, so that doors need not provide others.

use paceline_checkpoints::CheckpointSet;
use paceline_expr::Expr;
use paceline_routing::Switch;
use paceline_rules::Ruleset;
use paceline_types::{Known, Name};
use std::collections::BTreeSet;

/// The attributes that a rule, a checkpoint, or an expression of a frontend reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// One bit for each well-known attribute.
    known: u32,
    headers: Vec<Box<str>>,
    cookies: Vec<Box<str>>,
}

impl Reads {
    pub(crate) fn of(rules: &Ruleset, checkpoints: &CheckpointSet, switch: &Switch) -> Self {
        let mut names = BTreeSet::new();
        let enabled = rules.rules().iter().filter(|rule| !rule.disabled);
        names.extend(enabled.flat_map(|rule| &rule.criteria).map(|one| &one.attribute));
        let conditions = rules.conditions().map(|(_, when)| when);
        let checkpoints = checkpoints.iter().flat_map(|checkpoint| checkpoint.expressions());
        let expressions = conditions.chain(checkpoints).chain(switch.expressions());
        names.extend(expressions.flat_map(Expr::attributes));
        let mut reads = Self::default();
        for name in names {
            match name {
                Name::Known(known) => reads.known |= 1 << *known as u32,
                Name::Priority => {}
                Name::Other(name) => match name.split_once('.') {
                    Some(("header", name)) => reads.headers.push(name.into()),
                    Some(("cookie", name)) => reads.cookies.push(name.into()),
                    _ => {}
                },
            }
        }
        reads
    }

    /// Whether anything reads this attribute.
    #[must_use]
    pub const fn reads(&self, known: Known) -> bool {
        self.known & (1 << known as u32) != 0
    }

    /// The first header or cookie that an expression reads and this does not, with its kind.
    pub(crate) fn unread<'a>(&self, expr: &'a Expr) -> Option<(&'static str, &'a str)> {
        expr.attributes().find_map(|name| {
            let Name::Other(name) = name else { return None };
            let (kind, read, name) = match name.split_once('.')? {
                ("header", name) => ("header", &self.headers, name),
                ("cookie", name) => ("cookie", &self.cookies, name),
                _ => return None,
            };
            read.iter().all(|other| **other != *name).then_some((kind, name))
        })
    }

    /// The names of headers that are read, lower case, in order.
    #[must_use]
    pub fn headers(&self) -> &[Box<str>] {
        &self.headers
    }

    /// The names of cookies that are read, in order.
    #[must_use]
    pub fn cookies(&self) -> &[Box<str>] {
        &self.cookies
    }
}
