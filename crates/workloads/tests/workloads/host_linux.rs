//! The page cache of Linux, mechanism by mechanism.

use proptest::prelude::*;
use seeklab_core::{Criticality, Duration, Instant, Operation, Seed};

use crate::common::{Server, Service};
use crate::host::{FREE, Run, host, host_with_seed, run, run_host};
use crate::host_laws::go;

const SERVICE: Duration = Duration::from_ms(10);

/// Operation, first block and number of blocks of 4 KiB of each request, in the order of issue.
fn requests(run: &Run) -> Vec<(Operation, u64, u32)> {
    let mut completions = run.completions.clone();
    completions.sort_by_key(|one| one.request.id);
    completions.iter().map(|one| (one.request.op, one.request.lbn / 8, one.request.blocks / 8)).collect()
}

fn sizes(run: &Run, op: Operation) -> Vec<u32> {
    requests(run).iter().filter(|request| request.0 == op).map(|request| request.2).collect()
}

fn linux(line: &str) -> String {
    format!("{FREE},host.profile=linux,host.page_submission=0s,{line}")
}

#[test]
fn windows_of_read_ahead_double_up_to_the_limit() {
    let program = "files.data.size=1MiB,processes.p.program=repeat 256 { read data 4KiB; compute 50ms }";
    // From Linux 6.17 on, windows end where their folios do.
    let aligned = sizes(&run(&linux(program), SERVICE), Operation::Read);
    assert_eq!(aligned, [4, 8, 4, 8, 8, 16, 16, 32, 32, 32, 32, 32, 32]);
    let line = linux(&format!("host.aligned_read_ahead=false,{program}"));
    let run = run(&line, SERVICE);
    assert_eq!(sizes(&run, Operation::Read), [4, 8, 16, 32, 32, 32, 32, 32, 32, 32, 4]);
    assert_eq!(requests(&run)[1], (Operation::Read, 4, 8));
    // All windows but the first are read before they are needed.
    assert_eq!((run.figures.io_waits, run.figures.io_wait), (1, SERVICE));
    let limited = run.figures.time_limited;
    assert_eq!((limited.requests, limited.limits, limited.limits_met), (10, 252, 252));
    let narrow = self::run(&line.replace("files", "host.read_ahead=32KiB,files"), SERVICE);
    assert_eq!(sizes(&narrow, Operation::Read)[..4], [2, 4, 8, 8]);
    // Disk arrays of today: the windows grow by four up to a sixteenth of the limit, and a device request holds half of the largest.
    let wide = line
        .replace("1MiB", "8MiB")
        .replace("256 {", "2048 {")
        .replace("files", "host.read_ahead=2560KiB,files");
    let wide = sizes(&self::run(&wide, SERVICE), Operation::Read);
    assert_eq!(wide[..7], [4, 16, 64, 128, 256, 320, 192]);
    assert_eq!(wide.iter().sum::<u32>(), 2048);
}

#[test]
fn random_reads_have_no_read_ahead() {
    let line = linux("files.data.size=400MiB,processes.p.program=repeat 50 { read data 8KiB random }");
    let run = run(&line, SERVICE);
    assert!(sizes(&run, Operation::Read).iter().filter(|size| **size == 2).count() >= 48);
    assert!(run.figures.time_limited.requests <= 1, "{:?}", run.figures);
}

#[test]
fn large_request_is_read_whole() {
    let line = linux("files.data.size=4MiB,processes.p.program=read data 256KiB at 1MiB");
    let whole = run(&line, SERVICE);
    assert_eq!(requests(&whole)[0], (Operation::Read, 256, 64));
    assert_eq!(whole.completions[0].request.criticality, Criticality::TimeCritical);
    let split = run(&line.replace("files", "host.max_request=64KiB,files"), SERVICE);
    assert!(sizes(&split, Operation::Read).iter().all(|size| *size <= 16), "{:?}", requests(&split));
}

/// Returns true if a host ends its run on a device that answers at once, with requests enough for programs that wait for each block.
fn finishes_at_once(line: &str) -> bool {
    let mut host = host(line);
    let mut device = Server::new(Service::Constant(Duration::ZERO));
    go(&mut host, &mut device, Instant::ZERO, &mut Vec::new(), 20_000);
    host.figures().is_finished
}

