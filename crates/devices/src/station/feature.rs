//! Features of a request that are known when its service starts, as classes on a line.

use seeklab_core::Operation;
use seeklab_core::statistics::{least_of, octave_class};

/// Something that a service time may depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Feature {
    /// The operation.
    Op,
    /// Blocks of the request.
    Length,
    /// Waiting for a server: no or yes.
    Waited,
    /// Other requests in the device.
    Queue,
    /// From the start of the request served before to its own, in blocks.
    Distance,
    /// Blocks from the nearest end of the last 16 requests served.
    Stream,
    /// Place on the device, in 64ths.
    Place,
    /// The operation served before.
    Before,
    /// Time for which the device had been idle.
    Idle,
    /// Writes served one after the other just before.
    WritesInRow,
    /// Writes served since the device was last idle.
    WritesSinceIdle,
    /// Time that a write buffer still owes the media.
    Owed,
    /// Force unit access: no or yes.
    Fua,
}

/// Number of features.
pub const FEATURES: usize = 13;

/// The class of each feature.
pub type Row = [u8; FEATURES];

/// No feature has as many classes.
pub const CLASSES: usize = 128;

/// Octaves of a distance on either side.
const SIDE: u32 = 48;

/// The classes of a feature that a request has or has not.
const NO_YES: [&str; 2] = ["no", "yes"];

impl Feature {
    /// All features.
    pub const ALL: [Self; FEATURES] = [
        Self::Op,
        Self::Length,
        Self::Waited,
        Self::Queue,
        Self::Distance,
        Self::Stream,
        Self::Place,
        Self::Before,
        Self::Idle,
        Self::WritesInRow,
        Self::WritesSinceIdle,
        Self::Owed,
        Self::Fua,
    ];

    /// The name in descriptions.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Op => "op",
            Self::Length => "length",
            Self::Waited => "waited",
            Self::Queue => "queue",
            Self::Distance => "distance",
            Self::Stream => "stream",
            Self::Place => "place",
            Self::Before => "before",
            Self::Idle => "idle",
            Self::WritesInRow => "writes_in_row",
            Self::WritesSinceIdle => "writes_since_idle",
            Self::Owed => "owed",
            Self::Fua => "fua",
        }
    }

    /// The feature of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|feature| feature.name() == name)
    }

    /// Returns the unit of the feature's numbers, for people.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Op | Self::Before | Self::Waited | Self::Fua => "",
            Self::Length | Self::Distance | Self::Stream => "blocks",
            Self::Queue => "requests",
            Self::WritesInRow | Self::WritesSinceIdle => "writes",
            Self::Place => "64ths",
            Self::Idle | Self::Owed => "us",
        }
    }

    /// The least value that is in this class or beyond, as text; classes of operations have names.
    pub(super) fn write(self, class: u8) -> String {
        let number = u32::from(class);
        let counted = |per_octave| match number {
            0 => 0,
            number => {
                let least = least_of(number - 1, per_octave);
                // Classes that no whole number has begin at the next.
                least + u64::from(counted(least, per_octave) < class)
            }
        };
        match self {
            Self::Op | Self::Before => {
                Operation::ALL.get(usize::from(class)).map_or("none", |op| op.name()).to_owned()
            }
            Self::Waited | Self::Fua => NO_YES[usize::from(class > 0)].to_owned(),
            Self::Length => counted(2).to_string(),
            Self::Queue | Self::WritesInRow | Self::WritesSinceIdle | Self::Owed => counted(4).to_string(),
            Self::Stream | Self::Idle => counted(1).to_string(),
            Self::Place => number.to_string(),
            Self::Distance => match number {
                SIDE => "0".to_owned(),
                sequential if sequential == SIDE + 1 => "seq".to_owned(),
                ahead if ahead > SIDE => format!("+{}", least_of(ahead - SIDE - 2, 1)),
                behind => format!("-{}", least_of(SIDE - 1 - behind, 1)),
            },
        }
    }

    /// Describes the classes from `from` to below `until` in words, where these are given. Of the
    /// operations, only those that the trace contains are named.
    pub(super) fn describe(self, from: Option<u8>, until: Option<u8>, seen: &[Operation]) -> String {
        if matches!(self, Self::Op | Self::Before) {
            let classes = from.unwrap_or(0)..until.unwrap_or(Operation::ALL.len() as u8 + 1);
            let is_seen = |class: &u8| {
                let op = Operation::ALL.get(usize::from(*class));
                self.is_class(*class) && op.is_none_or(|op| seen.contains(op))
            };
            let names: Vec<String> = classes.filter(is_seen).map(|class| self.write(class)).collect();
            let after = if self == Self::Before { "after " } else { "" };
            return format!("{after}{}", names.join(" or "));
        }
        if self == Self::Waited {
            return if from.is_some() { "having waited" } else { "at once" }.to_owned();
        }
        if self == Self::Fua {
            return if from.is_some() { "with FUA" } else { "without FUA" }.to_owned();
        }
        let unit = if self.unit().is_empty() { String::new() } else { format!(" {}", self.unit()) };
        match (from, until) {
            (Some(from), Some(until)) => {
                format!("{} {} to below {}{unit}", self.name(), self.write(from), self.write(until))
            }
            (Some(from), None) => format!("{} {}{unit} or more", self.name(), self.write(from)),
            (None, Some(until)) => format!("{} below {}{unit}", self.name(), self.write(until)),
            (None, None) => self.name().to_owned(),
        }
    }

    /// The class that [`write`](Self::write) has written.
    pub(super) fn read(self, text: &str) -> Option<u8> {
        (0..CLASSES as u8).find(|class| self.is_class(*class) && self.write(*class) == text)
    }

    /// Returns true if the feature has the class.
    fn is_class(self, class: u8) -> bool {
        u32::from(class)
            < match self {
                Self::Op => Operation::ALL.len() as u32,
                Self::Before => Operation::ALL.len() as u32 + 1,
                Self::Distance => 2 * SIDE + 2,
                Self::Waited | Self::Fua => NO_YES.len() as u32,
                Self::Place => 64,
                Self::Length | Self::Stream | Self::Idle => 65,
                Self::Queue | Self::WritesInRow | Self::WritesSinceIdle | Self::Owed => CLASSES as u32,
            }
    }
}

