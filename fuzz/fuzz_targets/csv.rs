//! Reading a trace in the format `csv`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| seeklab_fuzz::read(Some("csv"), bytes));
