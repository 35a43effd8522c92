//! Long series of errors in few points, of which no extreme is lost.

/// Points of a series at most.
const POINTS_MAX: usize = 4_000;

/// The `count` points of `series`, or, where they are too many, the lowest and the highest of each few in
/// succession: a sample would lose the outliers, which are what one looks for.
pub(crate) fn extremes(series: impl Iterator<Item = (f64, f64)>, count: usize) -> Vec<(f64, f64)> {
    if count <= POINTS_MAX {
        return series.collect();
    }
    let run = count.div_ceil(POINTS_MAX / 2);
    let mut points = Vec::with_capacity(POINTS_MAX);
    let mut lowest_and_highest: Option<[(usize, (f64, f64)); 2]> = None;
    for (index, point) in series.enumerate() {
        let entry = (index, point);
        let [low, high] = lowest_and_highest.get_or_insert([entry; 2]);
        if point.1 < low.1.1 {
            *low = entry;
        }
        if point.1 > high.1.1 {
            *high = entry;
        }
        if (index + 1) % run == 0 || index + 1 == count {
            points.extend(lowest_and_highest.take().into_iter().flat_map(in_order));
        }
    }
    points
}

/// Both points in order, one if they are the same.
fn in_order([low, high]: [(usize, (f64, f64)); 2]) -> impl Iterator<Item = (f64, f64)> {
    let (first, second) = if low.0 <= high.0 { (low, high) } else { (high, low) };
    std::iter::once(first.1).chain((first.0 != second.0).then_some(second.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_points_are_all_kept_and_many_keep_every_extreme() {
        let series = |count: usize| (0..count).map(|index| (index as f64, (index * 7_919 % 1_000) as f64));
        assert!(extremes(series(4_000), 4_000).into_iter().eq(series(4_000)));
        let count = 100_003;
        let with_outliers = series(count).map(|(x, y)| match x {
            31_337.0 => (x, 1e6),
            100_002.0 => (x, -1e6),
            _ => (x, y),
        });
        let points = extremes(with_outliers, count);
        assert!(points.len() <= POINTS_MAX, "{}", points.len());
        assert!(points.contains(&(31_337.0, 1e6)) && points.contains(&(100_002.0, -1e6)));
        assert!(points.windows(2).all(|pair| pair[0].0 < pair[1].0), "in order");
    }
}
