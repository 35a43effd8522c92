//! The start of a host from its description, and the start and end of processes.

use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use seeklab_core::{ByteSize, DescriptionError, Duration, Instant, Mistake, Seed};

use super::application::{Application, FileSystemSettings, Running};
use super::channel::{Lock, Pipe};
use super::criticality::Requests;
use super::figures::{Accounts, CpuTimes};
use super::file::File;
use super::file_system::{FileSystem, Journal};
use super::linux::{Linux, LinuxFileSource};
use super::list::{Links, NONE};
use super::page_cache::FrameState;
use super::process::{Activity, Definition, Level, State, Sweep, Wait, WaitLists};
use super::profile::{Profile, Settings, scaled};
use super::program::{Channels, Instruction, Names, parse};
use super::recorded::Recording;
use super::spec::HostSettings;
use super::timeline::Timeline;
use super::usage::ProcessTimes;
use super::{
    ClassFigures, Cpu, Host, HostSpec, JOURNAL, PAGE_BYTES, PROCESSES_MAX, PageCache, Process, SYNCER,
    Syncer, file,
};
use crate::synthetic::AddressSpace;

impl Host {
    /// The host in front of `target`, at time zero.
    ///
    /// # Errors
    /// A program with a mistake, a name that does not exist, or a device that is too small or whose blocks are too
    /// large.
    pub fn new(spec: &HostSpec, target: AddressSpace, seed: Seed) -> Result<Self, DescriptionError> {
        let block_bytes = check_blocks(target)?;
        check_given(&spec.host).map_err(|error| error.under("host"))?;
        let settings = Settings::new(&spec.host);
        check_settings(&settings).map_err(|error| error.under("host"))?;
        let device_pages = target.capacity_blocks / (PAGE_BYTES / block_bytes);
        let files = file::lay_out(&spec.files, device_pages)?;
        let Definitions { definitions, is_forked, locks, pipes } = definitions(spec, &settings)?;
        let linux = (spec.host.profile == Some(Profile::Linux)).then(|| {
            Box::new(Linux::new(
                files.iter().map(File::source),
                Vec::new(),
                Vec::new(),
                Vec::new(),
                Vec::new(),
                device_pages,
                &settings,
            ))
        });
        let mut host = Self::idle(settings, block_bytes, definitions, seed);
        (host.files, host.linux) = (files, linux);
        (host.locks, host.pipes) = (locks, pipes);
        host.add_syncer();
        host.fill_cache();
        for (number, process) in spec.processes.values().enumerate().filter(|(number, _)| !is_forked[*number])
        {
            for _ in 0..process.count {
                let is_task = host.definitions[number].is_task;
                let pid = host.add_process(number as u32, is_task, NONE);
                host.set_timer(process.start, pid);
            }
        }
        Ok(host)
    }

    /// The host that does the steps of a recording in front of `target`, at time zero.
    ///
    /// # Errors
    /// A device that is too small or whose blocks are too large, or a recording without threads.
    pub fn of_recording(
        recording: Recording,
        settings: &HostSettings,
        target: AddressSpace,
        seed: Seed,
    ) -> Result<Self, DescriptionError> {
        let block_bytes = check_blocks(target)?;
        let device_pages = target.capacity_blocks / (PAGE_BYTES / block_bytes);
        if let Some(end) = recording.end_page().filter(|end| *end > device_pages) {
            let needed = ByteSize::from_bytes(end.saturating_mul(PAGE_BYTES));
            let device = ByteSize::from_bytes(device_pages * PAGE_BYTES);
            let problem = format!("the trace has data up to {needed}, beyond the device of {device}");
            return Err(DescriptionError::new(Mistake::DoesNotFit, "", problem)
                .hint("choose a larger device, or record on a smaller file system"));
        }
        if recording.threads.is_empty() {
            return Err(DescriptionError::new(
                Mistake::Missing,
                "",
                "the trace has no thread of its command",
            ));
        }
        let settings = linux_settings(settings).map_err(|error| error.under("host"))?;
        let is_task = |number| recording.task.is_empty() || recording.task.contains(&(number as u32));
        let definition = |number| Definition { program: Vec::new(), is_task: is_task(number) };
        let definitions: Vec<_> = (0..recording.threads.len()).map(definition).collect();
        let mut host = Self::idle(settings, block_bytes, definitions, seed);
        let journal = recording.journal.iter().flat_map(|place| place.address..place.address + place.pages);
        let journal: Vec<u64> = journal.collect();
        let is_started = recording.started_by_others();
        let starts: Vec<Duration> = recording.threads.iter().map(|thread| thread.start).collect();
        let files = recording.files.into_iter();
        let files = files.map(|file| LinuxFileSource { recorded: Arc::new(file), each_pages: u64::MAX });
        host.run_linux(Linux::new(
            files,
            recording.threads,
            recording.pools,
            recording.new_metadata,
            recording.metadata,
            device_pages,
            &host.settings,
        ));
        host.add_syncer();
        if !journal.is_empty() {
            host.linux.as_mut().expect("it was just made").journal = Some(Journal::new(journal));
            host.has_journal = true;
            host.add_journal();
        }
        host.fill_cache();
        for (number, start) in starts.into_iter().enumerate().filter(|(number, _)| !is_started[*number]) {
            let is_task = host.definitions[number].is_task;
            let pid = host.add_process(number as u32, is_task, NONE);
            host.set_timer(start, pid);
        }
        Ok(host)
    }

