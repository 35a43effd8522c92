//! Reading a trace in the format `msr-cut`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| seeklab_fuzz::read(Some("msr-cut"), bytes));
