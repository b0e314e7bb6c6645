//! Compares patterns of rules with `regex-automata`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| paceline_fuzz::patterns::check(data));
