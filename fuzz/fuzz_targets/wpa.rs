//! Reading a trace in the format `wpa`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| seeklab_fuzz::read(Some("wpa"), bytes));
