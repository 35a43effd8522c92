//! Tells the compiler which needs of tests this machine meets, so that the other tests are ignored.
//!
//! The build script of every crate whose tests need reference data, FUSE, block devices or captures. It sets
//! `cfg(shared_traces)` and `cfg(shared_reference)` for data beside the workspace, `cfg(fuse)`,
//! `cfg(block_devices)` and `cfg(captures)` for this machine and user, and the variable `SEEKLAB_SHARED_FOLDER`.
//! `docs/testing.md` describes the data.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a build script reads its environment and looks for files"
)]

use std::env;
use std::fs::{self, OpenOptions};
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
    set_devices();
}

/// Sets the options of the devices that this user can make here.
fn set_devices() {
    // Another user has other rights.
    for variable in ["USER", "HOME"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    let opens = |path: &str| OpenOptions::new().read(true).write(true).open(path).is_ok();
    let (fuse, loops) = (opens("/dev/fuse"), is_root() && opens("/dev/loop-control"));
    let tracefs = Path::new("/sys/kernel/tracing/events/block").is_dir();
    for (option, is_set) in [("fuse", fuse), ("block_devices", fuse && loops), ("captures", loops && tracefs)]
    {
        println!("cargo::rustc-check-cfg=cfg({option})");
        if is_set {
            println!("cargo::rustc-cfg={option}");
        }
    }
}

/// Returns true if the effective user is root.
fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    users.and_then(|users| users.split_whitespace().nth(1)) == Some("0")
}
