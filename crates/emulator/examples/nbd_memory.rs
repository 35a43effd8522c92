//! Serves memory over NBD without any model: what the frontend alone can do.
//!
//! ```text
//! cargo run --release -p seeklab-emulator --example nbd_memory -- unix:/tmp/memory.sock 1024
//! ```
//! The arguments are the address, the size in MiB and, optionally, a delay of every command in
//! microseconds.

#[path = "../tests/nbd/memory.rs"]
mod memory;

use std::error::Error;

use memory::{Memory, now};
use seeklab_core::Duration;
use seeklab_emulator::clock::{Clock, Pacing, Waiter};
use seeklab_emulator::frontend::nbd::{Export, Server, ServerOptions};
use seeklab_emulator::frontend::{Stop, serve};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, size_mib, rest @ ..] = arguments.as_slice() else {
        return Err("give an address, for example unix:/tmp/memory.sock, and a size in MiB".into());
    };
    let size_bytes = size_mib.parse::<usize>()? << 20;
    let delay = Duration::from_us(rest.first().map_or(Ok(0), |delay| delay.parse())?);
    let export = Export::new("", size_bytes as u64, 512);
    let mut server = Server::bind(&address.parse()?, export, ServerOptions::default(), Box::new(now))?;
    println!("{}", server.uri());
    let mut memory = Memory::new(size_bytes, delay);
    let mut waiter = Waiter::new(Clock::from_origin_ns(0), Pacing::Balanced, Duration::from_us(60));
    serve(&mut server, &mut memory, &mut waiter, &Stop::new()?)?;
    Ok(())
}
