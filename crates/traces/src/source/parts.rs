//! Traces of several files: one per processor, beside each other, in a folder or in an archive.
//!
//! ```text
//!  sdb.blktrace.0, sdb.blktrace.1, …    any of them, or the base `sdb.blktrace` or `sdb`
//!  folder/                              with the files of one trace
//!  sdb.tar, .tar.gz, .tar.zst, .tar.xz  the same in an archive
//!  sdb.zip
//! ```
//! Files belong together when their names differ in a number behind the last `.` only; each may be
//! compressed. The number of a file only determines its place in the order.
//!
//! # Scope and limits
//! A compressed archive is unpacked to an unnamed temporary file, as its parts are read side by side. Every
//! part that has bytes is open at the same time. An archive or folder with the parts of several traces is
//! refused. Files beside the parts are omitted, and a note lists them. Sparse members of archives are
//! refused.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::error::TraceError;
use crate::options::{Allowed, FormatOption};
use crate::source::compression::{Compression, decompress, stream_error};
use crate::source::integrity::Integrity;
use crate::source::position::Position;
use crate::source::zipped::{self, Zipped, is_zip};
use crate::trace_format::Note;
use seeklab_core::number_words::in_number;

/// Files that an archive may have.
pub(super) const MEMBERS_MAX: usize = 1 << 16;
/// Bytes of the header of a member of an archive.
pub(crate) const TAR_HEADER: usize = 512;

/// One file of a trace, being read.
pub(crate) struct Part {
    /// Name in messages.
    pub(crate) name: PathBuf,
    /// Its plain bytes.
    pub(crate) input: Box<dyn Read + Send>,
}

/// One file of a trace.
#[derive(Debug, Clone)]
pub(crate) enum Member {
    /// Beside others or in a folder.
    File(PathBuf),
    /// In an archive.
    Slice(PathBuf, Slice),
    /// In a zip archive.
    Zipped(PathBuf, Zipped),
}

/// A range of a file that several read side by side.
#[derive(Debug, Clone)]
pub(crate) struct Slice {
    pub(super) file: Arc<Mutex<File>>,
    pub(super) position: u64,
    pub(super) end: u64,
}

impl Slice {
    /// Bytes that are left to read.
    const fn len(&self) -> u64 {
        self.end - self.position
    }
}

/// The files of a trace in their order, and the names of what lies beside them.
#[derive(Debug, Default)]
pub(crate) struct Members {
    pub(crate) parts: Vec<Member>,
    pub(crate) beside: Vec<String>,
}

impl Read for Slice {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end - self.position).unwrap_or(usize::MAX).min(target.len());
        let mut file = self.file.lock().map_err(|_| io::ErrorKind::Other)?;
        file.seek(SeekFrom::Start(self.position))?;
        let count = file.read(&mut target[..left])?;
        if count == 0 && left > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.position += count as u64;
        Ok(count)
    }
}

impl Member {
    /// Returns the name for messages.
    pub(crate) fn name(&self) -> &Path {
        match self {
            Self::File(path) | Self::Slice(path, _) | Self::Zipped(path, _) => path,
        }
    }

    /// Returns true if the part has no bytes.
    fn is_empty(&self) -> bool {
        match self {
            Self::File(path) => std::fs::metadata(path).is_ok_and(|metadata| metadata.len() == 0),
            Self::Slice(_, slice) => slice.len() == 0,
            Self::Zipped(_, zipped) => zipped.is_empty(),
        }
    }

