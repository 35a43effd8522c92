//! `seeklab bench JOB.fio`: fio's meanings, checked against the requests that fio itself writes to a log.

use std::process::Command;

use serde_json::Value;

use super::bench::{Bench, unfolded};

/// A request: operation, first byte, bytes.
type Row = (String, u64, u64);

/// The requests that fio makes of a job, by its own log. `None` without fio.
fn by_fio(bench: &Bench, job: &str) -> Option<Vec<Row>> {
    let job = job.replacen("[global]", "[global]\nwrite_iolog=fio.log", 1);
    bench.write("logged.fio", &job);
    let ran = Command::new("fio").arg("logged.fio").current_dir(bench.path(".")).output().ok()?;
    assert!(ran.status.success(), "{job}: {}", String::from_utf8_lossy(&ran.stderr));
    let log = String::from_utf8(bench.read("fio.log")).unwrap();
    let row = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let at =
            fields.iter().position(|field| ["read", "write", "trim", "sync", "datasync"].contains(field))?;
        let number = |index: usize| fields.get(at + index).map_or(0, |field| field.parse().unwrap());
        let op = match fields[at] {
            "trim" => "discard",
            "sync" | "datasync" => return Some(("flush".to_owned(), 0, 0)),
            op => op,
        };
        Some((op.to_owned(), number(1), number(2)))
    };
    let rows = log.lines().filter_map(row).collect();
    std::fs::remove_file(bench.path("fio.log")).unwrap();
    Some(rows)
}

/// The requests that seeklab makes of it.
fn by_seeklab(bench: &Bench, job: &str) -> Vec<Row> {
    bench.write("job.fio", job);
    bench.run(&["bench", "job.fio", "--record", "t.csv", "--interval", "0s"]).done();
    let text = String::from_utf8(bench.read("t.csv")).unwrap();
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let column = |name: &str| header.iter().position(|column| *column == name).unwrap();
    let (op, lbn, blocks) = (column("op"), column("lbn"), column("blocks"));
    lines
        .map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            let bytes = |index: usize| 512 * cells[index].parse::<u64>().unwrap_or(0);
            (cells[op].to_owned(), bytes(lbn), bytes(blocks))
        })
        .collect()
}

/// Largest distance between the distribution functions of two samples, as a share of what chance explains with 99 %.
fn distance(mut one: Vec<u64>, mut other: Vec<u64>) -> f64 {
    one.sort_unstable();
    other.sort_unstable();
    let below = |sorted: &[u64], value: u64| {
        sorted.partition_point(|known| *known <= value) as f64 / sorted.len() as f64
    };
    let all = one.iter().chain(&other);
    let largest = all.map(|value| (below(&one, *value) - below(&other, *value)).abs()).fold(0.0, f64::max);
    let (n, m) = (one.len() as f64, other.len() as f64);
    largest / (1.63 * ((n + m) / (n * m)).sqrt())
}

