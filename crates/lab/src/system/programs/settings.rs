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
    let strict = strict.map(|bytes| bytes.min(DIRTY_MAX));
    // The kernel divides the limit of a device like those of all memory.
    let shares = (number("vm.dirty_background_ratio"), positive("vm.dirty_ratio"));
    let background = match (strict, shares) {
        (Some(limit), (Some(background), Some(ratio))) => {
            Some((limit.saturating_mul(background) / ratio).clamp(1, limit))
        }
        _ => positive("vm.dirty_background_bytes"),
    };
    let group = metadata.memory_group;
    let available = metadata.memory_bytes.get("MemAvailable").copied();
    let memory = group.map(|group| group.limit_bytes).or(available).filter(|bytes| *bytes >= MEMORY_MIN);
    // The others are left to what emulates the device, and to the threads of the kernel that are not modelled.
    let cpus = if metadata.task_cpus.is_empty() { &metadata.cpus } else { &metadata.task_cpus };
    HostSettings {
        profile: Some(Profile::Linux),
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
        aligned_read_ahead: release(&metadata.kernel).map(|release| release >= ALIGNED_READ_AHEAD),
        max_segments: number("queue.max_segments")
            .and_then(|number| u32::try_from(number).ok())
            .filter(|number| *number > 0),
        large_folios: release(&metadata.kernel).map(|release| release >= LARGE_FOLIOS),
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

/// The first two numbers of a kernel's release: 6 and 18 of `6.18.4-generic`.
fn release(kernel: &str) -> Option<(u32, u32)> {
    let mut numbers = kernel.split(|byte: char| !byte.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// The first release whose windows of read-ahead end where their folios do.
const ALIGNED_READ_AHEAD: (u32, u32) = (6, 17);

/// The first release with large folios on ext4, whose driver serves ext2 and ext3 as well.
const LARGE_FOLIOS: (u32, u32) = (6, 16);

/// Longest target of writeback throttling: a minute.
const WBT_MAX_US: u64 = 60_000_000;

/// The largest limit of dirty bytes: 1 TiB, beyond the memory of all machines. The kernel states a limit that limits nothing as a huge number.
const DIRTY_MAX: u64 = 1 << 40;

/// The largest bandwidth of writes: 1 TiB/s.
const WRITE_KIB_MAX: u64 = 1 << 30;

/// The smallest memory of a host.
const MEMORY_MIN: u64 = 256 << 10;

#[cfg(test)]
mod tests {
    use super::super::tests::metadata;
    use super::*;

    #[test]
    fn scheduler_of_the_machine_is_the_chosen_one() {
        let of = |names: &str| {
            let mut metadata = metadata();
            metadata.settings.insert("queue.scheduler".to_owned(), names.to_owned());
            scheduler(&metadata).map(ToOwned::to_owned)
        };
        assert_eq!(of("none [mq-deadline] bfq").as_deref(), Some("mq-deadline"));
        assert_eq!([of("[none] mq-deadline"), of("none"), of("")], [None, None, None]);
        assert_eq!(scheduler(&metadata()), None);
    }

    #[test]
    fn settings_are_those_of_the_machine() {
        let settings = traced(&metadata());
        assert_eq!(settings.dirty_limit.map(|limit| limit.as_f64()), Some(0.4));
        assert_eq!((settings.dirty_bytes, settings.writeback_interval), (None, None));
        let bytes =
            [settings.memory, settings.dirty_background_bytes, settings.read_ahead, settings.max_request];
        let bytes = bytes.map(|size| size.map(|size| size.as_bytes()));
        assert_eq!(bytes, [Some(1 << 30), Some(1 << 20), Some(64 << 10), Some(256 << 10)]);
        assert_eq!((settings.cpus, settings.tags), (Some(2), Some(128)));
        assert_eq!(settings.dirty_expire, Some(Duration::from_s(30)));
        assert_eq!(settings.write_bandwidth, None);
        let mut known = metadata();
        known.settings.insert("bdi.write_bandwidth_kbps".to_owned(), "560".to_owned());
        assert_eq!(traced(&known).write_bandwidth.map(|rate| rate.as_bytes_per_s()), Some(560 << 10));
        known.settings.insert("bdi.write_bandwidth_kbps".to_owned(), "0".to_owned());
        assert_eq!(traced(&known).write_bandwidth, None, "nothing was dirty");
        known.settings.insert("queue.max_segments".to_owned(), "168".to_owned());
        assert_eq!((settings.max_segments, traced(&known).max_segments), (None, Some(168)));
        let of_kernel = |kernel: &str| {
            let mut of_kernel = metadata();
            kernel.clone_into(&mut of_kernel.kernel);
            traced(&of_kernel)
        };
        let kernels = ["6.18.44-fc", "6.17", "6.16.3", "5.10.0-30-amd64", "10.1-rc2", "unknown"];
        assert_eq!(
            kernels.map(|kernel| of_kernel(kernel).aligned_read_ahead),
            [Some(true), Some(true), Some(false), Some(false), Some(true), None]
        );
        assert_eq!(
            kernels.map(|kernel| of_kernel(kernel).large_folios),
            [Some(true), Some(true), Some(true), Some(false), Some(true), None]
        );
        // A strict limit of the device replaces the limits of all memory.
        let mut strict = metadata();
        for (name, value) in [("bdi.strict_limit", "1"), ("vm.dirty_background_ratio", "10")] {
            strict.settings.insert(name.to_owned(), value.to_owned());
        }
        let settings = traced(&strict);
        let bytes = [settings.dirty_bytes, settings.dirty_background_bytes]
            .map(|size| size.map(|size| size.as_bytes()));
        assert_eq!(bytes, [Some(8 << 20), Some(2 << 20)]);
    }
}
