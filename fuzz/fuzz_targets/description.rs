//! Reading the description of a device and building it.
#![no_main]

use seeklab_core::Seed;
use seeklab_devices::Description;

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(description) = Description::parse("fuzz", "fuzz.toml", text) {
        let _ = description.build(Seed(1), "disk0");
        let again = Description::parse("fuzz", "fuzz.toml", &description.to_toml());
        assert!(again.is_ok(), "what is printed can be read");
    }
});