/// Jobs without chance: their requests are those of fio, one by one. `there.img` has 1 MiB.
const EXACT: [&str; 30] = [
    "[global]\nioengine=null\n[a]\nrw=read\nbs=64k\nsize=16m\n",
    "[global]\nioengine=null\nbs=4k\n[a]\nrw=write\noffset=1m\nsize=4m\nio_size=2m\n",
    "[global]\nioengine=null\n[a]\nrw=read:-8k\nbs=4k\nsize=1m\n",
    "[global]\nioengine=null\n[a]\nrw=write:4k\nbs=4k\nsize=1m\nnumber_ios=100\n",
    "[global]\nioengine=null\n[a]\nrw=trim\nbs=128k\nsize=8m\n",
    "[global]\nioengine=null\n[a]\nrw=trim\nbs=4k,8k,16k\nsize=1m\n",
    "[global]\nioengine=null\n[a]\nrw=read\nbs=4k\nsize=1m\nloops=3\n",
    "[global]\nioengine=null\n[a]\nrw=write\nbs=8k\nsize=2m\nfsync=16\n",
    // Distances between requests, at the end of the job's bytes and at the end of the file.
    "[global]\nioengine=null\n[a]\nrw=read:8k\nsize=64k\n",
    "[global]\nioengine=null\n[a]\nrw=read:4k\nsize=1m\n",
    "[global]\nioengine=null\n[a]\nrw=trim:8k\nsize=64k\nio_size=96k\n",
    "[global]\nfilename=there.img\n[a]\nrw=read:8k\nsize=64k\n",
    "[global]\nfilename=there.img\n[a]\nrw=read:8k\nsize=1m\n",
    "[global]\nfilename=there.img\n[a]\nrw=read:4k\nsize=1m\n",
    "[global]\nfilename=there.img\n[a]\nrw=read:-8k\noffset=64k\nsize=64k\n",
    "[global]\nfilename=there.img\n[a]\nrw=read:8k\noffset=64k\nsize=960k\nnumber_ios=100\n",
    // Sizes that are no multiple of the request.
    "[global]\nfilename=there.img\n[a]\nrw=read\nbs=8k\nsize=66k\n",
    "[global]\nioengine=null\n[a]\nrw=read\nbs=8k\nsize=66k\n",
    // Shares of a file, which are no multiples of the request either.
    "[global]\nfilename=there.img\n[a]\nrw=read\nbs=12k\nsize=50%\n",
    "[global]\nfilename=there.img\n[a]\nrw=read\nbs=12k\nsize=30%\noffset=25%\n",
    // Zones, with gaps, with ranges that are visited again, and over the end of the file.
    "[global]\nioengine=null\n[a]\nrw=read\nsize=1m\nio_size=256k\nzonemode=strided\nzonesize=16k\nzoneskip=48k\n",
    "[global]\nioengine=null\n[a]\nrw=write\nsize=1m\nzonemode=strided\nzonesize=64k\nzonerange=16k\nzoneskip=16k\n",
    "[global]\nfilename=there.img\n[a]\nrw=read\nbs=8k\nsize=1m\noffset=0\nio_size=2m\nzonemode=strided\nzonesize=32k\nzonerange=64k\nzoneskip=128k\n",
    "[global]\nfilename=there.img\n[a]\nrw=read\nsize=64k\nzonemode=strided\nzonesize=16k\nzoneskip=100k\nloops=2\n",
    "[global]\nfilename=there.img\n[a]\nrw=read\noffset=256k\nsize=512k\nnumber_ios=300\nzonemode=strided\nzonesize=8k\nzoneskip=56k\nio_size=4m\n",
    "[global]\nioengine=null\n[a]\nrw=trim\nbs=4k\nsize=1m\nzonemode=strided\nzonesize=16k\nzoneskip=16k\n",
    // Passes.
    "[global]\nfilename=there.img\n[a]\nrw=read\nsize=64k\nnumber_ios=7\nloops=3\n",
    "[global]\nioengine=null\n[a]\nrw=write\nsize=64k\nfsync=4\nloops=2\n",
    "[global]\nioengine=null\n[a]\nrw=write\nsize=64k\nfsync=4\nend_fsync=1\nloops=2\n",
    "[global]\nfilename=there.img\n[a]\nrw=read\nbs=16k\nsize=40k\n",
];

/// Jobs that draw, of which some sums are certain.
const BOUND: [&str; 4] = [
    "[global]\nfilename=there.img\n[a]\nrw=read\nsize=64k\nbsrange=4k-16k\n",
    "[global]\nioengine=null\n[a]\nrw=read\nsize=64k\nbsrange=4k-16k\nloops=2\n",
    "[global]\nfilename=there.img\n[a]\nrw=randread\nbs=8k\nsize=66k\n",
    "[global]\nfilename=there.img\n[a]\nrw=randread\nbs=8k\nsize=64k\nio_size=160k\n",
];

