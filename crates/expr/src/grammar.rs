//! Checks the order of tokens before the parser sees them.
//!
//! The parser of the `cel` crate recurses once per bracket and once per operator in a row, and when it
//! meets an error it goes on guessing. So everything it would stumble over is refused here, in one
//! pass and without recursion: values and operators out of turn, brackets that do not match,
//! expressions that nest too deeply, and what CEL has but this language has not. Promises that the
//! parser gets only well-formed texts, at most [`BRACKETS_MAX`] brackets and [`DEPTH_MAX`] levels deep.

use crate::tokens::{Kind, Token};
use crate::{BRACKETS_MAX, CompileError, DEPTH_MAX};

/// Words that CEL keeps for itself.
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

/// Checks that the tokens of `text` form one expression.
pub(crate) fn check(text: &str, tokens: &[Token<'_>]) -> Result<(), CompileError> {
    let levels = vec![Level::new(Bracket::None, 0)];
    let mut walk = Walk { text, levels, want: Want::Value, unary: false };
    let mut before = None;
    for token in tokens {
        match walk.want {
            Want::Value => walk.value(*token, before)?,
            Want::Name => walk.name(*token)?,
            Want::Operator => walk.operator(*token, before)?,
        }
        walk.check_depth(*token)?;
        before = Some(*token);
    }
    walk.end()
}

/// What may come next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Want {
    Value,
    /// A name after a dot.
    Name,
    Operator,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Bracket {
    /// The whole text.
    None,
    Group,
    Call,
    Index,
    List,
}

/// What stands between two brackets, and how deep the tree of it will be.
struct Level {
    bracket: Bracket,
    start: usize,
    /// Where a `?` stands that still wants its `:`.
    question: Option<usize>,
    /// `? :`, and one more if there is an `&&` or `||` (their chains make a balanced tree).
    above: usize,
    /// Operators in a row since the last `&&`, `||`, `?`, `:` or `,`.
    operators: usize,
    /// The deepest bracket since then.
    inside: usize,
    /// The deepest stretch between those signs so far.
    deepest: usize,
}

impl Level {
    fn new(bracket: Bracket, start: usize) -> Self {
        Self { bracket, start, question: None, above: 0, operators: 0, inside: 0, deepest: 0 }
    }

    fn depth(&self) -> usize {
        1 + self.above + self.deepest.max(self.operators + self.inside)
    }

    fn end_stretch(&mut self) {
        self.deepest = self.deepest.max(self.operators + self.inside);
        (self.operators, self.inside) = (0, 0);
    }

    fn end_element(&mut self) {
        self.end_stretch();
        self.deepest += self.above;
        self.above = 0;
    }
}

struct Walk<'a> {
    text: &'a str,
    levels: Vec<Level>,
    want: Want,
    /// Whether the token before is a `!` or `-` that stands before its value.
    unary: bool,
}

