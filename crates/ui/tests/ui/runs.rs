//! Runs that overwrite, saved runs, and the metrics.

use std::collections::BTreeMap;
use std::fs;

use seeklab_lab::crates::files::PartFile;
use serde_json::{Value, json};

use super::harness::{PLAN, Server};

#[test]
fn target_is_overwritten_with_its_name_typed_again_only() {
    let server = Server::new();
    let path = server.folder.path().join("disk.img");
    let before = vec![7; 1 << 20];
    fs::write(&path, &before).unwrap();
    let name = path.display().to_string();
    let plan = format!(
        "[targets.disk]\naddress = \"{name}\"\nbuffered = true\n\
         [[phases]]\nrequests = 200\n[[phases.streams]]\ntarget = \"disk\"\nworkload = \"random,size=4KiB,read=0%,closed=1\"\n"
    );
    let (_, checked) = server.post("api/check", &json!({ "toml": plan }));
    assert_eq!(checked["overwritten"][0]["target"], name.as_str(), "{checked}");
    for destroy in [&[][..], &["/dev/other"], &[""]] {
        let (status, answer) = server.post("api/start", &json!({ "toml": plan, "destroy": destroy }));
        assert_eq!((status, &answer["overwritten"][0]["target"]), (422, &json!(name)), "{answer}");
        assert_eq!(fs::read(&path).unwrap(), before, "{destroy:?}");
    }
    assert_eq!(server.document("api/runs")["runs"], json!([]), "what is refused leaves nothing");
    server.start(&plan, &[&name]);
    let end = server.end_of_run();
    assert_eq!(end["end"], "done", "{end}");
    assert_ne!(fs::read(&path).unwrap(), before);
}

#[test]
fn plan_with_verify_is_verified_and_so_is_its_rerun() {
    let server = Server::new();
    let path = server.folder.path().join("disk.img");
    fs::write(&path, vec![7; 1 << 20]).unwrap();
    let name = path.display().to_string();
    // As the form sends it.
    let form = json!({
        "verify": true,
        "ram": "1MiB",
        "targets": { "disk": { "address": format!("psync:{name}"), "buffered": true } },
        "phases": [{ "requests": 300, "streams": [
            { "target": "disk", "workload": "random,size=4KiB,read=50%,closed=1" },
        ] }],
    });
    let (status, written) = server.post("api/write", &json!({ "plan": form }));
    assert_eq!((status, &written["problem"]), (200, &Value::Null), "{written}");
    let name = format!("psync:{name}");
    let first = server.start(written["toml"].as_str().unwrap(), &[&name]);
    assert_eq!(server.end_of_run()["end"], "done");
    let (status, answer) = server.post("api/rerun", &json!({ "run": first, "destroy": [name] }));
    assert_eq!(status, 202, "{answer}");
    assert_eq!(server.end_of_run()["end"], "done");
    for id in [first.as_str(), answer["id"].as_str().unwrap()] {
        let text = fs::read(server.runs().join(id).join("run.json")).unwrap();
        let document: Value = serde_json::from_slice(&text).unwrap();
        let verification = &document["verification"];
        assert!(verification["checked_blocks"].as_u64() > Some(0), "{id}: {verification:#}");
    }
}

#[test]
fn saved_runs_are_listed_opened_and_laid_over_each_other() {
    let server = Server::new();
    assert_eq!(server.document("api/runs")["runs"], json!([]));
    let mut ids = Vec::new();
    for rate in ["50/s", "80/s"] {
        ids.push(server.start(&PLAN.replace("50/s", rate), &[]));
        assert_eq!(server.end_of_run()["end"], "done");
    }
    let runs = server.document("api/runs");
    let listed: Vec<&str> =
        runs["runs"].as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap()).collect();
    assert_eq!(listed.len(), 2);
    assert!(ids.iter().all(|id| listed.contains(&id.as_str())));
    assert_eq!(runs["runs"][0]["title"], "Twenty seconds");
    let opened = server.document(&format!("api/overlay?run={}", ids[0]));
    assert_eq!(opened["runs"][0]["plan"], PLAN);
    let both = server.document(&format!("api/overlay?run={}&other={}", ids[0], ids[1]));
    let row =
        both["rows"].as_array().unwrap().iter().find(|row| row["name"] == "requests per second").unwrap();
    let values: Vec<f64> =
        row["values"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect();
    assert!((40.0..60.0).contains(&values[0]) && (70.0..90.0).contains(&values[1]), "{values:?}");
    let change = 100.0 * (values[1] - values[0]) / values[0];
    assert!((row["change_pct"].as_f64().unwrap() - change).abs() < 1e-9);
    assert_eq!(both["charts"][0]["chart"]["series"].as_array().unwrap().len(), 4);
    // The command of a run measures its plan again.
    let command = opened["runs"][0]["command"].as_str().unwrap();
    assert!(
        command.starts_with("seeklab bench ") && command.ends_with(&format!("{}/plan.toml", ids[0])),
        "{command}"
    );

    let mut report = server.get_url(&server.url(&format!("report?run={}", ids[0])), &[]);
    let policy = report.headers()["content-security-policy"].to_str().unwrap().to_owned();
    assert!(policy.starts_with("sandbox allow-scripts;"), "{policy}");
    assert!(report.body_mut().read_to_string().unwrap().contains("Twenty seconds"));
    for id in ["nothing", "..", "%2e%2e%2fruns", ""] {
        assert_eq!(server.get(&format!("api/overlay?run={id}")).0, 404, "{id}");
        assert_eq!(server.get(&format!("report?run={id}")).0, 404, "{id}");
    }
}

