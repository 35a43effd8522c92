//! A database: transactions of several clients on a table, with a buffer pool, a log and checkpoints.
//!
//! ```text
//! client: [ read leaf pages | change rows | log record ]* ─▶ commit: one client writes and flushes the log
//!                                                            for all that wait, meanwhile others join
//! ```
//! A transaction updates rows of a few leaf pages, chosen by Zipf's law, as a TPC-B transaction updates an
//! account, a teller and a branch. Inner pages of the tree are always in memory. A page that leaves the
//! buffer pool dirty is written first; after so many bytes of log all dirty pages are written: a checkpoint.
//!
//! # Scope and limits
//! Pages bypass the page cache (direct I/O); files are preallocated, so the log's flushes commit no
//! metadata. No locks between clients. Numbers without a source are ours.
//!
//! # References
//! PostgreSQL's documentation: pages of 8 KiB, group commit, checkpoints by log volume. TPC Benchmark B,
//! 1994 (four rows per transaction). Y. Zhu et al. and YCSB (SoCC 2010): Zipf's exponent of 0.99.

use std::cell::RefCell;
use std::rc::Rc;

use rand_distr::Zipf;
use schemars::JsonSchema;
use seeklab_core::description::schema::check_ranges;
use seeklab_core::{ByteSize, DescriptionError, Duration, Instant, Operation, Seed, Stream};
use serde::{Deserialize, Serialize};

use super::cache::PageCache;
use super::filesystem::{FileId, FileSystem, Full};
use super::plan::{PAGE_BYTES, Stage, merge};
use super::{Program, Scenario, Setting, check_scale, scaled};

/// A database, as it is described.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DatabaseSpec {
    /// Clients, each with one transaction at a time.
    #[schemars(range(min = 1), extend("x-unit" = "clients"))]
    pub clients: u64,
    /// Transactions of all clients.
    #[schemars(extend("x-unit" = "transactions"))]
    pub transactions: u64,
    /// Factor for the number of transactions, above 0.
    pub scale: f64,
    /// Size of the table.
    #[schemars(extend("x-minimum" = "8KiB"))]
    pub table: ByteSize,
    /// Memory for pages of the table.
    pub pool: ByteSize,
    /// Leaf pages that a transaction touches.
    #[schemars(range(min = 1), extend("x-unit" = "pages"))]
    pub pages: u64,
    /// Zipf's exponent of the choice of pages, above 0.
    pub exponent: f64,
    /// Mean time of the processor that a transaction takes.
    pub compute: Duration,
    /// Size of the log at which a checkpoint begins.
    #[schemars(extend("x-minimum" = "1B"))]
    pub checkpoint: ByteSize,
}

impl Default for DatabaseSpec {
    fn default() -> Self {
        Self {
            clients: 4,
            transactions: 1000,
            scale: 1.0,
            table: ByteSize::from_bytes(64 << 20),
            pool: ByteSize::from_bytes(16 << 20),
            pages: 4,
            exponent: 0.99,
            compute: Duration::from_us(500),
            checkpoint: ByteSize::from_bytes(1 << 20),
        }
    }
}

/// PostgreSQL's page.
const LEAF_BYTES: u64 = 8192;
const LEAF_PAGES: u64 = LEAF_BYTES / PAGE_BYTES;
/// A changed row with its header in the log: 100-byte rows, as in TPC-B, old and new, and 50 bytes.
const RECORD_BYTES: u64 = 250;
/// The log begins anew at its end.
const LOG_BYTES: u64 = 16 << 20;
/// Loading writes so much in a call.
const LOAD_BYTES: u64 = 256 << 10;

impl DatabaseSpec {
    fn check(&self) -> Result<(), DescriptionError> {
        check_scale(self.scale)?;
        check_ranges(self)?;
        let pool_min = ByteSize::from_bytes(LEAF_BYTES.saturating_mul(self.clients.saturating_add(1)));
        if self.pool < pool_min {
            let allowed = format!("at least {pool_min}, a page for each client and one more");
            return Err(DescriptionError::refused("pool", self.pool.to_string(), allowed));
        }
        if self.exponent.is_finite() && self.exponent > 0.0 {
            return Ok(());
        }
        Err(DescriptionError::invalid("exponent", format!("`{}` is out of range", self.exponent))
            .hint("an exponent lies above 0, for example 0.99"))
    }
}

#[derive(Debug)]
struct Server {
    spec: DatabaseSpec,
    stream: Stream,
    table: Option<FileId>,
    log: Option<FileId>,
    pool: PageCache,
    left: u64,
    /// Bytes of log so far, and at the last checkpoint.
    logged_bytes: u64,
    checkpoint_at: u64,
    ranks: Zipf<f64>,
    leaves: u64,
}

impl Server {
    fn leaf(&self, system: &FileSystem, leaf: u64) -> Vec<u64> {
        let table = self.table.expect("the table was loaded");
        (0..LEAF_PAGES).map(|page| system.page(table, leaf * LEAF_PAGES + page)).collect()
    }

    /// Popular leaves are anywhere in the table, by a permutation that is its own.
    fn choose(&mut self) -> u64 {
        let rank = (self.stream.sample(&self.ranks) as u64).clamp(1, self.leaves) - 1;
        (u128::from(rank) * 0x9e37_79b9_7f4a_7c15 % u128::from(self.leaves)) as u64
    }

    fn touch(&mut self, system: &mut FileSystem, leaf: u64, changes: bool) {
        if !self.pool.lookup(leaf) {
            let evicted = self.pool.insert(leaf, None);
            if let Some(evicted) = evicted {
                let pages = self.leaf(system, evicted);
                system.plan.wait(Operation::Write, &pages);
            }
            let pages = self.leaf(system, leaf);
            system.plan.wait(Operation::Read, &pages);
        }
        if changes {
            let evicted = self.pool.insert(leaf, Some(Instant::ZERO));
            assert_eq!(evicted, None, "a page that is there displaces none");
        }
    }

