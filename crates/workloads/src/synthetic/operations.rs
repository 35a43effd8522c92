//! Operations of requests: reads, writes, discards, writes of zeroes and flushes.

use seeklab_core::{DescriptionError, Operation, Ratio, Seed, Stream};

use super::spec::SyntheticSpec;

/// Draws the operation of each request.
#[derive(Debug, Clone)]
pub(super) struct Operations {
    read: f64,
    /// Shares of discards, and of discards and writes of zeroes, among the requests that are no reads.
    discard: f64,
    zeroes: f64,
    fua: f64,
    flush_every: Option<u64>,
    /// Writes since the last flush.
    writes: u64,
    op_stream: Stream,
    kind_stream: Stream,
    fua_stream: Stream,
}

impl Operations {
    pub(super) fn new(spec: &SyntheticSpec, seed: Seed) -> Result<Self, DescriptionError> {
        let SyntheticSpec { read, discard, write_zeroes, .. } = spec;
        let [read, discard, zeroes] = [read, discard, write_zeroes].map(|share| share.as_f64());
        if read + discard + zeroes > 1.0 + 1e-9 {
            let problem = format!(
                "`read` ({read}), `discard` ({discard}) and `write_zeroes` ({zeroes}) sum to more than 1"
            );
            return Err(DescriptionError::invalid("read", problem)
                .hint("shares of all requests sum to at most 100%; the rest are writes"));
        }
        if read + discard + zeroes > 1.0 - 1e-9 {
            let of_writes = [("fua", spec.fua > Ratio::ZERO), ("flush_every", spec.flush_every.is_some())];
            if let Some((key, _)) = of_writes.into_iter().find(|(_, is_given)| *is_given) {
                return Err(DescriptionError::invalid(key, "is for writes, and the workload has none")
                    .hint("lower `read`, for example `read = \"50%\"`"));
            }
        }
        let others = (1.0 - read).max(f64::MIN_POSITIVE);
        Ok(Self {
            read,
            discard: discard / others,
            zeroes: (discard + zeroes) / others,
            fua: spec.fua.as_f64(),
            flush_every: spec.flush_every,
            writes: 0,
            op_stream: seed.stream("workload.op"),
            kind_stream: seed.stream("workload.kind"),
            fua_stream: seed.stream("workload.fua"),
        })
    }

    /// Operation of the next request, and whether it is a write with force unit access.
    pub(super) fn draw(&mut self) -> (Operation, bool) {
        if self.flush_every.is_some_and(|writes| self.writes >= writes) {
            self.writes = 0;
            return (Operation::Flush, false);
        }
        if self.op_stream.chance(self.read) {
            return (Operation::Read, false);
        }
        if self.zeroes > 0.0 {
            let kind = self.kind_stream.unit();
            if kind < self.discard {
                return (Operation::Discard, false);
            }
            if kind < self.zeroes {
                return (Operation::WriteZeroes, false);
            }
        }
        self.writes += 1;
        (Operation::Write, self.fua > 0.0 && self.fua_stream.chance(self.fua))
    }
}
