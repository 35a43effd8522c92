//! The kinds of workload: the one list behind help, dispatch and near matches.

use seeklab_core::description::schema::schema_of;
use seeklab_core::description::{self, DescriptionError, Mistake, ParameterInfo};
use serde_json::Value;

use crate::application::{BuildSpec, DatabaseSpec, PostmarkSpec};
use crate::host::{HostSpec, SystemSpec};
use crate::jobs::JobsSpec;
use crate::presets::PRESETS;
use crate::replay::ReplaySpec;
use crate::synthetic::SyntheticSpec;

/// A kind of workload.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// Its name in TOML and on the command line.
    pub name: &'static str,
    /// Description of the kind, in one line.
    pub about: &'static str,
    /// An example on one line.
    pub example: &'static str,
    /// The same example in TOML.
    pub example_toml: &'static str,
    schema: fn() -> Value,
}

impl Kind {
    /// The JSON schema of its keys, without `kind` and `preset`.
    pub(crate) fn schema(&self) -> Value {
        (self.schema)()
    }

    /// Every key in the order of declaration.
    pub fn parameters(&self) -> Vec<ParameterInfo> {
        description::reference(&self.schema())
    }
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
        schema: schema_of::<SyntheticSpec>,
    },
    Kind {
        name: "replay",
        about: "the requests of a trace: open, scaled, closed, with its think times, or after what they followed",
        example: "replay,trace=server.csv,arrivals=closed 8,beyond=wrap",
        example_toml: r#"kind = "replay"
trace = "server.csv"
arrivals = "closed 8"
beyond = "wrap"
"#,
        schema: schema_of::<ReplaySpec>,
    },
    Kind {
        name: "postmark",
        about: "PostMark on a file system mounted sync: small files created, read, appended to, deleted",
        example: "postmark,files=500,transactions=2000",
        example_toml: r#"kind = "postmark"
files = 500
transactions = 2000
"#,
        schema: schema_of::<PostmarkSpec>,
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
        schema: schema_of::<BuildSpec>,
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
        schema: schema_of::<DatabaseSpec>,
    },
    Kind {
        name: "host",
        about: "processes on a host with CPUs, a page cache and a syncer: what an application takes",
        example: "host,files.data.size=4MiB,processes.p.program=read data 4MiB",
        example_toml: r#"kind = "host"

[files.data]
size = "4MiB"

[processes.p]
program = "read data 4MiB"
"#,
        schema: schema_of::<HostSpec>,
    },
    Kind {
        name: "system",
        about: "the processes of a system-level trace on a host with a page cache: what the command takes elsewhere",
        example: "system,trace=db.sys,host.memory=4GiB,host.cpu_speed=2",
        example_toml: r#"kind = "system"
trace = "db.sys"

[host]
memory = "4GiB"
cpu_speed = "2"
"#,
        schema: schema_of::<SystemSpec>,
    },
    Kind {
        name: "jobs",
        about: "jobs that compute while their buffers are written and read, sharing one processor",
        example: "jobs,buffer=8,input=5000/s:50%:45+39/s:50%:45,output=200/s",
        example_toml: r#"kind = "jobs"
buffer = 8
input = "5000/s:50%:45+39/s:50%:45"
output = "200/s"
"#,
        schema: schema_of::<JobsSpec>,
    },
];

/// The kind of that name, `None` if there is none.
pub(crate) fn find(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.name == name)
}

/// The kind of that name.
///
/// # Errors
/// A name that is not there, with the near ones.
pub fn kind(name: &str) -> Result<&'static Kind, DescriptionError> {
    let names = KINDS.iter().map(|kind| kind.name);
    find(name).ok_or_else(|| DescriptionError::unknown(Mistake::UnknownName, "kind", name, names))
}

/// Every name that a description may begin with: kinds, then presets.
pub fn names() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|kind| kind.name).chain(PRESETS.iter().map(|preset| preset.name))
}