    /// Begins to read it.
    ///
    /// Bytes that are read from it count in `position`, and `integrity` watches it if it has checksums.
    ///
    /// # Errors
    /// If it cannot be read, or is damaged at its start.
    pub(crate) fn open(
        &self,
        position: &Position,
        integrity: &Integrity,
    ) -> Result<(Compression, Part), TraceError> {
        let stream: Box<dyn Read + Send> = match self {
            Self::File(path) => Box::new(
                position.counting(
                    File::open(path)
                        .map_err(|error| TraceError::io("cannot open the file", error).in_file(path))?,
                ),
            ),
            Self::Slice(_, slice) => Box::new(position.counting_of(slice.clone(), slice.len())),
            Self::Zipped(_, zipped) => {
                let slice = zipped.slice.clone();
                let length = slice.len();
                zipped.unpacked(position.counting_of(slice, length))
            }
        };
        let (compression, input) =
            decompress(stream).map_err(|error| stream_error(error, 0).in_file(self.name()))?;
        let has_checksum = compression != Compression::None || matches!(self, Self::Zipped(..));
        let input = if has_checksum { integrity.watch(input) } else { input };
        Ok((compression, Part { name: self.name().to_owned(), input }))
    }
}

/// The name without compression and number, and the number, of a file that may be one of several.
fn numbered(path: &Path) -> Option<(String, u32)> {
    let (_, name) = Compression::of_path(path);
    let (stem, number) = name.rsplit_once('.')?;
    let is_number =
        !stem.is_empty() && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    Some((stem.to_owned(), number.parse().ok()?)).filter(|_| is_number)
}

/// The one trace among `files`; `None` if there is none with a number.
fn choose(path: &Path, files: Vec<Member>) -> Result<Option<Members>, TraceError> {
    let mut groups: BTreeMap<(PathBuf, String), Vec<(u32, Member)>> = BTreeMap::new();
    let mut members = Members::default();
    for file in files {
        match numbered(file.name()) {
            Some((stem, number)) => {
                let folder = file.name().parent().unwrap_or(Path::new("")).to_owned();
                groups.entry((folder, stem)).or_default().push((number, file));
            }
            None => members.beside.push(file_name(file.name())),
        }
    }
    if groups.len() > 1 {
        let names: Vec<_> = groups.keys().take(8).map(|(_, stem)| format!("`{stem}`")).collect();
        let what = format!("it has the files of {} traces: {}", groups.len(), names.join(", "));
        let hint = "put the files of one trace into a folder and name that";
        return Err(TraceError::malformed(what).with_hint(hint).in_file(path));
    }
    let Some((_, mut group)) = groups.pop_first() else { return Ok(None) };
    group.sort_by_key(|(number, _)| *number);
    members.parts = group.into_iter().map(|(_, file)| file).filter(|file| !file.is_empty()).collect();
    Ok(Some(members))
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// The files of the trace in `folder`; `None` if there are none.
///
/// # Errors
/// If there are those of several traces, or the folder cannot be read.
pub(crate) fn in_folder(folder: &Path) -> Result<Option<Members>, TraceError> {
    let unreadable = |error| TraceError::io("cannot read the folder", error).in_file(folder);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.is_file() {
            files.push(Member::File(path));
        }
    }
    files.sort_by(|one, other| one.name().cmp(other.name()));
    choose(folder, files)
}

/// The files of the trace whose base is `path`: `path.0` or `path.blktrace.0` and so on; `None` if there
/// are none.
///
/// # Errors
/// If the folder cannot be read.
pub(crate) fn of_base(path: &Path) -> Result<Option<Members>, TraceError> {
    let name = file_name(path);
    for stem in [name.clone(), name + ".blktrace"] {
        let parts = with_stem(path, &stem)?;
        if !parts.is_empty() {
            return Ok(Some(Members { parts, beside: Vec::new() }));
        }
    }
    Ok(None)
}

/// The files that belong together with the one at `path`, itself among them; none if it has no number.
///
/// # Errors
/// If the folder cannot be read.
pub(crate) fn siblings(path: &Path) -> Result<Vec<Member>, TraceError> {
    numbered(path).map_or(Ok(Vec::new()), |(stem, _)| with_stem(path, &stem))
}

