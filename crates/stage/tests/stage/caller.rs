//! A program that opens a stage, as the `seeklab` command does. Tests send it signals and input, and kill it.
//!
//! `caller MARK MODE LINE...`: makes a loop device and ext4 on it, runs each line as a phase, prints each
//! result as a line of JSON and the number of processes of the stage that remain when it has ended.

use std::process::ExitCode;

use seeklab_stage::{Account, Error, FileSystem, Output, Stage, Stop};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::endings::children_called;
use crate::fixture::{Loop, options, shell};

pub(crate) const CALLER: &str = "caller";

pub(crate) fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(2).collect();
    let [mark, mode, lines @ ..] = arguments.as_slice() else { return ExitCode::from(2) };
    let stop = Stop::new();
    let handler = stop.clone();
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP]).unwrap();
    std::thread::spawn(move || signals.forever().for_each(|_| handler.stop()));
    let device = Loop::new(32, mark);
    println!("ready");
    let mut options = options(&device, FileSystem::Ext4);
    options.output = if mode == "stdout" { Output::Stdout } else { Output::Stderr };
    options.grace = seeklab_core::Duration::from_ms(100);
    options.account = Account::for_command(None).unwrap();
    if mode == "deaf" {
        #[expect(unsafe_code, reason = "there is no safe way to ignore a signal")]
        // SAFETY: no handler is installed, and none is replaced.
        unsafe { nix::sys::signal::signal(nix::sys::signal::SIGCHLD, nix::sys::signal::SigHandler::SigIgn) }
            .unwrap();
    }
    let mut stage = Stage::open(&options, &stop).unwrap();
    stage.make_file_system().unwrap();
    for line in lines {
        match stage.run_phase(&shell(line)) {
            Ok(result) => println!("{}", serde_json::to_string(&result).unwrap()),
            Err(Error::Stopped) => println!("\"stopped\""),
            Err(error) => panic!("{error}"),
        }
    }
    if mode == "drop" {
        drop(stage)
    } else {
        stage.end().unwrap()
    }
    println!("{} children", children_called("seeklab-stage").len());
    ExitCode::SUCCESS
}
