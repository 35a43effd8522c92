//! Makes a system-level trace from what a recorder left that was killed.

use std::path::Path;

use seeklab_stage::MemoryUse;
use seeklab_traces::capture::system::{LeftRecording, Recorded};

use super::folder::{Draft, REQUESTS};
use super::record::{Traced, write};
use crate::failure::Failure;
use crate::session::Session;
use crate::trace::convert::ConvertResult;

/// Writes the trace of the part file `input` into the folder `output`.
///
/// # Errors
/// If the file is too short or cannot be read, or the folder cannot be written.
pub fn convert_left(session: &Session, input: &Path, output: &Path) -> Result<ConvertResult, Failure> {
    let LeftRecording { mut recorded, task, device, omitted_bytes } = Recorded::left_in(input)?;
    session.check()?;
    let draft = Draft::create(output)?;
    let length_s = (recorded.end_ns - recorded.begin_ns) as f64 / 1e9;
    let mut notes = vec![format!(
        "the recorder was killed: the trace has the first {length_s:.3} s, and the command went on"
    )];
    if omitted_bytes > 0 {
        notes.push(format!("{omitted_bytes} bytes at the end of the file are not whole, and were left out"));
    }
    let traced = Traced {
        cpus: task.cpus.and_then(|list| list.parse().ok()),
        // What the command used of it was measured by the recorder, and is lost.
        memory: task.memory_limit_bytes.map(|limit_bytes| MemoryUse { limit_bytes, used_bytes: None }),
        device_made_ns: task.device_made_ns,
        command: task.command,
        exit_code: None,
        root: task.root,
        end_ns: None,
        recorder: None,
    };
    let metadata = write(&draft, &device, &mut recorded, &traced)?;
    draft.finish()?;
    Ok(ConvertResult {
        input: input.display().to_string(),
        output: output.display().to_string(),
        format: "system-part",
        guess: None,
        requests: metadata.tables.get(REQUESTS).copied().unwrap_or(0),
        notes,
    })
}
