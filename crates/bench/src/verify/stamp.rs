//! The stamp of a sector: the write of a stream of a run that it belongs to, and a checksum.
//!
//! ```text
//!  0 magic     8 run     16 lbn     24 sequence     32 stream  36 sector  38 format  40 CRC-32  44 zero
//! 48 data …  120 marker  128 data …  184 marker  …  504 marker        marker: sequence ^ scramble(run, lbn)
//! ```
//! All numbers are little-endian. `sector` counts within the block. The checksum is that of the whole sector with zero in
//! its place. The markers, one in 64 bytes, show a sector of which only a part was written.

/// Bytes of a sector: what a device writes at once at least.
pub(super) const SECTOR_BYTES: usize = 512;
/// Bytes before the data.
const HEAD_BYTES: usize = 48;
const MAGIC: u64 = u64::from_le_bytes(*b"seeklab\x01");
const FORMAT: u16 = 1;
/// Places of the markers.
const MARKERS: [usize; 7] = [120, 184, 248, 312, 376, 440, 504];

/// Identity of a sector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) run: u64,
    pub(super) lbn: u64,
    pub(super) sequence: u64,
    /// Number of the stream within its run.
    pub(super) stream: u32,
    /// Number of the sector within its block.
    pub(super) sector: u16,
}

/// Contents of a sector that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sector {
    /// A whole sector of a write.
    Whole(Stamp),
    /// Parts of two writes.
    Torn,
    /// A stamp of this run that the checksum does not confirm.
    Corrupt,
    /// The same byte throughout.
    Constant(u8),
    /// No stamp of this program.
    Foreign,
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// A word that depends on run and address (the finalizer of SplitMix64).
const fn scramble(run: u64, lbn: u64) -> u64 {
    let mut z = run ^ lbn.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn checksum(sector: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&sector[..40]);
    hasher.update(&[0; 4]);
    hasher.update(&sector[44..]);
    hasher.finalize()
}

impl Stamp {
    /// Writes the stamp into a sector, around its data.
    pub(super) fn write(&self, sector: &mut [u8]) {
        sector[..8].copy_from_slice(&MAGIC.to_le_bytes());
        sector[8..16].copy_from_slice(&self.run.to_le_bytes());
        sector[16..24].copy_from_slice(&self.lbn.to_le_bytes());
        sector[24..32].copy_from_slice(&self.sequence.to_le_bytes());
        sector[32..36].copy_from_slice(&self.stream.to_le_bytes());
        sector[36..38].copy_from_slice(&self.sector.to_le_bytes());
        sector[38..40].copy_from_slice(&FORMAT.to_le_bytes());
        sector[44..HEAD_BYTES].fill(0);
        let marker = self.sequence ^ scramble(self.run, self.lbn);
        for at in MARKERS {
            sector[at..at + 8].copy_from_slice(&marker.to_le_bytes());
        }
        let checksum = checksum(sector);
        sector[40..44].copy_from_slice(&checksum.to_le_bytes());
    }

    fn read(sector: &[u8]) -> Self {
        Self {
            run: u64_at(sector, 8),
            lbn: u64_at(sector, 16),
            sequence: u64_at(sector, 24),
            stream: u32::from_le_bytes(sector[32..36].try_into().expect("four bytes")),
            sector: u16::from_le_bytes(sector[36..38].try_into().expect("two bytes")),
        }
    }
}

impl Sector {
    /// Reads a sector of block `lbn` in a run that has issued writes up to `newest`.
    pub(super) fn read(sector: &[u8], run: u64, lbn: u64, newest: u64) -> Self {
        let stored = u32::from_le_bytes(sector[40..44].try_into().expect("four bytes"));
        let is_ours = u64_at(sector, 0) == MAGIC;
        if is_ours && sector[38..40] == FORMAT.to_le_bytes() && checksum(sector) == stored {
            return Self::Whole(Stamp::read(sector));
        }
        let first = sector[0];
        if sector.iter().all(|byte| *byte == first) {
            return Self::Constant(first);
        }
        let stamp = Stamp::read(sector);
        let scramble = scramble(run, lbn);
        let markers = MARKERS.map(|at| u64_at(sector, at) ^ scramble);
        let is_issued = |sequence: u64| (1..=newest).contains(&sequence);
        let [.., before, last] = markers;
        let has_tail = before == last && is_issued(last);
        // Two of these by chance: less than once in 2^60 sectors.
        let likenesses = [is_ours, stamp.run == run, stamp.lbn == lbn, has_tail];
        if likenesses.into_iter().filter(|is_alike| *is_alike).count() < 2 && !has_tail {
            return Self::Foreign;
        }
        let is_constant = |bytes: &[u8]| bytes.iter().all(|byte| *byte == bytes[0]);
        let is_torn = if is_ours && stamp.run == run && is_issued(stamp.sequence) {
            // The head of one write, and behind it the rest of another or a blank rest.
            let same = markers.iter().take_while(|sequence| **sequence == stamp.sequence).count();
            markers.get(same).is_some_and(|next| {
                let is_of_one = is_issued(*next) && markers[same..].iter().all(|sequence| sequence == next);
                let is_rest = is_of_one || is_constant(&sector[MARKERS[same]..]);
                is_rest && !is_one_flip(sector, &stamp, *next)
            })
        } else {
            has_tail && is_constant(&sector[..HEAD_BYTES])
        };
        if is_torn { Self::Torn } else { Self::Corrupt }
    }
}

