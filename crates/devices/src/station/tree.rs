//! Choice of a distribution of service times by features: a binary tree of questions.
//!
//! As text, each node is a line, followed by the nodes for the answer yes and then by those for the answer
//! no:
//! ```text
//! op < flush
//! . length < 64 blocks
//! . . = 1210 3*7 1*2        times, as in `table`
//! . . = 1800*4
//! . = 2210
//! ```

use super::feature::{Feature, Row};
use crate::table::Times;

/// No tree is deeper.
pub const DEPTH_MAX: usize = 48;

/// No tree has more nodes.
const NODES_MAX: usize = 1 << 16;

/// A question, or where the questions end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Node {
    /// Question: if the class of the feature is below `class`, the next node follows, otherwise the node
    /// at `no`.
    Split {
        /// The feature's number.
        feature: u8,
        /// The first class that answers no.
        class: u8,
        /// The place of the node that answers no.
        no: u32,
    },
    /// The distribution of that number.
    Leaf(u32),
}

/// A tree over `L`: counts during the fit, times to draw from afterwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree<L> {
    /// The first question, followed by what answers yes and then by what answers no.
    pub nodes: Vec<Node>,
    /// The distributions, by their numbers.
    pub leaves: Vec<L>,
}

impl<L> Tree<L> {
    /// The number of the leaf for these features.
    pub fn leaf(&self, row: &Row) -> usize {
        let mut at = 0;
        loop {
            match self.nodes[at] {
                Node::Leaf(leaf) => return leaf as usize,
                Node::Split { feature, class, .. } if row[usize::from(feature)] < class => at += 1,
                Node::Split { no, .. } => at = no as usize,
            }
        }
    }

    /// Returns the lines of the description; `write` formats a leaf.
    pub fn write(&self, write: impl Fn(&L) -> String) -> Vec<String> {
        let (mut lines, mut depths) = (Vec::with_capacity(self.nodes.len()), vec![0]);
        for node in &self.nodes {
            let depth: usize = depths.pop().expect("every node has a parent, or is the first");
            let indent = ". ".repeat(depth);
            lines.push(match node {
                Node::Leaf(leaf) => format!("{indent}= {}", write(&self.leaves[*leaf as usize])),
                Node::Split { feature, class, .. } => {
                    depths.extend([depth + 1; 2]);
                    let feature = Feature::ALL[usize::from(*feature)];
                    let unit = feature.unit();
                    let space = if unit.is_empty() { "" } else { " " };
                    format!("{indent}{} < {}{space}{unit}", feature.name(), feature.write(*class))
                }
            });
        }
        lines
    }
}

impl Tree<Times> {
    /// Reads what [`write`](Self::write) has written.
    ///
    /// # Errors
    /// The line, and what is wrong with it.
    pub(super) fn read(lines: &[String]) -> Result<Self, (usize, String)> {
        let mut tree = Self { nodes: Vec::new(), leaves: Vec::new() };
        // The questions whose answer no is still to come.
        let mut open: Vec<usize> = Vec::new();
        let mut is_whole = false;
        for (index, line) in lines.iter().enumerate() {
            let wrong = |problem: String| (index, problem);
            if is_whole || index >= NODES_MAX || open.len() > DEPTH_MAX {
                return Err(wrong("there is nothing left to answer, or the tree is too large".to_owned()));
            }
            let text = line.trim_start_matches(['.', ' ']);
            if let Some(times) = text.strip_prefix('=') {
                tree.nodes.push(Node::Leaf(tree.leaves.len() as u32));
                tree.leaves.push(Times::read(times).map_err(wrong)?);
                // Its yes is answered: what follows is the no of the innermost question that has none.
                match open.pop() {
                    Some(question) => {
                        let next = tree.nodes.len() as u32;
                        if let Node::Split { no, .. } = &mut tree.nodes[question] {
                            *no = next;
                        }
                    }
                    None => is_whole = true,
                }
            } else {
                let question = read_question(text).ok_or_else(|| {
                    wrong(format!("`{text}` is no FEATURE < VALUE, such as `queue < 8 requests`"))
                })?;
                open.push(tree.nodes.len());
                tree.nodes.push(question);
            }
        }
        if is_whole {
            Ok(tree)
        } else {
            Err((lines.len(), "questions are left without an answer".to_owned()))
        }
    }
}

fn read_question(text: &str) -> Option<Node> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let (feature, rest) = words.split_first()?;
    let feature = Feature::from_name(feature)?;
    let (value, unit) = match rest {
        ["<", value] => (value, ""),
        ["<", value, unit @ ..] => (value, *unit.first()?),
        _ => return None,
    };
    let class = feature.read(value)?;
    let is_unit = feature.unit().split(' ').next().unwrap_or_default() == unit;
    is_unit.then_some(Node::Split { feature: feature as u8, class, no: 0 })
}
