//! Embeds the catalog: every `catalog/*.toml` by its name, in order. Tells the tests which reference data is there.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a build script reads the files that it embeds"
)]

#[path = "../../build/test_needs.rs"]
mod test_needs;

use std::path::Path;
use std::{env, fs};

fn main() {
    test_needs::main();
    println!("cargo:rerun-if-changed=catalog");
    let folder = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("catalog");
    let mut files: Vec<_> = fs::read_dir(&folder)
        .expect("the catalog is there")
        .map(|entry| entry.expect("the catalog can be read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    files.sort();
    let entries: String = files
        .iter()
        .map(|path| {
            let name = path.file_stem().and_then(|stem| stem.to_str()).expect("catalog names are UTF-8");
            format!("    ({name:?}, include_str!({path:?})),\n")
        })
        .collect();
    let code = format!("static ENTRIES: &[(&str, &str)] = &[\n{entries}];\n");
    let out = Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join("catalog.rs");
    fs::write(out, code).expect("OUT_DIR can be written");
}
