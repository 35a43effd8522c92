//! Jobs as fio 3.33 runs them. The figures that are compared with are those of its runs with the same jobs.

use std::path::PathBuf;

use seeklab_core::{
    Arrival, Breakdown, BufferOutcome, Completion, FaultSet, Instant, Operation, Outcome, Request, Workload,
};
use seeklab_workloads::AddressSpace;

use super::*;

/// A folder with a job file, and `there.img` with 1,000,000 bytes.
fn read_job(text: &str) -> (tempfile::TempDir, Result<BenchOptions, Failure>) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| -> PathBuf { folder.path().join(name) };
    std::fs::write(path("there.img"), vec![7; 1_000_000]).unwrap();
    std::fs::write(path("job.fio"), text.replace("there.img", &path("there.img").to_string_lossy())).unwrap();
    let options = read(&path("job.fio"), FioOptions::default(), &PlanOverrides::default());
    (folder, options)
}

fn load_of(text: &str) -> FioLoad {
    let (_folder, options) = read_job(text);
    match &options.unwrap().phases[0].streams[0].workload {
        StreamLoad::Job(load, _) => (**load).clone(),
        StreamLoad::Workload(_) => panic!("a job is a load of fio"),
    }
}

/// Requests of an open job by operation: reads, writes, flushes, discards.
fn counts(text: &str) -> [usize; 4] {
    let load = load_of(&format!("[a]\nioengine=null\nsize=1g\nruntime=2s\ntime_based\n{text}"));
    let space = AddressSpace { capacity_blocks: 2 << 20, block_size: ByteSize::from_bytes(512) };
    let mut workload = load.workload(space, Seed(1)).unwrap();
    let (mut now, mut found) = (Instant::ZERO, [0; 4]);
    loop {
        match workload.next_arrival(now) {
            Arrival::At(time) => now = time,
            Arrival::Request(request) => {
                let place = [Operation::Read, Operation::Write, Operation::Flush, Operation::Discard]
                    .iter()
                    .position(|op| *op == request.op);
                found[place.unwrap()] += 1;
            }
            Arrival::Finished => return found,
            other => panic!("an open job only has requests and times: {other:?}"),
        }
    }
}

fn refusal(text: &str) -> String {
    let (_folder, options) = read_job(text);
    options.unwrap_err().to_string()
}

#[test]
fn each_direction_has_its_rate() {
    let mixed = "rw=randrw\nrwmixread=90\n";
    assert_eq!(counts(&format!("{mixed}rate_iops=100\n")), [200, 200, 0, 0]);
    assert_eq!(counts(&format!("{mixed}rate_iops=100,50\n")), [200, 100, 0, 0]);
    assert_eq!(counts("rw=randrw\nrwmixread=10\nrate=1m,512k\nbs=4k,8k\n"), [512, 128, 0, 0]);
    assert_eq!(counts("rw=randrw\nrwmixread=100\nrate_iops=100,50\n"), [200, 0, 0, 0]);
    assert_eq!(counts("rw=trim\nrate_iops=10,20,50\n"), [0, 0, 0, 100]);
    // A flush follows its write and takes no place of another one.
    assert_eq!(counts("rw=randwrite\nrate_iops=1000\nfsync=2\n")[1..3], [2000, 1000]);
    // fio counts the bytes of the shortest request: 26 requests of 4 to 64 KiB in its run.
    let reads = counts("rw=randread\nrate_iops=100\nbsrange=4k-64k\n")[0];
    assert!((18..35).contains(&reads), "{reads}");
    // Only `poisson` counts requests: 1,981 in its run.
    let reads = counts("rw=randread\nrate_iops=1000\nbsrange=4k-64k\nrate_process=poisson\n")[0];
    assert!((1_860..2_140).contains(&reads), "{reads}");
}

#[test]
fn rates_of_jobs_are_offered_rates() {
    let base = "[a]\nioengine=null\nsize=1g\n";
    let mut load = load_of(&format!("{base}rw=randrw\nrate_iops=100,50\nbs=4k,8k\n"));
    assert_eq!(load.rate_per_s(), Some(150.0));
    assert!(load.set_rate(300.0));
    assert_eq!(load.rate_per_s(), Some(300.0));
    assert!(!load_of(&format!("{base}rw=randrw\n")).set_rate(300.0));
}

