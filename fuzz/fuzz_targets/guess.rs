//! Guessing and then reading, of any format and compression.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| seeklab_fuzz::read(None, bytes));
