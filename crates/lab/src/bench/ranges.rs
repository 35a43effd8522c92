//! Blocks of the streams that write: no two streams of a phase write to the same ones.
//!
//! ```text
//! stated by the plan ─▶ kept; an overlap is an error ─────┐
//! not stated ─▶ equal parts of the longest unstated rest ─┴─▶ blocks of each stream
//! ```
//! # Scope and limits
//! Parts begin at multiples of 1 MiB, or of a power of two of blocks that is at most a sixteenth of them.

use std::ops::Range;

use seeklab_workloads::{AddressSpace, WorkloadSpec};

use super::load::Load;
use super::options::{PhaseOptions, StreamLoad, StreamOptions};
use crate::failure::Failure;
use seeklab_core::number_words::counted;

/// Parts begin at multiples of it, if they are long.
const UNIT_BYTES: u64 = 1 << 20;

/// Ranges that cannot be.
#[derive(Debug, PartialEq, Eq)]
enum Misfit {
    /// Two of the streams state these blocks.
    Overlap([usize; 2], Range<u64>),
    /// So many streams share so few blocks.
    TooShort { streams: u64, blocks: u64 },
}

/// The part of the target for each stream of a phase. `None` of a stream that only reads, or whose workload keeps to its
/// blocks already. `place` gives the address and the space of the target of a stream.
///
/// # Errors
/// If the plan states ranges that overlap, or a target is too small.
pub(super) fn parts<'a>(
    phase: &PhaseOptions,
    loads: &[Load],
    place: impl Fn(usize) -> (&'a str, AddressSpace),
) -> Result<Vec<Option<Range<u64>>>, Failure> {
    let mut parts = vec![None; phase.streams.len()];
    let is_writer = |stream: &usize| loads[*stream].writes;
    let mut left: Vec<usize> = (0..phase.streams.len()).filter(is_writer).collect();
    while let Some(first) = left.first() {
        let target = phase.streams[*first].target;
        let (address, space) = place(*first);
        let is_of_target = |stream: &usize| phase.streams[*stream].target == target;
        let (writers, others): (Vec<usize>, Vec<usize>) = left.into_iter().partition(is_of_target);
        left = others;
        let stated: Vec<_> = writers.iter().map(|stream| stated(&phase.streams[*stream], space)).collect();
        let divided = divide(&stated, space).map_err(|misfit| {
            let name = |writer: usize| phase.streams[writers[writer]].name.as_str();
            failure(misfit, address, &phase.name, name)
        })?;
        writers.iter().zip(divided).for_each(|(stream, part)| parts[*stream] = part);
    }
    Ok(parts)
}

/// Blocks that a key of the stream limits its requests to.
fn stated(stream: &StreamOptions, space: AddressSpace) -> Option<Range<u64>> {
    match &stream.workload {
        StreamLoad::Workload(workload) => match &workload.spec {
            WorkloadSpec::Synthetic(spec) => spec.address.stated_blocks(space),
            _ => None,
        },
        StreamLoad::Job(job, _) => job.stated_blocks(space),
    }
}

/// Divides a target among the streams that write to it, of which these blocks are stated. `None` of a stream that keeps to its
/// blocks, or has all of the target.
fn divide(stated: &[Option<Range<u64>>], space: AddressSpace) -> Result<Vec<Option<Range<u64>>>, Misfit> {
    let ranges = stated.iter().enumerate().filter_map(|(writer, range)| Some((writer, range.clone()?)));
    let mut ranges: Vec<_> = ranges.filter(|(_, range)| !range.is_empty()).collect();
    ranges.sort_by_key(|(_, range)| range.start);
    for ((one, first), (other, second)) in ranges.iter().zip(ranges.iter().skip(1)) {
        if second.start < first.end {
            let writers = [*one.min(other), *one.max(other)];
            return Err(Misfit::Overlap(writers, second.start..first.end.min(second.end)));
        }
    }
    let sharing = stated.iter().filter(|range| range.is_none()).count() as u64;
    let begins = [0].into_iter().chain(ranges.iter().map(|(_, range)| range.end));
    let ends = ranges.iter().map(|(_, range)| range.start).chain([space.capacity_blocks]);
    let rests = begins.zip(ends).map(|(begin, end)| begin..end.max(begin));
    let rest = rests.max_by_key(|rest| rest.end - rest.start).expect("there is one more than stated ranges");
    if sharing == 0 || (sharing == 1 && ranges.is_empty()) {
        return Ok(vec![None; stated.len()]);
    }
    let blocks = rest.end - rest.start;
    let unit = (UNIT_BYTES / space.block_size.as_bytes()).max(1);
    let unit = unit.min(1 << (blocks / sharing / 16).max(1).ilog2());
    let begin = rest.start.next_multiple_of(unit);
    let length = rest.end.saturating_sub(begin) / sharing / unit * unit;
    if length == 0 {
        return Err(Misfit::TooShort { streams: sharing, blocks });
    }
    let mut next = 0;
    let part = |range: &Option<Range<u64>>| {
        range.is_none().then(|| {
            let start = begin + next * length;
            next += 1;
            // The last one has what the division leaves.
            start..if next == sharing { rest.end } else { start + length }
        })
    };
    Ok(stated.iter().map(part).collect())
}

