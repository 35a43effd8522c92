//! Reading a trace in the format `disksim-ascii`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| seeklab_fuzz::read(Some("disksim-ascii"), bytes));
