//! Any rows that tables can hold give programs that a host can begin, or a clear error.

use proptest::prelude::*;
use seeklab_core::{ByteSize, Seed};
use seeklab_traces::system::table::{Cell, CellContent, TableRow};
use seeklab_traces::system::tables::{CachedRow, StepRow};
use seeklab_traces::system::{InterruptSource, Output, StepEvent, WaitCause, Waker};
use seeklab_workloads::{AddressSpace, Host};

use super::tests::{metadata, process, step};
use super::{Programs, programs};
use crate::system::folder::{SystemTrace, Tables, write_metadata};
use crate::system::metadata::{MemoryGroupFacts, SystemMetadata};

/// Target of the host: the size of the traced device.
const TARGET: AddressSpace = AddressSpace { capacity_blocks: 1 << 21, block_size: ByteSize::from_bytes(512) };

/// Numbers that tables have.
const USUAL: [u64; 8] = [0, 1, 4, 8, 512, 4096, 8192, 1 << 20];

/// The largest numbers that tables have, and others that none should have.
const EXTREME: [u64; 9] = [
    4095,
    (1 << 30) - 4096,
    u32::MAX as u64,
    1 << 32,
    1 << 44,
    1 << 60,
    i64::MAX as u64,
    u64::MAX - 1,
    u64::MAX,
];

/// A sequence of choices. Behind its end, it begins anew with others.
struct Choices<'a> {
    bytes: &'a [u8],
    next: usize,
}

impl Choices<'_> {
    fn below(&mut self, end: usize) -> usize {
        let byte = self.bytes[self.next % self.bytes.len()];
        self.next += 1;
        (usize::from(byte) + self.next / self.bytes.len()) % end
    }

    fn one_of<V: Copy>(&mut self, values: &[V]) -> V {
        values[self.below(values.len())]
    }

    fn number(&mut self) -> u64 {
        if self.below(40) == 0 { self.one_of(&EXTREME) } else { self.one_of(&USUAL) }
    }

    fn cell(&mut self, name: &str, content: CellContent, is_optional: bool) -> Cell {
        if is_optional && self.below(40) == 0 {
            return Cell::Null;
        }
        match (content, name) {
            (CellContent::Number, "thread" | "process" | "parent" | "other_thread") => {
                Cell::Number(if self.below(60) == 0 { 999 } else { self.one_of(&[10, 11, 12]) })
            }
            (CellContent::Number, "device") => {
                Cell::Number(u64::from(metadata().mount.number) + u64::from(self.below(8) == 0))
            }
            (CellContent::Number, "length_bytes") if self.below(24) > 0 => Cell::Number(4096),
            (CellContent::Number, "inode") => Cell::Number(self.one_of(&[1, 2, 2, 3, u64::MAX])),
            (CellContent::Number, "call") => {
                // Of x86-64: read, write, close, fsync, openat, fadvise64, io_getevents, io_submit, io_uring_enter, sync.
                Cell::Number(self.one_of(&[0, 1, 3, 74, 257, 221, 208, 209, 426, 162]))
            }
            (CellContent::Number, _) if name.starts_with("is_") || name.starts_with("has_") => {
                Cell::Number(self.below(2) as u64)
            }
            (CellContent::Number, _) => Cell::Number(self.number()),
            (CellContent::Signed, _) => Cell::Signed(self.one_of(&[-1, 0, 1, 7, i64::MIN, i64::MAX])),
            (CellContent::Text, "event") => Cell::Text(self.one_of(StepEvent::ALL).name().into()),
            (CellContent::Text, "cause") => Cell::Text(self.one_of(WaitCause::ALL).name().into()),
            (CellContent::Text, "waker") => Cell::Text(self.one_of(Waker::ALL).name().into()),
            (CellContent::Text, "source") => Cell::Text(self.one_of(InterruptSource::ALL).name().into()),
            (CellContent::Text, _) => Cell::Text("cp".into()),
        }
    }

    /// Rows of a table; those that a table cannot hold are left out.
    fn rows<R: TableRow>(&mut self, count: usize) -> Vec<R> {
        let row = |_| {
            let cells: Vec<Cell> = R::COLUMNS
                .iter()
                .map(|column| self.cell(column.name, column.content, column.is_optional))
                .collect();
            R::take(&cells).ok()
        };
        (0..count).filter_map(row).collect()
    }
}

/// The programs of a trace with these rows.
fn programs_of(
    mut metadata: SystemMetadata,
    rows: impl IntoIterator<Item = Output>,
) -> Result<Programs, String> {
    let folder = tempfile::tempdir().unwrap();
    let mut tables = Tables::create(folder.path()).unwrap();
    rows.into_iter().for_each(|row| tables.write(&row));
    for (table, rows) in tables.finish().unwrap() {
        metadata.tables.insert(table.to_owned(), rows);
    }
    write_metadata(folder.path(), &metadata).unwrap();
    let read = SystemTrace::open(folder.path()).and_then(|trace| programs(&trace));
    read.map_err(|failure| {
        let (problem, folder) = (failure.to_string(), folder.path().display().to_string());
        assert!(problem.contains(&folder), "{problem} does not name {folder}");
        problem
    })
}