#[test]
fn options_without_their_effect_are_refused_by_name_and_line() {
    let base = "[global]\nioengine=null\nsize=1m\n[a]\nrw=randrw\n";
    for (text, expected) in [
        ("rate_iops=100,\n", "line 6: rate_iops=100,: one direction of a mixed job has a rate"),
        ("rate_iops=1,2,3,4\n", "line 6: rate_iops=1,2,3,4: has more values"),
        ("rate=1m\nrate_iops=100\n", "line 7: rate_iops=100: stands beside `rate`"),
        ("rate_iops=100\nthinktime=5\n", "line 7: thinktime=5: goes with jobs without a rate"),
        ("create_only=1\n", "line 6: create_only=1: nothing would be measured"),
        ("stats=0\n", "line 6: stats=0: the figures of every job count"),
        ("exitall_on_error\n", "line 6: exitall_on_error: errors end no job"),
        ("hipri_percentage=50\n", "line 6: hipri_percentage=50: has no counterpart here"),
        ("hipri\n", "line 6: hipri: goes with ioengine=io_uring"),
        ("sqthread_poll=1\n", "line 6: sqthread_poll=1: goes with ioengine=io_uring"),
        ("nrfiles=200\n", "line 6: nrfiles=200: one file per job is allowed"),
        ("thinktime_blocks=0\n", "line 6: thinktime_blocks=0: 1 and more are allowed"),
        ("verify=md5\n", "line 6: verify=md5: `null` carries no data"),
        (
            "write_hist_log\n",
            "line 6: write_hist_log: fio's log of histograms is not written; --folder keeps",
        ),
        ("zonemode=zbd\n", "line 6: zonemode=zbd: zones of zoned devices are not honoured"),
        ("continue_on_error=none\n", "line 6: continue_on_error=none: errors end no job here"),
        (
            "io_submit_mode=offload\nioengine=psync\niodepth=4\n",
            "line 6: io_submit_mode=offload: goes with iodepth=1",
        ),
        ("iodepth_batch=4\n", "line 6: iodepth_batch=4: 1 is allowed"),
        ("runime=2\n", "line 6: runime=2: has no counterpart here; did you mean `runtime`?"),
        ("size=50%\n", "line 4: job `a`: has no `size`"),
        (
            "ioengine=libaio\niodepth=8\nrate_iops=9\niodepth_batch_complete_min=4\n",
            "line 9: iodepth_batch_complete_min=4: goes with jobs without a rate",
        ),
    ] {
        let refused = refusal(&format!("{base}{text}"));
        assert!(refused.contains(expected), "{text}: {refused}");
    }
    load_of(&format!(
        "{base}create_only=0\nexitall_on_error=0\nstats=1\nzonemode=none\ncontinue_on_error=all\n"
    ));
    load_of(&format!("{base}hipri=0\nsqthread_poll=0\nio_submit_mode=offload\niodepth_batch=1\n"));
}

#[test]
fn polling_is_that_of_the_ring() {
    let of = |text: &str| {
        let text = format!("[a]\nfilename=there.img\nrw=read\nioengine=io_uring\ndirect=1\n{text}");
        read_job(&text).1.unwrap().targets[0].polling
    };
    assert_eq!(of("sqthread_poll\n"), Polling { submission: true, completion: false });
    assert_eq!(of("sqthread_poll=1\nhipri\n"), Polling { submission: true, completion: true });
    let both =
        refusal("[global]\nfilename=there.img\nrw=read\nioengine=io_uring\n[a]\n[b]\nsqthread_poll=1\n");
    assert!(both.contains("`sqthread_poll=0` and `sqthread_poll=1`"), "{both}");
}

