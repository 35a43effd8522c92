//! Strided zones of a fio job (`zonemode=strided`): so many bytes in a range, then a gap.
//!
//! # Scope and limits
//! Zones of zoned devices (`zonemode=zbd`) are not honoured.
//!
//! # References
//! fio 3.33. io_u.c: setup_strided_zone_mode. init.c: fixup_options.

use serde::{Deserialize, Serialize};

use super::job::{Reason, size};
use super::load::FioLoad;

/// Zones of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FioZones {
    /// Bytes that are transferred in a zone (`zonesize`).
    pub bytes: u64,
    /// Addresses of a zone in bytes (`zonerange`).
    pub range_bytes: u64,
    /// Bytes from the end of a zone to the next (`zoneskip`).
    pub skip_bytes: u64,
}

/// Options of zones.
#[derive(Debug, Default)]
pub(super) struct ZoneOptions {
    is_strided: bool,
    bytes: Option<u64>,
    range_bytes: Option<u64>,
    skip_bytes: u64,
}

impl ZoneOptions {
    /// Takes an option of zones.
    pub(super) fn take(&mut self, name: &str, value: &str, base: u64) -> Result<(), String> {
        let bytes = || size(value, base).map_err(str::to_owned);
        match name {
            "zonemode" => {
                self.is_strided = match value {
                    "none" => false,
                    "strided" => true,
                    _ => {
                        return Err("zones of zoned devices are not honoured; none and strided are allowed"
                            .to_owned());
                    }
                };
            }
            "zonesize" => self.bytes = Some(bytes()?).filter(|bytes| *bytes > 0),
            "zonerange" => self.range_bytes = Some(bytes()?).filter(|bytes| *bytes > 0),
            _ => self.skip_bytes = bytes()?,
        }
        Ok(())
    }

    /// The zones, if there are any. What does not go together is in `reasons`.
    pub(super) fn zones(&self, load: &FioLoad, reasons: &mut Vec<Reason>) -> Option<FioZones> {
        let mut refuse = |option: &'static str, text: &str| {
            reasons.push(Reason { option: Some(option), text: text.to_owned() });
        };
        let bytes = match (self.is_strided, self.bytes) {
            (false, Some(_)) => {
                // As in fio, whose default are no zones.
                refuse("zonesize", "goes with zonemode=strided");
                return None;
            }
            (true, None) => {
                refuse("zonemode", "goes with zonesize");
                return None;
            }
            (_, bytes) => bytes?,
        };
        let zones =
            FioZones { bytes, range_bytes: self.range_bytes.unwrap_or(bytes), skip_bytes: self.skip_bytes };
        let mut sizes = load.used_sizes();
        if sizes.any(|size| !zones.range_bytes.is_multiple_of(size.bytes)) {
            let option = if self.range_bytes.is_some() { "zonerange" } else { "zonesize" };
            refuse(option, "a multiple of all sizes of requests is allowed");
        }
        if load.flush_every.is_some() {
            // fio adds the length of a request to the zone at each flush.
            refuse("zonesize", "goes with jobs without fsync and fdatasync");
        }
        if load.skip != 0 || load.run > 1 || load.distribution.is_some() {
            refuse("zonesize", "goes with rw without a number behind it, and without random_distribution");
        }
        Some(zones)
    }
}
