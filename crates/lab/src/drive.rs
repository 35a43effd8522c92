//! Running a built-in application on a served device, over NBD.

use seeklab_core::Seed;
use seeklab_emulator::client::run_builtin;
use seeklab_emulator::frontend::nbd::Uri;
use seeklab_workloads::application::Builtin;
use serde::Serialize;

use crate::failure::Failure;
use crate::session::Session;

/// Result of a built-in application. Its serialized form is the JSON document.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DriveResult {
    /// From the first request to the end.
    pub elapsed_s: f64,
    /// Requests that completed, failed ones included.
    pub requests: u64,
    /// Requests that failed, each attempt on its own.
    pub failed_requests: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Blocks that did not hold the data that was written.
    pub mismatch_count: u64,
    /// True if the application ended early because the device was too small for its files.
    pub is_full: bool,
}

/// Runs the application of `line`, for example `postmark,transactions=500`, on the device that `uri` names. The
/// application overwrites the device.
///
/// # Errors
/// A line that cannot be read; a server that cannot be reached. Failed requests and wrong data are part of the result.
pub fn drive(session: &Session, uri: &Uri, line: &str, seed: Seed) -> Result<DriveResult, Failure> {
    let builtin = Builtin::parse(line)?;
    let mut steps = session.working(builtin.name());
    let result = run_builtin(&builtin, uri, seed, &mut |progress| steps.begin(progress.phase))
        .map_err(|error| Failure::chain(&error))?;
    Ok(DriveResult {
        elapsed_s: result.elapsed.as_s(),
        requests: result.requests.len() as u64,
        failed_requests: result.failed_requests,
        read_bytes: result.read_bytes,
        written_bytes: result.written_bytes,
        mismatch_count: result.mismatch_count,
        is_full: result.is_full,
    })
}
