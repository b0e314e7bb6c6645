//! Bytes of a balancer through the reader of PROXY headers.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| paceline_fuzz::proxy::check(data));
