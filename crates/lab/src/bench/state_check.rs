//! Checks targets against the state that a measurement with verification kept in a file.

use std::path::PathBuf;
use std::sync::Arc;

use schemars::JsonSchema;
use seeklab_bench::target::TargetKind;
use seeklab_bench::verify::{Findings, Pass, PassOptions, PassResults, RunState, StateFacts, verify_pass};
use seeklab_report::{Page, PageSection, PlainTable};
use serde::Serialize;

use super::answer::{self, Patience, Unanswered};
use super::read_back::open_for_pass;
use super::verification::{self, VerificationFigures, VerifiedNames};
use crate::failure::Failure;
use crate::output::VERSION;
use crate::session::Session;
use seeklab_core::number_words::counted;

/// Options of a check.
#[derive(Debug, Clone)]
pub struct StateCheckOptions {
    /// The state file.
    pub state: PathBuf,
    /// Address of the only target of the run [default: those of the run].
    pub target: Option<String>,
    /// Require every acknowledged write, not only those before the last completed flush.
    pub acknowledged: bool,
    /// Go through the page cache.
    pub buffered: bool,
}

/// Figures of a check.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StateCheckFigures {
    /// Target; null if the state has several.
    pub target: Option<String>,
    /// State file.
    pub state: String,
    /// Required writes: `flushed`, those before the last completed flush, or `acknowledged`.
    pub required: &'static str,
    /// Figures of all targets together.
    #[serde(flatten)]
    pub total: StateFigures,
    /// Figures of each target that was checked.
    pub target_states: Vec<TargetStateFigures>,
    /// True if the caller stopped the check.
    pub stopped: bool,
    /// Findings.
    #[serde(flatten)]
    pub verification: VerificationFigures,
    /// Notes for people.
    pub notes: Vec<String>,
}

/// Figures of a state, and of the blocks that it requires.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct StateFigures {
    /// Writes that the run had issued.
    pub issued_writes: u64,
    /// True if a flush of the run had completed.
    pub flushed: bool,
    /// Blocks with a required write.
    pub required_blocks: u64,
    /// Blocks of these that could not be read.
    pub unreadable_blocks: u64,
    /// The first of them.
    pub first_unreadable_lbn: Option<u64>,
}

/// Figures of a target.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TargetStateFigures {
    /// Target.
    pub target: String,
    /// Its figures.
    #[serde(flatten)]
    pub state: StateFigures,
    /// Blocks with other contents than they should have.
    pub finding_blocks: u64,
}

/// Result of a check.
#[derive(Debug)]
pub struct StateCheckResult {
    /// Figures, as one JSON document.
    pub figures: StateCheckFigures,
    /// The same as a page.
    pub page: Page,
    /// The failed check, if something is missing.
    pub failure: Option<Failure>,
}

/// Reads every block that the state requires, and checks it.
///
/// # Errors
/// If the state or a target cannot be opened, or a target fails as a whole.
pub fn check_state(session: &Session, options: &StateCheckOptions) -> Result<StateCheckResult, Failure> {
    let state = Arc::new(RunState::open(&options.state, options.acknowledged)?);
    let facts: Vec<StateFacts> = state.targets().cloned().collect();
    if let Some(target) = options.target.as_ref().filter(|_| facts.len() > 1) {
        let problem = format!("--target {target}: the run had {} targets", facts.len());
        return Err(
            Failure::new(problem).hint("leave it out: each target is checked at its address in the run")
        );
    }
    let (mut findings, mut total, mut target_states) =
        (Findings::default(), StateFigures::default(), Vec::new());
    let (mut unreadable, mut unanswered, mut is_stopped) = (None, None, false);
    for (number, facts) in facts.iter().enumerate() {
        let target = options.target.clone().unwrap_or_else(|| facts.address.clone());
        let results = PassResults::new(&state);
        let pass = match pass_until_stopped(session, options, (&state, number), &target, &results) {
            Ok(pass) => pass?,
            Err(Unanswered::NoThread(error)) => {
                return Err(Failure::from(error).context("no thread can be started"));
            }
            Err(Unanswered::Stopped | Unanswered::Late) => {
                let held = Failure::check(format!("interrupted, and `{target}` does not answer"));
                let is_of_kernel = TargetKind::of(&target).0.is_of_kernel();
                unanswered = Some(if is_of_kernel { held.hint(super::held_by_kernel()) } else { held });
                Pass { is_stopped: true, ..results.pass() }
            }
        };
        let figures = StateFigures {
            issued_writes: facts.writes,
            flushed: facts.has_flushed,
            required_blocks: pass.required_blocks,
            unreadable_blocks: pass.unreadable_blocks,
            first_unreadable_lbn: pass.first_unreadable,
        };
        if pass.unreadable_blocks > 0 {
            let blocks = counted(pass.unreadable_blocks, "block");
            unreadable.get_or_insert_with(|| Failure::check(format!("`{target}`: {blocks} cannot be read")));
        }
        total.add(&figures);
        let finding_blocks = pass.findings.count();
        target_states.push(TargetStateFigures { target, state: figures, finding_blocks });
        findings.add(pass.findings);
        is_stopped = pass.is_stopped;
        if is_stopped {
            break;
        }
    }
    let mut notes = Vec::new();
    if total.required_blocks == 0 && !is_stopped {
        notes.push(match (options.acknowledged, total.flushed) {
            (false, false) => {
                "no block was checked: no flush of the run completed, so nothing is required. --acknowledged requires every \
                 acknowledged write"
            }
            (false, true) => {
                "no block was checked: no write of the run was acknowledged before its last completed flush. --acknowledged \
                 requires every acknowledged write"
            }
            (true, _) => "no block was checked: no write of the run was acknowledged",
        }
        .to_owned());
    }
    let names: Vec<String> = target_states.iter().map(|of| of.target.clone()).collect();
    let names = VerifiedNames { targets: names, streams: state.streams().to_vec() };
    let figures = StateCheckFigures {
        target: names.targets.first().filter(|_| facts.len() == 1).cloned(),
        state: options.state.display().to_string(),
        required: if options.acknowledged { "acknowledged" } else { "flushed" },
        total,
        target_states,
        stopped: is_stopped,
        verification: VerificationFigures::of(&findings, &names),
        notes,
    };
    let stopped = unanswered.or_else(|| is_stopped.then(Failure::interrupted));
    let failure = verification::failure(&figures.verification).or(unreadable).or(stopped);
    let page = page(&figures, session);
    Ok(StateCheckResult { figures, page, failure })
}

