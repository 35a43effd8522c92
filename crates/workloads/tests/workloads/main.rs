//! Do workloads do what their descriptions say? One binary, a file per question.

mod arrivals;
mod bounds;
mod closed;
mod common;
mod descriptions;
mod draws;
mod mistakes;
mod queueing;
mod replay;
mod streams;
