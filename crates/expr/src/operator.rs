//! Checks operators: logic, comparison, `in`, arithmetic and `? :`.
//!
//! Promises that both sides of an operator fit each other and the operator. Chains of `&&`, of `||`
//! and of `+` on strings become one node each.

use crate::CompileError;
use crate::check::{Checker, Node};
use crate::name;
use crate::program::{Arithmetic, Bool, Compare, Double, If, Int, Number, Text, Value};
use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, operators};

type Checked = Result<Node, CompileError>;

impl Checker<'_> {
    /// The program of an operator; `None` if the call is one of a function.
    pub fn operator(&mut self, expr: &IdedExpr, call: &CallExpr) -> Option<Checked> {
        if call.target.is_some() {
            return None;
        }
        let function = call.func_name.as_str();
        match call.args.as_slice() {
            [of] if function == operators::LOGICAL_NOT => {
                let of = self.bool(of, "`!`");
                Some(of.map(|of| Node::Bool(Bool::Not(Box::new(of)))))
            }
            [of] if function == operators::NEGATE => Some(self.negate(expr, of)),
            [test, yes, no] if function == operators::CONDITIONAL => {
                Some(self.choice(test, yes, no))
            }
            [map, index] if function == operators::INDEX => Some(self.index(map, index)),
            [left, list] if function == operators::IN => Some(self.membership(left, list)),
            [left, right] => self.infix(expr, function, left, right),
            _ => None,
        }
    }

    fn infix(
        &mut self,
        expr: &IdedExpr,
        function: &str,
        left: &IdedExpr,
        right: &IdedExpr,
    ) -> Option<Checked> {
        if function == operators::LOGICAL_AND || function == operators::LOGICAL_OR {
            return Some(self.logic(expr, function));
        }
        let compare = match function {
            operators::EQUALS => Some(Compare::Equal),
            operators::NOT_EQUALS => Some(Compare::NotEqual),
            operators::LESS => Some(Compare::Less),
            operators::LESS_EQUALS => Some(Compare::LessEqual),
            operators::GREATER => Some(Compare::Greater),
            operators::GREATER_EQUALS => Some(Compare::GreaterEqual),
            _ => None,
        };
        if let Some(compare) = compare {
            return Some(self.compare(compare, left, right));
        }
        let operator = match function {
            operators::ADD => Arithmetic::Add,
            operators::SUBSTRACT => Arithmetic::Subtract,
            operators::MULTIPLY => Arithmetic::Multiply,
            operators::DIVIDE => Arithmetic::Divide,
            operators::MODULO => Arithmetic::Remainder,
            _ => return None,
        };
        Some(self.arithmetic(expr, operator, left, right))
    }

    fn logic(&mut self, expr: &IdedExpr, function: &str) -> Checked {
        let mut parts = Vec::new();
        self.logic_parts(expr, function, &mut parts)?;
        let parts = parts.into_boxed_slice();
        let all = function == operators::LOGICAL_AND;
        Ok(Node::Bool(if all { Bool::All(parts) } else { Bool::Any(parts) }))
    }

    fn logic_parts(
        &mut self,
        expr: &IdedExpr,
        function: &str,
        parts: &mut Vec<Bool>,
    ) -> Result<(), CompileError> {
        match &expr.expr {
            Expr::Call(call) if call.func_name == function => {
                for side in &call.args {
                    self.logic_parts(side, function, parts)?;
                }
            }
            _ => {
                let sign = if function == operators::LOGICAL_AND { "`&&`" } else { "`||`" };
                parts.push(self.bool(expr, sign)?);
            }
        }
        Ok(())
    }

    fn compare(&mut self, compare: Compare, left: &IdedExpr, right: &IdedExpr) -> Checked {
        let sides = (self.node(left)?, self.node(right)?);
        let equality = matches!(compare, Compare::Equal | Compare::NotEqual);
        Ok(Node::Bool(match sides {
            (Node::Text(left), Node::Text(right)) => Bool::Texts(compare, Box::new((left, right))),
            (Node::Bool(left), Node::Bool(right)) if equality => {
                Bool::Same(compare == Compare::Equal, Box::new((left, right)))
            }
            (Node::Bool(_), Node::Bool(_)) => {
                let message = "bools can be compared only with `==` and `!=`";
                return Err(self.source.error(left, message));
            }
            (left_node, right_node) => {
                let names = (left_node.type_name(), right_node.type_name());
                match (number(left_node), number(right_node)) {
                    (Ok(left), Ok(right)) => Bool::Numbers(compare, Box::new((left, right))),
                    _ => {
                        let message = format!("cannot compare {} with {}", names.0, names.1);
                        return Err(self.source.error(right, message));
                    }
                }
            }
        }))
    }

    fn membership(&mut self, left: &IdedExpr, list: &IdedExpr) -> Checked {
        let node = self.node(left)?;
        let elements = match &list.expr {
            Expr::List(list) => &list.elements,
            Expr::Ident(map) if name::is_map(map) => {
                let message = format!("`in` takes a list: expected {map}[\"...\"] != \"\"");
                return Err(self.source.error(list, message));
            }
            _ => {
                let message = "`in` takes a list of literals, such as [\"a\", \"b\"]";
                return Err(self.source.error(list, message));
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

    fn text_element(&mut self, element: &IdedExpr) -> Result<Box<str>, CompileError> {
        match &element.expr {
            Expr::Literal(LiteralValue::String(text)) => Ok(text.inner().into()),
            _ => Err(self.source.error(element, "expected a string literal in this list")),
        }
    }

    fn number_element(&self, element: &IdedExpr) -> Result<Value, CompileError> {
        let wrong = || self.source.error(element, "expected a number literal in this list");
        match &element.expr {
            Expr::Literal(LiteralValue::Int(value)) => Ok(Value::Int(*value.inner())),
            Expr::Literal(LiteralValue::Double(value)) => Ok(Value::Double(*value.inner())),
            Expr::Literal(LiteralValue::UInt(value)) => {
                i64::try_from(*value.inner()).map(Value::Int).map_err(|_| wrong())
            }
            _ => Err(wrong()),
        }
    }

    fn arithmetic(
        &mut self,
        expr: &IdedExpr,
        operator: Arithmetic,
        left: &IdedExpr,
        right: &IdedExpr,
    ) -> Checked {
        let (at, sign) = (self.source.at(expr), sign(operator));
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

    fn negate(&mut self, expr: &IdedExpr, of: &IdedExpr) -> Checked {
        match self.node(of)? {
            Node::Int(of_int) => {
                Ok(Node::Int(Int::Negate { at: self.source.at(expr), of: Box::new(of_int) }))
            }
            Node::Double(of) => Ok(Node::Double(Double::Negate(Box::new(of)))),
            other => Err(self.wrong_type(of, "`-`", "int or double", &other)),
        }
    }

    fn choice(&mut self, test: &IdedExpr, yes: &IdedExpr, no: &IdedExpr) -> Checked {
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

/// Joins two strings; one that is itself joined takes in the other.
fn join(left: Text, right: Text, at: u32) -> Text {
    let mut parts = match left {
        Text::Join { parts, .. } => parts.into_vec(),
        other => vec![other],
    };
    parts.push(right);
    Text::Join { at, parts: parts.into_boxed_slice() }
}
