//! Checks a target against the state that a measurement with verification kept in a file.

use std::path::PathBuf;

use schemars::JsonSchema;
use seeklab_bench::WriteData;
use seeklab_bench::target::{Opening, Polling, TargetKind, TargetOptions};
use seeklab_bench::verify::{PassOptions, RunState, verify_pass};
use seeklab_emulator::clock::{Clock, Pacing};
use seeklab_report::{Page, PageSection, PlainTable};
use serde::Serialize;

use super::verification::{self, VerificationFigures};
use crate::failure::Failure;
use crate::output::{VERSION, counted};
use crate::session::Session;

/// Options of a check.
#[derive(Debug, Clone)]
pub struct StateCheckOptions {
    /// The state file.
    pub state: PathBuf,
    /// Address of the target [default: that of the run].
    pub target: Option<String>,
    /// Require every acknowledged write, not only those before the last completed flush.
    pub acknowledged: bool,
    /// Go through the page cache.
    pub buffered: bool,
}

/// Figures of a check.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StateCheckFigures {
    /// Target.
    pub target: String,
    /// State file.
    pub state: String,
    /// Required writes: `flushed`, those before the last completed flush, or `acknowledged`.
    pub required: &'static str,
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
    /// True if the caller stopped the check.
    pub stopped: bool,
    /// Findings.
    #[serde(flatten)]
    pub verification: VerificationFigures,
    /// Notes for people.
    pub notes: Vec<String>,
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
/// If the state or the target cannot be opened, or the target fails as a whole.
pub fn check_state(session: &Session, options: &StateCheckOptions) -> Result<StateCheckResult, Failure> {
    let state = RunState::open(&options.state, options.acknowledged)?;
    let facts = state.facts().clone();
    let target = options.target.clone().unwrap_or_else(|| facts.address.clone());
    let (kind, address) = TargetKind::of(&target);
    let pass_options = PassOptions { acknowledged: options.acknowledged, ..PassOptions::default() };
    let target_options = TargetOptions {
        outstanding_max: pass_options.outstanding,
        direct: !options.buffered,
        polling: Polling::default(),
        prepared_bytes: pass_options.read_bytes as usize,
        reads: true,
        writes: false,
        data: WriteData::default(),
        priority: None,
        seed: 0,
        pacing: Pacing::default(),
    };
    let device = |_: &str| Err("a model carries no data".to_owned());
    let is_stopped = || session.stop().is_stopped();
    let emulated = |_: &str| Err("an emulated device in this process carries no data".to_owned());
    let opening = Opening {
        clock: Clock::start(),
        options: &target_options,
        model: &device,
        emulated: &emulated,
        is_stopped: &is_stopped,
    };
    let opened = (kind.open)(address, &opening)?;
    let most = opened.facts().limits.request_bytes_max;
    let most = most.and_then(|most| u32::try_from(most).ok()).unwrap_or(u32::MAX);
    let pass_options = PassOptions { read_bytes: pass_options.read_bytes.min(most), ..pass_options };
    let mut progress = session.working("checking the target");
    let mut stop = Ok(());
    let pass = verify_pass(&state, (opened, &target), &pass_options, &mut |_| {
        stop = progress.big_step();
        stop.is_ok()
    })?;
    let mut notes = Vec::new();
    if !options.acknowledged && !facts.has_flushed && pass.required_blocks == 0 {
        notes.push(
            "no flush of the run completed, so nothing is required: --acknowledged requires every acknowledged write"
                .to_owned(),
        );
    }
    let figures = StateCheckFigures {
        target: target.clone(),
        state: options.state.display().to_string(),
        required: if options.acknowledged { "acknowledged" } else { "flushed" },
        issued_writes: facts.writes,
        flushed: facts.has_flushed,
        required_blocks: pass.required_blocks,
        unreadable_blocks: pass.unreadable_blocks,
        first_unreadable_lbn: pass.first_unreadable,
        stopped: pass.is_stopped,
        verification: VerificationFigures::from(&pass.findings),
        notes,
    };
    let unreadable = (pass.unreadable_blocks > 0).then(|| {
        let blocks = counted(pass.unreadable_blocks as usize, "block");
        Failure::check(format!("`{target}`: {blocks} cannot be read"))
    });
    let stopped = pass.is_stopped.then(Failure::interrupted);
    let failure = verification::failure(&target, &pass.findings).or(unreadable).or(stopped);
    let page = page(&figures, session);
    Ok(StateCheckResult { figures, page, failure })
}

fn page(figures: &StateCheckFigures, session: &Session) -> Page {
    let rows = [
        ("blocks with a required write", figures.required_blocks.to_string()),
        ("blocks that cannot be read", figures.unreadable_blocks.to_string()),
        ("writes that the run had issued", figures.issued_writes.to_string()),
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
    tables.extend(verification::tables(&figures.verification));
    Page {
        title: format!("{} against {}", figures.target, figures.state),
        subtitle: String::new(),
        generated_by: VERSION.to_owned(),
        command: session.command(),
        notes: figures.notes.clone(),
        sections: vec![PageSection { title: "Figures".to_owned(), tables, ..PageSection::default() }],
    }
}
