//! Negotiation and requests, bytes against bytes, without sockets.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use seeklab_core::Instant;
use seeklab_emulator::frontend::nbd::{Connection, Event, Export, Limits, Violation};
use seeklab_emulator::frontend::{Action, Content, ErrorCode, Extent, Fill, Reply as Answer};

use crate::nbd::client::{self, Reply, Request};

pub(crate) const SIZE: u64 = 1 << 20;

pub(crate) fn export() -> Export {
    let mut export = Export::new("disk", SIZE, 512);
    export.description = "a test".to_owned();
    export
}

fn connection(export: Export) -> Connection {
    Connection::new(Arc::new(export), Limits::default(), 7)
}

/// Event without its borrow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Seen {
    Command { index: u32, command: u16, offset: u64, length: u32, fua: bool, data: Vec<u8>, flag: bool },
    Disconnected,
    ProtocolError(Violation),
}

/// Puts in bytes, at most `step` at a time, and takes all events that do not have to wait for replies.
pub(crate) fn feed(connection: &mut Connection, bytes: &[u8], step: usize) -> (Vec<Seen>, usize) {
    let (mut seen, mut used) = (events(connection), 0);
    while used < bytes.len() && connection.wants_input() {
        let space = connection.space();
        assert!(!space.is_empty(), "a connection that wants input has room for it");
        let count = space.len().min(step).min(bytes.len() - used);
        space[..count].copy_from_slice(&bytes[used..used + count]);
        connection.received(count, Instant::from_ns(5));
        used += count;
        seen.extend(events(connection));
    }
    (seen, used)
}

fn events(connection: &mut Connection) -> Vec<Seen> {
    let mut seen = Vec::new();
    while let Some(event) = connection.next_event() {
        seen.push(match event {
            Event::Disconnected => Seen::Disconnected,
            Event::ProtocolError(violation) => Seen::ProtocolError(violation),
            Event::Command(command) => {
                assert_eq!((command.tag.client, command.arrived), (7, Instant::from_ns(5)));
                let (number, data, flag) = match command.action {
                    Action::Read => (client::READ, Vec::new(), false),
                    Action::Write(data) => (client::WRITE, data.to_vec(), false),
                    Action::Flush => (client::FLUSH, Vec::new(), false),
                    Action::Discard => (client::TRIM, Vec::new(), false),
                    Action::WriteZeroes { may_discard } => (client::WRITE_ZEROES, Vec::new(), may_discard),
                    Action::BlockStatus { single } => (client::BLOCK_STATUS, Vec::new(), single),
                };
                Seen::Command {
                    index: command.tag.command,
                    command: number,
                    offset: command.offset_bytes,
                    length: command.length_bytes,
                    fua: command.fua,
                    data,
                    flag,
                }
            }
        });
    }
    seen
}

fn output(connection: &mut Connection) -> Vec<u8> {
    let bytes = connection.output().to_vec();
    connection.consume_output(bytes.len(), &mut |_| {});
    bytes
}

/// A connection past negotiation.
pub(crate) fn ready(export: Export, structured: bool) -> Connection {
    let mut connection = connection(export);
    assert_eq!(feed(&mut connection, &client::negotiation("disk", structured), usize::MAX).0, []);
    assert!(!output(&mut connection).is_empty());
    connection
}

/// Answers to options after the greeting.
fn haggle(export: Export, options: &[Vec<u8>]) -> (Vec<(u32, u32, Vec<u8>)>, Vec<Seen>) {
    let mut connection = connection(export);
    let mut bytes = client::client_flags(3);
    bytes.extend(options.concat());
    let (seen, _) = feed(&mut connection, &bytes, 3);
    let output = output(&mut connection);
    assert_eq!(&output[..18], b"NBDMAGICIHAVEOPT\0\x03");
    let mut rest = &output[18..];
    let mut replies = Vec::new();
    while let Some(reply) = client::decode_option_reply(&mut rest) {
        replies.push((reply.option, reply.kind, reply.data));
    }
    assert!(rest.is_empty(), "option replies come whole");
    (replies, seen)
}

const UNSUPPORTED: u32 = 0x8000_0001;
const INVALID: u32 = 0x8000_0003;
const UNKNOWN: u32 = 0x8000_0006;
const TOO_BIG: u32 = 0x8000_0009;