#[test]
fn readers_whose_requests_need_all_memory_do_not_take_blocks_from_each_other_before_they_are_used() {
    let random = "host.profile=linux,host.memory=1MiB,files.a.size=5MiB,processes.p.program=read a 1MiB random,\
                  processes.q.program=read a 512B";
    let in_order = "host.profile=linux,host.memory=256KiB,files.a.size=5MiB,processes.p.program=read a 3MiB,\
                    processes.q.program=read a 512B random";
    let partial = "host.profile=linux,host.memory=256KiB,files.a.size=5MiB,processes.p.program=read a 3MiB,\
                   processes.q.program=write a 100B random";
    for line in [random, in_order, partial] {
        for cpus in 1..4 {
            assert!(finishes_at_once(&format!("host.cpus={cpus},{line}")), "{cpus} CPUs: {line}");
        }
    }
}

#[test]
fn dirty_file_is_written_when_it_is_old() {
    let line =
        linux("files.log.size=1MiB,files.log.new=true,processes.p.program=write log 600KiB; sleep 100s");
    let run = run(&line, SERVICE);
    assert_eq!(requests(&run), [(Operation::Write, 0, 150)]);
    // The flusher looks every 5 s for files that have been dirty for 30 s.
    assert_eq!(run.completions[0].submitted.as_s(), 30.0);
    assert_eq!(run.completions[0].request.criticality, Criticality::TimeNoncritical);
    let eager =
        line.replace("files.log.size", "host.dirty_expire=1s,host.writeback_interval=2s,files.log.size");
    assert_eq!(self::run(&eager, SERVICE).completions[0].submitted.as_s(), 2.0);
}

#[test]
fn files_that_follow_each_other_share_a_request() {
    let files: Vec<String> =
        (0..6).map(|file| format!("files.f{file}.size=12KiB,files.f{file}.new=true")).collect();
    let writes: Vec<String> = (0..6).map(|file| format!("write f{file} 12KiB")).collect();
    let line = linux(&format!("{},processes.p.program={}", files.join(","), writes.join("; ")));
    assert_eq!(requests(&run(&line, SERVICE)), [(Operation::Write, 0, 18)]);
    let small = line.replace("files.f0.size", "host.max_request=28KiB,files.f0.size");
    assert_eq!(sizes(&run(&small, SERVICE), Operation::Write), [6, 6, 6]);
}

#[test]
fn writer_waits_above_the_dirty_limit() {
    let line = linux(
        "host.dirty_bytes=1MiB,host.dirty_background_bytes=512KiB,host.max_request=64KiB,files.log.size=8MiB,\
         files.log.new=true,task=p,processes.p.program=repeat 2048 { write log 4KiB }",
    );
    let run = run(&line, SERVICE);
    // 8 MiB in requests of 64 KiB take 1.28 s, and at most 1 MiB is left when the process ends. Pauses on a device of unknown bandwidth are
    // longer than it takes to write 1 MiB.
    let elapsed = run.figures.elapsed.as_s();
    assert!((1.1..1.6).contains(&elapsed), "{elapsed}");
    assert!(run.figures.io_waits >= 5 && run.figures.io_wait.as_s() > 1.0, "{:?}", run.figures);
    assert_eq!(sizes(&run, Operation::Write).iter().sum::<u32>(), 2048);
    let free = self::run(&line.replace("host.dirty_bytes=1MiB", "host.dirty_bytes=64MiB"), SERVICE);
    assert_eq!((free.figures.io_waits, free.figures.elapsed), (0, Duration::ZERO));
}

#[test]
fn no_pair_of_limits_leaves_a_writer_waiting_for_the_interval() {
    let line = linux(
        "host.writeback_interval=1h,host.dirty_expire=1h,files.log.size=1MiB,files.log.new=true,task=p,\
         processes.p.program=repeat 256 { write log 4KiB }",
    );
    for limit in ["4KiB", "8KiB", "12KiB", "64KiB"] {
        for background in ["4KiB", "8KiB", "48KiB", "4MiB"] {
            for strict in [false, true] {
                let limits = format!(
                    "host.dirty_bytes={limit},host.dirty_background_bytes={background},host.strict_dirty_limit={strict},files"
                );
                let run = run(&line.replacen("files", &limits, 1), SERVICE);
                // 256 writes one after another take 2.56 s. A writer looks again at the next tick of 4 ms.
                assert!(run.figures.elapsed.as_s() < 4.0, "{limits}: {}", run.figures.elapsed);
                assert_eq!(sizes(&run, Operation::Write).iter().sum::<u32>(), 256, "{limits}");
            }
        }
    }
}

