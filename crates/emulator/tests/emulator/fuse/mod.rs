//! The FUSE frontend and the loop device over it: by messages, on real mounts, with file systems, in death.

mod block_device;
mod death;
mod file;
mod file_systems;
mod harness;
mod hostile;
mod kernel;
mod messages;
