//! Choice of the waiting request that is served next: its rank in line is drawn from the counts of the trace.
//!
//! Ranks near either end are counted one by one, because the end of a circular line is just behind the place
//! of the last service. Ranks between are counted by 32nds of the range between.
//!
//! As text, for a class of numbers of waiting requests: `24: 0*90 2*1 -1*7 ~16*2` means that the first in
//! line was taken 90 times, the third once, the last 7 times, and a request halfway between twice. Where one operation stands
//! before all others, ranks are those among the requests of that operation if one waits; `first: 40*2` means that it was
//! taken 40 times of those in which others waited, too, and 2 times another was.

use seeklab_core::Stream;
use seeklab_core::statistics::{least_of, octave_class};

/// Ranks at either end that are counted one by one.
const END: u32 = 16;

/// Parts of what lies between.
const BETWEEN: u32 = 32;

/// Places of a pick: the ranks from the first on, those between, those to the last.
const PLACES: usize = (END + BETWEEN + END) as usize;

/// Beginning of the text of the precedence.
const FIRST: &str = "first:";

/// Classes of how many wait: four for each doubling.
const CLASSES: usize = 64;

fn class(waiting: u32) -> usize {
    (octave_class(u64::from(waiting.max(1)), 4) as usize).min(CLASSES - 1)
}

/// The place of a rank (from 0) among `waiting`.
fn place(rank: u32, waiting: u32) -> usize {
    let behind = waiting.saturating_sub(rank).max(1);
    let place = match (rank, behind) {
        (front, _) if front < END && 2 * front < waiting => front,
        (_, behind) if behind <= END => END + BETWEEN + END - behind,
        _ => {
            let (before, all) = (u64::from(rank - END), u64::from(waiting - 2 * END));
            END + (before * u64::from(BETWEEN) / all) as u32
        }
    };
    place as usize
}

/// The ranks of a place among `waiting`, the least and the number of them; there are at least two that wait.
fn ranks(place: usize, waiting: u32) -> (u32, u32) {
    let place = place as u32;
    let (least, count) = if place < END {
        (place, 1)
    } else if place >= END + BETWEEN {
        (waiting.saturating_sub(END + BETWEEN + END - place), 1)
    } else if waiting > 2 * END {
        let from = |part: u32| {
            END + (u64::from(part) * u64::from(waiting - 2 * END)).div_ceil(u64::from(BETWEEN)) as u32
        };
        let (least, next) = (from(place - END), from(place - END + 1));
        (least, next.saturating_sub(least).max(1))
    } else {
        (waiting / 2, 1)
    };
    (least.min(waiting - 1), count)
}

fn write_place(place: usize) -> String {
    match place as u32 {
        front if front < END => front.to_string(),
        between if between < END + BETWEEN => format!("~{}", between - END),
        back => format!("-{}", END + BETWEEN + END - back),
    }
}

fn read_place(text: &str) -> Option<usize> {
    (0..PLACES).find(|place| write_place(*place) == text)
}

/// Picks being counted.
#[derive(Debug, Clone, Default)]
pub struct PickCounts {
    /// Places by class of numbers of waiting requests.
    classes: Vec<(usize, [u64; PLACES])>,
    /// Picks at which an operation stood before others that waited: that operation was taken, and another.
    first: Precedence,
}

/// Picks while the operation that stands before all others waited, and others, too.
#[derive(Debug, Clone, Copy, Default)]
struct Precedence {
    /// Picks that took that operation.
    kept: u64,
    /// Picks that took another.
    broken: u64,
}

impl PickCounts {
    /// The request of that rank (from 0) was taken of `waiting`, of which `first` are of the operation that stands before all others.
    pub fn record(&mut self, rank: u32, waiting: u32, first: u32) {
        let (rank, waiting) = if first == 0 || first == waiting {
            (rank, waiting)
        } else if rank < first {
            self.first.kept += 1;
            (rank, first)
        } else {
            self.first.broken += 1;
            (rank - first, waiting - first)
        };
        if waiting < 2 {
            return;
        }
        let class = class(waiting);
        let at = match self.classes.binary_search_by_key(&class, |(class, _)| *class) {
            Ok(at) => at,
            Err(at) => {
                self.classes.insert(at, (class, [0; PLACES]));
                at
            }
        };
        self.classes[at].1[place(rank, waiting)] += 1;
    }

    /// Logarithm of the likelihood of the picks by their own shares.
    pub fn likelihood(&self) -> f64 {
        let of = |places: &[u64]| {
            let total = places.iter().sum::<u64>() as f64;
            let counted = places.iter().filter(|count| **count > 0).map(|count| *count as f64);
            counted.map(|count| count * (count / total).ln()).sum::<f64>()
        };
        let Precedence { kept, broken } = self.first;
        of(&[kept, broken]) + self.classes.iter().map(|(_, places)| of(places)).sum::<f64>()
    }