impl StateFigures {
    /// Adds those of another target.
    fn add(&mut self, other: &Self) {
        self.issued_writes += other.issued_writes;
        self.flushed |= other.flushed;
        self.required_blocks += other.required_blocks;
        self.unreadable_blocks += other.unreadable_blocks;
        self.first_unreadable_lbn = self.first_unreadable_lbn.or(other.first_unreadable_lbn);
    }
}

/// Checks a target as [`pass`], on a thread of its own: what an end by the caller finds in a system call that hangs, is left there.
fn pass_until_stopped(
    session: &Session,
    options: &StateCheckOptions,
    (state, number): (&Arc<RunState>, usize),
    target: &str,
    results: &PassResults,
) -> Result<Result<Pass, Failure>, Unanswered> {
    let (session_of_pass, options, state) = (session.clone(), options.clone(), Arc::clone(state));
    let (target, results) = (target.to_owned(), results.clone());
    let work = move || pass(&session_of_pass, &options, (&state, number), &target, &results);
    answer::within(Patience::UNTIL_STOPPED, session.stop(), work)
}

/// Opens a target of the run at an address, and checks its blocks.
fn pass(
    session: &Session,
    options: &StateCheckOptions,
    state: (&RunState, usize),
    target: &str,
    results: &PassResults,
) -> Result<Pass, Failure> {
    let (kind, address) = TargetKind::of(target);
    let pass_options = PassOptions { acknowledged: options.acknowledged, ..PassOptions::default() };
    let (opened, pass_options) =
        open_for_pass((kind, address), !options.buffered, session.stop(), pass_options)?;
    let mut progress = session.working("checking the target");
    let step = &mut |_| progress.big_step().is_ok();
    Ok(verify_pass(state, (opened, target), &pass_options, results, step)?)
}

fn page(figures: &StateCheckFigures, session: &Session) -> Page {
    let total = &figures.total;
    let rows = [
        ("blocks with a required write", total.required_blocks.to_string()),
        ("blocks that cannot be read", total.unreadable_blocks.to_string()),
        ("writes that the run had issued", total.issued_writes.to_string()),
    ];
    let caption = match figures.required {
        "flushed" => "Required: writes that were acknowledged before the last completed flush.",
        _ => "Required: writes that were acknowledged.",
    };
    let mut tables = vec![PlainTable {
        columns: vec!["state".to_owned(), "value".to_owned()],
        rows: rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect(),
        caption: caption.to_owned(),
    }];
    if figures.target_states.len() > 1 {
        tables.push(target_table(&figures.target_states));
    }
    tables.extend(verification::tables(&figures.verification));
    let target = || counted(figures.target_states.len(), "target");
    Page {
        title: format!("{} against {}", figures.target.clone().unwrap_or_else(target), figures.state),
        subtitle: String::new(),
        generated_by: VERSION.to_owned(),
        command: session.command(),
        notes: figures.notes.clone(),
        sections: vec![PageSection { title: "Figures".to_owned(), tables, ..PageSection::default() }],
    }
}

/// A row for each target.
fn target_table(targets: &[TargetStateFigures]) -> PlainTable {
    let row = |of: &TargetStateFigures| {
        let counts =
            [of.state.required_blocks, of.state.unreadable_blocks, of.state.issued_writes, of.finding_blocks];
        [of.target.clone()].into_iter().chain(counts.map(|count| count.to_string())).collect()
    };
    let names = ["target", "required", "unreadable", "writes", "findings"];
    PlainTable {
        columns: names.map(str::to_owned).to_vec(),
        rows: targets.iter().map(row).collect(),
        caption:
            "Blocks with a required write, those of them that cannot be read, and those with other contents."
                .to_owned(),
    }
}