/// Jobs that draw: their operations, sizes and offsets are distributed as those of fio.
const DRAWN: [&str; 12] = [
    "[global]\nioengine=null\n[a]\nrw=randread\nbs=4k\nsize=32m\n",
    "[global]\nioengine=null\n[a]\nrw=randwrite\nbs=4k\nsize=32m\nnorandommap\n",
    "[global]\nioengine=null\n[a]\nrw=randrw\nrwmixread=70\nbs=8k\nsize=64m\n",
    "[global]\nioengine=null\n[a]\nrw=rw\nrwmixwrite=20\nbs=4k\nsize=32m\n",
    "[global]\nioengine=null\n[a]\nrw=randrw\nbssplit=512/10:1k/5:2k/5:4k/60:8k/2:16k/4:32k/4:64k/10\nsize=64m\nnorandommap\n",
    "[global]\nioengine=null\n[a]\nrw=randread\nbsrange=4k-32k\nsize=128m\nnorandommap\n",
    "[global]\nioengine=null\n[a]\nrw=randread:8\nbs=4k\nsize=32m\n",
    "[global]\nioengine=null\n[a]\nrw=randrw\nbs=4k,16k\nsize=64m\nnorandommap\n",
    "[global]\nioengine=null\n[a]\nrw=randread\nbs=8k\nblockalign=512\nsize=64m\n",
    "[global]\nioengine=null\n[a]\nrw=randrw\nbs=4k\nba=64k,32k\nsize=256m\nio_size=64m\n",
    "[global]\nioengine=null\n[a]\nrw=randread\nbs=4k\nsize=64m\nio_size=16m\nzonemode=strided\nzonesize=256k\nzoneskip=768k\n",
    "[global]\nioengine=null\n[a]\nrw=randwrite\nbs=4k\nsize=64m\nio_size=16m\nzonemode=strided\nzonesize=128k\nzonerange=1m\nzoneskip=1m\nnorandommap\n",
];

#[test]
fn requests_of_jobs_without_chance_are_those_of_fio_one_by_one() {
    let bench = Bench::new();
    bench.write("there.img", vec![7; 1 << 20]);
    for job in EXACT {
        let Some(expected) = by_fio(&bench, job) else {
            eprintln!("skipped: no fio");
            return;
        };
        let found = by_seeklab(&bench, job);
        assert!(
            found == expected,
            "{job}: {:?} and {:?}",
            &found[..found.len().min(40)],
            &expected[..expected.len().min(40)]
        );
    }
}

#[test]
fn operations_sizes_and_offsets_of_jobs_are_distributed_as_those_of_fio() {
    let bench = Bench::new();
    for job in DRAWN {
        let Some(expected) = by_fio(&bench, job) else {
            eprintln!("skipped: no fio");
            return;
        };
        let found = by_seeklab(&bench, job);
        let bytes = |rows: &[Row]| rows.iter().map(|row| row.2).sum::<u64>() as f64;
        assert!((bytes(&found) / bytes(&expected) - 1.0).abs() < 0.002, "{job}: bytes");
        // Only the first request of a run is drawn; the others follow it.
        let run = if job.contains("randread:8") { 8 } else { 1 };
        let follow = |rows: &[Row]| rows.windows(2).filter(|pair| pair[1].1 == pair[0].1 + pair[0].2).count();
        assert!(run == 1 || follow(&found) >= found.len() * 7 / 8 - 8, "{job}: runs");
        let [found, expected] =
            [found, expected].map(|rows| rows.into_iter().step_by(run).collect::<Vec<Row>>());
        let of = |rows: &[Row], op: &str, pick: fn(&Row) -> u64| -> Vec<u64> {
            rows.iter().filter(|row| row.0 == op).map(pick).collect()
        };
        for op in ["read", "write"] {
            let (one, other) = (of(&found, op, |row| row.1), of(&expected, op, |row| row.1));
            assert_eq!(one.is_empty(), other.is_empty(), "{job}: {op}");
            if one.is_empty() {
                continue;
            }
            let share = |part: usize, rows: &[Row]| part as f64 / rows.len() as f64;
            let (ours, theirs) = (share(one.len(), &found), share(other.len(), &expected));
            let spread = 4.0 * (2.0 * theirs * (1.0 - theirs) / found.len() as f64).sqrt();
            assert!((ours - theirs).abs() <= spread, "{job}: {op} {ours} and {theirs}");
            let far = distance(one, other);
            assert!(far < 1.0, "{job}: offsets of {op}: {far}");
            let far = distance(of(&found, op, |row| row.2), of(&expected, op, |row| row.2));
            assert!(far < 1.0, "{job}: sizes of {op}: {far}");
        }
        // A random map visits each block once.
        if job == DRAWN[0] {
            let mut blocks = of(&found, "read", |row| row.1);
            blocks.sort_unstable();
            blocks.dedup();
            assert_eq!(blocks.len(), (32 << 20) / 4096);
        }
    }
}