impl Walk<'_> {
    fn value(&mut self, token: Token<'_>, before: Option<Token<'_>>) -> Result<(), CompileError> {
        let before = before.map_or("", |before| before.text);
        let after_unary = std::mem::take(&mut self.unary);
        self.want = Want::Operator;
        match (token.kind, token.text) {
            (Kind::Name, word) if RESERVED.contains(&word) => {
                self.error(token.start, format!("`{word}` is a reserved word of CEL"))
            }
            (Kind::Keyword, "null") => {
                let message = "null is not part of the language: a missing attribute is \"\"";
                self.error(token.start, message)
            }
            (Kind::Sign, "!" | "-") => self.unary(token, after_unary),
            (Kind::Sign, "(") => self.open(Bracket::Group, token),
            (Kind::Sign, "[") => self.open(Bracket::List, token),
            (Kind::Sign, ")") if before == "(" && self.level().bracket == Bracket::Call => {
                self.close(token)
            }
            (Kind::Sign, "]") if self.level().bracket == Bracket::List && ends_list(before) => {
                self.close(token)
            }
            (Kind::Sign, sign) => {
                self.error(token.start, format!("expected a value, found `{sign}`"))
            }
            _ => Ok(()),
        }
    }

    /// The parser drops pairs of `!` and `-` unseen, and with them the check of what they stand before.
    fn unary(&mut self, token: Token<'_>, after_unary: bool) -> Result<(), CompileError> {
        if after_unary {
            let message = format!("expected a value, found a second sign `{}`", token.text);
            return self.error(token.start, message);
        }
        (self.want, self.unary) = (Want::Value, true);
        self.level().operators += 1;
        Ok(())
    }

    fn name(&mut self, token: Token<'_>) -> Result<(), CompileError> {
        self.want = Want::Operator;
        match token.kind {
            Kind::Name => Ok(()),
            _ => self
                .error(token.start, format!("expected a name after `.`, found `{}`", token.text)),
        }
    }

    fn operator(
        &mut self,
        token: Token<'_>,
        before: Option<Token<'_>>,
    ) -> Result<(), CompileError> {
        if token.kind != Kind::Sign || token.text == "!" {
            let message = format!("expected an operator, found `{}`", token.text);
            return self.error(token.start, message);
        }
        self.want = Want::Value;
        match token.text {
            "(" => self.call(token, before),
            "[" => {
                self.level().operators += 1;
                self.open(Bracket::Index, token)
            }
            ")" | "]" => {
                self.want = Want::Operator;
                self.close(token)
            }
            "," => self.comma(token),
            "?" => self.question(token),
            ":" => self.colon(token),
            "&&" | "||" => {
                let level = self.level();
                level.end_stretch();
                level.above = level.above.max(1);
                Ok(())
            }
            sign => {
                if sign == "." {
                    self.want = Want::Name;
                }
                self.level().operators += 1;
                Ok(())
            }
        }
    }

    fn call(&mut self, token: Token<'_>, name: Option<Token<'_>>) -> Result<(), CompileError> {
        let Some(name) = name.filter(|name| name.kind == Kind::Name) else {
            return self.error(token.start, "expected an operator, found `(`");
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
            _ => return self.open(Bracket::Call, token),
        };
        self.error(name.start, message)
    }

    fn open(&mut self, bracket: Bracket, token: Token<'_>) -> Result<(), CompileError> {
        self.want = Want::Value;
        // The first level is the text itself.
        if self.levels.len() > BRACKETS_MAX {
            let message = format!("more than {BRACKETS_MAX} brackets are open at once");
            return self.error(token.start, message);
        }
        self.levels.push(Level::new(bracket, token.start));
        Ok(())
    }

    fn close(&mut self, token: Token<'_>) -> Result<(), CompileError> {
        self.check_question()?;
        let wanted = match self.level().bracket {
            Bracket::None => {
                let message = format!("`{}` closes nothing", token.text);
                return self.error(token.start, message);
            }
            Bracket::Group | Bracket::Call => ")",
            Bracket::Index | Bracket::List => "]",
        };
        if token.text != wanted {
            let message = format!("expected `{wanted}`, found `{}`", token.text);
            return self.error(token.start, message);
        }
        if let Some(closed) = self.levels.pop() {
            let level = self.level();
            level.inside = level.inside.max(closed.depth());
        }
        Ok(())
    }

    fn comma(&mut self, token: Token<'_>) -> Result<(), CompileError> {
        self.check_question()?;
        if !matches!(self.level().bracket, Bracket::Call | Bracket::List) {
            return self.error(token.start, "expected an operator, found `,`");
        }
        self.level().end_element();
        Ok(())
    }

    fn question(&mut self, token: Token<'_>) -> Result<(), CompileError> {
        if self.level().question.is_some() {
            let message = "expected `:`, found `?`: put the inner `? :` in brackets";
            return self.error(token.start, message);
        }
        let level = self.level();
        level.end_stretch();
        level.above += 1;
        level.question = Some(token.start);
        Ok(())
    }

    fn colon(&mut self, token: Token<'_>) -> Result<(), CompileError> {
        let level = self.level();
        level.end_stretch();
        match level.question.take() {
            Some(_) => Ok(()),
            None => self.error(token.start, "`:` without a `?` before it"),
        }
    }

    fn end(mut self) -> Result<(), CompileError> {
        let end = self.text.len();
        match self.want {
            Want::Value => return self.error(end, "expected a value, found the end"),
            Want::Name => return self.error(end, "expected a name after `.`, found the end"),
            Want::Operator => {}
        }
        self.check_question()?;
        let Level { bracket, start, .. } = *self.level();
        match bracket {
            Bracket::None => Ok(()),
            Bracket::Group | Bracket::Call => self.error(start, "`(` without its `)`"),
            Bracket::Index | Bracket::List => self.error(start, "`[` without its `]`"),
        }
    }

    fn check_question(&mut self) -> Result<(), CompileError> {
        match self.level().question {
            Some(start) => self.error(start, "`?` without its `:`"),
            None => Ok(()),
        }
    }

    fn check_depth(&mut self, token: Token<'_>) -> Result<(), CompileError> {
        if self.level().depth() > DEPTH_MAX {
            let message = format!("the expression has more than {DEPTH_MAX} levels");
            return self.error(token.start, message);
        }
        Ok(())
    }

    /// The innermost open level; the outermost is never closed.
    fn level(&mut self) -> &mut Level {
        let last = self.levels.len() - 1;
        &mut self.levels[last]
    }

    fn error(&self, offset: usize, message: impl Into<String>) -> Result<(), CompileError> {
        Err(CompileError::new(self.text, offset, message))
    }
}

fn ends_list(before: &str) -> bool {
    before == "[" || before == ","
}
