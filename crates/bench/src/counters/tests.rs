//! Counters of made files of `/proc`, and of this machine.

use std::fs;

use super::snapshot::Snapshot;
use super::*;

/// Files of `/proc` at two times, a second apart.
fn proc(second: bool) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let of = |before: u64, change: u64| before + if second { change } else { 0 };
    let ticks = rustix::param::clock_ticks_per_second();
    let cpu =
        format!("{} 0 {} {} {} 0 {} {} 0 0", of(100, ticks), of(7, ticks / 2), of(9, ticks / 2), 3, 4, 5);
    let files = [
        (
            "stat",
            format!(
                "cpu  {cpu}\ncpu0 {cpu}\ncpu1 0 0 0 0 0 0 0 0 0 0\nintr {} 1 2 3\nctxt {}\nbtime 1\nprocesses 5\nprocs_running 2\nprocs_blocked 1\n",
                of(1_000, 250),
                of(4_000, 900)
            ),
        ),
        (
            "net/dev",
            format!(
                "Inter-| Receive | Transmit\n face |bytes\n  eth0: {} {} 0 0 0 0 0 0 {} 30 0 0 0 0 0 0\n  idle0: 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n",
                of(1_000, 64_000),
                of(10, 64),
                of(2_000, 500)
            ),
        ),
        (
            "diskstats",
            format!(
                "   8 0 sdx {} 0 {} 5 {} 0 8 5 0 {} {} 0 0 0 0 0 0\n",
                of(10, 100),
                of(80, 800),
                of(1, 7),
                of(50, 400),
                of(60, 1_600)
            ),
        ),
        (
            "pressure/io",
            format!(
                "some avg10=0.00 avg60=0.00 avg300=0.00 total={}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=9\n",
                of(500, 250_000)
            ),
        ),
        ("vmstat", format!("pgpgin 5\npswpin {}\npswpout 2\n", of(3, 2))),
    ];
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

#[test]
fn rates_shares_and_levels_follow_from_two_readings() {
    let (before, after) = (proc(false), proc(true));
    let mut missing = Vec::new();
    let before = Snapshot::read(before.path(), &[], &mut missing);
    let after = Snapshot::read(after.path(), &[], &mut missing);
    let mut series = Vec::new();
    let values = after.since(&before, Duration::from_s(1), &mut series);
    let value = |name: &str, counter: &str| {
        let place = series.iter().position(|series| series.name == name && series.counter == counter);
        let place = place.unwrap_or_else(|| panic!("{name} {counter}"));
        let value = values.iter().find(|(of, _)| *of == place).unwrap().1;
        (value * 1e6).round() / 1e6
    };
    // Of two processors.
    assert_eq!((value("", "cpu_user_pct"), value("", "cpu_system_pct")), (50.0, 25.0));
    assert_eq!(value("", "cpu_utilisation_pct"), 75.0);
    assert_eq!(
        (value("", "interrupts_per_second"), value("", "context_switches_per_second")),
        (250.0, 900.0)
    );
    assert_eq!((value("", "runnable_threads"), value("", "blocked_threads")), (2.0, 1.0));
    assert_eq!(value("eth0", "received_bytes_per_second"), 64_000.0);
    assert_eq!(
        (value("eth0", "received_packets_per_second"), value("eth0", "sent_bytes_per_second")),
        (64.0, 500.0)
    );
    assert_eq!((value("sdx", "reads_per_second"), value("sdx", "writes_per_second")), (100.0, 7.0));
    assert_eq!((value("sdx", "read_bytes_per_second"), value("sdx", "busy_pct")), (409_600.0, 40.0));
    assert_eq!(value("sdx", "outstanding_requests"), 1.6);
    assert_eq!(value("", "io_pressure_some_pct"), 25.0);
    assert_eq!(value("", "swap_in_bytes_per_second"), 2.0 * rustix::param::page_size() as f64);
    assert!(!series.iter().any(|series| series.name == "idle0"), "it never carried anything");
    let absent: Vec<bool> = ["meminfo", "pressure/cpu", "pressure/memory"]
        .map(|name| missing.iter().any(|text| text.contains(name)))
        .to_vec();
    assert_eq!(absent, [true; 3], "{missing:?}");
    assert!(!missing.iter().any(|text| text.contains("pressure/io")), "{missing:?}");
}

