//! The units that the heads were writing at a cut, and what they hold afterwards.
//!
//! ```text
//! media write   ├── unit ──┼── unit ──┼─[▒▒ cut ]┼── unit ──┤
//!                 written    written     torn       not written
//! ```
//! A media write reaches the media unit by unit. Contiguous blocks of several requests are one media write, so a unit may
//! hold blocks of all of them.

use schemars::JsonSchema;
use seeklab_core::{Event, EventKind, Instant, Tearing, TornContents};
use serde::Serialize;

/// Blocks that the heads were writing at a cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TornUnit {
    /// First block.
    pub lbn: u64,
    /// Blocks.
    pub blocks: u64,
}

/// Blocks of an event that are on the media.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Number of the event.
    pub event: usize,
    /// First of the blocks.
    pub lbn: u64,
    /// Number of blocks.
    pub blocks: u32,
}

/// The media at a cut.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AtCut {
    /// Events before this one are on the media as a whole.
    pub settled: usize,
    /// Of the others, the blocks that are on the media, in order of the events.
    pub parts: Vec<Part>,
    /// Units that were being written.
    pub torn: Vec<TornUnit>,
}

/// First block of an event, and the block behind its last.
fn range(event: &Event) -> (u64, u64) {
    (event.lbn, event.lbn + u64::from(event.blocks))
}

fn begun(event: &Event) -> Instant {
    match event.kind {
        EventKind::Durable { begun } => begun,
        _ => event.time,
    }
}

/// True if `next` goes on where `event` ends, in one media write.
fn goes_on(event: &Event, next: &Event) -> bool {
    let takes_time = |event: &Event| begun(event) < event.time;
    takes_time(event) && takes_time(next) && event.time == begun(next) && range(event).1 == next.lbn
}

impl AtCut {
    /// The media at `cut`, from the events of a run in order of time. Of events behind the cut, those count whose requests
    /// have arrived by then, as `has_arrived` says.
    pub fn new(
        events: &[Event],
        cut: Instant,
        tearing: Tearing,
        has_arrived: impl Fn(&Event) -> bool,
    ) -> Self {
        let Tearing { unit_blocks, contents } = tearing;
        let reached = events.partition_point(|event| event.time <= cut);
        // What is written after the cut has begun within the time of one media write, which a later one may follow.
        let writing = (reached..events.len()).filter(|index| begun(&events[*index]) <= cut);
        let (mut parts, mut units): (Vec<Part>, Vec<(u64, u64)>) = (Vec::new(), Vec::new());
        // Events with blocks in a torn unit.
        let mut members: Vec<usize> = Vec::new();
        for index in writing {
            let event = &events[index];
            let on_media = event.on_media(cut);
            let head = event.lbn + u64::from(on_media.blocks);
            let unit = (head / unit_blocks * unit_blocks, (head / unit_blocks + 1) * unit_blocks);
            let before = before(events, index, unit);
            let has_begun = begun(event) < cut || !before.is_empty();
            let is_within = on_media.torn || !head.is_multiple_of(unit_blocks);
            if on_media.blocks > 0 {
                parts.push(Part { event: index, lbn: event.lbn, blocks: on_media.blocks });
            }
            if has_begun && is_within {
                units.push(unit);
                members.extend(before);
                members.push(index);
                members.extend(behind(events, index, unit, &has_arrived));
            }
        }
        let settled = members.iter().copied().min().unwrap_or(reached).min(reached);
        parts.extend((settled..reached).map(|event| {
            let (lbn, end) = range(&events[event]);
            Part { event, lbn, blocks: (end - lbn) as u32 }
        }));
        for &unit in &units {
            let outside = parts.iter().flat_map(|part| match members.contains(&part.event) {
                true => without(*part, unit),
                false => vec![*part],
            });
            parts = outside.collect();
            if contents == TornContents::New {
                parts.extend(members.iter().filter_map(|&event| {
                    let (start, end) = range(&events[event]);
                    let (lbn, end) = (start.max(unit.0), end.min(unit.1));
                    (lbn < end).then(|| Part { event, lbn, blocks: (end - lbn) as u32 })
                }));
            }
        }
        parts.sort_by_key(|part| (part.event, part.lbn));
        let torn = units.iter().map(|(start, end)| TornUnit { lbn: *start, blocks: end - start }).collect();
        Self { settled, parts, torn }
    }
}

/// The events of the same media write before the event of that number that have blocks in `unit`.
fn before(events: &[Event], index: usize, unit: (u64, u64)) -> Vec<usize> {
    let mut found = Vec::new();
    let mut first = index;
    while unit.0 < events[first].lbn
        && let Some(before) = (0..first).rev().find(|before| goes_on(&events[*before], &events[first]))
    {
        found.push(before);
        first = before;
    }
    found
}

