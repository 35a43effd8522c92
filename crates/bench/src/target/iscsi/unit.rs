//! Properties of a unit, and the questions that find them.
//!
//! ```text
//! INQUIRY ─▶ pages 00, 80, b0, b2 ─▶ MODE SENSE ─▶ READ CAPACITY ─▶ REPORT SUPPORTED OPERATION CODES ─▶ Unit
//! ```
//! # Scope and limits
//! Disks. A unit need not answer about pages, modes and operation codes. If it does not, it is taken to write back and to carry
//! out flushes and WRITE SAME, and to have no force unit access and no UNMAP.
//!
//! # References
//! SPC-5 (INCITS 502) 6.6 and 7.7; SBC-4 (INCITS 506) 5.21, 6.5.3 and 6.6.

use super::command::{Command, FlushForm};
use super::outcome::{GOOD, Reply, SenseKey};

/// Bytes of the longest answer.
pub(super) const ANSWER_BYTES_MAX: usize = 255;
/// Longest read or write of a unit that states none: libiscsi counts bytes in 31 bits.
const TRANSFER_BYTES_MAX: u64 = 1 << 30;
/// Attempts at a question: after a login or a change, a unit answers the first ones with unit attention.
const ATTEMPTS_MAX: u32 = 8;

/// Properties of a unit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Unit {
    /// Bytes of a block.
    pub(super) block_bytes: u32,
    /// Its size.
    pub(super) capacity_blocks: u64,
    /// Serial number.
    pub(super) serial: Option<String>,
    /// Vendor and product.
    pub(super) model: Option<String>,
    /// It refuses writes.
    pub(super) is_read_only: bool,
    /// It has writes with force unit access.
    pub(super) fua: bool,
    /// Command of a flush.
    pub(super) flush: Option<FlushForm>,
    /// It has UNMAP.
    pub(super) discards: bool,
    /// Longest discard [default: any].
    pub(super) discard_blocks_max: Option<u64>,
    /// It has WRITE SAME.
    pub(super) writes_same: bool,
    /// Longest write of zeroes [default: any].
    pub(super) write_same_blocks_max: Option<u64>,
    /// Longest read or write.
    pub(super) transfer_blocks_max: u64,
}

impl Unit {
    /// Returns true if serial number, model and size are the same.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let identity =
            |unit: &Self| (unit.serial.clone(), unit.model.clone(), unit.block_bytes, unit.capacity_blocks);
        identity(self) == identity(other)
    }
}

/// A question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Question {
    Kind,
    Pages,
    Serial,
    Limits,
    Provisioning,
    Modes,
    CapacityLong,
    CapacityShort,
    Flush,
    FlushLong,
    Unmap,
    WriteSame,
}

const QUESTIONS: [Question; 12] = [
    Question::Kind,
    Question::Pages,
    Question::Serial,
    Question::Limits,
    Question::Provisioning,
    Question::Modes,
    Question::CapacityLong,
    Question::CapacityShort,
    Question::Flush,
    Question::FlushLong,
    Question::Unmap,
    Question::WriteSame,
];

/// Answer about an operation code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Support {
    #[default]
    Unknown,
    Absent,
    Present,
}

/// The questions about a unit, one after another.
#[derive(Debug, Clone, Default)]
pub(super) struct Probe {
    at: usize,
    attempts: u32,
    pages: Vec<u8>,
    unit: Unit,
    unmaps: bool,
    limits: Limits,
    flush: Support,
    flush_long: Support,
    unmap: Support,
    write_same: Support,
}

/// Limits of page b0, in blocks; zero is none.
#[derive(Debug, Clone, Copy, Default)]
struct Limits {
    transfer: u64,
    discard: u64,
    write_same: u64,
}

impl Probe {
    /// The command of the next question; `None` after the last one.
    pub(super) fn command(&mut self) -> Option<Command> {
        while let Some(question) = QUESTIONS.get(self.at) {
            if self.is_needed(*question) {
                return Some(command(*question));
            }
            self.at += 1;
        }
        None
    }

