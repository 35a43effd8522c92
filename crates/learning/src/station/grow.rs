//! Growing a tree: each question is the one that explains most of the service times, and is kept if it also
//! does so for requests that were not used to choose it.
//!
//! # Method
//! Service times are put into classes of equal shares, those of the tail finer. A question is chosen by the
//! gain in likelihood of the classes on one part of the rows; a subtree is cut if it is no gain on the other
//! part (Breiman et al., chapter 3.4: pruning by a test sample). The parts alternate over the trace in long
//! pieces, because neighbours in time are alike. The leaves then count all rows.
//!
//! Where a device takes the request with the shortest service, those that it passed over would have lasted longer. Their likelihood
//! is that of lasting as long as the one that was taken: the product over the classes before of the chance not to end in them. Without
//! such requests, the product of these chances is the share of a class.

use seeklab_core::Duration;
use seeklab_devices::station::parts::{CLASSES, DEPTH_MAX, FEATURES, Node, Row, Tree};

use super::survival::Survival;
use crate::error::Error;
use crate::stop::StopCheck;

/// One service in a trace, or one that a request would have had that was passed over.
#[derive(Debug, Clone, Copy)]
pub(super) struct Service {
    pub(super) row: Row,
    /// Its time, or that of the request that was taken: it would have lasted longer.
    pub(super) time: Duration,
    /// Number of requests that were passed over which it stands for; 0 for a service.
    pub(super) passed_over: u16,
}

impl Service {
    /// Returns true if it took place.
    pub(super) const fn is_served(&self) -> bool {
        self.passed_over == 0
    }
}

/// Classes of service times: sixteenths, and the last percent and thousandth.
const KINDS: usize = 18;

/// Rows on either side of a question.
const LEAST: usize = 64;

/// Questions below each other.
const DEPTH: usize = 14;
const _: () = assert!(DEPTH < DEPTH_MAX);

/// Pieces into which rows are cut. Every third piece is not used to choose questions.
const PIECES: usize = 48;

/// Cells of a histogram: one for each class of times. With requests that were passed over, as many for these follow.
type Cells<const CELLS: usize> = [u32; CELLS];

struct Grower<'a, const CELLS: usize> {
    services: &'a [(u32, Service)],
    stop: &'a StopCheck,
    /// The cell of each service.
    kinds: Vec<u8>,
    /// Features that questions may be about.
    features: Vec<usize>,
    nodes: Vec<Node>,
    /// Histogram by feature (as placed in `features`), class and cell.
    histogram: Vec<u32>,
}

/// A tree over the services, each with the number of its request, by the features of the mask; there is at least one service.
pub(super) fn grow(
    services: &[(u32, Service)],
    mask: [bool; FEATURES],
    stop: &StopCheck,
) -> Result<Tree<Survival>, Error> {
    if services.iter().all(|(_, service)| service.is_served()) {
        grow_cells::<KINDS>(services, mask, stop)
    } else {
        grow_cells::<{ 2 * KINDS }>(services, mask, stop)
    }
}

fn grow_cells<const CELLS: usize>(
    services: &[(u32, Service)],
    mask: [bool; FEATURES],
    stop: &StopCheck,
) -> Result<Tree<Survival>, Error> {
    let kinds = kinds(services);
    let piece = services.len().div_ceil(PIECES).max(1);
    let (mut chosen, mut held): (Vec<u32>, Vec<u32>) =
        (0..services.len() as u32).partition(|index| (*index as usize / piece) % 3 != 2);
    let features: Vec<usize> = (0..FEATURES).filter(|feature| mask[*feature]).collect();
    let histogram = vec![0; features.len() * CLASSES * CELLS];
    let mut grower = Grower::<CELLS> { services, stop, kinds, features, nodes: Vec::new(), histogram };
    grower.node(&mut chosen, &mut held, 0)?;
    let mut tree = Tree { nodes: grower.nodes, leaves: Vec::new() };
    for node in &mut tree.nodes {
        if let Node::Leaf(leaf) = node {
            *leaf = tree.leaves.len() as u32;
            tree.leaves.push(Vec::new());
        }
    }
    for (_, service) in services {
        let leaf = tree.leaf(&service.row);
        tree.leaves[leaf].push((service.time, service.passed_over));
    }
    Ok(Tree { nodes: tree.nodes, leaves: tree.leaves.into_iter().map(Survival::of).collect() })
}