    /// The host that runs an application on an empty file system over the whole of `target`, but at most 1 TiB, at time zero. The
    /// profile is `linux`.
    ///
    /// # Errors
    /// A device that is too small or whose blocks are too large, or settings that do not go together.
    pub fn of_application(
        application: Box<dyn Application>,
        files: FileSystemSettings,
        settings: &HostSettings,
        target: AddressSpace,
        seed: Seed,
    ) -> Result<Self, DescriptionError> {
        let block_bytes = check_blocks(target)?;
        let device_pages = target.capacity_blocks / (PAGE_BYTES / block_bytes);
        let settings = linux_settings(settings).map_err(|error| error.under("host"))?;
        let stream = seed.stream("application.directories");
        let Ok(files) = FileSystem::new(files.mount, files.discards, device_pages, stream) else {
            let problem = format!("a device of {} blocks holds no file system", target.capacity_blocks);
            return Err(DescriptionError::new(Mistake::DoesNotFit, "", problem)
                .hint("choose a device of at least 8 MiB"));
        };
        let kinds = application.kinds().len();
        let definitions = vec![Definition { program: Vec::new(), is_task: true }; kinds];
        let mut host = Self::idle(settings, block_bytes, definitions, seed);
        host.run_linux(Linux::new(
            [].into_iter(),
            Vec::new(),
            Vec::new(),
            Vec::new(),
            Vec::new(),
            device_pages,
            &host.settings,
        ));
        host.has_journal = files.has_journal();
        host.application = Some(Box::new(Running::new(application, files)));
        host.add_syncer();
        if host.has_journal {
            host.add_journal();
        }
        let pid = host.add_process(0, true, NONE);
        host.set_timer(Duration::ZERO, pid);
        Ok(host)
    }

    /// A host without files and processes.
    fn idle(settings: Settings, block_bytes: u64, definitions: Vec<Definition>, seed: Seed) -> Self {
        let accounts =
            Accounts { cpus: vec![CpuTimes::default(); settings.cpus as usize], ..Accounts::default() };
        Self {
            now: Instant::ZERO,
            block_bytes,
            files: Vec::new(),
            cpus: vec![Cpu::new(); settings.cpus as usize],
            begun: 0,
            processes: Vec::new(),
            ended: Vec::new(),
            links: Links::default(),
            lists: WaitLists::new(),
            locks: Vec::new(),
            pipes: Vec::new(),
            cache: PageCache::new(settings.frames),
            syncer: Syncer::new(&settings, seed.stream("host.frames")),
            clock: (!settings.clock_interval.is_zero()).then_some(Instant::ZERO + settings.clock_interval),
            timers: BinaryHeap::new(),
            timers_set: 0,
            usage: vec![ProcessTimes::default(); definitions.len() + 1],
            instant_statements: 0,
            timeline: Timeline::new(),
            arrivals: VecDeque::new(),
            requests: Requests::default(),
            completions: Vec::new(),
            stream: seed.stream("host.places"),
            alive: 0,
            task_alive: 0,
            waiting_for_io: 0,
            accounts,
            task_start: None,
            task_end: None,
            time_critical: ClassFigures::default(),
            time_limited: ClassFigures::default(),
            time_noncritical: ClassFigures::default(),
            turned_critical: 0,
            failed_requests: 0,
            failed_processes: 0,
            linux: None,
            application: None,
            has_journal: false,
            definitions,
            settings,
        }
    }

