//! Results of SCSI commands: status, sense data, and the statuses of seeklab that they stand for.
//!
//! # References
//! SPC-5 (INCITS 502) 4.4 for sense data; `scsi-lowlevel.h` of libiscsi 1.19 for its own statuses.

use seeklab_core::{Operation, Request, Status};

/// Statuses that a unit sends.
pub(super) const GOOD: i32 = 0;
pub(super) const CHECK_CONDITION: i32 = 0x02;
/// The connection ended before an answer came: libiscsi's own status.
pub(super) const CANCELLED: i32 = 0x0f00_0000;
const TIMEOUT: i32 = 0x0f00_0002;

/// A sense key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SenseKey(pub(super) u8);

impl SenseKey {
    const NO_SENSE: Self = Self(0x0);
    const RECOVERED_ERROR: Self = Self(0x1);
    const NOT_READY: Self = Self(0x2);
    const MEDIUM_ERROR: Self = Self(0x3);
    #[cfg(test)]
    pub(super) const ILLEGAL_REQUEST: Self = Self(0x5);
    pub(super) const UNIT_ATTENTION: Self = Self(0x6);
    const DATA_PROTECT: Self = Self(0x7);
    const BLANK_CHECK: Self = Self(0x8);
    const VOLUME_OVERFLOW: Self = Self(0xd);
}

/// Additional codes that make a difference: code, then qualifier.
mod code {
    pub(super) const LOGICAL_UNIT_NOT_SUPPORTED: u16 = 0x2500;
    pub(super) const MEDIUM_NOT_PRESENT: u8 = 0x3a;
    pub(super) const SPACE_ALLOCATION_FAILED: u16 = 0x2707;
}

/// Sense data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sense {
    /// Sense key.
    pub(super) key: SenseKey,
    /// Additional sense code and its qualifier.
    pub(super) code: u16,
    /// Information: of media errors the first bad block.
    pub(super) information: Option<u64>,
}

impl Sense {
    /// Sense data in fixed or descriptor format.
    pub(super) fn parse(data: &[u8]) -> Option<Self> {
        let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        let two = |at: usize| data.get(at..at + 2).map_or(0, |bytes| number(bytes) as u16);
        match data.first()? & 0x7f {
            0x70 | 0x71 => {
                let is_valid = data[0] & 0x80 != 0;
                let information = data.get(3..7).filter(|_| is_valid).map(number);
                Some(Self { key: SenseKey(data.get(2)? & 0x0f), code: two(12), information })
            }
            0x72 | 0x73 => {
                let information = data.get(8..20).filter(|one| one[0] == 0 && one[2] & 0x80 != 0);
                let information = information.map(|one| number(&one[4..]));
                Some(Self { key: SenseKey(data.get(1)? & 0x0f), code: two(2), information })
            }
            _ => None,
        }
    }

    fn status(self) -> Status {
        let [code, _] = self.code.to_be_bytes();
        match self.key {
            SenseKey::NO_SENSE => Status::Ok,
            SenseKey::RECOVERED_ERROR => Status::Recovered,
            _ if self.code == code::LOGICAL_UNIT_NOT_SUPPORTED => Status::Gone,
            _ if self.code == code::SPACE_ALLOCATION_FAILED => Status::NoSpace,
            SenseKey::NOT_READY if code == code::MEDIUM_NOT_PRESENT => Status::Gone,
            SenseKey::MEDIUM_ERROR | SenseKey::BLANK_CHECK => Status::MediumError,
            SenseKey::DATA_PROTECT => Status::WriteProtected,
            SenseKey::VOLUME_OVERFLOW => Status::NoSpace,
            _ => Status::Aborted,
        }
    }
}

/// Result of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reply {
    /// Its slot.
    pub(super) slot: u32,
    /// Status of the unit, or one of libiscsi.
    pub(super) status: i32,
    /// Sense data, if the unit sent some.
    pub(super) sense: Option<Sense>,
    /// Bytes that were not transferred.
    pub(super) missing_bytes: usize,
}

impl Reply {
    /// Status and good blocks of a request.
    pub(super) fn outcome(&self, request: &Request, block_bytes: u32) -> (Status, Option<u32>) {
        let status = match (self.status, self.sense) {
            (GOOD, _) => Status::Ok,
            (CHECK_CONDITION, Some(sense)) => sense.status(),
            (CANCELLED, _) => Status::Gone,
            (TIMEOUT, _) => Status::Timeout,
            _ => Status::Aborted,
        };
        let transfers = matches!(request.op, Operation::Read | Operation::Write);
        if status.is_success() && transfers && self.missing_bytes > 0 {
            let missing = self.missing_bytes.div_ceil(block_bytes as usize);
            let missing = u32::try_from(missing).unwrap_or(u32::MAX);
            return (Status::Aborted, Some(request.blocks.saturating_sub(missing)));
        }
        let bad = self.sense.filter(|_| status == Status::MediumError).and_then(|sense| sense.information);
        let good =
            bad.and_then(|bad| bad.checked_sub(request.lbn)).filter(|good| *good < request.blocks.into());
        (status, good.map(|good| good as u32))
    }

