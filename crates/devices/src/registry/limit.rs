//! `limit`: rate and burst limits in front of the device that it owns.

use seeklab_core::{Capabilities, Device, Seed};

use crate::error::DescriptionError;
use crate::fitted::FittedModel;
use crate::kind::{ChildLaw, Children, DeviceKind};
use crate::layer::Limit;
use crate::limit::{Buckets, LimitParameters, Limited, TokenBucket, fitted_model};
use crate::service_law::{Demand, RateLimit, ServiceLaw};

/// The kind `limit`.
#[derive(Debug)]
pub(super) struct Definition;

impl DeviceKind for Definition {
    type Parameters = LimitParameters;
    type Blueprint = (Limited, Buckets);

    const NAME: &'static str = "limit";
    const DESCRIPTION: &'static str = "a layer: rate and burst limits in front of the device that it owns";
    const CHILDREN: Children = Children::One;

    fn blueprint(parameters: &LimitParameters) -> Result<(Limited, Buckets), DescriptionError> {
        Ok((parameters.of, parameters.buckets()?))
    }

    fn build(
        (of, buckets): &(Limited, Buckets),
        children: Vec<Box<dyn Device>>,
        _seed: Seed,
        _name: &str,
    ) -> Result<Box<dyn Device>, DescriptionError> {
        let device = children.into_iter().next().expect("the kind has one child");
        Ok(Box::new(Limit::new(device, *of, buckets.clone())))
    }

    fn capabilities(_blueprint: &(Limited, Buckets), children: Vec<Capabilities>) -> Capabilities {
        let device = children.into_iter().next().expect("the kind has one child");
        Capabilities { queue_depth: u32::MAX, ..device }
    }

    fn fitted_model(
        parameters: &LimitParameters,
        children: Vec<Option<FittedModel>>,
    ) -> Result<Option<FittedModel>, DescriptionError> {
        let device = children.into_iter().next().flatten();
        Ok(device.map(|device| fitted_model(parameters, device)))
    }

    /// The law of the device, with the rates of the buckets in requests of the demand.
    fn service_law(
        (of, buckets): &(Limited, Buckets),
        demand: &Demand,
        child: ChildLaw,
    ) -> Option<ServiceLaw> {
        let mut law = child(demand)?;
        let share = demand.share_of(*of);
        let limit = |bucket: &TokenBucket, units_of_request: f64| {
            let (rate, burst) = (bucket.units_per_s(), bucket.burst() as f64);
            RateLimit {
                interval_s: bucket.interval().as_s(),
                ..RateLimit::of_requests(rate / units_of_request, burst / units_of_request, share)
            }
        };
        if share > 0.0 {
            law.limits.extend(buckets.requests.iter().map(|bucket| limit(bucket, share)));
            let of_bytes = |bucket| RateLimit {
                tokens: demand.length_shares(),
                ..limit(bucket, share * demand.bytes_mean())
            };
            law.limits.extend(buckets.bytes.iter().map(of_bytes));
        }
        Some(law)
    }
}
