//! Expressions: any text compiles or is refused with a position, and every compiled expression can be evaluated.

use paceline_expr::{Counter, Expr, Input, Kind, Scope, compile};
use paceline_types::{CheckpointId, Name, PoolId, Priority};

/// Every name is a checkpoint and a pool.
pub(crate) struct World;

impl Scope for World {
    fn checkpoint(&self, _: &str) -> Option<CheckpointId> {
        Some(CheckpointId(1))
    }

    fn pool(&self, _: &str) -> Option<PoolId> {
        Some(PoolId(1))
    }

    fn names(&self) -> Vec<&str> {
        vec!["per-user"]
    }
}

impl Input for World {
    fn attribute(&self, name: &Name) -> &str {
        if name.to_string().len().is_multiple_of(2) { "7" } else { "Übersicht" }
    }

    fn priority(&self) -> Priority {
        Priority::START
    }

    fn counter(&self, _: Counter, key: Option<&str>) -> f64 {
        key.map_or(0.5, |key| key.len() as f64)
    }
}

/// Compiles a text for each purpose, and evaluates what compiles.
pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for kind in [Kind::Condition, Kind::Key, Kind::Weight] {
        match compile(text, kind, &World) {
            Ok(expr) => {
                assert!(expr.hazards().len() <= text.len());
                // Parentheses around the text change only positions; the text may contain one parenthesis too many.
                if let Ok(same) = compile(&format!("({text}\n)"), kind, &World) {
                    assert_eq!(values(&same), values(&expr), "{text:?}");
                }
            }
            Err(error) => {
                assert!(text.is_char_boundary(error.offset) && !error.message.is_empty());
            }
        }
    }
}

/// The values of the expression, for the purpose that it was compiled for.
fn values(expr: &Expr) -> (Option<bool>, Option<String>, Option<u32>) {
    let key = expr.key(&World).ok().map(|key| key.into_owned());
    (expr.condition(&World).ok(), key, expr.weight(&World).ok())
}
