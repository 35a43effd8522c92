//! Reading a trace in the format `disksim-validate`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| seeklab_fuzz::read(Some("disksim-validate"), bytes));
