//! Trace formats, sources and live capture, through the public interface of the crate.

mod any_points;
mod binary;
#[cfg(target_os = "linux")]
mod capture;
#[cfg(target_os = "linux")]
mod capture_matching;
mod confusion;
mod decorated;
mod malformed;
mod malformed_text;
mod properties;
mod rounding;
mod roundtrip_text;
mod samples;
mod samples_text;
mod shared;
mod shared_binary;
mod shared_survey;
mod shared_text;
mod system_tables;
mod variants;
