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
//! metadata. Clients wait for pages that another one reads or writes; rows have no locks. Numbers without a source are
//! chosen here.
//!
//! # References
//! PostgreSQL's documentation: pages of 8 KiB, group commit, checkpoints by log volume. TPC Benchmark B,
//! 1994 (four rows per transaction). Y. Zhu et al. and YCSB (SoCC 2010): Zipf's exponent of 0.99.

use rand_distr::Zipf;
use schemars::JsonSchema;
use seeklab_core::description::schema::check_ranges;
use seeklab_core::{ByteSize, DescriptionError, Duration, Seed, Stream};
use serde::{Deserialize, Serialize};

use super::buffer_pool::{BufferPool, Lookup, Victim};
use super::{PAGE_BYTES, check_scale, count};
use crate::host::{Application, FileId, Full, HostSettings, ProcessId, System};

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
    /// Settings of the host that differ from those of the profile `linux`. By default, it has a CPU for each client and 16 MiB of
    /// memory for metadata.
    pub host: HostSettings,
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
            host: HostSettings::default(),
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

/// Requests that a checkpoint has outstanding: enough to keep a disk's queue full, ours.
const CHECKPOINT_DEPTH: usize = 32;
/// Interval at which the checkpointer looks at the log: `bgwriter_delay` of PostgreSQL.
const CHECKPOINT_LOOK: Duration = Duration::from_ms(200);

/// The kinds of processes: the server loads the table and starts the others.
const KINDS: &[&str] = &["server", "client", "checkpointer"];
const CLIENT: u32 = 1;
const CHECKPOINTER: u32 = 2;

/// A database while it runs.
#[derive(Debug, Clone)]
pub(super) struct Database {
    spec: DatabaseSpec,
    stream: Stream,
    part: Part,
    files: Option<Files>,
    pool: BufferPool,
    left: u64,
    log: Log,
    clients: Vec<Client>,
    checkpoint: Checkpoint,
    ranks: Zipf<f64>,
    leaves: u64,
}

/// Part of the work of the server.
#[derive(Debug, Clone, Copy)]
enum Part {
    /// With the bytes that are written.
    Load {
        written_bytes: u64,
    },
    End,
    Done,
}

#[derive(Debug, Clone, Copy)]
struct Files {
    table: FileId,
    log: FileId,
}

/// The log, whose records clients make durable together.
#[derive(Debug, Clone, Default)]
struct Log {
    /// Bytes of log so far.
    logged_bytes: u64,
    /// Blocks of the log file with records that are not durable, and those that are being written.
    pending: Vec<u64>,
    writing: Vec<u64>,
    /// True if a client writes the log, or will in a moment.
    is_led: bool,
    /// Clients whose records are being written, and those that wait for the next write.
    members: Vec<u32>,
    waiting: Vec<u32>,
}

#[derive(Debug, Clone, Default)]
struct Client {
    pid: u32,
    stage: Stage,
    /// Leaves that the transaction has yet to touch, the next one last.
    leaves: Vec<u64>,
    /// Computing time of the transaction.
    compute: Duration,
}

/// Progress of a transaction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Idle,
    Touch,
    /// A page of the pool is being written to make room.
    Evict(u32),
    /// The leaf is being read into a page of the pool.
    Read(u32),
    Log,
    /// Writes the log for all that wait.
    Lead,
    Written,
    /// Another client has written its records.
    Committed,
}

#[derive(Debug, Clone, Default)]
struct Checkpoint {
    /// Bytes of log at the last checkpoint.
    logged_bytes: u64,
    /// Leaves to write, the next one last, and those whose writes the device has.
    leaves: Vec<u64>,
    writing: Vec<u32>,
    is_running: bool,
}

impl Database {
    pub(super) fn new(spec: &DatabaseSpec, seed: Seed) -> Result<Self, DescriptionError> {
        spec.check()?;
        let leaves = spec.table.as_bytes() / LEAF_BYTES;
        Ok(Self {
            spec: spec.clone(),
            stream: seed.stream("application.database"),
            part: Part::Load { written_bytes: 0 },
            files: None,
            pool: BufferPool::new((spec.pool.as_bytes() / LEAF_BYTES).min(leaves + 1) as usize),
            left: count(spec.transactions, spec.scale),
            log: Log::default(),
            clients: vec![Client::default(); spec.clients as usize],
            checkpoint: Checkpoint::default(),
            ranks: Zipf::new(leaves as f64, spec.exponent).expect("its exponent was checked"),
            leaves,
        })
    }

