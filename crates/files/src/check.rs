//! Checks of outputs and inputs before the work whose result is to be written.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::draft::Draft;
use crate::error::FileError;
use crate::target::{Target, folder_of};

/// Checks that a file can be written at `path`. What is there stays as it is.
///
/// # Errors
/// If `path` is a folder, if its folder is missing, or if permissions forbid it.
pub fn check_writable(path: &Path) -> Result<(), FileError> {
    let failed = |error| FileError::io(path, "cannot be written", error);
    if path.file_name().is_none() || path.is_dir() {
        return Err(FileError::new(path, "cannot be written, it is a folder"));
    }
    match Target::of(path).map_err(failed)? {
        Target::Stream(_) => Ok(()),
        Target::Special(target) | Target::Fifo(target) => {
            access(&target, Access::WRITE_OK).map_err(|error| failed(error.into()))
        }
        Target::File(target) => {
            let folder = folder_of(&target);
            if !folder.is_dir() {
                let problem = format!("cannot be written, there is no folder `{}`", folder.display());
                return Err(
                    FileError::new(path, problem).with_hint("make the folder first, or name another place")
                );
            }
            // Dropped at once; it tells more than permissions do.
            Draft::new(&target).map(drop).map_err(failed)
        }
    }
}

/// Checks that `path` is a folder, or can become one with the folders above it. What is there stays as it is.
///
/// # Errors
/// If `path` or a part of it is something else.
pub fn check_folder(path: &Path) -> Result<(), FileError> {
    let Some((part, metadata)) = path
        .ancestors()
        .filter(|part| !part.as_os_str().is_empty())
        .find_map(|part| Some((part, fs::symlink_metadata(part).ok()?)))
    else {
        return Ok(());
    };
    let kind = match fs::metadata(part) {
        Ok(followed) if followed.is_dir() => return Ok(()),
        Ok(followed) if followed.is_file() => "a file",
        Err(error) if error.kind() == ErrorKind::NotFound && metadata.is_symlink() => "a link to nothing",
        Err(error) => return Err(FileError::io(path, "cannot be used", error)),
        Ok(_) => "a device, pipe or socket",
    };
    let problem = match part == path {
        true => format!("is {kind}, and must be a folder"),
        false => format!("`{}` is {kind}, and must be a folder", part.display()),
    };
    Err(FileError::new(path, problem).with_hint("name a folder; one that is not there is made"))
}

/// Checks as [`check_writable`], and that the file is none of `inputs`, under any name.
///
/// An input may be a folder of numbered files, or the base of their names; then the output is none of these.
///
/// # Errors
/// As [`check_writable`]; if the output is an input.
pub fn check_distinct<P: AsRef<Path>>(
    path: &Path,
    inputs: impl IntoIterator<Item = P>,
) -> Result<(), FileError> {
    check_writable(path)?;
    let Some(output) = identity(path) else { return Ok(()) };
    for input in inputs {
        let input = input.as_ref();
        if files_of(input).iter().any(|file| identity(file) == Some(output)) {
            let problem = format!("cannot be written, it is an input: {}", input.display());
            return Err(FileError::new(path, problem).with_hint("name another file for the result"));
        }
    }
    Ok(())
}

/// Checks that no two outputs of one command are the same file, under any name. Devices, FIFOs and streams may be.
///
/// # Errors
/// If two are; the later one would replace the other.
pub fn check_apart<P: AsRef<Path>>(outputs: impl IntoIterator<Item = P>) -> Result<(), FileError> {
    let mut taken: Vec<(PathBuf, Option<(u64, u64)>)> = Vec::new();
    for output in outputs {
        let path = output.as_ref();
        let Ok(Target::File(target)) = Target::of(path) else { continue };
        let folder = fs::canonicalize(folder_of(&target)).unwrap_or_else(|_| folder_of(&target).to_owned());
        let place = (folder.join(target.file_name().unwrap_or_default()), identity(path));
        let is_same = |other: &(PathBuf, Option<(u64, u64)>)| {
            other.0 == place.0 || (place.1.is_some() && other.1 == place.1)
        };
        if taken.iter().any(is_same) {
            return Err(FileError::new(path, "cannot be written twice, it is another output already")
                .with_hint("name a file for each result"));
        }
        taken.push(place);
    }
    Ok(())
}

