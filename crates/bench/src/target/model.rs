//! A model of the catalog or of a file, in virtual time: the clock goes to the next event at once.
//!
//! # Scope and limits
//! The model gets the arrivals that [`simulate`](seeklab_core::simulate()) gives it, at the same times, so the times
//! are the same to the nanosecond. Virtual time passes only while the target is polled.

use std::collections::BTreeMap;

use seeklab_core::{Completion, Device, Instant, Reclassification};
use seeklab_emulator::clock::{Clock, Wait};
use seeklab_workloads::AddressSpace;

use super::{Ended, Opening, Target, TargetError, TargetFacts, TargetKind, Transfer};

/// Its line in the list of targets.
pub(super) const KIND: TargetKind = TargetKind {
    name: "model",
    form: "model:DEVICE",
    meaning: "A device of the catalog or of a TOML file, in virtual time",
    matches: |address| address.strip_prefix("model:"),
    holds_data: false,
    is_virtual: true,
    open,
};

fn open(name: &str, opening: &Opening<'_>) -> Result<Box<dyn Target>, TargetError> {
    let address = format!("model:{name}");
    let device = (opening.device)(name).map_err(|problem| TargetError::unusable(&address, problem, ""))?;
    Ok(Box::new(Model::new(address, device, opening.options.outstanding_max)))
}

struct Model {
    address: String,
    facts: TargetFacts,
    device: Box<dyn Device>,
    now: Instant,
    tags: BTreeMap<u64, u32>,
    completions: Vec<Completion>,
}

impl Model {
    fn new(address: String, device: Box<dyn Device>, outstanding_max: u32) -> Self {
        let capabilities = device.capabilities();
        let outstanding_max = outstanding_max.min(capabilities.queue_depth);
        let facts = TargetFacts::new(AddressSpace::from(capabilities), outstanding_max);
        Self { address, facts, device, now: Instant::ZERO, tags: BTreeMap::new(), completions: Vec::new() }
    }
}

impl Target for Model {
    fn facts(&self) -> &TargetFacts {
        &self.facts
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn set_clock(&mut self, _: Clock) {}

    fn submit(&mut self, transfers: &[Transfer]) -> Result<(), TargetError> {
        for Transfer { tag, request } in transfers {
            self.device.submit(self.now, *request).map_err(|rejected| TargetError::Rejected {
                target: self.address.clone(),
                request: request.id.0,
                rejected,
            })?;
            self.tags.insert(request.id.0, *tag);
        }
        Ok(())
    }

    fn poll(&mut self, wait: Wait, _: u32, ended: &mut Vec<Ended>) -> Result<(), TargetError> {
        let event = self.device.next_event();
        let next = match wait {
            Wait::Spin => Some(self.now),
            Wait::Until(until) => Some(event.map_or(until, |event| event.min(until))),
            Wait::Forever => event,
        };
        let Some(next) = next else {
            return Err(TargetError::unusable(
                &self.address,
                "nothing is outstanding, and nothing arrives",
                "",
            ));
        };
        self.now = self.now.max(next);
        self.device.poll(self.now, &mut self.completions);
        for completion in self.completions.drain(..) {
            let tag = self.tags.remove(&completion.request.id.0).expect("a request completes once");
            let status = completion.outcome.status;
            ended.push(Ended {
                tag,
                completed: completion.completed,
                status,
                good_blocks: (!status.is_success()).then_some(completion.outcome.good_blocks),
            });
        }
        Ok(())
    }

    fn reclassify(&mut self, change: &Reclassification) {
        self.device.reclassify(self.now, change);
    }
}
