//! One pass over a trace, which collects the values that its replay needs beforehand.

use std::collections::BTreeMap;

use seeklab_core::{DescriptionError, Instant, Mistake, TraceRecord};

use super::{Following, Mode};

/// Summary of a trace in bounded memory: its devices, its address range, its load.
#[derive(Debug, Clone, Default)]
pub struct Survey {
    /// Records, of any device.
    rows: u64,
    requests: u64,
    /// Requests with a completion time.
    completed: u64,
    address_range_blocks: u64,
    blocks_max: u32,
    devices: BTreeMap<u16, u64>,
    first_arrival: Option<Instant>,
    last_arrival: Instant,
    last_completion: Instant,
    following: Following,
    response_ns: u128,
    /// Row of the first record without a completion time.
    incomplete_row: Option<u64>,
}

impl Survey {
    /// Surveys all records, or those of one device.
    ///
    /// # Errors
    /// The first error of the records.
    pub fn of<E>(
        records: impl IntoIterator<Item = Result<TraceRecord, E>>,
        device: Option<u16>,
    ) -> Result<Self, E> {
        let mut survey = Self::default();
        for record in records {
            let record = record?;
            if device.is_none_or(|device| device == record.device) {
                survey.record(&record);
            } else {
                survey.rows += 1;
            }
        }
        Ok(survey)
    }

    /// Takes one record in.
    pub fn record(&mut self, record: &TraceRecord) {
        self.rows += 1;
        self.requests += 1;
        *self.devices.entry(record.device).or_default() += 1;
        if record.op.addresses_blocks() {
            self.address_range_blocks =
                self.address_range_blocks.max(record.lbn.saturating_add(u64::from(record.blocks)));
            self.blocks_max = self.blocks_max.max(record.blocks);
        }
        let first = self.first_arrival.get_or_insert(record.arrival);
        *first = record.arrival.min(*first);
        self.last_arrival = self.last_arrival.max(record.arrival);
        match record.completion {
            Some(completion) => {
                self.completed += 1;
                self.following.record(self.last_arrival, completion);
                self.last_completion = self.last_completion.max(completion);
                self.response_ns += u128::from(completion.saturating_since(record.arrival).as_ns());
            }
            None => {
                self.incomplete_row.get_or_insert(self.rows);
            }
        }
    }

    /// Number of requests.
    pub const fn requests(&self) -> u64 {
        self.requests
    }

    /// Blocks that the trace extends over: the end of its furthest request.
    pub const fn address_range_blocks(&self) -> u64 {
        self.address_range_blocks
    }

    /// Blocks of the largest request.
    pub const fn blocks_max(&self) -> u32 {
        self.blocks_max
    }

    /// The devices in the trace and how many requests each has, by ascending number.
    pub const fn devices(&self) -> &BTreeMap<u16, u64> {
        &self.devices
    }

    /// The numbers 0, 1, 2 and so on for the devices of the trace, by ascending number.
    pub fn device_map(&self) -> DeviceMap {
        DeviceMap(self.devices.keys().copied().collect())
    }

    /// Requests outstanding on average over the time from the first arrival to the last completion:
    /// the sum of response times divided by that time (Little's law, here an identity).
    ///
    /// # Errors
    /// [`DescriptionError`], if the trace is empty or a record has no completion time.
    pub fn mean_outstanding(&self) -> Result<f64, DescriptionError> {
        let problem = |problem: String| {
            DescriptionError::new(Mistake::NotSupplied, "arrivals", problem)
                .hint("give the population as a number, for example \"closed 8\"")
        };
        if let Some(row) = self.incomplete_row {
            return Err(problem(format!(
                "`auto` needs completion times, which record {row} of the trace does not have"
            )));
        }
        let first =
            self.first_arrival.ok_or_else(|| problem("`auto` needs a trace with requests".to_owned()))?;
        let span = self.last_completion.saturating_since(first);
        Ok(if span.is_zero() { self.requests as f64 } else { self.response_ns as f64 / span.as_ns() as f64 })
    }

    /// Returns the mode that keeps what the arrivals depended on: [`Mode::Follow`], or [`Mode::Open`] if they are independent of
    /// the device; see [`Following`].
    ///
    /// # Errors
    /// [`DescriptionError`], if no record has a completion time.
    pub fn following(&self) -> Result<Mode, DescriptionError> {
        if self.completed == 0 {
            let problem = "`follow` needs completion times, which no record of the trace has";
            return Err(DescriptionError::new(Mistake::NotSupplied, "arrivals", problem)
                .hint("replay the trace open, scaled or closed"));
        }
        Ok(self.following.mode())
    }

    /// The population of a closed replay that matches the trace as closely as possible: the mean
    /// number outstanding, rounded to the nearest whole number, at least one
    /// \[Ganger & Patt 1998, section 6.1\].
    ///
    /// # Errors
    /// As [`mean_outstanding`](Self::mean_outstanding).
    pub fn population(&self) -> Result<u32, DescriptionError> {
        self.mean_outstanding().map(|mean| (mean.round() as u32).max(1))
    }
}

/// Numbers the devices of a trace densely.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceMap(Vec<u16>);

impl DeviceMap {
    /// Returns the number of devices.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if there are no devices.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The dense number of the device with that number in the trace.
    pub fn dense(&self, device: u16) -> Option<u16> {
        self.0.binary_search(&device).ok().map(|index| index as u16)
    }

    /// The number in the trace of the device with that dense number.
    pub fn original(&self, dense: u16) -> Option<u16> {
        self.0.get(usize::from(dense)).copied()
    }
}
