//! Fuzzes the parser of messages of PostgreSQL servers, and writes them anew.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| paceline_fuzz::sql_backend::check(data));
