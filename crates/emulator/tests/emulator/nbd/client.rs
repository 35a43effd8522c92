//! A client's side of the protocol, written apart from the server's: bytes of requests, meaning of replies.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

pub(crate) const READ: u16 = 0;
pub(crate) const WRITE: u16 = 1;
pub(crate) const DISCONNECT: u16 = 2;
pub(crate) const FLUSH: u16 = 3;
pub(crate) const TRIM: u16 = 4;
pub(crate) const CACHE: u16 = 5;
pub(crate) const WRITE_ZEROES: u16 = 6;
pub(crate) const BLOCK_STATUS: u16 = 7;

pub(crate) const OPTION_EXPORT_NAME: u32 = 1;
pub(crate) const OPTION_ABORT: u32 = 2;
pub(crate) const OPTION_LIST: u32 = 3;
pub(crate) const OPTION_STARTTLS: u32 = 5;
pub(crate) const OPTION_INFO: u32 = 6;
pub(crate) const OPTION_GO: u32 = 7;
pub(crate) const OPTION_STRUCTURED: u32 = 8;
pub(crate) const OPTION_LIST_CONTEXTS: u32 = 9;
pub(crate) const OPTION_SET_CONTEXTS: u32 = 10;

pub(crate) fn client_flags(flags: u32) -> Vec<u8> {
    flags.to_be_bytes().to_vec()
}

pub(crate) fn option(kind: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"IHAVEOPT".to_vec();
    bytes.extend(kind.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    bytes
}

pub(crate) fn string(text: &str) -> Vec<u8> {
    let mut bytes = (text.len() as u32).to_be_bytes().to_vec();
    bytes.extend(text.as_bytes());
    bytes
}

pub(crate) fn information(name: &str, wanted: &[u16]) -> Vec<u8> {
    let mut bytes = string(name);
    bytes.extend((wanted.len() as u16).to_be_bytes());
    bytes.extend(wanted.iter().flat_map(|wanted| wanted.to_be_bytes()));
    bytes
}

pub(crate) fn contexts(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut bytes = string(name);
    bytes.extend((queries.len() as u32).to_be_bytes());
    bytes.extend(queries.iter().flat_map(|query| string(query)));
    bytes
}

/// Everything up to the first request.
pub(crate) fn negotiation(name: &str, structured: bool) -> Vec<u8> {
    let mut bytes = client_flags(3);
    if structured {
        bytes.extend(option(OPTION_STRUCTURED, &[]));
        bytes.extend(option(OPTION_SET_CONTEXTS, &contexts(name, &["base:allocation"])));
    }
    bytes.extend(option(OPTION_GO, &information(name, &[3])));
    bytes
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) command: u16,
    pub(crate) flags: u16,
    pub(crate) cookie: u64,
    pub(crate) offset: u64,
    pub(crate) length: u32,
    pub(crate) payload: Vec<u8>,
}

impl Request {
    pub(crate) fn new(command: u16, cookie: u64, offset: u64, length: u32) -> Self {
        let payload = if command == WRITE { vec![cookie as u8; length as usize] } else { Vec::new() };
        Self { command, flags: 0, cookie, offset, length, payload }
    }

    pub(crate) fn flags(self, flags: u16) -> Self {
        Self { flags, ..self }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = 0x2560_9513u32.to_be_bytes().to_vec();
        bytes.extend(self.flags.to_be_bytes());
        bytes.extend(self.command.to_be_bytes());
        bytes.extend(self.cookie.to_be_bytes());
        bytes.extend(self.offset.to_be_bytes());
        bytes.extend(self.length.to_be_bytes());
        bytes.extend(&self.payload);
        bytes
    }
}

/// An answer to an option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OptionReply {
    pub(crate) option: u32,
    pub(crate) kind: u32,
    pub(crate) data: Vec<u8>,
}

