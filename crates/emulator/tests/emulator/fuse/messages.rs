//! The results of each message, without a kernel.

use seeklab_core::Instant;
use seeklab_emulator::frontend::fuse::{Connection, Owner};
use seeklab_emulator::frontend::nbd::Export;
use seeklab_emulator::frontend::{Action, Content, ErrorCode, Extent, Fill, Reply};

use crate::fuse::kernel::{
    self, CREATE, FILE, FLUSH, FSYNC, GETATTR, INTERRUPT, LOOKUP, OPEN, READ, READDIR, ROOT, SETATTR, STATFS,
    ask, command, connection, fallocate, lseek, message, reply, transfer, words, write,
};

const SIZE: u64 = 1 << 20;
const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const ENXIO: i32 = 6;
const EINVAL: i32 = 22;
const ENOSPC: i32 = 28;
const EROFS: i32 = 30;
const ENOSYS: i32 = 38;
const EOPNOTSUPP: i32 = 95;
const ESHUTDOWN: i32 = 108;

/// Error numbers of a program and of the block layer, for each reason of a failure.
const REASONS: [(ErrorCode, i32, i32); 6] = [
    (ErrorCode::Medium, 5, 61),
    (ErrorCode::Io, 5, 5),
    (ErrorCode::Timeout, 110, 110),
    (ErrorCode::Permission, 30, 121),
    (ErrorCode::NoSpace, 28, 28),
    (ErrorCode::Gone, 108, 67),
];

fn disk() -> Connection {
    connection(Export::new("", SIZE, 512))
}

fn data(byte: u8) -> impl FnMut(&mut [u8]) -> Result<Content, ErrorCode> {
    move |buffer| {
        buffer.fill(byte);
        Ok(Content::Data)
    }
}

#[test]
fn negotiation_enables_the_fast_settings() {
    let mut connection = Connection::new(Export::new("", SIZE, 512), Owner { uid: 0, gid: 0 });
    let refused = ask(&mut connection, &message(GETATTR, 3, ROOT, &[0; 16]));
    assert_eq!(refused.errno, 71, "nothing goes before INIT");
    let answer = ask(&mut connection, &kernel::init(7, 45));
    assert_eq!((answer.errno, answer.result.len()), (0, 64));
    assert_eq!((answer.u32_at(0), answer.u32_at(4)), (7, 38));
    let flags = answer.u32_at(12);
    assert_ne!(flags & 1 << 15, 0, "asynchronous direct I/O");
    assert_ne!(flags & 1 << 22, 0, "pages per request");
    assert_eq!(flags & 1 << 16, 0, "no write-back cache: a write is here when it returns");
    assert_eq!(flags & 1 << 3, 0, "no truncation at open");
    assert_eq!(answer.u32_at(16), 256 << 16 | 256, "requests in the background, and when it is congested");
    assert_eq!(answer.u32_at(20), 1 << 20, "bytes per write");
    assert_eq!(answer.u32_at(28) & 0xffff, 256, "pages per request");
}

#[test]
fn old_kernel_is_refused_and_new_major_version_is_answered() {
    let mut connection = Connection::new(Export::new("", SIZE, 512), Owner { uid: 0, gid: 0 });
    assert_eq!(ask(&mut connection, &kernel::init(7, 27)).errno, 71);
    assert_eq!(connection.oddities().unsupported_protocol, Some((7, 27)));
    assert!(!connection.is_negotiated());
    assert_eq!(ask(&mut connection, &kernel::init(8, 0)).u32_at(0), 7);
    assert!(!connection.is_negotiated(), "it asks again");
    assert_eq!(ask(&mut connection, &kernel::init(7, 28)).errno, 0);
    assert!(connection.is_negotiated());
}

