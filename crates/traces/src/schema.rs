//! The columns of the canonical trace, in CSV and Parquet alike.

use seeklab_core::{Criticality, Operation, Status};

use Column::*;

/// Declares the columns in their order: identifier, name, meaning, and the schema version that introduced it.
macro_rules! columns {
    ($($column:ident $name:literal since $since:literal $meaning:literal,)+) => {
        /// A column of the canonical trace; its discriminant is its place in [`Column::ALL`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Column {
            $(#[doc = $meaning] $column,)+
        }

        impl Column {
            /// Number of columns.
            pub const COUNT: usize = [$($name),+].len();

            /// Every column, in the order of the schema.
            pub const ALL: [Self; Self::COUNT] = [$(Self::$column),+];

            /// Its name, which ends in the unit of a time.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$column => $name,)+
                }
            }

            /// Meaning of its values, in one sentence or two.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$column => $meaning,)+
                }
            }

            /// Version of the schema that introduced the column.
            pub const fn since(self) -> u32 {
                match self {
                    $(Self::$column => $since,)+
                }
            }
        }
    };
}

columns! {
    ArrivalNs "arrival_ns" since 1
        "Time at which the request arrived: at the host's queue, or at the device if the host has no queue.",
    IssueNs "issue_ns" since 1
        "Time at which the innermost device received the request.",
    StartNs "start_ns" since 1
        "Time at which the innermost device began to serve the request.",
    CompletionNs "completion_ns" since 1
        "Time of completion.",
    ResponseNs "response_ns" since 1
        "Response time: from arrival to completion.",
    QueueNs "queue_ns" since 1
        "Queue time: from arrival to the start of service.",
    ServiceNs "service_ns" since 1
        "Service time: from the start of service to completion.",
    ThinkNs "think_ns" since 1
        "Time from the completion of the request to the issue of the next one.",
    QueueLength "queue_length" since 1
        "Requests ahead of the request when it arrived.",
    Device "device" since 1
        "Number of the device.",
    Initiator "initiator" since 1
        "Number of the process or client that sent the request.",
    Op "op" since 1
        "Operation.",
    Fua "fua" since 1
        "Force unit access: the request completes when its data is on the media.",
    Lbn "lbn" since 1
        "First logical block. Zero for an operation that addresses no blocks.",
    Blocks "blocks" since 1
        "Number of logical blocks. Zero for an operation that addresses no blocks.",
    Criticality "criticality" since 1
        "Dependence of a process on the request when it arrived.",
    BecameTimeLimitedNs "became_time_limited_ns" since 3
        "Time at which the pending request became time-limited. Null if it did not.",
    BecameTimeCriticalNs "became_time_critical_ns" since 3
        "Time at which the pending request became time-critical: a process has waited for it since then. Null if it did not.",
    Priority "priority" since 1
        "Priority. A larger number is more urgent.",
    Status "status" since 1
        "Status of the completed request. Schema version 1 has `error` for every error, which is read as `aborted`.",
    GoodBlocks "good_blocks" since 2
        "Blocks of a failed request before the first bad one. Null for a request that was carried out.",
    Fault "fault" since 2
        "Names of the faults that struck the request, joined with `+`. Null if none struck it.",
    OverheadNs "overhead_ns" since 1
        "Part of the service time: command processing by the electronics of the device.",
    SeekNs "seek_ns" since 1
        "Part of the service time: movement of the arm or sled.",
    SeekCylinders "seek_cylinders" since 1
        "Cylinders between the position of the arm before the request and its first track.",
    SettleNs "settle_ns" since 1
        "Part of the service time: settling beyond the seek, such as before a write.",
    HeadSwitchNs "head_switch_ns" since 1
        "Part of the service time: the head switch beyond the seek.",
    RotationNs "rotation_ns" since 1
        "Part of the service time: rotational latency, initial and additional.",
    TransferNs "transfer_ns" since 1
        "Part of the service time: transfer between media and device.",
    BusNs "bus_ns" since 1
        "Part of the service time: transfer between device and host beyond the media time.",
    InternalNs "internal_ns" since 1
        "Part of the service time: work of the device that the host did not request, such as destaging.",
    CacheHit "cache_hit" since 1
        "True if the buffer of the device answered. Null if the device has no buffer.",
    Mp1ArrivalNs "mp1_arrival_ns" since 1
        "Time at which the host issued the request (MP1).",
    Mp1CompletionNs "mp1_completion_ns" since 1
        "Time at which the host recorded the completion (MP1).",
    Mp2ArrivalNs "mp2_arrival_ns" since 1
        "Time at which the read that delivered the request to the emulator returned (MP2).",
    Mp2DueNs "mp2_due_ns" since 1
        "Time at which the reply was due: the completion of the model less the early-completion allowance.",
    Mp2CompletionNs "mp2_completion_ns" since 1
        "Time just before the emulator wrote the reply (MP2).",
    MissCause "miss_cause" since 1
        "Reason why the reply left too late. Null if it left in time.",
}

