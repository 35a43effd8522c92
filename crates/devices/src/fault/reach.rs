//! Reach of a fault: the requests that it can strike. A fault that no request can meet is a mistake.

use seeklab_core::{ByteSize, Capabilities, Operation};

use super::data::{DataFault, Displacement};
use super::parameters::{FaultKind, FaultParameters, FaultTable};
use super::rule::{Action, Rule};
use crate::error::{DescriptionError, check};

impl FaultParameters {
    /// Checks that no fault selects blocks beyond `size`, the part of the device that is served, and that requests to it can
    /// meet each.
    ///
    /// # Errors
    /// The first fault for which that does not hold.
    pub fn check_served(&self, size: ByteSize) -> Result<(), DescriptionError> {
        let place = format!("the {size} of the device that are served");
        for (index, fault) in self.fault.iter().enumerate() {
            let checked = fault.check_end(size, &place).and_then(|()| fault.check_lengths(size, &place));
            checked.map_err(|error| error.under(&format!("fault[{index}]")))?;
        }
        Ok(())
    }
}

impl FaultTable {
    /// Checks that the blocks end at `end` or before; `place` names that end.
    pub(super) fn check_end(&self, end: ByteSize, place: &str) -> Result<(), DescriptionError> {
        let Some((from, to)) = self.bytes()? else { return Ok(()) };
        let text = self.blocks.as_deref().unwrap_or_default();
        let verb = if from < end.as_bytes() { "reaches" } else { "lies" };
        check(
            to <= end.as_bytes(),
            "blocks",
            format!("{text} {verb} beyond {place}"),
            format!("a range that ends at {end} or before"),
        )
    }

    /// Checks that what counts from a block on ends before `end`, which `place` names.
    fn check_lengths(&self, end: ByteSize, place: &str) -> Result<(), DescriptionError> {
        for (key, length, problem) in
            [("unit", self.unit, "is no shorter than"), ("by", self.by, "leads from any block out of")]
        {
            let Some(length) = length else { continue };
            check(length < end, key, format!("{length} {problem} {place}"), format!("less than {end}"))?;
        }
        Ok(())
    }

    /// Checks that nothing that has to do with blocks selects flushes.
    pub(super) fn check_flushes(&self) -> Result<(), DescriptionError> {
        let mut named = self.op.as_deref().unwrap_or_default().split('|').map(str::trim);
        let names_flush = named.any(|name| name == Operation::Flush.name());
        if !names_flush && self.kind != FaultKind::LostFlush {
            return Ok(());
        }
        for (key, is_given) in [("blocks", self.blocks.is_some()), ("size", self.sizes()?.0 > 0)] {
            let problem = "selects by blocks, and a flush has none";
            check(!is_given, key, problem, format!("no `{key}`, or operations other than flush"))?;
        }
        Ok(())
    }

    /// Checks that a request of a device with these capabilities can meet `rule`, which was made of this fault.
    pub(super) fn check_reach(
        &self,
        rule: &Rule,
        capabilities: &Capabilities,
    ) -> Result<(), DescriptionError> {
        let Capabilities { block_size, queue_depth, .. } = *capabilities;
        let capacity = capabilities.capacity();
        let (least, most) = rule.selector.length;
        let problem = || format!("no request has a size of {}", self.size.as_deref().unwrap_or_default());
        // A flush has no blocks.
        let has_some = most > 0 || rule.selector.operations[Operation::Flush as usize];
        let multiple = format!("a range with a multiple of the block size, {block_size}");
        check(least <= most && has_some, "size", problem(), multiple)?;
        let fits = self.sizes()?.0 <= capacity.as_bytes();
        check(fits, "size", problem(), format!("up to {capacity}, the size of the device"))?;
        let holds = rule.selector.queue_length.0 < queue_depth;
        check(
            holds,
            "queue_length",
            format!("no request finds {} others", rule.selector.queue_length.0),
            format!("at most {}, since the device holds {queue_depth} requests at a time", queue_depth - 1),
        )?;
        match rule.action {
            Action::Data(DataFault::Torn { unit_blocks }) => {
                let longest = u64::from(most).min(capabilities.capacity_blocks);
                let longest_size = ByteSize::from_bytes(longest * block_size.as_bytes());
                let unit = ByteSize::from_bytes(u64::from(unit_blocks) * block_size.as_bytes());
                check(
                    u64::from(unit_blocks) < longest,
                    "unit",
                    format!("a write of one unit of {unit} cannot tear"),
                    format!("less than {longest_size}, the longest write"),
                )
            }
            Action::Data(
                DataFault::MisdirectedWrite(Displacement { blocks: Some(blocks), .. })
                | DataFault::MisdirectedRead(Displacement { blocks: Some(blocks), .. }),
            ) => {
                let by = ByteSize::from_bytes(u64::from(blocks) * block_size.as_bytes());
                let fits = u64::from(blocks) < capabilities.capacity_blocks;
                check(fits, "by", by.to_string(), format!("less than {capacity}, the size of the device"))
            }
            _ => Ok(()),
        }
    }
}
