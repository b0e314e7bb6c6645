//! Fuzzes the parser of response heads with bytes of a server, and writes them anew.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| paceline_fuzz::http_response::check(data));