#[test]
fn directory_has_one_file_of_the_size_of_the_device() {
    let mut connection = disk();
    let entry = ask(&mut connection, &message(LOOKUP, 2, ROOT, b"disk\0"));
    assert_eq!((entry.errno, entry.result.len(), entry.u64_at(0)), (0, 128, FILE));
    let attributes = ask(&mut connection, &message(GETATTR, 3, FILE, &[0; 16]));
    assert_eq!(attributes.result.len(), 104);
    assert_eq!(attributes.result[16..], entry.result[40..]);
    assert_eq!((attributes.u64_at(16), attributes.u64_at(24), attributes.u64_at(32)), (FILE, SIZE, 2048));
    let mode_owner: Vec<u32> = (0..4).map(|index| attributes.u32_at(16 + 60 + 4 * index)).collect();
    assert_eq!(mode_owner, [0o100_600, 1, 5, 6]);
    assert_eq!(ask(&mut connection, &message(GETATTR, 3, ROOT, &[0; 16])).u32_at(16 + 60), 0o040_500);
    assert_eq!(ask(&mut connection, &message(LOOKUP, 2, ROOT, b"disks\0")).errno, ENOENT);
    assert_eq!(ask(&mut connection, &message(LOOKUP, 2, FILE, b"disk\0")).errno, 20);
    let space = ask(&mut connection, &message(STATFS, 4, ROOT, &[]));
    assert_eq!((space.result.len(), space.u64_at(0), space.u64_at(8)), (80, 2048, 0));
    let opened = ask(&mut connection, &message(OPEN, 5, FILE, &words(&[2])));
    assert_eq!(opened.u32_at(8) & 0x41, 0x41, "direct I/O, parallel direct writes");
    assert_eq!(ask(&mut connection, &message(FLUSH, 6, FILE, &[0; 24])).errno, ENOSYS);
    assert_eq!(ask(&mut connection, &message(CREATE, 7, ROOT, b"................new\0")).errno, EPERM);
}

#[test]
fn directory_is_read_from_any_offset_into_any_size() {
    let mut connection = disk();
    let mut entries = |from: u64, size: u64| {
        let arguments = words(&[7, from, size, 0, 0]);
        ask(&mut connection, &message(READDIR, 2, ROOT, &arguments)).result
    };
    let all = entries(0, 4096);
    assert_eq!(all.len(), 3 * 32);
    assert_eq!(&all[64 + 24..64 + 28], b"disk");
    assert_eq!(entries(2, 4096), all[64..]);
    assert_eq!(entries(0, 63), all[..32]);
    for from in [3, 4, u64::MAX] {
        assert!(entries(from, 4096).is_empty());
    }
    let mut connection = disk().named("a-name-that-is-longer".to_owned());
    let all = ask(&mut connection, &message(READDIR, 2, ROOT, &words(&[7, 2, 4096, 0, 0]))).result;
    assert_eq!((all.len(), &all[24..45]), (48, b"a-name-that-is-longer".as_slice()));
    assert_eq!(ask(&mut connection, &message(LOOKUP, 2, ROOT, b"a-name-that-is-longer\0")).errno, 0);
    assert_eq!(ask(&mut connection, &message(LOOKUP, 2, ROOT, b"disk\0")).errno, ENOENT);
}

#[test]
fn block_layer_gets_the_error_numbers_that_it_translates() {
    for (mut connection, for_block_layer) in [(disk(), false), (disk().for_block_layer(), true)] {
        for (code, of_program, of_block_layer) in REASONS {
            let expected = if for_block_layer { of_block_layer } else { of_program };
            let mut fails = |message: &[u8], answer: Reply<'_>| {
                let number = command(&mut connection, message).tag.command;
                assert_eq!(reply(&mut connection, number, answer).errno, expected, "{code:?}");
            };
            fails(&message(READ, 2, FILE, &transfer(0, 4096, 0)), Reply::Failed(code));
            let fill: Fill<'_> = &mut |_| panic!("the protocol cannot carry the good bytes");
            fails(
                &message(READ, 3, FILE, &transfer(0, 4096, 0)),
                Reply::Part { code, good_bytes: 512, fill },
            );
            // In part of a block: the blocks are read first.
            fails(&message(READ, 4, FILE, &transfer(100, 4096, 0)), Reply::Failed(code));
            fails(&message(FSYNC, 5, FILE, &[0; 16]), Reply::Failed(code));
        }
    }
}

