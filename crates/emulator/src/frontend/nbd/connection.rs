//! One client: bytes in, events out; replies in, bytes out.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use seeklab_core::Instant;

use super::buffer::Buffer;
use super::export::Export;
use super::handshake::{Agreement, Handshake, Progress};
use super::supervisor::Standing;
use super::transmission::{self, Good, Kind, Refusal, RequestHeader};
use super::wire::{EXTENT_COUNT_MAX, PAYLOAD_BYTES_MAX, REQUEST_SIZE, Violation, command};
use crate::frontend::slots::Slots;
use crate::frontend::{Action, Command, ErrorCode, Reply, Tag};

/// Limits of the resources of one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Commands handed out and not yet replied to; beyond them, requests wait in the socket.
    pub outstanding_max: usize,
    /// Bytes of replies waiting to leave, counting what outstanding commands will need. One reply is always
    /// admitted, so the bound is this or one reply, whichever is more.
    pub reply_bytes_max: usize,
    /// Receive buffer of an idle connection: about how much is read at once.
    pub receive_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { outstanding_max: 1024, reply_bytes_max: 64 << 20, receive_bytes: 256 << 10 }
    }
}

/// Event decoded from received bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// A request, checked: in range, aligned, allowed.
    Command(Command<'a>),
    /// The client requested to disconnect. Outstanding commands still need replies.
    Disconnected,
    /// The client broke the protocol; nothing more is read from it.
    ProtocolError(Violation),
}

#[derive(Debug)]
enum State {
    Handshake(Handshake),
    Transmission(Agreement),
    /// The payload of a refused write passes by; then the refusal is sent.
    Skip {
        agreement: Agreement,
        cookie: u64,
        refusal: Refusal,
        remaining_bytes: usize,
    },
    /// Nothing more is read.
    Closing {
        structured: bool,
    },
}

#[derive(Debug, Clone, Copy)]
struct Outstanding {
    cookie: u64,
    offset_bytes: u64,
    length_bytes: u32,
    kind: Kind,
    /// The answer was encoded and waits to leave.
    answered: bool,
}

/// An answer that waits to leave.
#[derive(Debug, Clone, Copy)]
struct Leaving {
    command: u32,
    /// End of the answer, in bytes of output since the connection began.
    end: u64,
}

/// The most bytes of a reply without content: the headers of two chunks, an offset and a message.
const HEAD_BYTES: usize = 128;

/// Bytes that a waiting answer occupies besides its data, here and in the backend.
const LEAVING_BYTES: usize = 512;

/// The most bytes that a command and its reply occupy.
fn reply_bytes_max(kind: Kind, length_bytes: u32, export: &Export) -> usize {
    let block_size_bytes = export.block_size_bytes;
    let content = match kind {
        Kind::Read => length_bytes as usize,
        Kind::Write if export.keeps_writes => length_bytes as usize,
        Kind::BlockStatus { single: true } => 8,
        Kind::BlockStatus { single: false } => {
            8 * ((length_bytes / block_size_bytes) as usize).min(EXTENT_COUNT_MAX)
        }
        Kind::Write | Kind::Flush | Kind::Discard | Kind::WriteZeroes { .. } => 0,
    };
    LEAVING_BYTES + HEAD_BYTES + content
}

/// Reason why [`Connection::next_event`] returns nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Idle {
    /// This number of bytes is needed at once.
    Need(usize),
    /// Replies must leave first.
    Full,
    /// Replies to other clients must leave first.
    HeldBack,
    /// The connection is over.
    Over,
}

enum Step {
    Command { index: u32, header: RequestHeader, kind: Kind, payload: Range<usize> },
    Disconnected,
    ProtocolError(Violation),
}

/// The protocol's state for one client, without any I/O.
///
/// Put received bytes into [`space`](Self::space) and count them with [`received`](Self::received), take
/// events until there are none, reply to commands in any order, send [`output`](Self::output).
#[derive(Debug)]
pub struct Connection {
    export: Arc<Export>,
    limits: Limits,
    client: u64,
    input: Buffer,
    output: Buffer,
    state: State,
    idle: Idle,
    arrived: Instant,
    outstanding: Slots<Outstanding>,
    /// Upper bound of the bytes that replies to outstanding commands add to the output.
    reserved_bytes: usize,
    leaving: VecDeque<Leaving>,
    /// Bytes of output that have left.
    left_bytes: u64,
    /// The most bytes that may be owed, for the sake of other clients.
    shared_bytes_max: usize,
    /// Requests that arrived whole.
    request_count: u64,
    negotiated: bool,
    shutting_down: bool,
}

