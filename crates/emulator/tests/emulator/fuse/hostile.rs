//! Messages that no kernel sends: nothing panics, every answer is one that a kernel takes.

use proptest::collection::vec;
use proptest::prelude::*;
use seeklab_core::Instant;
use seeklab_emulator::frontend::fuse::{Connection, Owner};
use seeklab_emulator::frontend::nbd::Export;
use seeklab_emulator::frontend::{Action, Command, Content, Extent, Reply};

use crate::fuse::kernel::{answers, init, message};

const SIZE: u64 = 1 << 20;

/// Returns the number, kind and length of a command.
fn look(command: Option<Command<'_>>) -> Option<(u32, char, u32)> {
    let Command { tag, offset_bytes, length_bytes, action, .. } = command?;
    assert!(offset_bytes % 512 == 0 && length_bytes % 512 == 0);
    assert!(offset_bytes + u64::from(length_bytes) <= SIZE);
    let kind = match action {
        Action::Read => 'r',
        Action::BlockStatus { .. } => 'b',
        Action::Write(data) => {
            assert_eq!(data.len(), length_bytes as usize);
            'w'
        }
        _ => 'o',
    };
    Some((tag.command, kind, length_bytes))
}

/// Replies to a command, if there is one.
fn settle(connection: &mut Connection, looked: Option<(u32, char, u32)>) -> bool {
    let Some((command, kind, length_bytes)) = looked else { return false };
    let extents = [Extent { length_bytes, allocated: length_bytes % 1024 == 0, zero: false }];
    match kind {
        'r' => connection.reply(command, Reply::Data(&mut |_| Ok(Content::Zeroes))),
        'b' => connection.reply(command, Reply::Extents(&extents)),
        _ => connection.reply(command, Reply::Done),
    }
    true
}

fn arguments() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        0..8u64,
        Just(SIZE),
        Just(u64::MAX),
        (0..4096u64).prop_map(|block| block * 512),
        any::<u64>()
    ];
    (vec(word, 0..8), vec(any::<u8>(), 0..2000))
        .prop_map(|(words, rest)| words.into_iter().flat_map(u64::to_ne_bytes).chain(rest).collect())
}

proptest! {
    #[test]
    fn any_message_is_survived_and_answered_at_most_once(
        messages in vec((0..60u32, any::<u64>(), 0..4u64, arguments(), any::<bool>(), 0..64usize), 1..20),
        greeted in any::<bool>(),
    ) {
        let mut connection = Connection::new(Export::new("", SIZE, 512), Owner { uid: 0, gid: 0 });
        if greeted {
            connection.receive(&init(7, 40), Instant::ZERO);
            answers(&mut connection);
        }
        for (opcode, unique, node, arguments, truncated, cut) in messages {
            let mut bytes = message(opcode, unique, node, &arguments);
            if truncated {
                bytes.truncate(bytes.len() - cut.min(bytes.len()));
            }
            let looked = look(connection.receive(&bytes, Instant::ZERO));
            settle(&mut connection, looked);
            let mut pieces = 0;
            loop {
                let looked = look(connection.next_piece(Instant::ZERO));
                if !settle(&mut connection, looked) {
                    break;
                }
                pieces += 1;
                prop_assert!(pieces < 4, "the device is small");
            }
            let answers = answers(&mut connection);
            prop_assert!(answers.len() <= 1, "{answers:?}");
            prop_assert!(answers.iter().all(|answer| answer.unique == unique));
            prop_assert!(truncated || !answers.is_empty() || [2, 36, 41, 42].contains(&opcode));
            prop_assert_eq!(connection.outstanding(), 0);
            prop_assert!(connection.buffered_bytes() <= 4 << 20);
        }
    }
}
