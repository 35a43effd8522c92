//! Options of a host that sends failed requests again.

use clap::Args;
use seeklab_lab::crates::core::Duration;
use seeklab_lab::crates::workloads::Retries;

/// Options of a host that sends failed requests again.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct RetryFlags {
    /// Send a failed request again, up to N times. The workload is notified when an attempt is carried out, or when
    /// the last one fails [default: 0]
    #[arg(long, visible_alias = "retry", value_name = "N", default_value_t = 0, hide_default_value = true)]
    retries: u32,
    /// Time from a failure to the next attempt [default: 0s]
    #[arg(long, value_name = "TIME", requires = "retries", value_parser = parse_retry_after)]
    retry_after: Option<Duration>,
}

fn parse_retry_after(text: &str) -> Result<Duration, String> {
    match text.parse::<Duration>() {
        Ok(time) if time <= Retries::AFTER_MAX => Ok(time),
        Ok(_) => Err(format!("at most {} is allowed", Retries::AFTER_MAX)),
        Err(error) => Err(error.to_string()),
    }
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
