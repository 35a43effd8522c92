//! Reading a trace in the format `tracefs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| seeklab_fuzz::read(Some("tracefs"), bytes));
