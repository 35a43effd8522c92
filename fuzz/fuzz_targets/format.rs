//! Reading a trace in the format that the target is named after, `_` for `-`: one source for all of them.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| seeklab_fuzz::read_named(env!("CARGO_BIN_NAME"), bytes));
