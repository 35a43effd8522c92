//! The delivery of results: stdout first, then the files. A result that cannot be written keeps no other back.

use std::path::Path;

use seeklab_lab::crates::files::write;
use seeklab_lab::failure::Failure;
use seeklab_lab::session::Session;

/// Results that are being written, and the failures so far.
#[derive(Debug)]
#[must_use = "the failures count when it is finished"]
pub(crate) struct Delivery<'a> {
    session: &'a Session,
    failures: Vec<Failure>,
}

impl<'a> Delivery<'a> {
    /// Begins with the results on stdout. A reader of stdout that has gone away, as `head` does, is no failure.
    pub(crate) fn of(session: &'a Session, printed: Result<(), Failure>) -> Self {
        let mut this = Self { session, failures: Vec::new() };
        this.add(printed.or_else(|failure| if failure.is_broken_pipe() { Ok(()) } else { Err(failure) }));
        this
    }

    /// Writes a file, if a path was given. The wait for the reader of a FIFO ends when the session is stopped.
    pub(crate) fn file(mut self, path: Option<&Path>, content: impl FnOnce() -> String) -> Self {
        if let Some(path) = path {
            let awaited = self.session.await_reader(path);
            let written = awaited.and_then(|_held| Ok(write(path, content().as_bytes())?));
            self.add(written);
        }
        self
    }

    /// Counts a result that was written elsewhere.
    pub(crate) fn and(mut self, result: Result<(), Failure>) -> Self {
        self.add(result);
        self
    }

    /// Ends the delivery.
    ///
    /// # Errors
    /// All failures in one.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        match Failure::all(self.failures) {
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    }

    fn add(&mut self, result: Result<(), Failure>) {
        self.failures.extend(result.err());
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn failed_write_keeps_no_other_result_back() {
        let folder = tempfile::tempdir().unwrap();
        let (full, whole) = (Path::new("/dev/full"), folder.path().join("report.html"));
        let session = Session::default();
        let failure = Delivery::of(&session, Err(Failure::new("stdout: no space")))
            .file(Some(full), || "x".to_owned())
            .file(Some(&whole), || "report".to_owned())
            .and(Err(Failure::check("a command failed")))
            .finish()
            .unwrap_err();
        assert_eq!(fs::read_to_string(&whole).unwrap(), "report");
        let text = failure.to_string();
        assert!(text.starts_with("stdout: no space\n"), "{text}");
        assert!(
            text.contains("/dev/full: cannot be written") && text.ends_with("a command failed"),
            "{text}"
        );
        assert_eq!(failure.exit_code(), 2);
    }
}