pub(crate) fn decode_option_reply(bytes: &mut &[u8]) -> Option<OptionReply> {
    let (head, rest) = bytes.split_at_checked(20)?;
    assert_eq!(head[..8], 0x0003_e889_0455_65a9u64.to_be_bytes());
    let length = number(&head[16..20]) as usize;
    let (data, rest) = rest.split_at_checked(length)?;
    *bytes = rest;
    Some(OptionReply {
        option: number(&head[8..12]) as u32,
        kind: number(&head[12..16]) as u32,
        data: data.to_vec(),
    })
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Reply {
    pub(crate) cookie: u64,
    pub(crate) error: u32,
    pub(crate) message: String,
    pub(crate) data: Vec<u8>,
    pub(crate) extents: Vec<(u32, u32)>,
    /// First bad byte of a read that failed.
    pub(crate) bad_offset: Option<u64>,
}

/// Takes one reply from the front, if it is complete. `reads` holds the length of the read of each cookie.
pub(crate) fn decode_reply(bytes: &mut &[u8], reads: &BTreeMap<u64, u32>) -> Option<Reply> {
    if bytes.len() < 16 {
        return None;
    }
    let magic = number(&bytes[..4]) as u32;
    let mut reply = Reply { cookie: number(&bytes[8..16]), ..Reply::default() };
    if magic == 0x6744_6698 {
        reply.error = number(&bytes[4..8]) as u32;
        let length = if reply.error == 0 { reads.get(&reply.cookie).copied().unwrap_or(0) } else { 0 };
        let (data, rest) = bytes[16..].split_at_checked(length as usize)?;
        reply.data = data.to_vec();
        *bytes = rest;
        return Some(reply);
    }
    assert_eq!(magic, 0x668e_33ef, "a reply begins with one of the two magic numbers");
    let mut rest = *bytes;
    while !take_chunk(&mut rest, &mut reply)? {}
    *bytes = rest;
    Some(reply)
}

/// Takes a chunk of a reply from the front, if the chunk is complete. Returns true if it is the last one.
fn take_chunk(bytes: &mut &[u8], reply: &mut Reply) -> Option<bool> {
    let (head, rest) = bytes.split_at_checked(20)?;
    assert_eq!((number(&head[..4]), number(&head[8..16])), (0x668e_33ef, reply.cookie));
    let (flags, kind, length) = (number(&head[4..6]), number(&head[6..8]), number(&head[16..20]) as usize);
    let (content, rest) = rest.split_at_checked(length)?;
    *bytes = rest;
    assert!(flags == 1 || kind == 1, "this server sends data before another chunk, and no other");
    match kind {
        1 => reply.data = content[8..].to_vec(),
        2 => reply.data = vec![0; number(&content[8..12]) as usize],
        5 => {
            assert_eq!(number(&content[..4]), 1);
            let pairs = content[4..].chunks_exact(8);
            assert!(pairs.remainder().is_empty());
            reply.extents =
                pairs.map(|pair| (number(&pair[..4]) as u32, number(&pair[4..]) as u32)).collect();
        }
        0x8001 => {
            reply.error = number(&content[..4]) as u32;
            assert_eq!(number(&content[4..6]) as usize, content.len() - 6);
            reply.message = String::from_utf8(content[6..].to_vec()).expect("messages are UTF-8");
        }
        0x8002 => {
            reply.error = number(&content[..4]) as u32;
            let length = number(&content[4..6]) as usize;
            assert_eq!(content.len(), 6 + length + 8);
            reply.message = String::from_utf8(content[6..6 + length].to_vec()).expect("messages are UTF-8");
            reply.bad_offset = Some(number(&content[6 + length..]));
        }
        kind => panic!("chunk type {kind}"),
    }
    Some(flags == 1)
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// A client on a stream, one request at a time or many.
pub(crate) struct Client<S> {
    pub(crate) stream: S,
    received: Vec<u8>,
    reads: BTreeMap<u64, u32>,
}

impl<S: Read + Write> Client<S> {
    pub(crate) fn connect(mut stream: S, name: &str, structured: bool) -> io::Result<Self> {
        stream.write_all(&negotiation(name, structured))?;
        let mut client = Self { stream, received: Vec::new(), reads: BTreeMap::new() };
        while client.received.len() < 18 {
            client.more()?;
        }
        client.received.drain(..18);
        loop {
            let mut bytes = &client.received[..];
            let before = bytes.len();
            let reply = decode_option_reply(&mut bytes);
            let used = before - bytes.len();
            client.received.drain(..used);
            match reply {
                None => client.more()?,
                Some(reply) if reply.kind >> 31 == 1 => {
                    return Err(io::Error::other(format!("refused: {reply:?}")));
                }
                Some(reply) if reply.kind == 1 && reply.option == OPTION_GO => return Ok(client),
                Some(_) => {}
            }
        }
    }

    fn more(&mut self) -> io::Result<()> {
        let mut buffer = [0; 65536];
        match self.stream.read(&mut buffer)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                self.received.extend(&buffer[..count]);
                Ok(())
            }
        }
    }

    pub(crate) fn send(&mut self, request: &Request) -> io::Result<()> {
        if request.command == READ {
            self.reads.insert(request.cookie, request.length);
        }
        self.stream.write_all(&request.bytes())
    }

    pub(crate) fn reply(&mut self) -> io::Result<Reply> {
        loop {
            let mut bytes = &self.received[..];
            let before = bytes.len();
            if let Some(reply) = decode_reply(&mut bytes, &self.reads) {
                let used = before - bytes.len();
                self.received.drain(..used);
                self.reads.remove(&reply.cookie);
                return Ok(reply);
            }
            self.more()?;
        }
    }

    pub(crate) fn call(&mut self, request: &Request) -> io::Result<Reply> {
        self.send(request)?;
        self.reply()
    }
}
