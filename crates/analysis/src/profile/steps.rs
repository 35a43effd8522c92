//! Classes of whole numbers: 0 to 7 each, then four for each doubling.

/// How many classes there are.
pub(super) const CLASSES: usize = class(u32::MAX) + 1;

/// The class of a number.
pub(super) const fn class(value: u32) -> usize {
    if value < 8 {
        return value as usize;
    }
    let octave = value.ilog2();
    8 + ((octave - 3) * 4 + ((value >> (octave - 2)) & 3)) as usize
}

/// The least number of a class.
pub(super) const fn least(class: usize) -> u32 {
    if class < 8 {
        return class as u32;
    }
    let (octave, quarter) = ((class as u32 - 8) / 4 + 3, (class as u32 - 8) % 4);
    (4 + quarter) << (octave - 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_the_least_of_each_class_that_class() {
        for value in (0..10_000).chain([1 << 20, u32::MAX - 1, u32::MAX]) {
            let class = class(value);
            assert!(least(class) <= value && class < CLASSES, "{value}");
            assert_eq!(self::class(least(class)), class, "{value}");
            assert!(class + 1 == CLASSES || least(class + 1) > value, "{value}");
        }
    }
}
