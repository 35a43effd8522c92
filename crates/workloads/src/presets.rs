//! Ready-made synthetic workloads, each with the source of its numbers.

use toml::Table;

/// A synthetic workload with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    /// Its name on the command line.
    pub name: &'static str,
    /// Description of the preset, in one line.
    pub about: &'static str,
    /// Source of the preset's numbers.
    pub source: &'static str,
    /// Its description, without the kind.
    pub toml: &'static str,
}

impl Preset {
    /// Its description as a table.
    pub(crate) fn table(&self) -> Table {
        self.toml.parse().expect("a test parses every preset")
    }
}

/// Every preset, in the order of the help text. All are closed, with no think time, unless an
/// arrival process is given.
pub const PRESETS: &[Preset] = &[
    Preset {
        name: "random",
        about: "66 % reads of exponential size (mean 8 KiB), anywhere on the device, one at a time",
        source: "the workload that the DiskSim model of the Cheetah 36ES was validated with [Griffin 2004, figure 6.1]; one at a time is ours",
        toml: r#"
            read = "66%"
            size = { distribution = "exponential", mean = "8KiB" }
            arrivals = { process = "closed", population = 1 }
        "#,
    },
    Preset {
        name: "sequential",
        about: "64 KiB reads, each where the last one ended, one at a time",
        source: "a definition, not a measurement",
        toml: r#"
            read = "100%"
            size = "64KiB"
            sequential = "100%"
            arrivals = { process = "closed", population = 1 }
        "#,
    },
    Preset {
        name: "oltp",
        about: "67 % reads of 8 KiB pages, random, eight outstanding",
        source: "the `Database` access pattern distributed with Intel's IOMeter; eight outstanding is what IOMeter calls light",
        toml: r#"
            read = "67%"
            size = "8KiB"
            align = "8KiB"
            arrivals = { process = "closed", population = 8 }
        "#,
    },
    Preset {
        name: "fileserver",
        about: "80 % reads of 512 B to 64 KiB, most of 4 KiB, random, eight outstanding",
        source: "the `File Server` access pattern distributed with Intel's IOMeter; eight outstanding is what IOMeter calls light",
        toml: r#"
            read = "80%"
            size = "512B:10+1KiB:5+2KiB:5+4KiB:60+8KiB:2+16KiB:4+32KiB:4+64KiB:10"
            arrivals = { process = "closed", population = 8 }
        "#,
    },
    Preset {
        name: "webserver",
        about: "reads of 512 B to 512 KiB, random, eight outstanding",
        source: "the `Web Server` access pattern distributed with Intel's IOMeter; eight outstanding is what IOMeter calls light",
        toml: r#"
            read = "100%"
            size = "512B:22+1KiB:15+2KiB:8+4KiB:23+8KiB:15+16KiB:2+32KiB:6+64KiB:7+128KiB:1+512KiB:1"
            arrivals = { process = "closed", population = 8 }
        "#,
    },
    Preset {
        name: "track-aligned",
        about: "reads of whole tracks, chosen at random, two outstanding",
        source: "the track-aligned curve of [Griffin 2004, figure B.3]; two outstanding hide the bus, section B.3",
        toml: r#"
            read = "100%"
            address = { distribution = "extents" }
            arrivals = { process = "closed", population = 2 }
        "#,
    },
];

/// The preset of that name.
pub fn find(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}
