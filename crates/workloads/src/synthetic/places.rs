//! Place and length of requests: size, pattern and address together.

use std::sync::Arc;

use seeklab_core::{DescriptionError, Mistake, Seed, Stream};

use super::address::{AddressDistribution, Extent};
use super::address_space::AddressSpace;
use super::size::SizeSource;
use super::source::AddressSource;
use super::space::Space;
use super::spec::SyntheticSpec;

/// Draws where requests lie.
#[derive(Debug, Clone)]
pub(super) struct Places {
    space: Space,
    source: AddressSource,
    /// `None` leaves the size to the extents.
    size: Option<SizeSource>,
    /// A pattern draw below it is sequential.
    sequential: f64,
    /// A pattern draw below it and not sequential is local.
    local: f64,
    local_blocks: u64,
    /// Beginning and end of the previous request.
    previous: Option<(u64, u64)>,
    pattern_stream: Stream,
    address_stream: Stream,
    size_stream: Stream,
}

impl Places {
    pub(super) fn new(
        spec: &SyntheticSpec,
        target: AddressSpace,
        seed: Seed,
        extents: Option<Arc<[Extent]>>,
    ) -> Result<Self, DescriptionError> {
        let (sequential, local) = (spec.sequential.as_f64(), spec.local.as_f64());
        if sequential + local > 1.0 + 1e-9 {
            return Err(DescriptionError::invalid(
                "sequential",
                format!("`sequential` ({sequential}) and `local` ({local}) sum to more than 1"),
            )
            .hint("shares sum to at most 100%; the rest is drawn from `address`"));
        }
        let by_extents = spec.address.distribution == AddressDistribution::Extents;
        if by_extents {
            let fixed =
                [("align", spec.align.is_some()), ("sequential", sequential > 0.0), ("local", local > 0.0)];
            if let Some((key, _)) = fixed.iter().find(|(_, given)| *given) {
                return Err(DescriptionError::invalid(
                    *key,
                    "does not go with the address distribution `extents`",
                )
                .hint(format!("remove `{key}`: requests begin where extents do")));
            }
        } else if spec.size.is_none() {
            return Err(DescriptionError::new(Mistake::Missing, "size", "is missing")
                .hint("write for example `size = \"8KiB\"`"));
        }
        let local_blocks = match spec.local_distance {
            Some(distance) => target.blocks(distance, "local_distance")?,
            None if local > 0.0 => {
                return Err(DescriptionError::new(
                    Mistake::Missing,
                    "local_distance",
                    "is missing, but `local` is given",
                )
                .hint("write for example `local_distance = \"20MiB\"`"));
            }
            None => 0,
        };
        let align = match spec.align {
            Some(align) => target.blocks(align, "align")?,
            None => 1,
        };
        let space = spec.address.space(target, align)?;
        let source = AddressSource::new(&spec.address, target, space, extents)?;
        let size = spec.size.as_ref().map(|size| SizeSource::new(size, target, space.span())).transpose()?;
        Ok(Self {
            space,
            source,
            size,
            sequential,
            local: sequential + local,
            local_blocks,
            previous: None,
            pattern_stream: seed.stream("workload.pattern"),
            address_stream: seed.stream("workload.address"),
            size_stream: seed.stream("workload.size"),
        })
    }

    pub(super) fn draw(&mut self) -> (u64, u32) {
        let blocks = self.size.as_ref().map(|size| size.draw(&mut self.size_stream));
        let pattern = if self.local > 0.0 { self.pattern_stream.unit() } else { 1.0 };
        let (lbn, blocks) = match (self.previous, blocks) {
            (Some((_, end)), Some(blocks)) if pattern < self.sequential => {
                (self.space.next_from(end, blocks), blocks)
            }
            (Some((lbn, _)), Some(blocks)) if pattern < self.local => {
                let low = lbn.saturating_sub(self.local_blocks);
                let high = lbn.saturating_add(self.local_blocks).saturating_add(1);
                (self.space.between(&mut self.address_stream, low, high, blocks), blocks)
            }
            _ => self.source.draw(&mut self.address_stream, self.space, blocks),
        };
        self.previous = Some((lbn, lbn + u64::from(blocks)));
        (lbn, blocks)
    }
}
