//! The page of measurements that a browser opens, as a document.

use schemars::JsonSchema;
use serde::Serialize;

/// Address of the page of measurements, when clients can connect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BenchPage {
    /// URL of the page, with the token without which the server refuses every request.
    pub url: String,
    /// URL of the figures for Prometheus, without a token.
    pub metrics_url: String,
    /// Address that the server listens on.
    pub address: String,
    /// Port that the server listens on.
    pub port: u16,
    /// Folder of the runs.
    pub runs: String,
}
