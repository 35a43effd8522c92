//! Tests of estimates over random parameters, and against simulation.

mod growth;
mod job_slot;
mod jobs;
mod lindsay_ferrari;
mod loads;
mod measured_jobs;
mod octave;
mod published_assumptions;
mod random_jobs;
mod traces;
