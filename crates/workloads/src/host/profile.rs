//! Profiles: the settings of a known operating system and machine.
//!
//! # References
//! \[GP98\] G. R. Ganger and Y. N. Patt, Using System-Level Models to Evaluate I/O Subsystem Designs, IEEE Transactions
//! on Computers 47(6), 1998. `docs/models/host.md` derives the CPU costs from its table 6.

use schemars::JsonSchema;
use seeklab_core::{ByteSize, Duration, Ratio};
use serde::{Deserialize, Serialize};

use super::spec::HostSettings;
use super::{HORIZON, PAGE_BYTES};

/// Operating system and machine whose settings a host takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// UNIX SVR4 MP on the NCR 3433 of Ganger and Patt: one i486 at 33 MHz, 40 MiB of memory.
    #[default]
    Svr4,
    /// Linux with the settings that a kernel has by default. A system-level trace has those of its machine.
    Linux,
}

/// Settings of a host, in the units of the model. All times are those of the host's own CPUs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Settings {
    /// Frames of the page cache.
    pub(super) frames: u32,
    pub(super) cpus: u32,
    pub(super) speed: f64,
    pub(super) sweep_interval: Duration,
    /// Frames that one sweep passes.
    pub(super) sweep_frames: u32,
    /// Frames of a part of memory that the syncer passes in the order of their first use.
    pub(super) contiguous_frames: u32,
    /// Blocks read in advance.
    pub(super) read_ahead: u64,
    /// True if windows of read-ahead of Linux end where their folios do.
    pub(super) aligned_read_ahead: bool,
    /// Frames that may be dirty before writers wait.
    pub(super) dirty_frames: u32,
    pub(super) system_call: Duration,
    pub(super) submission: Duration,
    /// Time for each page of a request of the flusher.
    pub(super) page_submission: Duration,
    pub(super) interrupt: Duration,
    pub(super) context_switch: Duration,
    pub(super) clock_interval: Duration,
    pub(super) clock_interrupt: Duration,
    pub(super) time_slice: Duration,
    pub(super) wakeup_preemption: bool,
    /// Frames that may be dirty before the flusher of Linux begins to write.
    pub(super) background_frames: u32,
    /// True if the limits are strict ones of the device: the flusher begins later.
    pub(super) has_strict_limit: bool,
    /// Frames that may be dirty or being written before the flusher of Linux begins to write, if the limit is strict.
    pub(super) free_run_frames: u32,
    /// Blocks in a second that Linux takes the device to write at the start.
    pub(super) write_bandwidth: u64,
    /// Time for which Linux had the device at the start, or since it last estimated its bandwidth.
    pub(super) device_age: Duration,
    /// Time after which the flusher of Linux writes a dirty file.
    pub(super) dirty_expire: Duration,
    /// Blocks that one request through the page cache of Linux transfers at most.
    pub(super) max_pages: u64,
    /// Segments that one request through the page cache of Linux transfers at most.
    pub(super) max_segments: u32,
    /// True if what one call writes lies in folios of several blocks.
    pub(super) large_folios: bool,
    /// Requests that the device has at most.
    pub(super) tags: u32,
    /// True if the device has a volatile write cache, which synchronisations flush.
    pub(super) has_write_cache: bool,
    /// True if the device takes writes past its write cache. Otherwise a flush follows them.
    pub(super) has_fua: bool,
    /// Time that reads may take before writeback is throttled. Zero for no throttling.
    pub(super) writeback_throttling: Duration,
    /// Data that a pipe holds at most.
    pub(super) pipe_bytes: u64,
}

/// Limits of the dirty part of memory under Linux, in frames.
struct DirtyLimits {
    background: u32,
    limit: u32,
}

impl DirtyLimits {
    fn new(given: &HostSettings, frames: u32) -> Self {
        let share = |ratio: Option<Ratio>, percent: f64| {
            (f64::from(frames) * ratio.map_or(percent / 100.0, Ratio::as_f64)) as u32
        };
        let of = |bytes: Option<ByteSize>, share: u32| bytes.map_or(share, pages).max(1);
        let limit = of(given.dirty_bytes, share(given.dirty_limit, 20.0));
        let background = of(given.dirty_background_bytes, share(given.dirty_background, 10.0));
        // The kernel takes half of the limit where the background limit is not below the limit.
        let background = if background < limit { background } else { limit / 2 };
        Self { background, limit }
    }
}

