//! Fuzzes the parser of schemas.
#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_target!(|data: &[u8]| paceline_fuzz::schema::check(data));

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    match paceline_fuzz::mutate::lines(&data[..size], max_size, seed) {
        Some(changed) => paceline_fuzz::mutate::store(&changed, data),
        None => fuzzer_mutate(data, size, max_size),
    }
});