impl Connection {
    /// Greets a new client; `client` comes back in every [`Tag`].
    pub fn new(export: Arc<Export>, limits: Limits, client: u64) -> Self {
        export.check();
        assert!(limits.outstanding_max > 0, "a connection without outstanding commands does nothing");
        let mut output = Buffer::with_capacity(4096);
        let handshake = Handshake::begin(&mut output);
        Self {
            export,
            limits,
            client,
            // Negotiation needs little; the buffer grows to its working size with the first requests.
            input: Buffer::with_capacity(4096),
            output,
            state: State::Handshake(handshake),
            idle: Idle::Need(4),
            arrived: Instant::default(),
            outstanding: Slots::default(),
            reserved_bytes: 0,
            leaving: VecDeque::new(),
            left_bytes: 0,
            shared_bytes_max: usize::MAX,
            request_count: 0,
            negotiated: false,
            shutting_down: false,
        }
    }

    /// Returns the space for received bytes. Empty while the connection accepts no more
    /// ([`wants_input`](Self::wants_input)).
    pub fn space(&mut self) -> &mut [u8] {
        let Idle::Need(needed) = self.idle else { return &mut [] };
        self.input.trim();
        let working = match self.state {
            State::Transmission(_) | State::Skip { .. } => self.limits.receive_bytes,
            State::Handshake(_) | State::Closing { .. } => 0,
        };
        self.input.grow(working);
        self.input.room(needed)
    }

    /// Counts bytes put into [`space`](Self::space); `now` is when they had arrived.
    pub fn received(&mut self, count: usize, now: Instant) {
        self.input.filled(count);
        self.arrived = now;
    }

    /// Returns true if bytes can be received. If not, replies must leave first, or the connection is over.
    pub fn wants_input(&self) -> bool {
        matches!(self.idle, Idle::Need(_))
    }

    /// Returns true if requests that have arrived wait for replies to leave. Take events again after a reply, or
    /// after output was consumed.
    pub fn is_stalled(&self) -> bool {
        matches!(self.idle, Idle::Full | Idle::HeldBack)
    }

    /// Returns true if the client requested to disconnect or broke the protocol.
    pub fn is_closing(&self) -> bool {
        matches!(self.state, State::Closing { .. })
    }

    /// Returns true if the socket can be closed: nothing more comes, and everything has left.
    pub fn is_finished(&self) -> bool {
        self.is_closing() && self.outstanding() == 0 && self.output.is_empty()
    }

    /// Returns the number of commands handed out and not yet replied to.
    pub fn outstanding(&self) -> usize {
        self.outstanding.len() - self.leaving.len()
    }

    /// Lets at most so many bytes be owed from now on: those of [`owed_bytes`](Self::owed_bytes).
    pub fn allow(&mut self, shared_bytes_max: usize) {
        self.shared_bytes_max = shared_bytes_max;
    }

    /// Returns the bytes that replies to this client occupy: waiting ones, and those that outstanding commands need at
    /// most.
    pub fn owed_bytes(&self) -> usize {
        self.output.len() + self.reserved_bytes + self.leaving.len() * LEAVING_BYTES
    }

    /// State of the client as a supervisor sees it.
    pub(super) fn standing(&self) -> Standing {
        let started = match self.state {
            State::Skip { .. } => true,
            State::Transmission(_) => !self.input.is_empty(),
            State::Handshake(_) | State::Closing { .. } => false,
        };
        Standing {
            negotiated: self.negotiated,
            closing: self.is_closing(),
            started_request: (started && self.wants_input()).then_some(self.request_count),
            owed_bytes: self.owed_bytes(),
            unsent: !self.output.is_empty(),
            held_back: self.idle == Idle::HeldBack,
        }
    }

    /// The commands whose answers have been encoded and have not left, in the order of the answers.
    pub(super) fn leaving(&self) -> impl Iterator<Item = u32> {
        self.leaving.iter().map(|leaving| leaving.command)
    }