#[test]
fn options_are_answered_as_specified() {
    use client::{contexts, information, option};
    let structured = option(client::OPTION_STRUCTURED, &[]);
    for (name, options, kinds) in [
        ("list", vec![option(client::OPTION_LIST, &[])], vec![2, 1]),
        ("list with data", vec![option(client::OPTION_LIST, b"x")], vec![INVALID]),
        ("TLS", vec![option(client::OPTION_STARTTLS, &[])], vec![UNSUPPORTED]),
        ("extended headers", vec![option(11, &[])], vec![UNSUPPORTED]),
        ("from the future", vec![option(4711, &[9; 300])], vec![UNSUPPORTED]),
        ("peek", vec![option(4, &[])], vec![UNSUPPORTED]),
        ("information", vec![option(client::OPTION_INFO, &information("disk", &[]))], vec![3, 3, 1]),
        (
            "all information",
            vec![option(client::OPTION_INFO, &information("", &[0, 1, 2, 3, 99]))],
            vec![3, 3, 3, 3, 1],
        ),
        (
            "information twice",
            vec![option(client::OPTION_INFO, &information("", &[])); 2],
            vec![3, 3, 1, 3, 3, 1],
        ),
        ("no such export", vec![option(client::OPTION_GO, &information("other", &[]))], vec![UNKNOWN]),
        ("no data", vec![option(client::OPTION_GO, &[])], vec![INVALID]),
        ("name too long for its option", vec![option(client::OPTION_GO, &[0, 0, 1, 0, 65])], vec![INVALID]),
        ("name of 4 GiB", vec![option(client::OPTION_GO, &[0xff; 6])], vec![INVALID]),
        ("data after the end", vec![option(client::OPTION_GO, &[0; 7])], vec![INVALID]),
        (
            "fewer wanted than counted",
            vec![option(client::OPTION_GO, &[0, 0, 0, 0, 0, 2, 0, 3])],
            vec![INVALID],
        ),
        ("structured", vec![structured.clone()], vec![1]),
        ("structured with data", vec![option(client::OPTION_STRUCTURED, b"y")], vec![INVALID]),
        (
            "contexts before structured",
            vec![option(client::OPTION_SET_CONTEXTS, &contexts("disk", &["base:allocation"]))],
            vec![INVALID],
        ),
        (
            "context",
            vec![
                structured.clone(),
                option(client::OPTION_SET_CONTEXTS, &contexts("disk", &["x:y", "base:allocation"])),
            ],
            vec![1, 4, 1],
        ),
        (
            "unknown context",
            vec![structured.clone(), option(client::OPTION_SET_CONTEXTS, &contexts("", &["qemu:dirty"]))],
            vec![1, 1],
        ),
        (
            "setting a namespace",
            vec![structured.clone(), option(client::OPTION_SET_CONTEXTS, &contexts("", &["base:"]))],
            vec![1, 1],
        ),
        (
            "setting nothing",
            vec![structured.clone(), option(client::OPTION_SET_CONTEXTS, &contexts("", &[]))],
            vec![1, 1],
        ),
        (
            "listing everything",
            vec![structured.clone(), option(client::OPTION_LIST_CONTEXTS, &contexts("", &[]))],
            vec![1, 4, 1],
        ),
        (
            "listing a namespace",
            vec![structured.clone(), option(client::OPTION_LIST_CONTEXTS, &contexts("", &["base:"]))],
            vec![1, 4, 1],
        ),
        (
            "contexts of another export",
            vec![structured.clone(), option(client::OPTION_LIST_CONTEXTS, &contexts("other", &[]))],
            vec![1, UNKNOWN],
        ),
        (
            "2^32 queries",
            vec![structured, option(client::OPTION_LIST_CONTEXTS, &[0, 0, 0, 0, 255, 255, 255, 255])],
            vec![1, INVALID],
        ),
        (
            "data too long, then more",
            vec![option(client::OPTION_GO, &[0; 70_000]), option(client::OPTION_LIST, &[])],
            vec![TOO_BIG, 2, 1],
        ),
    ] {
        let (replies, seen) = haggle(export(), &options);
        assert_eq!(replies.iter().map(|reply| reply.1).collect::<Vec<_>>(), kinds, "{name}");
        assert_eq!(seen, [], "{name}");
    }
}