    fn run_linux(&mut self, linux: Linux) {
        self.linux = Some(Box::new(linux));
        self.syncer.due = Instant::MAX;
        self.cache = PageCache::new(self.settings.frames).with_two_lists();
    }

    fn add_syncer(&mut self) {
        let mut syncer = Process::new(NONE, Level::System);
        syncer.started = Some(Instant::ZERO);
        self.usage[0].processes = 1;
        syncer.activity = match self.linux {
            None => Activity::Sweep(Sweep { frame: NONE }),
            Some(_) => Activity::Flush,
        };
        self.processes.push(syncer);
        self.links.add();
        debug_assert_eq!(self.processes.len() as u32 - 1, SYNCER);
    }

    fn add_journal(&mut self) {
        let mut journal = Process::new(NONE, Level::System);
        journal.started = Some(Instant::ZERO);
        self.usage[0].processes += 1;
        self.processes.push(journal);
        self.links.add();
        debug_assert_eq!(self.processes.len() as u32 - 1, JOURNAL);
    }

    /// Brings what is in memory at the start there, as far as it fits, and what is dirty first.
    fn fill_cache(&mut self) {
        let of_files = self.files.iter().filter(|file| file.is_cached && self.linux.is_none());
        let of_files = of_files.flat_map(|file| file.first_page..file.first_page + file.pages);
        let of_linux = |is_dirty| {
            let linux = self.linux.iter().flat_map(move |linux| linux.cached_pages(is_dirty));
            linux.map(move |page| (page, is_dirty))
        };
        let pages = of_linux(true).chain(of_files.map(|page| (page, false))).chain(of_linux(false));
        let pages: Vec<(u64, bool)> = pages.take(self.settings.frames as usize).collect();
        let mut dirty = Vec::new();
        for (page, is_dirty) in pages {
            if self.cache.find(page).is_none()
                && let Some(frame) = self.cache.allocate(page)
            {
                if self.linux.as_ref().is_some_and(|linux| linux.is_metadata(page)) {
                    self.cache.activate(frame);
                }
                self.cache.set_state(frame, FrameState::Clean);
                dirty.extend(is_dirty.then_some(frame));
            }
        }
        dirty.into_iter().for_each(|frame| {
            self.dirty(frame);
        });
    }

    /// Adds a process that has yet to start.
    fn add_process(&mut self, definition: u32, is_task: bool, parent: u32) -> u32 {
        let pid = self.ended.pop().unwrap_or_else(|| {
            self.processes.push(Process::new(definition, Level::Awakened));
            self.links.add();
            self.processes.len() as u32 - 1
        });
        self.processes[pid as usize].begin(definition, self.files.len(), is_task, parent);
        self.open_pipes(definition);
        self.alive += 1;
        self.task_alive += u64::from(is_task);
        pid
    }

    /// A timer is due: the process starts, or its sleep ends.
    pub(super) fn start_or_wake(&mut self, pid: u32) {
        if self.processes[pid as usize].is_task && self.task_start.is_none() {
            self.task_start = Some(self.accounts.clone());
        }
        self.wake(pid);
    }

    /// Starts a child of a process. `None` if there are too many processes: the parent has failed.
    pub(super) fn fork_process(&mut self, parent: u32, definition: u32) -> Option<u32> {
        if self.alive >= PROCESSES_MAX {
            self.processes[parent as usize].is_failed = true;
            return None;
        }
        let is_task =
            self.processes[parent as usize].is_task || self.definitions[definition as usize].is_task;
        let child = self.add_process(definition, is_task, parent);
        self.processes[parent as usize].children += 1;
        self.start_or_wake(child);
        Some(child)
    }