    /// Popular leaves are anywhere in the table, by a permutation that is its own.
    fn choose(&mut self) -> u64 {
        let rank = (self.stream.sample(&self.ranks) as u64).clamp(1, self.leaves) - 1;
        (u128::from(rank) * 0x9e37_79b9_7f4a_7c15 % u128::from(self.leaves)) as u64
    }

    fn files(&self) -> Files {
        self.files.expect("the table was loaded")
    }

    /// A step of the server.
    fn serve(&mut self, system: &mut System) -> Result<bool, Full> {
        let written_bytes = match self.part {
            Part::Load { written_bytes } => written_bytes,
            Part::End => {
                system.end_phase();
                system.unmount();
                self.part = Part::Done;
                return Ok(true);
            }
            Part::Done => return Ok(false),
        };
        let table_bytes = self.leaves * LEAF_BYTES;
        let files = match self.files {
            Some(files) => files,
            None => {
                system.begin_phase("load");
                let directory = system.make_directory()?;
                let table = system.create(directory, table_bytes)?;
                let log = system.create(directory, LOG_BYTES)?;
                *self.files.insert(Files { table, log })
            }
        };
        let (file, offset, end) = match written_bytes.checked_sub(table_bytes) {
            None => (files.table, written_bytes, table_bytes),
            Some(offset) if offset < LOG_BYTES => (files.log, offset, LOG_BYTES),
            Some(_) => {
                system.end_phase();
                system.unmount();
                system.begin_phase("transactions");
                (0..self.spec.clients).for_each(|number| system.fork(CLIENT, number as u32));
                system.fork(CHECKPOINTER, 0);
                system.wait();
                self.part = Part::End;
                return Ok(true);
            }
        };
        let bytes = LOAD_BYTES.min(end - offset);
        system.write(file, offset, bytes)?;
        self.part = Part::Load { written_bytes: written_bytes + bytes };
        if offset + bytes == end {
            system.fsync(file);
        }
        system.operation();
        Ok(true)
    }

    /// A step of a client.
    fn transact(&mut self, number: u32, system: &mut System) -> bool {
        match self.clients[number as usize].stage {
            Stage::Idle => {
                if self.left == 0 {
                    return false;
                }
                self.left -= 1;
                for _ in 0..self.spec.pages {
                    let leaf = self.choose();
                    self.clients[number as usize].leaves.push(leaf);
                }
                let client = &mut self.clients[number as usize];
                client.leaves.reverse();
                client.compute = self.stream.exponential(self.spec.compute);
                client.stage = Stage::Touch;
            }
            Stage::Touch => self.touch(number, system),
            Stage::Evict(frame) => {
                self.pool.end_transfer(frame, |pid| system.unpark(pid));
                self.clients[number as usize].stage = Stage::Touch;
            }
            Stage::Read(frame) => {
                self.pool.end_transfer(frame, |pid| system.unpark(pid));
                self.change(number, frame);
            }
            Stage::Log => {
                let pages = RECORD_BYTES * self.spec.pages;
                self.log.append(pages);
                if self.log.is_led {
                    self.log.waiting.push(number);
                    self.clients[number as usize].stage = Stage::Committed;
                    system.park();
                } else {
                    self.lead(number, system);
                }
            }
            Stage::Lead => self.lead(number, system),
            Stage::Written => {
                system.commit(1 + self.log.members.len() as u64);
                for member in self.log.members.drain(..) {
                    system.unpark(self.clients[member as usize].pid);
                }
                self.log.is_led = !self.log.waiting.is_empty();
                if self.log.is_led {
                    let next = self.log.waiting.remove(0);
                    self.clients[next as usize].stage = Stage::Lead;
                    system.unpark(self.clients[next as usize].pid);
                }
                self.end_transaction(number, system);
            }
            Stage::Committed => self.end_transaction(number, system),
        }
        true
    }

