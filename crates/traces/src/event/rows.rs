//! From issue and complete events in a file to rows in order of arrival.
//!
//! ```text
//!  events in order of time ─▶ Pairing (one per device) ─▶ rows in order of issue ─▶ Reorder ─▶ rows
//! ```
//! What a request is and which completion belongs to it is stated in `pairing.rs`, which live capture uses
//! too. Here every issue becomes a row, whether its completion is found or not, and so does every further
//! issue of a request that the driver gave back; see `issue_order.rs` for when a row leaves. A reader takes
//! [`pop`](EventRows::pop) until it gives nothing, then pushes the next event.
//!
//! # Scope and limits
//! A completion that comes after 65,536 younger requests were issued counts as one without an issue. Queue
//! lengths and think times are not filled in: where completions are missing they would be wrong.

use std::borrow::Cow;
use std::collections::BTreeMap;

use seeklab_core::number_words::numbered;
use seeklab_core::{HostRequest, Instant, Operation, TraceRecord};

use crate::error::{Problem, TraceError};
use crate::event::block_event::{BlockEvent, Kind, Stamped, What};
use crate::event::issue_order::IssueOrder;
use crate::event::pairing::Pairing;
use crate::metadata::Metadata;
use crate::options::{Allowed, FormatOption};
use crate::parse::extent::{checked_block_size, unaligned};
use crate::trace_format::{Note, ReadOptions};

/// Event from which a request's response time counts.
pub(crate) const ARRIVAL: FormatOption = FormatOption {
    name: "arrival",
    allowed: Allowed::OneOf(&["issue", "queue"]),
    default: "issue",
    meaning: "start of response times: the issue to the driver (D2C) or, if the trace has it, the queueing (Q2C)",
};

/// Makes rows of events.
pub(crate) struct EventRows {
    block_size: u64,
    from_queue: bool,
    /// By the key of the device in the trace.
    devices: BTreeMap<u64, u16>,
    pairings: Vec<Pairing>,
    /// With their numbers in the pairing of their device.
    rows: IssueOrder<u64>,
    /// Numbers in order of issue, by device and number in its pairing, of those in `rows`.
    numbers: BTreeMap<(u16, u64), u64>,
    last_ns: u64,
    /// Events stamped earlier than the one before.
    backward: u64,
}

impl EventRows {
    /// Rows as the `options` want them, of a format that has [`ARRIVAL`] among its options.
    ///
    /// # Errors
    /// If an option is not allowed.
    pub(crate) fn new(options: &ReadOptions) -> Result<Self, TraceError> {
        Ok(Self {
            block_size: checked_block_size(options.block_size_or_default())?,
            from_queue: ARRIVAL.text(options)? == "queue",
            devices: BTreeMap::new(),
            pairings: Vec::new(),
            rows: IssueOrder::new(options),
            numbers: BTreeMap::new(),
            last_ns: 0,
            backward: 0,
        })
    }

    /// Rows of a format that knows no queueing.
    ///
    /// # Errors
    /// If an option is not allowed.
    pub(crate) fn of_arrivals(options: &ReadOptions) -> Result<Self, TraceError> {
        Self::new(&ReadOptions { settings: Vec::new(), ..options.clone() })
    }

    /// Returns the oldest outstanding request of the device with that key, of the given sector and length if
    /// `place` is given.
    pub(crate) fn outstanding(&self, key: u64, place: Option<(u64, u32)>) -> Option<(Operation, u64, u32)> {
        self.pairings[usize::from(*self.devices.get(&key)?)].outstanding(place)
    }

    /// Takes the next event of the device that the trace knows by `key`; `label` names it where it is new.
    ///
    /// # Errors
    /// If the place is not at a block, or there are too many devices.
    pub(crate) fn push(
        &mut self,
        key: u64,
        label: impl FnOnce() -> String,
        time_ns: u64,
        event: BlockEvent,
        metadata: &mut Metadata,
    ) -> Result<(), Box<Problem>> {
        self.backward += u64::from(time_ns < self.last_ns);
        self.last_ns = time_ns;
        let device = match self.devices.get(&key) {
            Some(device) => *device,
            None => {
                let name = label();
                let device = u16::try_from(self.pairings.len())
                    .map_err(|_| Problem::new("device", &name, "more than 65536 devices are too many"))?;
                metadata.labels.push(name);
                self.pairings.push(Pairing::of_issues());
                self.devices.insert(key, device);
                device
            }
        };
        let pairing = &mut self.pairings[usize::from(device)];
        let issued = pairing.counts.issued;
        let completed = pairing.push(&Stamped { time_ns, what: What::Event(event) });
        if pairing.counts.issued > issued
            && let Some((number, request)) = pairing.newest()
        {
            let record = row(request, device, self.block_size, self.from_queue)?;
            self.numbers.insert((device, number), self.rows.push(number, record));
        }
        if let Some((number, request)) = completed
            && let Some(place) = self.numbers.get(&(device, number))
        {
            self.rows.complete(*place, request.completion, request.status());
        }
        Ok(())
    }

