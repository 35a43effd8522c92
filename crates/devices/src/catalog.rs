//! Named devices, embedded from `catalog/*.toml`.

use seeklab_core::names::near_matches;
use seeklab_core::{DescriptionError, Mistake};

use crate::description::Description;

include!(concat!(env!("OUT_DIR"), "/catalog.rs"));

/// Names of all devices of the catalog, in order.
pub fn names() -> impl Iterator<Item = &'static str> {
    ENTRIES.iter().map(|(name, _)| *name)
}

/// The device of that name.
///
/// # Errors
/// A name that is not there, with the near ones.
pub fn find(name: &str) -> Result<Description, DescriptionError> {
    let (name, text) = ENTRIES.iter().find(|(entry, _)| *entry == name).ok_or_else(|| {
        let problem = format!("there is no device `{name}` in the catalog{}", near_matches(name, names()));
        DescriptionError::new(Mistake::UnknownName, "", problem)
            .hint("`seeklab devices` lists the catalog; a file is named by a path that ends in .toml")
    })?;
    Description::parse(name, &label(name), text)
}

/// The file of that device, for messages.
pub(crate) fn label(name: &str) -> String {
    format!("catalog/{name}.toml")
}

#[cfg(test)]
mod tests {
    use super::*;
    use seeklab_core::Seed;

    #[test]
    fn drives_measured_behind_a_slow_host_bus_say_so() {
        let limited = |name: &&str| {
            let description = find(name).unwrap();
            description.header.sources.values().any(|source| source.contains("5 MB/s, the host's limit"))
        };
        let limited: Vec<&str> = names().filter(limited).collect();
        assert_eq!(limited, ["atlas10k", "barracuda", "cheetah9lp"]);
        for name in limited {
            let validated = find(name).unwrap().header.validated;
            assert!(
                validated.starts_with("measured drive behind a 5 MB/s host bus, "),
                "{name}: {validated}"
            );
        }
    }

    #[test]
    fn every_device_of_the_catalog_builds() {
        for name in names() {
            let description = find(name).unwrap_or_else(|error| panic!("{error}"));
            let device = description.build(Seed(1), "disk0").unwrap_or_else(|error| panic!("{error}"));
            assert!(device.capabilities().capacity_blocks > 0, "{name}");
            assert!(!description.header.title.is_empty(), "{name} has a title");
            assert!(
                description.header.sources.contains_key("default"),
                "{name} says where its values are from"
            );
            assert!(!description.header.validated.is_empty(), "{name} says what it was validated against");
        }
    }

    #[test]
    fn device_with_a_base_keeps_its_own_sources() {
        let description = find("cheetah-36es-50krpm").unwrap();
        let parameters = description.parameters();
        let of = |path: &str| parameters.iter().find(|(other, _, _)| other == path).unwrap();
        let (_, value, source) = of("mechanics.rpm");
        assert_eq!(value, "50000rpm");
        assert!(source.starts_with("[Griffin 2004, section 6.1.1]"), "{source}");
        let (_, _, source) = of("mechanics.write_settle");
        assert!(source.starts_with("derived"), "the base's: {source}");
    }

    #[test]
    fn wrong_name_suggests_near_names() {
        let error = find("hp_c2247a").unwrap_err().to_string();
        assert!(error.contains("did you mean `hp-c2247a`"), "{error}");
    }
}
