//! A device in memory, immediate or late, for tests and measurements of the frontend alone.

use std::collections::BTreeMap;
use std::io;

use seeklab_core::{Duration, Instant};
use seeklab_emulator::frontend::{
    Action, Backend, Command, Content, Departure, ErrorCode, Extent, Frontend, Next, Reply, Tag,
};

/// Kind and range of an answer. The data of a write is in place already.
#[derive(Debug, Clone, Copy)]
enum Answer {
    Done,
    Data { offset: usize },
    Extents { offset: usize, length: usize },
}

pub(crate) struct Memory {
    bytes: Vec<u8>,
    /// True for 4 KiB pages that were written and not discarded since.
    allocated: Vec<bool>,
    delay: Duration,
    due: Vec<(Tag, Answer)>,
    later: BTreeMap<(Instant, u64), (Tag, Answer)>,
    pub(crate) command_count: u64,
}

const PAGE: usize = 4096;

impl Memory {
    pub(crate) fn new(size: usize, delay: Duration) -> Self {
        Self {
            bytes: vec![0; size],
            allocated: vec![false; size.div_ceil(PAGE)],
            delay,
            due: Vec::new(),
            later: BTreeMap::new(),
            command_count: 0,
        }
    }

    fn apply(&mut self, command: &Command<'_>) -> Answer {
        let (offset, length) = (command.offset_bytes as usize, command.length_bytes as usize);
        let pages = offset / PAGE..(offset + length).div_ceil(PAGE);
        match command.action {
            Action::Read => return Answer::Data { offset },
            Action::BlockStatus { .. } => return Answer::Extents { offset, length },
            Action::Write(data) => {
                self.bytes[offset..offset + length].copy_from_slice(data);
                self.allocated[pages].fill(true);
            }
            Action::Discard | Action::WriteZeroes { .. } => {
                self.bytes[offset..offset + length].fill(0);
                if offset % PAGE == 0 && length % PAGE == 0 {
                    self.allocated[pages].fill(false);
                }
            }
            Action::Flush => {}
        }
        Answer::Done
    }

    fn answer(&self, answer: Answer, reply: &mut dyn FnMut(Reply<'_>)) {
        match answer {
            Answer::Done => reply(Reply::Done),
            Answer::Data { offset } => reply(Reply::Data(&mut |buffer| {
                let bytes = self.bytes.get(offset..offset + buffer.len()).ok_or(ErrorCode::Io)?;
                buffer.copy_from_slice(bytes);
                Ok(Content::Data)
            })),
            Answer::Extents { offset, length } => {
                let mut extents: Vec<Extent> = Vec::new();
                let mut at = offset;
                while at < offset + length {
                    let next = ((at / PAGE + 1) * PAGE).min(offset + length);
                    let allocated = self.allocated[at / PAGE];
                    match extents.last_mut() {
                        Some(last) if last.allocated == allocated => last.length_bytes += (next - at) as u32,
                        _ => extents.push(Extent {
                            length_bytes: (next - at) as u32,
                            allocated,
                            zero: !allocated,
                        }),
                    }
                    at = next;
                }
                reply(Reply::Extents(&extents));
            }
        }
    }
}

impl Backend for Memory {
    fn take(&mut self, command: Command<'_>) {
        let answer = self.apply(&command);
        let number = self.command_count;
        self.command_count += 1;
        if self.delay.is_zero() {
            self.due.push((command.tag, answer));
        } else {
            // Every other one overtakes the one before it.
            let delay = Duration::from_ns(self.delay.as_ns() << (number & 1 ^ 1));
            self.later.insert((command.arrived + delay, number), (command.tag, answer));
        }
    }

    fn reply(&mut self, now: Instant, frontend: &mut dyn Frontend) -> io::Result<Next> {
        while let Some(first) = self.later.first_entry().filter(|first| first.key().0 <= now) {
            self.due.push(first.remove());
        }
        let mut due = std::mem::take(&mut self.due);
        for (tag, answer) in due.drain(..) {
            self.answer(answer, &mut |reply| frontend.reply(tag, reply));
        }
        self.due = due;
        Ok(Next::WaitUntil(self.later.first_key_value().map(|((due, _), _)| *due)))
    }

    fn left(&mut self, _: Tag, _: Departure) {}
}

/// `CLOCK_MONOTONIC`.
pub(crate) fn now() -> Instant {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Instant::from_ns(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}
