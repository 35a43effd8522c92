//! Reading a trace in the format `systor`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| seeklab_fuzz::read(Some("systor"), bytes));
