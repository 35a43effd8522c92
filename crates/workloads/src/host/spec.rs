//! The description of a host: its settings, its files and its processes.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use seeklab_core::description::schema::{check_ranges, schema_of, type_texts};
use seeklab_core::description::{self, DescriptionError};
use seeklab_core::{ByteSize, DataRate, Duration, Ratio};
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::profile::Profile;
use crate::text;

/// A host that runs processes, as it is described.
///
/// ```toml
/// kind = "host"
/// task = "compress"
///
/// [host]
/// profile = "svr4"
/// memory = "40MiB"
///
/// [files.in]
/// size = "31MiB"
///
/// [files.out]
/// size = "11MiB"
/// new = true
///
/// [processes.compress]
/// program = "repeat 7936 { read in 4KiB; compute 20ms; write out 1453B }"
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostSpec {
    /// Process whose elapsed time counts, with its children [default: all processes].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Settings of the host. `--host` overrides them.
    #[serde(default)]
    pub host: HostSettings,
    /// Files by name.
    #[serde(default)]
    pub files: BTreeMap<String, FileSpec>,
    /// Processes by name. A process that no `fork` names starts by itself.
    pub processes: BTreeMap<String, ProcessSpec>,
}

/// Settings of a host. The profile has the value of every setting that is omitted.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HostSettings {
    /// Operating system and machine whose settings apply [default: `svr4`; `linux` for a system-level trace and an application, which run
    /// on no other].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// Memory of the page cache. Of a trace: `MemAvailable` in `/proc/meminfo`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "256KiB"))]
    pub memory: Option<ByteSize>,
    /// Part of the memory that is no page cache: that of processes, and the kernel's for them. Of `linux`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used_memory: Option<ByteSize>,
    /// Number of CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1024), extend("x-unit" = "CPUs"))]
    pub cpus: Option<u32>,
    /// Speed of the CPUs relative to the profile and to the programs. All computing times are divided by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "0.001", "x-maximum" = "1000000"))]
    pub cpu_speed: Option<Ratio>,
    /// Time from one sweep of the syncer of `svr4` to the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "1ms"))]
    pub sweep_interval: Option<Duration>,
    /// Share of the page cache that one sweep of the syncer of `svr4` passes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "0.0001", "x-maximum" = "100%"))]
    pub sweep: Option<Ratio>,
    /// Size of the parts of memory whose frames are first used in the order in which the syncer of `svr4` passes them.
    /// The order of the parts is random.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "4KiB"))]
    pub contiguous: Option<ByteSize>,
    /// Data after a block that is read which the host reads as well, in advance. In whole blocks of 4 KiB. On `linux` the
    /// largest window of read-ahead: `queue/read_ahead_kb`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-maximum" = "1GiB"))]
    pub read_ahead: Option<ByteSize>,
    /// True if windows of read-ahead end where their large folios do, as from Linux 6.17 on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aligned_read_ahead: Option<bool>,
    /// Share of the page cache that may be dirty before processes that write must wait. On `linux`: `vm.dirty_ratio`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "0.0001", "x-maximum" = "100%"))]
    pub dirty_limit: Option<Ratio>,
    /// Data that may be dirty before processes that write must wait, instead of `dirty_limit`. Of `linux`:
    /// `vm.dirty_bytes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "4KiB"))]
    pub dirty_bytes: Option<ByteSize>,
    /// Share of the page cache that may be dirty before the flusher begins to write. Of `linux`:
    /// `vm.dirty_background_ratio`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "0.0001", "x-maximum" = "100%"))]
    pub dirty_background: Option<Ratio>,
    /// Data that may be dirty before the flusher begins to write, instead of `dirty_background`. Of `linux`:
    /// `vm.dirty_background_bytes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "4KiB"))]
    pub dirty_background_bytes: Option<ByteSize>,
    /// True if the limits of dirty data are strict ones of the device (`strict_limit` of its bdi). The flusher of `linux` then begins
    /// in the middle between both limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strict_dirty_limit: Option<bool>,
    /// Bandwidth of writes that the system takes the device to have at the start, and rate to which it first slows a writer down. Of
    /// `linux`: `BdiWriteBandwidth` in `/sys/kernel/debug/bdi/MAJOR:MINOR/stats`, which is 0 while nothing is dirty. A new device has 100 MiB/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "4KiB/s", "x-maximum" = "1TiB/s"))]
    pub write_bandwidth: Option<DataRate>,
    /// Time at the start since the device was made, or since the system last estimated its bandwidth. Of `linux`: its first estimate covers this
    /// time, and so an idle device counts as a slow one from about 4 s on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_age: Option<Duration>,
    /// Time after which the flusher writes a dirty file. Of `linux`: `vm.dirty_expire_centisecs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dirty_expire: Option<Duration>,
    /// Time from one look of the flusher for such files to the next. Of `linux`: `vm.dirty_writeback_centisecs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "1ms"))]
    pub writeback_interval: Option<Duration>,
    /// Size of a request through the page cache at most, to which requests for adjacent blocks are merged. Of `linux`:
    /// `queue/max_sectors_kb`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "4KiB", "x-maximum" = "1GiB"))]
    pub max_request: Option<ByteSize>,
    /// Parts of memory at most that one request transfers. A folio is one part. Of `linux`: `queue/max_segments`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65536), extend("x-unit" = "segments"))]
    pub max_segments: Option<u32>,
    /// True if the blocks that one call writes to a new part of a file lie in folios of several blocks, as those of ext4 have done since
    /// Linux 6.16; otherwise each block is a folio. Of `linux`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub large_folios: Option<bool>,
    /// Number of requests that the device has at most. Of `linux`: `queue/nr_requests`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65536), extend("x-unit" = "requests"))]
    pub tags: Option<u32>,
    /// True if the device has a volatile write cache, so that a synchronisation ends with a flush. Of `linux`: `write back` in
    /// `queue/write_cache`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_cache: Option<bool>,
    /// True if the device takes single writes past its write cache; otherwise a flush follows the last write of a commit. Of `linux`:
    /// `queue/fua`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fua: Option<bool>,
    /// Time that reads may take before writeback is throttled, zero for no throttling. Of `linux`: `queue/wbt_lat_usec`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wbt: Option<Duration>,
    /// CPU time of entering and leaving the system. Recorded programs contain it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_call: Option<Duration>,
    /// CPU time to submit a request. On `linux` that of the flusher alone; recorded programs contain their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submission: Option<Duration>,
    /// CPU time of the flusher for each page that it submits. Of `linux`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_submission: Option<Duration>,
    /// CPU time of the interrupt that completes a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupt: Option<Duration>,
    /// CPU time until a process runs that was chosen to run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_switch: Option<Duration>,
    /// Time from one clock interrupt to the next, zero for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_interval: Option<Duration>,
    /// CPU time of a clock interrupt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_interrupt: Option<Duration>,
    /// Longest time that a process runs while others are ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "1us"))]
    pub time_slice: Option<Duration>,
    /// Data that a pipe holds at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "1B"))]
    pub pipe: Option<ByteSize>,
    /// True if a process that wakes up preempts a process that has used up its time slice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wakeup_preemption: Option<bool>,
}

