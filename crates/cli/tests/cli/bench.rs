//! A folder to run the command in, and what a run came to.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

pub(crate) struct Bench {
    folder: tempfile::TempDir,
}

pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    command: String,
}

/// Twenty requests a second on average, 200 of them.
pub(crate) const RANDOM: &str = "random,poisson=20/s,requests=200";

impl Bench {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path(name), content).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Run {
        self.run_with(&[], arguments)
    }

    /// Runs it with variables of the environment.
    pub(crate) fn run_with(&self, variables: &[(&str, &str)], arguments: &[&str]) -> Run {
        let output = Command::new(env!("CARGO_BIN_EXE_seeklab"))
            .args(arguments)
            .envs(variables.iter().copied())
            .current_dir(self.folder.path())
            .output()
            .unwrap();
        Run {
            code: output.status.code().expect("no signal ends it"),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            command: arguments.join(" "),
        }
    }

    /// Runs it with `--json`; exactly one document is on stdout.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let text = self.run(&[arguments, &["--json"]].concat()).done();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {text}"))
    }

    /// A trace of 200 requests on an `hp-c2247a`, in that file.
    pub(crate) fn trace(&self, name: &str) {
        self.run(&["simulate", "hp-c2247a", "-w", RANDOM, "--out", name]).done();
    }
}

/// Returns the words of `text` with one blank between them, so that a folded sentence is found.
pub(crate) fn unfolded(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl Run {
    pub(crate) fn done(self) -> String {
        assert_eq!(self.code, 0, "seeklab {}: {}", self.command, self.stderr);
        self.stdout
    }

    /// Asserts that the command ran, that a check failed, and that stderr has all of `parts`.
    #[track_caller]
    pub(crate) fn misses(&self, parts: &[&str]) {
        assert_eq!(self.code, 1, "seeklab {}: {}", self.command, self.stderr);
        for part in parts {
            assert!(self.stderr.contains(part), "seeklab {}: no `{part}` in: {}", self.command, self.stderr);
        }
    }

    /// Asserts that the command failed, printed nothing on stdout, and that stderr has all of `parts`.
    #[track_caller]
    pub(crate) fn fails(&self, parts: &[&str]) {
        assert_eq!(self.code, 2, "seeklab {}: {}", self.command, self.stderr);
        assert_eq!(self.stdout, "", "seeklab {}", self.command);
        assert!(self.stderr.starts_with("error: "), "seeklab {}: {}", self.command, self.stderr);
        for part in parts {
            assert!(self.stderr.contains(part), "seeklab {}: no `{part}` in: {}", self.command, self.stderr);
        }
    }
}
