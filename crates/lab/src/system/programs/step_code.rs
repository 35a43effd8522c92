//! Code of a step in a file: four numbers of 64 bits.
//!
//! ```text
//! computing time │ kind, flags, a number of 16 bits, first one of 32 bits │ two numbers of 32 bits │ a number of 64 bits
//! ```

use std::num::NonZeroU32;

use seeklab_core::Duration;
use seeklab_workloads::host::{RecordedAction, RecordedStep, SyncEnd};

/// Size of a code.
pub(super) const STEP_BYTES: usize = 32;

/// Size of the computing time at its beginning.
pub(super) const COMPUTING_BYTES: usize = 8;

/// Numbers of an action.
#[derive(Debug, Clone, Copy, Default)]
struct Code {
    kind: u8,
    /// Two truth values.
    flags: [bool; 2],
    tiny: u16,
    small: [u32; 3],
    large: u64,
}

/// The code of a step.
pub(super) fn encode(step: &RecordedStep) -> [u8; STEP_BYTES] {
    let Code { kind, flags, tiny, small, large } = code(step.action);
    let mut bytes = [0; STEP_BYTES];
    bytes[..COMPUTING_BYTES].copy_from_slice(&step.computing.as_ns().to_le_bytes());
    bytes[8] = kind;
    bytes[9] = u8::from(flags[0]) | u8::from(flags[1]) << 1;
    bytes[10..12].copy_from_slice(&tiny.to_le_bytes());
    for (number, place) in small.iter().zip([12, 16, 20]) {
        bytes[place..place + 4].copy_from_slice(&number.to_le_bytes());
    }
    bytes[24..].copy_from_slice(&large.to_le_bytes());
    bytes
}

/// The step of a code.
///
/// # Panics
/// If [`encode`] did not make it.
pub(super) fn decode(bytes: &[u8; STEP_BYTES]) -> RecordedStep {
    let large = |place: usize| {
        let number: [u8; 8] = bytes[place..place + 8].try_into().expect("there are eight");
        u64::from_le_bytes(number)
    };
    let small = [12, 16, 20].map(|place| {
        let number: [u8; 4] = bytes[place..place + 4].try_into().expect("there are four");
        u32::from_le_bytes(number)
    });
    let flags = [bytes[9] & 1 != 0, bytes[9] & 2 != 0];
    let tiny = u16::from_le_bytes([bytes[10], bytes[11]]);
    let action = action(Code { kind: bytes[8], flags, tiny, small, large: large(24) });
    RecordedStep { computing: Duration::from_ns(large(0)), action }
}

fn code(action: RecordedAction) -> Code {
    let of = |kind, small| Code { kind, small, ..Code::default() };
    match action {
        RecordedAction::None => of(0, [0; 3]),
        RecordedAction::Read { file, first, pages, requested } => {
            Code { large: requested.into(), ..of(1, [file, first, pages]) }
        }
        RecordedAction::Sequential { file } => of(2, [file, 0, 0]),
        RecordedAction::Fault { file, page } => of(3, [file, page, 0]),
        RecordedAction::Write { file, first, pages, keeps_first, keeps_last } => {
            Code { flags: [keeps_first, keeps_last], ..of(4, [file, first, pages]) }
        }
        RecordedAction::Direct { file, first, sectors, writes, queue } => Code {
            flags: [writes, false],
            large: first,
            ..of(5, [file, sectors, queue.map_or(0, NonZeroU32::get)])
        },
        RecordedAction::Reap { queue, transfers } => of(6, [queue.get(), transfers, 0]),
        RecordedAction::Delete { file } => of(7, [file, 0, 0]),
        RecordedAction::Lose { file, first, pages } => of(8, [file, first, pages]),
        RecordedAction::Metadata { address, dirties, is_present } => {
            Code { flags: [dirties, is_present], large: address, ..of(9, [0; 3]) }
        }
        RecordedAction::MetadataAhead { address, pages } => Code { large: address, ..of(10, [pages, 0, 0]) },
        RecordedAction::WriteMetadata { address, pages } => Code { large: address, ..of(11, [pages, 0, 0]) },
        RecordedAction::Change { blocks } => of(12, [blocks, 0, 0]),
        RecordedAction::Commit => of(13, [0; 3]),
        RecordedAction::SyncFile { file, end } => of(14, [file, end_number(end), 0]),
        RecordedAction::SyncAll => of(15, [0; 3]),
        RecordedAction::Start { thread } => of(16, [thread, 0, 0]),
        RecordedAction::Await { thread, steps } => of(17, [thread, steps, 0]),
        RecordedAction::Sleep { time } => Code { large: time.as_ns(), ..of(18, [0; 3]) },
        RecordedAction::LookUp { address } => Code { large: address, ..of(19, [0; 3]) },
        RecordedAction::Poll { time, thread, steps, end, back } => {
            Code { large: time.as_ns(), tiny: back, ..of(20, [thread, steps, end]) }
        }
    }
}

