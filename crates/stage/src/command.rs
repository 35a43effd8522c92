//! Command lines, and the search for their programs.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use seeklab_core::names::near;
use serde::{Deserialize, Serialize};

use crate::error::{Missing, did_you_mean};

/// The shell that [`CommandLine::Shell`] is given to.
pub(crate) const SHELL: &str = "/bin/sh";

/// Folders with administrators' programs, which an ordinary user's PATH often lacks.
const ADMINISTRATION: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Command of a phase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CommandLine {
    /// A program and its arguments, as they are. The working directory is another one there: see
    /// [`resolve`].
    Words(Vec<OsString>),
    /// A line for `/bin/sh -c`.
    Shell(String),
}

/// `words` with its program found and its path absolute, so that it can be run from another directory.
///
/// A name without a slash is looked for in PATH, another is a path from the working directory.
///
/// # Errors
/// A command without words, or a program that is absent or cannot be executed.
pub fn resolve(words: &[OsString]) -> Result<Vec<OsString>, Missing> {
    let Some((program, arguments)) = words.split_first() else {
        return Err(Missing::new("no command is given", "write it after `--`, for example `-- ls -l`"));
    };
    let path = env::var_os("PATH").unwrap_or_default();
    let program = locate(program, &path)?;
    Ok(std::iter::once(program.into_os_string()).chain(arguments.iter().cloned()).collect())
}

fn locate(program: &OsStr, path: &OsStr) -> Result<PathBuf, Missing> {
    let shown = Path::new(program).display();
    if program.as_encoded_bytes().contains(&b'/') {
        let remedy = "give the path of an executable file";
        let Ok(metadata) = fs::metadata(program) else {
            return Err(Missing::new(format!("there is no program `{shown}`"), remedy));
        };
        if !metadata.is_file() || metadata.permissions().mode() & 0o111 == 0 {
            let remedy = format!("`chmod +x {shown}`, or run it by its interpreter");
            return Err(Missing::new(format!("`{shown}` is not executable"), remedy));
        }
        return std::path::absolute(program)
            .map_err(|error| Missing::new(format!("`{shown}` has no absolute path: {error}"), remedy));
    }
    in_folders(program, env::split_paths(path)).ok_or_else(|| {
        let what = format!("there is no program `{shown}` in PATH");
        let remedy = suggestion(program, path)
            .unwrap_or_else(|| "install it, or give its path, with a slash in it".to_owned());
        Missing::new(what, remedy)
    })
}

/// Returns the program of that name, in PATH or where administrators' programs are; `None` if it is in neither.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let administration = ADMINISTRATION.iter().map(PathBuf::from);
    in_folders(OsStr::new(name), env::split_paths(&path).chain(administration))
}

fn in_folders(name: &OsStr, folders: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    folders.filter_map(|folder| std::path::absolute(folder.join(name)).ok()).find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

fn suggestion(program: &OsStr, path: &OsStr) -> Option<String> {
    let names: Vec<String> = env::split_paths(path)
        .filter_map(|folder| fs::read_dir(folder).ok())
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect::<std::collections::BTreeSet<_>>()
        .into_iter()
        .collect();
    did_you_mean(&near(program.to_str()?, names.iter().map(String::as_str)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn program_is_resolved_to_an_absolute_path() {
        let found = resolve(&words(&["sh", "-c", "true"])).unwrap();
        assert!(Path::new(&found[0]).is_absolute() && found[0].as_encoded_bytes().ends_with(b"/sh"));
        assert_eq!(found[1..], words(&["-c", "true"]));

        let folder = tempfile::tempdir_in(".").unwrap();
        let program = folder.path().join("tool");
        fs::write(&program, "#!/bin/sh\n").unwrap();
        let relative = Path::new(".").join(folder.path().file_name().unwrap()).join("tool");
        let asked = [relative.clone().into_os_string()];
        let missing = resolve(&asked).unwrap_err();
        assert!(missing.what.ends_with("is not executable"), "{missing}");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let found = resolve(&asked).unwrap();
        assert!(Path::new(&found[0]).is_absolute());
        assert_eq!(fs::canonicalize(&found[0]).unwrap(), fs::canonicalize(&program).unwrap());
    }

    #[test]
    fn missing_program_is_refused_with_similar_names() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["postmark", "fio"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let missing = locate(OsStr::new("postmrak"), folder.path().as_os_str()).unwrap_err();
        assert_eq!(missing.what, "there is no program `postmrak` in PATH");
        assert_eq!(missing.remedy, "did you mean `postmark`?");
        // Not executable, so not a program.
        assert!(locate(OsStr::new("fio"), folder.path().as_os_str()).is_err());
    }

    #[test]
    fn empty_command_is_refused() {
        assert_eq!(resolve(&[]).unwrap_err().what, "no command is given");
        assert!(resolve(&words(&["./no/such/program"])).is_err());
    }
}