/// The files beside `path` with that stem and a number, those without a byte left out.
fn with_stem(path: &Path, stem: &str) -> Result<Vec<Member>, TraceError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(TraceError::io("cannot read the folder", error).in_file(folder)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry =
            entry.map_err(|error| TraceError::io("cannot read the folder", error).in_file(folder))?.path();
        if let Some((_, number)) = numbered(&entry).filter(|(other, _)| other == stem)
            && entry.is_file()
        {
            found.push((number, Member::File(entry)));
        }
    }
    found.sort_by(|one, other| (one.0, one.1.name()).cmp(&(other.0, other.1.name())));
    Ok(found.into_iter().map(|(_, member)| member).filter(|member| !member.is_empty()).collect())
}

/// Returns true if a file with this beginning is an archive: that of a zip archive, or it has the magic word of a tar
/// archive, and the checksum of the header is right.
pub(crate) fn is_archive(head: &[u8]) -> bool {
    if is_zip(head) {
        return true;
    }
    let Some(header) = head.first_chunk::<TAR_HEADER>() else { return false };
    let stated = std::str::from_utf8(&header[148..156]).unwrap_or_default();
    let stated = u32::from_str_radix(stated.trim_matches(['\0', ' ']), 8);
    let sum = |bytes: &[u8]| bytes.iter().map(|byte| u32::from(*byte)).sum::<u32>();
    let sum = sum(&header[..148]) + 8 * u32::from(b' ') + sum(&header[156..]);
    &header[257..262] == b"ustar" && stated == Ok(sum)
}

/// The files of the trace in the archive `file`, which messages call `path`.
///
/// # Errors
/// If the archive is damaged, or has several traces or none.
pub(crate) fn in_archive(path: &Path, mut file: File) -> Result<Members, TraceError> {
    let unreadable = |error| TraceError::io("cannot read the file", error).in_file(path);
    let mut magic = Vec::with_capacity(TAR_HEADER);
    (&mut file).take(TAR_HEADER as u64).read_to_end(&mut magic).map_err(unreadable)?;
    file.rewind().map_err(unreadable)?;
    let files: Vec<Member> = if is_zip(&magic) {
        zipped::files(path, file)?.into_iter().map(|(name, one)| Member::Zipped(name, one)).collect()
    } else {
        in_tar(path, file)?
    };
    if let [one] = &files[..] {
        return Ok(Members { parts: vec![one.clone()], beside: Vec::new() });
    }
    let count = files.len();
    choose(path, files)?.ok_or_else(|| {
        TraceError::malformed(format!(
            "the archive has {count} files, and none is a numbered part of a trace"
        ))
        .with_hint("unpack it and name one of its files")
        .in_file(path)
    })
}

/// The files in a tar archive.
fn in_tar(path: &Path, file: File) -> Result<Vec<Member>, TraceError> {
    let damaged = |error| {
        TraceError::malformed("the archive is damaged or ends early").with_source(error).in_file(path)
    };
    let length = file.metadata().map_err(damaged)?.len();
    let mut found = Vec::new();
    let mut archive = tar::Archive::new(&file);
    for entry in archive.entries_with_seek().map_err(damaged)? {
        let entry = entry.map_err(damaged)?;
        let kind = entry.header().entry_type();
        if kind.is_dir() {
            continue;
        }
        let name = path.join(entry.path().map_err(damaged)?);
        if kind.is_gnu_sparse() {
            let what = "a sparse file in an archive cannot be read";
            return Err(TraceError::malformed(what).with_hint("unpack the archive").in_file(&name));
        }
        if !kind.is_file() {
            continue;
        }
        let start = entry.raw_file_position();
        let end = start.checked_add(entry.size()).filter(|end| *end <= length);
        let end = end.ok_or_else(|| damaged(io::ErrorKind::UnexpectedEof.into()))?;
        found.push((name, start, end));
        if found.len() > MEMBERS_MAX {
            return Err(
                TraceError::malformed(format!("the archive has more than {MEMBERS_MAX} files")).in_file(path)
            );
        }
    }
    let file = Arc::new(Mutex::new(file));
    let slice = |(name, position, end)| Member::Slice(name, Slice { file: Arc::clone(&file), position, end });
    Ok(found.into_iter().map(slice).collect())
}

