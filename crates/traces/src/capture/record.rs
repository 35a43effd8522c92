//! Records in a ring buffer of perf events.
//!
//! Samples are requested with process, time, processor and raw event, and the first three are appended to all
//! other records. The forms are then (all integers in the machine's byte order):
//!
//! ```text
//! sample  u32 type = 9 | u16 misc | u16 size | u32 pid, tid | u64 time | u32 cpu, 0 | u32 length | bytes
//! lost    u32 type = 2 | u16 misc | u16 size | u64 id | u64 lost | u32 pid, tid | u64 time | u32 cpu, 0
//! ```
//! # References
//! perf_event_open(2).

use super::event::{Kind, Stamped, What};
use super::layout::Layout;

/// PERF_RECORD_LOST: the buffer was full.
const LOST: u32 = 2;
/// PERF_RECORD_THROTTLE: the kernel held the event back because it occurred too often. The record does not
/// contain the number of lost events.
const THROTTLE: u32 = 5;
/// PERF_RECORD_UNTHROTTLE: it goes on.
const UNTHROTTLE: u32 = 6;
/// PERF_RECORD_SAMPLE: an event.
const SAMPLE: u32 = 9;

const HEADER_BYTES: usize = 8;
/// Process, time and processor behind records that are no samples.
const TRAILER_BYTES: usize = 24;

/// Decodes one record. Returns `None` if the record is of no interest.
///
/// # Errors
/// If the record has an unexpected form.
pub(super) fn decode(record: &[u8], kind: Kind, layout: &Layout) -> Result<Option<Stamped>, Malformed> {
    let header = u32_at(record, 0)?;
    match header {
        SAMPLE => {
            let (process, time_ns) = (u32_at(record, HEADER_BYTES)?, u64_at(record, HEADER_BYTES + 8)?);
            let length = u32_at(record, HEADER_BYTES + 24)? as usize;
            let start = HEADER_BYTES + 28;
            let raw = record.get(start..).and_then(|rest| rest.get(..length)).ok_or(Malformed)?;
            let event = layout.decode(raw, process).ok_or(Malformed)?;
            Ok(Some(Stamped { time_ns, what: What::Event(event) }))
        }
        LOST | THROTTLE => {
            let trailer = record.len().checked_sub(TRAILER_BYTES).filter(|at| *at >= HEADER_BYTES);
            let time_ns = u64_at(record, trailer.ok_or(Malformed)? + 8)?;
            let lost = if header == LOST { u64_at(record, HEADER_BYTES + 8)? } else { 1 };
            Ok(Some(Stamped { time_ns, what: What::Lost(kind, lost) }))
        }
        UNTHROTTLE => Ok(None),
        _ => Err(Malformed),
    }
}

/// A record of a form that it should not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

fn u32_at(bytes: &[u8], at: usize) -> Result<u32, Malformed> {
    let bytes = bytes.get(at..).and_then(|rest| rest.first_chunk()).ok_or(Malformed)?;
    Ok(u32::from_ne_bytes(*bytes))
}

fn u64_at(bytes: &[u8], at: usize) -> Result<u64, Malformed> {
    let bytes = bytes.get(at..).and_then(|rest| rest.first_chunk()).ok_or(Malformed)?;
    Ok(u64::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::layout::tests::ISSUE;
    use super::*;

    fn layout() -> Layout {
        Layout::parse(Kind::Issue, ISSUE).unwrap()
    }

    fn sample(raw: &[u8]) -> Vec<u8> {
        let mut record = Vec::new();
        record.extend(SAMPLE.to_ne_bytes());
        record.extend([0; 4]);
        record.extend(31_405_u32.to_ne_bytes());
        record.extend(31_406_u32.to_ne_bytes());
        record.extend(11_434_880_975_000_u64.to_ne_bytes());
        record.extend([0; 8]);
        record.extend(u32::try_from(raw.len()).unwrap().to_ne_bytes());
        record.extend(raw);
        record
    }

    #[test]
    fn sample_is_decoded() {
        let mut raw = [0; 68];
        raw[16..24].copy_from_slice(&40_u64.to_ne_bytes());
        raw[24..28].copy_from_slice(&8_u32.to_ne_bytes());
        raw[34..37].copy_from_slice(b"WS\0");
        let stamped = decode(&sample(&raw), Kind::Issue, &layout()).unwrap().unwrap();
        assert_eq!(stamped.time_ns, 11_434_880_975_000);
        let What::Event(event) = stamped.what else { panic!("{stamped:?} is no event") };
        assert_eq!((event.process, event.sector, event.sectors), (31_405, 40, 8));
    }

    #[test]
    fn losses_are_decoded_with_their_time() {
        let mut record = Vec::new();
        record.extend(LOST.to_ne_bytes());
        record.extend([0; 4]);
        record.extend(77_u64.to_ne_bytes());
        record.extend(1_234_u64.to_ne_bytes());
        record.extend([0; 8]);
        record.extend(5_000_u64.to_ne_bytes());
        record.extend([0; 8]);
        let lost = Stamped { time_ns: 5_000, what: What::Lost(Kind::Complete, 1_234) };
        assert_eq!(decode(&record, Kind::Complete, &layout()), Ok(Some(lost)));
        for length in 0..24 {
            assert_eq!(decode(&record[..length], Kind::Complete, &layout()), Err(Malformed));
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_yield_a_result(
            header in prop_oneof![Just(LOST), Just(THROTTLE), Just(SAMPLE), any::<u32>()],
            rest in prop::collection::vec(any::<u8>(), 0..160),
            length in prop_oneof![0_u32..160, any::<u32>()],
        ) {
            let mut record = header.to_ne_bytes().to_vec();
            record.extend(&rest);
            if let Some(place) = record.get_mut(32..36) {
                place.copy_from_slice(&length.to_ne_bytes());
            }
            if let Ok(Some(Stamped { what: What::Event(event), .. })) = decode(&record, Kind::Issue, &layout()) {
                prop_assert!(36 + length as usize <= record.len());
                prop_assert_eq!(event.kind, Kind::Issue);
            }
        }
    }
}