fn failure<'a>(misfit: Misfit, address: &str, phase: &str, name: impl Fn(usize) -> &'a str) -> Failure {
    match misfit {
        Misfit::Overlap([one, other], blocks) => Failure::new(format!(
            "--verify: streams `{}` and `{}` of phase `{phase}` both write to blocks {} to {} of `{address}`",
            name(one),
            name(other),
            blocks.start,
            blocks.end - 1
        ))
        .hint(
            "streams that write at the same time need blocks of their own: change start and end of their `address` (of fio \
             offset and size), or leave these out to divide the target evenly",
        ),
        Misfit::TooShort { streams, blocks } => Failure::new(format!(
            "--verify: {blocks} blocks of `{address}` are left for {} of phase `{phase}` without a range, which are too few",
            counted(streams, "stream")
        ))
        .hint("choose a larger target, fewer streams, or other ranges"),
    }
}

#[cfg(test)]
mod tests {
    use seeklab_core::ByteSize;

    use super::*;

    fn divided(stated: &[Option<Range<u64>>], blocks: u64) -> Result<Vec<Option<Range<u64>>>, Misfit> {
        divide(stated, AddressSpace { capacity_blocks: blocks, block_size: ByteSize::from_bytes(512) })
    }

    #[test]
    fn parts_are_disjoint_and_cover_the_target() {
        for (blocks, streams) in [(4096, 2), (4096, 3), (1 << 30, 7), (5, 5), (1_000_003, 13)] {
            let parts = divided(&vec![None; streams], blocks).unwrap();
            let parts: Vec<_> = parts.into_iter().map(Option::unwrap).collect();
            assert_eq!((parts[0].start, parts[streams - 1].end), (0, blocks));
            assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start), "{parts:?}");
            let longest = parts.iter().map(|part| part.end - part.start).max().unwrap();
            let shortest = parts.iter().map(|part| part.end - part.start).min().unwrap();
            assert!(shortest > 0 && longest <= 2 * shortest, "{parts:?}");
        }
        let parts = divided(&[None, None, None], 1 << 30).unwrap();
        assert!(parts.iter().flatten().all(|part| part.start.is_multiple_of(2048)), "{parts:?}");
    }

    #[test]
    fn single_writer_has_all_and_stated_ranges_stay() {
        assert_eq!(divided(&[None], 100), Ok(vec![None]));
        assert_eq!(divided(&[Some(0..50), Some(50..100)], 100), Ok(vec![None, None]));
        // The rest belongs to those that state nothing.
        assert_eq!(divided(&[Some(0..20), None, Some(90..100)], 100), Ok(vec![None, Some(20..90), None]));
        let parts = divided(&[None, Some(10..20), None], 100).unwrap();
        assert_eq!(parts, [Some(20..60), None, Some(60..100)]);
    }

    #[test]
    fn overlaps_and_too_small_targets_are_misfits() {
        let overlap = divided(&[Some(50..100), None, Some(0..51)], 100);
        assert_eq!(overlap, Err(Misfit::Overlap([0, 2], 50..51)));
        let inner = divided(&[Some(0..100), Some(10..20)], 100);
        assert_eq!(inner, Err(Misfit::Overlap([0, 1], 10..20)));
        assert_eq!(divided(&[None, None, None], 2), Err(Misfit::TooShort { streams: 3, blocks: 2 }));
        assert_eq!(divided(&[Some(0..100), None], 100), Err(Misfit::TooShort { streams: 1, blocks: 0 }));
    }
}
