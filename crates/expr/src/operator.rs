//! Checks operators: logic, comparison, `in`, arithmetic and `? :`.
//!
//! Promises that both sides of an operator fit each other and the operator. Chains of `&&`, of `||`
//! and of `+` on strings become one node each.

use crate::CompileError;
use crate::check::{Checker, Node};
use crate::name;
use crate::program::{Arithmetic, Bool, Compare, Double, If, Int, Number, Text, Value};
use crate::tree::{Infix, Logic, Part, Tree};

type Checked = Result<Node, CompileError>;

impl Checker<'_> {
    pub fn infix(&mut self, at: u32, infix: Infix, [left, right]: &[Tree<'_>; 2]) -> Checked {
        match infix {
            Infix::Compare(compare) => self.compare(compare, left, right),
            Infix::In => self.membership(left, right),
            Infix::Arithmetic(operator) => self.arithmetic(at, operator, left, right),
        }
    }

    pub fn logic(&mut self, logic: Logic, parts: &[Tree<'_>]) -> Checked {
        let parts = parts.iter().map(|part| self.bool(part, logic.sign()));
        let parts = parts.collect::<Result<_, _>>()?;
        Ok(Node::Bool(match logic {
            Logic::All => Bool::All(parts),
            Logic::Any => Bool::Any(parts),
        }))
    }

    fn compare(&mut self, compare: Compare, left: &Tree<'_>, right: &Tree<'_>) -> Checked {
        let sides = (self.node(left)?, self.node(right)?);
        let equality = matches!(compare, Compare::Equal | Compare::NotEqual);
        Ok(Node::Bool(match sides {
            (Node::Text(left), Node::Text(right)) => Bool::Texts(compare, Box::new((left, right))),
            (Node::Bool(left), Node::Bool(right)) if equality => {
                Bool::Same(compare == Compare::Equal, Box::new((left, right)))
            }
            (Node::Bool(_), Node::Bool(_)) => {
                let message = "bools can be compared only with `==` and `!=`";
                return Err(self.error(left, message));
            }
            (left_node, right_node) => {
                let names = (left_node.type_name(), right_node.type_name());
                match (number(left_node), number(right_node)) {
                    (Ok(left), Ok(right)) => Bool::Numbers(compare, Box::new((left, right))),
                    _ => {
                        let message = format!("cannot compare {} with {}", names.0, names.1);
                        return Err(self.error(right, message));
                    }
                }
            }
        }))
    }

    fn membership(&mut self, left: &Tree<'_>, list: &Tree<'_>) -> Checked {
        let node = self.node(left)?;
        let elements = match &list.part {
            Part::List(elements) => elements,
            Part::Name(map) if name::is_map(map) => {
                let message = format!("`in` takes a list: expected {map}[\"...\"] != \"\"");
                return Err(self.error(list, message));
            }
            _ => {
                let message = "`in` takes a list of literals, such as [\"a\", \"b\"]";
                return Err(self.error(list, message));
            }
        };
        Ok(Node::Bool(match node {
            Node::Text(text) => {
                let mut texts = Vec::with_capacity(elements.len());
                for element in elements {
                    texts.push(self.text_element(element)?);
                }
                texts.sort_unstable();
                Bool::TextIn(Box::new(text), texts.into_boxed_slice())
            }
            other => match number(other) {
                Ok(number) => {
                    let values = elements.iter().map(|element| self.number_element(element));
                    Bool::NumberIn(Box::new(number), values.collect::<Result<_, _>>()?)
                }
                Err(other) => {
                    return Err(self.wrong_type(left, "`in`", "string, int or double", &other));
                }
            },
        }))
    }

    fn text_element(&mut self, element: &Tree<'_>) -> Result<Box<str>, CompileError> {
        match &element.part {
            Part::Text(text) => Ok(text.as_str().into()),
            _ => Err(self.error(element, "expected a string literal in this list")),
        }
    }

    fn number_element(&self, element: &Tree<'_>) -> Result<Value, CompileError> {
        match &element.part {
            Part::Int(value) => Ok(Value::Int(*value)),
            Part::Double(value) => Ok(Value::Double(*value)),
            _ => Err(self.error(element, "expected a number literal in this list")),
        }
    }

    fn arithmetic(
        &mut self,
        at: u32,
        operator: Arithmetic,
        left: &Tree<'_>,
        right: &Tree<'_>,
    ) -> Checked {
        let sign = sign(operator);
        match (self.node(left)?, self.node(right)?) {
            (Node::Text(left), Node::Text(right)) if operator == Arithmetic::Add => {
                Ok(Node::Text(join(left, right, at)))
            }
            (Node::Int(left), Node::Int(right)) => {
                Ok(Node::Int(Int::Arithmetic { operator, at, sides: Box::new((left, right)) }))
            }
            (Node::Double(left), Node::Double(right)) if operator != Arithmetic::Remainder => {
                Ok(Node::Double(Double::Arithmetic(operator, Box::new((left, right)))))
            }
            (left_node, right_node) => {
                let accepted = match operator {
                    Arithmetic::Add => "string, int or double",
                    Arithmetic::Remainder => "int",
                    _ => "int or double",
                };
                let fits = left_node.type_name();
                if !accepted.contains(fits) {
                    return Err(self.wrong_type(left, sign, accepted, &left_node));
                }
                Err(self.wrong_type(right, &format!("{sign} after {fits}"), fits, &right_node))
            }
        }
    }

    pub fn negate(&mut self, at: u32, of: &Tree<'_>) -> Checked {
        match self.node(of)? {
            Node::Int(of) => Ok(Node::Int(Int::Negate { at, of: Box::new(of) })),
            Node::Double(of) => Ok(Node::Double(Double::Negate(Box::new(of)))),
            other => Err(self.wrong_type(of, "`-`", "int or double", &other)),
        }
    }

    pub fn choice(&mut self, [test, yes, no]: &[Tree<'_>; 3]) -> Checked {
        let test = self.bool(test, "`?`")?;
        Ok(match (self.node(yes)?, self.node(no)?) {
            (Node::Bool(yes), Node::Bool(no)) => {
                Node::Bool(Bool::If(Box::new(If { test, yes, no })))
            }
            (Node::Int(yes), Node::Int(no)) => Node::Int(Int::If(Box::new(If { test, yes, no }))),
            (Node::Double(yes), Node::Double(no)) => {
                Node::Double(Double::If(Box::new(If { test, yes, no })))
            }
            (Node::Text(yes), Node::Text(no)) => {
                Node::Text(Text::If(Box::new(If { test, yes, no })))
            }
            (yes, found) => {
                return Err(self.wrong_type(no, "`:`", yes.type_name(), &found));
            }
        })
    }
}

fn sign(operator: Arithmetic) -> &'static str {
    match operator {
        Arithmetic::Add => "`+`",
        Arithmetic::Subtract => "`-`",
        Arithmetic::Multiply => "`*`",
        Arithmetic::Divide => "`/`",
        Arithmetic::Remainder => "`%`",
    }
}

fn number(node: Node) -> Result<Number, Node> {
    match node {
        Node::Int(int) => Ok(Number::Int(int)),
        Node::Double(double) => Ok(Number::Double(double)),
        other => Err(other),
    }
}

/// Joins two strings; one that is already a join is extended.
fn join(left: Text, right: Text, at: u32) -> Text {
    let mut parts = match left {
        Text::Join { parts, .. } => parts.into_vec(),
        other => vec![other],
    };
    parts.push(right);
    Text::Join { at, parts: parts.into_boxed_slice() }
}
