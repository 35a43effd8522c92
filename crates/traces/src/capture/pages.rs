//! Pages of the kernel's trace buffer, as `trace_pipe_raw` gives them.
//!
//! ```text
//!  page   u64 timestamp | commit: length of the data, bit 31: events before were lost, bit 30: how many follows
//!         the data | data
//!  event  5 bits type, 27 bits delta to the time before | …
//!         type 1 to 28   data of 4 × type bytes
//!         type 0         u32 length (itself counted), data
//!         type 29        padding: to the end of the page if delta is 0, else u32 length
//!         type 30, 31    u32: upper bits of a longer delta, or of an absolute time
//! ```
//! # References
//! Linux: Documentation/trace/ring-buffer-map.rst, kernel/trace/ring_buffer.c (`struct ring_buffer_event`), and
//! `events/header_page` and `events/header_event` of tracefs.

/// Positions of the parts of a page, read from the kernel's own description.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PageLayout {
    commit: usize,
    commit_size: usize,
    data: usize,
    /// Bytes of a page.
    pub(super) size: usize,
}

/// The largest page that a kernel may have.
const PAGE_BYTES_MAX: usize = 1 << 20;
/// Bits of the commit field that are its length.
const LENGTH_MASK: u64 = 0x0fff_ffff;
const LOST: u64 = 1 << 31;
const LOST_STORED: u64 = 1 << 30;
/// Bits of a time that an absolute time stamp does not hold.
const TIME_TOP: u64 = 0xf8 << 56;

/// Item of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Item<'a> {
    /// Events were lost before the page began, this many if that is known.
    Lost {
        /// Time at which the page begins.
        time_ns: u64,
        events: u64,
    },
    /// An event, with the time at which it happened.
    Event {
        time_ns: u64,
        /// As its tracepoint's `format` describes them.
        bytes: &'a [u8],
    },
}

/// A page of a form that it should not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MalformedPage;

impl PageLayout {
    /// Reads `events/header_page`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let field = |name: &str| -> Result<(usize, usize), String> {
            let line = text.lines().map(str::trim).find(|line| {
                let declared = line.split(';').next().and_then(|words| words.split_whitespace().last());
                declared == Some(name)
            });
            let line = line.ok_or_else(|| format!("there is no field `{name}`"))?;
            let number = |label: &str| {
                let part = line.split(';').find_map(|part| part.trim().strip_prefix(label))?;
                part.parse::<usize>().ok().filter(|number| *number <= PAGE_BYTES_MAX)
            };
            number("offset:").zip(number("size:")).ok_or_else(|| format!("field `{name}` has no place"))
        };
        let ((time, time_size), (commit, commit_size)) = (field("timestamp")?, field("commit")?);
        let (data, data_size) = field("data")?;
        if time != 0 || time_size != 8 || !matches!(commit_size, 4 | 8) || data < commit + commit_size {
            return Err("the page has a form that is not known".to_owned());
        }
        Ok(Self { commit, commit_size, data, size: data + data_size })
    }

    /// Gives `take` what is in a page, in order.
    ///
    /// # Errors
    /// If the page contradicts itself; what came before was given.
    pub(super) fn read<'a>(
        &self,
        page: &'a [u8],
        mut take: impl FnMut(Item<'a>),
    ) -> Result<(), MalformedPage> {
        let mut time_ns = u64_at(page, 0)?;
        let commit = match self.commit_size {
            8 => u64_at(page, self.commit)?,
            _ => u64::from(u32_at(page, self.commit)?),
        };
        let data = page.get(self.data..).ok_or(MalformedPage)?;
        let length = (commit & LENGTH_MASK) as usize;
        if commit & LOST != 0 {
            let events = if commit & LOST_STORED != 0 { u64_at(data, length)? } else { 1 };
            take(Item::Lost { time_ns, events });
        }
        let data = data.get(..length).ok_or(MalformedPage)?;
        let mut at = 0;
        while at + 4 <= data.len() {
            let (kind, delta) = split(u32_at(data, at)?);
            at += 4;
            let mut more = || -> Result<u64, MalformedPage> {
                at += 4;
                Ok(u64::from(u32_at(data, at - 4)?))
            };
            match kind {
                30 => time_ns = time_ns.wrapping_add(delta).wrapping_add(more()? << 27),
                31 => time_ns = (more()? << 27 | delta) & !TIME_TOP | time_ns & TIME_TOP,
                29 if delta == 0 => return Ok(()),
                29 => {
                    time_ns = time_ns.wrapping_add(delta);
                    let skipped = more()? as usize;
                    at = (at + skipped).checked_sub(4).filter(|next| *next >= at).ok_or(MalformedPage)?;
                }
                _ => {
                    let bytes = match kind {
                        0 => (more()? as usize).checked_sub(4).ok_or(MalformedPage)?,
                        _ => kind as usize * 4,
                    };
                    time_ns = time_ns.wrapping_add(delta);
                    let bytes = data.get(at..).and_then(|rest| rest.get(..bytes)).ok_or(MalformedPage)?;
                    take(Item::Event { time_ns, bytes });
                    at += bytes.len();
                }
            }
        }
        Ok(())
    }
}

