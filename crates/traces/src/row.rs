//! One row of the canonical trace as its columns, and its meaning as a record.
//!
//! CSV and Parquet both fill a [`Row`] and both turn it into a [`TraceRecord`] here, so a row means
//! the same in both and is checked by the same rules:
//!
//! - `response = completion − arrival`, `queue = start − arrival`, `service = completion − start`:
//!   what is absent is derived, what is present must agree.
//! - The parts of the breakdown sum to the response time; its queue time is what the others leave.
//!   Where some of them are null, the others must account for the service time alone.
//! - A class becomes more pressing while the request is pending, and never less.
//! - At a measurement point, the completion does not lie before the arrival.
//!
//! # Scope and limits
//! `Breakdown::queue` has no column of its own; the column `queue_ns` is the time to the start of
//! service. Where the two differ (layers that wait inside), both are kept, for both follow from
//! the other columns.

use seeklab_core::{
    Breakdown, BufferOutcome, ClassTimes, Criticality, Duration, FaultSet, Instant, MeasurementPoints,
    Operation, TraceRecord,
};

use crate::error::Problem;
// `Criticality` and `Status` are columns where a value stands and the types of core where a type does.
use crate::schema::Column::{self, *};
use crate::schema::Content;

/// The columns of one row; names and flags are held as their code.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    values: [u64; Column::COUNT],
    present: u64,
}

type Checked<T> = Result<T, Box<Problem>>;

impl Default for Row {
    fn default() -> Self {
        Self { values: [0; Column::COUNT], present: 0 }
    }
}

impl Row {
    /// Makes every column null.
    #[inline]
    pub fn clear(&mut self) {
        self.present = 0;
    }

    /// Gives `column` a value.
    #[inline]
    pub fn set(&mut self, column: Column, value: u64) {
        self.values[column as usize] = value;
        self.present |= 1 << column as u64;
    }

    /// The value of `column`, `None` if it is null.
    #[inline]
    pub fn get(&self, column: Column) -> Option<u64> {
        (self.present & 1 << column as u64 != 0).then(|| self.values[column as usize])
    }

    #[inline]
    fn set_if(&mut self, column: Column, value: Option<u64>) {
        if let Some(value) = value {
            self.set(column, value);
        }
    }

    /// The value of a column that has to have one.
    #[inline]
    fn required(&self, column: Column) -> Checked<u64> {
        self.get(column).ok_or_else(|| missing(column))
    }

    /// A number within what the column allows.
    #[inline]
    fn narrow<T: TryFrom<u64>>(&self, column: Column) -> Checked<Option<T>> {
        self.get(column)
            .map_or(Ok(None), |value| T::try_from(value).map(Some).map_err(|_| self.too_large(column)))
    }

    #[cold]
    fn too_large(&self, column: Column) -> Box<Problem> {
        let max = match column.content() {
            Content::Number(max) => max,
            Content::Name(names) => names.len() as u64 - 1,
            Content::Flag => 1,
            Content::Faults => u64::from(u32::MAX),
        };
        let value = self.values[column as usize];
        Problem::new(column.name(), value.to_string(), format!("a whole number from 0 to {max} is allowed"))
    }

    /// The code of a name within `all`.
    #[inline]
    fn one_of<T: Copy>(&self, column: Column, all: &[T]) -> Checked<Option<T>> {
        self.get(column).map_or(Ok(None), |code| {
            all.get(code as usize).map(|one| Some(*one)).ok_or_else(|| self.too_large(column))
        })
    }

