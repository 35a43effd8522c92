//! Segments of contiguous blocks.

use seeklab_core::{Instant, Operation, Request};
use serde::{Deserialize, Serialize};

use super::{Controller, Direct, DirectParameters, Served};
use crate::disk::mechanism::{Arm, Mechanism};
use crate::disk::params::MechanicsParameters;
use crate::error::ParameterError;

/// Parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SegmentedParameters {}

impl SegmentedParameters {
    /// Whether completed writes can be lost before a flush.
    pub const fn write_back(&self) -> bool {
        false
    }
}

/// State.
#[derive(Debug, Clone)]
pub(in crate::disk) struct Segmented {
    direct: Direct,
}

impl Segmented {
    pub(super) fn new(
        _: &SegmentedParameters,
        mechanics: &MechanicsParameters,
    ) -> Result<Self, ParameterError> {
        Ok(Self { direct: Direct::new(&DirectParameters::default(), mechanics) })
    }
}

impl Controller for Segmented {
    fn serve(&mut self, mechanism: &Mechanism, now: Instant, request: &Request) -> Served {
        self.direct.serve(mechanism, now, request)
    }
    fn arm_moves_at(&self, now: Instant, op: Operation) -> Instant {
        self.direct.arm_moves_at(now, op)
    }
    fn arm(&self) -> Arm {
        self.direct.arm()
    }
    fn holds(&self, mechanism: &Mechanism, request: &Request) -> bool {
        self.direct.holds(mechanism, request)
    }
}
