//! `EXPLAIN`: SQLite's plan of the query, as lines of text. Runs nothing, with or without `ANALYZE`.

use super::prepare::{Known, Output, Plan, Prepared, Tag, write_columns};
use super::{Session, Stop};
use crate::infer;
use crate::rewrite::{Rewritten, rewrite_tokens};
use crate::token::{closing, solids};
use crate::types::Type;
use paceline_postgres::text::Kind;
use paceline_postgres::wire::backend::DataRow;
use std::sync::Arc;

impl Session {
    pub(super) fn prepare_explain(&mut self, text: &str, types: &[u32]) -> Result<Prepared, Stop> {
        let toks = solids(text);
        let mut at = 1;
        if toks.get(at).is_some_and(|tok| tok.kind == Kind::Open) {
            at = closing(&toks, at) + 1;
        }
        while toks.get(at).is_some_and(|tok| tok.is_any(&["analyze", "verbose", "query", "plan"])) {
            at += 1;
        }
        let inner = toks.get(at..).unwrap_or_default();
        let schema = self.schema()?;
        let management = Arc::clone(&self.management);
        let known = Known { schema: &schema, management: &*management };
        let rewritten = rewrite_tokens(inner, &known)?;
        let types = infer::parameters(inner, &known, types, rewritten.parameters);
        self.make_tables(&rewritten)?;
        Ok(Prepared {
            text: text.to_owned(),
            plan: Plan::Explain(rewritten),
            types,
            columns: Some(vec![Output::of("QUERY PLAN", Type::Text)]),
        })
    }

    pub(super) fn explain(&mut self, rewritten: &Rewritten, describes: bool) -> Result<(), Stop> {
        self.make_tables(rewritten)?;
        let shared = Arc::clone(&self.shared);
        let explain = |error: rusqlite::Error| shared.guard.explain(error.into());
        let text = format!("EXPLAIN QUERY PLAN {}", rewritten.sql);
        let mut statement = self.connection.prepare(&text).map_err(explain)?;
        if describes {
            write_columns(&mut self.out, Some(&[Output::of("QUERY PLAN", Type::Text)]), &[])?;
        }
        let mut depths: Vec<(i64, usize)> = vec![];
        let mut count = 0;
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next().map_err(explain)? {
            let (id, parent, detail): (i64, i64, String) = (row.get(0)?, row.get(1)?, row.get(3)?);
            let above = depths.iter().find(|(own, _)| *own == parent);
            let depth = above.map_or(0, |(_, depth)| depth + 1);
            depths.push((id, depth));
            let line = format!("{}{detail}", "  ".repeat(depth));
            let mut message = DataRow::begin(&mut self.out);
            message.value(Some(line.as_bytes()));
            message.finish().map_err(|_| crate::failure::Failure::syntax("a plan is too long"))?;
            count += 1;
        }
        drop(rows);
        drop(statement);
        self.complete(&Tag::Words("EXPLAIN".into()), count);
        Ok(())
    }
}
