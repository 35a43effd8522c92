//! Everything a client could send to the NBD frontend, in any pieces.
//!
//! The first byte chooses the size of the pieces, and whether negotiation is left to chance or done.
#![no_main]

use std::sync::Arc;

use seeklab_core::Instant;
use seeklab_emulator::frontend::nbd::{Connection, Event, Export, Limits};
use seeklab_emulator::frontend::{Action, Content, Extent, Reply};

const SIZE: u64 = 1 << 20;
/// Client flags, structured replies, `base:allocation`, `NBD_OPT_GO`.
const NEGOTIATION: &[u8] = b"\0\0\0\x03\
    IHAVEOPT\0\0\0\x08\0\0\0\0\
    IHAVEOPT\0\0\0\x0a\0\0\0\x1b\0\0\0\0\0\0\0\x01\0\0\0\x0fbase:allocation\
    IHAVEOPT\0\0\0\x07\0\0\0\x06\0\0\0\0\0\0";

fn feed(connection: &mut Connection, mut bytes: &[u8], step: usize) {
    loop {
        let space = connection.space();
        let count = space.len().min(step).min(bytes.len());
        space[..count].copy_from_slice(&bytes[..count]);
        bytes = &bytes[count..];
        connection.received(count, Instant::default());
        let mut commands = Vec::new();
        while let Some(event) = connection.next_event() {
            let Event::Command(command) = event else { continue };
            assert!(command.offset_bytes + u64::from(command.length_bytes) <= SIZE);
            if let Action::Write(data) = command.action {
                assert_eq!(data.len(), command.length_bytes as usize);
            }
            let kind = match command.action {
                Action::Read => 0,
                Action::BlockStatus { .. } => 1,
                _ => 2,
            };
            commands.push((command.tag.command, kind, command.length_bytes));
        }
        let idle = commands.is_empty() && count == 0;
        for (index, kind, length_bytes) in commands.into_iter().rev() {
            let extents = [Extent { length_bytes, allocated: true, zero: false }];
            match kind {
                0 => connection.reply(index, Reply::Data(&mut |_| Ok(Content::Zeroes))),
                1 => connection.reply(index, Reply::Extents(&extents)),
                _ => connection.reply(index, Reply::Done),
            }
        }
        assert!(connection.buffered_bytes() <= 8 << 20, "memory follows what arrived");
        connection.consume_output(connection.output().len(), &mut |_| {});
        if idle && (bytes.is_empty() || !connection.is_stalled()) {
            return;
        }
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let limits = Limits { outstanding_max: 16, reply_bytes_max: 1 << 20, receive_bytes: 8192 };
    let mut connection = Connection::new(Arc::new(Export::new("disk", SIZE, 512)), limits, 0);
    if choice & 1 == 1 {
        feed(&mut connection, NEGOTIATION, usize::MAX);
    }
    feed(&mut connection, bytes, 1 << (choice >> 4));
});