    /// Converts the row to a record.
    ///
    /// # Errors
    /// If a required column is null, a number is too large, or columns contradict each other.
    pub fn to_record(&self) -> Checked<TraceRecord> {
        let op = self.one_of(Op, &Operation::ALL)?.ok_or_else(|| missing(Op))?;
        // A flush addresses nothing, so its address may be null.
        let (lbn, blocks) = if op.addresses_blocks() {
            (self.required(Lbn)?, self.narrow(Blocks)?.ok_or_else(|| missing(Blocks))?)
        } else {
            (self.get(Lbn).unwrap_or_default(), self.narrow(Blocks)?.unwrap_or_default())
        };
        check_extent(op, lbn, blocks)?;
        let times = self.times()?;
        let mut record = TraceRecord::new(Instant::from_ns(times.arrival), op, lbn, blocks);
        record.issue = self.not_before(IssueNs, self.get(IssueNs), times.arrival)?.map(Instant::from_ns);
        record.start = times.start.map(Instant::from_ns);
        record.completion = times.completion.map(Instant::from_ns);
        record.think = self.get(ThinkNs).map(Duration::from_ns);
        record.queue_length = self.narrow(QueueLength)?;
        record.device = self.narrow(Device)?.unwrap_or_default();
        record.initiator = self.narrow(Initiator)?.unwrap_or_default();
        record.fua = self.one_of(Fua, &[false, true])?.unwrap_or_default();
        record.criticality = self.one_of(Criticality, &Criticality::ALL)?.unwrap_or_default();
        record.became = self.became(record.criticality, times.arrival, times.completion)?;
        record.priority = self.narrow(Priority)?.unwrap_or_default();
        record.status = self.one_of(Status, &seeklab_core::Status::ALL)?.unwrap_or_default();
        record.good_blocks = self.good_blocks(record.status, blocks)?;
        record.faults = self.narrow(Fault)?.map_or(FaultSet::NONE, FaultSet::from_bits);
        record.breakdown = self.breakdown(&times)?;
        record.seek_cylinders = self.narrow(SeekCylinders)?;
        record.buffer = match self.one_of(CacheHit, &[BufferOutcome::Miss, BufferOutcome::Hit])? {
            Some(hit) => hit,
            None => BufferOutcome::None,
        };
        if self.has_points() {
            record.points = self.points()?;
        }
        Ok(record)
    }

    /// Returns true if the row contains times measured outside the model.
    #[inline]
    pub fn has_points(&self) -> bool {
        const POINTS: u64 = mask(&Column::POINTS);
        self.present & POINTS != 0
    }

    fn points(&self) -> Checked<MeasurementPoints> {
        let instant = |column: Column| self.get(column).map(Instant::from_ns);
        let end = |column: Column, begin: Column| {
            let earliest = self.get(begin).unwrap_or_default();
            self.not_before(column, self.get(column), earliest).map(|end| end.map(Instant::from_ns))
        };
        Ok(MeasurementPoints {
            mp1_arrival: instant(Mp1ArrivalNs),
            mp1_completion: end(Mp1CompletionNs, Mp1ArrivalNs)?,
            mp2_arrival: instant(Mp2ArrivalNs),
            mp2_due: instant(Mp2DueNs),
            mp2_completion: end(Mp2CompletionNs, Mp2ArrivalNs)?,
            miss_cause: self.one_of(MissCause, &seeklab_core::MissCause::ALL)?,
        })
    }

    /// Changes of the class, each to a more pressing one than before, between arrival and completion.
    #[inline]
    fn became(&self, at_arrival: Criticality, arrival: u64, completion: Option<u64>) -> Checked<ClassTimes> {
        const CHANGES: u64 = mask(&[BecameTimeLimitedNs, BecameTimeCriticalNs]);
        if self.present & CHANGES == 0 {
            return Ok(ClassTimes::NONE);
        }
        let (mut class, mut earliest) = (at_arrival, arrival);
        let changes = [
            (BecameTimeLimitedNs, Criticality::TimeLimited),
            (BecameTimeCriticalNs, Criticality::TimeCritical),
        ];
        for (column, becomes) in changes {
            let Some(time) = self.not_before(column, self.get(column), earliest)? else { continue };
            if becomes >= class {
                let reason = format!(
                    "it is for requests that were less pressing, and this one was `{}`",
                    class.name()
                );
                return Err(Problem::new(column.name(), time.to_string(), reason));
            }
            if let Some(completion) = completion.filter(|completion| *completion < time) {
                let reason = format!("it lies behind the completion, {completion}");
                return Err(Problem::new(column.name(), time.to_string(), reason));
            }
            (class, earliest) = (becomes, time);
        }
        let time = |column| self.get(column).map(Instant::from_ns);
        Ok(ClassTimes::new(time(BecameTimeLimitedNs), time(BecameTimeCriticalNs)))
    }