/// An access of thread 10 to the file with inode 1.
fn access(event: StepEvent, offset_bytes: u64, length_bytes: u64) -> Output {
    let (inode, range) = (Some(1), (Some(offset_bytes), Some(length_bytes)));
    Output::Step(StepRow { inode, offset_bytes: range.0, length_bytes: range.1, ..step(10, 9, event) })
}

#[test]
fn thread_that_made_itself_is_a_thread() {
    let rows = [Output::Process(process(10, 10, 0)), Output::Step(step(10, 5, StepEvent::CallEnter))];
    assert_eq!(programs_of(metadata(), rows).unwrap().recording.threads.len(), 1);
}

#[test]
fn parts_in_memory_that_overlap_are_refused() {
    let part = |offset_bytes, length_bytes| {
        Output::Cached(CachedRow { inode: Some(1), offset_bytes, length_bytes, is_dirty: false })
    };
    let mut metadata = metadata();
    metadata.has_start_pages = true;
    let of = |parts: [Output; 2]| {
        let read = access(StepEvent::FileRead, 0, 4096);
        programs_of(metadata.clone(), [Output::Process(process(10, 1, 0)), read].into_iter().chain(parts))
    };
    assert!(of([part(0, 8192), part(8192, 4096)]).is_ok());
    for parts in [[part(0, 8192), part(4096, 4096)], [part(8192, 4096), part(0, 4096)]] {
        assert!(of(parts).unwrap_err().contains("inode 1 overlap, or are not in order"));
    }
}

#[test]
fn accesses_beyond_what_a_kernel_transfers_are_refused() {
    let of = |offset_bytes, length_bytes| {
        let rows = [(StepEvent::DeviceRead, 4096, 4096), (StepEvent::FileRead, offset_bytes, length_bytes)];
        let steps = rows.map(|(event, offset, length)| access(event, offset, length));
        let mut metadata = metadata();
        metadata.events.by_kind.insert(StepEvent::DeviceRead.name().to_owned(), 1);
        programs_of(metadata, [Output::Process(process(10, 1, 0))].into_iter().chain(steps))
    };
    assert!(of(0, 1 << 31).is_ok());
    assert!(of(0, (1 << 31) + 1).unwrap_err().contains("2 GiB"));
    assert!(of(1 << 44, 4096).unwrap_err().contains("16 TiB"));
    assert!(of(u64::MAX, 4096).unwrap_err().contains("beyond the largest file"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn any_rows_are_programs_or_a_clear_error(bytes in prop::collection::vec(any::<u8>(), 64..600)) {
        let choices = &mut Choices { bytes: &bytes, next: 0 };
        let mut metadata = metadata();
        let mut rows: Vec<Output> = Vec::new();
        let count = 1 + choices.below(30);
        rows.extend(choices.rows(count).into_iter().map(Output::Step));
        rows.extend(choices.rows(6).into_iter().map(Output::Process));
        rows.extend(choices.rows(3).into_iter().map(Output::Wait));
        rows.extend(choices.rows(2).into_iter().map(Output::Interrupt));
        rows.extend(choices.rows(2).into_iter().map(Output::Initial));
        rows.extend(choices.rows(6).into_iter().map(Output::Extent));
        rows.extend(choices.rows(2).into_iter().map(Output::OpenFile));
        rows.extend(choices.rows(1).into_iter().map(Output::Cached));
        metadata.has_start_pages = choices.below(2) == 0;
        metadata.has_metadata_bytes = choices.below(2) == 0;
        let kinds = [StepEvent::DeviceRead, StepEvent::DeviceWrite, StepEvent::JournalChange, StepEvent::FileSync];
        for event in kinds {
            if choices.below(2) == 0 {
                metadata.events.by_kind.insert(event.name().to_owned(), 1);
            }
        }
        if choices.below(2) == 0 {
            let (limit_bytes, used_bytes) = (choices.number(), choices.number());
            metadata.memory_group = Some(MemoryGroupFacts { limit_bytes, used_bytes });
        }
        for setting in ["bdi.max_bytes", "bdi.strict_limit", "vm.dirty_background_ratio", "queue.read_ahead_kb"] {
            metadata.settings.insert(setting.to_owned(), choices.one_of(&EXTREME).to_string());
        }
        if let Ok(Programs { recording, settings, .. }) = programs_of(metadata, rows) {
            // A host refuses what lies beyond its device, with a message of its own.
            let _ = Host::of_recording(recording, &settings, TARGET, Seed(1));
        }
    }
}
