//! Pending requests in order of address.

use std::collections::BTreeMap;

use seeklab_core::{Pending, RequestId};
use serde::{Deserialize, Serialize};

/// Address of a request, as a scheduler orders by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Address {
    /// Its first logical block, all that a host knows.
    #[default]
    Lbn,
    /// The cylinder of its first block, which a disk knows.
    Cylinder,
}

impl Address {
    /// The address of a pending request.
    pub(super) const fn of(self, pending: &Pending) -> u64 {
        match self {
            Self::Lbn => pending.request.lbn,
            Self::Cylinder => pending.location.cylinder as u64,
        }
    }
}

/// Pending requests by address, those of one address in the order in which they came.
#[derive(Debug, Clone, Default)]
pub(super) struct Ordered {
    address: Address,
    pending: BTreeMap<(u64, u64), Pending>,
    pushed: u64,
}

impl Ordered {
    pub(super) const fn new(address: Address) -> Self {
        Self { address, pending: BTreeMap::new(), pushed: 0 }
    }

    pub(super) const fn address(&self) -> Address {
        self.address
    }

    pub(super) fn push(&mut self, pending: Pending) {
        self.push_ranked(pending, self.pushed);
        self.pushed += 1;
    }

    /// Adds a request with a rank that its owner keeps, among the requests of one address. A list has ranks of its owner or
    /// of its own.
    pub(super) fn push_ranked(&mut self, pending: Pending, rank: u64) {
        self.pending.insert((self.address.of(&pending), rank), pending);
    }

    /// The pending request of that number.
    pub(super) fn get_mut(&mut self, id: RequestId) -> Option<&mut Pending> {
        self.pending.values_mut().find(|pending| pending.request.id == id)
    }

    /// Address and rank of the pending request of that number.
    pub(super) fn key_of(&self, id: RequestId) -> Option<(u64, u64)> {
        self.iter().find(|(_, pending)| pending.request.id == id).map(|(key, _)| *key)
    }

    pub(super) fn len(&self) -> usize {
        self.pending.len()
    }

    pub(super) fn remove(&mut self, key: (u64, u64)) -> Option<Pending> {
        self.pending.remove(&key)
    }

    /// The lowest at or above `address`; of one address the first that came.
    pub(super) fn at_or_above(&self, address: u64) -> Option<(u64, u64)> {
        self.pending.range((address, 0)..).next().map(|(key, _)| *key)
    }

    /// The highest at or below `address`; of one address the first that came.
    pub(super) fn at_or_below(&self, address: u64) -> Option<(u64, u64)> {
        let ((highest, _), _) = self.pending.range(..=(address, u64::MAX)).next_back()?;
        self.at_or_above(*highest)
    }

    pub(super) fn lowest(&self) -> Option<(u64, u64)> {
        self.pending.first_key_value().map(|(key, _)| *key)
    }

    /// All, in order of address.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&(u64, u64), &Pending)> {
        self.pending.iter()
    }
}