    /// Blocks before the first bad one: fewer than there are, and of a failed request alone.
    fn good_blocks(&self, status: seeklab_core::Status, blocks: u32) -> Checked<Option<u32>> {
        let Some(good) = self.narrow::<u32>(GoodBlocks)? else { return Ok(None) };
        if status.is_success() {
            let reason = format!("it is for failed requests, and the status is `{}`", status.name());
            return Err(Problem::new(GoodBlocks.name(), good.to_string(), reason));
        }
        if good > 0 && good >= blocks {
            let reason = format!("it is to be less than `blocks`, which is {blocks}");
            return Err(Problem::new(GoodBlocks.name(), good.to_string(), reason));
        }
        Ok(Some(good))
    }

    fn times(&self) -> Checked<Times> {
        let arrival = self.required(ArrivalNs)?;
        let after = |column: Column, from: u64| match self.get(column) {
            Some(length) => from
                .checked_add(length)
                .map(Some)
                .ok_or_else(|| Problem::new(column.name(), length.to_string(), "it ends after 584 years")),
            None => Ok(None),
        };
        let mut start = match self.get(StartNs) {
            Some(start) => Some(start),
            None => after(QueueNs, arrival)?,
        };
        let mut completion = match self.get(CompletionNs) {
            Some(completion) => Some(completion),
            None => after(ResponseNs, arrival)?,
        };
        match (start, completion, self.get(ServiceNs)) {
            (Some(start), None, Some(_)) => completion = after(ServiceNs, start)?,
            (None, Some(completion), Some(service)) => {
                start = Some(completion.checked_sub(service).ok_or_else(|| {
                    Problem::new(
                        "service_ns",
                        service.to_string(),
                        "it is longer than the time to the completion",
                    )
                })?);
            }
            _ => {}
        }
        let start = self.not_before(StartNs, start, arrival)?;
        let completion = self.not_before(CompletionNs, completion, start.unwrap_or(arrival))?;
        self.agrees(QueueNs, start.map(|start| start - arrival), "start_ns - arrival_ns")?;
        self.agrees(ResponseNs, completion.map(|end| end - arrival), "completion_ns - arrival_ns")?;
        let service = completion.zip(start).map(|(completion, start)| completion - start);
        self.agrees(ServiceNs, service, "completion_ns - start_ns")?;
        Ok(Times { arrival, start, completion })
    }

    #[inline]
    fn not_before(&self, column: Column, value: Option<u64>, earliest: u64) -> Checked<Option<u64>> {
        match value {
            Some(value) if value < earliest => Err(Problem::new(
                column.name(),
                value.to_string(),
                format!("it lies before {earliest}, an earlier time of the same request"),
            )),
            value => Ok(value),
        }
    }

    #[inline]
    fn agrees(&self, column: Column, expect: Option<u64>, formula: &str) -> Checked<()> {
        match (self.get(column), expect) {
            (Some(given), Some(expect)) if given != expect => Err(Problem::new(
                column.name(),
                given.to_string(),
                format!("it disagrees with {formula}, which is {expect}"),
            )),
            _ => Ok(()),
        }
    }