    /// Appends a record to the log; its pages go to `pages`.
    fn record(&mut self, system: &FileSystem, pages: &mut Vec<u64>) {
        let log = self.log.expect("the log was made");
        let from = self.logged_bytes;
        self.logged_bytes += RECORD_BYTES;
        for page in from / PAGE_BYTES..=(self.logged_bytes - 1) / PAGE_BYTES {
            pages.push(system.page(log, page % (LOG_BYTES / PAGE_BYTES)));
        }
    }
}

#[derive(Debug)]
struct Load {
    server: Rc<RefCell<Server>>,
    written_bytes: u64,
}

impl Program for Load {
    fn step(&mut self, system: &mut FileSystem) -> Result<bool, Full> {
        let server = &mut *self.server.borrow_mut();
        let (table, log) = match (server.table, server.log) {
            (Some(table), Some(log)) => (table, log),
            _ => {
                let directory = system.make_directory()?;
                let (table, log) = (system.create(directory)?, system.create(directory)?);
                (server.table, server.log) = (Some(table), Some(log));
                (table, log)
            }
        };
        let table_bytes = server.leaves * LEAF_BYTES;
        let (file, offset, end) = match self.written_bytes.checked_sub(table_bytes) {
            None => (table, self.written_bytes, table_bytes),
            Some(offset) if offset < LOG_BYTES => (log, offset, LOG_BYTES),
            Some(_) => return Ok(false),
        };
        let bytes = LOAD_BYTES.min(end - offset);
        system.write(file, offset, bytes)?;
        self.written_bytes += bytes;
        if offset + bytes == end {
            system.fsync(file);
        }
        system.operation();
        Ok(true)
    }
}

#[derive(Debug)]
struct Client {
    server: Rc<RefCell<Server>>,
}

impl Program for Client {
    fn step(&mut self, system: &mut FileSystem) -> Result<bool, Full> {
        let server = &mut *self.server.borrow_mut();
        if server.left == 0 {
            return Ok(false);
        }
        server.left -= 1;
        let mut log = Vec::new();
        for _ in 0..server.spec.pages {
            let leaf = server.choose();
            server.touch(system, leaf, true);
            server.record(system, &mut log);
        }
        system.compute(server.stream.exponential(server.spec.compute));
        system.plan.push(Stage::Commit(log));
        system.operation();
        Ok(true)
    }
}

/// Writes the dirty pages of the pool whenever there is enough log; ends with the clients.
#[derive(Debug)]
struct Checkpointer {
    server: Rc<RefCell<Server>>,
}

impl Program for Checkpointer {
    fn step(&mut self, system: &mut FileSystem) -> Result<bool, Full> {
        let server = &mut *self.server.borrow_mut();
        let is_over = server.left == 0;
        if server.logged_bytes - server.checkpoint_at >= server.spec.checkpoint.as_bytes() || is_over {
            server.checkpoint_at = server.logged_bytes;
            let mut pages = Vec::new();
            for leaf in server.pool.take_dirty(None) {
                pages.extend(server.leaf(system, leaf));
            }
            pages.sort_unstable();
            for ios in merge(Operation::Write, &pages).chunks(CHECKPOINT_DEPTH) {
                system.plan.push(Stage::Wait(ios.to_vec()));
            }
            system.plan.flush();
        } else {
            system.compute(CHECKPOINT_LOOK);
        }
        Ok(!is_over)
    }
}

/// Requests that a checkpoint has outstanding: enough to keep a disk's queue full, ours.
const CHECKPOINT_DEPTH: usize = 32;
/// Interval at which the checkpointer looks at the log: `bgwriter_delay` of PostgreSQL.
const CHECKPOINT_LOOK: Duration = Duration::from_ms(200);

/// Load, then transactions.
#[derive(Debug)]
pub(super) struct Database {
    server: Rc<RefCell<Server>>,
}

impl Database {
    pub(super) fn new(spec: &DatabaseSpec, seed: Seed) -> Result<Self, DescriptionError> {
        spec.check()?;
        let leaves = spec.table.as_bytes() / LEAF_BYTES;
        let server = Server {
            spec: spec.clone(),
            stream: seed.stream("application.database"),
            table: None,
            log: None,
            pool: PageCache::new((spec.pool.as_bytes() / LEAF_BYTES) as usize),
            left: if spec.transactions == 0 { 0 } else { scaled(spec.transactions, spec.scale) },
            logged_bytes: 0,
            checkpoint_at: 0,
            ranks: Zipf::new(leaves as f64, spec.exponent).expect("its exponent was checked"),
            leaves,
        };
        Ok(Self { server: Rc::new(RefCell::new(server)) })
    }
}

impl Scenario for Database {
    fn phase(&mut self, index: usize) -> Option<Setting> {
        let server = || Rc::clone(&self.server);
        let (name, programs): (_, Vec<Box<dyn Program>>) = match index {
            0 => ("load", vec![Box::new(Load { server: server(), written_bytes: 0 })]),
            1 => {
                let clients = self.server.borrow().spec.clients;
                let mut programs: Vec<Box<dyn Program>> = Vec::new();
                for _ in 0..clients {
                    programs.push(Box::new(Client { server: server() }));
                }
                programs.push(Box::new(Checkpointer { server: server() }));
                ("transactions", programs)
            }
            _ => return None,
        };
        Some(Setting { name, programs, unmounts: true })
    }
}