/// Jobs whose places are not equally popular: the popularity of the ranks is that of fio, which scatters them by a hash.
const POPULAR: [&str; 6] = [
    "[global]\nioengine=null\n[a]\nrw=randread\nbs=4k\nsize=64m\nio_size=256m\nrandom_distribution=zipf:1.2\n",
    "[global]\nioengine=null\n[a]\nrw=randwrite\nbs=4k\nsize=60m\nio_size=256m\nrandom_distribution=zipf:0.6:0.25\n",
    "[global]\nioengine=null\n[a]\nrw=randread\nbs=8k\nsize=128m\nio_size=512m\nrandom_distribution=pareto:0.2\n",
    "[global]\nioengine=null\n[a]\nrw=randrw\nbs=4k\nsize=64m\nio_size=256m\nrandom_distribution=normal:30\n",
    "[global]\nioengine=null\n[a]\nrw=randread\nbs=4k\nsize=64m\nio_size=256m\nrandom_distribution=zoned:50/5:30/15:20/\nnorandommap\n",
    "[global]\nioengine=null\n[a]\nrw=randread\nbs=4k\nsize=64m\nio_size=256m\nrandom_distribution=zoned_abs:60/8m:40/24m\nnorandommap\n",
];

#[test]
fn popularity_of_places_is_that_of_fio() {
    let bench = Bench::new();
    for job in POPULAR {
        let Some(expected) = by_fio(&bench, job) else {
            eprintln!("skipped: no fio");
            return;
        };
        let found = by_seeklab(&bench, job);
        // Requests by the rank of their place: the most popular first.
        let ranks = |rows: &[Row]| {
            let mut requests = std::collections::BTreeMap::<u64, u64>::new();
            rows.iter().for_each(|row| *requests.entry(row.1).or_default() += 1);
            let mut counts: Vec<u64> = requests.into_values().collect();
            counts.sort_unstable_by(|one, other| other.cmp(one));
            (0..).zip(counts).flat_map(|(rank, count)| (0..count).map(move |_| rank)).collect::<Vec<u64>>()
        };
        assert_eq!(found.len(), expected.len(), "{job}");
        let far = distance(ranks(&found), ranks(&expected));
        assert!(far < 1.0, "{job}: ranks {far}");
        if job.contains("zoned") {
            let offsets = |rows: &[Row]| rows.iter().map(|row| row.1).collect();
            let far = distance(offsets(&found), offsets(&expected));
            assert!(far < 1.0, "{job}: offsets {far}");
        }
    }
}

#[test]
fn values_of_job_files_have_variables_of_the_environment() {
    let bench = Bench::new();
    bench.write("job.fio", "[a]\nioengine=null\nrw=rand${FIO_TEST_RW}\nbs=${FIO_TEST_K}k\nsize=1m\n");
    let unset = bench.run(&["bench", "job.fio"]);
    unset.fails(&["line 3: rw=rand${FIO_TEST_RW}: the variable `FIO_TEST_RW` is not set"]);
    let variables = [("FIO_TEST_RW", "write"), ("FIO_TEST_K", "16")];
    let figures = bench.run_with(&variables, &["bench", "job.fio", "--json"]).done();
    let figures: Value = serde_json::from_str(&figures).unwrap();
    assert_eq!(
        (&figures["requests"], &figures["phases"][0]["streams"][0]["writes"]),
        (&64.into(), &64.into())
    );
}

#[test]
fn jobs_that_draw_end_where_fio_ends_and_passes_draw_the_same() {
    let bench = Bench::new();
    bench.write("there.img", vec![7; 1 << 20]);
    for job in BOUND {
        let Some(expected) = by_fio(&bench, job) else {
            eprintln!("skipped: no fio");
            return;
        };
        let found = by_seeklab(&bench, job);
        let sum = |rows: &[Row]| rows.iter().map(|row| row.2).sum::<u64>();
        let end = |rows: &[Row]| rows.iter().map(|row| row.1 + row.2).max();
        assert_eq!((sum(&found), end(&found)), (sum(&expected), end(&expected)), "{job}");
        for rows in [&found, &expected] {
            let offsets = rows.iter().map(|row| row.1).collect::<Vec<u64>>();
            if job == BOUND[3] {
                assert_eq!((&offsets[..8], &offsets[..4]), (&offsets[8..16], &offsets[16..]), "{job}");
            }
            if job == BOUND[2] {
                let mut sorted = offsets.clone();
                sorted.sort_unstable();
                assert_eq!(sorted, (0..8).map(|block| block * 8192).collect::<Vec<u64>>(), "{job}");
            }
        }
    }
}