/// The events of the same media write behind the event of that number that have blocks in `unit`.
fn behind(
    events: &[Event],
    index: usize,
    unit: (u64, u64),
    has_arrived: impl Fn(&Event) -> bool,
) -> Vec<usize> {
    let mut found = Vec::new();
    let mut last = index;
    let follows = |last: usize, next: &Event| goes_on(&events[last], next) && has_arrived(next);
    while range(&events[last]).1 < unit.1
        && let Some(next) = (last + 1..events.len()).find(|next| follows(last, &events[*next]))
    {
        found.push(next);
        last = next;
    }
    found
}

/// The part without the blocks of a unit.
fn without(part: Part, unit: (u64, u64)) -> Vec<Part> {
    let end = part.lbn + u64::from(part.blocks);
    let pieces = [(part.lbn, end.min(unit.0)), (part.lbn.max(unit.1), end)];
    let pieces = pieces.into_iter().filter(|(start, end)| start < end);
    pieces.map(|(lbn, end)| Part { lbn, blocks: (end - lbn) as u32, ..part }).collect()
}

#[cfg(test)]
mod tests {
    use seeklab_core::RequestId;

    use super::*;

    const fn us(us: u64) -> Instant {
        Instant::from_ns(us * 1_000)
    }

    /// Two requests in one media write of 10 us for each block, a write before, and a discard.
    fn events() -> Vec<Event> {
        vec![
            Event::durable(RequestId(0), 0, 8, us(0), us(80)),
            Event::durable(RequestId(1), 100, 12, us(100), us(220)),
            Event::durable(RequestId(2), 112, 12, us(220), us(340)),
            Event::durable(RequestId(3), 500, 4, us(400), us(400)),
        ]
    }

    /// Blocks of each event on the media, settled ones included, and the torn units.
    fn at(cut: u64, unit: u64, contents: TornContents) -> (Vec<(usize, u64, u32)>, Vec<(u64, u64)>) {
        let events = events();
        let media = AtCut::new(&events, us(cut), Tearing { unit_blocks: unit, contents }, |_| true);
        let settled = (0..media.settled).map(|event| (event, events[event].lbn, events[event].blocks));
        let parts = media.parts.iter().map(|part| (part.event, part.lbn, part.blocks));
        let torn = media.torn.iter().map(|unit| (unit.lbn, unit.blocks)).collect();
        (settled.chain(parts).collect(), torn)
    }

    #[test]
    fn sector_under_the_head_is_old_new_or_unreadable() {
        let torn = vec![(103, 1)];
        for contents in [TornContents::Old, TornContents::Unreadable] {
            assert_eq!(at(135, 1, contents), (vec![(0, 0, 8), (1, 100, 3)], torn.clone()));
        }
        assert_eq!(at(135, 1, TornContents::New), (vec![(0, 0, 8), (1, 100, 3), (1, 103, 1)], torn));
        // Between two sectors none is torn.
        assert_eq!(at(130, 1, TornContents::New), (vec![(0, 0, 8), (1, 100, 3)], vec![]));
        assert_eq!(at(90, 1, TornContents::New), (vec![(0, 0, 8)], vec![]));
    }

    #[test]
    fn unit_changes_as_a_whole_with_the_blocks_of_all_requests() {
        // Blocks 104 to 111 are written: units of eight begin at 96, 104, 112.
        assert_eq!(at(210, 8, TornContents::Old), (vec![(0, 0, 8), (1, 100, 4)], vec![(104, 8)]));
        assert_eq!(at(220, 8, TornContents::Old), (vec![(0, 0, 8), (1, 100, 12)], vec![]));
        // Units of sixteen begin at 96 and 112; a unit of 32 at 96 holds blocks of both requests.
        let torn = vec![(96, 32)];
        for (cut, contents) in
            [(230, TornContents::Old), (220, TornContents::Old), (235, TornContents::Unreadable)]
        {
            assert_eq!(at(cut, 32, contents), (vec![(0, 0, 8)], torn.clone()), "{cut}");
        }
        let whole = vec![(0, 0, 8), (1, 100, 12), (2, 112, 12)];
        assert_eq!(at(235, 32, TornContents::New), (whole.clone(), torn.clone()));
        assert_eq!(at(150, 32, TornContents::New), (whole.clone(), torn));
        assert_eq!(at(340, 32, TornContents::Old), (whole.clone(), vec![]));
        assert_eq!(at(399, 8, TornContents::Old), (whole, vec![]));
    }

    #[test]
    fn unit_is_not_completed_from_a_request_that_comes_after_the_cut() {
        let tearing = Tearing { unit_blocks: 32, contents: TornContents::New };
        let media = AtCut::new(&events(), us(150), tearing, |event| event.request != Some(RequestId(2)));
        assert_eq!(media.parts, [Part { event: 1, lbn: 100, blocks: 12 }]);
    }

    #[test]
    fn discard_is_there_at_its_time_and_tears_nothing() {
        assert_eq!(at(399, 1, TornContents::New).0.len(), 3);
        assert_eq!(
            at(400, 1, TornContents::New),
            ([at(399, 1, TornContents::New).0, vec![(3, 500, 4)]].concat(), vec![])
        );
    }
}