/// Option to also read the files that belong to the named file.
pub(crate) const PARTS: FormatOption = FormatOption {
    name: "parts",
    allowed: Allowed::OneOf(&["siblings", "alone"]),
    default: "siblings",
    meaning: "read files beside it that differ in their number only as parts of the trace",
};

/// Returns a note on the files of an archive or a folder that were omitted.
pub(crate) fn left_beside(names: &[String]) -> Option<Note> {
    let listed = names.iter().take(8).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let more = if names.len() > 8 { ", …" } else { "" };
    (!names.is_empty()).then(|| {
        Note::Remark(
            format!(
                "{} {}: {listed}{more}",
                names.len(),
                in_number(names.len(), "file[|s] beside the parts [is|are] left out")
            )
            .into(),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (name, bytes) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            builder.append_data(&mut header, name, *bytes).unwrap();
        }
        builder.into_inner().unwrap()
    }

    fn members(bytes: &[u8]) -> Result<Members, TraceError> {
        let mut file = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut file, bytes).unwrap();
        file.rewind().unwrap();
        in_archive(Path::new("a.tar"), file)
    }

    fn text(member: &Member) -> String {
        let mut text = String::new();
        member
            .open(&Position::default(), &Integrity::default())
            .unwrap()
            .1
            .input
            .read_to_string(&mut text)
            .unwrap();
        text
    }

    #[test]
    fn parts_of_an_archive_are_found_in_order() {
        let bytes = archive(&[("d/x.10", b"ten"), ("d/x.2", b"two"), ("d/x.3", b""), ("d/notes", b"n")]);
        assert!(is_archive(&bytes));
        let members = members(&bytes).unwrap();
        assert_eq!(members.parts.iter().map(text).collect::<Vec<_>>(), ["two", "ten"]);
        assert_eq!(members.parts[0].name(), Path::new("a.tar/d/x.2"));
        assert_eq!(members.beside, ["notes"]);
    }

    #[test]
    fn single_file_in_an_archive_is_the_trace() {
        let members = members(&archive(&[("whatever", b"text")])).unwrap();
        assert_eq!(text(&members.parts[0]), "text");
    }

    #[test]
    fn ambiguous_archives_are_refused() {
        let error = members(&archive(&[("x.1", b"1"), ("y.1", b"1")])).unwrap_err();
        assert!(error.to_string().contains("2 traces: `x`, `y`"), "{error}");
        let error = members(&archive(&[("x", b"1"), ("y", b"1")])).unwrap_err();
        assert!(error.to_string().contains("has 2 files"), "{error}");
    }

    #[test]
    fn archive_that_ends_early_is_refused() {
        let bytes = archive(&[("x.1", &[7; 4000])]);
        for length in [600, 1500, 4000] {
            let error = members(&bytes[..length]).unwrap_err();
            assert!(error.to_string().contains("damaged or ends early"), "{error}");
        }
        assert!(!is_archive(&bytes[..511]));
        assert!(!is_archive(&[b' '; 600]));
    }

    #[test]
    fn sibling_files_and_files_of_a_base_name_are_found() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in
            [("s.blktrace.0", "0"), ("s.blktrace.11", "11"), ("s.blktrace.2", ""), ("t.0", "x")]
        {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let check = |members: &[Member]| {
            assert_eq!(members.iter().map(text).collect::<Vec<_>>(), ["0", "11"]);
        };
        check(&siblings(&folder.path().join("s.blktrace.11")).unwrap());
        check(&of_base(&folder.path().join("s")).unwrap().unwrap().parts);
        check(&of_base(&folder.path().join("s.blktrace")).unwrap().unwrap().parts);
        assert!(of_base(&folder.path().join("u")).unwrap().is_none());
        assert!(in_folder(folder.path()).is_err());
        std::fs::remove_file(folder.path().join("t.0")).unwrap();
        check(&in_folder(folder.path()).unwrap().unwrap().parts);
    }
}