/// Type and delta of an event's first word.
fn split(word: u32) -> (u32, u64) {
    if cfg!(target_endian = "little") {
        (word & 31, u64::from(word >> 5))
    } else {
        (word >> 27, u64::from(word & 0x07ff_ffff))
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32, MalformedPage> {
    let bytes = bytes.get(at..).and_then(|rest| rest.first_chunk()).ok_or(MalformedPage)?;
    Ok(u32::from_ne_bytes(*bytes))
}

fn u64_at(bytes: &[u8], at: usize) -> Result<u64, MalformedPage> {
    let bytes = bytes.get(at..).and_then(|rest| rest.first_chunk()).ok_or(MalformedPage)?;
    Ok(u64::from_ne_bytes(*bytes))
}

#[cfg(all(test, target_endian = "little"))]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As Linux 6.18 describes its pages.
    pub(in crate::capture) const HEADER: &str = "\
\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;
\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;
\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;
\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;
";

    fn page(time_ns: u64, flags: u64, words: &[u32], behind: &[u8]) -> Vec<u8> {
        let mut page = time_ns.to_ne_bytes().to_vec();
        page.extend(((words.len() as u64 * 4) | flags).to_ne_bytes());
        words.iter().for_each(|word| page.extend(word.to_ne_bytes()));
        page.extend(behind);
        page.resize(4096, 0);
        page
    }

    fn event(kind: u32, delta: u32) -> u32 {
        kind | delta << 5
    }

    #[test]
    fn page_is_read_with_the_kernels_description() {
        let layout = PageLayout::parse(HEADER).unwrap();
        assert_eq!(layout.size, 4096);
        let top = 0x10_u64 << 56;
        let words = [
            event(2, 5),
            7,
            8,
            event(30, 3),
            1,
            event(0, 10),
            12,
            9,
            10,
            event(29, 2),
            8,
            99,
            event(1, 1),
            11,
            event(31, 6),
            2,
            event(1, 0),
            12,
            event(29, 0),
            event(1, 1),
            13,
        ];
        let page = page(top + 1000, LOST | LOST_STORED, &words, &42_u64.to_ne_bytes());
        let mut seen = Vec::new();
        layout
            .read(&page, |item| match item {
                Item::Lost { time_ns, events } => seen.push((time_ns - top, vec![events as u32])),
                Item::Event { time_ns, bytes } => {
                    let words = bytes.chunks(4).map(|word| u32::from_ne_bytes(word.try_into().unwrap()));
                    seen.push((time_ns - top, words.collect()));
                }
            })
            .unwrap();
        let long = 1008 + (1 << 27);
        assert_eq!(
            seen,
            [
                (1000, vec![42]),
                (1005, vec![7, 8]),
                (long + 10, vec![9, 10]),
                (long + 13, vec![11]),
                ((2 << 27) + 6, vec![12]),
            ]
        );
    }

    #[test]
    fn invalid_description_is_refused() {
        assert_eq!(PageLayout::parse(""), Err("there is no field `timestamp`".to_owned()));
        let no_place = HEADER.replace("offset:16", "offset:99999999");
        assert_eq!(PageLayout::parse(&no_place), Err("field `data` has no place".to_owned()));
        assert!(PageLayout::parse(&HEADER.replace("offset:0;\tsize:8", "offset:0;\tsize:4")).is_err());
    }

    #[test]
    fn contradictory_pages_are_an_error() {
        let layout = PageLayout::parse(HEADER).unwrap();
        for words in [&[event(0, 1), 3][..], &[event(0, 1), 4000], &[event(5, 1), 1], &[event(30, 1)]] {
            assert_eq!(layout.read(&page(0, 0, words, &[]), |_| ()), Err(MalformedPage), "{words:?}");
        }
        assert_eq!(layout.read(&page(0, 5000, &[], &[]), |_| ()), Err(MalformedPage));
    }

    proptest! {
        #[test]
        fn arbitrary_pages_yield_a_result(words in prop::collection::vec(any::<u32>(), 0..64), flags: u64) {
            let layout = PageLayout::parse(HEADER).unwrap();
            let page = page(0, flags & (LOST | LOST_STORED), &words, &[]);
            let mut bytes_seen = 0;
            let _ = layout.read(&page, |item| {
                if let Item::Event { bytes, .. } = item {
                    bytes_seen += bytes.len();
                }
            });
            prop_assert!(bytes_seen <= words.len() * 4);
        }
    }
}