/// A system-level trace whose programs run on a host.
///
/// ```toml
/// kind = "system"
/// trace = "db.sys"
///
/// [host]
/// memory = "4GiB"
/// cpu_speed = "2"
/// ```
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SystemSpec {
    /// Folder of the trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// Program whose processes, with those that they start, are the task: its name or the number of a thread [default: all of the
    /// traced command].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Settings that differ from those of the traced machine. The profile is `linux`.
    #[serde(default)]
    pub host: HostSettings,
}

impl SystemSpec {
    /// The settings of the traced machine, overridden by those of the description.
    pub fn settings(&self, traced: &HostSettings) -> Result<HostSettings, DescriptionError> {
        let table = |settings: &HostSettings| match Value::try_from(settings) {
            Ok(Value::Table(table)) => table,
            _ => unreachable!("settings are a table"),
        };
        let mut merged = table(traced);
        text::merge(&mut merged, table(&self.host));
        read_settings(&merged)
    }
}

/// A file, or several files of one size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileSpec {
    /// Size, rounded up to blocks of 4 KiB.
    #[schemars(extend("x-minimum" = "1B"))]
    pub size: ByteSize,
    /// Address of the first block on the device [default: after the previous file, in the order of names].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<ByteSize>,
    /// Size of each file if this entry stands for several files, one after another. Read-ahead stops at the end of
    /// a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "4KiB"))]
    pub each: Option<ByteSize>,
    /// Size of each contiguous part on the device [default: `each`, or the whole file].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "4KiB"))]
    pub extent: Option<ByteSize>,
    /// Distance on the device from the start of a contiguous part to the start of the next [default: the size of
    /// a part].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "4KiB"))]
    pub distance: Option<ByteSize>,
    /// True if the file is empty at the start. A write to a part of a block then reads nothing.
    #[serde(default)]
    pub new: bool,
    /// True if the file is in the page cache at the start, as far as it fits.
    #[serde(default)]
    pub cached: bool,
}

/// A process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProcessSpec {
    /// Statements, in lines or separated by semicolons.
    pub program: String,
    /// Time at which the process starts.
    #[serde(default)]
    pub start: Duration,
    /// Number of copies that start.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 100000), extend("x-unit" = "processes"))]
    pub count: u32,
}

const fn one() -> u32 {
    1
}

impl HostSpec {
    /// Overrides settings of the host by those of a line such as `memory=40MiB,cpu_speed=2`.
    ///
    /// # Errors
    /// [`DescriptionError`] names the key, the mistake and what would be right.
    pub fn override_settings(&mut self, line: &str) -> Result<(), DescriptionError> {
        self.host.override_with(line)
    }
}

impl HostSettings {
    /// Overrides settings by those of a line such as `memory=40MiB,cpu_speed=2`.
    ///
    /// # Errors
    /// [`DescriptionError`] names the key, the mistake and what would be right.
    pub fn override_with(&mut self, line: &str) -> Result<(), DescriptionError> {
        let mut given = text::items(line)?;
        type_texts(&schema_of::<Self>(), &mut given);
        let own = Value::try_from(&*self).expect("settings have text keys");
        let Value::Table(mut table) = own else { unreachable!("settings are a table") };
        text::merge(&mut table, given);
        *self = read_settings(&table)?;
        Ok(())
    }
}

fn read_settings(table: &Table) -> Result<HostSettings, DescriptionError> {
    let settings: HostSettings = description::read(table)?;
    check_ranges(&settings)?;
    Ok(settings)
}