#[test]
fn killed_run_is_listed_as_such_and_opened_with_its_intervals() {
    let server = Server::new();
    let folder = server.runs().join("cut");
    fs::create_dir_all(&folder).unwrap();
    let run = json!({
        "state": "running", "begun_unix_s": 1e9, "command": "seeklab bench t.toml",
        "plan": { "title": "Cut off" }, "targets": [{ "target": "null" }],
    });
    fs::write(folder.join("run.json"), json!({ "run": run }).to_string()).unwrap();
    let rows = "phase,repetition,stream,operation,interval,from_s,length_s,requests,bytes,requests_per_second,mib_per_second,\
                response_mean_ms,errors,longest_pause_ms\n\
                1,1,1,all,1,0,1,10,40960,10,0.04,2,0,5\n1,1,1,all,2,1,1,30,40960,30,0.12,4,0,6\n1,1,1,all,3,2,1,9";
    let mut part = PartFile::create(&folder.join("intervals.parquet")).unwrap().unwrap();
    part.append(rows.as_bytes()).unwrap();
    let state = || server.document("api/runs")["runs"][0]["state"].clone();
    assert_eq!(state(), "running", "a process writes it");
    drop(part);
    assert_eq!(state(), "killed");
    assert_eq!(server.document("api/runs")["runs"][0]["title"], "Cut off");
    let opened = server.document("api/overlay?run=cut");
    assert_eq!(opened["runs"][0]["command"], "seeklab bench t.toml");
    assert!(opened["runs"][0]["notes"][0].as_str().unwrap().contains("the 2 intervals"), "{opened}");
    let value = |name: &str| {
        let rows = opened["rows"].as_array().unwrap();
        rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("{name}: {opened}"))["values"][0]
            .clone()
    };
    assert_eq!((value("requests carried out"), value("requests per second")), (json!(40.0), json!(20.0)));
    let points = opened["charts"][0]["chart"]["series"][0]["points"].as_array().unwrap();
    assert_eq!(points.len(), 2);
}

#[test]
fn saved_run_runs_again_with_its_plan_and_seed_and_names_typed_again() {
    let server = Server::new();
    let first = server.start(PLAN, &[]);
    server.end_of_run();
    let (status, answer) = server.post("api/rerun", &json!({ "run": first }));
    assert_eq!(status, 202, "{answer}");
    assert_eq!(server.end_of_run()["end"], "done");
    let second = answer["id"].as_str().unwrap();
    let results = |id: &str| -> Value {
        serde_json::from_slice(&fs::read(server.runs().join(id).join("run.json")).unwrap()).unwrap()
    };
    let (one, other) = (results(&first), results(second));
    assert_eq!(one["intervals"], other["intervals"], "the same requests at the same times");
    assert!(other["run"]["rerun_of"].as_str().unwrap().ends_with(&first));
    assert!(other["command"].as_str().unwrap().contains("bench rerun"), "{}", other["command"]);
    assert_eq!(server.document(&format!("api/overlay?run={second}"))["runs"][0]["plan"], PLAN);
    assert_eq!(server.post("api/rerun", &json!({ "run": "nothing" })).0, 422);

    let path = server.folder.path().join("disk.img");
    fs::write(&path, vec![7; 1 << 20]).unwrap();
    let name = path.display().to_string();
    let plan = format!(
        "[targets.disk]\naddress = \"{name}\"\nbuffered = true\n\
         [[phases]]\nrequests = 200\n[[phases.streams]]\ntarget = \"disk\"\nworkload = \"random,size=4KiB,read=0%,closed=1\"\n"
    );
    let writing = server.start(&plan, &[&name]);
    server.end_of_run();
    fs::write(&path, vec![7; 1 << 20]).unwrap();
    let (status, answer) = server.post("api/rerun", &json!({ "run": writing }));
    assert_eq!((status, &answer["overwritten"][0]["target"]), (422, &json!(name)), "{answer}");
    assert_eq!(fs::read(&path).unwrap(), vec![7; 1 << 20]);
    let (status, answer) = server.post("api/rerun", &json!({ "run": writing, "destroy": [name] }));
    assert_eq!(status, 202, "{answer}");
    assert_eq!(server.end_of_run()["end"], "done");
    assert_ne!(fs::read(&path).unwrap(), vec![7; 1 << 20]);
}

