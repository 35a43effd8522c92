//! `queue`: a queue with a scheduler in front of the device that it owns.

use schemars::JsonSchema;
use seeklab_core::{Capabilities, Device, Seed};
use serde::{Deserialize, Serialize};

use crate::error::DescriptionError;
use crate::kind::{ChildLaw, Children, DeviceKind};
use crate::layer::queue_before;
use crate::scheduler::SchedulerSpec;
use crate::service_law::{Demand, ServiceLaw, WriteBuffer};

/// The kind `queue`.
#[derive(Debug)]
pub(super) struct Definition;

/// Parameters of a queue in front of a device.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    /// Scheduler that chooses the next request.
    #[serde(default = "fcfs")]
    scheduler: SchedulerSpec,
    /// Requests that the device holds at a time, at most its queue depth.
    #[serde(default = "one")]
    #[schemars(range(min = 1), extend("x-unit" = "requests"))]
    depth: usize,
}

const fn fcfs() -> SchedulerSpec {
    SchedulerSpec::FCFS
}

const fn one() -> usize {
    1
}

impl DeviceKind for Definition {
    type Parameters = Parameters;
    type Blueprint = Parameters;

    const NAME: &'static str = "queue";
    const DESCRIPTION: &'static str = "a layer: a queue with a scheduler in front of the device that it owns";
    const CHILDREN: Children = Children::One;

    fn blueprint(parameters: &Parameters) -> Result<Parameters, DescriptionError> {
        Ok(parameters.clone())
    }

    fn build(
        blueprint: &Parameters,
        children: Vec<Box<dyn Device>>,
        _seed: Seed,
        _name: &str,
    ) -> Result<Box<dyn Device>, DescriptionError> {
        let device = children.into_iter().next().expect("the kind has one child");
        Ok(Box::new(queue_before(device, &blueprint.scheduler, blueprint.depth)?))
    }

    fn capabilities(_blueprint: &Parameters, children: Vec<Capabilities>) -> Capabilities {
        let device = children.into_iter().next().expect("the kind has one child");
        Capabilities { queue_depth: u32::MAX, ..device }
    }

    /// Bare mechanics may hold fewer requests at a time than the device had.
    fn bare(parameters: &Parameters, children: &[Capabilities]) -> Option<Parameters> {
        let depth_max = children.first()?.queue_depth as usize;
        Some(Parameters { depth: parameters.depth.min(depth_max), ..parameters.clone() })
    }

    /// In order of arrival, or with one request at a time, the queue adds nothing to one server. Otherwise, a device that holds one request at a time
    /// serves the requests in the order of the queue.
    fn service_law(blueprint: &Parameters, demand: &Demand, child: ChildLaw) -> Option<ServiceLaw> {
        if demand.order.is_some() {
            return None;
        }
        if demand.one_at_a_time {
            return child(demand);
        }
        match (blueprint.scheduler == SchedulerSpec::FCFS, blueprint.depth) {
            (true, _) => child(demand).filter(|law| law.servers <= 1.0 && law.in_order),
            (false, 1) => child(&Demand { order: Some(blueprint.scheduler), ..demand.clone() }),
            (false, _) => None,
        }
    }

    fn write_buffer(
        blueprint: &Parameters,
        _demand: &Demand,
        children: Vec<Option<WriteBuffer>>,
    ) -> Option<WriteBuffer> {
        let buffer = children.into_iter().next().flatten()?;
        let is_reordered = buffer.is_reordered || blueprint.scheduler != SchedulerSpec::FCFS;
        Some(WriteBuffer { is_reordered, ..buffer })
    }
}
