//! Fixed newstyle negotiation: greeting, client flags, options, until an export is chosen.

use super::buffer::Buffer;
use super::export::Export;
use super::wire::{
    NBD_MAGIC, OPTION_BYTES_MAX, OPTION_COUNT_MAX, OPTION_MAGIC, OPTION_REPLY_MAGIC, OPTION_SIZE,
    OPTION_SKIP_BYTES_MAX, STRING_BYTES_MAX, Violation, WireReader, allocation, handshake_flag, info, option,
    option_reply, u32_at, u64_at,
};

/// Result of negotiation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Agreement {
    pub(super) structured: bool,
    pub(super) allocation: bool,
}

/// State of negotiation after the bytes that have arrived.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// This number of bytes is needed at once to continue.
    Need(usize),
    /// An export is chosen: requests follow.
    Agreed(Agreement),
    /// The client gave up, politely.
    Aborted,
}

#[derive(Debug, Clone, Copy)]
enum State {
    ClientFlags,
    Option,
    /// Data of an option too long to look at; its error reply follows.
    Skip {
        option: u32,
        remaining_bytes: usize,
    },
}

#[derive(Debug)]
pub(super) struct Handshake {
    state: State,
    fixed_newstyle: bool,
    no_zeroes: bool,
    structured: bool,
    /// The export name that `base:allocation` was selected for.
    allocation_for: Option<Vec<u8>>,
    option_count: u32,
}

impl Handshake {
    /// Greets the client.
    pub(super) fn begin(output: &mut Buffer) -> Self {
        output.put(&NBD_MAGIC.to_be_bytes());
        output.put(&OPTION_MAGIC.to_be_bytes());
        output.put(&(handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES).to_be_bytes());
        Self {
            state: State::ClientFlags,
            fixed_newstyle: false,
            no_zeroes: false,
            structured: false,
            allocation_for: None,
            option_count: 0,
        }
    }

    /// Goes on as far as `input` allows.
    pub(super) fn advance(
        &mut self,
        export: &Export,
        shutting_down: bool,
        input: &mut Buffer,
        output: &mut Buffer,
    ) -> Result<Progress, Violation> {
        loop {
            let bytes = input.as_slice();
            match self.state {
                State::ClientFlags => {
                    if bytes.len() < 4 {
                        return Ok(Progress::Need(4));
                    }
                    let flags = u32_at(bytes, 0);
                    let known = handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES;
                    if flags & !u32::from(known) != 0 {
                        return Err(Violation::ClientFlags(flags));
                    }
                    self.fixed_newstyle = flags & u32::from(handshake_flag::FIXED_NEWSTYLE) != 0;
                    self.no_zeroes = flags & u32::from(handshake_flag::NO_ZEROES) != 0;
                    input.consume(4);
                    self.state = State::Option;
                }
                State::Skip { option, remaining_bytes } => {
                    let skipped = remaining_bytes.min(bytes.len());
                    input.consume(skipped);
                    if skipped < remaining_bytes {
                        self.state = State::Skip { option, remaining_bytes: remaining_bytes - skipped };
                        return Ok(Progress::Need(1));
                    }
                    answer(output, option, option_reply::ERROR_TOO_BIG, b"option data is too long");
                    self.state = State::Option;
                }
                State::Option => {
                    if bytes.len() < OPTION_SIZE {
                        return Ok(Progress::Need(OPTION_SIZE));
                    }
                    let (magic, option, length) = (u64_at(bytes, 0), u32_at(bytes, 8), u32_at(bytes, 12));
                    if magic != OPTION_MAGIC {
                        return Err(Violation::OptionMagic(magic));
                    }
                    if length > OPTION_SKIP_BYTES_MAX
                        || (option == option::EXPORT_NAME && length > STRING_BYTES_MAX)
                    {
                        return Err(Violation::OptionLength { option, length_bytes: length });
                    }
                    let whole = OPTION_SIZE + length as usize;
                    if length <= OPTION_BYTES_MAX && bytes.len() < whole {
                        return Ok(Progress::Need(whole));
                    }
                    self.option_count += 1;
                    if self.option_count > OPTION_COUNT_MAX {
                        return Err(Violation::OptionCount);
                    }
                    if length > OPTION_BYTES_MAX {
                        input.consume(OPTION_SIZE);
                        self.state = State::Skip { option, remaining_bytes: length as usize };
                        continue;
                    }
                    let data = &bytes[OPTION_SIZE..whole];
                    let end = self.option(export, shutting_down, option, data, output)?;
                    input.consume(whole);
                    if let Some(end) = end {
                        return Ok(end);
                    }
                }
            }
        }
    }

