//! Tests that workloads match their descriptions. One binary, a file per topic.

mod allocations;
mod applications;
mod arrivals;
mod bounds;
mod closed;
mod common;
mod descriptions;
mod draws;
mod host;
mod host_channels;
mod host_journal;
mod host_laws;
mod host_linux;
mod host_recorded;
mod jobs;
mod mistakes;
mod queueing;
mod reclassified;
mod replay;
mod streams;