#[test]
fn read_of_any_alignment_returns_the_requested_bytes() {
    let mut connection = disk();
    // Asked for, at the device, answered.
    let cases = [
        ((4096, 8192), (4096, 8192), 8192),
        ((1000, 100), (512, 1024), 100),
        ((511, 2), (0, 1024), 2),
        ((SIZE - 512, 4096), (SIZE - 512, 512), 512),
        ((SIZE - 1, u32::MAX), (SIZE - 512, 512), 1),
        ((0, u32::MAX), (0, 1 << 20), 1 << 20),
    ];
    for ((offset, size), at_device, answered) in cases {
        let bytes = message(READ, 8, FILE, &transfer(offset, size, 0));
        let asked = command(&mut connection, &bytes);
        assert_eq!((asked.action, asked.arrived), (Action::Read, Instant::from_ns(9)));
        assert_eq!((asked.offset_bytes, asked.length_bytes), at_device);
        let start = asked.offset_bytes;
        let mut fill = |buffer: &mut [u8]| {
            (start..).zip(buffer).for_each(|(at, byte)| *byte = (at / 3) as u8);
            Ok(Content::Data)
        };
        let answer = reply(&mut connection, asked.tag.command, Reply::Data(&mut fill));
        assert_eq!((answer.unique, answer.result.len()), (8, answered));
        assert!((offset..).zip(&answer.result).all(|(at, byte)| *byte == (at / 3) as u8));
    }
    for offset in [SIZE, u64::MAX] {
        let answer = ask(&mut connection, &message(READ, 8, FILE, &transfer(offset, 512, 0)));
        assert_eq!((answer.errno, answer.result.len()), (0, 0), "the end of the file");
    }
    let bytes = message(READ, 9, FILE, &transfer(0, 512, 0));
    let asked = command(&mut connection, &bytes);
    let failed = reply(&mut connection, asked.tag.command, Reply::Data(&mut |_| Err(ErrorCode::Io)));
    assert_eq!(failed.errno, 5);
    let asked = command(&mut connection, &bytes);
    connection.reply(asked.tag.command, Reply::Data(&mut data(7)));
    let asked = command(&mut connection, &bytes);
    let mut zeroes = |_: &mut [u8]| Ok(Content::Zeroes);
    connection.reply(asked.tag.command, Reply::Data(&mut zeroes));
    let results: Vec<_> = kernel::answers(&mut connection).into_iter().map(|answer| answer.result).collect();
    assert_eq!(results, [vec![7; 512], vec![0; 512]], "nothing is left over from before");
}

#[test]
fn write_stops_at_the_end_of_the_device() {
    let mut connection = disk();
    let bytes = write(2, 512, &[3; 1024], 0);
    let asked = command(&mut connection, &bytes);
    assert_eq!((asked.action, asked.offset_bytes, asked.fua), (Action::Write(&[3; 1024]), 512, false));
    let answer = reply(&mut connection, asked.tag.command, Reply::Done);
    assert_eq!((answer.unique, answer.u32_at(0), answer.result.len()), (2, 1024, 8));
    let bytes = write(2, SIZE - 512, &[3; 1024], 0o10000);
    let asked = command(&mut connection, &bytes);
    assert_eq!((asked.length_bytes, asked.fua), (512, true), "what fits, durable as O_DSYNC asks");
    assert_eq!(reply(&mut connection, asked.tag.command, Reply::Done).u32_at(0), 512);
    for (offset, length, errno) in
        [(0, 0, EINVAL), (SIZE, 512, ENOSPC), (SIZE + 1, 1, ENOSPC), (u64::MAX, 512, ENOSPC)]
    {
        assert_eq!(
            ask(&mut connection, &write(3, offset, &vec![0; length], 0)).errno,
            errno,
            "{offset} {length}"
        );
    }
    let mut longer = write(3, 0, &[0; 512], 0);
    longer[40 + 16] = 1;
    assert_eq!(ask(&mut connection, &longer).errno, 5, "it says 513 and brings 512");
    assert_eq!(connection.oddities().malformed_count, 1);
}