#[test]
fn an_export_says_what_it_is() {
    let wanted = client::option(client::OPTION_INFO, &client::information("disk", &[1, 2]));
    let (replies, _) = haggle(Export { rotational: true, ..export() }, &[wanted]);
    let flags = 0b1_0111_1101u16;
    assert_eq!(replies[0].2, [&[0, 0][..], &SIZE.to_be_bytes(), &flags.to_be_bytes()].concat());
    let sizes = [512u32, 4096, 32 << 20].map(u32::to_be_bytes).concat();
    assert_eq!(replies[1].2, [&[0, 3][..], &sizes].concat());
    assert_eq!(replies[2].2, b"\0\x01disk");
    assert_eq!(replies[3].2, b"\0\x02a test");
}

#[test]
fn polite_and_impolite_ends() {
    use client::option;
    let go_away = |bytes: Vec<u8>| {
        let mut connection = connection(export());
        output(&mut connection);
        let (seen, _) = feed(&mut connection, &bytes, usize::MAX);
        let last = output(&mut connection);
        assert!(connection.is_finished() && !connection.wants_input());
        (seen, last)
    };
    let after_flags = |bytes: &[u8]| [&client::client_flags(3), bytes].concat();
    let (seen, last) = go_away(after_flags(&option(client::OPTION_ABORT, &[])));
    assert_eq!((seen, last.len()), (vec![Seen::Disconnected], 20));
    for (bytes, violation) in [
        (client::client_flags(4), Violation::ClientFlags(4)),
        (after_flags(&[0; 16]), Violation::OptionMagic(0)),
        (
            after_flags(b"IHAVEOPT\0\0\0\x07\xff\xff\xff\xff"),
            Violation::OptionLength { option: 7, length_bytes: u32::MAX },
        ),
        (
            after_flags(b"IHAVEOPT\0\0\0\x01\0\0\x10\x01"),
            Violation::OptionLength { option: 1, length_bytes: 4097 },
        ),
        (after_flags(&option(client::OPTION_EXPORT_NAME, b"other")), Violation::ExportName),
        (after_flags(&option(client::OPTION_LIST, &[]).repeat(1025)), Violation::OptionCount),
        (
            [client::client_flags(0), option(client::OPTION_LIST, &[])].concat(),
            Violation::OptionWithoutReply(3),
        ),
    ] {
        assert_eq!(go_away(bytes).0, [Seen::ProtocolError(violation)]);
    }
    let mut connection = ready(export(), true);
    assert_eq!(
        feed(&mut connection, &[1; 28], 1).0,
        [Seen::ProtocolError(Violation::RequestMagic(0x0101_0101))]
    );
}

#[test]
fn the_oldest_way_in_still_works() {
    for (flags, zeroes) in [(0, 124), (1, 124), (2, 0), (3, 0)] {
        let mut connection = connection(export());
        output(&mut connection);
        let mut bytes = client::client_flags(flags);
        bytes.extend(client::option(client::OPTION_EXPORT_NAME, b"disk"));
        bytes.extend(Request::new(client::READ, 1, 0, 512).bytes());
        let (seen, _) = feed(&mut connection, &bytes, usize::MAX);
        assert_eq!(seen.len(), 1);
        assert_eq!(output(&mut connection).len(), 10 + zeroes);
    }
}

