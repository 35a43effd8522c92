//! Bytes that no client would send: they never panic and never take more memory than they are worth.

use std::sync::Arc;

use proptest::prelude::*;
use seeklab_emulator::frontend::nbd::{Connection, Export, Limits};
use seeklab_emulator::frontend::{Content, Extent, Reply};

use crate::nbd::client;
use crate::nbd::protocol::{SIZE, Seen, feed, ready};

/// Lets `connection` eat everything and answers what it makes of it.
fn survive(mut connection: Connection, mut bytes: &[u8], step: usize) {
    loop {
        let (seen, used) = feed(&mut connection, bytes, step);
        bytes = &bytes[used..];
        let over = seen.is_empty() && used == 0;
        for seen in seen {
            let Seen::Command { index, command, offset, length, .. } = seen else { continue };
            assert!(offset + u64::from(length) <= SIZE && offset % 512 == 0 && length % 512 == 0);
            match command {
                client::READ => connection.reply(index, Reply::Data(&mut |_| Ok(Content::Zeroes))),
                client::BLOCK_STATUS => connection.reply(
                    index,
                    Reply::Extents(&[Extent { length_bytes: length, allocated: false, zero: true }]),
                ),
                _ => connection.reply(index, Reply::Done),
            }
        }
        assert!(connection.buffered_bytes() <= 8 << 20, "{}", connection.buffered_bytes());
        connection.consume_output(connection.output().len(), &mut |_| {});
        if over {
            return;
        }
    }
}

fn small(export: Export) -> Connection {
    Connection::new(
        Arc::new(export),
        Limits { outstanding_max: 8, reply_bytes_max: 1 << 20, receive_bytes: 4096 },
        7,
    )
}

/// Pieces of protocol, so that chance gets past the first magic number.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..80);
    prop_oneof![
        bytes(),
        (0..13u32, bytes()).prop_map(|(kind, data)| client::option(kind, &data)),
        (0..13u32, any::<u32>()).prop_map(|(kind, length)| {
            [&b"IHAVEOPT"[..], &kind.to_be_bytes(), &length.to_be_bytes()].concat()
        }),
        (6..11u32, ".{0,8}", "[a-z:]{0,16}")
            .prop_map(|(kind, name, query)| { client::option(kind, &client::contexts(&name, &[&query])) }),
        Just(client::negotiation("disk", true)[4..].to_vec()),
        (any::<u16>(), 0..10u16, any::<u64>(), any::<u32>(), bytes()).prop_map(
            |(flags, command, offset, length, payload)| {
                let request = client::Request { command, flags, cookie: offset, offset, length, payload };
                request.bytes()
            }
        ),
        (0..32u16, 0..9u16, 0..2100u64, 0..40u32).prop_map(|(flags, command, block, count)| {
            client::Request::new(command, block, block * 512, count * 512).flags(flags).bytes()
        }),
    ]
}

proptest! {
    #[test]
    fn arbitrary_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..2000), step in 1..500usize) {
        survive(small(crate::nbd::protocol::export()), &bytes, step);
        survive(ready(crate::nbd::protocol::export(), true), &bytes, step);
    }

    #[test]
    fn arbitrary_pieces(pieces in proptest::collection::vec(piece(), 0..30), step in 1..5000usize, flags in 0..4u32) {
        let bytes = [client::client_flags(flags), pieces.concat()].concat();
        survive(small(crate::nbd::protocol::export()), &bytes, step);
        survive(ready(crate::nbd::protocol::export(), flags & 1 == 1), &pieces.concat(), step);
    }
}

#[test]
fn an_announced_payload_takes_no_memory_until_it_comes() {
    let export = Export::new("disk", 1 << 30, 512);
    let mut connection = ready(export, true);
    let write = client::Request::new(client::WRITE, 1, 0, 32 << 20).bytes();
    feed(&mut connection, &write[..28], usize::MAX);
    assert!(connection.buffered_bytes() <= 1 << 20);
    feed(&mut connection, &write[28..1 << 20], usize::MAX);
    assert!(connection.buffered_bytes() <= 3 << 20);
    let (seen, _) = feed(&mut connection, &write[1 << 20..], usize::MAX);
    assert_eq!(seen.len(), 1);
    connection.reply(0, Reply::Done);
    feed(&mut connection, &client::Request::new(client::FLUSH, 1, 0, 0).bytes(), usize::MAX);
    assert!(connection.buffered_bytes() <= 3 << 20, "a large payload's memory is given back");
}