    /// The next thing that the bytes received amount to. A write's bytes stay where they were received
    /// until the connection is used again.
    pub fn next_event(&mut self) -> Option<Event<'_>> {
        let step = match self.advance() {
            Ok(step) => step,
            Err(idle) => {
                self.idle = idle;
                return None;
            }
        };
        Some(match step {
            Step::Disconnected => Event::Disconnected,
            Step::ProtocolError(violation) => Event::ProtocolError(violation),
            Step::Command { index, header, kind, payload } => {
                let action = match kind {
                    Kind::Read => Action::Read,
                    Kind::Write => Action::Write(self.input.taken(payload)),
                    Kind::Flush => Action::Flush,
                    Kind::Discard => Action::Discard,
                    Kind::WriteZeroes { may_discard } => Action::WriteZeroes { may_discard },
                    Kind::BlockStatus { single } => Action::BlockStatus { single },
                };
                Event::Command(Command {
                    tag: Tag { frontend: 0, client: self.client, command: index },
                    arrived: self.arrived,
                    offset_bytes: header.offset_bytes,
                    length_bytes: header.length_bytes,
                    fua: header.is_fua(),
                    action,
                })
            }
        })
    }

    /// Encodes the answer to an outstanding command into the output.
    ///
    /// # Panics
    /// If the command is not outstanding, or the answer is of the wrong kind.
    pub fn reply(&mut self, command: u32, reply: Reply<'_>) {
        let Some(request) = self.outstanding.get_mut(command).filter(|request| !request.answered) else {
            panic!("command {command} is not outstanding")
        };
        request.answered = true;
        let Outstanding { cookie, offset_bytes, length_bytes, kind, .. } = *request;
        let structured = self.structured();
        self.reserved_bytes -= reply_bytes_max(kind, length_bytes, &self.export);
        let failure = match (reply, kind) {
            (Reply::Failed(code), _) => Some(code),
            (Reply::Part { code, good_bytes, fill }, Kind::Read) if structured => {
                let good = Good { offset_bytes, good_bytes: good_bytes as usize };
                transmission::part(&mut self.output, cookie, good, code, fill).err()
            }
            (Reply::Part { code, .. }, Kind::Read) => Some(code),
            (Reply::Data(fill), Kind::Read) => {
                transmission::data(&mut self.output, structured, cookie, offset_bytes, length_bytes, fill)
                    .err()
            }
            (Reply::Extents(extents), Kind::BlockStatus { single }) => {
                let block = self.export.block_size_bytes;
                transmission::extents(&mut self.output, cookie, block, length_bytes, single, extents);
                None
            }
            (Reply::Done, Kind::Write | Kind::Flush | Kind::Discard | Kind::WriteZeroes { .. }) => {
                transmission::done(&mut self.output, cookie);
                None
            }
            (_, kind) => panic!("the answer does not fit a command of kind {kind:?}"),
        };
        if let Some(code) = failure {
            transmission::failed(&mut self.output, structured, cookie, code, code.message());
        }
        self.leaving.push_back(Leaving { command, end: self.left_bytes + self.output.len() as u64 });
    }

    /// Bytes for the client.
    pub fn output(&self) -> &[u8] {
        self.output.as_slice()
    }

    /// Forgets the first bytes of the output: they have left. `left` is given each command whose answer has thereby
    /// left whole; its number is free for another from then on.
    pub fn consume_output(&mut self, count: usize, left: &mut dyn FnMut(u32)) {
        self.output.consume(count);
        self.output.trim();
        self.left_bytes += count as u64;
        while let Some(Leaving { command, .. }) =
            self.leaving.front().copied().filter(|leaving| leaving.end <= self.left_bytes)
        {
            self.leaving.pop_front();
            self.outstanding.remove(command);
            left(command);
        }
    }

    /// Refuses from now on what still arrives.
    pub fn shut_down(&mut self) {
        self.shutting_down = true;
    }

    /// Returns true if every answer has left, and nothing waits to be read.
    pub fn is_drained(&self) -> bool {
        self.outstanding() == 0 && self.output().is_empty() && !self.is_stalled()
    }

    /// Returns the bytes of memory that the connection's buffers hold.
    pub fn buffered_bytes(&self) -> usize {
        self.input.capacity() + self.output.capacity()
    }

    fn structured(&self) -> bool {
        match self.state {
            State::Handshake(_) => false,
            State::Transmission(agreement) | State::Skip { agreement, .. } => agreement.structured,
            State::Closing { structured } => structured,
        }
    }

    fn close(&mut self) {
        self.state = State::Closing { structured: self.structured() };
        self.input.consume(self.input.len());
    }

    fn advance(&mut self) -> Result<Step, Idle> {
        loop {
            match &mut self.state {
                State::Closing { .. } => return Err(Idle::Over),
                State::Handshake(handshake) => {
                    if self.output.len() >= self.limits.reply_bytes_max {
                        return Err(Idle::Full);
                    }
                    let progress = handshake.advance(
                        &self.export,
                        self.shutting_down,
                        &mut self.input,
                        &mut self.output,
                    );
                    match progress {
                        Ok(Progress::Need(bytes)) => return Err(Idle::Need(bytes)),
                        Ok(Progress::Agreed(agreement)) => {
                            self.state = State::Transmission(agreement);
                            self.negotiated = true;
                        }
                        Ok(Progress::Aborted) => {
                            self.close();
                            return Ok(Step::Disconnected);
                        }
                        Err(violation) => {
                            self.close();
                            return Ok(Step::ProtocolError(violation));
                        }
                    }
                }
                State::Skip { agreement, cookie, refusal, remaining_bytes } => {
                    let skipped = (*remaining_bytes).min(self.input.len());
                    self.input.consume(skipped);
                    *remaining_bytes -= skipped;
                    if *remaining_bytes > 0 {
                        return Err(Idle::Need(1));
                    }
                    let (agreement, cookie, refusal) = (*agreement, *cookie, *refusal);
                    self.refuse(agreement, cookie, refusal);
                    self.request_count += 1;
                    self.state = State::Transmission(agreement);
                }
                State::Transmission(agreement) => {
                    let agreement = *agreement;
                    if let Some(step) = self.request(agreement)? {
                        return Ok(step);
                    }
                }
            }
        }
    }

    /// Takes one request; `None` if it was refused.
    fn request(&mut self, agreement: Agreement) -> Result<Option<Step>, Idle> {
        let bytes = self.input.as_slice();
        if bytes.len() < REQUEST_SIZE {
            return Err(Idle::Need(REQUEST_SIZE));
        }
        let owed_bytes = self.owed_bytes();
        if self.outstanding() >= self.limits.outstanding_max || owed_bytes >= self.limits.reply_bytes_max {
            return Err(Idle::Full);
        }
        if HEAD_BYTES > self.shared_bytes_max.saturating_sub(owed_bytes) {
            return Err(Idle::HeldBack);
        }
        let header = match RequestHeader::parse(bytes) {
            Ok(header) => header,
            Err(violation) => {
                self.close();
                return Ok(Some(Step::ProtocolError(violation)));
            }
        };
        if header.command == command::DISCONNECT {
            self.close();
            return Ok(Some(Step::Disconnected));
        }
        let checked = if self.shutting_down {
            let code = ErrorCode::ShuttingDown;
            Err(Refusal { code, message: code.message() })
        } else {
            header.check(&self.export, agreement)
        };
        let kind = match checked {
            Ok(kind) => kind,
            Err(refusal) => {
                self.input.consume(REQUEST_SIZE);
                match header.payload_size() {
                    0 => {
                        self.refuse(agreement, header.cookie, refusal);
                        self.request_count += 1;
                    }
                    remaining_bytes => {
                        let cookie = header.cookie;
                        self.state = State::Skip { agreement, cookie, refusal, remaining_bytes };
                    }
                }
                return Ok(None);
            }
        };
        let payload_size = header.payload_size();
        if bytes.len() < REQUEST_SIZE + payload_size {
            return Err(Idle::Need(REQUEST_SIZE + payload_size));
        }
        let reply_bytes = reply_bytes_max(kind, header.length_bytes, &self.export);
        if owed_bytes > 0 && owed_bytes + reply_bytes > self.limits.reply_bytes_max {
            return Err(Idle::Full);
        }
        if reply_bytes > self.shared_bytes_max.saturating_sub(owed_bytes) {
            return Err(Idle::HeldBack);
        }
        self.reserved_bytes += reply_bytes;
        self.request_count += 1;
        let taken = self.input.take(REQUEST_SIZE + payload_size);
        let payload = taken.start + REQUEST_SIZE..taken.end;
        let RequestHeader { cookie, offset_bytes, length_bytes, .. } = header;
        let index = self.outstanding.insert(Outstanding {
            cookie,
            offset_bytes,
            length_bytes,
            kind,
            answered: false,
        });
        Ok(Some(Step::Command { index, header, kind, payload }))
    }

    fn refuse(&mut self, agreement: Agreement, cookie: u64, refusal: Refusal) {
        transmission::failed(&mut self.output, agreement.structured, cookie, refusal.code, refusal.message);
    }
}

const _: () = assert!(PAYLOAD_BYTES_MAX as usize <= 64 << 20, "one payload fits a receive buffer");