#[test]
fn refused_requests_get_their_error_and_leave_no_payload_behind() {
    use client::{BLOCK_STATUS, CACHE, FLUSH, READ, TRIM, WRITE, WRITE_ZEROES};
    let end = SIZE;
    let table = [
        (READ, 0, end, 512, 22),
        (READ, 0, end - 512, 1024, 22),
        (READ, 0, u64::MAX - 511, 512, 22),
        (READ, 0, 100, 512, 22),
        (READ, 0, 0, 100, 22),
        (READ, 0, 0, 0, 22),
        (READ, 0, 0, (32 << 20) + 512, 22),
        (READ, 1 << 5, 0, 512, 22),
        (READ, 1 << 1, 0, 512, 22),
        (WRITE, 0, end, 512, 28),
        (WRITE, 0, end - 512, 100_000, 22),
        (WRITE, 0, end - 512, 102_400, 28),
        (WRITE, 0, 1, 512, 22),
        (WRITE, 0, 0, 0, 22),
        (WRITE, 1 << 5, 0, 512, 22),
        (WRITE, 0, 0, (32 << 20) + 512, 22),
        (WRITE_ZEROES, 0, end, 512, 28),
        (WRITE_ZEROES, 1 << 4, 0, 512, 22),
        (WRITE_ZEROES, 0, 0, 0, 22),
        (TRIM, 0, end, 512, 22),
        (TRIM, 0, 0, 1, 22),
        (FLUSH, 0, 512, 0, 22),
        (FLUSH, 0, 0, 512, 22),
        (BLOCK_STATUS, 0, 0, 0, 22),
        (BLOCK_STATUS, 0, end, 512, 22),
        (CACHE, 0, 0, 512, 22),
        (8, 0, 0, 512, 22),
        (999, 0xffff, 0, 512, 22),
    ];
    for structured in [false, true] {
        for (number, (command, flags, offset, length, error)) in table.into_iter().enumerate() {
            let mut connection = ready(export(), structured);
            let refused = Request::new(command, 77, offset, length).flags(flags);
            let next = Request::new(FLUSH, 78, 0, 0);
            let bytes = [refused.bytes(), next.bytes()].concat();
            let (seen, _) = feed(&mut connection, &bytes, 65_536);
            assert!(matches!(seen[..], [Seen::Command { command: FLUSH, .. }]), "row {number}: {seen:?}");
            assert!(connection.buffered_bytes() < 1 << 20, "a refused payload is not kept");
            let output = output(&mut connection);
            let reply = client::decode_reply(&mut &output[..], &BTreeMap::new()).expect("it is answered");
            assert_eq!((reply.cookie, reply.error), (77, error), "row {number}: {}", reply.message);
            assert_eq!(reply.message.is_empty(), !structured, "row {number}");
        }
    }
}

#[test]
fn a_read_only_export_permits_no_write() {
    let mut connection = ready(Export { read_only: true, ..export() }, true);
    for command in [client::WRITE, client::WRITE_ZEROES, client::TRIM] {
        assert_eq!(feed(&mut connection, &Request::new(command, 1, 0, 512).bytes(), 100).0, []);
        let reply = client::decode_reply(&mut &output(&mut connection)[..], &BTreeMap::new());
        assert_eq!(reply.expect("it is answered").error, 1);
    }
    let seen = feed(&mut connection, &Request::new(client::READ, 1, 0, 512).bytes(), 100).0;
    assert_eq!(seen.len(), 1);
}

#[test]
fn flags_reach_the_backend() {
    let mut connection = ready(export(), true);
    let mut flags = |command, flags| {
        let seen = feed(&mut connection, &Request::new(command, 1, 0, 512).flags(flags).bytes(), 1000).0;
        let [Seen::Command { fua, flag, .. }] = seen[..] else { panic!("{seen:?}") };
        (fua, flag)
    };
    assert_eq!(flags(client::WRITE, 1), (true, false));
    assert_eq!(flags(client::READ, 1), (true, false));
    assert_eq!(flags(client::READ, 4), (false, false));
    assert_eq!(flags(client::TRIM, 1), (true, false));
    assert_eq!(flags(client::WRITE_ZEROES, 0), (false, true));
    assert_eq!(flags(client::WRITE_ZEROES, 3), (true, false));
    assert_eq!(flags(client::BLOCK_STATUS, 8), (false, true));
    assert_eq!(flags(client::BLOCK_STATUS, 0), (false, false));
}

