//! Saves the rows of a trace that is written in `OUTPUT.part`, so that they can be read if the process is killed.
//!
//! ```text
//! rows ─▶ Saving ─┬─▶ writer of OUTPUT, which has no name until it is finished
//!                 └─▶ OUTPUT.part, a block about every second; removed when OUTPUT is finished
//! ```
//! # Scope and limits
//! A block is saved when it is full, or when [`TraceWriter::save`] finds it a second old, less the time between two of
//! those calls. If the machine loses power, the part file has what the file system had written back.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use seeklab_core::TraceRecord;
use seeklab_files::PartFile;

use super::TextSink;
use crate::error::TraceError;
use crate::format::canonical;
use crate::metadata::{Metadata, UNFINISHED};
use crate::source::part_blocks::{FILE_HEADER, push_block};
use crate::trace_format::{Note, TraceWriter};

/// Age at which a block is saved. Callers ask about five times a second.
const SAVE_INTERVAL: Duration = Duration::from_millis(800);
/// Bytes of text of a full block.
const TEXT_BYTES: usize = 1 << 20;
/// Fast: the text shrinks to a fourth.
const ZSTD_LEVEL: i32 = 1;

/// Fails if `output` has a part file, of a recording that was killed or is under way.
///
/// # Errors
/// In that case; the hint names the command that makes a trace of the part file.
pub fn check_no_part(output: &Path) -> Result<(), TraceError> {
    let Some(existing) = PartFile::existing(output)? else { return Ok(()) };
    let error = |what: &'static str| TraceError::malformed(what).in_file(&existing.path);
    let (part, output) = (existing.path.display(), output.display());
    Err(match existing.is_written {
        true => error("another process is recording into it")
            .with_hint("name another output, or wait for its end"),
        false => error("exists already: it holds the rows of a recording that was killed").with_hint(
            format!("`seeklab trace convert {part} {output}` makes a trace of it, then delete it"),
        ),
    })
}

/// Returns `main`, the writer of the trace at `output`, as one that saves its rows in a part file, too. An output that is
/// written through has none.
///
/// # Errors
/// As [`check_no_part`], and if the part file cannot be written.
pub fn saving(
    main: Box<dyn TraceWriter>,
    output: &Path,
    metadata: &Metadata,
) -> Result<Box<dyn TraceWriter>, TraceError> {
    check_no_part(output)?;
    let Some(file) = PartFile::create(output)? else { return Ok(main) };
    let file = if metadata.recorder().is_known() { file.written_back_at_once() } else { file };
    let mut metadata = metadata.clone();
    metadata.other.insert(UNFINISHED.to_owned(), "true".to_owned());
    let path = file.path().to_owned();
    let part = begin_part(file, &metadata).inspect_err(|_| {
        // It holds no rows, and would keep others from being written. A file that cannot be removed is named then.
        let _ = fs::remove_file(&path);
    })?;
    Ok(Box::new(Saving { main: Some(main), part: Some(part), rows: 0 }))
}

/// Writes the head of a part file.
fn begin_part(file: PartFile, metadata: &Metadata) -> Result<canonical::Writer<PartText>, TraceError> {
    let mut part = canonical::Writer::begin(PartText::create(file)?, metadata)?;
    part.begin_rows(true)?;
    part.output.save_block()?;
    Ok(part)
}

#[expect(clippy::disallowed_methods, reason = "the age of rows that are not saved is real time")]
fn now() -> Instant {
    Instant::now()
}

struct Saving {
    /// None when it was finished.
    main: Option<Box<dyn TraceWriter>>,
    /// None when it was removed.
    part: Option<canonical::Writer<PartText>>,
    rows: u64,
}

impl Saving {
    fn both(&mut self) -> (&mut dyn TraceWriter, &mut canonical::Writer<PartText>) {
        let Self { main, part, .. } = self;
        (&mut **main.as_mut().expect("it is not finished"), part.as_mut().expect("it is not finished"))
    }

