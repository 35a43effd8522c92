//! No electronics but a constant overhead: the mechanics alone.

use schemars::JsonSchema;
use seeklab_core::description::schema::check_ranges;
use seeklab_core::{BufferOutcome, Duration, Instant, Operation, Request};
use serde::{Deserialize, Serialize};

use super::{Account, Controller, Served};
use crate::disk::mechanics::{Mechanics, Position};
use crate::disk::params::DiskParameters;
use crate::error::DescriptionError;

/// Parameters of a drive without buffer and bus.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DirectParameters {
    /// Before the arm moves, for every command.
    #[serde(default)]
    pub per_command: Duration,
}

/// State of a drive without buffer and bus.
#[derive(Debug, Clone)]
pub(crate) struct Direct<P> {
    per_command: Duration,
    zero_latency_read: bool,
    zero_latency_write: bool,
    arm: P,
}

impl<P: Position> Controller<P> for Direct<P> {
    type Parameters = DirectParameters;

    fn new(parameters: &DirectParameters, disk: &DiskParameters) -> Result<Self, DescriptionError> {
        check_ranges(parameters).map_err(|error| error.under("electronics"))?;
        Ok(Self {
            per_command: parameters.per_command,
            zero_latency_read: disk.mechanics.zero_latency_read,
            zero_latency_write: disk.mechanics.zero_latency_write,
            arm: P::default(),
        })
    }

    fn has_volatile_cache(_parameters: &DirectParameters) -> bool {
        false
    }

    fn serve(&mut self, mechanism: &impl Mechanics<P>, now: Instant, request: &Request) -> Served {
        let mut account = Account { overhead: self.per_command, ..Account::default() };
        let begin = now + self.per_command;
        if matches!(request.op, Operation::Flush | Operation::Discard) {
            return account.close(now, begin, begin, BufferOutcome::None);
        }
        let write = request.op != Operation::Read;
        let zero_latency = if write { self.zero_latency_write } else { self.zero_latency_read };
        let before = self.arm.cylinder();
        if write {
            mechanism.note_taken_in(request.lbn, request.end());
        }
        let mut first = None;
        let completed = mechanism.access(
            &mut self.arm,
            begin,
            request.lbn,
            request.blocks,
            write,
            zero_latency,
            &mut account.parts,
            |pass| {
                first.get_or_insert(pass.cylinder);
            },
        );
        account.seek_cylinders = first.map_or(0, |cylinder| cylinder.abs_diff(before));
        account.close(now, completed, completed, BufferOutcome::None)
    }

    fn work_until(&mut self, _mechanism: &impl Mechanics<P>, _now: Instant) {}

    fn arm_moves_at(&self, now: Instant, _op: Operation) -> Instant {
        now + self.per_command
    }

    fn arm(&self) -> P {
        self.arm
    }

    fn holds(&self, _mechanism: &impl Mechanics<P>, _request: &Request) -> bool {
        false
    }
}
