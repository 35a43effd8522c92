//! Seek time as a function of distance.

use schemars::JsonSchema;
use seeklab_core::Duration;
use serde::{Deserialize, Serialize};

use crate::error::{DescriptionError, check};

/// A seek curve: the time that the arm takes over a number of cylinders, reads settled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "curve", rename_all = "snake_case", deny_unknown_fields)]
pub enum SeekCurve {
    /// The same time for every distance above zero.
    Constant {
        /// Time of every seek.
        time: Duration,
    },
    /// Measured points, interpolated linearly; beyond the last the last slope goes on.
    Table {
        /// `[cylinders, time]`, distances ascending from 1.
        points: Vec<(u32, Duration)>,
    },
    /// From a data sheet's three figures: `a + b·√(d-1) + c·(d-1)` through the single-cylinder time at
    /// distance 1, the average at a third of the stroke, the full stroke at the last cylinder
    /// \[Lee & Katz 1993, section 3.2\].
    ThreePoint {
        /// Time of a seek over one cylinder.
        single_cylinder: Duration,
        /// Average over random requests.
        average: Duration,
        /// Time over all cylinders.
        full_stroke: Duration,
    },
    /// Hewlett-Packard's form: `a + b·√d` below a division point and `c + e·d` from it on, the
    /// shortest distances from a table \[Ruemmler & Wilkes 1994, figure 1\].
    Hp {
        /// Cylinders at which the second form begins.
        division: u32,
        /// `a`.
        sqrt_constant: Duration,
        /// `b`.
        sqrt_factor: Duration,
        /// `c`.
        linear_constant: Duration,
        /// `e`, time for each cylinder.
        linear_factor: Duration,
        /// Times of the distances 1, 2, … that the table overrides.
        #[serde(default)]
        first: Vec<Duration>,
    },
}

impl SeekCurve {
    /// Seek times in nanoseconds for every distance `0..cylinders`.
    ///
    /// # Errors
    /// A curve that does not make sense over that many cylinders.
    pub fn tabulate(&self, cylinders: u32) -> Result<Vec<u32>, DescriptionError> {
        self.check()?;
        (0..cylinders)
            .map(|distance| {
                let ns = if distance == 0 { 0.0 } else { self.time_ns(distance, cylinders) };
                if ns.is_finite() && (0.0..=f64::from(u32::MAX)).contains(&ns) {
                    Ok(ns.round() as u32)
                } else {
                    Err(DescriptionError::refused(
                        "mechanics.seek",
                        format!("a seek over {distance} cylinders would take {:.3}ms", ns / 1e6),
                        "a seek takes between 0ms and 4294ms at every distance",
                    ))
                }
            })
            .collect()
    }

    fn check(&self) -> Result<(), DescriptionError> {
        match self {
            Self::Table { points } => {
                check(
                    !points.is_empty(),
                    "mechanics.seek.points",
                    "is empty",
                    "at least one [cylinders, time]",
                )?;
                check(
                    points[0].0 >= 1 && points.windows(2).all(|pair| pair[0].0 < pair[1].0),
                    "mechanics.seek.points",
                    "is not in ascending order",
                    "distances in cylinders ascend from 1",
                )
            }
            Self::ThreePoint { single_cylinder, average, full_stroke } => check(
                single_cylinder <= average && average <= full_stroke,
                "mechanics.seek",
                format!("{single_cylinder} to one cylinder, {average} on average, {full_stroke} full stroke"),
                "single_cylinder <= average <= full_stroke",
            ),
            Self::Constant { .. } | Self::Hp { .. } => Ok(()),
        }
    }