    /// Answers one option; what it returns ends the negotiation.
    fn option(
        &mut self,
        export: &Export,
        shutting_down: bool,
        option: u32,
        data: &[u8],
        output: &mut Buffer,
    ) -> Result<Option<Progress>, Violation> {
        if !self.fixed_newstyle && option != option::EXPORT_NAME && option != option::ABORT {
            return Err(Violation::OptionWithoutReply(option));
        }
        if shutting_down && option != option::EXPORT_NAME && option != option::ABORT {
            answer(output, option, option_reply::ERROR_SHUTDOWN, b"the server is shutting down");
            return Ok(None);
        }
        match option {
            option::EXPORT_NAME => {
                if !export.answers_to(data) || shutting_down {
                    return Err(Violation::ExportName);
                }
                output.put(&export.size_bytes.to_be_bytes());
                output.put(&export.flags(self.structured).to_be_bytes());
                if !self.no_zeroes {
                    output.put(&[0; 124]);
                }
                return Ok(Some(Progress::Agreed(self.agreement(data))));
            }
            option::ABORT => {
                answer(output, option, option_reply::ACK, &[]);
                return Ok(Some(Progress::Aborted));
            }
            option::LIST if data.is_empty() => {
                let description = export.announced_description();
                let mut server = Vec::with_capacity(4 + export.name.len() + description.len());
                server.extend((export.name.len() as u32).to_be_bytes());
                server.extend(export.name.as_bytes());
                server.extend(description.as_bytes());
                answer(output, option, option_reply::SERVER, &server);
                answer(output, option, option_reply::ACK, &[]);
            }
            option::LIST => {
                answer(output, option, option_reply::ERROR_INVALID, b"listing exports takes no data");
            }
            option::INFO | option::GO => {
                let chosen = self.information(export, option, data, output);
                if chosen && option == option::GO {
                    let Some(name) = WireReader(data).string() else { unreachable!("it was read above") };
                    return Ok(Some(Progress::Agreed(self.agreement(name))));
                }
            }
            option::STRUCTURED_REPLY if data.is_empty() => {
                self.structured = true;
                answer(output, option, option_reply::ACK, &[]);
            }
            option::STRUCTURED_REPLY => {
                answer(output, option, option_reply::ERROR_INVALID, b"structured replies take no data");
            }
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => {
                self.contexts(export, option, data, output);
            }
            // STARTTLS among them: the server has no keys, and a client that insists goes away.
            _ => answer(output, option, option_reply::ERROR_UNSUPPORTED, b"unknown option"),
        }
        Ok(None)
    }

    fn agreement(&self, name: &[u8]) -> Agreement {
        Agreement {
            structured: self.structured,
            allocation: self.structured && self.allocation_for.as_deref() == Some(name),
        }
    }

    /// Answers `NBD_OPT_INFO` and `NBD_OPT_GO`. Returns true if the export was found.
    fn information(&self, export: &Export, option: u32, data: &[u8], output: &mut Buffer) -> bool {
        let Some((name, wanted)) = information_request(data) else {
            answer(output, option, option_reply::ERROR_INVALID, b"malformed information request");
            return false;
        };
        if !export.answers_to(name) {
            answer(output, option, option_reply::ERROR_UNKNOWN, b"no such export");
            return false;
        }
        let mut piece = Vec::with_capacity(64);
        piece.extend(info::EXPORT.to_be_bytes());
        piece.extend(export.size_bytes.to_be_bytes());
        piece.extend(export.flags(self.structured).to_be_bytes());
        answer(output, option, option_reply::INFO, &piece);
        piece.clear();
        piece.extend(info::BLOCK_SIZE.to_be_bytes());
        piece.extend(export.block_sizes().into_iter().flat_map(u32::to_be_bytes));
        answer(output, option, option_reply::INFO, &piece);
        let description = export.announced_description();
        for (kind, text) in [(info::NAME, export.name.as_str()), (info::DESCRIPTION, &description)] {
            if wanted.chunks_exact(2).any(|wanted| wanted == kind.to_be_bytes()) {
                piece.clear();
                piece.extend(kind.to_be_bytes());
                piece.extend(text.as_bytes());
                answer(output, option, option_reply::INFO, &piece);
            }
        }
        answer(output, option, option_reply::ACK, &[]);
        true
    }

    /// Answers `NBD_OPT_LIST_META_CONTEXT` and `NBD_OPT_SET_META_CONTEXT`.
    fn contexts(&mut self, export: &Export, option: u32, data: &[u8], output: &mut Buffer) {
        let setting = option == option::SET_META_CONTEXT;
        if setting {
            self.allocation_for = None;
        }
        if !self.structured {
            answer(output, option, option_reply::ERROR_INVALID, b"structured replies come first");
            return;
        }
        let Some((name, matched)) = context_queries(data, setting) else {
            answer(output, option, option_reply::ERROR_INVALID, b"malformed context queries");
            return;
        };
        if !export.answers_to(name) {
            answer(output, option, option_reply::ERROR_UNKNOWN, b"no such export");
            return;
        }
        if matched {
            let mut context = Vec::with_capacity(32);
            let id = if setting { allocation::CONTEXT_ID } else { 0 };
            context.extend(id.to_be_bytes());
            context.extend(allocation::CONTEXT.as_bytes());
            answer(output, option, option_reply::META_CONTEXT, &context);
            if setting {
                self.allocation_for = Some(name.to_vec());
            }
        }
        answer(output, option, option_reply::ACK, &[]);
    }
}

fn answer(output: &mut Buffer, option: u32, kind: u32, data: &[u8]) {
    output.put(&OPTION_REPLY_MAGIC.to_be_bytes());
    output.put(&option.to_be_bytes());
    output.put(&kind.to_be_bytes());
    output.put(&(data.len() as u32).to_be_bytes());
    output.put(data);
}

/// Returns the name and the kinds of information requested.
fn information_request(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut reader = WireReader(data);
    let name = reader.string()?;
    let count = reader.u16()?;
    let wanted = reader.bytes(usize::from(count) * 2)?;
    reader.0.is_empty().then_some((name, wanted))
}

/// Returns the export's name, and true if a query matches `base:allocation`.
fn context_queries(data: &[u8], setting: bool) -> Option<(&[u8], bool)> {
    let mut reader = WireReader(data);
    let name = reader.string()?;
    let count = reader.u32()?;
    let mut matched = count == 0 && !setting;
    for _ in 0..count {
        let query = reader.string()?;
        matched |= query == allocation::CONTEXT.as_bytes() || (!setting && query == b"base:");
    }
    reader.0.is_empty().then_some((name, matched))
}
