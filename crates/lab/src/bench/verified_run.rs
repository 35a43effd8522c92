//! The verification of a run: of all targets that it writes to, for all streams, phases and repetitions.

use std::path::PathBuf;

use seeklab_bench::WriteData;
use seeklab_bench::target::{Target, TargetFacts, TargetKind};
use seeklab_bench::verify::{Verification, VerifiedLane, VerifiedTarget, VerifyOptions};
use seeklab_core::Duration;
use seeklab_files::check_distinct;

use super::load::Load;
use super::options::{BenchOptions, StreamOptions};
use super::read_back::read_back;
use super::targets::{self, ReadyTarget};
use super::verification::{ReadBackFigures, VerificationFigures, VerifiedNames};
use crate::failure::Failure;
use crate::session::Session;

/// Refuses what a verification does not go with. `loads` are those of the streams of each phase.
///
/// # Errors
/// A search for a rate, a target without data, writes with data of their own, no writes, or a state that is another file of
/// the run.
pub(super) fn check(options: &BenchOptions, loads: &[Vec<Load>]) -> Result<(), Failure> {
    let Some(verify) = &options.verification else { return Ok(()) };
    let reading =
        || options.phases.iter().zip(loads).flat_map(|(phase, loads)| phase.streams.iter().zip(loads));
    if reading().any(|(stream, load)| stream.read_back && !load.writes) {
        return Err(Failure::new("--read-back: the workload writes nothing that could be read back")
            .hint("let it write, for example read=50%, or leave out --read-back"));
    }
    if options.find_rate.is_some() {
        return Err(Failure::new(
            "--verify: does not go with --find-rate, whose trials are runs of their own",
        )
        .hint("verify a run at one rate, or at several with --rates"));
    }
    let streams =
        || options.phases.iter().zip(loads).flat_map(|(phase, loads)| phase.streams.iter().zip(loads));
    for (stream, load) in streams() {
        let address = &options.targets[stream.target].address;
        if !TargetKind::of(address).0.holds_data {
            return Err(Failure::new(format!("--verify: `{address}` carries no data")).hint(
                "verify a block device, a file, an NBD export or an iSCSI unit, or leave out --verify",
            ));
        }
        if load.writes && stream.data != WriteData::default() {
            let problem = format!("--verify: writes carry stamps, and their data are to be {}", stream.data);
            return Err(Failure::new(problem).hint("leave out --data, or measure without --verify"));
        }
    }
    if !streams().any(|(_, load)| load.writes) {
        return Err(Failure::new("--verify: the workload writes nothing that could be checked").hint(
            "let it write, for example read=50%, or check an earlier run with seeklab bench verify FILE",
        ));
    }
    if let Some(state) = &verify.state {
        let outputs = [&options.record, &options.report].into_iter().flatten().cloned();
        check_distinct(state, outputs.chain(targets::paths(options)).collect::<Vec<PathBuf>>())?;
    }
    Ok(())
}

/// The verification of a run.
#[derive(Debug)]
pub(super) struct VerifiedRun {
    verification: Verification,
    names: VerifiedNames,
    /// Number of each target of the options among those that are verified. `None` of one that is only read.
    targets: Vec<Option<usize>>,
    /// Number of the first stream of each phase among those of all phases.
    phases: Vec<usize>,
    /// Figures of the blocks that were read back, if some were.
    read_back: Option<ReadBackFigures>,
}

impl VerifiedRun {
    /// Begins the verification of the targets, whose facts are known.
    ///
    /// # Errors
    /// If there is no room for the ledgers, or the state cannot be made.
    pub(super) fn begin(
        options: &BenchOptions,
        loads: &[Vec<Load>],
        ready: &[ReadyTarget],
        facts: &[Option<TargetFacts>],
    ) -> Result<Option<Self>, Failure> {
        let Some(verify) = &options.verification else { return Ok(None) };
        let run = VerifyOptions::new_run()
            .map_err(|error| Failure::from(error).context("--verify: no random number"))?;
        let verify =
            VerifyOptions { ram: verify.ram.unwrap_or(VerifyOptions::RAM), state: verify.state.clone(), run };
        let (mut verified, mut numbers) = (Vec::new(), Vec::new());
        for (number, (target, facts)) in ready.iter().zip(facts).enumerate() {
            let space = facts.as_ref().map(|facts| facts.space);
            let space = space.filter(|_| targets::is_written(options, loads, number));
            numbers.push(space.map(|_| verified.len()));
            verified.extend(space.map(|space| VerifiedTarget { address: target.address.clone(), space }));
        }
        let (mut streams, mut phases) = (Vec::new(), Vec::new());
        for phase in &options.phases {
            phases.push(streams.len());
            streams.extend(phase.streams.iter().map(|stream| match options.phases.len() {
                1 => stream.name.clone(),
                _ => format!("{}/{}", phase.name, stream.name),
            }));
        }
        let addresses = verified.iter().map(|target: &VerifiedTarget| target.address.clone()).collect();
        let verification = Verification::new(&verify, verified, &streams)?;
        let names = VerifiedNames { targets: addresses, streams };
        Ok(Some(Self { verification, names, targets: numbers, phases, read_back: None }))
    }

    /// The targets of the threads of a stream with checks, if its target is verified. `place` has the numbers of the phase and of
    /// the stream in it, and the begin of the phase from the begin of the run.
    ///
    /// # Errors
    /// If a target is another one than at the begin of the run.
    pub(super) fn attach(
        &self,
        (stream, load): (&StreamOptions, &Load),
        (phase, index, begin): (usize, usize, Duration),
        targets: Vec<Box<dyn Target>>,
    ) -> Result<Vec<Box<dyn Target>>, Failure> {
        let Some(target) = self.targets[stream.target] else { return Ok(targets) };
        let number = (self.phases[phase] + index) as u32;
        let (is_shared, writes) = (stream.threads > 1, load.writes);
        let lane = VerifiedLane { target, stream: number, is_shared, writes, begin };
        let attached = targets.into_iter().map(|target| self.verification.attach(target, &lane));
        attached.collect::<Result<Vec<_>, _>>().map_err(Failure::from)
    }

    /// Reads the blocks back that the streams of a phase wrote, if these are to. `begin` is that of the pass, from the begin of the
    /// run. Returns true if the caller stopped it.
    ///
    /// # Errors
    /// If a target cannot be opened, or fails as a whole.
    pub(super) fn read_back(
        &mut self,
        session: &Session,
        (phase, streams): (usize, &[StreamOptions]),
        targets: &[ReadyTarget],
        begin: Duration,
    ) -> Result<bool, Failure> {
        let first = self.phases[phase] as u32;
        for (number, target) in targets.iter().enumerate() {
            let wanted = (first..).zip(streams);
            let wanted = wanted.filter(|(_, stream)| stream.read_back && stream.target == number);
            let wanted: Vec<u32> = wanted.map(|(stream, _)| stream).collect();
            let Some(verified) = self.targets[number].filter(|_| !wanted.is_empty()) else { continue };
            let reading = self.verification.read_back(verified, wanted, begin);
            let pass = read_back(session, target, &reading);
            let figures = self.read_back.get_or_insert_default();
            figures.add(&reading.pass());
            figures.complete = pass.as_ref().is_ok_and(|pass| !pass.is_stopped);
            if pass?.is_stopped {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Results so far.
    pub(super) fn figures(&self) -> VerificationFigures {
        let findings = self.verification.findings();
        VerificationFigures {
            read_back: self.read_back.clone(),
            ..VerificationFigures::of(&findings, &self.names)
        }
    }
}
