//! The `seeklab` command: parses the arguments, runs a verb and prints the failure.

mod completion;
mod delivery;
mod output;
mod signals;
mod standard_input;
mod supervisor;
mod terminal;
mod verbs;

use std::process::ExitCode;
use std::sync::Arc;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};
use clap_complete::CompleteEnv;

use output::command_line;
use seeklab_lab::crates::core::Duration;
use seeklab_lab::failure::Failure;
use seeklab_lab::fio_words;
use seeklab_lab::session::Session;
use seeklab_lab::stop::Stop;
use supervisor::Measuring;
use terminal::{Terminal, tell};
use verbs::Command;

/// Runs your software on any disk, real, cloned, failing or not yet invented, and states how far to trust the result.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true, max_term_width = 100, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Show neither progress nor remarks, only results, warnings and errors
    #[arg(long, short = 'q', global = true)]
    quiet: bool,
}

const EXAMPLES: &str = "\
Examples:
  seeklab devices
  seeklab simulate atlas10k cheetah9lp --workload random,poisson=60/s --report report.html
  seeklab compare measured.csv simulated.parquet
  seeklab run cheetah-36es --compare immediate -- tar xf ~/linux.tar

Exit codes: 0 done, 1 ran but a check failed, 2 usage or failure.";

fn main() -> ExitCode {
    seeklab_lab::crates::stage::run_if_inside();
    // Ends the process if the shell asks for completions.
    CompleteEnv::with_factory(Arguments::command).complete();
    let measuring = match signals::survive_file_size_limit().and_then(|()| Measuring::of_this_process()) {
        Ok(measuring) => measuring,
        Err(failure) => {
            tell(&message(&failure));
            return ExitCode::from(failure.exit_code());
        }
    };
    let words = std::env::args_os().take(1).chain(supervisor::arguments());
    let arguments = match Arguments::try_parse_from(words) {
        Ok(arguments) => arguments,
        Err(error) => {
            let asked_for = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            let _ = error.print();
            if let Some(hint) = stray_time(std::env::args()).or_else(|| word_of_fio(&error)) {
                tell(&format!("hint: {hint}\n"));
            }
            return if asked_for { ExitCode::SUCCESS } else { ExitCode::from(2) };
        }
    };
    if measuring.is_none()
        && arguments.command.can_be_held()
        && let Some(code) = supervisor::supervise()
    {
        return code;
    }
    let terminal = Terminal { is_quiet: arguments.quiet };
    let stop = Stop::new();
    let session = Session::new(Arc::new(terminal), stop.clone()).with_command(command_line());
    let (signalled, measured) = (session.clone(), measuring.clone());
    let signals_to_end = if arguments.command.only_computes() { 1 } else { 2 };
    let act = move || {
        stop.stop();
        // The first signal ends the work in order. What waits for a pipe, or computes on, does not notice it.
        if stop.requests() >= signals_to_end && signalled.holds_nothing() {
            let failure = Failure::interrupted();
            tell(&message(&failure));
            measured.iter().for_each(|measured| measured.report_is_out(failure.exit_code()));
            signal_hook::low_level::exit(failure.exit_code().into());
        }
    };
    let caught = match &measuring {
        Some(measuring) => measuring.on_signal(act),
        None => signals::on_signal(act),
    };
    let code = match caught.and_then(|()| arguments.command.run(&session)) {
        Ok(()) => 0,
        // Whoever reads our output has read enough, as `head` does.
        Err(failure) if failure.is_broken_pipe() => 0,
        Err(failure) => {
            tell(&message(&failure));
            failure.exit_code()
        }
    };
    measuring.iter().for_each(|measuring| measuring.report_is_out(code));
    // The kernel may take its time, or never return.
    session.let_go();
    ExitCode::from(code)
}

/// Advice on a time behind `--think`, which takes none.
fn stray_time(mut arguments: impl Iterator<Item = String>) -> Option<String> {
    arguments.find(|argument| argument == "--think")?;
    let value = arguments.next()?;
    value.parse::<Duration>().ok()?;
    Some(format!(
        "--think takes the think times of a trace; write think={value} in the line of the workload, as in \
         random,size=4KiB,closed=4,think={value}"
    ))
}

/// Advice on an option of fio behind `bench`.
fn word_of_fio(error: &clap::Error) -> Option<String> {
    let is_unknown = error.kind() == ErrorKind::UnknownArgument;
    let is_bench = std::env::args().nth(1).is_some_and(|verb| verb == "bench");
    match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(option)) if is_unknown && is_bench => fio_words::advice(option),
        _ => None,
    }
}

/// A failure and its advice.
fn message(failure: &Failure) -> String {
    let hint = failure.advice().map_or_else(String::new, |hint| format!("\nhint: {hint}\n"));
    format!("error: {failure}\n{hint}")
}
