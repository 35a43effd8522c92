//! Logs of HDR histograms: one line for each interval, stream and operation.
//!
//! ```text
//! Tag=PHASE/STREAM/OPERATION,begin in seconds,length in seconds,longest time in ns,histogram
//! ```
//! The histograms are the figures' own: three significant digits in HdrHistogram are 1,024 buckets for each doubling, which is
//! what a [`Distribution`] counts in.
//!
//! # References
//! G. Tene, HdrHistogram: `HistogramLogWriter`, and the encoding V2, compressed.

use std::time::{Duration as StdDuration, SystemTime};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use seeklab_bench::Part;
use seeklab_core::statistics::Distribution;
use seeklab_core::{Duration, Operation};

use crate::failure::Failure;

/// Significant digits with which the buckets are those of a [`Distribution`].
const DIGITS: u8 = 3;

/// The two times of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Time {
    Response,
    Service,
}

impl Time {
    pub(super) const ALL: [Self; 2] = [Self::Response, Self::Service];

    /// Name of its log.
    pub(super) const fn file(self) -> &'static str {
        match self {
            Self::Response => "response.hlog",
            Self::Service => "service.hlog",
        }
    }

    const fn meaning(self) -> &'static str {
        match self {
            Self::Response => "response time in ns, from the intended start to the completion",
            Self::Service => "service time in ns, from the issue to the completion",
        }
    }
}

/// Lines of a log in the making.
#[derive(Debug)]
pub(super) struct HistogramLog {
    time: Time,
    text: Vec<u8>,
}

impl HistogramLog {
    /// A log from its begin. Times of a model begin at zero, others at `begun`.
    pub(super) fn begin(time: Time, version: &str, begun: Option<SystemTime>) -> Self {
        let mut text = Vec::new();
        let mut builder = IntervalLogWriterBuilder::new();
        builder.add_comment(&format!("[{version}: {}]", time.meaning()));
        if let Some(begun) = begun {
            builder.with_start_time(begun).with_base_time(begun);
        }
        let mut serializer = V2DeflateSerializer::new();
        // Writing to memory does not fail.
        let _ = builder.begin_log_with(&mut text, &mut serializer);
        Self { time, text }
    }

    /// Adds the histograms of a stream in an interval that began so long after the run.
    ///
    /// # Errors
    /// A histogram that cannot be encoded.
    pub(super) fn add(&mut self, place: &str, from: Duration, part: &Part) -> Result<(), Failure> {
        let length = part.until.saturating_since(part.from);
        let mut serializer = V2DeflateSerializer::new();
        let mut writer = IntervalLogWriterBuilder::new().begin_log_with(&mut self.text, &mut serializer)?;
        for (op, direction) in Operation::ALL.into_iter().zip(&part.operations) {
            if direction.requests == 0 {
                continue;
            }
            let times = match self.time {
                Time::Response => &direction.response,
                Time::Service => &direction.service,
            };
            let tag = tag(&format!("{place}/{}", op.name()));
            let std = |time: Duration| StdDuration::from_nanos(time.as_ns());
            let failed =
                |error: &dyn std::fmt::Display| Failure::new(format!("{}: {error}", self.time.file()));
            let histogram = histogram(times).map_err(|error| failed(&error))?;
            writer
                .write_histogram(&histogram, std(from), std(length), Tag::new(&tag))
                .map_err(|error| failed(&error))?;
        }
        Ok(())
    }

    /// The lines since the last call.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.text)
    }
}

/// The same counts in the same buckets.
fn histogram(times: &Distribution) -> Result<Histogram<u64>, String> {
    let mut histogram = Histogram::new(DIGITS).map_err(|error| error.to_string())?;
    for (upper, count) in times.buckets() {
        histogram.record_n(upper.as_ns(), count).map_err(|error| error.to_string())?;
    }
    Ok(histogram)
}

/// A tag without the characters that end one.
fn tag(text: &str) -> String {
    text.replace([',', ' ', '\r', '\n', '\t'], "_")
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use super::*;

    #[test]
    fn histograms_keep_every_bucket_of_a_distribution() {
        let mut times = Distribution::default();
        let mut ns = 1_u64;
        while ns < 1 << 50 {
            for step in 0..5 {
                times.record(Duration::from_ns(ns + step * 7));
            }
            ns = ns * 9 / 8 + 3;
        }
        let histogram = histogram(&times).unwrap();
        assert_eq!(histogram.len(), times.moments().count());
        let buckets: Vec<(u64, u64)> = histogram
            .iter_recorded()
            .map(|value| (histogram.highest_equivalent(value.value_iterated_to()), value.count_at_value()))
            .collect();
        let expected: Vec<(u64, u64)> =
            times.buckets().map(|(upper, count)| (upper.as_ns(), count)).collect();
        assert_eq!(buckets, expected);
    }

    #[test]
    fn log_is_read_back_with_tags_times_and_counts() {
        let mut part = Part::default();
        part.until = part.from + Duration::from_ms(1_500);
        let write = &mut part.operations[Operation::Write as usize];
        (1..=100).for_each(|us| write.response.record(Duration::from_us(us)));
        write.requests = 100;
        let mut log = HistogramLog::begin(Time::Response, "seeklab", None);
        log.add("fill, first/1", Duration::from_s(3), &part).unwrap();
        let text = log.take();
        assert!(text.starts_with(b"#[seeklab: response time in ns"), "{}", String::from_utf8_lossy(&text));
        let mut entries = IntervalLogIterator::new(&text);
        let Some(Ok(LogEntry::Interval(interval))) = entries.next() else { panic!("an interval is there") };
        assert_eq!(interval.tag().unwrap().as_str(), "fill__first/1/write");
        assert_eq!(interval.start_timestamp(), StdDuration::from_secs(3));
        assert_eq!(interval.duration(), StdDuration::from_millis(1_500));
        let encoded = base64_decoded(interval.encoded_histogram());
        let histogram: Histogram<u64> = Deserializer::new().deserialize(&mut encoded.as_slice()).unwrap();
        assert_eq!((histogram.len(), histogram.value_at_quantile(0.5)), (100, 50_015));
        assert!(entries.next().is_none());
    }

    /// RFC 4648, without checks.
    fn base64_decoded(text: &str) -> Vec<u8> {
        const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut bytes = Vec::new();
        let (mut bits, mut count) = (0_u32, 0);
        for digit in text.bytes().filter(|digit| *digit != b'=') {
            let value = DIGITS.iter().position(|known| *known == digit).unwrap() as u32;
            (bits, count) = (bits << 6 | value, count + 6);
            if count >= 8 {
                count -= 8;
                bytes.push((bits >> count) as u8);
                bits &= (1 << count) - 1;
            }
        }
        bytes
    }
}
