//! Everything that could be read from /dev/fuse: nothing panics, every answer is one that the kernel takes.
//!
//! The bytes are cut into messages by a length of two bytes before each; the first byte says whether INIT has
//! gone before, and whether the headers are made right.
#![no_main]

use seeklab_core::Instant;
use seeklab_emulator::frontend::fuse::{Connection, Owner};
use seeklab_emulator::frontend::nbd::Export;
use seeklab_emulator::frontend::{Action, Command, Content, Extent, Reply};

const SIZE: u64 = 1 << 20;
const IN_HEADER_SIZE: usize = 40;

fn init() -> Vec<u8> {
    let mut bytes = vec![0; IN_HEADER_SIZE + 64];
    for (at, number) in [(0, 104), (4, 26), (40, 7), (44, 40), (52, u32::MAX)] {
        bytes[at..at + 4].copy_from_slice(&u32::to_ne_bytes(number));
    }
    bytes
}

fn look(command: Option<Command<'_>>) -> Option<(u32, u32, u32)> {
    let Command { tag, offset_bytes, length_bytes, action, .. } = command?;
    assert!(offset_bytes + u64::from(length_bytes) <= SIZE);
    assert!(offset_bytes % 512 == 0 && length_bytes % 512 == 0);
    let kind = match action {
        Action::Read => 0,
        Action::BlockStatus { .. } => 1,
        Action::Write(data) => {
            assert_eq!(data.len(), length_bytes as usize);
            2
        }
        _ => 2,
    };
    Some((tag.command, kind, length_bytes))
}

fn settle(connection: &mut Connection, (command, kind, length_bytes): (u32, u32, u32)) {
    let extents = [Extent { length_bytes, allocated: length_bytes % 1024 == 0, zero: false }];
    match kind {
        0 => connection.reply(command, Reply::Data(&mut |_| Ok(Content::Zeroes))),
        1 => connection.reply(command, Reply::Extents(&extents)),
        _ => connection.reply(command, Reply::Done),
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((choice, mut bytes)) = bytes.split_first() else { return };
    let mut connection = Connection::new(Export::new("", SIZE, 512), Owner { uid: 0, gid: 0 });
    if choice & 1 == 1 {
        assert!(connection.receive(&init(), Instant::ZERO).is_none());
    }
    while let Some((length, rest)) = bytes.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
        let mut message = rest[..length].to_vec();
        bytes = &rest[length..];
        if choice & 2 == 2 && length >= IN_HEADER_SIZE {
            let operation = u32::from(message[4]) % 64;
            message[..4].copy_from_slice(&(length as u32).to_ne_bytes());
            message[4..8].copy_from_slice(&operation.to_ne_bytes());
            let node = u64::from(message[16] % 4);
            message[16..24].copy_from_slice(&node.to_ne_bytes());
        }
        // Replies come last first, several together.
        let mut outstanding = Vec::new();
        outstanding.extend(look(connection.receive(&message, Instant::ZERO)));
        loop {
            outstanding.extend(look(connection.next_piece(Instant::ZERO)));
            let Some(last) = outstanding.pop() else { break };
            settle(&mut connection, last);
        }
        for (_, answer) in connection.messages().filter(|(_, answer)| !answer.is_empty()) {
            let number = |at: usize| i32::from_ne_bytes(answer[at..at + 4].try_into().expect("four bytes"));
            assert_eq!(number(0) as usize, answer.len());
            assert!((-999..=0).contains(&number(4)) && (number(4) == 0 || answer.len() == 16));
        }
        connection.clear();
        assert_eq!(connection.outstanding(), 0);
        assert!(connection.buffered_bytes() <= 4 << 20, "memory exceeds the requested data");
    }
});
