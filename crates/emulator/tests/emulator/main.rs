//! The emulator from outside: its frontends, its pacer and its store.

mod fuse;
mod nbd;
mod pacer_allocations;
mod pacer_real_time;
mod store_contents;
mod store_survival;
