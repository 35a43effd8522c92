//! Drawing the starts that an `AddressSpec` describes.

use std::sync::Arc;

use rand_distr::Zipf;
use seeklab_core::{DescriptionError, Mistake, Stream};

use super::address::{AddressDistribution, AddressSpec, Extent, HotZone, RankOrder};
use super::address_space::AddressSpace;
use super::space::Space;

/// Draws starts.
#[derive(Debug, Clone)]
pub(super) enum AddressSource {
    Uniform,
    Zipf {
        ranks: Zipf<f64>,
        region_blocks: u64,
        regions: u64,
        multiplier: u64,
    },
    /// Upper cumulative share of requests, and the blocks, of each zone.
    Hot(Vec<(f64, u64, u64)>),
    Extents(Arc<[Extent]>),
}

impl AddressSource {
    pub(super) fn new(
        spec: &AddressSpec,
        target: AddressSpace,
        space: Space,
        extents: Option<Arc<[Extent]>>,
    ) -> Result<Self, DescriptionError> {
        match &spec.distribution {
            AddressDistribution::Uniform => Ok(Self::Uniform),
            AddressDistribution::Zipf { exponent, granularity, order } => {
                let region_blocks = target.blocks(*granularity, "address.granularity")?;
                if !region_blocks.is_multiple_of(space.align) {
                    return Err(DescriptionError::invalid(
                        "address.granularity",
                        format!("{granularity} is not a multiple of the alignment"),
                    )
                    .hint("write a multiple of `align`"));
                }
                let regions = space.span().div_ceil(region_blocks);
                let ranks = Zipf::new(regions as f64, *exponent)
                    .ok()
                    .filter(|_| *exponent > 0.0 && exponent.is_finite())
                    .ok_or_else(|| {
                        DescriptionError::invalid("address.exponent", format!("`{exponent}` is out of range"))
                            .hint("an exponent lies above 0, for example 0.9; 0 would be uniform")
                    })?;
                let multiplier = match order {
                    RankOrder::Ascending => 1,
                    RankOrder::Scattered => golden_multiplier(regions),
                };
                Ok(Self::Zipf { ranks, region_blocks, regions, multiplier })
            }
            AddressDistribution::Hot { zones } => hot(zones, space).map(Self::Hot),
            AddressDistribution::Extents => {
                let extents = extents.filter(|extents| !extents.is_empty()).ok_or_else(|| {
                    DescriptionError::new(
                        Mistake::NotSupplied,
                        "address",
                        "`extents` needs a list of extents",
                    )
                    .hint("choose a device whose tracks are known")
                })?;
                check_extents(&extents, target)?;
                Ok(Self::Extents(extents))
            }
        }
    }

    /// Draws a start for `blocks` blocks. Returns the start and the number of blocks, which is that of
    /// the drawn extent if `blocks` is `None` and extents are used.
    pub(super) fn draw(&self, stream: &mut Stream, space: Space, blocks: Option<u32>) -> (u64, u32) {
        let length = blocks.unwrap_or(1);
        let start = match self {
            Self::Uniform => space.anywhere(stream, length),
            Self::Zipf { ranks, region_blocks, regions, multiplier } => {
                let rank = (stream.sample(ranks) as u64).clamp(1, *regions) - 1;
                let region = (u128::from(rank) * u128::from(*multiplier) % u128::from(*regions)) as u64;
                let low = space.start + region * region_blocks;
                space.between(stream, low, low + region_blocks, length)
            }
            Self::Hot(zones) => {
                let draw = stream.unit();
                let index = zones.iter().position(|(share, ..)| draw < *share).unwrap_or(zones.len() - 1);
                let (_, low, high) = zones[index];
                space.between(stream, low, high, length)
            }
            Self::Extents(extents) => {
                let extent = extents[stream.below(extents.len() as u64) as usize];
                let length = blocks.unwrap_or(extent.blocks);
                return (extent.lbn.min(space.end - u64::from(length)), length);
            }
        };
        (start, length)
    }
}

/// The first number prime to `regions` from 0.618 of it on: consecutive multiples of it, modulo
/// `regions`, visit every region once and never crowd.
fn golden_multiplier(regions: u64) -> u64 {
    const fn common_divisor(mut a: u64, mut b: u64) -> u64 {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    }
    let golden = (regions as f64 * 0.618_033_988_749_895) as u64;
    (golden..regions).find(|candidate| common_divisor(*candidate, regions) == 1).unwrap_or(1)
}

fn hot(zones: &[HotZone], space: Space) -> Result<Vec<(f64, u64, u64)>, DescriptionError> {
    let (mut share_of_space, mut share_of_requests) = (0.0, 0.0);
    let mut low = space.start;
    let mut cumulative = Vec::with_capacity(zones.len() + 1);
    for zone in zones {
        share_of_space += zone.share_of_space.as_f64();
        share_of_requests += zone.share_of_requests.as_f64();
        let high = space.start + (share_of_space.min(1.0) * space.span() as f64) as u64;
        cumulative.push((share_of_requests, low, high.max(low)));
        low = high.max(low);
    }
    let tolerance = 1e-9;
    for (what, share) in [("share_of_space", share_of_space), ("share_of_requests", share_of_requests)] {
        if share > 1.0 + tolerance {
            return Err(DescriptionError::invalid(
                "address.zones",
                format!("`{what}` sums to {share}, more than 1"),
            )
            .hint("shares sum to at most 100%; the rest of the space gets the rest of the requests"));
        }
    }
    if share_of_requests < 1.0 - tolerance {
        if low >= space.end {
            return Err(DescriptionError::invalid(
                "address.zones",
                format!("the zones take all of the space, but only {share_of_requests} of the requests"),
            )
            .hint("leave space for the rest of the requests, or let the shares of requests sum to 100%"));
        }
        cumulative.push((1.0, low, space.end));
    }
    if let Some((_, low, _)) = cumulative.iter().find(|(_, low, high)| low >= high) {
        return Err(DescriptionError::invalid(
            "address.zones",
            format!("the zone at block {low} has no blocks"),
        ));
    }
    Ok(cumulative)
}

fn check_extents(extents: &[Extent], target: AddressSpace) -> Result<(), DescriptionError> {
    let fits = |extent: &&Extent| {
        extent.blocks > 0
            && extent
                .lbn
                .checked_add(u64::from(extent.blocks))
                .is_some_and(|end| end <= target.capacity_blocks)
    };
    match extents.iter().find(|extent| !fits(extent)) {
        None => Ok(()),
        Some(Extent { lbn, blocks }) => Err(DescriptionError::new(
            Mistake::DoesNotFit,
            "address",
            format!(
                "the extent of {blocks} blocks at {lbn} is empty or ends beyond the device, which has {} blocks",
                target.capacity_blocks
            ),
        )),
    }
}
