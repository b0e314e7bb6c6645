//! Fuzzes the parser, the checks and the evaluator with texts of conditions, keys and weights.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| paceline_fuzz::expression::check(data));
