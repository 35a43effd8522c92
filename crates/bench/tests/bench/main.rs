//! Measurements from outside: arrivals, figures, errors, hangs, streams, steady states, files, exports and leave to write.

mod arrivals;
mod claims;
mod comparisons;
mod emulated;
mod errors;
mod exports;
mod files;
mod hanging;
mod harness;
mod liar;
mod models;
mod stalls;
mod steady;
mod streams;
mod verification;
mod verified_streams;
