//! Fuzzes the parser of the first packets of a PostgreSQL connection, and writes them anew.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| paceline_fuzz::sql_startup::check(data));
