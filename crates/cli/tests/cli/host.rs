//! Simulated hosts: processes in TOML, their figures, settings that are overridden, and the examples of the paper.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::bench::{Bench, unfolded};

const HOST: &str = "\
kind = \"host\"
task = \"writer\"

[host]
memory = \"1MiB\"
sweep = \"100%\"

[files.data]
size = \"400KiB\"
at = \"100MiB\"

[files.log]
size = \"400KiB\"
new = true

[processes.reader]
program = \"repeat 100 { read data 4KiB; compute 2ms }\"

[processes.writer]
program = \"\"\"
repeat 100 {
  compute 10ms
  write log 4KiB
}
sync
\"\"\"
";

fn host(document: &Value, device: usize) -> &Value {
    &document["devices"][device]["host"]
}

#[test]
fn times_of_a_host_add_up_on_every_device() {
    let bench = Bench::new();
    bench.write("host.toml", HOST);
    let document = bench.json(&["simulate", "hp-c2247a", "immediate", "-w", "host.toml"]);
    for device in [0, 1] {
        let host = host(&document, device);
        let seconds = |key: &str| host[key].as_f64().unwrap_or_else(|| panic!("{key}: {host}"));
        let parts: f64 = ["task_cpu_s", "other_cpu_s", "false_idle_s", "idle_s"].map(seconds).iter().sum();
        assert!((parts - seconds("elapsed_s")).abs() < 1e-9, "{host}");
        // 100 computing times, 101 calls and at most 100 submissions.
        assert!((1.0101..1.0602).contains(&seconds("task_cpu_s")), "{host}");
        assert_eq!(host["time_limited"]["requests"], 99);
        assert_eq!(host["finished"], true);
    }
    let disk = host(&document, 0);
    assert!(disk["elapsed_s"].as_f64() > host(&document, 1)["elapsed_s"].as_f64(), "{document}");
    let page = bench.run(&["simulate", "hp-c2247a", "-w", "host.toml", "--report", "out.html"]).done();
    // The rows of tables 4 and 6 of the paper.
    for part in
        ["█ task CPU", "false idle time, s", "CPU utilisation, %", "I/O waits", "interrupts", "limits met, %"]
            .into_iter()
            .chain([
                "time-noncritical requests",
                "all requests",
                "service time, mean, ms",
                "access time, mean, ms",
            ])
            .chain(["buffer hits, %", "seek distance, mean, cylinders", "seek time, mean, ms"])
    {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert_eq!(page.matches("time-limited").count(), 1, "one table has the classes: {page}");
    let html = String::from_utf8(bench.read("out.html")).unwrap();
    for part in ["Time-limited requests", "limits met", "host-cpu0", "host-waits0", "host-queue0"] {
        assert!(html.contains(part), "{part}");
    }
}

#[test]
fn times_of_each_process_add_up() {
    let bench = Bench::new();
    bench.write("host.toml", HOST);
    let arguments = ["simulate", "hp-c2247a", "-w", "host.toml"];
    let plain = bench.json(&arguments);
    assert!(plain["devices"][0].get("host_processes").is_none(), "{plain}");
    let document = bench.json(&[&arguments[..], &["--processes"]].concat());
    let device = &document["devices"][0];
    let processes = device["host_processes"].as_array().unwrap();
    let names: Vec<&str> = processes.iter().map(|process| process["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["reader", "writer", "(syncer)"]);
    for process in processes {
        let fields = process.as_object().unwrap().iter();
        let parts = fields
            .filter(|(key, _)| *key != "elapsed_s" && key.ends_with("_s"))
            .map(|(_, value)| value.as_f64().unwrap());
        let (sum, elapsed_s) = (parts.sum::<f64>(), process["elapsed_s"].as_f64().unwrap());
        assert!((sum - elapsed_s).abs() < 1e-9 && elapsed_s > 0.5, "{process}");
    }
    let writer = &processes[1];
    assert_eq!(writer["elapsed_s"], device["host"]["elapsed_s"]);
    assert_eq!(writer["computing_s"], device["host"]["task_cpu_s"]);
    assert!(writer["write_wait_s"].as_f64() > Some(0.05), "it waits for its synchronisation: {writer}");
    let timeline = &device["host_timeline"];
    let intervals = timeline["task_cpu_pct"].as_array().unwrap().len();
    assert!((100..=240).contains(&intervals), "{intervals}");
    assert_eq!(timeline["task_end_s"], device["host"]["elapsed_s"]);
    let printed = bench.run(&[&arguments[..], &["--processes", "--report", "out.html"]].concat()).done();
    for part in ["reader", "(syncer)", "computing s", "write wait s"] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    assert!(!printed.contains("children wait"), "no process has children: {printed}");
    let html = String::from_utf8(bench.read("out.html")).unwrap();
    assert!(html.contains("host-processes0") && html.contains("Where the time of processes goes"));
}

#[test]
fn settings_of_a_host_are_overridden() {
    let bench = Bench::new();
    bench.write("host.toml", HOST);
    let cpu = |settings: &str| {
        let document = bench.json(&["simulate", "immediate", "-w", "host.toml", "--host", settings]);
        host(&document, 0)["task_cpu_s"].as_f64().unwrap()
    };
    let (one, two) = (cpu("sweep_interval=100s"), cpu("sweep_interval=100s,cpu_speed=2"));
    assert!((one / two - 2.0).abs() < 1e-6, "{one} {two}");
    bench.run(&["simulate", "immediate", "-w", "host.toml", "--host", "memry=8MiB"]).fails(&[
        "--host `memry=8MiB`",
        "unknown key `memry`",
        "memory",
    ]);
    let build = "build,files=200,headers=5,tests=2,compile=20ms,processes=4";
    let elapsed = |settings: &str| {
        let document = bench.json(&["simulate", "immediate", "-w", build, "--host", settings, "--processes"]);
        let processes = document["devices"][0]["host_processes"].as_array().unwrap();
        let names: Vec<&str> = processes.iter().filter_map(|process| process["name"].as_str()).collect();
        assert_eq!(names, ["make", "compile", "(flusher)"]);
        (
            host(&document, 0)["elapsed_s"].as_f64().unwrap(),
            host(&document, 0)["task_cpu_s"].as_f64().unwrap(),
        )
    };
    let ((alone, cpu), (together, same_cpu)) = (elapsed("cpus=1"), elapsed("cpus=4"));
    assert!(alone > together * 1.5 && cpu == same_cpu, "{alone} {together}");
    bench.run(&["simulate", "immediate", "-w", "random", "--host", "cpus=2"]).fails(&["runs on no host"]);
    bench.run(&["simulate", "immediate", "-w", "host.toml", "--closed", "4"]).fails(&["is a host"]);
    bench
        .run(&["simulate", "immediate", "-w", "host.toml", "--requests", "4"])
        .fails(&["follows from its programs"]);
}

#[test]
fn mistake_in_a_program_names_its_line() {
    let bench = Bench::new();
    bench.write("host.toml", HOST.replace("compute 10ms", "compute 10"));
    let run = bench.run(&["simulate", "immediate", "-w", "host.toml"]);
    run.fails(&["processes.writer.program", "line 2, `compute 10`", "has no unit"]);
    bench.write("host.toml", HOST.replace("write log", "write lg"));
    let run = bench.run(&["simulate", "immediate", "-w", "host.toml"]);
    run.fails(&["unknown file `lg`", "did you mean `log`"]);
}

/// Runs a simulation whose prediction is void: prints it, says why, and ends with exit code 1.
fn check_void(bench: &Bench, arguments: &[&str], reason: &str) -> Value {
    let run = bench.run(&[&["simulate", "hp-c2247a", "-w"], arguments].concat());
    assert_eq!(run.code, 1, "{}", run.stderr);
    let (printed, errors) = (unfolded(&run.stdout), unfolded(&run.stderr));
    assert!(errors.contains(reason) && errors.contains("void"), "{errors}");
    // Neither a bar nor an elapsed time stands for the task.
    assert!(!printed.contains("elapsed time, s"), "{printed}");
    let run = bench.run(&[&["simulate", "hp-c2247a", "--json", "-w"], arguments].concat());
    assert_eq!(run.code, 1, "{}", run.stderr);
    let document: Value = serde_json::from_str(&run.stdout).unwrap();
    host(&document, 0).clone()
}

#[test]
fn process_whose_read_fails_ends_and_voids_the_prediction() {
    let bench = Bench::new();
    bench.write("host.toml", HOST);
    let fault = "medium_error,op=read,probability=100%";
    let run = bench.run(&["simulate", "hp-c2247a", "-w", "host.toml", "--fault", fault]);
    assert!(unfolded(&run.stdout).contains("hp-c2247a a process ended early"), "{}", run.stdout);
    let reason = "1 process ended early because a request failed";
    let figures = check_void(&bench, &["host.toml", "--fault", fault], reason);
    assert_eq!((&figures["failed_processes"], &figures["finished"]), (&1.into(), &true.into()), "the reader");
}

#[test]
fn processes_that_wait_for_each_other_void_the_prediction() {
    let bench = Bench::new();
    let program = |first: &str, second: &str| {
        format!("program = \"lock {first}; sleep 1ms; lock {second}; unlock {second}; unlock {first}\"\n")
    };
    let (a, b) = (program("x", "y"), program("y", "x"));
    bench.write("dead.toml", format!("kind = \"host\"\n[processes.a]\n{a}[processes.b]\n{b}"));
    let figures = check_void(&bench, &["dead.toml"], "the task did not end");
    assert_eq!(figures["finished"], false);
}

#[test]
fn application_on_a_device_that_is_too_small_voids_the_prediction() {
    let bench = Bench::new();
    let device = "kind = 'constant'\ncapacity_blocks = 40000\nblock_size = '512B'\nservice_time = '1ms'\n";
    bench.write("small.toml", device);
    let run = bench.run(&["simulate", "small.toml", "-w", "database"]);
    let reason = "it ended early because the device was full, so the prediction is void";
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(
        unfolded(&run.stderr).contains(reason) && unfolded(&run.stdout).contains(reason),
        "{}",
        run.stderr
    );
    assert!(run.stderr.contains("choose a larger device"), "{}", run.stderr);
}

#[test]
fn folder_with_the_name_of_a_preset_does_not_hide_it() {
    let bench = Bench::new();
    fs::create_dir(bench.path("postmark")).unwrap();
    fs::create_dir(bench.path("other")).unwrap();
    let line = ["simulate", "immediate", "-q", "-w"];
    assert_eq!(bench.run(&[&line[..], &["postmark"]].concat()).code, 0);
    bench.run(&[&line[..], &["other"]].concat()).fails(&["`other`: is a folder"]);
}

#[test]
fn settings_and_options_without_effect_are_refused() {
    let bench = Bench::new();
    bench.write("host.toml", HOST);
    bench.write("linux.toml", HOST.replace("sweep = \"100%\"", "profile = \"linux\""));
    for (arguments, parts) in [
        (
            &["linux.toml", "--host", "sweep=50%"][..],
            &["host.sweep: is a setting of the profile `svr4`", "hint"][..],
        ),
        (&["linux.toml", "--host", "sweep_interval=1s"], &["host.sweep_interval", "svr4"]),
        (&["host.toml", "--host", "profile=linux"], &["host.sweep", "svr4"]),
        (&["linux.toml", "--host", "contiguous=8KiB"], &["host.contiguous", "svr4"]),
        (&["host.toml", "--host", "wbt=2ms"], &["host.wbt: is a setting of the profile `linux`", "hint"]),
        (&["host.toml", "--host", "dirty_bytes=8MiB"], &["host.dirty_bytes", "linux"]),
        (&["postmark,scale=0.01", "--host", "profile=svr4"], &["host.profile: svr4", "linux", "hint"]),
        (&["random", "--processes"], &["--processes: `random` runs on no host", "hint"]),
        (&["linux.toml", "--shape", "host.toml"], &["--shape host.toml: `linux.toml`", "shaped"]),
    ] {
        bench.run(&[&["simulate", "hp-c2247a", "-w"], arguments].concat()).fails(parts);
    }
    bench.run(&["simulate", "hp-c2247a", "-w", "linux.toml", "--processes"]).done();
}

#[test]
fn workloads_of_the_paper_take_the_cpu_time_of_table_3() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/ganger-patt");
    let bench = Bench::new();
    // Task CPU time in seconds, least number of requests.
    for (name, cpu_s, requests) in [
        ("compress", 162.0, 10_752),
        ("uncompress", 90.3, 10_752),
        ("copytree", 17.6, 8_500),
        ("removetree", 3.05, 1_070),
    ] {
        let path = folder.join(format!("{name}.toml"));
        assert!(fs::exists(&path).unwrap());
        let document =
            bench.json(&["simulate", "hp-c2247a", "-w", path.to_str().unwrap(), "--scheduler", "c-look"]);
        let task = host(&document, 0)["task_cpu_s"].as_f64().unwrap();
        assert!((task / cpu_s - 1.0).abs() < 0.01, "{name}: {task} s");
        assert!(document["devices"][0]["requests"].as_u64().unwrap() >= requests, "{name}");
    }
}

/// Figures of a workload of the paper on `hp-c2247a`.
fn of_paper(bench: &Bench, name: &str, options: &[&str]) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../examples/ganger-patt/{name}.toml"));
    let arguments = ["simulate", "hp-c2247a", "-w", path.to_str().unwrap()];
    bench.json(&[&arguments, options].concat())["devices"][0].clone()
}

#[test]
fn criticality_scheduling_shortens_uncompress_as_the_paper_says() {
    let bench = Bench::new();
    // The paper states neither the share of a sweep nor the order of free memory.
    for settings in ["sweep=1/30", "sweep=1/10", "sweep=1/60,contiguous=40MiB"] {
        let figures =
            |scheduler| of_paper(&bench, "uncompress", &["--scheduler", scheduler, "--host", settings]);
        let (plain, critical) = (figures("c-look"), figures("criticality-c-look"));
        let number = |device: &Value, path: &str| device.pointer(path).and_then(Value::as_f64).unwrap();
        let gain = 1.0 - number(&critical, "/host/elapsed_s") / number(&plain, "/host/elapsed_s");
        assert!(gain > 0.2, "{settings}: {gain}");
        let responses = [&plain, &critical].map(|device| number(device, "/response_mean_ms"));
        assert!(responses[1] > responses[0] * 2.0, "{settings}: {responses:?}");
    }
}

#[test]
fn awareness_of_the_buffer_lengthens_responses_of_compress_as_the_paper_says() {
    let bench = Bench::new();
    for settings in ["cpu_speed=1", "cpu_speed=2"] {
        let response_ms = |scheduler| {
            let device = of_paper(&bench, "compress", &["--scheduler", scheduler, "--host", settings]);
            device["response_mean_ms"].as_f64().unwrap()
        };
        let (sptf, spctf) = (response_ms("sptf"), response_ms("spctf"));
        assert!(spctf > sptf * 1.1, "{settings}: {sptf} ms, {spctf} ms");
    }
}
