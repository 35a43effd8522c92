//! Causes of missed deadlines, by stalls of 50 ms whose cause is known.
//!
//! The emulation runs in a process of its own, which is this test binary again, so that it can be stopped. The requests
//! that were due within a stall and missed their deadline must bear its name, nine in ten of them.
//!
//! # Scope and limits
//! A busy machine makes stalls of its own. A model's stall counts only if the thread had the processor for most of
//! it; if too few do, the test says `SKIP`, and so it does if other processes used more than a fifth of a processor
//! meanwhile. The store's stall needs the right to mount FUSE files.

#[path = "emulator/nbd/memory.rs"]
mod memory;

use std::any::Any;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration as Pause;

use rustix::process::{Pid, Signal, kill_process, setpriority_process};
use seeklab_core::{
    ByteSize, Capabilities, Completion, Criticality, Device, Duration, Instant, Reclassification, Rejected,
    Request, TraceRecord,
};
use seeklab_devices::simple::{Server as Constant, ServerParameters};
use seeklab_emulator::clock::{Clock, Pacing, Waiter, monotonic_ns, thread_cpu_time};
use seeklab_emulator::emulation::Emulation;
use seeklab_emulator::frontend::fuse;
use seeklab_emulator::frontend::nbd::{Address, Export, Server, ServerOptions};
use seeklab_emulator::frontend::{self, Backend, Departure, Frontend, Next, Stop, Tag, serve};
use seeklab_emulator::pacer::{Options, Pacer};
use seeklab_emulator::store::{Access, Store};

const SIZE: u64 = 64 << 20;
const STALL: Duration = Duration::from_ms(50);
const STALLS: usize = 6;
/// Processors that other processes may use in a test.
const ELSEWHERE_MAX: f64 = 0.2;
const ROLE: &str = "SEEKLAB_MISS_CAUSES_ROLE";

/// A device that burns the processor for 50 ms at given requests.
struct Burning {
    inner: Box<dyn Device>,
    /// Requests until the next stall; forks share it.
    until: Arc<AtomicU64>,
    burnt: Arc<Mutex<Vec<Stall>>>,
}

/// A time of CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy)]
struct Stall {
    from_ns: u64,
    to_ns: u64,
    /// The thread had the processor for most of it.
    counts: bool,
}

