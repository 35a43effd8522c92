//! Servers that answer the choice of TLS with anything but TLS: no connection, no wait without end, and no word in plain.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

use proptest::prelude::*;
use rustls::{ServerConnection, Stream};
use seeklab_emulator::client::ClientError;

use crate::nbd::tls::{Scene, connect};
use crate::nbd::tls_server::{ACK, Once, START_TLS, option_reply, server_config, take_choice_of_tls};

/// Flags of the client, and its choice of TLS.
const CHOICE: &[u8; 20] = b"\0\0\0\x03IHAVEOPT\0\0\0\x05\0\0\0\0";

/// Sends `answer` after the client has chosen TLS, and then nothing more. Returns the failure of the client, and everything
/// that it sent.
fn answered(answer: Vec<u8>) -> (Result<(), ClientError>, Vec<u8>) {
    let server = Once::start(move |mut stream: TcpStream| {
        let mut sent = take_choice_of_tls(&mut stream).to_vec();
        // The client may have gone.
        let _ = stream.write_all(&answer);
        let _ = stream.shutdown(Shutdown::Write);
        let _ = stream.read_to_end(&mut sent);
        sent
    });
    let uri = server.uri("tls-verify-peer=0").replace("/?", "/secret-export?");
    let result = connect(&uri).map(drop);
    (result, server.end())
}

/// Asserts that the client sent its choice, then at most records of TLS, and never the name of the export.
fn assert_nothing_in_plain(sent: &[u8]) {
    let (choice, rest) = sent.split_at(20);
    assert_eq!(choice, CHOICE);
    assert!(!sent.windows(6).any(|window| window == b"secret"), "{sent:?}");
    // A handshake record or an alert.
    assert!(rest.is_empty() || matches!(rest[..2], [22 | 21, 3]), "{rest:?}");
}

/// Answers to options, records of TLS and garbage.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..80);
    let kind = prop_oneof![0..5u32, (0..10u32).prop_map(|kind| 1 << 31 | kind), any::<u32>()];
    prop_oneof![
        bytes(),
        (0..11u32, kind, bytes()).prop_map(|(option, kind, data)| option_reply(option, kind, &data)),
        Just(option_reply(START_TLS, ACK, &[])),
        // What a server says that offers an export without TLS.
        Just(option_reply(8, ACK, &[])),
        Just(option_reply(7, 3, b"\0\0\0\0\0\0\0\x10\0\0\0\x01")),
        Just(option_reply(7, ACK, &[])),
        (20..24u8, 0..5u8, bytes()).prop_map(|(kind, version, data)| {
            [&[kind, 3, version], &(data.len() as u16).to_be_bytes()[..], &data].concat()
        }),
        // A handshake message, in a record: its length may exceed that of the record.
        (0..25u8, any::<u16>(), bytes()).prop_map(|(kind, length, data)| {
            let message = [&[kind, 0], &length.to_be_bytes()[..], &data].concat();
            [&[22, 3, 3], &(message.len() as u16).to_be_bytes()[..], &message].concat()
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn without_tls_there_is_no_connection(begins: bool, pieces in proptest::collection::vec(piece(), 0..6)) {
        let acknowledgement = if begins { option_reply(START_TLS, ACK, &[]) } else { Vec::new() };
        let (result, sent) = answered([acknowledgement, pieces.concat()].concat());
        prop_assert!(result.is_err());
        assert_nothing_in_plain(&sent);
    }
}

#[test]
fn answer_in_plain_behind_the_acknowledgement_is_not_taken() {
    // An export without TLS, sent at once by somebody in between (as in CVE-2021-3716).
    let plain = [
        option_reply(8, ACK, &[]),
        option_reply(7, 3, b"\0\0\0\0\0\0\0\x10\0\0\0\x01"),
        option_reply(7, ACK, &[]),
    ];
    let (result, sent) = answered([option_reply(START_TLS, ACK, &[]), plain.concat()].concat());
    let error = result.expect_err("it is not TLS");
    assert!(matches!(error, ClientError::Tls { .. }), "{error:?}");
    assert!(error.to_string().contains("its answer is not TLS"), "{error}");
    assert_nothing_in_plain(&sent);
    let (result, sent) = answered(plain.concat());
    assert!(matches!(result, Err(ClientError::Protocol { .. })), "{result:?}");
    assert_eq!(sent, CHOICE);
}

#[test]
fn damaged_record_ends_the_connection_with_its_reason() {
    let scene = Scene::new();
    let config = Arc::new(server_config(&scene.path("server"), rustls::ALL_VERSIONS));
    let server = Once::start(move |mut stream: TcpStream| {
        take_choice_of_tls(&mut stream);
        stream.write_all(&option_reply(START_TLS, ACK, &[])).unwrap();
        let mut connection = ServerConnection::new(config).unwrap();
        Stream::new(&mut connection, &mut stream).read_exact(&mut [0; 16]).unwrap();
        connection.writer().write_all(&option_reply(8, ACK, &[])).unwrap();
        let mut record = Vec::new();
        connection.write_tls(&mut record).unwrap();
        let last = record.len() - 1;
        record[last] ^= 1;
        stream.write_all(&record).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let error = connect(&server.uri("tls-verify-peer=0")).expect_err("the record is damaged");
    assert!(matches!(error, ClientError::Tls { .. }) && error.is_permanent(), "{error:?}");
    assert!(error.to_string().contains("decrypt"), "{error}");
    server.end();
}

/// The client's time limit is that of the whole handshake, so this takes it once.
#[test]
fn server_that_stalls_in_the_tls_handshake_is_given_up() {
    let scene = Scene::new();
    let config = Arc::new(server_config(&scene.path("server"), rustls::ALL_VERSIONS));
    let clients: Vec<_> = (0..4)
        .map(|stage| {
            let config = Arc::clone(&config);
            let server = Once::start(move |mut stream: TcpStream| {
                take_choice_of_tls(&mut stream);
                stream.write_all(&option_reply(START_TLS, ACK, &[])).unwrap();
                match stage {
                    // A part of a record.
                    1 => stream.write_all(&[22, 3, 3, 1]).unwrap(),
                    // Empty records without end: there is always something to receive.
                    2 => while stream.write_all(&[20, 3, 3, 0, 1, 1]).is_ok() {},
                    // TLS, and no answer to an option.
                    3 => {
                        let mut connection = ServerConnection::new(config).unwrap();
                        Stream::new(&mut connection, &mut stream).read_exact(&mut [0; 16]).unwrap();
                    }
                    _ => {}
                }
                let _ = stream.read_to_end(&mut Vec::new());
            });
            std::thread::spawn(move || {
                let error = connect(&server.uri("tls-verify-peer=0")).expect_err("it stalls");
                server.end();
                (stage, error)
            })
        })
        .collect();
    for client in clients {
        let (stage, error) = client.join().unwrap();
        match (stage, &error) {
            // Records that mean nothing are too many before they last too long.
            (2, ClientError::Tls { .. } | ClientError::Silent { .. }) => {}
            (_, ClientError::Silent { seconds: 10, outstanding: 0, .. }) => {}
            _ => panic!("{stage}: {error:?}"),
        }
    }
}