    /// The reason of a failure in words.
    pub(super) fn reason(&self) -> String {
        match (self.status, self.sense) {
            (CHECK_CONDITION, Some(sense)) => {
                format!("sense key {:x}h, additional code {:04x}h", sense.key.0, sense.code)
            }
            (CANCELLED, _) => "the connection ended".to_owned(),
            (status, _) => format!("status {status:x}h"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(status: i32, sense: Option<Sense>, missing_bytes: usize) -> Reply {
        Reply { slot: 0, status, sense, missing_bytes }
    }

    fn sense(key: u8, code: u16) -> Option<Sense> {
        Some(Sense { key: SenseKey(key), code, information: None })
    }

    #[test]
    fn sense_data_become_statuses() {
        let read = Request::new(0, Operation::Read, 100, 8);
        for (status, sense, expected) in [
            (GOOD, None, Status::Ok),
            (CHECK_CONDITION, sense(0x0, 0), Status::Ok),
            (CHECK_CONDITION, sense(0x1, 0x1701), Status::Recovered),
            (CHECK_CONDITION, sense(0x2, 0x3a00), Status::Gone),
            (CHECK_CONDITION, sense(0x2, 0x0401), Status::Aborted),
            (CHECK_CONDITION, sense(0x3, 0x1100), Status::MediumError),
            (CHECK_CONDITION, sense(0x4, 0x4400), Status::Aborted),
            (CHECK_CONDITION, sense(0x5, 0x2500), Status::Gone),
            (CHECK_CONDITION, sense(0x5, 0x2100), Status::Aborted),
            (CHECK_CONDITION, sense(0x6, 0x2900), Status::Aborted),
            (CHECK_CONDITION, sense(0x7, 0x2700), Status::WriteProtected),
            (CHECK_CONDITION, sense(0x7, 0x2707), Status::NoSpace),
            (CHECK_CONDITION, sense(0xb, 0x4700), Status::Aborted),
            (CHECK_CONDITION, sense(0xd, 0x0000), Status::NoSpace),
            (CHECK_CONDITION, None, Status::Aborted),
            (0x18, None, Status::Aborted),
            (0x28, None, Status::Aborted),
            (CANCELLED, None, Status::Gone),
            (TIMEOUT, None, Status::Timeout),
            (0x0f00_0001, None, Status::Aborted),
        ] {
            assert_eq!(
                reply(status, sense, 0).outcome(&read, 512),
                (expected, None),
                "{status:x} {sense:x?}"
            );
        }
    }

    #[test]
    fn blocks_before_the_bad_one_are_good() {
        // As a disk sends them: media error at block 0x67, in both formats.
        let fixed = [0xf0, 0, 0x03, 0, 0, 0, 0x67, 10, 0, 0, 0, 0, 0x11, 0x00, 0, 0, 0, 0];
        let descriptor = [0x72, 0x03, 0x11, 0x00, 0, 0, 0, 12, 0, 0x0a, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0x67];
        let read = Request::new(0, Operation::Read, 100, 8);
        for data in [&fixed[..], &descriptor] {
            let sense = Sense::parse(data).unwrap();
            assert_eq!((sense.key, sense.code), (SenseKey::MEDIUM_ERROR, 0x1100));
            let failed = reply(CHECK_CONDITION, Some(sense), 0);
            assert_eq!(failed.outcome(&read, 512), (Status::MediumError, Some(3)));
            let elsewhere = Request::new(0, Operation::Read, 200, 8);
            assert_eq!(failed.outcome(&elsewhere, 512), (Status::MediumError, None));
        }
        let mut unknown = fixed;
        unknown[0] = 0x70;
        assert_eq!(Sense::parse(&unknown).unwrap().information, None);
        assert_eq!([Sense::parse(&[]), Sense::parse(&[0x70]), Sense::parse(&[0; 18])], [None; 3]);
    }

    #[test]
    fn short_transfer_is_no_success() {
        let read = Request::new(0, Operation::Read, 0, 8);
        assert_eq!(reply(GOOD, None, 513).outcome(&read, 512), (Status::Aborted, Some(6)));
        assert_eq!(reply(GOOD, None, 9999).outcome(&read, 512), (Status::Aborted, Some(0)));
        let flush = Request::new(0, Operation::Flush, 0, 0);
        assert_eq!(reply(GOOD, None, 24).outcome(&flush, 512), (Status::Ok, None));
    }
}
