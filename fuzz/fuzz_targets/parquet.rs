//! Reading a Parquet file, which needs a real file to go back and forth in.
//!
//! Of damaged files the library panics, which the reader catches and tells as an error; a panic of our own ends the run.
#![no_main]

use std::panic::{set_hook, take_hook};

/// Folders of the library's crates.
const LIBRARY: [&str; 2] = ["/parquet-", "/arrow-"];

libfuzzer_sys::fuzz_target!(
    init: {
        let ends_the_run = take_hook();
        set_hook(Box::new(move |panic| {
            let of_library = |file: &str| LIBRARY.iter().any(|name| file.contains(name));
            if !panic.location().is_some_and(|place| of_library(place.file())) {
                ends_the_run(panic);
            }
        }));
    },
    |bytes: &[u8]| seeklab_fuzz::read_file("parquet", bytes)
);