    fn time_ns(&self, distance: u32, cylinders: u32) -> f64 {
        let ns = |duration: &Duration| duration.as_ns() as f64;
        let d = f64::from(distance);
        match self {
            Self::Constant { time } => ns(time),
            Self::Table { points } => {
                let after = points.partition_point(|(cylinders, _)| *cylinders < distance);
                if let Some((_, time)) = points.get(after).filter(|(cylinders, _)| *cylinders == distance) {
                    return ns(time);
                }
                if points.len() == 1 {
                    return ns(&points[0].1);
                }
                let right = after.clamp(1, points.len() - 1);
                let ((d0, t0), (d1, t1)) = (&points[right - 1], &points[right]);
                let slope = (ns(t1) - ns(t0)) / f64::from(d1 - d0);
                ns(t0) + (d - f64::from(*d0)) * slope
            }
            Self::ThreePoint { single_cylinder, average, full_stroke } => {
                // Solve a + b·√x + c·x for x = d - 1 through the three points.
                let a = ns(single_cylinder);
                let (x1, y1) = ((f64::from(cylinders) / 3.0 - 1.0).max(1.0), ns(average) - a);
                let (x2, y2) = ((f64::from(cylinders) - 2.0).max(2.0), ns(full_stroke) - a);
                let determinant = x1.sqrt() * x2 - x2.sqrt() * x1;
                let b = (y1 * x2 - y2 * x1) / determinant;
                let c = (x1.sqrt() * y2 - x2.sqrt() * y1) / determinant;
                a + b * (d - 1.0).sqrt() + c * (d - 1.0)
            }
            Self::Hp { division, sqrt_constant, sqrt_factor, linear_constant, linear_factor, first } => {
                if let Some(time) = first.get(distance as usize - 1) {
                    ns(time)
                } else if distance < *division {
                    ns(sqrt_constant) + ns(sqrt_factor) * d.sqrt()
                } else {
                    ns(linear_constant) + ns(linear_factor) * d
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: f64) -> Duration {
        Duration::from_ms_f64(ms)
    }

    #[test]
    fn table_is_interpolated_and_extended() {
        let curve = SeekCurve::Table { points: vec![(1, ms(1.0)), (10, ms(2.8)), (20, ms(3.8))] };
        let table = curve.tabulate(31).unwrap();
        assert_eq!(
            [0, 1, 4, 10, 15, 20, 30].map(|d| table[d]),
            [0, 1_000_000, 1_600_000, 2_800_000, 3_300_000, 3_800_000, 4_800_000]
        );
    }

    #[test]
    fn three_point_curve_passes_through_its_points() {
        let curve =
            SeekCurve::ThreePoint { single_cylinder: ms(1.0), average: ms(5.2), full_stroke: ms(10.0) };
        let table = curve.tabulate(19_036).unwrap();
        assert_eq!(table[1], 1_000_000);
        assert!(table[19_036 / 3].abs_diff(5_200_000) < 2_000, "{}", table[19_036 / 3]);
        assert!(table[19_035].abs_diff(10_000_000) < 2_000, "{}", table[19_035]);
        assert!(table.windows(2).all(|pair| pair[0] <= pair[1]));
    }

    #[test]
    fn hp_curve_matches_the_published_drive() {
        // HP C2247A, ../shared/reference/disks/hp_c2247a.json and disksim/hp_c2247a/model/seek.csv.
        let first = [2.89, 3.68, 3.81, 3.98, 4.27, 4.65, 4.52, 4.65, 4.82, 4.99].map(ms).to_vec();
        let curve = SeekCurve::Hp {
            division: 300,
            sqrt_constant: ms(3.81),
            sqrt_factor: ms(0.33),
            linear_constant: ms(7.75),
            linear_factor: ms(0.0059),
            first,
        };
        let table = curve.tabulate(2_051).unwrap();
        assert_eq!(table[1], 2_890_000);
        assert_eq!(table[100], 7_110_000);
        assert_eq!(table[1_000], 13_650_000);
    }

    #[test]
    fn senseless_curves_are_refused() {
        let descending = SeekCurve::Table { points: vec![(5, ms(1.0)), (5, ms(2.0))] };
        assert!(descending.tabulate(10).is_err());
        let inverted =
            SeekCurve::ThreePoint { single_cylinder: ms(3.0), average: ms(2.0), full_stroke: ms(4.0) };
        assert!(inverted.tabulate(10).is_err());
        let negative = SeekCurve::Table { points: vec![(1, ms(5.0)), (2, ms(1.0))] };
        assert!(negative.tabulate(10).is_err());
    }
}