#[test]
fn background_limit_wakes_the_flusher() {
    let line = linux(
        "host.dirty_background_bytes=1MiB,files.log.size=8MiB,files.log.new=true,\
         processes.p.program=repeat 4 { write log 512KiB }; sleep 20s",
    );
    let run = run(&line, SERVICE);
    assert_eq!(run.completions[0].submitted.as_s(), 0.0);
    // It writes until less than the limit is dirty; age writes the rest.
    assert!(sizes(&run, Operation::Write).len() >= 2);
}

/// Times at which requests came to the device in us, and how many.
fn arrivals(run: &Run) -> Vec<(u64, usize)> {
    let mut times: Vec<u64> = run.completions.iter().map(|one| one.submitted.as_ns() / 1_000).collect();
    times.sort_unstable();
    times.chunk_by(|one, next| one == next).map(|same| (same[0], same.len())).collect()
}

#[test]
fn plug_of_the_flusher_holds_requests_until_there_are_many_or_it_sleeps() {
    // Parts of 16 KiB that do not follow each other. A page takes the flusher 10 us.
    let line = linux(
        "host.dirty_background_bytes=4KiB,files.log.size=8MiB,files.log.new=true,files.log.extent=16KiB,\
         files.log.distance=64KiB,processes.p.program=write log 1280KiB",
    )
    .replace("page_submission=0s", "page_submission=10us");
    // 80 requests of 40 us each.
    assert_eq!(arrivals(&run(&line, SERVICE)), [(1_280, 32), (2_560, 32), (3_200, 16)]);
}

#[test]
fn plug_that_begins_with_a_large_request_holds_no_second_one() {
    // Parts of 128 KiB, and the same behind one of 4 KiB.
    let large = linux(
        "host.dirty_background_bytes=4KiB,files.log.size=8MiB,files.log.new=true,files.log.extent=128KiB,\
         files.log.distance=1MiB,processes.p.program=write log 640KiB",
    )
    .replace("page_submission=0s", "page_submission=10us");
    // The flusher makes a request each 320 us, and computes another 320 us for the last one before it sleeps.
    assert_eq!(arrivals(&run(&large, SERVICE)), [(320, 1), (640, 1), (960, 1), (1_280, 1), (1_600, 1)]);
    let behind_a_small_one = large
        .replace(
            "files.log.size",
            "files.a.size=4KiB,files.a.new=true,files.a.at=100MiB,files.log.at=200MiB,files.log.size",
        )
        .replace("write log", "write a 4KiB; write log");
    assert_eq!(arrivals(&run(&behind_a_small_one, SERVICE)), [(1_610, 6)]);
}

#[test]
fn flusher_that_gives_way_lets_its_plug_go() {
    // It takes 2.8 ms for the first 28 parts, then the process goes on.
    let line = linux(
        "host.dirty_background_bytes=4KiB,files.log.size=8MiB,files.log.new=true,files.log.extent=4KiB,\
         files.log.distance=64KiB,processes.p.program=write log 128KiB; write log 56KiB; sleep 1ms; compute 4ms",
    )
    .replace("page_submission=0s", "page_submission=100us");
    let together = arrivals(&run(&line.replace("sleep 1ms; compute 4ms", "sleep 9ms"), SERVICE));
    assert_eq!(together, [(3_200, 32), (4_600, 14)]);
    let apart = arrivals(&run(&line, SERVICE));
    assert_eq!(apart.iter().map(|(_, number)| number).sum::<usize>(), 46);
    assert_eq!(apart[0].0, 2_800, "{apart:?}");
    assert!(apart.last().expect("all is written").0 >= 5_600, "{apart:?}");
}

