//! Bytes of a body through the chunked coding and back.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| paceline_fuzz::http_chunked::check(data));
