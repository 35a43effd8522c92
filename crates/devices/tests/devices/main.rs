//! Device models, layers and schedulers: contract, laws and reference data.

mod allocations;
mod clones;
mod contract;
mod data_faults;
mod description_fuzz;
mod drives;
mod durability;
mod fault_contract;
mod faults;
mod laws;
mod layouts;
mod measured;
mod measured_buffers;
mod measured_page;
mod measured_relations;
mod mechanics;
mod page;
mod reclassified;
mod reclassified_schedules;
mod schedules;
mod sequential;
mod shared;
mod torn_units;
mod validated;
mod walked_layout;
mod written;
