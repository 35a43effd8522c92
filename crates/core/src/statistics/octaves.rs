//! Logarithmic classes: each doubling of a whole number has as many.

/// The class of `value`, at least 1, where each doubling has `per_octave` (a power of two) classes.
pub const fn octave_class(value: u64, per_octave: u32) -> u32 {
    let octave = value.ilog2();
    let bits = per_octave.trailing_zeros();
    let fraction = if octave >= bits { value >> (octave - bits) } else { value << (bits - octave) };
    octave * per_octave + (fraction as u32 & (per_octave - 1))
}

/// The least value of a class; for classes that no whole number has, the next below.
pub const fn least_of(class: u32, per_octave: u32) -> u64 {
    let (octave, bits) = (class / per_octave, per_octave.trailing_zeros());
    let fraction = (per_octave + class % per_octave) as u64;
    if octave >= bits { fraction << (octave - bits) } else { fraction >> (bits - octave) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_value_of_a_class_has_that_class() {
        for per_octave in [1, 2, 4] {
            for value in (1..5_000).chain([1 << 20, u64::from(u32::MAX), u64::MAX]) {
                let class = octave_class(value, per_octave);
                let least = least_of(class, per_octave);
                assert!(
                    least <= value && octave_class(least, per_octave) == class,
                    "{value} by {per_octave}"
                );
            }
        }
    }
}