#[test]
fn writes_of_partial_blocks_are_done_one_after_the_other() {
    let mut connection = disk();
    // The second begins in the block where the first ends; the third fits in none.
    let messages =
        [write(2, 1000, &[3; 100], 0), write(3, 1100, &[4; 1000], 0o10000), write(4, SIZE - 1, &[5; 9], 0)];
    for message in &messages {
        assert!(connection.receive(message, Instant::ZERO).is_none());
    }
    assert_eq!(connection.outstanding(), 3);
    let expected = [
        (512, 1024, 488, 100, 3, false),
        (1024, 1536, 76, 1000, 4, true),
        (SIZE - 512, 512, 511, 1, 5, false),
    ];
    let mut disk = vec![9u8; SIZE as usize];
    for (unique, (offset, blocks, skip, length, byte, fua)) in (2..).zip(expected) {
        let read = connection.next_piece(Instant::ZERO).expect("the blocks are read first");
        assert_eq!((read.action, read.offset_bytes, read.length_bytes), (Action::Read, offset, blocks));
        let tag = read.tag;
        assert!(connection.next_piece(Instant::ZERO).is_none(), "one at a time");
        let range = offset as usize..offset as usize + blocks as usize;
        let mut fill = |buffer: &mut [u8]| {
            buffer.copy_from_slice(&disk[range.clone()]);
            Ok(Content::Data)
        };
        connection.reply(tag.command, Reply::Data(&mut fill));
        assert!(kernel::answers(&mut connection).is_empty());
        let written = connection.next_piece(Instant::ZERO).expect("then they are written");
        let Action::Write(data) = written.action else { panic!("{written:?}") };
        assert_eq!((written.offset_bytes, data.len(), written.fua), (offset, blocks as usize, fua));
        assert!(data[..skip].iter().zip(&disk[range.clone()]).all(|(new, old)| new == old));
        assert_eq!(data[skip..skip + length], vec![byte; length]);
        disk[range].copy_from_slice(data);
        let tag = written.tag;
        let answer = reply(&mut connection, tag.command, Reply::Done);
        assert_eq!((answer.unique, answer.errno, answer.u32_at(0) as usize), (unique, 0, length));
    }
    assert_eq!(connection.outstanding(), 0);
    assert_eq!(disk[999..1101], [[9].as_slice(), &[3; 100], &[4]].concat());
    assert!(connection.receive(&messages[0], Instant::ZERO).is_none());
    assert!(connection.receive(&messages[1], Instant::ZERO).is_none());
    for unique in [2, 3] {
        let command = connection.next_piece(Instant::ZERO).expect("a failure holds nobody up").tag.command;
        let answer = reply(&mut connection, command, Reply::Data(&mut |_| Err(ErrorCode::Io)));
        assert_eq!((answer.unique, answer.errno), (unique, 5));
    }
}

#[test]
fn read_only_device_refuses_changes() {
    let mut connection = connection(Export { read_only: true, ..Export::new("", SIZE, 512) });
    assert_eq!(ask(&mut connection, &message(OPEN, 5, FILE, &words(&[2]))).errno, EROFS);
    assert_eq!(ask(&mut connection, &message(OPEN, 5, FILE, &words(&[0]))).errno, 0);
    assert_eq!(ask(&mut connection, &write(3, 0, &[0; 512], 0)).errno, EROFS);
    assert_eq!(ask(&mut connection, &fallocate(3, 0, 512, 3)).errno, EROFS);
    assert_eq!(ask(&mut connection, &message(GETATTR, 3, FILE, &[0; 16])).u32_at(16 + 60), 0o100_400);
}

#[test]
fn fsync_flushes_and_truncation_does_nothing() {
    let mut connection = disk();
    let bytes = message(FSYNC, 4, FILE, &[0; 16]);
    let asked = command(&mut connection, &bytes);
    assert_eq!((asked.action, asked.length_bytes), (Action::Flush, 0));
    assert!(reply(&mut connection, asked.tag.command, Reply::Done).result.is_empty());
    let mut arguments = words(&[1 << 3, 7, 0]);
    arguments.extend([0; 64]);
    let truncated = ask(&mut connection, &message(SETATTR, 5, FILE, &arguments));
    assert_eq!((truncated.errno, truncated.u64_at(16 + 8)), (0, SIZE));
    arguments[0] = 1;
    assert_eq!(ask(&mut connection, &message(SETATTR, 5, FILE, &arguments)).errno, EPERM, "its mode");
    assert!(connection.receive(&message(INTERRUPT, 6, 0, &words(&[4])), Instant::ZERO).is_none());
    assert!(!connection.has_output(), "an interrupt wants no answer");
}

