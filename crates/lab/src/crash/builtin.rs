//! One cut under a built-in application: what its commits promised is read back from the image.

use seeklab_core::Instant;
use seeklab_devices::torn::TornUnit;
use seeklab_emulator::client::Promises;
use seeklab_emulator::store::Store;

use super::record::Record;
use super::result::{Findings, Verdict};
use crate::failure::Failure;
use seeklab_core::number_words::counted;

/// Broken blocks that are named.
const NAMED_MAX: usize = 3;

/// Compares `store`, the device after a cut at `cut`, with the commits before it. Blocks in `unreadable` cannot be read.
pub(super) fn point(
    promises: &Promises,
    record: &Record,
    cut: Instant,
    store: &Store,
    unreadable: &[TornUnit],
) -> Result<Findings, Failure> {
    let mismatches = promises.check(cut, |offset, block| -> Result<bool, Failure> {
        let lbn = offset / record.block_bytes;
        if unreadable.iter().any(|unit| (unit.lbn..unit.lbn + unit.blocks).contains(&lbn)) {
            return Ok(false);
        }
        store.read(offset, block)?;
        Ok(true)
    })?;
    let found = |verdict, output| Findings { verdict, exit_code: None, error: None, output };
    if mismatches.is_empty() {
        return Ok(found(Verdict::Held, String::new()));
    }
    let commits = counted(record.promises_before(cut).len(), "commit");
    let blocks = counted(mismatches.len(), "block");
    let mut output = format!("{blocks} of what {commits} promised are not as they were\n");
    for mismatch in mismatches.iter().take(NAMED_MAX) {
        output += &format!("{mismatch}\n");
    }
    Ok(found(Verdict::Broken, output))
}
