//! A closed load over several devices: their laws, and their figures in a network.

use schemars::JsonSchema;
use seeklab_core::Seed;
use seeklab_devices::service_law::ServiceLaw;
use seeklab_estimate::{NetworkEstimate, NetworkStation};
use serde::Serialize;

use super::figures::{ms, rounded};
use super::law;
use super::load::Load;
use super::operational::BoundsFigures;
use crate::devices::Resolved;
use crate::failure::Failure;

/// Figures of a closed load over several devices.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct NetworkFigures {
    /// Figures of each device.
    pub devices: Vec<NetworkDeviceFigures>,
    /// Bounds with that population; null if service times depend on the queue.
    pub bounds: Option<BoundsFigures>,
}

/// Figures of one device of a network.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct NetworkDeviceFigures {
    /// Number of the device in the trace.
    pub device: u16,
    /// Share of the requests that go to the device.
    pub requests_pct: f64,
    /// Mean service time of these requests.
    pub service_mean_ms: f64,
    /// Service demand: the share of the mean service time that each request of the load has.
    pub demand_mean_ms: f64,
    /// Mean response time of these requests.
    pub response_mean_ms: f64,
    /// Mean number of requests at the device.
    pub outstanding_mean: f64,
    /// Share of the time in which the device is busy.
    pub utilisation_pct: f64,
}

/// Devices of a closed load with their service laws.
pub(super) struct Network {
    pub(super) numbers: Vec<u16>,
    pub(super) stations: Vec<NetworkStation>,
}

impl Network {
    /// The devices of a load; `None` of a load of one device.
    pub(super) fn of(device: &Resolved, load: &Load, seed: Seed) -> Result<Option<Self>, Failure> {
        if load.routes.is_empty() {
            return Ok(None);
        }
        let mut stations = Vec::new();
        for route in &load.routes {
            let own = device.numbered(route.device)?;
            let sample = law::sample(&route.requests);
            let of_route = Load {
                requests: route.requests.clone(),
                demand: route.demand.clone(),
                routes: Vec::new(),
                ..load.clone()
            };
            let law = law::law(&own, &of_route, &sample, seed)
                .map_err(|failure| failure.context(format!("{}, device {}", device.label(), route.device)))?;
            let share = route.requests.len() as f64 / load.requests.len() as f64;
            stations.push(NetworkStation { share, law });
        }
        Ok(Some(Self { numbers: load.routes.iter().map(|route| route.device).collect(), stations }))
    }

    /// The law of the device with the greatest demand, which limits the rate.
    pub(super) fn bottleneck(&self) -> &ServiceLaw {
        let demand = |station: &&NetworkStation| station.share / station.law.saturation_per_s();
        let greatest = self.stations.iter().max_by(|one, other| demand(one).total_cmp(&demand(other)));
        &greatest.expect("a network has devices").law
    }

    /// Figures of an estimate with that many members.
    pub(super) fn figures(&self, members: u32, found: &NetworkEstimate) -> NetworkFigures {
        let devices =
            self.numbers.iter().zip(&self.stations).zip(found.demands_s.iter().zip(&found.means.stations));
        let devices = devices.map(|((device, station), (demand_s, means))| NetworkDeviceFigures {
            device: *device,
            requests_pct: rounded(100.0 * station.share),
            service_mean_ms: ms(demand_s / station.share),
            demand_mean_ms: ms(*demand_s),
            response_mean_ms: ms(means.response_mean_s / station.share),
            outstanding_mean: rounded(means.outstanding_mean),
            utilisation_pct: rounded(100.0 * means.utilisation),
        });
        NetworkFigures {
            devices: devices.collect(),
            bounds: found
                .bounds
                .map(|[asymptotic, balanced]| BoundsFigures::of(members, asymptotic, balanced)),
        }
    }
}