#[test]
fn flusher_that_waited_takes_no_cpu_from_a_process_though_it_used_up_a_slice_before() {
    let line = linux(
        "host.tags=38,host.dirty_background_bytes=4KiB,files.log.size=8MiB,files.log.new=true,files.log.extent=4KiB,\
         files.log.distance=64KiB,processes.p.program=write log 128KiB; write log 56KiB; sleep 1ms; compute 40ms",
    )
    .replace("page_submission=0s", "page_submission=100us");
    // Four tags are free at 42.8 ms. The process runs since 6.6 ms, and its slice ends at 43.0 ms.
    let all = arrivals(&run(&line, SERVICE));
    assert_eq!(all[1..3], [(6_600, 9), (43_400, 4)]);
}

#[test]
fn blocks_join_the_last_request_while_others_have_all_tags() {
    // Pairs of files side by side, pairs far apart: each pair is one request, though the device takes one at a time.
    let files: Vec<String> = (0..40)
        .map(|file| {
            format!(
                "files.f{file:02}.size=4KiB,files.f{file:02}.new=true,files.f{file:02}.at={}KiB",
                1024 * (file / 2 + 1) + 4 * (file % 2)
            )
        })
        .collect();
    let writes: Vec<String> = (0..40).map(|file| format!("write f{file:02} 4KiB")).collect();
    let line = linux(&format!(
        "host.tags=1,host.dirty_background_bytes=4KiB,{},processes.p.program={}",
        files.join(","),
        writes.join("; ")
    ));
    assert_eq!(sizes(&run(&line, SERVICE), Operation::Write), [2; 20]);
}

#[test]
fn request_holds_no_more_parts_of_memory_than_the_device_takes() {
    let written = |settings: &str, program: &str| {
        let line = linux(&format!(
            "host.dirty_background_bytes=4KiB,{settings}files.log.size=8MiB,files.log.new=true,processes.p.program={program}"
        ));
        sizes(&run(&line, SERVICE), Operation::Write)
    };
    // Calls of 4 KiB make folios of one block. Of 32 of those, seven follow the one before them.
    assert_eq!(written("", "repeat 640 { write log 4KiB }")[..3], [164, 164, 164]);
    assert_eq!(written("host.max_segments=64,", "repeat 128 { write log 4KiB }")[..1], [82]);
    // A call of 64 KiB makes one folio of 16 blocks, and more of them than a request has bytes.
    assert_eq!(written("", "repeat 40 { write log 64KiB }"), [320, 320]);
    assert_eq!(written("host.max_segments=10,", "repeat 40 { write log 64KiB }")[..1], [208]);
    assert_eq!(
        written("host.max_segments=10,host.large_folios=false,", "repeat 40 { write log 64KiB }")[..1],
        [13]
    );
}

#[test]
fn flusher_runs_when_the_process_sleeps_or_on_another_processor() {
    let line = linux(
        "host.dirty_background_bytes=4KiB,files.log.size=8MiB,files.log.new=true,task=p,\
         processes.p.program=repeat 2 { write log 256KiB }; compute 2ms; sleep 1ms",
    );
    assert_eq!(arrivals(&run(&line, SERVICE))[0].0, 2_000);
    let second = line.replace("host.dirty_background_bytes", "host.cpus=2,host.dirty_background_bytes");
    assert_eq!(arrivals(&run(&second, SERVICE))[0].0, 0);
    // A process that computes on and on gives way when its time slice ends.
    let long = line.replace("compute 2ms", "compute 9ms");
    assert_eq!(arrivals(&run(&long, SERVICE))[0].0, 2_800);
}

#[test]
fn device_has_no_more_requests_than_tags() {
    let files: Vec<String> = (0..40)
        .map(|file| format!("files.f{file:02}.size=4KiB,files.f{file:02}.at={}MiB", file + 1))
        .collect();
    let processes: Vec<String> =
        (0..40).map(|file| format!("processes.p{file:02}.program=read f{file:02} 4KiB")).collect();
    let line = linux(&format!("{},{}", files.join(","), processes.join(",")));
    let most = |line: &str| {
        let mut device = Server::new(Service::Constant(SERVICE));
        let mut host = host(line);
        let mut completions = 0;
        seeklab_core::simulate(&mut host, &mut device, seeklab_core::Limits::default(), |_| completions += 1)
            .expect("the device takes every request");
        (device.outstanding_max, completions)
    };
    assert_eq!(most(&line), (40, 40));
    assert_eq!(most(&line.replace("files.f00.size", "host.tags=3,files.f00.size")), (3, 40));
}

