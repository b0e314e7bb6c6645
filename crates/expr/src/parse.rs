//! Parses the tokens of a text into a tree.
//!
//! One pass from left to right, with a stack of open brackets and one of waiting operators per bracket
//! ([`crate::level`]), and without recursion. Refuses values and operators out of order, unmatched brackets,
//! expressions that nest too deeply, and parts of CEL that this language does not have. Promises a tree at most
//! [`DEPTH_MAX`] deep, from at most [`BRACKETS_MAX`] brackets open at once.

use crate::level::{Binding, Bracket, Level, Open};
use crate::tokens::{Kind, Token};
use crate::tree::{Infix, Logic, Part, Tree, Word};
use crate::{BRACKETS_MAX, CompileError, DEPTH_MAX, literal};

/// Words that CEL reserves.
const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Parses the tokens of `text`, which must form one expression.
pub(crate) fn parse<'a>(text: &'a str, tokens: &[Token<'a>]) -> Result<Tree<'a>, CompileError> {
    let levels = vec![Level::new(Bracket::Text, 0)];
    let mut parser = Parser { text, levels, too_large: None };
    let mut expected = Expected::Value;
    let mut before = None;
    for token in tokens {
        expected = match expected {
            Expected::Value => parser.value(*token, before)?,
            Expected::Field(of) => parser.field(of, *token)?,
            Expected::Operator(value) => parser.operator(value, *token, before)?,
        };
        parser.check_depth(*token)?;
        before = Some(*token);
    }
    parser.end(expected)
}

/// What may come next.
enum Expected<'a> {
    Value,
    /// A name after this and a dot.
    Field(Tree<'a>),
    /// An operator after this value.
    Operator(Tree<'a>),
}

type Step<'a> = Result<Expected<'a>, CompileError>;

struct Parser<'a> {
    text: &'a str,
    levels: Vec<Level<'a>>,
    /// The first number that does not fit its type. An error in the order of tokens takes precedence.
    too_large: Option<Token<'a>>,
}

impl<'a> Parser<'a> {
    fn value(&mut self, token: Token<'a>, before: Option<Token<'a>>) -> Step<'a> {
        let before = before.map_or("", |before| before.text);
        let part = match (token.kind, token.text) {
            (Kind::Name, word) if RESERVED.contains(&word) => {
                return self.error(token.start, format!("`{word}` is a reserved word of CEL"));
            }
            (Kind::Keyword, "null") => {
                let message = "null is not part of the language: a missing attribute is \"\"";
                return self.error(token.start, message);
            }
            (Kind::Name, name) => Part::Name(name),
            (Kind::Keyword, word) => Part::Bool(word == "true"),
            (Kind::String, string) => Part::Text(literal::string(string)),
            (Kind::Number, _) => return Ok(self.number(token)),
            (Kind::Sign, "!" | "-") => return self.prefix(token),
            (Kind::Sign, "(") => return self.open(Bracket::Group, token),
            (Kind::Sign, "[") => return self.open(Bracket::List, token),
            (Kind::Sign, ")" | "]") if self.may_end_empty(token, before) => {
                return Ok(self.close_level());
            }
            (Kind::Sign, sign) => {
                return self.error(token.start, format!("expected a value, found `{sign}`"));
            }
        };
        Ok(Expected::Operator(leaf(token.start, part)))
    }

    /// Whether a bracket may close where a value is allowed: `f()`, `[]` or `[1,]`.
    fn may_end_empty(&mut self, token: Token<'a>, before: &str) -> bool {
        match self.level().bracket {
            Bracket::Call { .. } => token.text == ")" && before == "(",
            Bracket::List => token.text == "]" && matches!(before, "[" | ","),
            _ => false,
        }
    }

    /// A `-` before an int or a double is part of it.
    fn number(&mut self, token: Token<'a>) -> Expected<'a> {
        let signed = !token.text.ends_with(['u', 'U']);
        let negate = |open: &mut Open<'_>| signed && matches!(open, Open::Negate(_));
        let (start, negative) = match self.level().open.pop_if(negate) {
            Some(Open::Negate(at)) => (at, true),
            _ => (token.start, false),
        };
        let part = literal::number(token.text, negative).unwrap_or_else(|| {
            self.too_large.get_or_insert(token);
            Part::Int(0)
        });
        Expected::Operator(leaf(start, part))
    }

    /// A second sign is refused: `!!a` and `--a` have no use.
    fn prefix(&mut self, token: Token<'a>) -> Step<'a> {
        let level = self.level();
        if let Some(Open::Not(_) | Open::Negate(_)) = level.open.last() {
            let message = format!("expected a value, found a second sign `{}`", token.text);
            return self.error(token.start, message);
        }
        let open = if token.text == "!" { Open::Not } else { Open::Negate };
        level.open.push(open(token.start));
        level.depth.operator();
        Ok(Expected::Value)
    }

    fn field(&mut self, of: Tree<'a>, token: Token<'a>) -> Step<'a> {
        if token.kind != Kind::Name {
            let message = format!("expected a name after `.`, found `{}`", token.text);
            return self.error(token.start, message);
        }
        let (start, name) = (of.start, Word { text: token.text, start: token.start });
        let part = Part::Field { of: Box::new(of), name };
        Ok(Expected::Operator(Tree { start, at: token.start, part }))
    }

    fn operator(
        &mut self,
        value: Tree<'a>,
        token: Token<'a>,
        before: Option<Token<'a>>,
    ) -> Step<'a> {
        if token.kind != Kind::Sign || token.text == "!" {
            let message = format!("expected an operator, found `{}`", token.text);
            return self.error(token.start, message);
        }
        match token.text {
            "(" => self.call(value, token, before),
            "[" => {
                self.level().depth.operator();
                self.open(Bracket::Index(value), token)
            }
            "." => {
                self.level().depth.operator();
                Ok(Expected::Field(value))
            }
            ")" | "]" => self.close(value, token),
            "," => self.comma(value, token),
            "?" => self.question(value, token),
            ":" => self.colon(value, token),
            "&&" => Ok(self.logic(value, Logic::All, token)),
            "||" => Ok(self.logic(value, Logic::Any, token)),
            sign => match Infix::named(sign) {
                Some(infix) => Ok(self.infix(value, infix, token)),
                None => self.error(token.start, format!("expected an operator, found `{sign}`")),
            },
        }
    }

    fn infix(&mut self, value: Tree<'a>, infix: Infix, token: Token<'a>) -> Expected<'a> {
        let level = self.level();
        level.depth.operator();
        let left = level.reduce(value, infix.binding());
        level.open.push(Open::Infix(left, infix, token.start));
        Expected::Value
    }

    fn logic(&mut self, value: Tree<'a>, logic: Logic, token: Token<'a>) -> Expected<'a> {
        let level = self.level();
        level.depth.logic();
        let left = level.reduce(value, logic.binding());
        level.open.push(Open::Logic(left, logic, token.start));
        Expected::Value
    }

    fn question(&mut self, value: Tree<'a>, token: Token<'a>) -> Step<'a> {
        let level = self.level();
        let test = level.reduce(value, Binding::Any);
        if level.question().is_some() {
            let message = "expected `:`, found `?`: put the inner `? :` in brackets";
            return self.error(token.start, message);
        }
        level.depth.question();
        level.open.push(Open::Question(test, token.start));
        Ok(Expected::Value)
    }

    fn colon(&mut self, value: Tree<'a>, token: Token<'a>) -> Step<'a> {
        let level = self.level();
        level.depth.end_stretch();
        let yes = level.reduce(value, Binding::Any);
        let question = |open: &mut Open<'_>| matches!(open, Open::Question(..));
        match level.open.pop_if(question) {
            Some(Open::Question(test, at)) => {
                level.open.push(Open::Choice([test, yes], at));
                Ok(Expected::Value)
            }
            _ => self.error(token.start, "`:` without a `?` before it"),
        }
    }

    /// A bracket right after a name calls it.
    fn call(&mut self, value: Tree<'a>, token: Token<'a>, before: Option<Token<'a>>) -> Step<'a> {
        let bare = before.is_some_and(|before| before.kind == Kind::Name);
        let (target, name) = match value.part {
            Part::Name(text) if bare => (None, Word { text, start: value.start }),
            Part::Field { of, name } if bare => (Some(of), name),
            _ => return self.error(token.start, "expected an operator, found `(`"),
        };
        let message = match name.text {
            "all" | "exists" | "exists_one" | "map" | "filter" => {
                format!("{}() loops, and loops are not part of the language", name.text)
            }
            "has" => "has() is not part of the language: a missing attribute is \"\", so write \
                      header[\"x-user\"] != \"\""
                .to_owned(),
            "matches" => "matches() is not part of the language: use startsWith, endsWith or \
                          contains here, or a regex pattern in a rule's match"
                .to_owned(),
            _ => return self.open(Bracket::Call { target, name }, token),
        };
        self.error(name.start, message)
    }

    fn open(&mut self, bracket: Bracket<'a>, token: Token<'a>) -> Step<'a> {
        // The first level is the text itself.
        if self.levels.len() > BRACKETS_MAX {
            let message = format!("more than {BRACKETS_MAX} brackets are open at once");
            return self.error(token.start, message);
        }
        self.levels.push(Level::new(bracket, token.start));
        Ok(Expected::Value)
    }

    fn close(&mut self, value: Tree<'a>, token: Token<'a>) -> Step<'a> {
        let value = self.end_element(value)?;
        let wanted = match self.level().bracket {
            Bracket::Text => {
                return self.error(token.start, format!("`{}` closes nothing", token.text));
            }
            Bracket::Group | Bracket::Call { .. } => ")",
            Bracket::Index(_) | Bracket::List => "]",
        };
        if token.text != wanted {
            let message = format!("expected `{wanted}`, found `{}`", token.text);
            return self.error(token.start, message);
        }
        self.level().elements.push(value);
        Ok(self.close_level())
    }

    /// Closes the innermost level, which is complete.
    fn close_level(&mut self) -> Expected<'a> {
        let Some(Level { bracket, start: at, mut elements, depth, .. }) = self.levels.pop() else {
            return Expected::Value;
        };
        self.level().depth.bracket(&depth);
        let (start, part) = match bracket {
            Bracket::Call { target, name } => {
                let start = target.as_ref().map_or(name.start, |target| target.start);
                (start, Part::Call { target, name, args: elements })
            }
            Bracket::List => (at, Part::List(elements)),
            Bracket::Index(map) => match elements.pop() {
                Some(index) => (map.start, Part::Index(Box::new([map, index]))),
                None => return Expected::Value,
            },
            Bracket::Group | Bracket::Text => {
                return elements.pop().map_or(Expected::Value, Expected::Operator);
            }
        };
        Expected::Operator(Tree { start, at, part })
    }

    fn comma(&mut self, value: Tree<'a>, token: Token<'a>) -> Step<'a> {
        let value = self.end_element(value)?;
        let level = self.level();
        if !matches!(level.bracket, Bracket::Call { .. } | Bracket::List) {
            return self.error(token.start, "expected an operator, found `,`");
        }
        level.depth.end_element();
        level.elements.push(value);
        Ok(Expected::Value)
    }

    /// Everything in the innermost level since its bracket or the last `,`.
    fn end_element(&mut self, value: Tree<'a>) -> Result<Tree<'a>, CompileError> {
        let level = self.level();
        let value = level.reduce(value, Binding::Any);
        match level.question() {
            Some(at) => Err(CompileError::new(self.text, at, "`?` without its `:`")),
            None => Ok(level.reduce(value, Binding::Choice)),
        }
    }

    fn end(mut self, expected: Expected<'a>) -> Result<Tree<'a>, CompileError> {
        let (text, end) = (self.text, self.text.len());
        let error = |at, message| Err(CompileError::new(text, at, message));
        let value = match expected {
            Expected::Value => return error(end, "expected a value, found the end"),
            Expected::Field(_) => return error(end, "expected a name after `.`, found the end"),
            Expected::Operator(value) => self.end_element(value)?,
        };
        let level = self.level();
        match level.bracket {
            Bracket::Text => {}
            Bracket::Group | Bracket::Call { .. } => {
                return error(level.start, "`(` without its `)`");
            }
            Bracket::Index(_) | Bracket::List => return error(level.start, "`[` without its `]`"),
        }
        match self.too_large {
            Some(Token { start, text: number, .. }) => {
                let message = format!("number {number} is out of range");
                Err(CompileError::new(text, start, message))
            }
            None => Ok(value),
        }
    }

    fn check_depth(&mut self, token: Token<'_>) -> Result<(), CompileError> {
        if self.level().depth.total() > DEPTH_MAX {
            let message = format!("the expression has more than {DEPTH_MAX} levels");
            return Err(CompileError::new(self.text, token.start, message));
        }
        Ok(())
    }

    /// The innermost open level; the outermost is never closed.
    fn level(&mut self) -> &mut Level<'a> {
        let last = self.levels.len() - 1;
        &mut self.levels[last]
    }

    fn error(&self, offset: usize, message: impl Into<String>) -> Step<'a> {
        Err(CompileError::new(self.text, offset, message))
    }
}

fn leaf(start: usize, part: Part<'_>) -> Tree<'_> {
    Tree { start, at: start, part }
}