    /// Events were lost here: no request outstanding now is trusted to find its completion.
    pub(crate) fn lost(&mut self) {
        let time_ns = self.last_ns;
        for pairing in &mut self.pairings {
            pairing.push(&Stamped { time_ns, what: What::Lost(Kind::Complete, 1) });
        }
    }

    /// There are no more events.
    pub(crate) fn end(&mut self) {
        self.rows.end();
    }

    /// The next row, where one can leave; to be taken before each event.
    pub(crate) fn pop(&mut self) -> Option<TraceRecord> {
        let Self { rows, pairings, numbers, .. } = self;
        rows.pop(|number, record, _, must| {
            let pairing = &mut pairings[usize::from(record.device)];
            if must {
                pairing.give_up(*number);
            }
            let leaves = !pairing.is_open(*number);
            if leaves {
                numbers.remove(&(record.device, *number));
            }
            leaves
        })
    }

    /// Appends what the user should know.
    pub(crate) fn notes(&self, notes: &mut Vec<Note>) {
        let sum = |count: fn(&Pairing) -> u64| self.pairings.iter().map(count).sum::<u64>();
        let given_up = sum(|pairing| pairing.counts.given_up).saturating_sub(self.rows.forced());
        self.rows.notes(given_up, sum(|pairing| pairing.counts.unpaired_completions), notes);
        let mut remark = |count: u64, what: &str| {
            if count > 0 {
                notes.push(Note::Remark(Cow::Owned(numbered(count, what))));
            }
        };
        remark(
            sum(|pairing| pairing.counts.other_commands),
            "command[|s] [is|are] neither read nor write, flush, discard or write-zeroes and [is|are] left out",
        );
        remark(
            sum(|pairing| pairing.counts.requeues),
            "time[|s] a request was given back by the driver: that issue is a row without a response time, and the \
             next issue of the request another row",
        );
        remark(
            sum(|pairing| pairing.counts.partial_completions),
            "completion[|s] [is|are] of a part of a request: it is complete with its last part",
        );
        remark(self.backward, "event[|s] [is|are] stamped earlier than the event before");
    }
}

