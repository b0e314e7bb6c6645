//! Fuzzes the parser of PROXY headers with bytes of a balancer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| paceline_fuzz::proxy::check(data));