    /// The process that runs ends.
    pub(super) fn end_process(&mut self, pid: u32) {
        let process = &mut self.processes[pid as usize];
        let State::Running(cpu) = process.state else { unreachable!("a process that ends has run") };
        process.state = State::Ended;
        let (is_task, parent, definition) = (process.is_task, process.parent, process.definition);
        if process.children > 0 {
            for orphan in self.processes.iter_mut().filter(|other| other.parent == pid) {
                orphan.parent = NONE;
            }
        }
        self.cpus[cpu as usize].process = NONE;
        self.leave_cpu(pid);
        self.alive -= 1;
        if self.is_recorded() {
            self.end_thread(definition);
        }
        self.leave_behind(pid);
        self.close(pid, definition);
        if let Some(phase) = self.application.as_mut().filter(|_| parent == NONE).and_then(|one| one.phase())
        {
            // A phase that did not come to its end, because the device was full.
            phase.end.get_or_insert(self.now);
        }
        if self.alive == 0 && self.linux.is_some() {
            self.wake_syncer();
        }
        self.ended.push(pid);
        if is_task {
            self.task_alive -= 1;
            if self.task_alive == 0 {
                self.task_end = Some(self.accounts.clone());
            }
        }
        if parent != NONE {
            let parent_process = &mut self.processes[parent as usize];
            parent_process.children -= 1;
            if parent_process.children == 0 && parent_process.state == State::Waiting(Wait::Children) {
                self.wake(parent);
            }
        }
    }
}

/// Frames whose order the syncer draws at most: 64 GiB.
const ORDERED_FRAMES_MAX: u32 = 1 << 24;

/// The settings of a host that runs a recording or an application.
fn linux_settings(given: &HostSettings) -> Result<Settings, DescriptionError> {
    if given.profile == Some(Profile::Svr4) {
        let problem = "svr4: recorded programs and applications run on `linux`";
        return Err(DescriptionError::invalid("profile", problem)
            .hint("leave the profile out; programs of `kind = \"host\"` run on svr4 too"));
    }
    let given = HostSettings { profile: Some(Profile::Linux), ..given.clone() };
    check_given(&given)?;
    let settings = Settings::new(&given);
    check_settings(&settings)?;
    Ok(settings)
}

/// Checks that no settings of one system are given for the other.
fn check_given(given: &HostSettings) -> Result<(), DescriptionError> {
    let of_svr4 = [
        ("sweep", given.sweep.is_some()),
        ("sweep_interval", given.sweep_interval.is_some()),
        ("contiguous", given.contiguous.is_some()),
    ];
    let of_linux = [
        ("used_memory", given.used_memory.is_some()),
        ("aligned_read_ahead", given.aligned_read_ahead.is_some()),
        ("dirty_bytes", given.dirty_bytes.is_some()),
        ("dirty_background", given.dirty_background.is_some()),
        ("dirty_background_bytes", given.dirty_background_bytes.is_some()),
        ("strict_dirty_limit", given.strict_dirty_limit.is_some()),
        ("write_bandwidth", given.write_bandwidth.is_some()),
        ("device_age", given.device_age.is_some()),
        ("dirty_expire", given.dirty_expire.is_some()),
        ("writeback_interval", given.writeback_interval.is_some()),
        ("max_request", given.max_request.is_some()),
        ("max_segments", given.max_segments.is_some()),
        ("large_folios", given.large_folios.is_some()),
        ("tags", given.tags.is_some()),
        ("write_cache", given.write_cache.is_some()),
        ("fua", given.fua.is_some()),
        ("wbt", given.wbt.is_some()),
        ("page_submission", given.page_submission.is_some()),
    ];
    let (others, other, hint) = match given.profile.unwrap_or_default() {
        Profile::Linux => (
            &of_svr4[..],
            "svr4",
            "leave it out: the flusher of `linux` has dirty_background, dirty_expire and writeback_interval",
        ),
        Profile::Svr4 => (&of_linux[..], "linux", "leave it out, or add profile = \"linux\""),
    };
    match others.iter().find(|(_, is_given)| *is_given) {
        Some((key, _)) => {
            Err(DescriptionError::invalid(*key, format!("is a setting of the profile `{other}`")).hint(hint))
        }
        None => Ok(()),
    }
}

