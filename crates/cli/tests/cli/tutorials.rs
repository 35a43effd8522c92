//! Tutorials (`docs/tutorials`): every command runs, and the words of the shown output are in its output.
//!
//! A block of `console` holds commands and their output. A command that begins with `$ seeklab` runs everywhere. A
//! command that begins with `# seeklab` needs root, FUSE and loop devices; without these the test reports it as
//! skipped.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::survive::can_mount;

struct Step {
    needs_root: bool,
    command: String,
    shown: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the commands of all `console` blocks, in order.
fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for block in page.split("```console\n").skip(1) {
        let (block, _) = block.split_once("\n```").expect("a block ends");
        let mut lines = block.lines().peekable();
        let first = lines.peek().expect("a block has lines");
        assert!(first.starts_with("$ ") || first.starts_with("# "), "the block begins with `{first}`");
        for line in lines {
            let prompt = [("$ ", false), ("# ", true)];
            match prompt.iter().find_map(|(prompt, root)| Some((line.strip_prefix(prompt)?, *root))) {
                Some((command, needs_root)) => {
                    steps.push(Step { needs_root, command: command.to_owned(), shown: String::new() })
                }
                None => {
                    let step = steps.last_mut().expect("the first line is a command");
                    step.shown = format!("{}{line}\n", step.shown);
                }
            }
        }
    }
    steps
}

/// Returns the words of an output: no numbers and no drawings.
fn words(text: &str) -> BTreeSet<&str> {
    text.split_whitespace()
        .map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()))
        .filter(|word| word.chars().filter(|c| c.is_alphabetic()).count() > 1)
        .filter(|word| word.chars().all(|c| c.is_alphabetic() || "-_./".contains(c)))
        .collect()
}

fn follow(name: &str) {
    let page = fs::read_to_string(root().join("docs/tutorials").join(name)).unwrap();
    let steps = steps(&page);
    assert!(steps.iter().filter(|step| !step.needs_root).count() >= 3, "{name} has too few commands");
    let folder = tempfile::tempdir().unwrap();
    symlink(root().join("examples").canonicalize().unwrap(), folder.path().join("examples")).unwrap();
    for Step { needs_root, command, shown } in steps {
        if needs_root && !can_mount(&format!("{name}: `{command}`"), &["mkfs.ext4"]) {
            continue;
        }
        let words_of_command: Vec<&str> = command.split_whitespace().collect();
        let ["seeklab", arguments @ ..] = words_of_command.as_slice() else {
            panic!("{name}: `{command}` is no command of seeklab")
        };
        let output = Command::new(env!("CARGO_BIN_EXE_seeklab"))
            .args(arguments)
            .current_dir(folder.path())
            .env("XDG_STATE_HOME", folder.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{name}: {command}: {text}");
        let printed = words(&text);
        let shown = words(&shown);
        let absent: Vec<_> = shown.difference(&printed).collect();
        assert!(absent.is_empty(), "{name}: {command}: {absent:?} are shown, and not in\n{text}");
    }
}

#[test]
fn first_simulation_runs_as_shown() {
    follow("first-simulation.md");
}

#[test]
fn my_program_on_a_disk_runs_as_shown() {
    follow("my-program-on-a-disk.md");
}

#[test]
fn clone_of_my_device_runs_as_shown() {
    follow("clone-of-my-device.md");
}

#[test]
fn every_tutorial_is_followed() {
    let folder = fs::read_dir(root().join("docs/tutorials")).unwrap();
    let mut names: Vec<_> = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["clone-of-my-device.md", "first-simulation.md", "my-program-on-a-disk.md"]);
}
