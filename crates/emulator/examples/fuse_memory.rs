//! Serves memory through FUSE without any model: what the frontend alone can do.
//!
//! ```text
//! cargo run --release -p seeklab-emulator --example fuse_memory -- loop 1024
//! cargo run --release -p seeklab-emulator --example fuse_memory -- /some/empty/directory 1024
//! ```
//! The arguments are where (`loop` for a block device), the size in MiB and, optionally, a delay of every
//! command in microseconds. It prints the path and ends when its standard input does.

#[path = "../tests/emulator/nbd/memory.rs"]
mod memory;

use std::error::Error;
use std::io::Read;
use std::path::PathBuf;
use std::sync::mpsc;

use memory::{Memory, now};
use seeklab_core::Duration;
use seeklab_emulator::clock::{Clock, Pacing, Waiter};
use seeklab_emulator::frontend::fuse::{FILE_NAME, Place, Server};
use seeklab_emulator::frontend::loop_device::{LoopDevice, QueueOptions, Settings};
use seeklab_emulator::frontend::nbd::Export;
use seeklab_emulator::frontend::{Stop, serve};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [place, size_mib, rest @ ..] = arguments.as_slice() else {
        return Err("give `loop` or an empty directory, and a size in MiB".into());
    };
    let size_bytes = size_mib.parse::<usize>()? << 20;
    let delay = Duration::from_us(rest.first().map_or(Ok(0), |delay| delay.parse())?);
    let stop = Stop::new()?;
    let place = if place == "loop" { Place::Detached } else { Place::At(PathBuf::from(place)) };
    let (sender, receiver) = mpsc::channel();
    let serving = {
        let (place, stop) = (place.clone(), stop.clone());
        std::thread::spawn(move || -> std::io::Result<()> {
            let mut server = Server::mount(Export::new("", size_bytes as u64, 512), Box::new(now), &place)?;
            sender.send(server.detached_file()).expect("the main thread waits for it");
            let mut memory = Memory::new(size_bytes, delay);
            let mut waiter = Waiter::new(Clock::from_origin_ns(0), Pacing::Balanced, Duration::from_us(60));
            serve(&mut server, &mut memory, &mut waiter, &stop)
        })
    };
    let Ok(file) = receiver.recv() else {
        return Ok(serving.join().expect("the server does not panic")?);
    };
    let device = match (&place, file) {
        (Place::At(path), _) => {
            println!("{}", path.join(FILE_NAME).display());
            None
        }
        (Place::Detached, file) => {
            let queue = QueueOptions::of_device(false);
            let settings = Settings { block_size_bytes: 512, read_only: false, queue };
            let file = file.expect("a mount without a place has it");
            let device = LoopDevice::attach(&file, &settings)?;
            println!("{}", device.path().display());
            Some(device)
        }
    };
    std::io::stdin().read_to_end(&mut Vec::new())?;
    if device.is_some_and(|device| !device.detach()) {
        eprintln!("the block device is still used by somebody");
    }
    stop.stop();
    Ok(serving.join().expect("the server does not panic")?)
}
