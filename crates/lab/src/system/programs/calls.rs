//! Numbers of the system calls that matter to programs.

/// System calls by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::system) struct Calls {
    /// Calls that read a file only, and that write one only.
    reads: [u16; 5],
    writes: [u16; 5],
    pub(super) open_at: u16,
    pub(super) close: u16,
    pub(super) send_file: u16,
    pub(super) splice: u16,
    pub(super) copy_file_range: u16,
    pub(super) sync: u16,
    pub(super) sync_file_system: u16,
    sync_file: u16,
    sync_data: u16,
    pub(super) advise: u16,
    /// Calls that submit to a context of libaio, and that take completions from it.
    submit: u16,
    take: [u16; 2],
    pub(super) enter_ring: u16,
    /// wait4: returns a child that has ended, or zero if there is none and the caller does not wait.
    pub(super) wait_for_child: u16,
    /// Flag of open(2) for transfers past the page cache: `O_DIRECT`.
    pub(super) open_direct: u64,
}

/// Flags of open(2) for synchronous writes: `O_DSYNC`, which `O_SYNC` contains.
pub(super) const OPEN_SYNC: u64 = 0o10000;

/// Advice of posix_fadvise(2) that a file will be read in order: `POSIX_FADV_SEQUENTIAL`.
pub(super) const ADVICE_SEQUENTIAL: u64 = 2;

/// Flag of io_uring_enter(2) to wait for completions: `IORING_ENTER_GETEVENTS`.
pub(super) const RING_WAITS: u64 = 1;

impl Calls {
    const X86_64: Self = Self {
        // read, pread64, readv, preadv, preadv2; write, pwrite64, writev, pwritev, pwritev2.
        reads: [0, 17, 19, 295, 327],
        writes: [1, 18, 20, 296, 328],
        open_at: 257,
        close: 3,
        send_file: 40,
        splice: 275,
        copy_file_range: 326,
        sync: 162,
        sync_file_system: 306,
        sync_file: 74,
        sync_data: 75,
        advise: 221,
        submit: 209,
        // io_getevents, io_pgetevents.
        take: [208, 333],
        enter_ring: 426,
        wait_for_child: 61,
        open_direct: 0o40000,
    };

    /// Numbers of the generic table, which aarch64 and riscv64 have.
    const GENERIC: Self = Self {
        reads: [63, 67, 65, 69, 286],
        writes: [64, 68, 66, 70, 287],
        open_at: 56,
        close: 57,
        send_file: 71,
        splice: 76,
        copy_file_range: 285,
        sync: 81,
        sync_file_system: 267,
        sync_file: 82,
        sync_data: 83,
        advise: 223,
        submit: 2,
        take: [4, 292],
        enter_ring: 426,
        wait_for_child: 260,
        open_direct: 0o40000,
    };

    /// The system calls of a machine.
    pub(in crate::system) fn of_machine(machine: &str) -> Self {
        match machine {
            "x86_64" => Self::X86_64,
            "aarch64" => Self { open_direct: 0o200_000, ..Self::GENERIC },
            _ => Self::GENERIC,
        }
    }

    /// Returns true if the call reads a file that one of its arguments names.
    pub(in crate::system) fn reads(&self, call: u16) -> bool {
        self.reads.contains(&call) || self.moves(call)
    }

    /// read(2).
    pub(super) const fn read(&self) -> u16 {
        self.reads[0]
    }

    /// pread64(2), whose fourth argument is the place.
    pub(super) const fn read_at(&self) -> u16 {
        self.reads[1]
    }

    /// Returns true if the call writes a file that one of its arguments names.
    pub(in crate::system) fn writes(&self, call: u16) -> bool {
        self.writes.contains(&call) || self.moves(call)
    }

    /// Returns true if the call makes durable what is dirty of the file that its first argument names.
    pub(super) fn syncs_file(&self, call: u16) -> bool {
        call == self.sync_file || call == self.sync_data
    }

    /// Returns true if the call submits transfers to the context or ring that its first argument names.
    pub(super) fn submits(&self, call: u16) -> bool {
        call == self.submit || call == self.enter_ring
    }

    /// Returns true if the call takes as many completions as it returns, from the context that its first argument names.
    pub(super) fn takes(&self, call: u16) -> bool {
        self.take.contains(&call)
    }

    /// Returns true if the call moves data from one descriptor to another.
    const fn moves(&self, call: u16) -> bool {
        call == self.send_file || call == self.splice || call == self.copy_file_range
    }

    /// The argument that names the file which a call reads.
    pub(super) const fn read_argument(&self, call: u16) -> usize {
        if call == self.send_file { 1 } else { 0 }
    }

    /// The argument that names the file which a call writes.
    pub(super) const fn written_argument(&self, call: u16) -> usize {
        if call == self.splice || call == self.copy_file_range { 2 } else { 0 }
    }
}