    /// Brings the next leaf of a transaction into the pool and changes it.
    fn touch(&mut self, number: u32, system: &mut System) {
        let client = &mut self.clients[number as usize];
        let Some(&leaf) = client.leaves.last() else {
            system.compute(client.compute);
            client.stage = Stage::Log;
            return;
        };
        let table = self.files.expect("the table was loaded").table;
        match self.pool.look_up(leaf) {
            Lookup::Held(frame) => self.change(number, frame),
            Lookup::Busy(frame) => {
                self.pool.wait(frame, client.pid);
                system.park();
            }
            Lookup::Absent => match self.pool.victim() {
                Victim::Clean(frame) => {
                    self.pool.begin_read(frame, leaf);
                    system.read_direct(table, leaf * LEAF_PAGES, LEAF_PAGES);
                    system.await_direct();
                    client.stage = Stage::Read(frame);
                }
                Victim::Dirty(frame) => {
                    let evicted = self.pool.begin_write(frame);
                    system.write_direct(table, evicted * LEAF_PAGES, LEAF_PAGES);
                    system.await_direct();
                    client.stage = Stage::Evict(frame);
                }
                Victim::Busy(frame) => {
                    self.pool.wait(frame, client.pid);
                    system.park();
                }
            },
        }
    }

    /// A client changes the leaf that it has come for.
    fn change(&mut self, number: u32, frame: u32) {
        self.pool.change(frame);
        let client = &mut self.clients[number as usize];
        client.leaves.pop();
        client.stage = Stage::Touch;
    }

    /// A client writes the log for all that wait.
    fn lead(&mut self, number: u32, system: &mut System) {
        let log = &mut self.log;
        log.is_led = true;
        std::mem::swap(&mut log.members, &mut log.waiting);
        std::mem::swap(&mut log.pending, &mut log.writing);
        log.writing.sort_unstable();
        log.writing.dedup();
        let file = self.files.expect("the log was made").log;
        log.writing.drain(..).for_each(|page| system.write_direct(file, page, 1));
        system.await_direct();
        system.flush();
        self.clients[number as usize].stage = Stage::Written;
    }

    fn end_transaction(&mut self, number: u32, system: &mut System) {
        system.operation();
        self.clients[number as usize].stage = Stage::Idle;
    }

    /// A step of the checkpointer: writes the dirty pages of the pool whenever there is enough log. Ends with the clients.
    fn check_point(&mut self, system: &mut System) -> bool {
        for frame in self.checkpoint.writing.drain(..) {
            self.pool.end_transfer(frame, |pid| system.unpark(pid));
        }
        if !self.checkpoint.is_running {
            let is_over = self.left == 0;
            let logged_bytes = self.log.logged_bytes - self.checkpoint.logged_bytes;
            if logged_bytes < self.spec.checkpoint.as_bytes() && !is_over {
                system.sleep(CHECKPOINT_LOOK);
                return true;
            }
            self.checkpoint.logged_bytes = self.log.logged_bytes;
            self.checkpoint.is_running = true;
            self.pool.dirty_leaves(&mut self.checkpoint.leaves);
            self.checkpoint.leaves.sort_unstable_by(|one, other| other.cmp(one));
        }
        let table = self.files().table;
        let (mut requests, mut last) = (0, None);
        while let Some(&leaf) = self.checkpoint.leaves.last() {
            // One that a client writes to make room needs no other write.
            if let Some(frame) = self.pool.find_dirty(leaf) {
                requests += usize::from(last.is_none_or(|last: u64| last + 1 != leaf));
                if requests > CHECKPOINT_DEPTH {
                    break;
                }
                last = Some(leaf);
                self.pool.begin_write(frame);
                system.write_direct(table, leaf * LEAF_PAGES, LEAF_PAGES);
                self.checkpoint.writing.push(frame);
            }
            self.checkpoint.leaves.pop();
        }
        system.await_direct();
        if requests > 0 {
            return true;
        }
        self.checkpoint.is_running = false;
        system.flush();
        self.left > 0
    }
}

impl Log {
    /// Appends records to the log.
    fn append(&mut self, bytes: u64) {
        let from = self.logged_bytes;
        self.logged_bytes += bytes;
        for page in from / PAGE_BYTES..=(self.logged_bytes - 1) / PAGE_BYTES {
            let page = page % (LOG_BYTES / PAGE_BYTES);
            if self.pending.last() != Some(&page) {
                self.pending.push(page);
            }
        }
    }
}

impl Application for Database {
    fn kinds(&self) -> &'static [&'static str] {
        KINDS
    }

    fn step(&mut self, process: ProcessId, system: &mut System) -> Result<bool, Full> {
        match process.kind {
            CLIENT => {
                self.clients[process.instance as usize].pid = process.pid;
                Ok(self.transact(process.instance, system))
            }
            CHECKPOINTER => Ok(self.check_point(system)),
            _ => self.serve(system),
        }
    }

    fn fork(&self) -> Box<dyn Application> {
        Box::new(self.clone())
    }
}