    fn breakdown(&self, times: &Times) -> Checked<Option<Breakdown>> {
        const ALL_PARTS: u64 = mask(&Column::PARTS);
        let given = self.present & ALL_PARTS;
        if given == 0 {
            return Ok(None);
        }
        let part = |column: Column| self.get(column).unwrap_or(0);
        let sum = Column::PARTS.into_iter().try_fold(0_u64, |sum, column| sum.checked_add(part(column)));
        let shown = || sum.map_or("more than 584 years".to_owned(), |sum| sum.to_string());
        let field = "sum of overhead_ns to internal_ns";
        let Some(completion) = times.completion else {
            return Err(Problem::new(field, shown(), "a breakdown needs completion_ns or response_ns"));
        };
        let response = completion - times.arrival;
        let Some(queue) = sum.and_then(|sum| response.checked_sub(sum)) else {
            return Err(Problem::new(
                field,
                shown(),
                format!("it is longer than the response time, {response}"),
            ));
        };
        if given != ALL_PARTS && times.start.is_none_or(|start| start - times.arrival != queue) {
            return Err(Problem::new(
                field,
                shown(),
                "some parts are null, and the others do not make up service_ns",
            ));
        }
        Ok(Some(Breakdown {
            queue: Duration::from_ns(queue),
            overhead: Duration::from_ns(part(OverheadNs)),
            seek: Duration::from_ns(part(SeekNs)),
            settle: Duration::from_ns(part(SettleNs)),
            head_switch: Duration::from_ns(part(HeadSwitchNs)),
            rotation: Duration::from_ns(part(RotationNs)),
            transfer: Duration::from_ns(part(TransferNs)),
            bus: Duration::from_ns(part(BusNs)),
            internal: Duration::from_ns(part(InternalNs)),
        }))
    }

    /// Fills the row with the values of `record`.
    ///
    /// # Errors
    /// If the record contradicts itself, so that it could not be read back.
    pub fn set_record(&mut self, record: &TraceRecord) -> Checked<()> {
        self.clear();
        check_extent(record.op, record.lbn, record.blocks)?;
        let arrival = record.arrival.as_ns();
        let start = self.not_before(StartNs, record.start.map(Instant::as_ns), arrival)?;
        let completion = record.completion.map(Instant::as_ns);
        let completion = self.not_before(CompletionNs, completion, start.unwrap_or(arrival))?;
        let issue = self.not_before(IssueNs, record.issue.map(Instant::as_ns), arrival)?;
        self.set(ArrivalNs, arrival);
        self.set_if(IssueNs, issue);
        self.set_if(StartNs, start);
        self.set_if(CompletionNs, completion);
        self.set_if(ResponseNs, completion.map(|completion| completion - arrival));
        self.set_if(QueueNs, start.map(|start| start - arrival));
        self.set_if(ServiceNs, completion.zip(start).map(|(completion, start)| completion - start));
        self.set_if(ThinkNs, record.think.map(Duration::as_ns));
        self.set_if(QueueLength, record.queue_length.map(u64::from));
        self.set(Device, u64::from(record.device));
        self.set(Initiator, u64::from(record.initiator));
        self.set(Op, code_of(&Operation::ALL, record.op));
        self.set(Fua, u64::from(record.fua));
        self.set(Lbn, record.lbn);
        self.set(Blocks, u64::from(record.blocks));
        self.set(Criticality, code_of(&Criticality::ALL, record.criticality));
        if !record.became.is_none() {
            self.set_if(BecameTimeLimitedNs, record.became.time_limited().map(Instant::as_ns));
            self.set_if(BecameTimeCriticalNs, record.became.time_critical().map(Instant::as_ns));
            self.became(record.criticality, arrival, completion)?;
        }
        self.set(Priority, u64::from(record.priority));
        self.set(Status, code_of(&seeklab_core::Status::ALL, record.status));
        self.set_if(GoodBlocks, record.good_blocks.map(u64::from));
        self.good_blocks(record.status, record.blocks)?;
        self.set_if(Fault, (!record.faults.is_empty()).then_some(u64::from(record.faults.bits())));
        self.set_if(SeekCylinders, record.seek_cylinders.map(u64::from));
        if let Some(breakdown) = &record.breakdown {
            self.set_breakdown(breakdown)?;
        }
        match record.buffer {
            BufferOutcome::None => {}
            BufferOutcome::Miss => self.set(CacheHit, 0),
            BufferOutcome::Hit => self.set(CacheHit, 1),
        }
        if record.points != MeasurementPoints::NONE {
            self.set_points(&record.points)?;
        }
        Ok(())
    }