#[test]
fn shares_of_processor_time_are_at_most_100_percent_of_what_the_kernel_counted() {
    let (before, after) = (proc(false), proc(true));
    let read = |folder: &tempfile::TempDir| Snapshot::read(folder.path(), &[], &mut Vec::new());
    let mut series = Vec::new();
    // The clock of the sample was read late, so it has 600 of the 1,000 ms that the kernel counted.
    let values = read(&after).since(&read(&before), Duration::from_ms(600), &mut series);
    let place = series.iter().position(|series| series.counter == "cpu_utilisation_pct").unwrap();
    let value = values.iter().find(|(of, _)| *of == place).unwrap().1;
    assert!((value - 75.0).abs() < 1e-6, "{value}");
    // No tick in between: nothing is known.
    let values = read(&before).since(&read(&before), Duration::from_ms(10), &mut series);
    assert!(!values.iter().any(|(of, _)| *of == place), "{values:?}");
}

#[test]
fn every_counter_is_declared_once_with_its_unit() {
    for (index, counter) in COUNTERS.iter().enumerate() {
        assert!(!COUNTERS[..index].iter().any(|other| other.name == counter.name), "{}", counter.name);
        let is_share = matches!(counter.kind, CounterKind::Share | CounterKind::ProcessorShare);
        assert_eq!(is_share, counter.name.ends_with("_pct"), "{}", counter.name);
    }
    let mut missing = Vec::new();
    let snapshot = Snapshot::read(Path::new("/proc"), &[], &mut missing);
    for (thing, amounts) in &snapshot.things {
        for (name, _) in amounts {
            let counter = COUNTERS.iter().find(|counter| counter.name == *name);
            assert!(counter.is_some_and(|counter| counter.scopes.contains(&thing.scope)), "{name}");
        }
    }
}

#[test]
fn this_process_and_watched_ones_are_counted_until_the_end() {
    let mut child = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
    let watch = vec![Watch::Process(child.id()), "no-such-program".parse().unwrap()];
    let options = CounterOptions { interval: Duration::from_ms(20), watch };
    let (sender, samples) = channel();
    let take: TakeSample = Box::new(move |sample, _| sender.send(sample.at).unwrap_or_default());
    let thread = CounterThread::begin(options, take).unwrap();
    let taken: Vec<Duration> = samples.iter().take(3).collect();
    let counters = thread.finish();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(counters.samples.len() >= 3 && taken.is_sorted(), "{taken:?}");
    let place = |scope, counter: &str| {
        counters.series.iter().position(|series| series.scope == scope && series.counter == counter)
    };
    let own = place(CounterScope::Own, "resident_bytes").unwrap();
    assert!(counters.values(own).all(|(_, bytes)| bytes > 1e5));
    let watched = place(CounterScope::Process, "threads").unwrap();
    assert_eq!(counters.values(watched).map(|(_, threads)| threads).fold(0.0, f64::max), 1.0);
    assert!(counters.series[watched].name.starts_with("cat ("), "{:?}", counters.series[watched]);
    assert_eq!(counters.missing, ["no process was named `no-such-program`"]);
    // The rest of an interval is a sample, too.
    let long = CounterOptions { interval: Duration::from_s(3600), watch: Vec::new() };
    let thread = CounterThread::begin(long, Box::new(|_, _| {})).unwrap();
    let clock = Clock::start();
    while clock.now() < Instant::ZERO + SAMPLE_MIN * 2 {
        std::hint::spin_loop();
    }
    assert_eq!(thread.finish().samples.len(), 1);
    let gone = CounterOptions { interval: Duration::from_ms(20), watch: vec![Watch::Process(child.id())] };
    assert!(CounterThread::begin(gone, Box::new(|_, _| {})).is_err());
}
