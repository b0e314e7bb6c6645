//! Fuzzes the parser of request heads with bytes of a client, and writes them anew.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| paceline_fuzz::http_request::check(data));
