//! Device models, layers and schedulers: contract, laws and reference data.

mod allocations;
mod clones;
mod contract;
mod description_fuzz;
mod drives;
mod laws;
mod layouts;
mod measured;
mod measured_atlas10k;
mod measured_seagate;
mod mechanics;
mod schedules;
mod sequential;
mod shared;
mod validated;
mod walked_layout;
mod written;
