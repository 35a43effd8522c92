//! The stage on real loop devices: commands, their ends, and no leftovers.
//!
//! Needs root and loop devices. Otherwise the tests print a note and are skipped. The test program is the
//! caller itself, so it has a `main` of its own: the stage executes it again, and the tests kill [`caller`].

#[cfg(target_os = "linux")]
mod caller;
#[cfg(target_os = "linux")]
mod endings;
#[cfg(target_os = "linux")]
mod fixture;
#[cfg(target_os = "linux")]
mod limits;
#[cfg(target_os = "linux")]
mod phases;

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("skipped: stages need Linux");
}

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    use libtest_mimic::{Arguments, Trial};

    seeklab_stage::run_if_inside();
    if std::env::args().nth(1).as_deref() == Some(caller::CALLER) {
        return caller::main();
    }
    let skip = fixture::reason_to_skip();
    if let Some(reason) = &skip {
        eprintln!("skipped: {reason}");
    }
    let tests: Vec<Trial> = phases::tests()
        .into_iter()
        .chain(endings::tests())
        .chain(limits::tests())
        .map(|test| {
            let is_ignored = skip.is_some() || test.has_ignored_flag();
            test.with_ignored_flag(is_ignored)
        })
        .collect();
    libtest_mimic::run(&Arguments::from_args(), tests).exit_code()
}
