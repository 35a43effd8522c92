//! Elapsed time of jobs that compute while their buffers are written or read [Lindsay & Ferrari 1975].
//!
//! A processor runs `M` jobs at a time. Each job fills output buffers and empties input buffers at a rate that depends
//! on the processor time it receives. When a buffer holds enough, the job calls the disk and goes on computing until
//! the buffer has no room. The equations give the elapsed time `R` of the whole stream of jobs.
//!
//! ```text
//!            (12)               figures 3, 4              (6)
//!   R, U ─────────▶ share r_e ─────────────▶ N, u ─▶ X, U ─────▶ R
//!    ▲                              ▲                       │
//!    │                              └── wait d ◀── (20, 22) ─┤
//!    └──────────────────────────────────────────────────────┘
//! ```
//!
//! # Symbols
//! | symbol | meaning | unit | where |
//! | --- | --- | --- | --- |
//! | `A` | access of a request: processor delay, seek, rotational latency | s | [`Parameters::access_s`] |
//! | `B`, `C` | buffer; sectors filled or free at which the disk is called | sectors | [`Parameters::buffer_sectors`], [`Parameters::threshold_sectors`] |
//! | `C_j`, `C_s` | processor time of all jobs, and of the system | s | [`Parameters::job_processor_s`], [`OperatingPoint::system_processor_s`] |
//! | `D`, `F`, `M` | drives, active files of one drive, active jobs | – | [`Parameters::drives`], [`Parameters::files_per_drive`], [`Parameters::multiprogramming`] |
//! | `NSECT` | sectors of all jobs | sectors | [`Parameters::sectors`] |
//! | `r_d` | transfer rate of a drive | sectors/s | [`Parameters::drive_rate_per_s`] |
//! | `r_k`, `f_k`, `N_MAX` | rate of state k per second of processor time, its share of the sectors, its residence | sectors/s, –, sectors | [`RateState`] |
//! | `r_e` | processor share of a job that is ready | – | [`OperatingPoint::processor_share`] |
//! | `N`, `u` | sectors of a request, and time that its job is blocked | sectors, s | [`Request`] |
//! | `X`, `T` | requests and transfer time of one drive | –, s | [`OperatingPoint::requests_per_drive`], [`Parameters::transfer_s`] |
//! | `q`, `d` | share of the time that a file is in use, mean wait in the queue of a drive | –, s | [`OperatingPoint::file_use`], [`OperatingPoint::wait_s`] |
//! | `R`, `U` | elapsed time; time that one job slot is blocked | s | [`OperatingPoint::elapsed_s`], [`OperatingPoint::blocked_s`] |
//!
//! # Two solutions
//! [`iterate`] is the published procedure (figure 5). It need not converge. [`solve`] brackets every unknown and always
//! ends. Where the equations have several solutions, it reports that.
//!
//! # Scope and limits
//! - Jobs are alike, and so are drives. `M` and `D` need not be whole numbers.
//! - The equations hold within some 3.5 % where the processor is the bottleneck. Elsewhere they are 6 to 22 % off on
//!   average. `docs/models/jobs.md` has the comparison with simulation.
//! - The readings of equations (9), (20) and (22), of the flowcharts, and of the poles are in `docs/models/jobs.md`.
//!
//! # References
//! [Lindsay & Ferrari 1975] D. S. Lindsay and D. Ferrari, *A Study in Operating System Performance Measurement and
//! Modeling*, Memorandum ERL-M550, University of California, Berkeley, 1975.

pub mod elapsed;
mod iteration;
mod parameters;
pub mod queue;
mod request;
mod root;
mod solution;
mod stream;

pub use iteration::{Iteration, iterate};
pub use parameters::{Parameters, RateState, Reactivation, SystemCalls, SystemTime, Transfers};
pub use request::Request;
pub use solution::{OperatingPoint, Solution, solve};
pub use stream::DriveTimes;
