//! Logs of fio job files (`write_bw_log`, `write_iops_log`, `write_lat_log`), beside those of fio itself.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use super::bench::{Bench, unfolded};

/// Logs by name, each with the cells of its rows.
type Logs = BTreeMap<String, Vec<Vec<String>>>;

/// The logs in a folder, which are removed.
fn take_logs(folder: &Path) -> Logs {
    let mut logs = Logs::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "log") {
            let text = std::fs::read_to_string(&path).unwrap();
            let cells = |line: &str| line.split(", ").map(str::to_owned).collect();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            logs.insert(name, text.lines().map(cells).collect());
            std::fs::remove_file(path).unwrap();
        }
    }
    logs
}

/// The logs that fio writes of a job. `None` without fio.
fn by_fio(bench: &Bench, job: &str) -> Option<Logs> {
    bench.write("job.fio", job);
    let ran = Command::new("fio").arg("job.fio").current_dir(bench.path(".")).output().ok()?;
    assert!(ran.status.success(), "{job}: {}", String::from_utf8_lossy(&ran.stderr));
    Some(take_logs(&bench.path(".")))
}

/// The logs that seeklab writes of it.
fn by_seeklab(bench: &Bench, job: &str, more: &[&str]) -> Logs {
    bench.write("job.fio", job);
    bench.run(&[&["bench", "job.fio", "--interval", "0s"], more].concat()).done();
    take_logs(&bench.path("."))
}

/// Jobs without chance, one request at a time.
const JOBS: [&str; 4] = [
    "[global]\nioengine=null\n[a]\nrw=read\nbs=16k\nsize=256k\nwrite_bw_log\nwrite_lat_log=times\nwrite_iops_log=n\n\
     [b]\nstonewall\nrw=write:4k\nbs=4k\nsize=64k\nfsync=4\nwrite_lat_log\n",
    "[global]\nioengine=null\nlog_offset=1\n[a]\nrw=trim\nbs=4k,8k,16k\nsize=1m\nwrite_bw_log=x.log\nwrite_lat_log=x\n\
     log_prio=1\nnumjobs=2\n",
    "[global]\nioengine=null\nper_job_logs=0\nwrite_lat_log=all\n[a]\nrw=read\nbs=4k\nsize=64k\n[b]\nstonewall\nrw=write\nbs=8k\n\
     size=64k\n",
    "[global]\nioengine=null\nwrite_lat_log\ndisable_slat=1\n[a]\nrw=read\nsize=64k\ndisable_clat=1\n",
];

#[test]
fn rows_of_requests_are_those_of_fio() {
    let bench = Bench::new();
    for job in JOBS {
        let Some(expected) = by_fio(&bench, job) else {
            eprintln!("skipped: no fio");
            return;
        };
        let found = by_seeklab(&bench, job, &[]);
        assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{job}");
        for (name, rows) in &found {
            let times = |rows: &[Vec<String>]| rows.iter().map(|row| row[2..].to_vec()).collect::<Vec<_>>();
            assert_eq!(times(rows), times(&expected[name]), "{job}: {name}");
            // Only the times and rates of requests are those of the run.
            let is_of_counts = name.contains("_iops");
            assert!(!is_of_counts || rows.iter().all(|row| row[1] == "1"), "{job}: {name}: {rows:?}");
        }
    }
}

#[test]
fn rows_of_windows_have_the_cells_of_fio() {
    let bench = Bench::new();
    let job = "[a]\nioengine=null\nrw=randrw\nbs=4k\nsize=1g\nrate_iops=500\nruntime=1s\ntime_based\nlog_avg_msec=100\n\
               log_offset=1\nlog_prio=1\nwrite_bw_log\nwrite_iops_log\nwrite_lat_log\n";
    let Some(expected) = by_fio(&bench, job) else {
        eprintln!("skipped: no fio");
        return;
    };
    let found = by_seeklab(&bench, job, &[]);
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (name, rows) in &found {
        let kinds = |rows: &[Vec<String>]| {
            let mut kinds: Vec<Vec<String>> = rows.iter().map(|row| row[2..].to_vec()).collect();
            kinds.sort();
            kinds.dedup();
            kinds
        };
        assert_eq!(kinds(rows), kinds(&expected[name]), "{name}");
    }
}