impl Device for Burning {
    fn submit(&mut self, now: Instant, request: Request) -> Result<(), Rejected> {
        if self.until.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.until.store(60, Ordering::Relaxed);
            let (from_ns, cpu) = (monotonic_ns(), thread_cpu_time());
            while monotonic_ns() - from_ns < STALL.as_ns() {
                std::hint::spin_loop();
            }
            let (to_ns, used) = (monotonic_ns(), thread_cpu_time() - cpu);
            let counts = used.as_ns() * 10 > (to_ns - from_ns) * 6;
            self.burnt.lock().expect("nobody panics").push(Stall { from_ns, to_ns, counts });
        }
        self.inner.submit(now, request)
    }

    fn reclassify(&mut self, now: Instant, change: &Reclassification) -> Option<Criticality> {
        self.inner.reclassify(now, change)
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        self.inner.poll(now, completions);
    }

    fn next_event(&self) -> Option<Instant> {
        self.inner.next_event()
    }

    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }

    fn fork(&self) -> Box<dyn Device> {
        let (until, burnt) = (Arc::clone(&self.until), Arc::clone(&self.burnt));
        Box::new(Self { inner: self.inner.fork(), until, burnt })
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// A file of which every sixtieth read takes 50 ms.
struct Sleepy {
    memory: memory::Memory,
    reads: u64,
    held: Option<(Instant, Vec<Held>)>,
    slept: Arc<Mutex<Vec<Stall>>>,
}

type Held = (Tag, u64, u32, frontend::Action<'static>);

impl Backend for Sleepy {
    fn take(&mut self, command: frontend::Command<'_>) {
        if command.action == frontend::Action::Read {
            self.reads += 1;
            if self.reads.is_multiple_of(60) && self.held.is_none() {
                let from_ns = command.arrived.as_ns();
                self.held = Some((command.arrived + STALL, Vec::new()));
                let stall = Stall { from_ns, to_ns: from_ns + STALL.as_ns(), counts: true };
                self.slept.lock().expect("nobody panics").push(stall);
            }
            if let Some((_, held)) = &mut self.held {
                let action = frontend::Action::Read;
                return held.push((command.tag, command.offset_bytes, command.length_bytes, action));
            }
        }
        self.memory.take(command);
    }

    fn reply(&mut self, now: Instant, frontend: &mut dyn Frontend) -> std::io::Result<Next> {
        if let Some((until, held)) = self.held.take_if(|(until, _)| *until <= now) {
            for (tag, offset_bytes, length_bytes, action) in held {
                let command =
                    frontend::Command { tag, arrived: until, offset_bytes, length_bytes, fua: false, action };
                self.memory.take(command);
            }
        }
        self.memory.reply(now, frontend)?;
        Ok(Next::WaitUntil(self.held.as_ref().map(|(until, _)| *until)))
    }

    fn left(&mut self, _: Tag, _: Departure) {}
}

/// The emulating process: prints stalls of its own and every miss when its standard input ends.
fn emulate(role: &str, folder: &Path) {
    // Where it may, it goes before others: their load is not what is measured.
    let _ = setpriority_process(None, -15);
    let clock = Clock::start();
    let parameters = ServerParameters {
        capacity_blocks: SIZE / 512,
        block_size: ByteSize::from_bytes(512),
        service_time: Duration::from_ms(1),
    };
    let stalls = Arc::new(Mutex::new(Vec::new()));
    let until = Arc::new(AtomicU64::new(if role == "model" { 60 } else { u64::MAX }));
    let inner = Box::new(Constant::constant(&parameters).expect("the parameters are right"));
    let device = Burning { inner, until, burnt: Arc::clone(&stalls) };
    let size = ByteSize::from_bytes(SIZE);
    let store = if role == "store" {
        // Read synchronously, as where there is no io_uring.
        Store::in_file(&sleepy_file(folder, &stalls), size, Access::ReadWrite)
    } else {
        Store::in_ram(size, Some(size))
    };
    let missed = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&missed);
    let observe = move |record: &TraceRecord| {
        if let (Some(due), Some(cause)) = (record.points.mp2_due, record.points.miss_cause) {
            seen.lock().expect("nobody panics").push((due, cause.name()));
        }
    };
    let pacer = Pacer::new(Box::new(device), Options::default());
    let mut emulation = Emulation::new(pacer, store.expect("there is a store"), clock)
        .prepares_ahead()
        .observed_by(Box::new(observe));
    let address = Address::Unix(folder.join("disk.sock"));
    let export = Export::new("", SIZE, 512);
    let server = Server::bind(&address, export, ServerOptions::default(), Box::new(move || clock.now()));
    let mut server = server.expect("the address is free");
    let stop = Stop::new().expect("a descriptor is left");
    let asked = stop.clone();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        asked.stop();
    });
    println!("ready");
    let mut waiter = Waiter::new(clock, Pacing::Balanced, Duration::from_us(100));
    serve(&mut server, &mut emulation, &mut waiter, &stop).expect("serving ends only when asked to");
    drop(emulation.finish());
    for Stall { from_ns, to_ns, counts } in stalls.lock().expect("nobody panics").iter() {
        println!("stall {from_ns} {to_ns} {counts}");
    }
    for (due, cause) in missed.lock().expect("nobody panics").iter() {
        println!("miss {} {cause}", clock.origin_ns() + due.as_ns());
    }
    println!("end");
}

fn sleepy_file(folder: &Path, slept: &Arc<Mutex<Vec<Stall>>>) -> PathBuf {
    let (sender, receiver) = mpsc::channel();
    let (place, slept) = (folder.join("mount"), Arc::clone(slept));
    std::fs::create_dir(&place).expect("it can be made");
    let path = place.join(fuse::FILE_NAME);
    std::thread::spawn(move || {
        let export = Export::new("", SIZE, 512);
        let mounted = fuse::Server::mount(export, Box::new(memory::now), &fuse::Place::At(place));
        let mut server = mounted.expect("it can be mounted");
        let memory = memory::Memory::new(SIZE as usize, Duration::ZERO);
        let mut sleepy = Sleepy { memory, reads: 0, held: None, slept };
        let stop = Stop::new().expect("a descriptor is left");
        let mut waiter = Waiter::new(Clock::from_origin_ns(0), Pacing::Frugal, Duration::ZERO);
        sender.send(()).expect("the emulation waits for it");
        serve(&mut server, &mut sleepy, &mut waiter, &stop).expect("it is served to the end");
    });
    receiver.recv().expect("it is mounted");
    path
}

