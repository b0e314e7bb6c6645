//! Fuzzes the lexer of SQL and what is built on it with texts of statements.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| paceline_fuzz::sql_text::check(data));