    /// The picks without their ranks: how often the operation that stands before all others was taken.
    pub fn precedence(&self) -> Self {
        Self { classes: Vec::new(), first: self.first }
    }

    /// Returns true if the operation that stands before all others was taken at least as often as others were instead.
    pub fn keeps_precedence(&self) -> bool {
        self.first.kept >= self.first.broken
    }

    /// Share of the picks that did not fall on the first in line.
    pub(super) fn out_of_order(&self) -> f64 {
        let all: u64 = self.classes.iter().flat_map(|(_, places)| places).sum();
        let first: u64 = self.classes.iter().map(|(_, places)| places[0]).sum();
        (all - first) as f64 / all.max(1) as f64
    }

    /// As texts, one for each class.
    pub fn write(&self) -> Vec<String> {
        let line = |(class, places): &(usize, [u64; PLACES])| {
            let counted = places.iter().enumerate().filter(|(_, count)| **count > 0);
            let items: Vec<String> =
                counted.map(|(place, count)| format!("{}*{count}", write_place(place))).collect();
            format!("{}: {}", least_of(*class as u32, 4), items.join(" "))
        };
        let Precedence { kept, broken } = self.first;
        let first = (kept + broken > 0).then(|| format!("{FIRST} {kept}*{broken}"));
        first.into_iter().chain(self.classes.iter().map(line)).collect()
    }

    /// To pick by.
    pub fn picks(&self) -> Picks {
        let classes: Vec<Option<Vec<(u8, u64)>>> = (0..CLASSES)
            .map(|wanted| {
                let nearest = self.classes.iter().min_by_key(|(class, _)| class.abs_diff(wanted))?;
                let mut until = 0;
                let counted = nearest.1.iter().enumerate().filter(|(_, count)| **count > 0);
                Some(
                    counted
                        .map(|(place, count)| {
                            until += count;
                            (place as u8, until)
                        })
                        .collect(),
                )
            })
            .collect();
        Picks { classes, first: self.first }
    }

    /// Reads what [`write`](Self::write) has written.
    ///
    /// # Errors
    /// A line that is no ranks with counts: its index, and the form that is allowed.
    pub(super) fn read(lines: &[String]) -> Result<Self, (usize, String)> {
        let mut counts = Self::default();
        for (index, line) in lines.iter().enumerate() {
            if let Some(text) = line.strip_prefix(FIRST) {
                let counted = text
                    .split_once('*')
                    .map(|(kept, broken)| (kept.trim().parse::<u32>(), broken.trim().parse::<u32>()));
                let Some((Ok(kept), Ok(broken))) = counted else {
                    return Err((index, "first: KEPT*BROKEN, such as `first: 40*2`".to_owned()));
                };
                counts.first = Precedence { kept: kept.into(), broken: broken.into() };
                continue;
            }
            let wrong = || (index, "WAITING: RANK*COUNT …, such as `2: 0*90 -1*10`".to_owned());
            let (waiting, items) = line.split_once(':').ok_or_else(wrong)?;
            let waiting: u32 = waiting.trim().parse().map_err(|_| wrong())?;
            let mut places = [0; PLACES];
            for item in items.split_ascii_whitespace() {
                let (rank, count) = item.split_once('*').ok_or_else(wrong)?;
                let place = read_place(rank).ok_or_else(wrong)?;
                let count: u32 = count.parse().map_err(|_| wrong())?;
                places[place] += u64::from(count);
            }
            if places.iter().sum::<u64>() == 0 {
                return Err(wrong());
            }
            let class = class(waiting);
            match counts.classes.binary_search_by_key(&class, |(class, _)| *class) {
                Ok(_) => return Err((index, "one line for each class of waiting requests".to_owned())),
                Err(at) => counts.classes.insert(at, (class, places)),
            }
        }
        Ok(counts)
    }
}

/// Picks to draw from.
#[derive(Debug, Clone)]
pub struct Picks {
    /// Places, each with the count of picks up to it; `None` if no request ever waited.
    classes: Vec<Option<Vec<(u8, u64)>>>,
    first: Precedence,
}

impl Picks {
    /// The rank of the next of `waiting` requests, of which `first` are of the operation that stands before all others.
    pub(super) fn draw(&self, waiting: usize, first: usize, stream: &mut Stream) -> usize {
        match self.takes_first(waiting, first, stream) {
            None => self.rank(waiting, stream),
            Some(true) => self.rank(first, stream),
            Some(false) => first + self.rank(waiting - first, stream),
        }
    }

    /// Returns true if the next of `waiting` requests is one of the `first` of the operation that stands before all others, false if it is
    /// one of the others, and nothing if there is one kind alone.
    pub(super) fn takes_first(&self, waiting: usize, first: usize, stream: &mut Stream) -> Option<bool> {
        let Precedence { kept, broken } = self.first;
        let is_mixed = first != 0 && first != waiting;
        is_mixed.then(|| broken == 0 || stream.below(kept + broken) < kept)
    }

