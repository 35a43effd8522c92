//! Weights of control variates: figures of the same draws whose exact values are known.

/// Slope of a figure over its control, from both in each batch of a run, around both over the whole run. The slope of batches
/// whose control does not vary is 0.
pub(super) fn slope(batches: impl Iterator<Item = (f64, f64)>, (figure, control): (f64, f64)) -> f64 {
    let (mut products, mut squares) = (0.0, 0.0);
    for (of_figure, of_control) in batches {
        let deviation = of_control - control;
        products += deviation * (of_figure - figure);
        squares += deviation * deviation;
    }
    if squares > 0.0 { products / squares } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slope_is_that_of_the_line_through_the_whole() {
        let line = [(3.0, 1.0), (7.0, 3.0)];
        assert_eq!(slope(line.into_iter(), (5.0, 2.0)), 2.0);
        assert_eq!(slope([(1.0, 2.0), (4.0, 2.0)].into_iter(), (2.5, 2.0)), 0.0);
    }
}
