//! Which of the requests that wait is served next: by its rank in order of arrival, as was seen.
//!
//! As text, for a class of how many wait: `2: 0*90 32*10` says that of two the first was taken 90 times, and 10 times
//! the one that has 32/64 of them before it.

use seeklab_core::Stream;

use crate::table::{least_of, octave_class};

/// Shares of a line in which ranks are counted.
const SHARES: u32 = 64;

/// Classes of how many wait: four for each doubling.
const CLASSES: usize = 64;

fn class(waiting: u32) -> usize {
    (octave_class(u64::from(waiting.max(1)), 4) as usize).min(CLASSES - 1)
}

/// Picks being counted.
#[derive(Debug, Clone, Default)]
pub(super) struct PickCounts(Vec<(usize, [u64; SHARES as usize])>);

impl PickCounts {
    /// The request of that rank (from 0) was taken of `waiting`.
    pub(super) fn record(&mut self, rank: u32, waiting: u32) {
        let class = class(waiting);
        let place = match self.0.binary_search_by_key(&class, |(class, _)| *class) {
            Ok(place) => place,
            Err(place) => {
                self.0.insert(place, (class, [0; SHARES as usize]));
                place
            }
        };
        // Upwards, so that the share leads back to the rank where few wait.
        let share = (u64::from(rank) * u64::from(SHARES)).div_ceil(u64::from(waiting.max(1)));
        self.0[place].1[share.min(u64::from(SHARES) - 1) as usize] += 1;
    }

    /// Logarithm of the likelihood of the picks by their own shares.
    pub(super) fn likelihood(&self) -> f64 {
        let of = |shares: &[u64]| {
            let total = shares.iter().sum::<u64>() as f64;
            let counted = shares.iter().filter(|count| **count > 0).map(|count| *count as f64);
            counted.map(|count| count * (count / total).ln()).sum::<f64>()
        };
        self.0.iter().map(|(_, shares)| of(shares)).sum()
    }

    /// As texts, one for each class.
    pub(super) fn write(&self) -> Vec<String> {
        let line = |(class, shares): &(usize, [u64; SHARES as usize])| {
            let counted = shares.iter().enumerate().filter(|(_, count)| **count > 0);
            let items: Vec<String> = counted.map(|(share, count)| format!("{share}*{count}")).collect();
            format!("{}: {}", least_of(*class as u32, 4), items.join(" "))
        };
        self.0.iter().map(line).collect()
    }

    /// To pick by.
    pub(super) fn picks(&self) -> Picks {
        let classes: Vec<Option<Vec<(u32, u64)>>> = (0..CLASSES)
            .map(|wanted| {
                let nearest = self.0.iter().min_by_key(|(class, _)| class.abs_diff(wanted))?;
                let mut until = 0;
                let counted = nearest.1.iter().enumerate().filter(|(_, count)| **count > 0);
                Some(
                    counted
                        .map(|(share, count)| {
                            until += count;
                            (share as u32, until)
                        })
                        .collect(),
                )
            })
            .collect();
        Picks { classes }
    }

    /// Reads what [`write`](Self::write) has written.
    ///
    /// # Errors
    /// What is wrong with the line.
    pub(super) fn read(lines: &[String]) -> Result<Self, (usize, String)> {
        let mut counts = Self::default();
        for (index, line) in lines.iter().enumerate() {
            let wrong = || (index, "WAITING: SHARE*COUNT …, such as `2: 0*90 32*10`".to_owned());
            let (waiting, items) = line.split_once(':').ok_or_else(wrong)?;
            let waiting: u32 = waiting.trim().parse().map_err(|_| wrong())?;
            let mut shares = [0; SHARES as usize];
            for item in items.split_ascii_whitespace() {
                let (share, count) = item.split_once('*').ok_or_else(wrong)?;
                let share: usize = share.parse().map_err(|_| wrong())?;
                let count: u32 = count.parse().map_err(|_| wrong())?;
                *shares.get_mut(share).ok_or_else(wrong)? += u64::from(count);
            }
            if shares.iter().sum::<u64>() == 0 {
                return Err(wrong());
            }
            let class = class(waiting);
            match counts.0.binary_search_by_key(&class, |(class, _)| *class) {
                Ok(_) => return Err((index, "one line for each class of waiting requests".to_owned())),
                Err(place) => counts.0.insert(place, (class, shares)),
            }
        }
        Ok(counts)
    }
}

/// Picks to draw from.
#[derive(Debug, Clone)]
pub(super) struct Picks {
    /// Shares and how often these or smaller ones were seen; `None` where nothing ever waited.
    classes: Vec<Option<Vec<(u32, u64)>>>,
}

impl Picks {
    /// The rank of the next of `waiting` requests.
    pub(super) fn draw(&self, waiting: usize, stream: &mut Stream) -> usize {
        if waiting < 2 {
            return 0;
        }
        let Some(shares) = &self.classes[class(u32::try_from(waiting).unwrap_or(u32::MAX))] else { return 0 };
        let (_, total) = *shares.last().expect("something was counted");
        let drawn = stream.below(total);
        let (share, _) = shares[shares.partition_point(|(_, until)| *until <= drawn)];
        let Some(before) = share.checked_sub(1) else { return 0 };
        // The ranks that are counted in that share; none but the first in the share 0.
        let rank_until = |share: u32| u64::from(share) * waiting as u64 / u64::from(SHARES);
        let (least, most) = (rank_until(before) + 1, rank_until(share));
        let rank = if most > least { least + stream.below(most - least + 1) } else { least };
        (rank as usize).min(waiting - 1)
    }
}

#[cfg(test)]
mod tests {
    use seeklab_core::Seed;

    use super::*;

    #[test]
    fn are_ranks_picked_as_often_as_they_were_seen() {
        let mut counts = PickCounts::default();
        for waiting in 2..=64 {
            for rank in 0..waiting {
                // Of each number, the last twice as often.
                (0..=u32::from(rank + 1 == waiting)).for_each(|_| counts.record(rank, waiting));
            }
        }
        let read = PickCounts::read(&counts.write()).unwrap();
        assert_eq!(read.write(), counts.write());
        let (picks, mut stream) = (read.picks(), Seed(1).stream("picks"));
        for waiting in [2, 3, 7] {
            let mut seen = vec![0_u32; waiting];
            (0..8_000).for_each(|_| seen[picks.draw(waiting, &mut stream)] += 1);
            let each = 8_000.0 / (waiting as f64 + 1.0);
            for (rank, count) in seen.iter().enumerate() {
                let expected = if rank + 1 == waiting { 2.0 * each } else { each };
                assert!((f64::from(*count) / expected - 1.0).abs() < 0.15, "{waiting}: {seen:?}");
            }
        }
        assert!(picks.draw(100_000, &mut stream) < 100_000);
        assert_eq!(PickCounts::default().picks().draw(5, &mut stream), 0, "in order of arrival");
    }

    #[test]
    fn are_mistakes_told() {
        for line in ["2", "x: 0*1", "2: 64*1", "2: 0", "2:", "2: 0*0"] {
            assert!(PickCounts::read(&[line.to_owned()]).is_err(), "{line}");
        }
        let twice = ["2: 0*1".to_owned(), "2: 1*1".to_owned()];
        assert_eq!(PickCounts::read(&twice).unwrap_err().0, 1);
    }
}
