//! Reading back: behind a phase, the blocks that its streams wrote are read and checked.
//!
//! # Scope and limits
//! Blocks are read in the order of their addresses, each once, with the last write of the run to it.

use seeklab_bench::WriteData;
use seeklab_bench::target::{Opening, Polling, Target, TargetKind, TargetOptions};
use seeklab_bench::verify::{Pass, PassOptions, ReadBack};
use seeklab_emulator::clock::{Clock, Pacing};

use super::answer::{self, Patience, Unanswered};
use super::targets::ReadyTarget;
use crate::failure::Failure;
use crate::session::Session;
use crate::stop::Stop;

/// Opens a target of that kind at an address for a pass. Returns the options that fit it, too.
///
/// # Errors
/// If it cannot be opened.
pub(super) fn open_for_pass(
    (kind, address): (&TargetKind, &str),
    is_direct: bool,
    stop: &Stop,
    pass: PassOptions,
) -> Result<(Box<dyn Target>, PassOptions), Failure> {
    let options = TargetOptions {
        outstanding_max: pass.outstanding,
        direct: is_direct,
        polling: Polling::default(),
        prepared_bytes: pass.read_bytes as usize,
        reads: true,
        writes: false,
        data: WriteData::default(),
        priority: None,
        seed: 0,
        pacing: Pacing::default(),
    };
    let model = |_: &str| Err("a model carries no data".to_owned());
    let emulated = |_: &str| Err("an emulated device in this process carries no data".to_owned());
    let is_stopped = || stop.is_stopped();
    let opening = Opening {
        clock: Clock::start(),
        options: &options,
        model: &model,
        emulated: &emulated,
        is_stopped: &is_stopped,
    };
    let opened = (kind.open)(address, &opening)?;
    let most = opened.facts().limits.request_bytes_max;
    let most = most.and_then(|most| u32::try_from(most).ok()).unwrap_or(u32::MAX);
    Ok((opened, PassOptions { read_bytes: pass.read_bytes.min(most), ..pass }))
}

/// Reads the blocks of a target back, on a thread of its own: what a stop finds in a system call that hangs, is left there.
///
/// # Errors
/// If the target cannot be opened, fails as a whole, or does not answer behind a stop.
pub(super) fn read_back(
    session: &Session,
    target: &ReadyTarget,
    reading: &ReadBack,
) -> Result<Pass, Failure> {
    let (kind, inner, address) = (target.kind, target.inner.clone(), target.address.clone());
    let (is_direct, stop, reading) = (!target.buffered, session.stop().clone(), reading.clone());
    let work = move || -> Result<Pass, Failure> {
        let (opened, options) = open_for_pass((kind, &inner), is_direct, &stop, PassOptions::default())?;
        Ok(reading.run((opened, &address), &options, &mut |_| !stop.is_stopped())?)
    };
    match answer::within(Patience::UNTIL_STOPPED, session.stop(), work) {
        Ok(pass) => pass,
        Err(Unanswered::NoThread(error)) => Err(Failure::from(error).context("no thread can be started")),
        Err(Unanswered::Stopped | Unanswered::Late) => Err(Failure::interrupted()),
    }
}
