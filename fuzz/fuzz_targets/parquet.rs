//! Reading a Parquet file, which needs a real file to go back and forth in.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| seeklab_fuzz::read_file("parquet", bytes));
