//! Fuzzes the framer and the JSON-RPC parser with bytes of a client.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| paceline_fuzz::framing::check(data));