#[test]
fn windows_are_those_of_the_time_since_the_job_began() {
    let bench = Bench::new();
    let job = "[a]\nioengine=null\nrw=read\nbs=4k\nsize=1m\nrate_iops=100\nstartdelay=2\nruntime=1s\ntime_based\nlog_avg_msec=250\n\
               write_bw_log=w\nwrite_iops_log=w\nwrite_lat_log=w\n[late]\nstonewall\nioengine=null\nrw=write\nbs=8k\nsize=1m\n\
               rate_iops=50\nramp_time=1\nruntime=1s\ntime_based\nlog_avg_msec=1000\nbwavgtime=200\nwrite_bw_log=w\n";
    let logs = by_seeklab(&bench, job, &["--on", "model:constant"]);
    let rows = |name: &str| logs[name].iter().map(|row| row.join(" ")).collect::<Vec<_>>();
    // Requests take 10 ms, so the 25th ends with the first window and counts in the second.
    let windows = |values: [u64; 4]| {
        [250, 500, 750, 1000]
            .into_iter()
            .zip(values)
            .map(|(end, value)| format!("{end} {value} 0 0 0"))
            .collect::<Vec<_>>()
    };
    assert_eq!(rows("w_bw.1.log"), windows([384, 400, 400, 400]));
    assert_eq!(rows("w_iops.1.log"), windows([96, 100, 100, 100]));
    assert_eq!(rows("w_bw.2.log"), [200, 400, 600, 800, 1000].map(|end| format!("{end} 400 1 0 0")));
    // The time of a window is that of the first completion behind it.
    let times: Vec<&str> = logs["w_lat.1.log"].iter().map(|row| row[0].as_str()).collect();
    assert_eq!(times.len(), 4, "{times:?}");
    assert_eq!(logs["w_lat.1.log"], logs["w_clat.1.log"]);
    assert!(logs["w_lat.1.log"].windows(2).all(|pair| pair[0][1] == pair[1][1]), "the device is constant");
}

#[test]
fn logs_of_an_earlier_run_are_overwritten_and_those_of_repetitions_refused() {
    let bench = Bench::new();
    let job = |requests| {
        format!(
            "[a]\nioengine=null\nsize=1m\nrw=read\nper_job_logs=0\nwrite_iops_log\nnumber_ios={requests}\n[b]\nioengine=null\nsize=64k\n"
        )
    };
    for requests in [7, 5] {
        bench.write("job.fio", job(requests));
        bench.run(&["bench", "job.fio"]).done();
        assert_eq!(bench.read("a_iops.log").iter().filter(|byte| **byte == b'\n').count(), requests);
    }
    bench.run(&["bench", "job.fio", "--repeat", "2"]).fails(&["--repeat 2", "overwrite the log a_iops.log"]);
}

#[test]
fn logs_that_cannot_be_written_are_named() {
    let bench = Bench::new();
    let job = "[a]\nioengine=null\nsize=1m\nrw=read\nwrite_bw_log=no/x\n";
    bench.write("job.fio", job);
    bench.run(&["bench", "job.fio"]).fails(&["no/x_bw.1.log: cannot be written, there is no folder `no`"]);
    bench.write("job.fio", job.replace("no/x", "x").replace("size=1m", "size=64m"));
    std::os::unix::fs::symlink("/dev/full", bench.path("x_bw.1.log")).unwrap();
    let run = bench.run(&["bench", "job.fio"]);
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert!(run.stdout.contains("read") && run.stdout.contains("16384"), "the run goes on: {}", run.stdout);
    let errors = unfolded(&run.stderr);
    assert!(errors.contains("x_bw.1.log: cannot be written: No space left on device"), "{errors}");
    assert!(errors.contains("the run goes on, and this log ends here"), "{errors}");
}
