//! The examples that need a host: run as a user would, at their smallest, and their output looked at.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::harness::{SEEKLAB, can_mount};

#[test]
fn does_postmark_say_what_the_dissertation_says_of_three_disks() {
    let needs = ["postmark", "mkfs.ext2", "python3", "timeout"];
    if !can_mount("does_postmark_say_what_the_dissertation_says_of_three_disks", &needs) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/paper/postmark.sh");
    let output = Command::new("timeout")
        .args(["-k", "5", "240"])
        .arg(script)
        .arg("--tiny")
        .current_dir(folder.path())
        .env("SEEKLAB", SEEKLAB)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    // Row by row beside the dissertation's tables 6.1 and 6.2.
    let row = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(&format!("| {name}")));
        let cells = line.unwrap_or_else(|| panic!("{name} is not in\n{text}")).split('|');
        cells.map(|cell| cell.trim().to_owned()).collect::<Vec<_>>()
    };
    let rows = [
        ("Run time [s]", "45.990", "15.850", "3.380"),
        ("Total requests", "10422", "10421", "10421"),
        ("mean response time in host [ms]", "4.456", "1.530", "0.313"),
        ("EI_avg [ms]", "0.075", "0.059", "–"),
        ("EI_rms [ms]", "0.991", "0.888", "–"),
        ("EA_rms [ms]", "0.860", "0.838", "–"),
    ];
    for (name, cheetah, fast, immediate) in rows {
        let cells = row(name);
        assert_eq!([&cells[3], &cells[5], &cells[7]], [cheetah, fast, immediate], "{name}");
    }
    let document: Value =
        serde_json::from_slice(&fs::read(folder.path().join("postmark.json")).unwrap()).unwrap();
    let figure = |device: usize, name: &str| {
        let figure = &document["devices"][device]["repetitions"][0][name];
        figure.as_f64().unwrap_or_else(|| panic!("{name}: {figure}"))
    };
    for device in 0..3 {
        assert_eq!(figure(device, "exit_code"), 0.0);
        assert!(figure(device, "requests") > 100.0);
    }
    // The same requests on each, and the faster disk is faster, whatever the machine does meanwhile.
    let requests = [0, 1, 2].map(|device| figure(device, "requests"));
    assert!(requests.iter().all(|count| (count / requests[0] - 1.0).abs() < 0.1), "{requests:?}");
    let model = [0, 1].map(|device| figure(device, "mp3_mean_ms"));
    assert!(model[1] < 0.7 * model[0] && model[0] > 1.0 && model[0] < 10.0, "{model:?}");
    let elapsed = [0, 1, 2].map(|device| figure(device, "elapsed_s"));
    assert!(elapsed[1] < elapsed[0] && elapsed[2] < elapsed[1], "{elapsed:?}");
    for device in 0..2 {
        let (host, model) = (figure(device, "mp1_mean_ms"), figure(device, "mp3_mean_ms"));
        // Loose: the machine may be busy.
        assert!((host / model - 1.0).abs() < 0.5, "{host} ms in the host, {model} in the model");
    }
    let page = fs::read_to_string(folder.path().join("postmark.html")).unwrap();
    assert!(page.contains("cheetah-36es-50krpm"), "the report is of the three devices");
}
