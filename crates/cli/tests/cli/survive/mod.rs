//! `seeklab serve` and `seeklab run` from outside, as users treat them: killed, cut off, filled up, traced.

#[path = "../../../../emulator/tests/emulator/nbd/client.rs"]
#[expect(dead_code, reason = "it is shared with the server's own tests, which use all of it")]
pub(crate) mod client;
mod crash;
mod durable;
mod errors;
mod examples;
pub(crate) mod harness;
mod limits;
mod off;
mod power;
mod run;
mod served;
mod signals;
mod simulated;
mod spoilt;
mod system_run;

pub(crate) use harness::can_mount;
