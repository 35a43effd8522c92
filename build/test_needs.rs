//! Tells the compiler which reference data lies beside the workspace.
//!
//! The build script of every crate whose tests need reference data. It sets `cfg(shared_traces)` and
//! `cfg(shared_reference)`, by which tests are ignored without the data, and the variable `SEEKLAB_SHARED_FOLDER`.
//! `docs/testing.md` describes the data.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a build script reads its environment and looks for files"
)]

use std::env;
use std::path::{Path, PathBuf};

/// A configuration option, and the file whose presence sets it.
const MARKERS: [(&str, &str); 2] =
    [("shared_traces", "traces/SHA256SUMS"), ("shared_reference", "reference/README.md")];

pub(crate) fn main() {
    println!("cargo::rerun-if-env-changed=SEEKLAB_SHARED");
    println!("cargo::rerun-if-env-changed=SEEKLAB_REQUIRE_SHARED");
    let folder = env::var_os("SEEKLAB_SHARED").map_or_else(
        || Path::new(&env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../../../shared"),
        PathBuf::from,
    );
    println!("cargo::rustc-env=SEEKLAB_SHARED_FOLDER={}", folder.display());
    let required = env::var_os("SEEKLAB_REQUIRE_SHARED").is_some_and(|value| value == "1");
    for (option, marker) in MARKERS {
        println!("cargo::rustc-check-cfg=cfg({option})");
        let marker = folder.join(marker);
        // Cargo runs a build script again at every build while a file that it names is absent.
        if marker.exists() {
            println!("cargo::rerun-if-changed={}", marker.display());
        }
        // Where data is required, its tests run and fail without it.
        if marker.exists() || required {
            println!("cargo::rustc-cfg={option}");
        }
    }
}
