//! Synthetic workloads and replay for seeklab.
