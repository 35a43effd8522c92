//! Reading a trace in the format `issue-csv`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| seeklab_fuzz::read(Some("issue-csv"), bytes));
