//! Counters of the machine, of its interfaces and of its disks.

use std::fs;
use std::path::Path;

use procfs_core::net::InterfaceDeviceStatus;
use procfs_core::prelude::{FromRead, FromReadSI};
use procfs_core::{
    CpuPressure, DiskStat, ExplicitSystemInfo, IoPressure, KernelStats, Meminfo, MemoryPressure,
    PressureRecord, ProcError, VmStat,
};

use super::snapshot::{CounterScope, Snapshot};

/// Bytes of a sector in `diskstats`.
const SECTOR_BYTES: f64 = 512.0;
const KIB: f64 = 1024.0;

/// Facts of the system that the forms of files depend on.
pub(super) fn system() -> ExplicitSystemInfo {
    ExplicitSystemInfo {
        // No value that is read depends on it.
        boot_time_secs: 0,
        ticks_per_second: rustix::param::clock_ticks_per_second(),
        page_size: rustix::param::page_size() as u64,
        is_little_endian: cfg!(target_endian = "little"),
    }
}

/// Reads a file, or says why not.
fn read_file<T>(
    root: &Path,
    name: &str,
    missing: &mut Vec<String>,
    read: impl FnOnce(fs::File) -> Result<T, ProcError>,
) -> Option<T> {
    let path = root.join(name);
    let result = fs::File::open(&path).map_err(|error| error.to_string());
    match result.and_then(|file| read(file).map_err(|error| error.to_string())) {
        Ok(value) => Some(value),
        Err(error) => {
            let text = format!("{}: {error}", path.display());
            if !missing.contains(&text) {
                missing.push(text);
            }
            None
        }
    }
}

/// Reads the counters.
pub(super) fn read(root: &Path, snapshot: &mut Snapshot, missing: &mut Vec<String>) {
    let mut amounts = Vec::new();
    let system = system();
    if let Some(stat) = read_file(root, "stat", missing, |file| KernelStats::from_read(file, &system)) {
        let processors = stat.cpu_time.len().max(1) as f64;
        let seconds = |ticks: u64| ticks as f64 / system.ticks_per_second as f64 / processors;
        let cpu = &stat.total;
        let [irq, softirq, iowait, steal] =
            [cpu.irq, cpu.softirq, cpu.iowait, cpu.steal].map(Option::unwrap_or_default);
        let busy = cpu.user + cpu.nice + cpu.system + irq + softirq + steal;
        snapshot.processor_s = seconds(busy + cpu.idle + iowait);
        amounts.extend([
            ("cpu_utilisation_pct", seconds(busy)),
            ("cpu_user_pct", seconds(cpu.user + cpu.nice)),
            ("cpu_system_pct", seconds(cpu.system)),
            ("cpu_irq_pct", seconds(irq)),
            ("cpu_softirq_pct", seconds(softirq)),
            ("cpu_iowait_pct", seconds(iowait)),
            ("cpu_steal_pct", seconds(steal)),
            ("context_switches_per_second", stat.ctxt as f64),
            ("forks_per_second", stat.processes as f64),
        ]);
        amounts.extend(stat.procs_running.map(|count| ("runnable_threads", f64::from(count))));
        amounts.extend(stat.procs_blocked.map(|count| ("blocked_threads", f64::from(count))));
    }
    amounts.extend(interrupts(root).map(|count| ("interrupts_per_second", count)));
    if let Some(memory) = read_file(root, "meminfo", missing, Meminfo::from_read) {
        let bytes = |bytes: u64| bytes as f64;
        amounts.extend([
            ("memory_free_bytes", bytes(memory.mem_free)),
            ("memory_buffers_bytes", bytes(memory.buffers)),
            ("memory_cached_bytes", bytes(memory.cached)),
            ("memory_dirty_bytes", bytes(memory.dirty)),
            ("memory_writeback_bytes", bytes(memory.writeback)),
            ("swap_used_bytes", bytes(memory.swap_total.saturating_sub(memory.swap_free))),
        ]);
        amounts.extend(memory.mem_available.map(|of| ("memory_available_bytes", bytes(of))));
        amounts.extend(memory.shmem.map(|of| ("memory_shared_bytes", bytes(of))));
    }
    if let Some(VmStat(vm)) = read_file(root, "vmstat", missing, VmStat::from_read) {
        let page = system.page_size as f64;
        let of = |key: &str, unit: f64| vm.get(key).map(|count| *count as f64 * unit);
        let rows = [
            ("swap_in_bytes_per_second", of("pswpin", page)),
            ("swap_out_bytes_per_second", of("pswpout", page)),
            ("page_in_bytes_per_second", of("pgpgin", KIB)),
            ("page_out_bytes_per_second", of("pgpgout", KIB)),
            ("major_faults_per_second", of("pgmajfault", 1.0)),
        ];
        amounts.extend(rows.into_iter().filter_map(|(name, value)| Some((name, value?))));
    }
    let stalled = |record: &PressureRecord| record.total as f64 / 1e6;
    if let Some(cpu) = read_file(root, "pressure/cpu", missing, CpuPressure::from_read) {
        amounts.push(("cpu_pressure_some_pct", stalled(&cpu.some)));
    }
    if let Some(memory) = read_file(root, "pressure/memory", missing, MemoryPressure::from_read) {
        amounts.push(("memory_pressure_some_pct", stalled(&memory.some)));
        amounts.push(("memory_pressure_full_pct", stalled(&memory.full)));
    }
    if let Some(io) = read_file(root, "pressure/io", missing, IoPressure::from_read) {
        amounts.push(("io_pressure_some_pct", stalled(&io.some)));
        amounts.push(("io_pressure_full_pct", stalled(&io.full)));
    }
    snapshot.add(CounterScope::Machine, "", 0, amounts);
    interfaces(root, snapshot, missing);
    disks(root, snapshot, missing);
}

