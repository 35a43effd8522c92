//! Zeroes: recognising them.

/// Returns true if every byte is zero. Data seldom starts with a long run of zeroes, so the answer is usually
/// false after the first few bytes.
pub(super) fn is_zero(bytes: &[u8]) -> bool {
    // Long enough to be compared with vector instructions, short enough to give up early.
    const STRIDE: usize = 128;
    let strides = bytes.chunks_exact(STRIDE);
    let rest = strides.remainder();
    strides.into_iter().all(|stride| stride == [0; STRIDE]) && rest.iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bit_anywhere_is_detected() {
        for length in [0, 1, 127, 128, 129, 300] {
            let mut bytes = vec![0; length];
            assert!(is_zero(&bytes));
            for index in 0..length {
                bytes[index] = 0x10;
                assert!(!is_zero(&bytes));
                bytes[index] = 0;
            }
        }
    }
}
