//! Fuzzes the chunked coding with bytes of a body, and encodes them again.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| paceline_fuzz::http_chunked::check(data));