impl Settings {
    /// The settings of a description, with those of its profile where it has none.
    pub(super) fn new(given: &HostSettings) -> Self {
        let speed = given.cpu_speed.map_or(1.0, Ratio::as_f64);
        let time = |given: Option<Duration>, of_profile: Duration| given.unwrap_or(of_profile).min(HORIZON);
        let cost = |given: Option<Duration>, of_profile| scaled(given.unwrap_or(of_profile), speed);
        match given.profile.unwrap_or_default() {
            Profile::Svr4 => {
                let frames = pages(given.memory.unwrap_or(ByteSize::from_bytes(40 << 20)));
                let share = |ratio: Ratio| ((f64::from(frames) * ratio.as_f64()).round() as u32).max(1);
                Self {
                    frames,
                    cpus: given.cpus.unwrap_or(1),
                    speed,
                    sweep_interval: time(given.sweep_interval, Duration::from_s(1)),
                    // The paper does not state the share. 1/30 passes all memory in the 30 s of a conventional update.
                    sweep_frames: share(given.sweep.unwrap_or(Ratio::from_const(1.0 / 30.0))),
                    // Not in the paper: the free memory of a system that has run for a while lies anywhere.
                    contiguous_frames: given.contiguous.map_or(1, |size| pages(size).max(1)),
                    read_ahead: given.read_ahead.map_or(1, |size| size.as_bytes().div_ceil(PAGE_BYTES)),
                    aligned_read_ahead: false,
                    dirty_frames: share(given.dirty_limit.unwrap_or(Ratio::ONE)),
                    system_call: cost(given.system_call, Duration::from_us(100)),
                    submission: cost(given.submission, Duration::from_us(500)),
                    page_submission: Duration::ZERO,
                    interrupt: cost(given.interrupt, Duration::from_us(1000)),
                    context_switch: cost(given.context_switch, Duration::from_us(100)),
                    clock_interval: time(given.clock_interval, Duration::from_ms(10)),
                    clock_interrupt: cost(given.clock_interrupt, Duration::from_us(150)),
                    time_slice: time(given.time_slice, Duration::from_ms(100)),
                    wakeup_preemption: given.wakeup_preemption.unwrap_or(true),
                    has_write_cache: false,
                    has_fua: true,
                    writeback_throttling: Duration::ZERO,
                    pipe_bytes: given.pipe.map_or(5 << 10, ByteSize::as_bytes),
                    background_frames: u32::MAX,
                    has_strict_limit: false,
                    free_run_frames: u32::MAX,
                    write_bandwidth: 0,
                    device_age: Duration::ZERO,
                    dirty_expire: Duration::ZERO,
                    max_pages: 1,
                    max_segments: 1,
                    large_folios: false,
                    tags: u32::MAX,
                }
            }
            Profile::Linux => {
                let memory = given.memory.unwrap_or(ByteSize::from_bytes(4 << 30)).as_bytes();
                let used = given.used_memory.map_or(0, ByteSize::as_bytes);
                let frames =
                    pages(ByteSize::from_bytes(memory.saturating_sub(used).max(FRAMES_MIN * PAGE_BYTES)));
                let dirty = DirtyLimits::new(given, frames);
                let blocks = |size: Option<ByteSize>, kib: u64| {
                    size.map_or(kib << 10, ByteSize::as_bytes) / PAGE_BYTES
                };
                Self {
                    frames,
                    cpus: given.cpus.unwrap_or(1),
                    speed,
                    sweep_interval: time(given.writeback_interval, Duration::from_s(5)),
                    sweep_frames: 0,
                    contiguous_frames: frames,
                    read_ahead: blocks(given.read_ahead, 128),
                    aligned_read_ahead: given.aligned_read_ahead.unwrap_or(true),
                    dirty_frames: dirty.limit,
                    background_frames: dirty.background,
                    has_strict_limit: given.strict_dirty_limit.unwrap_or(false),
                    free_run_frames: (dirty.background + dirty.limit) / 2,
                    // `INIT_BW`.
                    write_bandwidth: given
                        .write_bandwidth
                        .map_or(25_600, |rate| (rate.as_bytes_per_s() / PAGE_BYTES).max(1)),
                    // Longer than the period over which it is averaged.
                    device_age: time(given.device_age, Duration::from_s(5)),
                    dirty_expire: time(given.dirty_expire, Duration::from_s(30)),
                    max_pages: blocks(given.max_request, 1280).max(1),
                    // `BLK_MAX_SEGMENTS`.
                    max_segments: given.max_segments.unwrap_or(128),
                    large_folios: given.large_folios.unwrap_or(true),
                    tags: given.tags.unwrap_or(128),
                    // Chosen here. The costs of a current machine are small beside those of a disk.
                    system_call: cost(given.system_call, Duration::from_ns(200)),
                    submission: cost(given.submission, Duration::from_us(5)),
                    // Copies of small files on a machine of 2026.
                    page_submission: cost(given.page_submission, Duration::from_ns(700)),
                    interrupt: cost(given.interrupt, Duration::from_us(5)),
                    context_switch: cost(given.context_switch, Duration::from_us(2)),
                    clock_interval: time(given.clock_interval, Duration::ZERO),
                    clock_interrupt: cost(given.clock_interrupt, Duration::from_us(2)),
                    time_slice: time(given.time_slice, Duration::from_us(2800)),
                    wakeup_preemption: given.wakeup_preemption.unwrap_or(true),
                    has_write_cache: given.write_cache.unwrap_or(false),
                    has_fua: given.fua.unwrap_or(true),
                    writeback_throttling: time(given.wbt, Duration::ZERO),
                    pipe_bytes: given.pipe.map_or(64 << 10, ByteSize::as_bytes),
                }
            }
        }
    }
}

/// Whole frames in a part of memory, below the number that stands for none.
fn pages(size: ByteSize) -> u32 {
    u32::try_from(size.as_bytes() / PAGE_BYTES).unwrap_or(u32::MAX).min(u32::MAX - 1)
}

/// Frames that the page cache of Linux has at least: 256 KiB.
const FRAMES_MIN: u64 = 64;

/// A computing time on CPUs of that speed.
pub(super) fn scaled(time: Duration, speed: f64) -> Duration {
    if speed == 1.0 { time } else { Duration::from_ns_f64(time.as_ns() as f64 / speed) }
}
