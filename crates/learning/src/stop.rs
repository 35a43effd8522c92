//! End of a fit before it is done.

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, ErrorKind};

/// Steps of a long loop between two looks at a stop.
const STEPS: usize = 1_024;

/// A question to the caller, which a long fit repeats [default: never stopped].
#[derive(Clone, Default)]
pub struct StopCheck(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl fmt::Debug for StopCheck {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_tuple("StopCheck").field(&self.0.is_some()).finish()
    }
}

impl StopCheck {
    /// A check that calls `is_stopped`.
    pub fn new(is_stopped: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(is_stopped)))
    }

    /// Fails if the caller stopped the fit.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match &self.0 {
            Some(is_stopped) if is_stopped() => Err(Error::new(ErrorKind::Interrupted, "interrupted")),
            _ => Ok(()),
        }
    }

    /// The same, now and then in a loop whose step this is.
    pub(crate) fn check_at(&self, step: usize) -> Result<(), Error> {
        if step.is_multiple_of(STEPS) { self.check() } else { Ok(()) }
    }
}
