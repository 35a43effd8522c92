//! No electronics but a constant overhead: the mechanics alone.

use schemars::JsonSchema;
use seeklab_core::{BufferOutcome, Duration, Instant, Operation, Request};
use serde::{Deserialize, Serialize};

use super::{Account, Controller, Served};
use crate::disk::mechanism::{Arm, Mechanism};
use crate::disk::params::MechanicsParameters;

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
pub(in crate::disk) struct Direct {
    per_command: Duration,
    zero_latency_read: bool,
    zero_latency_write: bool,
    arm: Arm,
}

impl Direct {
    pub(super) fn new(parameters: &DirectParameters, mechanics: &MechanicsParameters) -> Self {
        Self {
            per_command: parameters.per_command,
            zero_latency_read: mechanics.zero_latency_read,
            zero_latency_write: mechanics.zero_latency_write,
            arm: Arm::default(),
        }
    }
}

impl Controller for Direct {
    fn serve(&mut self, mechanism: &Mechanism, now: Instant, request: &Request) -> Served {
        let mut account = Account { overhead: self.per_command, ..Account::default() };
        let begin = now + self.per_command;
        if matches!(request.op, Operation::Flush | Operation::Discard) {
            return account.close(now, begin, begin, BufferOutcome::None);
        }
        let write = request.op != Operation::Read;
        let zero_latency = if write { self.zero_latency_write } else { self.zero_latency_read };
        let before = self.arm.cylinder;
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

    fn arm_moves_at(&self, now: Instant, _op: Operation) -> Instant {
        now + self.per_command
    }

    fn arm(&self) -> Arm {
        self.arm
    }

    fn holds(&self, _mechanism: &Mechanism, _request: &Request) -> bool {
        false
    }
}