#[test]
fn counters_come_as_they_are_read_with_their_charts() {
    let server = Server::new();
    let plan = format!("counters = \"10ms\"\n{}", super::harness::LONG_PLAN);
    server.start(&plan, &[]);
    let mut events = server.events(None);
    let charts = events.until("counters").pop().unwrap().data["charts"].clone();
    let find = |charts: &Value, title: &str| {
        charts.as_array().unwrap().iter().find(|chart| chart["title"] == title).cloned()
    };
    let processors = find(&charts, "Processors").unwrap_or_else(|| panic!("{charts}"));
    let series = processors["chart"]["series"].as_array().unwrap();
    assert!(series.iter().any(|series| series["name"] == "cpu user"), "{processors}");
    assert!(series.iter().all(|series| series["points"].as_array().unwrap().len() == 1));
    assert!(find(&charts, "Processes").is_some() && find(&charts, "Memory").is_some());
    let first = series[0]["points"][0][0].as_f64().unwrap();
    let next = events.until("counters").pop().unwrap().data["charts"].clone();
    let later = &find(&next, "Processors").unwrap()["chart"]["series"][0]["points"][0][0];
    assert!(later.as_f64().unwrap() > first, "{later} and {first}");
    server.post("api/stop", &json!({}));
    server.end_of_run();
}

/// Samples of Prometheus' text format by name and labels. Fails on every line that is none.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let mut types = BTreeMap::new();
    let mut samples = BTreeMap::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# ") {
            let mut words = rest.splitn(3, ' ');
            let (what, name, text) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
            if what == "TYPE" {
                assert!(["counter", "gauge"].contains(&text), "{line}");
                assert!(types.insert(name.to_owned(), text.to_owned()).is_none(), "{line}: twice");
            } else {
                assert_eq!(what, "HELP", "{line}");
            }
            continue;
        }
        let (key, value) = line.rsplit_once(' ').expect(line);
        let name = key.split('{').next().unwrap();
        assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{line}");
        let kind = types.get(name).unwrap_or_else(|| panic!("{line}: has no type before it"));
        assert_eq!(name.ends_with("_total"), kind == "counter", "{line}");
        if let Some((_, labels)) = key.split_once('{') {
            let (label, text) = labels.strip_suffix('}').expect(line).split_once('=').expect(line);
            assert!(
                !label.is_empty() && text.len() > 2 && text.starts_with('"') && text.ends_with('"'),
                "{line}"
            );
        }
        assert!(samples.insert(key.to_owned(), value.parse().expect(line)).is_none(), "{line}: twice");
    }
    samples
}

#[test]
fn metrics_have_the_run_under_way_and_the_last_one() {
    let server = Server::new();
    let metrics = || {
        let mut response = server.get_url(&server.page.metrics_url, &[]);
        assert!(
            response.headers()["content-type"].to_str().unwrap().starts_with("text/plain; version=0.0.4")
        );
        samples(&response.body_mut().read_to_string().unwrap())
    };
    let idle = metrics();
    assert_eq!(idle["seeklab_bench_running"], 0.0);
    assert_eq!(idle["seeklab_bench_requests_total"], 0.0);
    assert!(!idle.contains_key("seeklab_bench_last_trusted"));
    let id = server.start(PLAN, &[]);
    server.end_of_run();
    let run = fs::read_to_string(server.runs().join(id).join("run.json")).unwrap();
    let results: Value = serde_json::from_str(&run).unwrap();
    let ended = metrics();
    let figure = |key: &str| results[key].as_f64().unwrap();
    assert_eq!(ended["seeklab_bench_requests_total"], figure("requests"));
    assert_eq!(ended["seeklab_bench_bytes_total"], figure("read_bytes"));
    assert_eq!(ended["seeklab_bench_runs_total{end=\"done\"}"], 1.0);
    assert_eq!(ended["seeklab_bench_last_requests_per_second"], figure("requests_per_second"));
    let p99_s = ended["seeklab_bench_last_response_seconds{quantile=\"0.99\"}"];
    assert!((p99_s * 1e3 - figure("response_p99_ms")).abs() < 1e-9);
    server.start(super::harness::LONG_PLAN, &[]);
    server.events(None).until("interval");
    let running = metrics();
    assert_eq!(running["seeklab_bench_running"], 1.0);
    assert!(running["seeklab_bench_requests_per_second"] > 0.0);
    assert!(running["seeklab_bench_requests_total"] > figure("requests"), "sums go on over the runs");
    assert!(running.contains_key("seeklab_bench_response_seconds{quantile=\"0.5\"}"));
    assert_eq!(running["seeklab_bench_last_requests_per_second"], figure("requests_per_second"));
}
