//! Reading a trace in the format `ssdsim`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| seeklab_fuzz::read(Some("ssdsim"), bytes));