/// The class of a count, where 0 is a class of its own.
pub(super) fn counted(count: u64, per_octave: u32) -> u8 {
    let class = if count == 0 { 0 } else { 1 + octave_class(count, per_octave) };
    class.min(CLASSES as u32 - 1) as u8
}

/// The class of a distance from start to start; of one that begins where the other ended.
pub(super) fn distance(blocks: i64, is_sequential: bool) -> u8 {
    let far = || octave_class(blocks.unsigned_abs().max(1), 1).min(SIDE - 1);
    let class = match blocks {
        _ if is_sequential => SIDE + 1,
        0 => SIDE,
        1.. => SIDE + 2 + far(),
        _ => SIDE - 1 - far(),
    };
    class as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_is_read_as_written() {
        for feature in Feature::ALL {
            assert_eq!(Feature::from_name(feature.name()), Some(feature));
            let mut written = std::collections::BTreeSet::new();
            for class in (0..CLASSES as u8).filter(|class| feature.is_class(*class)) {
                let text = feature.write(class);
                // Classes that no whole number has have the text of the next above.
                if written.insert(text.clone()) {
                    assert_eq!(feature.read(&text), Some(class), "{} {text}", feature.name());
                }
            }
            assert_eq!(feature.read("much"), None);
        }
    }

    #[test]
    fn last_class_of_the_request_before_is_none() {
        let classes = (0..CLASSES as u8).filter(|class| Feature::Before.is_class(*class)).count();
        assert_eq!(classes, Operation::ALL.len() + 1, "each operation, and no request before");
        let texts: Vec<String> = (0..classes as u8).map(|class| Feature::Before.write(class)).collect();
        let last = Feature::Before.read(&texts[classes - 1]);
        assert_eq!(last, Some(classes as u8 - 1), "{texts:?}");
    }

    #[test]
    fn question_holds_for_the_same_values_after_reading() {
        let values = (0..300).chain([1 << 20, (1 << 40) + 1, u64::MAX]);
        for (feature, per_octave) in [(Feature::Queue, 4), (Feature::Length, 2), (Feature::Stream, 1)] {
            for class in (0..CLASSES as u8).filter(|class| feature.is_class(*class)) {
                let read = feature.read(&feature.write(class)).unwrap();
                for value in values.clone() {
                    let of = counted(value, per_octave);
                    assert_eq!(of < class, of < read, "{} {value}, class {class}", feature.name());
                }
            }
        }
    }

    #[test]
    fn classes_are_in_the_order_of_their_values() {
        let distances = [i64::MIN, -5_000, -3, -1].map(|blocks| distance(blocks, false));
        let ahead = [0, 1, 2, 4, 1 << 40].map(|blocks| distance(blocks, false));
        assert!(distances.windows(2).all(|pair| pair[0] < pair[1]) && distances[3] < ahead[0]);
        assert!(ahead.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(ahead[0] < distance(8, true) && distance(8, true) < ahead[1]);
        assert!(usize::from(counted(u64::MAX, 4)) < CLASSES);
    }
}
