//! Work of an emulation of a device that can fail beside answering: it keeps writes until they complete, follows the
//! events of the model, and takes the device away from its clients while it is not there.

use std::io;

use seeklab_core::{Absence, Completion, Event, Instant, Operation, Reclassification, Request, Status};

use super::Emulation;
use super::staging::Staging;
use super::witness::Witness;
use crate::frontend::{Command, Frontend};
use crate::store::StoreError;

/// Function that receives the events of the model, in order of time.
pub type TakeEvents = Box<dyn FnMut(&Event) + Send>;

/// Parts of an emulation of a device that can fail, or whose events are wanted.
#[derive(Default)]
pub(super) struct Failing {
    /// The bytes, if the store does not take writes as they arrive.
    pub(super) staging: Option<Staging>,
    witness: Option<Witness>,
    take_events: Option<TakeEvents>,
    scratch: Vec<Event>,
    /// The absence that lasts or comes.
    absence: Option<Absence>,
    /// The clients have been sent away.
    is_away: bool,
}

impl Failing {
    /// The model received at `time` a change of class of the request of that rank.
    pub(super) fn reclassify(&mut self, time: Instant, number: u64, change: Reclassification) {
        if let Some(witness) = &mut self.witness {
            witness.reclassify(time, number, change);
        }
    }
}

impl Emulation {
    /// Keeps writes until the model completes them, if the device can fail. With `pristine`, what faults of data destroy
    /// is kept, and the store has it in the end.
    ///
    /// # Errors
    /// No memory for what is kept.
    pub fn failing(mut self, pristine: bool) -> Result<Self, StoreError> {
        let hazards = self.pacer.model().hazards();
        if !hazards.fails {
            return Ok(self);
        }
        // Transfers are for stores that take writes as they arrive.
        self.transfers = None;
        self.failing.staging = Some(Staging::new(self.store.size(), self.block_bytes, hazards, pristine)?);
        if hazards.loses_power {
            self.failing.witness = Some(Witness::new(self.pacer.model()));
        }
        self.failing.absence = self.pacer.model().next_absence(Instant::ZERO);
        Ok(self)
    }

    /// Shows every event of the model to `take_events`, with requests by rank of arrival.
    #[must_use]
    pub fn telling(mut self, take_events: TakeEvents) -> Self {
        if self.failing.witness.is_none() {
            self.failing.witness = Some(Witness::new(self.pacer.model()));
        }
        self.failing.take_events = Some(take_events);
        self
    }

    /// The model received the request of that rank at `time`, for a command.
    pub(super) fn keep(&mut self, number: u64, time: Instant, request: Request, command: &Command<'_>) {
        if let Some(staging) = &mut self.failing.staging {
            staging.stage(number, command);
        }
        if let Some(witness) = &mut self.failing.witness {
            witness.arrive(time, number, request);
        }
    }

    /// Carries out what the model completed, if the store did not when it arrived.
    ///
    /// # Errors
    /// A refusal of the store: of what the request writes, or of blocks that its answer promises.
    pub(super) fn carry_out(&mut self, number: u64, completion: &Completion) -> Result<(), StoreError> {
        let needs_events = match &self.failing.staging {
            None => return Ok(()),
            Some(staging) => staging.needs_events(),
        };
        let status = completion.outcome.status;
        let request = &completion.request;
        let promises = status.is_success() && (request.op == Operation::Flush || request.fua);
        // What the answer promises, or what was written before the device went, is in the store first.
        if needs_events && (promises || status == Status::Gone) {
            self.take_events(completion.completed);
        }
        if let Some(staging) = &mut self.failing.staging {
            staging.complete(&self.store, number, completion)?;
        }
        if !promises {
            return Ok(());
        }
        if needs_events && request.fua {
            self.take_events(completion.completed);
        }
        if let Some(staging) = &mut self.failing.staging {
            staging.promise(&self.store, number, request.op)?;
        }
        self.store.flush()
    }

    /// Takes the events that are certain, when there is time.
    pub(super) fn take_settled_events(&mut self, now: Instant) {
        // Completions up to now have been carried out.
        self.take_events(self.pacer.settled().min(now));
    }

    fn take_events(&mut self, until: Instant) {
        let Failing { staging, witness, take_events, scratch, .. } = &mut self.failing;
        let Some(witness) = witness else { return };
        witness.events(until, scratch);
        for event in scratch.drain(..) {
            if let Some(take_events) = take_events {
                take_events(&event);
            }
            if let Some(staging) = staging {
                staging.note(&self.store, &event);
            }
        }
    }

    /// Sends the clients away when the device goes, and lets them come when it is back. Returns the time at which there is
    /// more to do.
    ///
    /// # Errors
    /// A frontend that cannot go on.
    pub(super) fn follow_absence(
        &mut self,
        now: Instant,
        frontend: &mut dyn Frontend,
    ) -> io::Result<Option<Instant>> {
        let Some(absence) = self.failing.absence else { return Ok(None) };
        if !self.failing.is_away && now >= absence.from && self.due.is_empty() {
            self.failing.is_away = true;
            self.take_events(absence.from.max(self.pacer.settled()));
            frontend.set_away(true)?;
        }
        if self.failing.is_away && now >= absence.until {
            self.failing.is_away = false;
            self.failing.absence = self.pacer.next_absence(absence.until);
            frontend.set_away(false)?;
            return self.follow_absence(now, frontend);
        }
        let next = if self.failing.is_away { absence.until } else { absence.from };
        Ok((next < Instant::MAX).then_some(next))
    }

    /// Takes the last events, and puts what was kept into the store.
    ///
    /// # Errors
    /// The first refusal of blocks that the store should have and has not.
    pub(super) fn finish_failing(&mut self) -> Result<(), StoreError> {
        self.take_events(self.pacer.settled().max(self.clock.now()));
        match self.failing.staging.take() {
            Some(staging) => staging.finish(&self.store),
            None => Ok(()),
        }
    }
}
