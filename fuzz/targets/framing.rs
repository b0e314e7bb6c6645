//! Bytes of a client through the framer and the JSON-RPC parser.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| paceline_fuzz::framing::check(data));