    fn remove(&mut self) -> Result<(), TraceError> {
        self.part.take().map_or(Ok(()), |part| Ok(part.output.file.remove()?))
    }
}

impl TraceWriter for Saving {
    fn write(&mut self, record: &TraceRecord) -> Result<(), TraceError> {
        self.rows += 1;
        let (main, part) = self.both();
        main.write(record)?;
        part.write(record)
    }

    fn annotate(&mut self, key: &str, value: &str) -> Result<(), TraceError> {
        let (main, part) = self.both();
        main.annotate(key, value)?;
        part.annotate(key, value)
    }

    fn label(&mut self, device: u16, name: &str) -> Result<(), TraceError> {
        let (main, part) = self.both();
        main.label(device, name)?;
        part.label(device, name)
    }

    fn notes(&self) -> Vec<Note> {
        self.main.as_ref().map_or_else(Vec::new, |main| main.notes())
    }

    fn save(&mut self) -> Result<(), TraceError> {
        let (main, part) = self.both();
        main.save()?;
        part.output.save_if_due()
    }

    fn discard(mut self: Box<Self>) {
        // A part file that stays is named when the output is written again.
        let _ = self.remove();
    }

    fn finish(mut self: Box<Self>) -> Result<(), TraceError> {
        self.main.take().expect("it is not finished").finish()?;
        self.remove()
    }
}

impl Drop for Saving {
    /// After a failure, rows stay in the part file.
    fn drop(&mut self) {
        if self.rows == 0 {
            let _ = self.remove();
        } else if let Some(part) = &mut self.part {
            // A disk that is full has room for the last rows without the other file.
            drop(self.main.take());
            let _ = part.output.save_block();
        }
    }
}

/// Text that is saved block by block.
pub(crate) struct PartText {
    file: PartFile,
    compressor: zstd::bulk::Compressor<'static>,
    /// Whole lines that are not saved yet.
    text: Vec<u8>,
    block: Vec<u8>,
    number: u32,
    saved: Instant,
}

impl PartText {
    fn create(mut file: PartFile) -> Result<Self, TraceError> {
        file.append(FILE_HEADER)?;
        let failed = |error| TraceError::io("cannot compress the rows", error).in_file(file.path());
        let mut compressor = zstd::bulk::Compressor::new(ZSTD_LEVEL).map_err(failed)?;
        compressor.include_checksum(true).map_err(failed)?;
        Ok(Self { file, compressor, text: Vec::new(), block: Vec::new(), number: 0, saved: now() })
    }

    fn save_if_due(&mut self) -> Result<(), TraceError> {
        if self.saved.elapsed() >= SAVE_INTERVAL { self.save_block() } else { Ok(()) }
    }

    fn save_block(&mut self) -> Result<(), TraceError> {
        self.saved = now();
        if self.text.is_empty() {
            return Ok(());
        }
        let frame = self
            .compressor
            .compress(&self.text)
            .map_err(|error| TraceError::io("cannot compress the rows", error).in_file(self.file.path()))?;
        self.block.clear();
        push_block(&mut self.block, self.number, &frame);
        self.text.clear();
        self.number += 1;
        // One write: a killed process leaves a block in whole or in part, and none behind it.
        Ok(self.file.append(&self.block)?)
    }
}

impl TextSink for PartText {
    fn path(&self) -> &Path {
        self.file.path()
    }

    fn write(&mut self, text: &[u8]) -> Result<(), TraceError> {
        self.text.extend_from_slice(text);
        if self.text.len() >= TEXT_BYTES { self.save_block() } else { Ok(()) }
    }

    fn finish(mut self) -> Result<(), TraceError> {
        self.save_block()
    }
}

#[cfg(test)]
mod tests {
    use seeklab_core::{Instant as Time, Operation};

