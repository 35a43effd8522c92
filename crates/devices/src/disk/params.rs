//! Parameters of a disk, as they stand in a catalog file.

use schemars::JsonSchema;
use seeklab_core::description::schema::check_ranges;
use seeklab_core::{Duration, Ratio, RotationSpeed, SignedDuration};
use serde::{Deserialize, Serialize};

use super::electronics::ElectronicsParameters;
use super::geometry::Geometry;
use super::seek::SeekCurve;
use crate::error::DescriptionError;
use crate::power_loss::PowerLossParameters;
use crate::scheduler::SchedulerSpec;

/// Everything that describes a disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DiskParameters {
    /// Layout of the blocks.
    pub geometry: Geometry,
    /// Motion of arm, heads and platters.
    pub mechanics: MechanicsParameters,
    /// Command overheads, buffer and bus.
    #[serde(default)]
    pub electronics: ElectronicsParameters,
    /// The command queue inside the drive.
    #[serde(default)]
    pub queue: QueueParameters,
    /// Effects of a power loss.
    #[serde(default)]
    pub power_loss: PowerLossParameters,
}

impl DiskParameters {
    /// The mechanics alone: no overheads, buffer or bus, one command at a time.
    pub fn bare(self) -> Self {
        Self {
            electronics: ElectronicsParameters::default(),
            queue: QueueParameters::default(),
            mechanics: MechanicsParameters {
                zero_latency_read: false,
                zero_latency_write: false,
                ..self.mechanics
            },
            ..self
        }
    }
}

/// Motion of arm, heads and platters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MechanicsParameters {
    /// Nominal rotation speed, at least 15rpm.
    #[schemars(extend("x-minimum" = "15rpm", "x-maximum" = "1000000rpm"))]
    pub rpm: RotationSpeed,
    /// Maximum deviation of one drive's speed from the nominal speed. Each drive's speed is drawn from
    /// the run's seed.
    #[serde(default)]
    #[schemars(extend("x-below" = "50%"))]
    pub rpm_error: Ratio,
    /// Part of a turn by which the platters stand past their zero angle at the start of a run.
    #[serde(default)]
    #[schemars(extend("x-below" = "100%"))]
    pub start_phase: Ratio,
    /// Seek time by distance.
    pub seek: SeekCurve,
    /// Time to activate another head.
    #[serde(default)]
    pub head_switch: Duration,
    /// Extra settling before a write, whenever the arm or the head moved; negative shortens the seek.
    #[serde(default)]
    pub write_settle: SignedDuration,
    /// Reads begin with whatever wanted sector comes first.
    #[serde(default)]
    pub zero_latency_read: bool,
    /// Writes begin with whatever wanted sector comes first.
    #[serde(default)]
    pub zero_latency_write: bool,
}

/// The command queue inside the drive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueParameters {
    /// Commands that the drive holds at a time, at least one.
    #[serde(default = "one")]
    #[schemars(range(min = 1), extend("x-unit" = "commands"))]
    pub depth: u32,
    /// Scheduler that chooses the next command.
    #[serde(default = "fcfs")]
    pub scheduler: SchedulerSpec,
}

fn one() -> u32 {
    1
}

fn fcfs() -> SchedulerSpec {
    SchedulerSpec::FCFS
}

impl Default for QueueParameters {
    fn default() -> Self {
        Self { depth: one(), scheduler: fcfs() }
    }
}

impl MechanicsParameters {
    /// Checks that a disk can move like this.
    ///
    /// # Errors
    /// The first parameter that is out of range.
    pub fn check(&self) -> Result<(), DescriptionError> {
        check_ranges(self).map_err(|error| error.under("mechanics"))
    }
}