#[test]
fn holes_are_punched_and_zeroes_written_in_pieces() {
    const GIB: u64 = 1 << 30;
    let mut connection = connection(Export::new("", 8 * GIB, 4096));
    for (mode, action) in [(3, Action::Discard), (0x11, Action::WriteZeroes { may_discard: false })] {
        // A block discard of 4 GiB is one request of the loop driver.
        assert!(connection.receive(&fallocate(4, GIB / 2, 4 * GIB, mode), Instant::ZERO).is_none());
        let mut pieces = Vec::new();
        let answer = loop {
            let piece = connection.next_piece(Instant::ZERO).expect("there is more");
            assert_eq!(piece.action, action);
            pieces.push((piece.offset_bytes, u64::from(piece.length_bytes)));
            let tag = piece.tag;
            connection.reply(tag.command, Reply::Done);
            let leaving: Vec<_> = connection.messages().map(|(tag, _)| tag).collect();
            assert_eq!(leaving, [Some(tag)], "each piece is accounted for");
            if let Some(answer) = kernel::answers(&mut connection).pop() {
                break answer;
            }
        };
        assert_eq!((answer.unique, answer.errno, connection.outstanding()), (4, 0, 0));
        let expected: Vec<_> = (0..4).map(|index| (GIB / 2 + index * GIB, GIB)).collect();
        assert_eq!(pieces, expected);
    }
    assert!(connection.receive(&fallocate(5, 8 * GIB - 4096, 8192, 3), Instant::ZERO).is_none());
    let piece = connection.next_piece(Instant::ZERO).expect("what is on the device");
    assert_eq!(piece.length_bytes, 4096);
    let tag = piece.tag;
    assert_eq!(reply(&mut connection, tag.command, Reply::Failed(ErrorCode::Io)).errno, 5);
    assert_eq!(connection.outstanding(), 0, "a failure is the end of it");
    for (offset, length, mode, errno) in [
        (0, 4096, 0, EOPNOTSUPP),
        (0, 4096, 1, EOPNOTSUPP),
        (0, 4096, 0x08, EOPNOTSUPP),
        (0, 512, 3, EINVAL),
        (4095, 4096, 0x10, EINVAL),
        (u64::MAX, 4096, 3, EINVAL),
        (8 * GIB, 4096, 0x10, ENOSPC),
        (9 * GIB, 4096, 3, 0),
    ] {
        assert_eq!(ask(&mut connection, &fallocate(6, offset, length, mode)).errno, errno, "{offset} {mode}");
    }
}

#[test]
fn data_and_holes_are_found() {
    let mut connection = connection(Export::new("", 3 << 30, 512));
    let extent = |length_bytes, allocated| Extent { length_bytes, allocated, zero: !allocated };
    let gib = 1 << 30;
    // Whence, from; extents of each piece; found.
    let cases: [(u32, u64, Vec<Vec<Extent>>, Result<u64, i32>); 7] = [
        (3, 0, vec![vec![extent(4096, true)]], Ok(0)),
        (3, 100, vec![vec![extent(4096, true)]], Ok(100)),
        (3, 0, vec![vec![extent(4096, false), extent(512, true)]], Ok(4096)),
        (4, 700, vec![vec![extent(1024, true), extent(512, false)]], Ok(512 + 1024)),
        (
            3,
            0,
            vec![vec![extent(gib, false)], vec![extent(gib, false)], vec![extent(512, true)]],
            Ok(2 << 30),
        ),
        (3, 0, vec![vec![extent(gib, false)]; 3], Err(ENXIO)),
        (4, 0, vec![vec![extent(gib, true)]; 3], Ok(3 << 30)),
    ];
    for (whence, from, pieces, found) in cases {
        assert!(connection.receive(&lseek(2, from, whence), Instant::ZERO).is_none());
        let mut answers = Vec::new();
        for extents in &pieces {
            let piece = connection.next_piece(Instant::ZERO).expect("it is not found yet");
            assert_eq!(piece.action, Action::BlockStatus { single: false });
            let tag = piece.tag;
            connection.reply(tag.command, Reply::Extents(extents));
            answers.extend(kernel::answers(&mut connection));
        }
        let [answer] = answers.as_slice() else { panic!("{answers:?}") };
        let answered = if answer.errno == 0 { Ok(answer.u64_at(0)) } else { Err(answer.errno) };
        assert_eq!(answered, found, "{whence} {from}");
    }
    assert_eq!(ask(&mut connection, &lseek(2, 3 << 30, 3)).errno, ENXIO);
    assert_eq!(ask(&mut connection, &lseek(2, 0, 2)).errno, EINVAL);
}

#[test]
fn requests_after_shut_down_are_refused() {
    let mut connection = disk();
    let before = message(READ, 2, FILE, &transfer(0, 512, 0));
    let asked = command(&mut connection, &before);
    connection.shut_down();
    for late in
        [message(READ, 3, FILE, &transfer(0, 512, 0)), write(3, 0, &[0; 512], 0), fallocate(3, 0, 512, 3)]
    {
        assert_eq!(ask(&mut connection, &late).errno, ESHUTDOWN);
    }
    assert_eq!(ask(&mut connection, &message(GETATTR, 3, FILE, &[0; 16])).errno, 0);
    assert_eq!(connection.outstanding(), 1);
    assert_eq!(reply(&mut connection, asked.tag.command, Reply::Data(&mut data(1))).result, [1; 512]);
}