    fn set_points(&mut self, points: &MeasurementPoints) -> Checked<()> {
        let instants = [
            (Mp1ArrivalNs, points.mp1_arrival),
            (Mp1CompletionNs, points.mp1_completion),
            (Mp2ArrivalNs, points.mp2_arrival),
            (Mp2DueNs, points.mp2_due),
            (Mp2CompletionNs, points.mp2_completion),
        ];
        for (column, instant) in instants {
            self.set_if(column, instant.map(Instant::as_ns));
        }
        self.set_if(MissCause, points.miss_cause.map(|cause| code_of(&seeklab_core::MissCause::ALL, cause)));
        self.points().map(|_| ())
    }

    /// The columns to write this row with: those of the rows `before`; if that is the first, what it has.
    ///
    /// # Errors
    /// If the row has measurement points and those before have no columns for them.
    #[inline]
    pub fn columns_after(&self, before: &'static [Column]) -> Checked<&'static [Column]> {
        if before.is_empty() {
            return Ok(Column::written(self.has_points()));
        }
        if self.has_points() && before.len() < Column::COUNT {
            Err(self.without_columns())
        } else {
            Ok(before)
        }
    }

    #[cold]
    fn without_columns(&self) -> Box<Problem> {
        let point = Column::POINTS.into_iter().find(|column| self.get(*column).is_some());
        let point = point.expect("the row has a measurement point");
        let problem = "the first row has no measurement points, so the trace has no columns for them";
        Problem::new(point.name(), self.values[point as usize].to_string(), problem)
            .hint("write a request with measurement points first, or leave them out")
    }

    fn set_breakdown(&mut self, breakdown: &Breakdown) -> Checked<()> {
        let parts = breakdown.parts();
        let sum = parts.iter().try_fold(0_u64, |sum, (_, part)| sum.checked_add(part.as_ns()));
        if sum.is_none() || sum != self.get(ResponseNs) {
            let shown = sum.map_or("more than 584 years".to_owned(), |sum| sum.to_string());
            let response = self.get(ResponseNs).map_or("unknown".to_owned(), |ns| ns.to_string());
            return Err(Problem::new(
                "sum of the breakdown",
                shown,
                format!("it disagrees with the response time, which is {response}"),
            ));
        }
        for (column, (_, part)) in Column::PARTS.into_iter().zip(&parts[1..]) {
            self.set(column, part.as_ns());
        }
        Ok(())
    }
}

#[cold]
fn missing(column: Column) -> Box<Problem> {
    Problem::new(column.name(), b"", "every row needs it")
}

/// The bits of `columns`.
const fn mask(columns: &[Column]) -> u64 {
    let mut mask = 0;
    let mut index = 0;
    while index < columns.len() {
        mask |= 1 << columns[index] as u64;
        index += 1;
    }
    mask
}

struct Times {
    arrival: u64,
    start: Option<u64>,
    completion: Option<u64>,
}

#[inline]
fn code_of<T: PartialEq>(all: &[T], value: T) -> u64 {
    all.iter().position(|one| *one == value).expect("every value is in the list of all") as u64
}

/// Checks that a request has blocks and that they can be numbered.
#[inline]
pub(crate) fn check_extent(op: Operation, lbn: u64, blocks: u32) -> Checked<()> {
    if blocks == 0 && op.addresses_blocks() {
        return Err(Problem::new("blocks", b"0", format!("a {} of at least 1 block is allowed", op.name())));
    }
    if lbn.checked_add(u64::from(blocks)).is_none() {
        return Err(Problem::new("lbn", lbn.to_string(), "its end lies beyond 64 bits"));
    }
    Ok(())
}