/// The cell of each service.
fn kinds(services: &[(u32, Service)]) -> Vec<u8> {
    let served = services.iter().filter(|(_, service)| service.is_served());
    let mut sorted: Vec<Duration> = served.map(|(_, service)| service.time).collect();
    sorted.sort_unstable();
    let at = |share: f64| sorted[((sorted.len() as f64 * share) as usize).min(sorted.len() - 1)];
    let mut edges: Vec<Duration> = (1..16).map(|sixteenth| at(f64::from(sixteenth) / 16.0)).collect();
    edges.extend([at(0.99), at(0.999)]);
    debug_assert_eq!(edges.len() + 1, KINDS);
    let cell = |(_, service): &(u32, Service)| {
        let kind = edges.partition_point(|edge| *edge < service.time);
        (if service.is_served() { kind } else { KINDS + kind }) as u8
    };
    services.iter().map(cell).collect()
}

/// Returns how many were served.
fn served<const CELLS: usize>(counts: &Cells<CELLS>) -> u32 {
    counts[..KINDS].iter().sum()
}

impl<const CELLS: usize> Grower<'_, CELLS> {
    /// Grows the node of these rows; the likelihood of the held ones by what grew.
    fn node(&mut self, chosen: &mut [u32], held: &mut [u32], depth: usize) -> Result<f64, Error> {
        self.stop.check()?;
        let place = self.nodes.len();
        self.nodes.push(Node::Leaf(0));
        let counts = self.counts(chosen);
        let as_leaf = self.likelihood_held(held, &counts);
        let question =
            if depth < DEPTH && chosen.len() >= 2 * LEAST { self.question(chosen, &counts) } else { None };
        let Some((feature, class)) = question else { return Ok(as_leaf) };
        let is_yes =
            |services: &[(u32, Service)], index: u32| services[index as usize].1.row[feature] < class;
        let services = self.services;
        let (yes, no) = split(chosen, |index| is_yes(services, index));
        let (held_yes, held_no) = split(held, |index| is_yes(services, index));
        let mut asked = self.node(yes, held_yes, depth + 1)?;
        let no_place = self.nodes.len() as u32;
        asked += self.node(no, held_no, depth + 1)?;
        if asked <= as_leaf {
            self.nodes.truncate(place + 1);
            return Ok(as_leaf);
        }
        self.nodes[place] = Node::Split { feature: feature as u8, class, no: no_place };
        Ok(asked)
    }

    /// Number of requests that a service stands for.
    fn weight(&self, index: u32) -> u32 {
        if CELLS == KINDS { 1 } else { self.services[index as usize].1.passed_over.max(1).into() }
    }

    fn counts(&self, rows: &[u32]) -> Cells<CELLS> {
        let mut counts = [0; CELLS];
        for index in rows {
            counts[usize::from(self.kinds[*index as usize])] += self.weight(*index);
        }
        counts
    }

    /// Returns the likelihood of held rows by the chosen rows of their leaf, with half a count added to
    /// each class.
    fn likelihood_held(&self, held: &[u32], counts: &Cells<CELLS>) -> f64 {
        if CELLS == KINDS {
            let total: u32 = counts.iter().sum();
            let all = (f64::from(total) + 0.5 * KINDS as f64).ln();
            let each = counts.map(|count| (f64::from(count) + 0.5).ln() - all);
            return held.iter().map(|index| each[usize::from(self.kinds[*index as usize])]).sum();
        }
        let (ended, passed) = counts.split_at(KINDS);
        let mut at_risk =
            counts.iter().map(|count| f64::from(*count)).sum::<f64>() + 0.5 * (KINDS + 1) as f64;
        let mut each = [0.0; CELLS];
        let mut lasted = 0.0;
        for kind in 0..KINDS {
            let ends = (f64::from(ended[kind]) + 0.5) / at_risk;
            each[kind] = lasted + ends.ln();
            lasted += (1.0 - ends).ln();
            each[KINDS + kind] = lasted;
            at_risk -= f64::from(ended[kind]) + 0.5 + f64::from(passed[kind]);
        }
        let of =
            |index: &u32| f64::from(self.weight(*index)) * each[usize::from(self.kinds[*index as usize])];
        held.iter().map(of).sum()
    }

    /// The question that gains most.
    fn question(&mut self, rows: &[u32], counts: &Cells<CELLS>) -> Option<(usize, u8)> {
        let total: u32 = counts.iter().sum();
        let all_served = served(counts);
        let whole = likelihood(counts, total);
        self.histogram.fill(0);
        for index in rows {
            let kind = usize::from(self.kinds[*index as usize]);
            let weight = self.weight(*index);
            let row = &self.services[*index as usize].1.row;
            for (place, feature) in self.features.iter().enumerate() {
                self.histogram[(place * CLASSES + usize::from(row[*feature])) * CELLS + kind] += weight;
            }
        }
        let mut best = None;
        // A gain that chance makes: half a logarithm of the rows for each class of times that there is.
        let free = counts[..KINDS].iter().filter(|count| **count > 0).count().saturating_sub(1);
        let mut most = 0.5 * free as f64 * f64::from(total).ln();
        for (place, feature) in self.features.iter().enumerate() {
            let (mut below, mut below_total) = ([0_u32; CELLS], 0);
            for class in 0..CLASSES - 1 {
                let at = (place * CLASSES + class) * CELLS;
                let here = &self.histogram[at..at + CELLS];
                let count: u32 = here.iter().sum();
                if count == 0 {
                    continue;
                }
                for (below, here) in below.iter_mut().zip(here) {
                    *below += here;
                }
                below_total += count;
                let below_served = served(&below) as usize;
                if below_served < LEAST {
                    continue;
                }
                if (all_served as usize) - below_served < LEAST {
                    break;
                }
                let mut above = *counts;
                for (above, below) in above.iter_mut().zip(&below) {
                    *above -= below;
                }
                let gain = likelihood(&below, below_total) + likelihood(&above, total - below_total) - whole;
                if gain > most {
                    most = gain;
                    best = Some((*feature, class as u8 + 1));
                }
            }
        }
        best
    }
}

