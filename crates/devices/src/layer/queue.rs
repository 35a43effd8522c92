//! A queue with a scheduler in front of a device: the host's.

use std::any::Any;

use seeklab_core::{
    Capabilities, Completion, Criticality, Device, Instant, Location, Pending, Reclassification, Rejected,
    Request, Scheduler,
};

use super::issued::Issued;
use crate::error::DescriptionError;
use crate::scheduler::SchedulerSpec;

/// A queue of any length whose scheduler feeds a device with up to `depth` requests at a time.
///
/// It chooses whenever the device has room, with the time and the device's state at that moment.
pub struct Queue {
    device: Box<dyn Device>,
    scheduler: Box<dyn Scheduler>,
    /// The scheduler chooses by the positions of the heads.
    needs_positioning: bool,
    capabilities: Capabilities,
    depth: usize,
    /// Requests that the device holds.
    issued: Issued,
    scratch: Vec<Completion>,
}

/// Reason why a queue cannot be put in front of a device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueueError {
    /// The scheduler needs the position of the heads, which the device does not know.
    #[error("this scheduler needs a device that knows where its heads are, such as a disk")]
    NeedsPositioning,
    /// The queue would hand the device more than it holds, or nothing.
    #[error("a depth of {depth}, but the device holds {queue_depth} at a time")]
    Depth {
        /// Depth of the queue, as given.
        depth: usize,
        /// Requests that the device holds at a time.
        queue_depth: u32,
    },
}

impl Queue {
    /// Puts `scheduler` in front of `device`, which holds `depth` requests at a time.
    ///
    /// # Errors
    /// [`QueueError`], when the two do not fit.
    pub fn new(
        device: Box<dyn Device>,
        scheduler: Box<dyn Scheduler>,
        depth: usize,
    ) -> Result<Self, QueueError> {
        let queue_depth = device.capabilities().queue_depth;
        if !(1..=queue_depth as usize).contains(&depth) {
            return Err(QueueError::Depth { depth, queue_depth });
        }
        let needs_positioning = scheduler.needs_positioning();
        if needs_positioning && device.positioning().is_none() {
            return Err(QueueError::NeedsPositioning);
        }
        let capabilities = Capabilities { queue_depth: u32::MAX, ..device.capabilities().clone() };
        let (issued, scratch) = (Issued::default(), Vec::new());
        Ok(Self { device, scheduler, needs_positioning, capabilities, depth, issued, scratch })
    }

    fn issue_next(&mut self, now: Instant) {
        while self.issued.len() < self.depth && !self.scheduler.is_empty() {
            if self.needs_positioning {
                self.device.advance_heads(now);
            }
            let positioning = if self.needs_positioning { self.device.positioning() } else { None };
            let Some(pending) = self.scheduler.choose(now, positioning) else { break };
            let Pending { request, submitted, queue_length, .. } = pending;
            self.device.submit(now, request).expect("the queue checked the request and has room");
            self.issued.push(request.id, submitted, queue_length);
        }
    }
}

/// Puts the host's queue in front of a device.
///
/// # Errors
/// A scheduler or depth that does not fit the device.
pub fn queue_before(
    device: Box<dyn Device>,
    scheduler: &SchedulerSpec,
    depth: usize,
) -> Result<Queue, DescriptionError> {
    let blocks = device.capabilities().capacity_blocks;
    let cylinders = device.positioning().map_or(1, |positioning| u64::from(positioning.cylinders()));
    Queue::new(device, scheduler.build(blocks, cylinders), depth).map_err(|error| match error {
        QueueError::Depth { queue_depth, .. } => {
            DescriptionError::refused("depth", error.to_string(), format!("1 to {queue_depth}"))
        }
        QueueError::NeedsPositioning => DescriptionError::refused(
            "scheduler",
            format!("{scheduler}: {error}"),
            "fcfs, sstf, look, c-look, scan, c-scan, vscan, or a disk",
        ),
    })
}

impl Device for Queue {
    fn submit(&mut self, now: Instant, request: Request) -> Result<(), Rejected> {
        self.capabilities.check(&request)?;
        let queue_length = u32::try_from(self.issued.len() + self.scheduler.len()).unwrap_or(u32::MAX);
        let location = if self.needs_positioning {
            self.device.advance_heads_for_place(now, &request);
            self.device.positioning().expect("checked when built").locate(&request)
        } else {
            Location::default()
        };
        self.scheduler.push(Pending { request, submitted: now, queue_length, location });
        self.issue_next(now);
        Ok(())
    }

    /// Changes the class of a request. Requests wait here because the device has no room, so a change brings none forward.
    fn reclassify(&mut self, now: Instant, change: &Reclassification) -> Option<Criticality> {
        let waiting = self.scheduler.reclassify(change.id, change.criticality);
        waiting.or_else(|| self.device.reclassify(now, change))
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        let mut scratch = std::mem::take(&mut self.scratch);
        while let Some(event) = self.device.next_event().filter(|event| *event <= now) {
            self.device.poll(event, &mut scratch);
            for mut completion in scratch.drain(..) {
                assert!(self.issued.complete(&mut completion), "the device completes what it was given");
                completions.push(completion);
            }
            self.issue_next(event);
        }
        self.scratch = scratch;
    }

    fn next_event(&self) -> Option<Instant> {
        self.device.next_event()
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn beneath(&self) -> Option<&dyn Device> {
        Some(&*self.device)
    }

    fn beneath_mut(&mut self) -> Option<&mut (dyn Device + 'static)> {
        Some(&mut *self.device)
    }

    fn fork(&self) -> Box<dyn Device> {
        Box::new(Self {
            device: self.device.fork(),
            scheduler: self.scheduler.fork(),
            needs_positioning: self.needs_positioning,
            capabilities: self.capabilities.clone(),
            depth: self.depth,
            issued: self.issued.clone(),
            scratch: Vec::new(),
        })
    }

    fn fork_into(&self, target: &mut Box<dyn Device>) {
        match target.as_any_mut().downcast_mut::<Self>() {
            Some(target) => {
                self.device.fork_into(&mut target.device);
                self.scheduler.fork_into(&mut target.scheduler);
                target.needs_positioning = self.needs_positioning;
                target.capabilities.clone_from(&self.capabilities);
                target.depth = self.depth;
                target.issued.copy_from(&self.issued);
            }
            None => *target = self.fork(),
        }
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