/// The tests run one after the other: beside each other they make each other late.
static ALONE: Mutex<()> = Mutex::new(());

/// Lets the time of a stall pass.
fn pause() {
    let end_ns = monotonic_ns() + STALL.as_ns();
    while let Some(left_ns) = end_ns.checked_sub(monotonic_ns()).filter(|left_ns| *left_ns > 0) {
        std::thread::park_timeout(Pause::from_nanos(left_ns));
    }
}

/// Processor time used so far, in ticks of 10 ms.
struct Usage {
    /// By all processes.
    all: u64,
    /// By this process and the emulating one.
    own: u64,
    at_ns: u64,
}

impl Usage {
    fn now(child: &Child) -> Self {
        let fields = |path: String, skipped: usize| -> Vec<u64> {
            let text = std::fs::read_to_string(path).expect("Linux has it");
            let line = text.lines().next().unwrap_or_default();
            // The name of a process stands in parentheses and may hold spaces.
            let line = line.rsplit_once(')').map_or(line, |(_, rest)| rest);
            line.split_whitespace().skip(skipped).map(|field| field.parse().unwrap_or(0)).collect()
        };
        // user, nice, system, idle, iowait, irq, softirq, steal
        let all = fields("/proc/stat".to_owned(), 1);
        let all = all[0] + all[1] + all[2] + all[5] + all[6] + all[7];
        // The fields 14 and 15, the state being the third.
        let of = |id: u32| fields(format!("/proc/{id}/stat"), 11)[..2].iter().sum::<u64>();
        Self { all, own: of(std::process::id()) + of(child.id()), at_ns: monotonic_ns() }
    }

    /// Processors that others kept busy since `began`.
    fn elsewhere_since(&self, began: &Self) -> f64 {
        let ticks = (self.all - began.all).saturating_sub(self.own - began.own);
        ticks as f64 * 10e6 / (self.at_ns - began.at_ns) as f64
    }
}

/// A process that emulates.
struct Emulating {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
    stream: UnixStream,
    began: Usage,
    _folder: tempfile::TempDir,
    _alone: MutexGuard<'static, ()>,
}

impl Emulating {
    fn start(role: &str) -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().expect("a temporary directory can be made");
        let mut child = Command::new(std::env::current_exe().expect("it runs"))
            .args(["--exact", "emulating_process", "--nocapture", "--ignored"])
            .env(ROLE, format!("{role}:{}", folder.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it can be started");
        let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut line = String::new();
        while !line.ends_with("ready\n") {
            line.clear();
            assert!(
                output.read_line(&mut line).expect("it can be read") > 0,
                "the emulation ended before it was ready"
            );
        }
        let mut stream = UnixStream::connect(folder.path().join("disk.sock")).expect("it listens");
        let timeout = Some(Pause::from_secs(60));
        stream.set_read_timeout(timeout).expect("a timeout can be set");
        // Client flags, and `NBD_OPT_GO` of the empty name.
        stream.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x07\0\0\0\x06\0\0\0\0\0\0").expect("it is there");
        // The greeting, two pieces of information and the agreement.
        stream.read_exact(&mut [0; 18 + 32 + 34 + 20]).expect("it answers");
        let began = Usage::now(&child);
        Self { child, output, stream, began, _folder: folder, _alone: alone }
    }

    fn ask(&mut self, bytes: u32) {
        let mut request = 0x2560_9513_u32.to_be_bytes().to_vec();
        request.extend([0; 4 + 8 + 8]);
        request.extend(bytes.to_be_bytes());
        self.stream.write_all(&request).expect("it is there");
    }

    fn take(&mut self, bytes: u32) {
        self.stream.read_exact(&mut vec![0; 16 + bytes as usize]).expect("it answers");
    }

    /// Keeps eight requests of so many bytes outstanding while `go_on`, which receives the number of finished ones, returns true.
    fn load(&mut self, bytes: u32, mut go_on: impl FnMut(u64, &Child) -> bool) {
        (0..8).for_each(|_| self.ask(bytes));
        let mut done = 0;
        while go_on(done, &self.child) {
            self.take(bytes);
            self.ask(bytes);
            done += 1;
        }
        (0..8).for_each(|_| self.take(bytes));
    }

    /// Ends it: its stalls, and the due and the cause of each miss; `None` if the machine was busy with other processes.
    fn end(mut self) -> Option<(Vec<Stall>, Vec<(u64, String)>)> {
        let elsewhere = Usage::now(&self.child).elsewhere_since(&self.began);
        println!("{elsewhere:.2} processors were busy with other processes");
        drop(self.child.stdin.take());
        let (mut stalls, mut misses) = (Vec::new(), Vec::new());
        let mut lines = self.output.by_ref().lines().map(|line| line.expect("it can be read"));
        for line in lines.by_ref().take_while(|line| line != "end") {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |at: usize| words[at].parse().expect("it is a number");
            match words[0] {
                "stall" => {
                    stalls.push(Stall { from_ns: number(1), to_ns: number(2), counts: words[3] == "true" })
                }
                "miss" => misses.push((number(1), words[2].to_owned())),
                _ => {}
            }
        }
        drop(lines);
        let _ = self.child.wait();
        if elsewhere > ELSEWHERE_MAX {
            println!("SKIP: the machine is busy");
            return None;
        }
        Some((stalls, misses))
    }
}

/// Nine in ten of the misses due within a stall bear `name`.
fn check(name: &str, stalls: &[Stall], misses: &[(u64, String)]) {
    let stalls: Vec<&Stall> = stalls.iter().filter(|stall| stall.counts).collect();
    if stalls.len() < STALLS / 2 {
        println!("SKIP: the machine is busy: {} of {STALLS} stalls had the processor", stalls.len());
        return;
    }
    let within = |due: &u64| stalls.iter().any(|stall| (stall.from_ns..stall.to_ns).contains(due));
    let of: Vec<&str> =
        misses.iter().filter(|(due, _)| within(due)).map(|(_, cause)| cause.as_str()).collect();
    let named = of.iter().filter(|cause| **cause == name).count();
    println!(
        "{name}: {named} of {} misses due within {} stalls; {} misses",
        of.len(),
        stalls.len(),
        misses.len()
    );
    assert!(
        of.len() >= 2 * stalls.len(),
        "{name}: a stall makes requests late: {} of {}",
        of.len(),
        stalls.len()
    );
    assert!(named * 10 >= of.len() * 9, "{name}: {named} of {}: {of:?}", of.len());
}

#[test]
#[ignore = "the process that others start"]
fn emulating_process() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let (role, folder) = role.split_once(':').expect("the role and the folder");
    emulate(role, Path::new(folder));
}