    fn is_needed(&self, question: Question) -> bool {
        match question {
            Question::Serial => self.pages.contains(&0x80),
            Question::Limits => self.pages.contains(&0xb0),
            Question::Provisioning => self.pages.contains(&0xb2),
            Question::CapacityShort => self.unit.block_bytes == 0,
            Question::FlushLong => self.flush == Support::Absent,
            _ => true,
        }
    }

    /// Takes the answer to the question whose command was returned last.
    ///
    /// # Errors
    /// If the unit is no disk, or does not state its size.
    pub(super) fn take(&mut self, reply: &Reply, data: &[u8]) -> Result<(), String> {
        let question = QUESTIONS[self.at];
        self.attempts += 1;
        if reply.sense.is_some_and(|sense| sense.key == SenseKey::UNIT_ATTENTION)
            && self.attempts < ATTEMPTS_MAX
        {
            return Ok(());
        }
        (self.at, self.attempts) = (self.at + 1, 0);
        let data = &data[..data.len().saturating_sub(reply.missing_bytes)];
        if reply.status != GOOD {
            let reason = || reply.reason();
            return match question {
                Question::Kind => Err(format!("the unit does not answer INQUIRY: {}", reason())),
                Question::CapacityShort => Err(format!("the unit does not state its size: {}", reason())),
                _ => Ok(()),
            };
        }
        let unit = &mut self.unit;
        match question {
            Question::Kind => {
                match data.first() {
                    Some(0) => {}
                    Some(kind) if kind >> 5 != 0 => {
                        return Err("the target has no unit of this number".to_owned());
                    }
                    Some(kind) => {
                        return Err(format!("the unit is no disk, but a device of type {}", kind & 0x1f));
                    }
                    None => return Err("the unit answers INQUIRY with no data".to_owned()),
                }
                let (vendor, product) = (text(data.get(8..16)), text(data.get(16..32)));
                unit.model = [vendor, product]
                    .into_iter()
                    .flatten()
                    .reduce(|vendor, product| format!("{vendor} {product}"));
            }
            Question::Pages => self.pages = data.get(4..).unwrap_or_default().to_vec(),
            Question::Serial => {
                let bytes = usize::from(data.get(3).copied().unwrap_or(0));
                unit.serial = text(data.get(4..data.len().min(4 + bytes)));
            }
            Question::Limits => {
                self.limits = Limits {
                    transfer: number(data.get(8..12)),
                    discard: number(data.get(20..24)),
                    write_same: number(data.get(36..44)),
                };
                // A unit without UNMAP states zero; all ones are no limit.
                self.unmaps = self.limits.discard != 0;
            }
            Question::Provisioning => self.unmaps = data.get(5).is_some_and(|flags| flags & 0x80 != 0),
            Question::Modes => {
                let flags = data.get(2).copied().unwrap_or(0);
                (unit.is_read_only, unit.fua) = (flags & 0x80 != 0, flags & 0x10 != 0);
            }
            Question::CapacityLong => set_capacity(unit, number(data.get(..8)), number(data.get(8..12)))?,
            Question::CapacityShort => set_capacity(unit, number(data.get(..4)), number(data.get(4..8)))?,
            Question::Flush => self.flush = support(data),
            Question::FlushLong => self.flush_long = support(data),
            Question::Unmap => self.unmap = support(data),
            Question::WriteSame => self.write_same = support(data),
        }
        Ok(())
    }

