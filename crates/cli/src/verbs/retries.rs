//! Options of a host that sends failed requests again.

use clap::Args;
use seeklab_lab::crates::core::Duration;
use seeklab_lab::crates::workloads::Retries;

/// Options of a host that sends failed requests again.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct RetryFlags {
    /// Send a failed request again, up to N times. The workload is notified when an attempt is carried out, or when
    /// the last one fails [default: 0]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    retries: u32,
    /// Time from a failure to the next attempt [default: 0s]
    #[arg(long, value_name = "TIME", requires = "retries")]
    retry_after: Option<Duration>,
}

impl RetryFlags {
    /// Returns the attempts that the options allow.
    pub(crate) fn retries(self) -> Retries {
        Retries { count: self.retries, after: self.retry_after.unwrap_or(Duration::ZERO) }
    }

    /// Returns true if failed requests are sent again.
    pub(crate) const fn is_given(self) -> bool {
        self.retries > 0 || self.retry_after.is_some()
    }
}
