//! Requests per second that one core decodes and answers, without any I/O.
//!
//! ```text
//! cargo run --release -p seeklab-emulator --example nbd_codec_rate
//! ```

use std::sync::Arc;

use seeklab_core::Instant;
use seeklab_emulator::frontend::nbd::{Connection, Event, Export, Limits};
use seeklab_emulator::frontend::{Action, Content, Reply};

const BATCH: u64 = 256;
const ROUNDS: u64 = 8192;

/// Client flags, structured replies, `NBD_OPT_GO` of the empty name.
fn negotiation() -> Vec<u8> {
    let mut bytes = 3u32.to_be_bytes().to_vec();
    for (option, data) in [(8u32, &[][..]), (7, &[0; 6])] {
        bytes.extend(0x4948_4156_454f_5054u64.to_be_bytes());
        bytes.extend(option.to_be_bytes());
        bytes.extend((data.len() as u32).to_be_bytes());
        bytes.extend(data);
    }
    bytes
}

fn batch(command: u16, length: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    for index in 0..BATCH {
        bytes.extend(0x2560_9513u32.to_be_bytes());
        bytes.extend(0u16.to_be_bytes());
        bytes.extend(command.to_be_bytes());
        bytes.extend(index.to_be_bytes());
        bytes.extend((index * u64::from(length)).to_be_bytes());
        bytes.extend(length.to_be_bytes());
        if command == 1 {
            bytes.resize(bytes.len() + length as usize, 7);
        }
    }
    bytes
}

/// `CLOCK_MONOTONIC`.
fn now() -> Instant {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Instant::from_ns(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

fn feed(connection: &mut Connection, mut bytes: &[u8], memory: &mut [u8]) {
    let mut commands = Vec::with_capacity(BATCH as usize);
    while !bytes.is_empty() {
        let space = connection.space();
        let count = space.len().min(bytes.len());
        space[..count].copy_from_slice(&bytes[..count]);
        bytes = &bytes[count..];
        connection.received(count, now());
        while let Some(event) = connection.next_event() {
            let Event::Command(command) = event else { panic!("{event:?}") };
            let offset = command.offset_bytes as usize;
            if let Action::Write(data) = command.action {
                memory[offset..offset + data.len()].copy_from_slice(data);
            }
            commands.push((command.tag, command.action == Action::Read, offset));
        }
        for (tag, reads, offset) in commands.drain(..) {
            let mut fill = |buffer: &mut [u8]| {
                buffer.copy_from_slice(&memory[offset..offset + buffer.len()]);
                Ok(Content::Data)
            };
            connection.reply(tag.command, if reads { Reply::Data(&mut fill) } else { Reply::Done });
        }
        connection.consume_output(connection.output().len(), &mut |_| {});
    }
}

fn main() {
    for (name, command, length) in
        [("read 512 B", 0, 512), ("read 4 KiB", 0, 4096), ("write 512 B", 1, 512), ("write 4 KiB", 1, 4096)]
    {
        let export = Export::new("", BATCH * u64::from(length), 512);
        let mut memory = vec![0; export.size_bytes as usize];
        let mut connection = Connection::new(Arc::new(export), Limits::default(), 0);
        feed(&mut connection, &negotiation(), &mut memory);
        let batch = batch(command, length);
        let start = now();
        for _ in 0..ROUNDS {
            feed(&mut connection, &batch, &mut memory);
        }
        let elapsed = now().saturating_since(start);
        let rate = (BATCH * ROUNDS) as f64 / (elapsed.as_ms() / 1e3);
        println!("{name:12} {:6.2} M requests/s", rate / 1e6);
    }
}
