//! Reading a trace in the format `fio-iolog-v2`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| seeklab_fuzz::read(Some("fio-iolog-v2"), bytes));
