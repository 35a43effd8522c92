//! The experiment of section 4 of Thornock et al. runs as one command and shows the effect of moving hot
//! blocks.

use std::path::Path;
use std::process::Command;

use super::shared_trace;

/// The rows of the table, split at their bars.
fn rows(report: &str) -> Vec<Vec<String>> {
    let fields = |line: &str| line.split('|').map(|field| field.trim().to_owned()).collect();
    report.lines().filter(|line| line.starts_with("| ")).map(fields).collect()
}

fn reorganise(trace: &Path, days: &str, devices: &[&str]) -> Option<String> {
    let out = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/reorganise.sh");
    if Command::new("python3").arg("--version").output().is_err() {
        println!("skipped: python3 is not installed");
        return None;
    }
    let output = Command::new(script)
        .arg(trace)
        .args(devices)
        .env("SEEKLAB", env!("CARGO_BIN_EXE_seeklab"))
        .env("OUT", out.path())
        .env("DAYS", days)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(std::fs::read_to_string(out.path().join("report.md")).unwrap())
}

#[test]
fn experiment_runs_on_the_trace_in_the_examples() {
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/office-server.csv.zst");
    let Some(report) = reorganise(&trace, "1", &["hp-c2247a"]) else { return };
    let rows = rows(&report);
    let all = rows.last().unwrap();
    assert_eq!((all[1].as_str(), all[2].as_str()), ("all", "37,967"), "{report}");
}

#[test]
#[cfg_attr(not(shared_traces), ignore = "needs ../shared/traces")]
fn documented_figures_are_those_of_the_experiment() {
    let trace = shared_trace("hpl-srt-ajw/ajw.1week.srt.zst");
    let Some(report) = reorganise(&trace, "7", &["hp-c2247a", "fit:station", "fit:plain"]) else { return };
    let documents = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reorganisation.md");
    let documents = std::fs::read_to_string(documents).unwrap();
    for row in report.lines().filter(|line| line.starts_with("| ")) {
        assert!(documents.contains(row), "docs/reorganisation.md does not have\n{row}");
    }
}