#[test]
fn misses_while_the_process_is_stopped_are_the_kernels() {
    let mut emulating = Emulating::start("stop");
    let mut stalls = Vec::new();
    emulating.load(4096, |done, child| {
        if done % 60 == 59 {
            let pid = Pid::from_child(child);
            let from_ns = monotonic_ns();
            kill_process(pid, Signal::STOP).expect("it runs");
            pause();
            kill_process(pid, Signal::CONT).expect("it is stopped");
            stalls.push(Stall { from_ns, to_ns: monotonic_ns(), counts: true });
        }
        stalls.len() < STALLS
    });
    let Some((_, misses)) = emulating.end() else { return };
    check("kernel_scheduling", &stalls, &misses);
}

#[test]
fn misses_while_the_model_burns_are_the_models() {
    let mut emulating = Emulating::start("model");
    emulating.load(4096, |done, _| done < 60 * STALLS as u64 + 20);
    let Some((stalls, misses)) = emulating.end() else { return };
    check("model_too_slow", &stalls, &misses);
}

#[test]
fn misses_while_the_client_does_not_read_are_the_clients() {
    let mut emulating = Emulating::start("client");
    let mut stalls = Vec::new();
    // 256 KiB are more than a socket holds.
    emulating.load(256 << 10, |done, _| {
        if done % 60 == 59 {
            let from_ns = monotonic_ns();
            pause();
            stalls.push(Stall { from_ns, to_ns: monotonic_ns(), counts: true });
        }
        stalls.len() < STALLS
    });
    let Some((_, misses)) = emulating.end() else { return };
    check("client_not_reading", &stalls, &misses);
}

#[test]
fn misses_while_the_store_sleeps_are_the_stores() {
    if !Path::new("/dev/fuse").exists() || !rustix::process::geteuid().is_root() {
        println!("SKIP: a FUSE file cannot be mounted here");
        return;
    }
    let mut emulating = Emulating::start("store");
    // Each read goes to the file once: what the page cache holds does not sleep.
    emulating.load(4096, |done, _| done < 60 * STALLS as u64 + 20);
    let Some((stalls, misses)) = emulating.end() else { return };
    check("data_not_there", &stalls, &misses);
}
