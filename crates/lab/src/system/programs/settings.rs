//! Settings of the traced machine.

use seeklab_core::{ByteSize, DataRate, Duration, Ratio};
use seeklab_workloads::host::{HostSettings, Profile};

use crate::system::metadata::SystemMetadata;

/// The settings of the machine that recorded a trace. What it does not state has the default of the profile.
pub(super) fn traced(metadata: &SystemMetadata) -> HostSettings {
    let number = |name: &str| metadata.settings.get(name)?.parse::<u64>().ok();
    let positive = |name: &str| number(name).filter(|number| *number > 0);
    let percent = |name: &str| Ratio::new(positive(name)? as f64 / 100.0);
    let centiseconds = |name: &str| Some(Duration::from_ms(number(name)?.saturating_mul(10)));
    let kibibytes = |name: &str| Some(ByteSize::from_bytes(number(name)?.saturating_mul(1024)));
    let strict = positive("bdi.strict_limit").and(positive("bdi.max_bytes"));
    // The kernel divides the limit of a device like those of all memory.
    let shares = (number("vm.dirty_background_ratio"), positive("vm.dirty_ratio"));
    let background = match (strict, shares) {
        (Some(limit), (Some(background), Some(ratio))) => Some((limit * background / ratio).max(1)),
        _ => positive("vm.dirty_background_bytes"),
    };
    let group = metadata.memory_group;
    let available = metadata.memory_bytes.get("MemAvailable").copied();
    let memory = group.map(|group| group.limit_bytes).or(available).filter(|bytes| *bytes >= MEMORY_MIN);
    // The others are left to what emulates the device, and to the threads of the kernel that are not modelled.
    let cpus = if metadata.task_cpus.is_empty() { &metadata.cpus } else { &metadata.task_cpus };
    HostSettings {
        profile: Profile::Linux,
        memory: memory.map(ByteSize::from_bytes),
        used_memory: group.map(|group| ByteSize::from_bytes(group.used_bytes)),
        cpus: u32::try_from(cpus.len()).ok().filter(|cpus| *cpus > 0),
        dirty_limit: percent("vm.dirty_ratio"),
        // A strict limit of the device counts in place of that of all memory.
        dirty_bytes: strict.or(positive("vm.dirty_bytes")).map(ByteSize::from_bytes),
        dirty_background: percent("vm.dirty_background_ratio"),
        dirty_background_bytes: background.map(ByteSize::from_bytes),
        strict_dirty_limit: strict.map(|_| true),
        // The kernel states it only while something is dirty.
        write_bandwidth: positive("bdi.write_bandwidth_kbps")
            .map(|kibibytes| DataRate::from_bytes_per_s(kibibytes.min(WRITE_KIB_MAX) * 1024)),
        device_age: metadata.device_age_ns.map(Duration::from_ns),
        dirty_expire: centiseconds("vm.dirty_expire_centisecs"),
        writeback_interval: centiseconds("vm.dirty_writeback_centisecs").filter(|time| !time.is_zero()),
        read_ahead: kibibytes("queue.read_ahead_kb"),
        max_request: kibibytes("queue.max_sectors_kb").filter(|size| size.as_bytes() >= 4096),
        tags: number("queue.nr_requests").and_then(|tags| u32::try_from(tags).ok()).filter(|tags| *tags > 0),
        write_cache: metadata.settings.get("queue.write_cache").map(|cache| cache == "write back"),
        fua: number("queue.fua").map(|fua| fua != 0),
        wbt: number("queue.wbt_lat_usec").map(|us| Duration::from_us(us.min(WBT_MAX_US))),
        ..HostSettings::default()
    }
}

/// The I/O scheduler of the traced machine: the name in brackets of `none [mq-deadline] bfq`. `None` if it had none.
pub(super) fn scheduler(metadata: &SystemMetadata) -> Option<&str> {
    let names = metadata.settings.get("queue.scheduler")?;
    let (_, chosen) = names.split_once('[')?;
    chosen.split(']').next().filter(|name| !["", "none"].contains(name))
}

/// Longest target of writeback throttling: a minute.
const WBT_MAX_US: u64 = 60_000_000;

/// The largest bandwidth of writes: 1 TiB/s.
const WRITE_KIB_MAX: u64 = 1 << 30;

/// The smallest memory of a host.
const MEMORY_MIN: u64 = 256 << 10;
