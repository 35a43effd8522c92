//! The kinds of workload: the one list behind help, dispatch and near matches.

use crate::presets::PRESETS;

/// A kind of workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// Its name in TOML and on the command line.
    pub name: &'static str,
    /// Description of the kind, in one line.
    pub about: &'static str,
    /// An example on one line.
    pub example: &'static str,
    /// The same example in TOML.
    pub example_toml: &'static str,
}

/// Every kind, in the order of the help text.
pub const KINDS: &[Kind] = &[
    Kind {
        name: "synthetic",
        about: "requests drawn from distributions of size, place, operation and arrival",
        example: "synthetic,size=8KiB,read=66%,poisson=80/s,requests=100000",
        example_toml: r#"kind = "synthetic"
requests = 100000
read = "66%"
size = "8KiB"
arrivals = { process = "poisson", rate = "80/s" }
"#,
    },
    Kind {
        name: "replay",
        about: "the requests of a trace: open, scaled, closed or with its think times",
        example: "replay,trace=server.csv,closed=8,beyond=wrap",
        example_toml: r#"kind = "replay"
trace = "server.csv"
mode = "closed"
population = 8
beyond = "wrap"
"#,
    },
    Kind {
        name: "postmark",
        about: "PostMark on a file system mounted sync: small files created, read, appended to, deleted",
        example: "postmark,files=500,transactions=2000",
        example_toml: r#"kind = "postmark"
files = 500
transactions = 2000
"#,
    },
    Kind {
        name: "build",
        about: "a source package unpacked, configured and built by several processes",
        example: "build,files=100,processes=4,compile=50ms",
        example_toml: r#"kind = "build"
files = 100
processes = 4
compile = "50ms"
"#,
    },
    Kind {
        name: "database",
        about: "transactions of several clients: pages by Zipf's law, a log with group commit, checkpoints",
        example: "database,clients=8,table=256MiB,pool=32MiB",
        example_toml: r#"kind = "database"
clients = 8
table = "256MiB"
pool = "32MiB"
"#,
    },
];

/// The kind of that name.
pub fn kind(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.name == name)
}

/// Every name that a description may begin with: kinds, then presets.
pub fn names() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|kind| kind.name).chain(PRESETS.iter().map(|preset| preset.name))
}