/// All interrupts so far, which the first number behind `intr` is.
fn interrupts(root: &Path) -> Option<f64> {
    let text = fs::read_to_string(root.join("stat")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("intr "))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|count| count as f64)
}

fn interfaces(root: &Path, snapshot: &mut Snapshot, missing: &mut Vec<String>) {
    let Some(InterfaceDeviceStatus(interfaces)) =
        read_file(root, "net/dev", missing, InterfaceDeviceStatus::from_read)
    else {
        return;
    };
    for (name, of) in interfaces {
        // One that never carried anything says nothing.
        if of.recv_packets == 0 && of.sent_packets == 0 {
            continue;
        }
        let amounts = vec![
            ("received_packets_per_second", of.recv_packets as f64),
            ("received_bytes_per_second", of.recv_bytes as f64),
            ("sent_packets_per_second", of.sent_packets as f64),
            ("sent_bytes_per_second", of.sent_bytes as f64),
        ];
        snapshot.add(CounterScope::Interface, &name, 0, amounts);
    }
}

fn disks(root: &Path, snapshot: &mut Snapshot, missing: &mut Vec<String>) {
    let disks = read_file(root, "diskstats", missing, |file| {
        std::io::read_to_string(file)
            .map_err(ProcError::from)
            .map(|text| text.lines().filter_map(|line| DiskStat::from_line(line).ok()).collect::<Vec<_>>())
    });
    for of in disks.into_iter().flatten() {
        let is_partition = Path::new("/sys/class/block").join(&of.name).join("partition").exists();
        if is_partition || (of.reads == 0 && of.writes == 0) {
            continue;
        }
        let amounts = vec![
            ("reads_per_second", of.reads as f64),
            ("writes_per_second", of.writes as f64),
            ("read_bytes_per_second", of.sectors_read as f64 * SECTOR_BYTES),
            ("written_bytes_per_second", of.sectors_written as f64 * SECTOR_BYTES),
            ("busy_pct", of.time_in_progress as f64 / 1e3),
            ("outstanding_requests", of.weighted_time_in_progress as f64 / 1e3),
        ];
        snapshot.add(CounterScope::Disk, &of.name, 0, amounts);
    }
}