/// Device and inode of a regular file.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let metadata = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    Some((metadata.dev(), metadata.ino()))
}

/// The files that are read where `path` is named: the file itself, or the numbered ones in it or whose names begin
/// with it.
fn files_of(path: &Path) -> Vec<PathBuf> {
    let (folder, base) = match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => (path, String::new()),
        Ok(_) => return vec![path.to_owned()],
        Err(_) => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            (folder_of(path), format!("{name}."))
        }
    };
    let is_part = |file: &PathBuf| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let number = file.extension().unwrap_or_default().to_string_lossy();
        name.starts_with(&base) && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(is_part).collect()
}

/// Checks that an input can be read from its start more than once.
///
/// # Errors
/// If it is a pipe or a device.
pub fn check_rereadable(path: &Path) -> Result<(), FileError> {
    match fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() && !metadata.is_dir() => {
            Err(FileError::new(path, "is a pipe or a device, and it is read more than once")
                .with_hint("write it to a file first"))
        }
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            Err(FileError::io(path, "cannot be read", error))
        }
        // Opening it says what else is wrong.
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &Path, expected: &str) {
        assert_eq!(check_writable(path).unwrap_err().to_string(), expected);
    }

    #[test]
    fn folder_is_no_place_for_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().display();
        check(folder.path(), &format!("{name}: cannot be written, it is a folder"));
        let absent = folder.path().join("no/file");
        check(&absent, &format!("{name}/no/file: cannot be written, there is no folder `{name}/no`"));
        assert!(check_writable(&folder.path().join("file")).is_ok());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is made");
    }

    #[test]
    fn folder_is_a_folder_or_can_be_made() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "").unwrap();
        std::os::unix::fs::symlink(at("nowhere"), at("dangling")).unwrap();
        std::os::unix::fs::symlink(folder.path(), at("link")).unwrap();
        let refused = |path: &Path, expected: &str| {
            assert_eq!(
                check_folder(path).unwrap_err().to_string(),
                format!("{}: {expected}", path.display())
            );
        };
        refused(&at("file"), "is a file, and must be a folder");
        let below = format!("`{}` is a file, and must be a folder", at("file").display());
        refused(&at("file/run/1"), &below);
        refused(&at("dangling"), "is a link to nothing, and must be a folder");
        refused(Path::new("/dev/null"), "is a device, pipe or socket, and must be a folder");
        for path in [at("new/run"), at("link/run"), folder.path().to_owned(), PathBuf::from("relative/run")] {
            check_folder(&path).unwrap();
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "nothing is made");
    }

    #[test]
    fn file_system_that_takes_no_writes_is_refused_before_the_work() {
        // Linux refuses to make files in /proc, and its folders deny writing to everybody.
        assert!(check_writable(Path::new("/proc/report.html")).is_err());
    }

    #[test]
    fn two_outputs_are_not_one_file_by_two_names() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("sub")).unwrap();
        std::os::unix::fs::symlink(at("new"), at("link")).unwrap();
        fs::write(at("old"), "").unwrap();
        fs::hard_link(at("old"), at("hard")).unwrap();
        for [one, other] in [["new", "new"], ["new", "sub/../new"], ["link", "new"], ["old", "hard"]] {
            let error = check_apart([at(one), at(other)]).unwrap_err().to_string();
            assert!(error.contains("it is another output already"), "{one} {other}: {error}");
        }
        let null = PathBuf::from("/dev/null");
        check_apart([at("new"), at("old"), at("sub/new"), null.clone(), null]).unwrap();
    }

    #[test]
    fn output_is_no_input_by_another_name() {
        let folder = tempfile::tempdir().unwrap();
        let (input, link) = (folder.path().join("in"), folder.path().join("link"));
        fs::write(&input, "trace").unwrap();
        fs::hard_link(&input, &link).unwrap();
        assert!(check_distinct(&link, [&input]).unwrap_err().to_string().contains("it is an input"));
        assert!(check_distinct(&folder.path().join("out"), [&input]).is_ok());
    }
}
