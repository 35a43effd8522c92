//! Reading a trace in the format `fio-log`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| seeklab_fuzz::read(Some("fio-log"), bytes));
