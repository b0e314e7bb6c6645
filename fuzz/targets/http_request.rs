//! Bytes of a client through the reader of heads, and back through the writer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| paceline_fuzz::http_request::check(data));
