//! Blocks of the journal of a trace, in the order in which transactions take them.

use seeklab_traces::system::StepEvent;
use seeklab_workloads::host::RecordedPlace;

use super::loader::BLOCK_BYTES;
use crate::system::metadata::SystemMetadata;

/// Blocks of a journal at most: 32 GiB.
const BLOCKS_MAX: u64 = 1 << 23;

/// The blocks from the next transaction on, around to those before it. Empty if the trace lacks the place of the journal, or the
/// changes of its transactions.
pub(super) fn places(metadata: &SystemMetadata) -> Vec<RecordedPlace> {
    let Some(journal) = &metadata.journal else { return Vec::new() };
    let has_changes = metadata.events.by_kind.contains_key(StepEvent::JournalChange.name());
    let device_blocks = metadata.device.size_bytes / BLOCK_BYTES;
    let is_within =
        |(first, blocks): (u64, u64)| first.checked_add(blocks).is_some_and(|end| end <= device_blocks);
    let parts = journal.parts.iter().map(|part| (part.device_block, part.blocks));
    let sum = parts.clone().try_fold(0, |sum: u64, (_, blocks)| sum.checked_add(blocks)).unwrap_or(u64::MAX);
    if !has_changes || journal.block_bytes != BLOCK_BYTES || sum > BLOCKS_MAX || !parts.clone().all(is_within)
    {
        return Vec::new();
    }
    let (mut before, mut places) = (Vec::new(), Vec::new());
    let mut passed = 0;
    for (address, pages) in parts {
        let skipped = journal.next_block.saturating_sub(passed).min(pages);
        before.push(RecordedPlace { address, pages: skipped });
        places.push(RecordedPlace { address: address + skipped, pages: pages - skipped });
        passed += pages;
    }
    places.append(&mut before);
    places.retain(|place| place.pages > 0);
    places
}
