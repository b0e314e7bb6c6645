//! Texts of conditions, keys and weights through the parser, the checks and the evaluator.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| paceline_fuzz::expression::check(data));