#[test]
fn think_time_follows_every_nth_request_and_no_flush() {
    let load = load_of(
        "[a]\nioengine=null\nsize=1m\nrw=write\nthinktime=10ms\nthinktime_blocks=3\nfsync=2\nnumber_ios=7\n",
    );
    let space = AddressSpace { capacity_blocks: 2 << 20, block_size: ByteSize::from_bytes(512) };
    let mut workload = load.workload(space, Seed(1)).unwrap();
    let (mut now, mut found) = (Instant::ZERO, Vec::new());
    loop {
        match workload.next_arrival(now) {
            Arrival::At(time) => now = time,
            Arrival::Request(request) => {
                found.push((request.op == Operation::Flush, now.as_ns() / 1_000_000));
                workload.completed(&completed(request, now));
            }
            Arrival::Finished => break,
            other => panic!("{other:?}"),
        }
    }
    let [write, flush] = [false, true].map(|is_flush| move |ms: u64| (is_flush, ms));
    let expected = [
        write(0),
        write(0),
        flush(0),
        write(0),
        write(10),
        flush(10),
        write(10),
        write(10),
        flush(20),
        write(20),
    ];
    assert_eq!(found, expected);
}

/// The end of a request that took no time.
fn completed(request: Request, now: Instant) -> Completion {
    Completion {
        request,
        submitted: now,
        issued: now,
        started: now,
        completed: now,
        breakdown: Breakdown::default(),
        outcome: Outcome::ok(&request),
        buffer: BufferOutcome::None,
        seek_cylinders: 0,
        queue_length: 0,
        faults: FaultSet::NONE,
    }
}

#[test]
fn trims_have_the_third_size() {
    let base = "[a]\nioengine=null\nsize=1m\nrw=trim\n";
    for (sizes, bytes) in [("4k,8k,16k", 16_384), ("4k,8k", 8_192), ("4k", 4_096), ("4k,8k,", 4_096)] {
        let load = load_of(&format!("{base}bs={sizes}\n"));
        assert_eq!(load.sizes[1], [FioSize { bytes, share: 1.0 }], "{sizes}");
    }
}

#[test]
fn shares_of_a_file_are_rounded_as_by_fio() {
    // fio reads 122 blocks of the half of 1,000,000 bytes, and begins at byte 253,952 for a quarter.
    let base = "[a]\nfilename=there.img\nrw=read\nbs=4k\n";
    let places = |text: &str| {
        let load = load_of(&format!("{base}{text}"));
        (load.offset, load.size)
    };
    assert_eq!(places("size=50%\n"), (0, Some(499_712)));
    assert_eq!(places("offset=25%\nsize=50%\n"), (253_952, Some(499_712)));
    assert_eq!(places("offset=25%\n"), (253_952, None));
    // The later option counts.
    assert_eq!(places("size=50%\nsize=8k\noffset=25%\noffset=4k\n"), (4_096, Some(8_192)));
    assert_eq!(load_of("[a]\nfilename=absent\nfilesize=1m\nrw=read\nsize=50%\n").size, Some(1 << 19));
}

#[test]
fn batches_end_at_the_depth() {
    let batch = |engine: &str| {
        let text = format!(
            "[a]\nfilename=there.img\nrw=read\nioengine={engine}\niodepth=8\niodepth_batch_complete_min="
        );
        [4, 9].map(|batch| read_job(&format!("{text}{batch}\n")).1.unwrap().phases[0].streams[0].batch)
    };
    assert_eq!((batch("libaio"), batch("psync")), ([4, 8], [1, 1]));
}

#[test]
fn buffered_files_lose_their_pages_unless_the_job_keeps_them() {
    let of = |text: &str| {
        let options = read_job(&format!("[a]\nfilename=there.img\nrw=read\n{text}")).1.unwrap();
        (options.targets[0].buffered, options.targets[0].drops_pages)
    };
    assert_eq!(
        (of(""), of("invalidate=0\n"), of("direct=1\n")),
        ((true, true), (true, false), (false, false))
    );
    let both = refusal("[a]\nfilename=there.img\nrw=read\n[b]\nfilename=there.img\nrw=read\ninvalidate=0\n");
    assert!(both.contains("`invalidate=0` and `invalidate=1`"), "{both}");
    let null = read_job("[a]\nioengine=null\nsize=1m\nrw=read\n").1.unwrap();
    assert!(!null.targets[0].buffered && !null.targets[0].drops_pages);
}