    use super::*;
    use crate::trace_format::ReadOptions;
    use crate::{FORMATS, create_with, open_with};

    fn record(number: u64) -> TraceRecord {
        TraceRecord {
            completion: Some(Time::from_ns(number * 1_000 + 500)),
            ..TraceRecord::new(Time::from_ns(number * 1_000), Operation::Read, number * 8, 8)
        }
    }

    fn writer(output: &Path) -> Result<Box<dyn TraceWriter>, TraceError> {
        let mut metadata = Metadata { labels: vec!["/dev/sda".to_owned()], ..Metadata::default() };
        metadata.other.insert("capture.command".to_owned(), "seeklab capture".to_owned());
        saving(create_with(FORMATS, output, None, &metadata)?, output, &metadata)
    }

    fn read(path: &Path) -> (Vec<TraceRecord>, Metadata, Vec<String>) {
        let mut trace = open_with(FORMATS, path, None, &ReadOptions::default()).unwrap();
        let rows = trace.by_ref().map(Result::unwrap).collect();
        (rows, trace.metadata().clone(), trace.notes().iter().map(ToString::to_string).collect())
    }

    /// The part file as a process leaves it that is killed now.
    fn left_behind(output: &Path, rows: u64, cut: usize) -> std::path::PathBuf {
        let mut writer = writer(output).unwrap();
        (0..rows).for_each(|number| writer.write(&record(number)).unwrap());
        writer.label(0, "disk").unwrap();
        let part = output.with_file_name("t.csv.part");
        drop(writer);
        let bytes = fs::read(&part).unwrap();
        fs::write(&part, &bytes[..bytes.len() - cut]).unwrap();
        part
    }

    #[test]
    fn part_file_has_all_saved_rows_and_is_marked_as_cut() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("t.csv");
        let part = left_behind(&output, 30_000, 0);
        assert!(!output.exists());
        let (rows, metadata, notes) = read(&part);
        assert!(rows.iter().copied().eq((0..30_000).map(record)));
        assert_eq!(metadata.labels, ["disk"]);
        assert_eq!(metadata.other["capture.command"], "seeklab capture");
        assert_eq!(notes.len(), 1);
        assert!(notes[0].contains("the trace is cut"), "{notes:?}");
        let refused = check_no_part(&output).unwrap_err();
        assert!(refused.to_string().contains("recording that was killed"), "{refused}");
        let hint = format!("{:?}", refused.hint());
        assert!(
            hint.contains(&format!("seeklab trace convert {} {}", part.display(), output.display())),
            "{hint}"
        );
        assert!(writer(&output).is_err());
    }

    #[test]
    fn incomplete_last_block_is_omitted_and_stated() {
        let folder = tempfile::tempdir().unwrap();
        let part = left_behind(&folder.path().join("t.csv"), 30_000, 1);
        let (rows, _, notes) = read(&part);
        assert!((10_000..30_000).contains(&rows.len()), "{}", rows.len());
        assert!(rows.iter().copied().eq((0..rows.len() as u64).map(record)));
        assert!(notes[0].contains("bytes at its end"), "{notes:?}");
    }

    #[test]
    fn finished_or_discarded_trace_leaves_no_part_file() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("t.csv");
        let mut finished = writer(&output).unwrap();
        finished.write(&record(1)).unwrap();
        assert!(folder.path().join("t.csv.part").exists());
        let (rows, _, notes) = read(&folder.path().join("t.csv.part"));
        assert_eq!((rows.len(), notes.len()), (0, 1), "readable before the first row is saved");
        assert!(writer(&output).err().unwrap().to_string().contains("another process is recording"));
        finished.finish().unwrap();
        let (rows, _, notes) = read(&output);
        assert_eq!((rows.len(), notes.len()), (1, 0));
        let mut discarded = writer(&output).unwrap();
        discarded.write(&record(1)).unwrap();
        discarded.discard();
        drop(writer(&output).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
