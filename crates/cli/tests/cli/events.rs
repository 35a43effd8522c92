//! `seeklab simulate --events`: the events inside a device, in a file.

use crate::bench::Bench;

#[test]
fn events_are_in_order_and_change_no_figure() {
    let bench = Bench::new();
    let run = |more: &[&str]| {
        let workload = "random,poisson=80/s,requests=9000,read=30%";
        let faults = ["--fault", "delay,add=20ms,probability=5%", "--fault", "gone,at=40s,for=2s"];
        let mut arguments = vec!["simulate", "cheetah-36es", "-w", workload];
        arguments.extend(faults.iter().chain(more));
        let mut document = bench.json(&arguments);
        let figures = document["devices"][0].as_object_mut().unwrap();
        figures.retain(|key, _| !["cpu_s", "wall_s", "requests_per_cpu_s"].contains(&key.as_str()));
        document["devices"].take()
    };
    let path = bench.path("events.csv");
    assert_eq!(run(&[]), run(&["--events", path.to_str().unwrap()]));
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("# seeklab.events schema=2"));
    assert_eq!(lines.next(), Some("time_ns,path,kind,request,lbn,blocks,detail"));
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    let times: Vec<u64> = rows.iter().map(|row| row[0].parse().unwrap()).collect();
    assert!(times.is_sorted());
    let count = |kind: &str| rows.iter().filter(|row| row[2] == kind).count();
    // 6,300 writes are expected, of which those on two tracks have two rows; one in twenty requests is delayed.
    assert!((5_500..8_000).contains(&count("durable")), "{}", count("durable"));
    assert!((300..800).contains(&count("fault")), "{}", count("fault"));
    assert_eq!((count("gone"), count("back")), (1, 1));
    assert!(rows.iter().any(|row| row[1] == "disk0.fault.delay" && row[2] == "fault"));
}

#[test]
fn every_write_without_a_cache_is_durable_to_the_last() {
    let bench = Bench::new();
    let path = bench.path("events.csv");
    let load = ["-w", "random,requests=100,read=0%", "--closed", "4", "--bare"];
    let arguments = [&["simulate", "hp-c2247a"], &load[..], &["--events", path.to_str().unwrap()]].concat();
    bench.run(&arguments).done();
    let text = std::fs::read_to_string(path).unwrap();
    let durable = text.lines().skip(2).map(|line| line.split(',').nth(3).unwrap().parse().unwrap());
    let requests: std::collections::BTreeSet<u64> = durable.collect();
    assert_eq!(requests, (0..100).collect());
}

#[test]
fn until_lets_devices_go_on_behind_the_last_completion() {
    let bench = Bench::new();
    let path = bench.path("events.csv");
    let path = path.to_str().unwrap();
    // Buffered writes at once, and a fault that comes long after them.
    let load = ["simulate", "cheetah-36es", "-w", "random,requests=8,read=0%", "--closed", "1"];
    let faults = ["--fault", "gone,at=100s,for=2s", "--events", path];
    let rows = |more: &[&str]| -> Vec<(u64, String)> {
        bench.run(&[&load[..], &faults, more].concat()).done();
        let text = std::fs::read_to_string(path).unwrap();
        let row = |line: &str| {
            let fields: Vec<&str> = line.split(',').collect();
            (fields[0].parse().unwrap(), fields[2].to_owned())
        };
        text.lines().skip(2).map(row).collect()
    };
    let count = |rows: &[(u64, String)], kind: &str| rows.iter().filter(|row| row.1 == kind).count();
    let (stopped, idle) = (rows(&[]), rows(&["--until", "idle"]));
    assert!(count(&stopped, "durable") < 8 && count(&idle, "durable") >= 8, "{stopped:?} {idle:?}");
    assert!(idle.starts_with(&stopped), "what went before is the same");
    assert_eq!(count(&idle, "gone"), 0, "a fault that does not strike is no work: {idle:?}");
    let late = rows(&["--until", "101s"]);
    assert!(late.starts_with(&idle));
    assert_eq!((count(&late, "gone"), count(&late, "back")), (1, 0));
    assert_eq!(rows(&["--until", "1ns"]), stopped, "no run ends before its last completion");
    bench.run(&[&load[..], &faults, &["--until", "soon"]].concat()).fails(&["--until", "soon", "idle"]);
}