#[test]
fn every_answer_can_be_understood() {
    for structured in [false, true] {
        let mut connection = ready(export(), structured);
        let mut answer = |command, answer: Answer<'_>| {
            let length = if command == client::FLUSH { 0 } else { 1024 };
            let request = Request::new(command, 9, 0, length);
            let (seen, _) = feed(&mut connection, &request.bytes(), 1000);
            let [Seen::Command { index, .. }] = seen[..] else { panic!("{seen:?}") };
            connection.reply(index, answer);
            let reads = BTreeMap::from_iter((command == client::READ).then_some((9, 1024)));
            let output = output(&mut connection);
            let mut rest = &output[..];
            let reply = client::decode_reply(&mut rest, &reads).expect("it is answered");
            assert!(rest.is_empty());
            assert_eq!(reply.cookie, 9);
            reply
        };
        let mut sevens = |buffer: &mut [u8]| {
            buffer.fill(7);
            Ok(Content::Data)
        };
        assert_eq!(answer(client::READ, Answer::Data(&mut sevens)).data, [7; 1024]);
        assert_eq!(answer(client::READ, Answer::Data(&mut |_| Ok(Content::Zeroes))).data, [0; 1024]);
        let failed = answer(client::READ, Answer::Data(&mut |_| Err(ErrorCode::Io)));
        assert_eq!((failed.error, failed.data.len()), (5, 0));
        let mut part = |good_bytes| {
            let fill: Fill<'_> = &mut |buffer| {
                buffer.fill(7);
                Ok(Content::Data)
            };
            answer(client::READ, Answer::Part { code: ErrorCode::Medium, good_bytes, fill })
        };
        let [behind_512, at_first] = [512, 0].map(&mut part);
        assert_eq!((behind_512.error, at_first.error), (5, 5));
        assert_eq!(
            (behind_512.bad_offset, at_first.bad_offset),
            match structured {
                true => (Some(512), Some(0)),
                false => (None, None),
            }
        );
        assert_eq!(behind_512.data, vec![7; if structured { 512 } else { 0 }]);
        assert!(at_first.data.is_empty());
        assert_eq!(behind_512.message, if structured { "medium error" } else { "" });
        assert_eq!(answer(client::READ, Answer::Failed(ErrorCode::NoMemory)).error, 12);
        assert_eq!(answer(client::WRITE, Answer::Failed(ErrorCode::NoSpace)).error, 28);
        assert_eq!(answer(client::FLUSH, Answer::Done), Reply { cookie: 9, ..Reply::default() });
        if structured {
            let one = |length_bytes, allocated| Extent { length_bytes, allocated, zero: !allocated };
            let extents = [one(512, true), one(4096, false), one(512, true)];
            let reply = answer(client::BLOCK_STATUS, Answer::Extents(&extents));
            assert_eq!(reply.extents, [(512, 0), (512, 3)], "cut to the length asked for");
        }
    }
}

#[test]
fn outstanding_requests_are_bounded() {
    let limits = Limits { outstanding_max: 4, reply_bytes_max: 4096, receive_bytes: 8192 };
    let mut connection = Connection::new(Arc::new(export()), limits, 7);
    feed(&mut connection, &client::negotiation("", true), usize::MAX);
    output(&mut connection);
    let many: Vec<u8> =
        (0..10_000).flat_map(|cookie| Request::new(client::WRITE, cookie, 0, 512).bytes()).collect();
    let (seen, used) = feed(&mut connection, &many, usize::MAX);
    assert_eq!((seen.len(), connection.is_stalled(), connection.wants_input()), (4, true, false));
    assert!(used <= 8192 && connection.space().is_empty());
    connection.reply(2, Answer::Done);
    // Number 2 is taken until its reply has left.
    assert!(matches!(feed(&mut connection, &[], 1).0[..], [Seen::Command { index: 4, .. }]));
    for index in [0, 1, 3, 4] {
        connection.reply(index, Answer::Done);
    }
    output(&mut connection);
    let (seen, _) = feed(&mut connection, &[], 1);
    assert_eq!(seen.len(), 4);
    let again = |seen: &Seen| matches!(seen, Seen::Command { index: 0..5, .. });
    assert!(seen.iter().all(again), "numbers are used again");
    // Reads are bounded by what their replies will need; one alone always goes.
    let mut connection = Connection::new(Arc::new(export()), limits, 7);
    feed(&mut connection, &client::negotiation("", true), usize::MAX);
    output(&mut connection);
    let reads =
        [Request::new(client::READ, 1, 0, 65_536).bytes(), Request::new(client::READ, 2, 0, 512).bytes()];
    assert_eq!(feed(&mut connection, &reads.concat(), usize::MAX).0.len(), 1);
    connection.reply(0, Answer::Data(&mut |_| Ok(Content::Data)));
    assert_eq!(feed(&mut connection, &[], 1).0.len(), 0, "the reply is still there");
    output(&mut connection);
    assert_eq!(feed(&mut connection, &[], 1).0.len(), 1);
}