    /// The unit, after the last question.
    pub(super) fn unit(&self) -> Unit {
        let at_most = |blocks: u64, all: u64| (blocks != 0 && blocks < all).then_some(blocks);
        let bytes = u64::from(self.unit.block_bytes).max(1);
        let Limits { transfer, discard, write_same } = self.limits;
        let flush = match (self.flush, self.flush_long) {
            (Support::Absent, Support::Present) => Some(FlushForm::Long),
            (Support::Absent, _) => None,
            _ => Some(FlushForm::Short),
        };
        Unit {
            flush,
            discards: self.unmaps && self.unmap != Support::Absent,
            discard_blocks_max: at_most(discard, u32::MAX.into()),
            writes_same: self.write_same != Support::Absent,
            write_same_blocks_max: at_most(write_same, u64::MAX),
            transfer_blocks_max: at_most(transfer, u32::MAX.into())
                .unwrap_or(u64::MAX)
                .min(TRANSFER_BYTES_MAX / bytes),
            ..self.unit.clone()
        }
    }
}

fn command(question: Question) -> Command {
    match question {
        Question::Kind => Command::inquiry(None, 36),
        Question::Pages => Command::inquiry(Some(0x00), 255),
        Question::Serial => Command::inquiry(Some(0x80), 255),
        Question::Limits => Command::inquiry(Some(0xb0), 64),
        Question::Provisioning => Command::inquiry(Some(0xb2), 64),
        Question::Modes => Command::mode_sense(192),
        Question::CapacityLong => Command::read_capacity_long(),
        Question::CapacityShort => Command::read_capacity_short(),
        Question::Flush => Command::report_support(0x35),
        Question::FlushLong => Command::report_support(0x91),
        Question::Unmap => Command::report_support(0x42),
        Question::WriteSame => Command::report_support(0x93),
    }
}

/// Sets the size from the last block and the bytes of a block.
fn set_capacity(unit: &mut Unit, last: u64, block_bytes: u64) -> Result<(), String> {
    if !block_bytes.is_power_of_two() || !(512..=1 << 20).contains(&block_bytes) {
        return Err(format!(
            "the unit has blocks of {block_bytes} bytes, which is no power of two of at least 512"
        ));
    }
    unit.block_bytes = block_bytes as u32;
    unit.capacity_blocks = last.saturating_add(1);
    Ok(())
}

fn support(data: &[u8]) -> Support {
    match data.get(1).map(|flags| flags & 0x07) {
        Some(1) => Support::Absent,
        Some(3 | 5) => Support::Present,
        _ => Support::Unknown,
    }
}

