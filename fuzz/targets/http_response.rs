//! Bytes of a server through the reader of heads, and back through the writer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| paceline_fuzz::http_response::check(data));