    /// The rank of the next of requests that all may be taken.
    fn rank(&self, waiting: usize, stream: &mut Stream) -> usize {
        if waiting < 2 {
            return 0;
        }
        let waiting = u32::try_from(waiting).unwrap_or(u32::MAX);
        let Some(places) = &self.classes[class(waiting)] else { return 0 };
        let (_, total) = *places.last().expect("something was counted");
        let drawn = stream.below(total);
        let (place, _) = places[places.partition_point(|(_, until)| *until <= drawn)];
        let (least, count) = ranks(usize::from(place), waiting);
        let rank = if count > 1 { least + stream.below(u64::from(count)) as u32 } else { least };
        rank.min(waiting - 1) as usize
    }
}

#[cfg(test)]
mod tests {
    use seeklab_core::Seed;

    use super::*;

    #[test]
    fn ranks_are_picked_as_often_as_counted() {
        let mut counts = PickCounts::default();
        for waiting in 2..=64 {
            for rank in 0..waiting {
                // Of each number, the last twice as often.
                (0..=u32::from(rank + 1 == waiting)).for_each(|_| counts.record(rank, waiting, 0));
            }
        }
        let read = PickCounts::read(&counts.write()).unwrap();
        assert_eq!(read.write(), counts.write());
        let (picks, mut stream) = (read.picks(), Seed(1).stream("picks"));
        for waiting in [2, 3, 7] {
            let mut seen = vec![0_u32; waiting];
            (0..8_000).for_each(|_| seen[picks.draw(waiting, 0, &mut stream)] += 1);
            let each = 8_000.0 / (waiting as f64 + 1.0);
            for (rank, count) in seen.iter().enumerate() {
                let expected = if rank + 1 == waiting { 2.0 * each } else { each };
                assert!((f64::from(*count) / expected - 1.0).abs() < 0.15, "{waiting}: {seen:?}");
            }
        }
        assert!(picks.draw(100_000, 0, &mut stream) < 100_000);
        assert_eq!(PickCounts::default().picks().draw(5, 0, &mut stream), 0, "in order of arrival");
    }

    #[test]
    fn operation_that_stands_first_is_taken_as_often_as_counted() {
        let mut counts = PickCounts::default();
        // Of five of which two stand first: the second of these nine times, and once the last of the others.
        (0..9).for_each(|_| counts.record(1, 5, 2));
        counts.record(4, 5, 2);
        // Alone, or all alike, none stands before another.
        counts.record(0, 1, 0);
        counts.record(1, 4, 4);
        assert_eq!(counts.write(), ["first: 9*1", "2: -1*9", "3: -1*1", "4: 1*1"]);
        let picks = PickCounts::read(&counts.write()).unwrap().picks();
        let mut stream = Seed(1).stream("test");
        let drawn: Vec<usize> = (0..4_000).map(|_| picks.draw(5, 2, &mut stream)).collect();
        let share = |rank| drawn.iter().filter(|found| **found == rank).count() as f64 / 4_000.0;
        assert!((share(1) - 0.9).abs() < 0.02 && (share(4) - 0.1).abs() < 0.02, "{} {}", share(1), share(4));
        assert_eq!(PickCounts::read(&["first: 9".to_owned()]).unwrap_err().0, 0);
    }

    #[test]
    fn picks_out_of_order_are_those_behind_the_first() {
        let counts = PickCounts::read(&["2: 0*5 -1*1".to_owned(), "3: 0*1 1*1".to_owned()]).unwrap();
        assert_eq!(counts.out_of_order(), 0.25);
        assert_eq!(PickCounts::default().out_of_order(), 0.0);
    }

    #[test]
    fn rank_is_among_the_ranks_of_its_place() {
        for waiting in (2..200).chain([1_000, 100_003]) {
            let mut before = 0;
            for rank in 0..waiting {
                let place = place(rank, waiting);
                let (least, count) = ranks(place, waiting);
                assert!((least..least + count).contains(&rank), "{rank} of {waiting}: {least}, {count}");
                assert!(place >= before, "{rank} of {waiting}");
                before = place;
                assert_eq!(read_place(&write_place(place)), Some(place));
            }
            assert_eq!((place(0, waiting), place(waiting - 1, waiting)), (0, PLACES - 1));
        }
    }

    #[test]
    fn mistakes_are_reported() {
        for line in ["2", "x: 0*1", "2: 16*1", "2: -17*1", "2: ~32*1", "2: -0*1", "2: 0", "2:", "2: 0*0"] {
            assert!(PickCounts::read(&[line.to_owned()]).is_err(), "{line}");
        }
        let twice = ["2: 0*1".to_owned(), "2: -1*1".to_owned()];
        assert_eq!(PickCounts::read(&twice).unwrap_err().0, 1);
    }
}
