//! With the feature `iscsi`, compares the structures of the installed libiscsi with those that its module declares.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "iscsi")]
    {
        let file = "src/target/iscsi/layout.c";
        println!("cargo::rerun-if-changed={file}");
        if let Err(error) = cc::Build::new().file(file).try_compile("seeklab_iscsi_layout") {
            println!(
                "cargo::error=the feature iscsi needs libiscsi 1.19 with its headers (Debian: libiscsi-dev), whose structures are as expected: {error}"
            );
        }
    }
}
