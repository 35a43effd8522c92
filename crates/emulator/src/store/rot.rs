//! Bits that change on the media without a write.

/// Changes a bit of a block, the same one each time.
pub fn rot(block: u64, bytes: &mut [u8]) {
    // The finaliser of SplitMix64 (Steele, Lea, Flood 2014) spreads the number of the block over all bits.
    let mut mixed = block.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    let bit = mixed % (bytes.len() as u64 * 8);
    bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
}
