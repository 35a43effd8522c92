//! Requests for which a law is stated.

use seeklab_core::{ByteSize, Capabilities};

use crate::limit::Limited;
use crate::scheduler::SchedulerSpec;
use crate::service_law::TokenShare;

/// Length of a share of the requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SizeShare {
    /// Blocks of the request.
    pub blocks: u32,
    /// Share of the requests, 0 to 1.
    pub share: f64,
}

/// Distribution of the first blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// First block that requests may begin at.
    pub begin: u64,
    /// Block at which requests end at the latest.
    pub end: u64,
    /// Requests begin at multiples of this number of blocks.
    pub align_blocks: u64,
}

/// Requests without their times.
#[derive(Debug, Clone, PartialEq)]
pub struct Demand {
    /// Bytes in a block.
    pub block_size: ByteSize,
    /// Share of reads, 0 to 1; the rest are writes.
    pub reads: f64,
    /// Lengths of the requests. The shares sum to 1.
    pub sizes: Vec<SizeShare>,
    /// Uniformly distributed addresses of independent requests; `None` of any others.
    pub addresses: Option<Addresses>,
    /// Order in which a queue above hands waiting requests to the device; `None` without a queue above.
    pub order: Option<SchedulerSpec>,
    /// True if one request is outstanding at a time, so that no queue has a choice.
    pub one_at_a_time: bool,
}

impl Demand {
    /// Reads of one length anywhere on a device.
    pub fn random_reads(capabilities: &Capabilities, blocks: u32) -> Self {
        Self {
            block_size: capabilities.block_size,
            reads: 1.0,
            sizes: vec![SizeShare { blocks, share: 1.0 }],
            addresses: Some(Addresses { begin: 0, end: capabilities.capacity_blocks, align_blocks: 1 }),
            order: None,
            one_at_a_time: false,
        }
    }

    /// Share of the requests that a limit applies to.
    pub fn share_of(&self, limited: Limited) -> f64 {
        match limited {
            Limited::All => 1.0,
            Limited::Reads => self.reads,
            Limited::Writes => 1.0 - self.reads,
        }
    }

    /// Lengths in those of the mean request, as tokens of a limit of bytes.
    pub fn length_shares(&self) -> Vec<TokenShare> {
        let mean = self.bytes_mean() / self.block_size.as_bytes() as f64;
        let of = |size: &SizeShare| TokenShare { tokens: f64::from(size.blocks) / mean, share: size.share };
        self.sizes.iter().map(of).collect()
    }

    /// Mean bytes of a request.
    pub fn bytes_mean(&self) -> f64 {
        let blocks: f64 = self.sizes.iter().map(|size| f64::from(size.blocks) * size.share).sum();
        blocks * self.block_size.as_bytes() as f64
    }
}
