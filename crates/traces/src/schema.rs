//! The columns of the canonical trace, in CSV and Parquet alike.

use seeklab_core::{Criticality, Operation, Status};

use Column::*;

/// A column of the canonical trace; its discriminant is its place in [`Column::ALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names are those of the schema, which the design fixes")]
pub enum Column {
    ArrivalNs,
    IssueNs,
    StartNs,
    CompletionNs,
    ResponseNs,
    QueueNs,
    ServiceNs,
    ThinkNs,
    QueueLength,
    Device,
    Initiator,
    Op,
    Fua,
    Lbn,
    Blocks,
    Criticality,
    Priority,
    Status,
    OverheadNs,
    SeekNs,
    SeekCylinders,
    SettleNs,
    HeadSwitchNs,
    RotationNs,
    TransferNs,
    BusNs,
    InternalNs,
    CacheHit,
    Mp1ArrivalNs,
    Mp1CompletionNs,
    Mp2ArrivalNs,
    Mp2DueNs,
    Mp2CompletionNs,
    MissCause,
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

/// Every status, in the order of its codes.
pub(crate) const STATUSES: [Status; 2] = [Status::Ok, Status::Error];

const STATUS_NAMES: [&str; 2] = [Status::Ok.name(), Status::Error.name()];

impl Column {
    /// Number of columns.
    pub const COUNT: usize = 34;

    /// Every column, in the order of the schema.
    pub const ALL: [Self; Self::COUNT] = [
        ArrivalNs,
        IssueNs,
        StartNs,
        CompletionNs,
        ResponseNs,
        QueueNs,
        ServiceNs,
        ThinkNs,
        QueueLength,
        Device,
        Initiator,
        Op,
        Fua,
        Lbn,
        Blocks,
        Criticality,
        Priority,
        Status,
        OverheadNs,
        SeekNs,
        SeekCylinders,
        SettleNs,
        HeadSwitchNs,
        RotationNs,
        TransferNs,
        BusNs,
        InternalNs,
        CacheHit,
        Mp1ArrivalNs,
        Mp1CompletionNs,
        Mp2ArrivalNs,
        Mp2DueNs,
        Mp2CompletionNs,
        MissCause,
    ];

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

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            ArrivalNs => "arrival_ns",
            IssueNs => "issue_ns",
            StartNs => "start_ns",
            CompletionNs => "completion_ns",
            ResponseNs => "response_ns",
            QueueNs => "queue_ns",
            ServiceNs => "service_ns",
            ThinkNs => "think_ns",
            QueueLength => "queue_length",
            Device => "device",
            Initiator => "initiator",
            Op => "op",
            Fua => "fua",
            Lbn => "lbn",
            Blocks => "blocks",
            Criticality => "criticality",
            Priority => "priority",
            Status => "status",
            OverheadNs => "overhead_ns",
            SeekNs => "seek_ns",
            SeekCylinders => "seek_cylinders",
            SettleNs => "settle_ns",
            HeadSwitchNs => "head_switch_ns",
            RotationNs => "rotation_ns",
            TransferNs => "transfer_ns",
            BusNs => "bus_ns",
            InternalNs => "internal_ns",
            CacheHit => "cache_hit",
            Mp1ArrivalNs => "mp1_arrival_ns",
            Mp1CompletionNs => "mp1_completion_ns",
            Mp2ArrivalNs => "mp2_arrival_ns",
            Mp2DueNs => "mp2_due_ns",
            Mp2CompletionNs => "mp2_completion_ns",
            MissCause => "miss_cause",
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
            Status => Content::Name(&STATUS_NAMES),
            MissCause => Content::Name(&CAUSES),
            Fua | CacheHit => Content::Flag,
            Priority => Content::Number(u8::MAX as u64),
            Device => Content::Number(u16::MAX as u64),
            QueueLength | Initiator | Blocks | SeekCylinders => Content::Number(u32::MAX as u64),
            _ => Content::Number(u64::MAX),
        }
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