/// Logarithm of the likelihood of counts by their own shares.
fn likelihood<const CELLS: usize>(counts: &Cells<CELLS>, total: u32) -> f64 {
    if CELLS > KINDS {
        let (ended, passed) = counts.split_at(KINDS);
        let mut at_risk = total;
        let of = |count: u32, of: u32| {
            if count == 0 { 0.0 } else { f64::from(count) * (f64::from(count) / f64::from(of)).ln() }
        };
        let each = ended.iter().zip(passed).map(|(ended, passed)| {
            let all = at_risk;
            at_risk -= ended + passed;
            of(*ended, all) + of(all - ended, all)
        });
        return each.sum();
    }
    let each =
        counts.iter().filter(|count| **count > 0).map(|count| f64::from(*count) * f64::from(*count).ln());
    each.sum::<f64>() - f64::from(total) * f64::from(total).ln()
}

/// Puts those for which it holds first, in order.
fn split(rows: &mut [u32], mut is_yes: impl FnMut(u32) -> bool) -> (&mut [u32], &mut [u32]) {
    let mut others = Vec::with_capacity(rows.len());
    let mut first = 0;
    for place in 0..rows.len() {
        let index = rows[place];
        if is_yes(index) {
            rows[first] = index;
            first += 1;
        } else {
            others.push(index);
        }
    }
    rows[first..].copy_from_slice(&others);
    rows.split_at_mut(first)
}