#[test]
fn writeback_is_throttled_while_reads_take_long() {
    // The writer makes 32 MiB dirty, far apart, and the flusher begins at once. The reader reads all the time.
    let line = linux(
        "host.dirty_background_bytes=4KiB,files.log.size=32MiB,files.log.new=true,files.log.extent=16KiB,\
         files.log.distance=64KiB,files.data.size=400MiB,files.data.at=4GiB,task=reader,\
         processes.writer.program=write log 32MiB,\
         processes.reader.program=sleep 1ms; repeat READS { read data 4KiB random direct }",
    );
    let waits_ms = |wbt: &str, reads: &str| {
        let run = run(
            &line.replace("files.log.size", &format!("{wbt}files.log.size")).replace("READS", reads),
            Duration::from_ms(3),
        );
        assert_eq!(sizes(&run, Operation::Write).iter().sum::<u32>(), 8192, "all is written");
        run.figures.io_wait.as_ms() / run.figures.io_waits as f64
    };
    let free = waits_ms("", "12");
    let (throttled, patient) = (waits_ms("host.wbt=2ms,", "60"), waits_ms("host.wbt=1s,", "60"));
    // A read waits for the writes before it: 128 tags, or at last one.
    assert!(free > 200.0, "{free}");
    assert!(throttled < 20.0 && throttled > 4.0, "{throttled}");
    assert!(patient > throttled * 2.0 && patient < free, "{patient}: a quarter of the depth of 96");
}

#[test]
fn synchronous_write_waits_for_its_file() {
    let line = linux(
        "files.log.size=1MiB,files.log.new=true,files.other.size=1MiB,files.other.new=true,task=p,\
         processes.p.program=write other 64KiB; write log 64KiB sync; write log 4KiB at 8KiB; sync log",
    );
    let run = run(&line, SERVICE);
    assert_eq!(requests(&run)[..2], [(Operation::Write, 0, 16), (Operation::Write, 2, 1)]);
    assert_eq!(run.figures.elapsed, SERVICE * 2);
    assert_eq!(requests(&run)[2], (Operation::Write, 256, 16));
}

#[test]
fn synchronisation_of_a_write_cache_ends_with_a_flush() {
    let line = linux(
        "host.write_cache=true,files.log.size=1MiB,files.log.new=true,processes.p.program=write log 64KiB; sync log; \
         sync; write log 4KiB sync; compute 1ms",
    );
    let run = run(&line, SERVICE);
    let flush = (Operation::Flush, 0, 0);
    let writes = [(Operation::Write, 0, 16), (Operation::Write, 16, 1)];
    assert_eq!(requests(&run), [writes[0], flush, flush, writes[1], flush]);
    assert_eq!(run.figures.elapsed, SERVICE * 5 + Duration::from_ms(1), "one after another");
    assert_eq!(run.host.process_times()[0].waits.write, SERVICE * 5);
    let without = self::run(&line.replace("write_cache=true", "write_cache=false"), SERVICE);
    assert_eq!(requests(&without), writes);
}

#[test]
fn block_that_changes_while_it_is_written_is_written_again() {
    let line = linux(
        "files.log.size=8KiB,files.log.new=true,host.dirty_expire=1s,host.writeback_interval=1s,\
         processes.p.program=write log 4KiB at 0KiB; sleep 1005ms; write log 4KiB at 0KiB; sleep 10s",
    );
    let run = run(&line, SERVICE);
    assert_eq!(requests(&run), [(Operation::Write, 0, 1), (Operation::Write, 0, 1)]);
    assert_eq!(run.figures.io_waits, 0, "a write of a block does not wait for the device");
}