/// A number, the most significant byte first; zero of bytes that are not there.
fn number(bytes: Option<&[u8]>) -> u64 {
    bytes.unwrap_or_default().iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The printable characters without the blanks around them.
fn text(bytes: Option<&[u8]>) -> Option<String> {
    let text: String =
        bytes?.iter().filter(|byte| (0x20..0x7f).contains(*byte)).map(|byte| char::from(*byte)).collect();
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::iscsi::outcome::{CHECK_CONDITION, Sense};

    fn good(missing_bytes: usize) -> Reply {
        Reply { slot: 0, status: GOOD, sense: None, missing_bytes }
    }

    fn failed(key: SenseKey) -> Reply {
        let sense = Some(Sense { key, code: 0x2000, information: None });
        Reply { slot: 0, status: CHECK_CONDITION, sense, missing_bytes: 0 }
    }

    /// Answers each question by `answer`, which gets the command, and returns the unit.
    fn probed(answer: impl Fn(&Command) -> Option<Vec<u8>>) -> Result<Unit, String> {
        let mut probe = Probe::default();
        let mut is_first = true;
        while let Some(command) = probe.command() {
            if std::mem::take(&mut is_first) {
                probe.take(&failed(SenseKey::UNIT_ATTENTION), &[])?;
                assert_eq!(probe.command(), Some(command), "unit attention repeats the question");
            }
            let mut data = [0; ANSWER_BYTES_MAX];
            match answer(&command) {
                Some(bytes) => {
                    data[..bytes.len()].copy_from_slice(&bytes);
                    probe.take(&good(ANSWER_BYTES_MAX - bytes.len()), &data)?;
                }
                None => probe.take(&failed(SenseKey::ILLEGAL_REQUEST), &data)?,
            }
        }
        Ok(probe.unit())
    }

    /// A disk of 1 GiB with all pages.
    fn disk(command: &Command) -> Option<Vec<u8>> {
        let [code, second, third, ..] = command.block;
        Some(match (code, second, third) {
            (0x12, 0, _) => [&[0, 0, 5, 2, 31, 0, 0, 0][..], b"IET     VIRTUAL-DISK    0001"].concat(),
            (0x12, 1, 0x00) => vec![0, 0, 0, 4, 0x00, 0x80, 0xb0, 0xb2],
            (0x12, 1, 0x80) => [&[0, 0x80, 0, 8][..], b"  beaf11"].concat(),
            (0x12, 1, 0xb0) => {
                let mut page = vec![0; 64];
                page[8..12].copy_from_slice(&8192_u32.to_be_bytes());
                page[20..24].copy_from_slice(&u32::MAX.to_be_bytes());
                page[36..44].copy_from_slice(&65_536_u64.to_be_bytes());
                page
            }
            (0x12, 1, 0xb2) => vec![0, 0xb2, 0, 4, 0, 0xe0, 0, 0],
            (0x1a, ..) => vec![23, 0, 0x10, 0],
            (0x9e, ..) => [&0x1f_ffff_u64.to_be_bytes()[..], &512_u32.to_be_bytes()].concat(),
            (0xa3, ..) => vec![0, if command.block[3] == 0x35 { 1 } else { 3 }, 0, 10],
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn properties_come_from_the_answers() {
        let unit = probed(disk).unwrap();
        let expected = Unit {
            block_bytes: 512,
            capacity_blocks: 1 << 21,
            serial: Some("beaf11".to_owned()),
            model: Some("IET VIRTUAL-DISK".to_owned()),
            is_read_only: false,
            fua: true,
            flush: Some(FlushForm::Long),
            discards: true,
            discard_blocks_max: None,
            writes_same: true,
            write_same_blocks_max: Some(65_536),
            transfer_blocks_max: 8192,
        };
        assert_eq!(unit, expected);
        assert!(unit.is_same(&expected) && !unit.is_same(&Unit { serial: None, ..expected.clone() }));
        assert!(!unit.is_same(&Unit { capacity_blocks: 1, ..expected }));
    }

    #[test]
    fn unit_that_answers_only_what_it_must_has_a_size() {
        let plain = probed(|command| match command.block[0] {
            0x12 if command.block[1] == 0 => disk(command),
            0x25 => Some([&[0, 0, 0x0f, 0xff][..], &4096_u32.to_be_bytes()].concat()),
            _ => None,
        });
        let unit = plain.unwrap();
        assert_eq!((unit.block_bytes, unit.capacity_blocks), (4096, 4096));
        assert_eq!((unit.flush, unit.writes_same), (Some(FlushForm::Short), true));
        assert_eq!((unit.fua, unit.discards, unit.serial), (false, false, None));
        assert_eq!(unit.transfer_blocks_max, 1 << 18);
    }

    #[test]
    fn other_devices_and_sizes_are_refused() {
        let kind = |first: u8| probed(move |command| (command.block[0] == 0x12).then(|| vec![first; 36]));
        assert!(kind(5).unwrap_err().contains("a device of type 5"));
        assert!(kind(0x7f).unwrap_err().contains("no unit of this number"));
        assert!(probed(|_| None).unwrap_err().contains("INQUIRY"));
        let sized = |bytes: u32| {
            probed(move |command| match command.block[0] {
                0x9e => Some([&[0; 8][..], &bytes.to_be_bytes()].concat()),
                0x12 => disk(command),
                _ => None,
            })
        };
        for bytes in [0, 520, 256, 1 << 21] {
            assert!(sized(bytes).unwrap_err().contains("which is no power of two"), "{bytes}");
        }
        assert!(
            probed(|command| (command.block[0] == 0x12).then(|| disk(command)).flatten())
                .unwrap_err()
                .contains("size")
        );
    }
}