/// Checks settings against each other.
fn check_settings(settings: &Settings) -> Result<(), DescriptionError> {
    if !settings.clock_interval.is_zero() && settings.clock_interrupt >= settings.clock_interval {
        let (interval, cost) = (settings.clock_interval, settings.clock_interrupt);
        let problem = format!("{interval} is no longer than a clock interrupt takes: {cost}");
        return Err(DescriptionError::invalid("clock_interval", problem)
            .hint("write a longer interval, or 0s for no clock"));
    }
    if settings.contiguous_frames < settings.frames && settings.frames > ORDERED_FRAMES_MAX {
        let memory = ByteSize::from_bytes(u64::from(settings.frames) * PAGE_BYTES);
        let problem =
            format!("{memory} is more than 64GiB, the most that the syncer passes in a random order");
        return Err(DescriptionError::invalid("memory", problem)
            .hint("set `contiguous` to the same size, or choose the profile `linux`"));
    }
    Ok(())
}

/// The size of the device's blocks, of which a block of 4 KiB has a whole number.
fn check_blocks(target: AddressSpace) -> Result<u64, DescriptionError> {
    let block_bytes = target.block_size.as_bytes();
    if PAGE_BYTES.is_multiple_of(block_bytes) {
        return Ok(block_bytes);
    }
    let problem = format!("blocks of {} do not divide blocks of 4 KiB", target.block_size);
    Err(DescriptionError::new(Mistake::DoesNotFit, "", problem)
        .hint("choose a device with blocks of 512 B to 4 KiB"))
}

/// Definitions of processes, with the locks and pipes between them.
struct Definitions {
    definitions: Vec<Definition>,
    /// For each definition, true if other processes start it.
    is_forked: Vec<bool>,
    locks: Vec<Lock>,
    pipes: Vec<Pipe>,
}

/// The definitions of all processes.
fn definitions(spec: &HostSpec, settings: &Settings) -> Result<Definitions, DescriptionError> {
    let speed = settings.speed;
    let files: Vec<&str> = spec.files.keys().map(String::as_str).collect();
    let processes: Vec<&str> = spec.processes.keys().map(String::as_str).collect();
    if processes.is_empty() {
        return Err(DescriptionError::new(Mistake::Missing, "processes", "is empty")
            .hint("write for example `processes.reader.program = \"compute 1s\"`"));
    }
    if let Some(task) = spec.task.as_deref().filter(|task| !processes.contains(task)) {
        let names = processes.iter().copied();
        return Err(DescriptionError::unknown(Mistake::UnknownName, "process", task, names).under("task"));
    }
    let mut definitions = Vec::with_capacity(processes.len());
    let mut channels = Channels::default();
    for (name, process) in &spec.processes {
        let names = Names { files: &files, processes: &processes };
        let mut program = parse(&process.program, names, &mut channels)
            .map_err(|error| error.under("program").under(name).under("processes"))?;
        for instruction in &mut program {
            if let Instruction::Compute(time) = instruction {
                *time = scaled(*time, speed);
            }
        }
        let is_task = spec.task.as_ref().is_none_or(|task| task == name);
        definitions.push(Definition { program, is_task });
    }
    channels.check()?;
    let mut is_forked = vec![false; definitions.len()];
    let mut descendants = Vec::with_capacity(definitions.len());
    let children = |number: usize| {
        definitions[number].program.iter().filter_map(|instruction| match instruction {
            Instruction::Fork(child) => Some(*child as usize),
            _ => None,
        })
    };
    for (number, name) in processes.iter().enumerate() {
        children(number).for_each(|child| is_forked[child] = true);
        // A process that starts itself, at whatever distance, never ends.
        let mut reached = vec![false; definitions.len()];
        let mut open: Vec<usize> = children(number).collect();
        while let Some(child) = open.pop() {
            if child == number {
                return Err(DescriptionError::invalid("program", "starts itself, directly or by a child")
                    .hint("remove the `fork` that closes the circle")
                    .under(name)
                    .under("processes"));
            }
            if !std::mem::replace(&mut reached[child], true) {
                open.extend(children(child));
            }
        }
        descendants.push((0..definitions.len()).filter(|child| reached[*child]).collect::<Vec<usize>>());
    }
    let (locks, pipes) = channels.counts();
    let programs: Vec<&[Instruction]> = definitions.iter().map(|one| one.program.as_slice()).collect();
    let pipe = |number| Pipe::new(number, settings.pipe_bytes, &programs, &descendants);
    let pipes = (0..pipes as u32).map(pipe).collect();
    Ok(Definitions { definitions, is_forked, locks: vec![Lock::FREE; locks], pipes })
}