/// Type of the values in a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// A whole number from 0 to this.
    Number(u64),
    /// One of these names; a row holds its index.
    Name(&'static [&'static str]),
    /// `false` or `true`; a row holds 0 or 1.
    Flag,
    /// Names of faults from the metadata, joined with `+`; a row holds the bits of their set.
    Faults,
}

const OPERATIONS: [&str; Operation::ALL.len()] = {
    let mut names = [""; Operation::ALL.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = Operation::ALL[index].name();
        index += 1;
    }
    names
};

const CRITICALITIES: [&str; Criticality::ALL.len()] = {
    let mut names = [""; Criticality::ALL.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = Criticality::ALL[index].name();
        index += 1;
    }
    names
};

const CAUSES: [&str; seeklab_core::MissCause::ALL.len()] = {
    let mut names = [""; seeklab_core::MissCause::ALL.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = seeklab_core::MissCause::ALL[index].name();
        index += 1;
    }
    names
};

const STATUSES: [&str; Status::ALL.len()] = {
    let mut names = [""; Status::ALL.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = Status::ALL[index].name();
        index += 1;
    }
    names
};

impl Column {
    /// The columns without which there is no trace.
    pub const REQUIRED: [Self; 4] = [ArrivalNs, Op, Lbn, Blocks];

    /// Columns measured outside the model. A trace has them only if its first row has a value in any of them.
    pub const POINTS: [Self; 6] =
        [Mp1ArrivalNs, Mp1CompletionNs, Mp2ArrivalNs, Mp2DueNs, Mp2CompletionNs, MissCause];

    /// The columns that a trace is written with, in the order of the schema: those of
    /// [`POINTS`](Self::POINTS) too, or without them.
    pub fn written(with_points: bool) -> &'static [Self] {
        const ALL: &[Column] = &Column::ALL;
        if with_points { ALL } else { &ALL[..ALL.len() - Self::POINTS.len()] }
    }

    /// The parts of the service time, in the order of the schema.
    pub const PARTS: [Self; 8] =
        [OverheadNs, SeekNs, SettleNs, HeadSwitchNs, RotationNs, TransferNs, BusNs, InternalNs];

    /// Unit of its values: `ns`, `blocks` and so on; empty of names, numbers of things and flags.
    pub fn unit(self) -> &'static str {
        match self {
            Lbn => "block number",
            Blocks | GoodBlocks => "blocks",
            SeekCylinders => "cylinders",
            QueueLength => "requests",
            _ if self.name().ends_with("_ns") => "ns",
            _ => "",
        }
    }

    /// The column of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|column| column.name() == name)
    }

    /// Returns the type of the values.
    pub const fn content(self) -> Content {
        match self {
            Op => Content::Name(&OPERATIONS),
            Criticality => Content::Name(&CRITICALITIES),
            Status => Content::Name(&STATUSES),
            MissCause => Content::Name(&CAUSES),
            Fua | CacheHit => Content::Flag,
            Fault => Content::Faults,
            Priority => Content::Number(u8::MAX as u64),
            Device => Content::Number(u16::MAX as u64),
            QueueLength | Initiator | Blocks | GoodBlocks | SeekCylinders => Content::Number(u32::MAX as u64),
            _ => Content::Number(u64::MAX),
        }
    }

    /// Returns the code of a name in a column of names, today's or that of an older schema.
    pub fn code(self, name: &str) -> Option<u64> {
        let Content::Name(names) = self.content() else { return None };
        let name = match self {
            Status => Status::from_name(name)?.name(),
            _ => name,
        };
        names.iter().position(|known| *known == name).map(|code| code as u64)
    }

    /// Returns true if the column may be null. All other columns have a value in every row that seeklab writes.
    pub const fn is_nullable(self) -> bool {
        !matches!(
            self,
            ArrivalNs | Device | Initiator | Op | Fua | Lbn | Blocks | Criticality | Priority | Status
        )
    }

    /// Returns the message that the schema has no such column, with similar names.
    pub fn advice(unknown: &str) -> String {
        let near = seeklab_core::names::near(unknown, Self::ALL.map(Self::name));
        match near.is_empty() {
            true => "the trace schema has no such column".to_owned(),
            false => {
                let near = near.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" or ");
                format!("the trace schema has no such column; near it is {near}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_in_their_own_place_and_found_by_name() {
        for (index, column) in Column::ALL.into_iter().enumerate() {
            assert_eq!(column as usize, index);
            assert_eq!(Column::from_name(column.name()), Some(column));
        }
        assert_eq!([Column::written(false), &Column::POINTS].concat(), Column::written(true));
    }

    #[test]
    fn message_advises_similar_names() {
        assert!(Column::advice("completion_us").ends_with("near it is `completion_ns`"));
        assert!(Column::advice("zebra").ends_with("no such column"));
    }
}
