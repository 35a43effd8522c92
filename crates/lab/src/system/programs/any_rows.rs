//! Any rows that tables can hold give programs that a host can begin, or a clear error.

use proptest::prelude::*;
use seeklab_core::{ByteSize, Seed};
use seeklab_traces::system::table::{Cell, CellContent, TableRow};
use seeklab_traces::system::{InterruptSource, Output, StepEvent, WaitCause, Waker};
use seeklab_workloads::{AddressSpace, Host};

use super::tests::metadata;
use super::{Programs, programs};
use crate::system::folder::{SystemTrace, Tables, write_metadata};
use crate::system::metadata::MemoryGroupFacts;

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

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn any_rows_are_programs_or_a_clear_error(bytes in prop::collection::vec(any::<u8>(), 64..600)) {
        let choices = &mut Choices { bytes: &bytes, next: 0 };
        let folder = tempfile::tempdir().unwrap();
        let mut metadata = metadata();
        let mut tables = Tables::create(folder.path()).unwrap();
        let mut write = |output: Output| tables.write(&output);
        let count = 1 + choices.below(30);
        let steps = choices.rows(count);
        choices.rows(6).into_iter().map(Output::Process).for_each(&mut write);
        choices.rows(3).into_iter().map(Output::Wait).for_each(&mut write);
        choices.rows(2).into_iter().map(Output::Interrupt).for_each(&mut write);
        choices.rows(2).into_iter().map(Output::Initial).for_each(&mut write);
        choices.rows(6).into_iter().map(Output::Extent).for_each(&mut write);
        choices.rows(2).into_iter().map(Output::OpenFile).for_each(&mut write);
        choices.rows(1).into_iter().map(Output::Cached).for_each(&mut write);
        steps.into_iter().map(Output::Step).for_each(&mut write);
        for (table, rows) in tables.finish().unwrap() {
            metadata.tables.insert(table.to_owned(), rows);
        }
        metadata.has_start_pages = choices.below(2) == 0;
        metadata.has_metadata_bytes = choices.below(2) == 0;
        for event in [StepEvent::DeviceRead, StepEvent::DeviceWrite, StepEvent::JournalChange] {
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
        write_metadata(folder.path(), &metadata).unwrap();
        match SystemTrace::open(folder.path()).and_then(|trace| programs(&trace)) {
            Ok(Programs { recording, settings, .. }) => {
                // A host refuses what lies beyond its device, with a message of its own.
                let _ = Host::of_recording(recording, &settings, TARGET, Seed(1));
            }
            Err(failure) => prop_assert!(failure.to_string().contains(&folder.path().display().to_string())),
        }
    }
}