/// Returns true if a sequence number differs from that of the stamp because a bit of one of them changed.
fn is_one_flip(sector: &[u8], stamp: &Stamp, other: u64) -> bool {
    if (stamp.sequence ^ other).count_ones() != 1 {
        return false;
    }
    let stored = u32::from_le_bytes(sector[40..44].try_into().expect("four bytes"));
    [stamp.sequence, other].into_iter().any(|sequence| {
        let mut repaired = [0; SECTOR_BYTES];
        repaired.copy_from_slice(sector);
        repaired[24..32].copy_from_slice(&sequence.to_le_bytes());
        let last = MARKERS[MARKERS.len() - 1];
        // A flip changes one place only.
        if sequence == stamp.sequence {
            let marker = sequence ^ scramble(stamp.run, stamp.lbn);
            repaired[last..].copy_from_slice(&marker.to_le_bytes());
        }
        checksum(&repaired) == stored
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: u64 = 77;

    fn sector(lbn: u64, sequence: u64, data: u8) -> [u8; SECTOR_BYTES] {
        let mut bytes = [data; SECTOR_BYTES];
        Stamp { run: RUN, lbn, sequence, stream: 3, sector: 0 }.write(&mut bytes);
        bytes
    }

    fn read(bytes: &[u8]) -> Sector {
        Sector::read(bytes, RUN, 9, 1_000)
    }

    #[test]
    fn stamp_is_read_as_it_was_written() {
        let stamp = Stamp { run: RUN, lbn: 9, sequence: 5, stream: 3, sector: 0 };
        assert_eq!(read(&sector(9, 5, 1)), Sector::Whole(stamp));
        assert_eq!(read(&sector(8, 5, 1)), Sector::Whole(Stamp { lbn: 8, ..stamp }));
    }

    #[test]
    fn each_flip_of_a_bit_is_corrupt() {
        // Sequence numbers that are close, so that a flip makes one of another write.
        let good = sector(9, 6, 1);
        for bit in 0..SECTOR_BYTES * 8 {
            let mut bytes = good;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read(&bytes), Sector::Corrupt, "bit {bit}");
        }
    }

    #[test]
    fn sector_of_two_writes_is_torn_wherever_it_is_cut() {
        // The same data: only the stamps differ.
        let (old, new) = (sector(9, 4, 1), sector(9, 7, 1));
        for cut in (HEAD_BYTES..=SECTOR_BYTES - 8).step_by(8) {
            for (head, rest) in [(&new, &old), (&old, &new), (&new, &[0; SECTOR_BYTES])] {
                let bytes = [&head[..cut], &rest[cut..]].concat();
                assert_eq!(read(&bytes), Sector::Torn, "cut behind {cut} bytes");
            }
            // A blank head. The end alone is too little to know.
            if cut <= MARKERS[5] {
                let bytes = [&[0; SECTOR_BYTES][..cut], &new[cut..]].concat();
                assert_eq!(read(&bytes), Sector::Torn, "cut behind {cut} bytes");
            }
        }
    }

    #[test]
    fn sectors_of_others_are_foreign_or_constant() {
        assert_eq!(read(&[0; SECTOR_BYTES]), Sector::Constant(0));
        assert_eq!(read(&[255; SECTOR_BYTES]), Sector::Constant(255));
        let bytes: Vec<u8> = (0..SECTOR_BYTES).map(|at| (at * 7 % 251) as u8).collect();
        assert_eq!(read(&bytes), Sector::Foreign);
    }
}
