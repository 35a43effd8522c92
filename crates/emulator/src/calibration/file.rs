//! Saving a calibration: one JSON file for each user, replaced as a whole.
//!
//! # Scope and limits
//! `seeklab/calibration.json` in `XDG_STATE_HOME`, by default `~/.local/state`. The file holds one
//! calibration. If several machines share that directory, it is of the machine that was calibrated last, and
//! the others report that it is of another machine.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use seeklab_files::OutputFile;

use super::{Calibration, Machine, NoCalibration};

/// No calibration is longer.
const BYTES_MAX: u64 = 1 << 20;

impl Calibration {
    /// Returns the path of the calibration of this user.
    ///
    /// # Errors
    /// If neither `XDG_STATE_HOME` nor `HOME` is an absolute path.
    pub fn default_path() -> Result<PathBuf, NoCalibration> {
        let state = path_from(std::env::var_os("XDG_STATE_HOME"), std::env::var_os("HOME"));
        state.map(|state| state.join("seeklab").join("calibration.json")).ok_or(NoCalibration::Nowhere)
    }

    /// The calibration of this user, machine, kernel and boot.
    ///
    /// # Errors
    /// The reason for its absence. `.ok()` ignores it.
    pub fn load() -> Result<Self, NoCalibration> {
        Self::load_from(&Self::default_path()?, &Machine::this())
    }

    /// The calibration of `machine` in the file at `path`.
    ///
    /// # Errors
    /// If there is none, if it cannot be read, or if it is of another machine, kernel or boot.
    pub fn load_from(path: &Path, machine: &Machine) -> Result<Self, NoCalibration> {
        let damaged = |reason: String| NoCalibration::Damaged { path: path.to_owned(), reason };
        let mut text = String::new();
        match File::open(path).and_then(|file| file.take(BYTES_MAX).read_to_string(&mut text)) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(NoCalibration::Absent { path: path.to_owned() });
            }
            Err(error) => return Err(damaged(error.to_string())),
        }
        let calibration: Self = serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
        calibration.check().map_err(damaged)?;
        match calibration.machine.differs(machine) {
            Some(what) => Err(NoCalibration::Stale { path: path.to_owned(), what }),
            None => Ok(calibration),
        }
    }

    /// Saves the calibration at `path`, and makes the directory if needed. Readers get either the old file or the
    /// new file.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn save_to(&self, path: &Path) -> io::Result<()> {
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        if let Some(directory) = directory {
            fs::create_dir_all(directory)?;
        }
        let mut text = serde_json::to_vec_pretty(self).map_err(io::Error::other)?;
        text.push(b'\n');
        let mut file = OutputFile::create(path)?;
        file.write_all(&text)?;
        Ok(file.finish_durably()?)
    }
}

/// Returns the directory for state. Relative paths are ignored, as the XDG specification requires.
fn path_from(state: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let absolute = |path: OsString| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    state.and_then(absolute).or_else(|| Some(home.and_then(absolute)?.join(".local").join("state")))
}

#[cfg(test)]
mod tests {
    use super::super::tests::synthetic;
    use super::*;

    #[test]
    fn calibration_is_read_as_it_was_saved() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new").join("calibration.json");
        let calibration = synthetic();
        let absent = Calibration::load_from(&path, &calibration.machine);
        assert!(matches!(absent, Err(NoCalibration::Absent { .. })), "{absent:?}");
        for _ in 0..2 {
            calibration.save_to(&path).unwrap();
            assert_eq!(Calibration::load_from(&path, &calibration.machine).unwrap(), calibration);
        }
        let files = fs::read_dir(path.parent().unwrap()).unwrap().count();
        assert_eq!(files, 1, "nothing is left beside it");
        let other = Machine { boot_id: "another".to_owned(), ..calibration.machine.clone() };
        let stale = Calibration::load_from(&path, &other);
        assert!(matches!(stale, Err(NoCalibration::Stale { .. })), "{stale:?}");
    }

    #[test]
    fn damaged_file_is_reported_as_damaged() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("calibration.json");
        let calibration = synthetic();
        let text = serde_json::to_string_pretty(&calibration).unwrap();
        let check = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            let result = Calibration::load_from(&path, &calibration.machine);
            assert!(matches!(result, Err(NoCalibration::Damaged { .. })), "{result:?}");
        };
        for length in (0..text.len() - 2).step_by(7) {
            check(&text.as_bytes()[..length]);
        }
        check(b"\xff\xfe\0");
        check(text.replace("\"version\": 3", "\"version\": 2").as_bytes());
        check(text.replace("\"arrival\": \"", "\"arrival\": \"-").as_bytes());
        check(text.replace("\"arrival\": \"", "\"arrival\": \"9999999").as_bytes());
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        let directory = Calibration::load_from(&path, &calibration.machine);
        assert!(matches!(directory, Err(NoCalibration::Damaged { .. })), "{directory:?}");
    }

    #[test]
    fn state_directory_follows_the_xdg_specification() {
        let check = |state: Option<&str>, home: Option<&str>, expected: Option<&str>| {
            let path = path_from(state.map(OsString::from), home.map(OsString::from));
            assert_eq!(path, expected.map(PathBuf::from), "{state:?} {home:?}");
        };
        check(Some("/state"), Some("/home/u"), Some("/state"));
        check(Some("state"), Some("/home/u"), Some("/home/u/.local/state"));
        check(None, Some("/home/u"), Some("/home/u/.local/state"));
        check(None, None, None);
    }
}