fn action(code: Code) -> RecordedAction {
    let Code { kind, flags, tiny, small: [a, b, c], large } = code;
    match kind {
        0 => RecordedAction::None,
        1 => RecordedAction::Read { file: a, first: b, pages: c, requested: large as u32 },
        2 => RecordedAction::Sequential { file: a },
        3 => RecordedAction::Fault { file: a, page: b },
        4 => {
            RecordedAction::Write { file: a, first: b, pages: c, keeps_first: flags[0], keeps_last: flags[1] }
        }
        5 => RecordedAction::Direct {
            file: a,
            first: large,
            sectors: b,
            writes: flags[0],
            queue: NonZeroU32::new(c),
        },
        6 => RecordedAction::Reap { queue: NonZeroU32::new(a).expect("queues begin with one"), transfers: b },
        7 => RecordedAction::Delete { file: a },
        8 => RecordedAction::Lose { file: a, first: b, pages: c },
        9 => RecordedAction::Metadata { address: large, dirties: flags[0], is_present: flags[1] },
        10 => RecordedAction::MetadataAhead { address: large, pages: a },
        11 => RecordedAction::WriteMetadata { address: large, pages: a },
        12 => RecordedAction::Change { blocks: a },
        13 => RecordedAction::Commit,
        14 => RecordedAction::SyncFile { file: a, end: ENDS[b as usize] },
        15 => RecordedAction::SyncAll,
        16 => RecordedAction::Start { thread: a },
        17 => RecordedAction::Await { thread: a, steps: b },
        18 => RecordedAction::Sleep { time: Duration::from_ns(large) },
        19 => RecordedAction::LookUp { address: large },
        20 => {
            RecordedAction::Poll { time: Duration::from_ns(large), thread: a, steps: b, end: c, back: tiny }
        }
        other => unreachable!("no action has the code {other}"),
    }
}

/// Ends of synchronisations, by their number in a code.
const ENDS: [SyncEnd; 3] = [SyncEnd::Flush, SyncEnd::Commit, SyncEnd::Later];

const fn end_number(end: SyncEnd) -> u32 {
    match end {
        SyncEnd::Flush => 0,
        SyncEnd::Commit => 1,
        SyncEnd::Later => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_action_survives_its_code() {
        let queue = NonZeroU32::new(9);
        let some_queue = NonZeroU32::MAX;
        let large = u64::MAX - 3;
        let mut actions = vec![
            RecordedAction::None,
            RecordedAction::Read { file: 1, first: u32::MAX, pages: 3, requested: u32::MAX - 1 },
            RecordedAction::Sequential { file: 5 },
            RecordedAction::Fault { file: 6, page: 7 },
            RecordedAction::Reap { queue: some_queue, transfers: 8 },
            RecordedAction::Delete { file: 9 },
            RecordedAction::Lose { file: 10, first: 11, pages: 12 },
            RecordedAction::MetadataAhead { address: large, pages: 13 },
            RecordedAction::WriteMetadata { address: large, pages: 14 },
            RecordedAction::Change { blocks: 15 },
            RecordedAction::Commit,
            RecordedAction::LookUp { address: large },
            RecordedAction::SyncAll,
            RecordedAction::Start { thread: 16 },
            RecordedAction::Await { thread: 17, steps: 18 },
            RecordedAction::Sleep { time: Duration::from_ns(large) },
            RecordedAction::Poll {
                time: Duration::from_ns(large),
                thread: 25,
                steps: u32::MAX,
                end: 26,
                back: u16::MAX,
            },
        ];
        actions.extend(ENDS.map(|end| RecordedAction::SyncFile { file: 19, end }));
        for first in [false, true] {
            actions.extend([None, queue].map(|queue| RecordedAction::Direct {
                file: 20,
                first: large,
                sectors: 21,
                writes: first,
                queue,
            }));
            for second in [false, true] {
                actions.extend([
                    RecordedAction::Write {
                        file: 22,
                        first: 23,
                        pages: 24,
                        keeps_first: first,
                        keeps_last: second,
                    },
                    RecordedAction::Metadata { address: large, dirties: first, is_present: second },
                ]);
            }
        }
        for action in actions {
            let step = RecordedStep { computing: Duration::from_ns(u64::MAX), action };
            assert_eq!(decode(&encode(&step)), step);
        }
    }
}