#[test]
fn memory_limits_what_is_cached() {
    let line = linux("files.data.size=2MiB,processes.p.program=repeat 32 { read data 128KiB }");
    let pages = |memory: &str| -> u32 {
        sizes(&run(&line.replace("files", &format!("host.memory={memory},files")), SERVICE), Operation::Read)
            .iter()
            .sum()
    };
    assert_eq!((pages("4MiB"), pages("1MiB")), (512, 1024));
}

/// A statement of a random program.
fn statement() -> impl Strategy<Value = String> {
    prop_oneof![
        (0_u64..40_000).prop_map(|us| format!("compute {us}us")),
        (1_u64..90_000).prop_map(|bytes| format!("read data {bytes}B")),
        (1_u64..90_000).prop_map(|bytes| format!("write data {bytes}B")),
        (1_u64..9_000).prop_map(|bytes| format!("write log {bytes}B sync")),
        (1_u64..20_000).prop_map(|bytes| format!("write log {bytes}B random")),
        (1_u64..20_000).prop_map(|bytes| format!("read data {bytes}B random")),
        (0_u64..30_000).prop_map(|us| format!("sleep {us}us")),
        Just("sync".to_owned()),
        Just("sync log".to_owned()),
        Just("sync data".to_owned()),
        Just("fork child".to_owned()),
        Just("wait".to_owned()),
    ]
}

fn program() -> impl Strategy<Value = String> {
    (prop::collection::vec(statement(), 1..12), 1_u32..8)
        .prop_map(|(statements, times)| format!("repeat {times} {{ {} }}", statements.join("; ")))
}

/// A host with two processes that run random programs and start children, with little memory and few tags.
fn random_host() -> impl Strategy<Value = String> {
    let settings = (1_u32..4, prop_oneof![Just("256KiB"), Just("1MiB"), Just("40MiB")], 1_u32..100, 1_u32..9);
    (program(), program(), settings).prop_map(|(first, second, (cpus, memory, dirty, tags))| {
        format!(
            "host.profile=linux,files.data.size=3MiB,files.data.extent=64KiB,files.data.distance=1MiB,\
             files.log.size=200KiB,files.log.at=1GiB,files.log.new=true,host.cpus={cpus},host.memory={memory},\
             host.write_cache=true,host.wbt=3ms,host.dirty_limit={dirty}%,host.tags={tags},host.dirty_expire=50ms,host.writeback_interval=20ms,\
             processes.child.program=compute 3ms; read data 8KiB random; write log 100B,\
             processes.p.program={first},processes.q.program={second},processes.q.start=5ms"
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_request_completes_and_every_cpu_is_accounted_for(line in random_host(), seed in 0_u64..1000) {
        let server = || Server::new(Service::Exponential(Duration::from_ms(7), Seed(seed).stream("test.service")));
        let run = run_host(host_with_seed(&line, seed), server());
        for cpu in &run.host.cpu_times() {
            prop_assert_eq!(cpu.task + cpu.other + cpu.false_idle + cpu.idle, run.figures.elapsed);
        }
        let figures = run.figures;
        let classes = [figures.time_critical, figures.time_limited, figures.time_noncritical];
        prop_assert_eq!(classes.iter().map(|class| class.requests).sum::<u64>(), run.completions.len() as u64);
        let again = run_host(host_with_seed(&line, seed), server());
        prop_assert_eq!(&again.completions, &run.completions);
        prop_assert_eq!(again.figures, figures);
    }

    #[test]
    fn on_an_immediate_device_elapsed_is_cpu_time_and_pauses_of_writers(line in random_host(), seed in 0_u64..1000) {
        let line = line.replace("sleep", "compute").replace("processes.q.start=5ms", "processes.q.start=0s");
        let line = format!("{line},task=p").replace("host.cpus=2", "host.cpus=1").replace("host.cpus=3", "host.cpus=1");
        let run = run_host(host_with_seed(&line, seed), Server::new(Service::Constant(Duration::ZERO)));
        let pauses: Duration = run.host.process_times().iter().map(|times| times.waits.dirty_limit).sum();
        let computing = run.figures.task_cpu + run.figures.other_cpu;
        prop_assert!(run.figures.elapsed <= computing + pauses, "{:?}, {pauses}", run.figures);
        prop_assert!(run.figures.elapsed >= computing);
    }
}