#[test]
fn goodbye_waits_for_what_is_outstanding() {
    let mut connection = ready(export(), true);
    let bytes =
        [Request::new(client::FLUSH, 5, 0, 0).bytes(), Request::new(client::DISCONNECT, 6, 0, 0).bytes()]
            .concat();
    let (seen, _) = feed(&mut connection, &bytes, usize::MAX);
    assert_eq!(seen.len(), 2);
    assert!(!connection.is_finished() && !connection.wants_input());
    connection.reply(0, Answer::Done);
    output(&mut connection);
    assert!(connection.is_finished());
}

#[test]
fn shutting_down_refuses_what_still_comes() {
    let mut connection = ready(export(), true);
    connection.shut_down();
    assert_eq!(feed(&mut connection, &Request::new(client::WRITE, 5, 0, 512).bytes(), 99).0, []);
    let reply = client::decode_reply(&mut &output(&mut connection)[..], &BTreeMap::new());
    assert_eq!(reply.map(|reply| (reply.cookie, reply.error)), Some((5, 108)));
}

fn any_request() -> impl Strategy<Value = Request> {
    let blocks = SIZE / 512;
    (0..6usize, any::<u64>(), 0..blocks, 1..64u64, any::<bool>(), any::<u8>()).prop_map(
        move |(kind, cookie, block, count, fua, fill)| {
            use client::{BLOCK_STATUS, FLUSH, READ, TRIM, WRITE, WRITE_ZEROES};
            let command = [READ, WRITE, FLUSH, TRIM, WRITE_ZEROES, BLOCK_STATUS][kind];
            let length = (count.min(blocks - block) * 512) as u32;
            let (offset, length) = if command == FLUSH { (0, 0) } else { (block * 512, length) };
            let mut request = Request::new(command, cookie, offset, length).flags(fua.into());
            request.payload.fill(fill);
            request
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever the pieces in which bytes arrive and the order in which replies are given, requests
    /// arrive as they were sent and each reply finds its request.
    #[test]
    fn requests_and_replies_round_trip(
        requests in proptest::collection::vec(any_request(), 1..60),
        structured: bool,
        step in 1..100_000usize,
        order in any::<u64>(),
    ) {
        let requests: Vec<Request> = requests
            .into_iter()
            .filter(|request| structured || request.command != client::BLOCK_STATUS)
            .enumerate()
            .map(|(number, request)| Request { cookie: request.cookie << 8 | number as u64, ..request })
            .collect();
        let mut connection = ready(export(), structured);
        let bytes: Vec<u8> = requests.iter().flat_map(Request::bytes).collect();
        let (seen, used) = feed(&mut connection, &bytes, step);
        prop_assert_eq!(used, bytes.len());
        prop_assert_eq!(seen.len(), requests.len());
        let mut waiting = Vec::new();
        for (seen, request) in seen.into_iter().zip(&requests) {
            let Seen::Command { index, command, offset, length, fua, data, .. } = seen else {
                panic!("{seen:?}")
            };
            prop_assert_eq!((command, offset, length), (request.command, request.offset, request.length));
            prop_assert_eq!(fua, request.flags & 1 == 1);
            prop_assert_eq!(&data, &request.payload);
            waiting.push((index, request));
        }
        waiting.sort_by_key(|(index, _)| (u64::from(*index) + 1).wrapping_mul(order | 1));
        for (index, request) in &waiting {
            match request.command {
                client::READ => connection.reply(*index, Answer::Data(&mut |buffer| {
                    buffer.fill(request.cookie as u8);
                    Ok(Content::Data)
                })),
                client::BLOCK_STATUS => connection.reply(*index, Answer::Extents(&[
                    Extent { length_bytes: request.length, allocated: true, zero: false },
                ])),
                _ => connection.reply(*index, Answer::Done),
            }
        }
        let reads = waiting
            .iter()
            .filter(|(_, request)| request.command == client::READ)
            .map(|(_, request)| (request.cookie, request.length))
            .collect();
        let output = output(&mut connection);
        let mut rest = &output[..];
        for (_, request) in waiting {
            let reply = client::decode_reply(&mut rest, &reads).expect("every request is answered");
            prop_assert_eq!((reply.cookie, reply.error), (request.cookie, 0));
            match request.command {
                client::READ => prop_assert_eq!(reply.data, vec![request.cookie as u8; request.length as usize]),
                client::BLOCK_STATUS => prop_assert_eq!(reply.extents, vec![(request.length, 0)]),
                _ => prop_assert!(reply.data.is_empty()),
            }
        }
        prop_assert!(rest.is_empty());
    }
}