/// A request that was issued, as a row.
fn row(
    request: &HostRequest,
    device: u16,
    block_size: u64,
    from_queue: bool,
) -> Result<TraceRecord, Box<Problem>> {
    if !request.offset_bytes.is_multiple_of(block_size) {
        let text = request.offset_bytes.to_string();
        return Err(unaligned("offset in bytes", text.as_bytes(), request.offset_bytes.into(), block_size));
    }
    let blocks = u32::try_from(request.length_bytes.div_ceil(block_size)).map_err(|_| {
        let problem = format!("more than 4294967295 blocks of {block_size} bytes");
        Problem::new("length in bytes", request.length_bytes.to_string(), problem)
    })?;
    let queued: Option<Instant> = request.queued.filter(|queued| from_queue && *queued <= request.issue);
    Ok(TraceRecord {
        device,
        issue: Some(request.issue),
        fua: request.fua,
        initiator: request.process,
        ..TraceRecord::new(
            queued.unwrap_or(request.issue),
            request.op,
            request.offset_bytes / block_size,
            blocks,
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::block_event::Kind;
    use crate::event::pairing::OUTSTANDING_MAX;
    use seeklab_core::ProcessName;

    fn event(kind: Kind, sector: u64) -> BlockEvent {
        let op = Some(Operation::Read);
        let command = ProcessName::default();
        BlockEvent { kind, op, fua: false, sector, sectors: 8, error: 0, process: 7, command }
    }

    fn rows(options: &ReadOptions, events: &[(u64, u64, Kind, u64)]) -> (Vec<TraceRecord>, Vec<String>) {
        let mut rows = EventRows::new(options).unwrap();
        let (mut metadata, mut found) = (Metadata::default(), Vec::new());
        for (device, time_ns, kind, sector) in events {
            let label = || format!("8,{device}");
            rows.push(*device, label, *time_ns, event(*kind, *sector), &mut metadata).unwrap();
            found.extend(std::iter::from_fn(|| rows.pop()));
        }
        rows.end();
        found.extend(std::iter::from_fn(|| rows.pop()));
        let mut notes = Vec::new();
        rows.notes(&mut notes);
        (found, notes.iter().map(ToString::to_string).collect())
    }

    fn times(records: &[TraceRecord]) -> Vec<(u16, u64, Option<u64>)> {
        let time = |record: &TraceRecord| {
            (record.device, record.arrival.as_ns(), record.completion.map(Instant::as_ns))
        };
        records.iter().map(time).collect()
    }

    use Kind::{Complete, Issue, Queue, Requeue};

    #[test]
    fn rows_are_in_order_of_issue_with_or_without_completion() {
        let events = [
            (0, 100, Issue, 0),
            (0, 101, Issue, 8),
            (1, 102, Issue, 0),
            (0, 105, Complete, 8),
            (1, 106, Complete, 0),
        ];
        let (records, notes) = rows(&ReadOptions::default(), &events);
        assert_eq!(times(&records), [(0, 0, None), (0, 1, Some(5)), (1, 2, Some(6))]);
        assert_eq!(notes, ["1 request has no completion in the trace and no response time"]);
    }

    #[test]
    fn repeated_issue_of_a_request_reveals_a_lost_completion() {
        let events = [
            (0, 1, Issue, 0),
            (0, 2, Issue, 64),
            (0, 3, Complete, 64),
            (0, 9, Issue, 0),
            (0, 11, Complete, 0),
            (0, 12, Complete, 0),
        ];
        let (records, notes) = rows(&ReadOptions::default(), &events);
        assert_eq!(times(&records), [(0, 0, None), (0, 1, Some(2)), (0, 8, Some(10))]);
        assert!(notes[0].contains("1 of them was given up"), "{notes:?}");
        assert_eq!(notes[1], "1 completion belongs to a request whose issue is not in the trace");
    }

    #[test]
    fn response_times_count_from_the_event_of_the_option() {
        let events = [(0, 10, Queue, 0), (0, 14, Issue, 0), (0, 20, Complete, 0)];
        let (records, _) = rows(&ReadOptions::default(), &events);
        assert_eq!(records[0].response_time().unwrap().as_ns(), 6);
        let settings = vec!["arrival=queue".parse().unwrap()];
        let (records, _) = rows(&ReadOptions { settings, ..ReadOptions::default() }, &events);
        assert_eq!(records[0].response_time().unwrap().as_ns(), 10);
        assert_eq!(records[0].issue, Some(Instant::from_ns(4)));
    }

    #[test]
    fn request_completed_before_its_issue_has_no_response_time() {
        let (records, notes) = rows(
            &ReadOptions::default(),
            &[
                (0, 100, Issue, 0),
                (0, 40, Complete, 0),
                (0, 110, Issue, 8),
                (0, 112, Complete, 8),
                (0, 120, Queue, 16),
                (0, 130, Issue, 16),
                (0, 125, Complete, 16),
            ],
        );
        assert_eq!(times(&records), [(0, 0, None), (0, 10, Some(12)), (0, 30, None)]);
        assert!(notes[0].starts_with("2 requests complete before they are issued"), "{notes:?}");
        assert!(notes[1].contains("2 events are stamped earlier") && notes.len() == 2, "{notes:?}");
    }

    #[test]
    fn every_issue_of_a_requeued_request_is_a_row() {
        let events = [
            (0, 1, Issue, 0),
            (0, 2, Requeue, 0),
            (0, 5, Issue, 0),
            (0, 7, Complete, 0),
            (0, 8, Requeue, 64),
        ];
        let (records, notes) = rows(&ReadOptions::default(), &events);
        assert_eq!(times(&records), [(0, 0, None), (0, 4, Some(6))]);
        assert_eq!(notes[0], "1 request has no completion in the trace and no response time");
        assert!(notes[1].starts_with("1 time a request was given back"), "{notes:?}");
    }

    #[test]
    fn memory_is_bounded_if_a_completion_never_comes() {
        let mut rows = EventRows::new(&ReadOptions { sort_window: 0, ..ReadOptions::default() }).unwrap();
        let mut metadata = Metadata::default();
        let mut push = |rows: &mut EventRows, time, kind, sector| {
            rows.push(0, String::new, time, event(kind, sector), &mut metadata).unwrap();
        };
        push(&mut rows, 0, Issue, 1 << 40);
        let total = OUTSTANDING_MAX as u64 + 100;
        let mut left = 0;
        for number in 0..total {
            push(&mut rows, 2 * number + 1, Issue, number * 8);
            push(&mut rows, 2 * number + 2, Complete, number * 8);
            left += std::iter::from_fn(|| rows.pop()).count() as u64;
            assert!(rows.rows.waiting() <= OUTSTANDING_MAX);
        }
        assert_eq!(left, total + 1);
        push(&mut rows, u64::MAX, Complete, 1 << 40);
        let mut notes = Vec::new();
        rows.notes(&mut notes);
        assert_eq!(
            notes,
            [Note::CompletionsMissing { requests: 1, given_up: 0 }, Note::IssuesMissing { completions: 1 },]
        );
    }

    #[test]
    fn unaligned_place_is_refused() {
        let options = ReadOptions {
            block_size: Some(seeklab_core::ByteSize::from_bytes(8192)),
            ..ReadOptions::default()
        };
        let mut rows = EventRows::new(&options).unwrap();
        let error = rows.push(0, String::new, 0, event(Issue, 8), &mut Metadata::default()).unwrap_err();
        assert!(error.hint.is_some(), "{error}");
    }
}