#[test]
fn groups_are_phases_and_clones_are_streams() {
    let bench = Bench::new();
    let job = "[global]\nioengine=null\nsize=1m\nbs=4k\n[fill]\nrw=write\n[readers]\nstonewall\nrw=randread\nnumjobs=3\n\
               [log]\nrw=write\nio_size=400k\n[rated]\nnew_group\nstonewall\nrw=randread\nrate_iops=2000\ntime_based\n\
               runtime=500ms\niodepth=8\n";
    bench.write("job.fio", job);
    let figures = bench.json(&["bench", "job.fio"]);
    let phases = figures["phases"].as_array().unwrap();
    let names = |phase: &Value| -> Vec<String> {
        phase["streams"]
            .as_array()
            .unwrap()
            .iter()
            .map(|stream| stream["stream"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        phases.iter().map(|phase| phase["phase"].as_str().unwrap()).collect::<Vec<_>>(),
        ["fill", "2", "rated"]
    );
    assert_eq!(names(&phases[1]), ["readers", "readers#2", "readers#3", "log"]);
    let requests =
        |phase: usize, stream: usize| phases[phase]["streams"][stream]["requests"].as_u64().unwrap();
    assert_eq!([requests(0, 0), requests(1, 0), requests(1, 2), requests(1, 3)], [256, 256, 256, 100]);
    assert_eq!(phases[2]["offered_per_second"], 2000.0);
    assert!((999..=1001).contains(&requests(2, 0)), "{}", requests(2, 0));
    // The same requests to a model.
    let on_model = bench.json(&["bench", "job.fio", "--on", "model:constant"]);
    assert_eq!(on_model["virtual_time"], true);
    assert_eq!(on_model["phases"][1]["requests"], 3 * 256 + 100);
}

#[test]
fn files_of_jobs_are_made_and_removed_and_others_need_their_name() {
    let bench = Bench::new();
    bench.write("job.fio", "[a]\nsize=1m\nrw=randwrite\nbs=4k\nfdatasync=8\n[b]\nfilename=there.img\nrw=read\nbs=16k\nsize=256k\n");
    bench.write("there.img", vec![7; 1 << 20]);
    let figures = bench.json(&["bench", "job.fio"]);
    let streams = &figures["phases"][0]["streams"];
    assert_eq!((&streams[0]["target"], &streams[0]["writes"]), (&"psync:a.0.0".into(), &256.into()));
    // As in fio, no flush follows the last write.
    assert_eq!((&streams[0]["others"], &streams[1]["reads"]), (&31.into(), &16.into()));
    assert!(!bench.path("a.0.0").exists() && bench.path("there.img").exists());
    bench.write("job.fio", "[b]\nfilename=there.img\nrw=write\nbs=16k\nsize=256k\n");
    bench.run(&["bench", "job.fio"]).fails(&["add --destroy psync:there.img"]);
}

#[test]
fn options_that_cannot_be_honoured_are_refused_by_name_and_line() {
    let bench = Bench::new();
    let base = "[global]\nioengine=null\nsize=1m\n[a]\nrw=randread\n";
    for (text, parts) in [
        ("zonemode=zbd\n", &["job.fio, line 6: zonemode=zbd: zones of zoned devices", "--skip-unknown"][..]),
        ("ss=iops:10%\nflow=3\n", &["line 6: ss=iops:10%", "line 7: flow=3"]),
        ("rw=trimwrite\n", &["line 6: rw=trimwrite", "randtrim are allowed"]),
        ("zonemode=strided\n", &["line 6: zonemode=strided: goes with zonesize"]),
        ("zonesize=64k\n", &["line 6: zonesize=64k: goes with zonemode=strided"]),
        (
            "zonemode=strided\nzonesize=6k\n",
            &["line 7: zonesize=6k: a multiple of all sizes of requests is allowed"],
        ),
        (
            "rw=write\nfsync=4\nzonemode=strided\nzonesize=64k\n",
            &["line 9: zonesize=64k: goes with jobs without fsync"],
        ),
        (
            "random_distribution=zipf:1.2\nzonemode=strided\nzonesize=64k\n",
            &["line 8: zonesize=64k: goes with rw without"],
        ),
        ("blockalign=x\n", &["line 6: blockalign=x: is no size"]),
        ("bs=four\n", &["line 6: bs=four: is no size"]),
        ("bs=2g\n", &["line 6: bs=2g: 1 to 1g are allowed"]),
        ("bsrange=1-1g\n", &["line 6: bsrange=1-1g: has more than 65536 sizes"]),
        ("offset=15e\nsize=15e\n", &["line 6: offset=15e: at most 16p are allowed", "line 7: size=15e"]),
        ("numjobs=256\noffset_increment=1e\n", &["line 7: offset_increment=1e: at most 16p"]),
        ("runtime=99999999999d\n", &["line 6: runtime=99999999999d: at most 36500d are allowed"]),
        ("ramp_time=99999999999d\n", &["line 6: ramp_time=99999999999d: at most"]),
        ("startdelay=99999999999d\n", &["line 6: startdelay=99999999999d: at most"]),
        ("thinktime=99999999999d\n", &["line 6: thinktime=99999999999d: is no time"]),
        (
            "random_distribution=zipf:1\n",
            &["line 6: random_distribution=zipf:1: zipf goes with a number above 0"],
        ),
        ("random_distribution=zipf\n", &["zipf goes with a number above 0, at most 100 and not 1"]),
        ("random_distribution=pareto:1\n", &["pareto goes with a number between 0 and 1"]),
        ("random_distribution=normal:20:2\n", &["the base `2` is not from 0 to 1"]),
        ("random_distribution=beta:2\n", &["random, zipf, pareto, normal, zoned and zoned_abs are allowed"]),
        ("random_distribution=zoned:50/10\nnorandommap\n", &["the zones have 50 % of the requests"]),
        ("random_distribution=zoned:x/10\n", &["zone `x/10`: `x` is no percentage"]),
        ("random_distribution=zoned_abs:100/0\n", &["`0` is no size of a zone"]),
        ("random_distribution=zoned:60/10:40/90\n", &["zones of random_distribution go with norandommap"]),
        ("rw=rand${\n", &["line 6: rw=rand${: has `${` without `}`"]),
        ("ioengine=rados\n", &["line 6: ioengine=rados: no such engine here"]),
        ("time_based\n", &["line 4: job `a`: time_based goes with runtime"]),
        ("ioengine=libaio\niodepth=4\nthinktime=5\n", &["thinktime goes with iodepth=1"]),
    ] {
        bench.write("job.fio", format!("{base}{text}"));
        let run = bench.run(&["bench", "job.fio"]);
        run.fails(&[]);
        for part in parts {
            assert!(unfolded(&run.stderr).contains(part), "{text}: no `{part}` in: {}", run.stderr);
        }
    }
    // The largest that are allowed sum to numbers and times, too.
    let largest = "offset=16p\noffset_increment=16p\nnumjobs=256\nruntime=36500d\nramp_time=36500d\nstartdelay=36500d\n";
    bench.write("job.fio", format!("{base}size=16p\n{largest}"));
    bench.run(&["bench", "job.fio"]).fails(&["beyond the end of the target"]);
    // As in fio, zero is no limit.
    bench.write("job.fio", format!("{base}number_ios=0\nio_size=0\n"));
    assert_eq!(bench.json(&["bench", "job.fio"])["requests"], 256);
    bench.write("job.fio", format!("{base}zonemode=zbd\nflow=3\n"));
    let figures = bench.json(&["bench", "job.fio", "--skip-unknown"]);
    let notes = figures["notes"].to_string();
    assert!(notes.contains("left out by --skip-unknown: line 6: zonemode=zbd"), "{notes}");
    assert!(notes.contains("line 7: flow=3") && figures["requests"] == 256, "{notes}");
    bench.write("job.fio", format!("{base}ioengine=rados\n"));
    bench.run(&["bench", "job.fio", "--skip-unknown"]).fails(&["ioengine=rados"]);
}

#[test]
fn job_whose_sizes_fio_would_cut_says_so() {
    let bench = Bench::new();
    let job = |option: &str| {
        let sizes = "rw=randread\nbssplit=4k/50:64k/50\nsize=1m";
        bench.write("job.fio", format!("[a]\nioengine=null\n{sizes}\n{option}\n"));
        let run = bench.run(&["bench", "job.fio", "--interval", "0s"]);
        unfolded(&[run.stdout.as_str(), run.stderr.as_str()].concat())
    };
    let note = "fio keeps a map of the blocks that it has visited and cuts requests that meet one";
    assert!(job("").contains(note), "{}", job(""));
    assert!(!job("norandommap").contains(note), "{}", job("norandommap"));
}
