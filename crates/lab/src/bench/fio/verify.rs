//! Verification of a fio job (`verify`): every block that it writes is read back and checked, by stamps of seeklab.
//!
//! # Scope and limits
//! Blocks have stamps in place of fio's headers and patterns. So what an earlier run of fio wrote cannot be checked. Blocks are read
//! back behind the group of the job, in the order of their addresses.
//!
//! # References
//! fio 3.33, HOWTO.rst, "Verification".

use super::file::{number, switch};
use super::job::Reason;
use super::load::FioLoad;

/// Checksums and other values of `verify` that stand for a check.
const CHECKS: &[&str] = &[
    "md5",
    "crc64",
    "crc32",
    "crc32c",
    "crc32c-intel",
    "crc16",
    "crc7",
    "sha1",
    "sha256",
    "sha512",
    "sha3-224",
    "sha3-256",
    "sha3-384",
    "sha3-512",
    "xxhash",
    "meta",
    "pattern",
    "pattern_hdr",
];

/// Options of a verification.
#[derive(Debug, Clone)]
pub(super) struct VerifyOptions {
    /// Value of `verify`, and its line.
    pub(super) check: Option<(String, usize)>,
    reads_back: bool,
    /// Notes on options whose effect is another one here.
    notes: Vec<&'static str>,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        Self { check: None, reads_back: true, notes: Vec::new() }
    }
}

impl VerifyOptions {
    /// Takes an option of verification that stands in a line.
    pub(super) fn take(&mut self, name: &str, value: &str, line: usize) -> Result<(), String> {
        let is_on = || switch(value).ok_or_else(|| "0 and 1 are allowed".to_owned());
        let must_be_on = |reason: &str| if is_on()? { Ok(()) } else { Err(reason.to_owned()) };
        let must_be_off = |reason: &str| if is_on()? { Err(reason.to_owned()) } else { Ok(()) };
        match name {
            "verify" => {
                self.check = match value {
                    "0" => None,
                    "null" => return Err("fio only pretends to check then".to_owned()),
                    check if CHECKS.contains(&check) => Some((check.to_owned(), line)),
                    _ => return Err(format!("{} are allowed", CHECKS.join(", "))),
                };
            }
            "do_verify" => self.reads_back = is_on()?,
            "verify_fatal" if is_on()? => {
                self.notes.push(
                    "verify_fatal: a finding ends no job here; all are counted, and the exit code is 1",
                );
            }
            "verify_backlog" if number(value, 1024).is_none() => return Err("is no number".to_owned()),
            "verify_backlog" if number(value, 1024) != Some(0) => {
                self.notes.push("verify_backlog: blocks are read back behind the group of the job, not between its writes");
            }
            "verify_pattern" if value.is_empty() => return Err("has no pattern".to_owned()),
            "verifysort" => return must_be_on("blocks are read back in the order of their addresses"),
            "verify_write_sequence" => {
                return must_be_on("an earlier write in the place of the last one is always a finding");
            }
            "verify_only" => {
                return must_be_off(
                    "nothing is written then, and the blocks of an earlier fio have no stamps of seeklab; bench verify \
                                    checks those of an earlier run with --state",
                );
            }
            "verify_state_load" => {
                return must_be_off("states of fio are not read; bench verify checks by a file of --state");
            }
            "verify_state_save" => {
                return must_be_off(
                    "states of fio are not written; --verify --state FILE keeps one of seeklab",
                );
            }
            // Who checks, when, and in which parts.
            _ => {}
        }
        Ok(())
    }

    /// Returns true if the blocks that the job writes are to be read back.
    pub(super) const fn reads_back(&self) -> bool {
        self.check.is_some() && self.reads_back
    }

    /// Refuses a job that leaves nothing to check.
    pub(super) fn check(&self, load: &FioLoad, has_content: bool, reasons: &mut Vec<Reason>) {
        if self.check.is_none() {
            return;
        }
        let mut refuse = |text: &str| reasons.push(Reason { option: Some("verify"), text: text.to_owned() });
        if load.other == Some(seeklab_core::Operation::Discard) {
            refuse("a job that trims leaves nothing to check");
        }
        if has_content {
            refuse("writes have stamps in place of the content of zero_buffers, buffer_pattern and the like");
        }
    }

    /// Notes on the verification, if there is one.
    pub(super) fn notes(&self) -> impl Iterator<Item = &'static str> {
        let what = "verify: all writes of the file have stamps of seeklab with a checksum of 32 bits in every sector, in place of fio's \
                    headers and patterns; all reads are checked, and the blocks that a job wrote are read back behind its group";
        let notes = [what].into_iter().chain(self.notes.iter().copied());
        notes.filter(|_| self.check.is_some())
    }
}
