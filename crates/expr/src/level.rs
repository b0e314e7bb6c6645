//! The content of one pair of brackets: the operators that still need their right side, and the depth.
//!
//! Owns precedence: an operator takes its sides when one that binds no tighter follows. Promises to know the depth of
//! the tree before it is built, so that the parser can refuse a tree that nests too deeply.

use crate::program::Arithmetic;
use crate::tree::{Infix, Logic, Part, Tree, Word};

/// What opened a level.
pub(crate) enum Bracket<'a> {
    /// The start of the text.
    Text,
    Group,
    Call {
        target: Option<Box<Tree<'a>>>,
        name: Word<'a>,
    },
    Index(Tree<'a>),
    List,
}

/// An operator that needs its right side, with everything before it.
pub(crate) enum Open<'a> {
    Not(usize),
    Negate(usize),
    Infix(Tree<'a>, Infix, usize),
    Logic(Tree<'a>, Logic, usize),
    /// `test ?`, which needs its `:`.
    Question(Tree<'a>, usize),
    /// `test ? yes :`.
    Choice([Tree<'a>; 2], usize),
}

/// How tightly an operator binds, from CEL's table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Binding {
    Choice,
    Any,
    All,
    Compare,
    Sum,
    Product,
    Prefix,
}

/// One level of brackets.
pub(crate) struct Level<'a> {
    pub bracket: Bracket<'a>,
    /// The place of the bracket.
    pub start: usize,
    pub open: Vec<Open<'a>>,
    /// The elements before the last `,`.
    pub elements: Vec<Tree<'a>>,
    pub depth: Depth,
}

impl<'a> Level<'a> {
    pub fn new(bracket: Bracket<'a>, start: usize) -> Self {
        let depth = Depth::default();
        Self { bracket, start, open: Vec::new(), elements: Vec::new(), depth }
    }

    /// Gives `value` to every preceding operator that binds at least as tightly as `binding`.
    pub fn reduce(&mut self, mut value: Tree<'a>, binding: Binding) -> Tree<'a> {
        while let Some(open) = self.open.pop_if(|open| open.binding() >= binding) {
            value = open.take(value);
        }
        value
    }

    /// The place of a `?` that has no `:` yet. Called only when everything that binds tighter was reduced.
    pub fn question(&self) -> Option<usize> {
        match self.open.last() {
            Some(Open::Question(_, at)) => Some(*at),
            _ => None,
        }
    }
}

impl<'a> Open<'a> {
    fn binding(&self) -> Binding {
        match self {
            Self::Not(_) | Self::Negate(_) => Binding::Prefix,
            Self::Infix(_, infix, _) => infix.binding(),
            Self::Logic(_, logic, _) => logic.binding(),
            Self::Question(..) | Self::Choice(..) => Binding::Choice,
        }
    }

    /// The tree of the operator with `right` as its right side.
    fn take(self, right: Tree<'a>) -> Tree<'a> {
        let (start, at, part) = match self {
            Self::Not(at) => (at, at, Part::Not(Box::new(right))),
            Self::Negate(at) => (at, at, Part::Negate(Box::new(right))),
            Self::Infix(left, infix, at) => {
                (left.start, at, Part::Infix(infix, Box::new([left, right])))
            }
            Self::Logic(left, logic, at) => {
                let start = left.start;
                let mut parts = logic.parts(left);
                parts.append(&mut logic.parts(right));
                (start, at, Part::Logic(logic, parts))
            }
            // A `?` without its `:` was refused before.
            Self::Question(_, _) => return right,
            Self::Choice([test, yes], at) => {
                (test.start, at, Part::Choice(Box::new([test, yes, right])))
            }
        };
        Tree { start, at, part }
    }
}

impl Infix {
    pub fn binding(self) -> Binding {
        match self {
            Self::Compare(_) | Self::In => Binding::Compare,
            Self::Arithmetic(Arithmetic::Add | Arithmetic::Subtract) => Binding::Sum,
            Self::Arithmetic(_) => Binding::Product,
        }
    }
}

impl Logic {
    pub fn binding(self) -> Binding {
        match self {
            Self::All => Binding::All,
            Self::Any => Binding::Any,
        }
    }

    /// The parts of a chain of this operator; any other tree is one part.
    fn parts(self, tree: Tree<'_>) -> Vec<Tree<'_>> {
        match tree.part {
            Part::Logic(logic, parts) if logic == self => parts,
            _ => vec![tree],
        }
    }
}

/// The largest depth of a level's tree.
#[derive(Default)]
pub(crate) struct Depth {
    /// `? :`, and one more if there is an `&&` or `||` (a chain of them is one part).
    above: usize,
    /// Operators in a row since the last `&&`, `||`, `?`, `:` or `,`.
    operators: usize,
    /// The deepest bracket since then.
    inside: usize,
    /// The deepest stretch between those signs so far.
    deepest: usize,
}

impl Depth {
    pub fn total(&self) -> usize {
        1 + self.above + self.deepest.max(self.operators + self.inside)
    }

    pub fn operator(&mut self) {
        self.operators += 1;
    }

    pub fn bracket(&mut self, closed: &Self) {
        self.inside = self.inside.max(closed.total());
    }

    pub fn logic(&mut self) {
        self.end_stretch();
        self.above = self.above.max(1);
    }

    pub fn question(&mut self) {
        self.end_stretch();
        self.above += 1;
    }

    pub fn end_stretch(&mut self) {
        self.deepest = self.deepest.max(self.operators + self.inside);
        (self.operators, self.inside) = (0, 0);
    }

    pub fn end_element(&mut self) {
        self.end_stretch();
        self.deepest += self.above;
        self.above = 0;
    }
}
