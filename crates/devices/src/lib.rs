//! Device models, schedulers and layers of seeklab.
