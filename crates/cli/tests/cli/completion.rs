//! Completion in a real bash: it sources what the program prints and calls the function that is registered.

use std::process::Command;

use super::bench::Bench;

/// Prints the completions of the last of its arguments.
const SCRIPT: &str = r#"
source <(COMPLETE=bash "$0")
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
COMP_TYPE=9
_clap_complete_seeklab seeklab "${@: -1}" "${@: -2:1}" 2> /dev/null
printf '%s\n' "${COMPREPLY[@]}"
"#;

fn completed(bench: &Bench, words: &[&str]) -> Vec<String> {
    let output = Command::new("bash")
        .args(["--norc", "-c", SCRIPT, env!("CARGO_BIN_EXE_seeklab"), "seeklab"])
        .args(words)
        .current_dir(bench.path("."))
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{words:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text.lines().map(str::to_owned).collect()
}

#[test]
fn devices_are_completed_by_the_catalog_and_by_descriptions() {
    let bench = Bench::new();
    bench.write("cheap.toml", "base = \"hp-c2247a\"\n");
    bench.write("cheap.csv", "");
    let found = completed(&bench, &["simulate", "che"]);
    for name in ["cheetah-36es", "cheetah9lp", "cheap.toml"] {
        assert!(found.iter().any(|found| found == name), "{name} is not in {found:?}");
    }
    assert!(!found.iter().any(|found| found == "cheap.csv"), "{found:?}");
    let compared = completed(&bench, &["run", "hp-c2247a", "--compare", "immediate,atlas10"]);
    assert!(compared.contains(&"immediate,atlas10k".to_owned()), "{compared:?}");
}

#[test]
fn keys_of_set_are_the_parameters_of_the_named_device() {
    let bench = Bench::new();
    assert_eq!(completed(&bench, &["simulate", "cheetah-36es", "--set", "rp"]), ["rpm=", "rpm_error="]);
    assert_eq!(completed(&bench, &["devices", "exponential", "--set", "service"]), ["service_time="]);
    assert_eq!(completed(&bench, &["simulate", "exponential", "--set", "rp"]), [""]);
    bench.write("queue.toml", "kind = \"queue\"\nscheduler = \"sptf\"\n[device]\nbase = \"hp-c2247a\"\n");
    assert_eq!(completed(&bench, &["serve", "queue.toml", "--set", "sched"]), ["scheduler="]);
    assert_eq!(
        completed(&bench, &["serve", "queue.toml", "--set", "device.mechanics.h"]),
        ["device.mechanics.head_switch="]
    );
}

#[test]
fn names_of_kinds_documents_formats_schedulers_and_protocols_are_completed() {
    let bench = Bench::new();
    assert_eq!(completed(&bench, &["devices", "--parameters", "que"]), ["queue"]);
    assert_eq!(completed(&bench, &["workloads", "--parameters", "syn"]), ["synthetic"]);
    assert_eq!(completed(&bench, &["schema", "trace-s"]), ["trace-slice"]);
    assert_eq!(completed(&bench, &["faults", "tail"]), ["tail-disk", "tail-ssd"]);
    assert_eq!(completed(&bench, &["serve", "immediate", "--fault", "bandw"]), ["bandwidth_cap"]);
    assert_eq!(completed(&bench, &["trace", "info", "--from", "ms"]), ["msr", "msr-cut"]);
    assert!(completed(&bench, &["simulate", "--scheduler", "spt"]).contains(&"sptf".to_owned()));
    assert_eq!(completed(&bench, &["calib"]), ["calibrate"]);
    for verb in ["serve", "record"] {
        assert_eq!(completed(&bench, &[verb, "--nb"]), ["--nbd"]);
        assert_eq!(completed(&bench, &[verb, "--fus"]), ["--fuse"]);
    }
}
