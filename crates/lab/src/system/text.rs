//! Makes a system-level trace from the text of a host's events.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use seeklab_core::ByteSize;
use seeklab_core::number_words::{counted, numbered};
use seeklab_traces::capture::system::{HostFacts, Mount, describe};
use seeklab_traces::system::tables::TABLES_VERSION;
use seeklab_traces::system::text::{Survey, SystemText, TextCounts, survey};
use seeklab_traces::system::{Processor, TracedDevice};

use super::folder::{Draft, REQUESTS, write_metadata};
use super::metadata::{EventCounts, SystemMetadata};
use super::record::{device_facts, mount_facts, repairs, write_tables};
use crate::failure::Failure;
use crate::output::VERSION;
use crate::session::Session;
use crate::trace::STANDARD_INPUT;
use crate::trace::convert::ConvertResult;

/// Candidates that an error names.
const CANDIDATES: usize = 8;
/// Kinds of events that a note names.
const KINDS_SHOWN: usize = 6;
/// Bytes of a logical block, unless the device of this machine says otherwise.
const BLOCK_BYTES: u64 = 512;

/// Options of a conversion to a system-level trace.
#[derive(Debug, Clone, Default)]
pub struct SystemTextOptions {
    /// Text of perf or trace-cmd.
    pub input: PathBuf,
    /// Folder of the trace.
    pub output: PathBuf,
    /// Device with the file system: a block device of this machine, or MAJOR:MINOR.
    pub device: String,
    /// First thread of the task, by number or by the name of its program [default: the command of the recording program].
    pub task: Option<String>,
    /// Facts of the recorded host, `NAME=VALUE`.
    pub facts: Vec<String>,
}

/// Writes a system-level trace from text of `perf script` or `trace-cmd report`.
///
/// # Errors
/// If the text cannot be read, or a needed fact is missing. The message says which, and where to get it.
pub fn convert_text(session: &Session, options: &SystemTextOptions) -> Result<ConvertResult, Failure> {
    let input = &options.input;
    if input == Path::new(STANDARD_INPUT) {
        return Err(Failure::new("standard input: a text of events is read twice")
            .hint("write it to a file: `perf script --ns > events.txt`"));
    }
    let mut notes = Vec::new();
    let mut host = Host::of(&options.device, &mut notes)?;
    let survey = survey(input)?;
    session.check()?;
    host.take_header(&survey);
    for fact in &options.facts {
        host.set(fact)?;
    }
    host.check(&survey, &mut notes)?;
    let task = find_task(&survey, options.task.as_deref())?;
    let draft = Draft::create(&options.output)?;
    let Host { facts, device, .. } = &host;
    let mut text = SystemText::open(input)?;
    let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
    let (processed, tables) = write_tables(&draft, &options.device, facts, CLOCK, None, |mut sink| {
        let initial = survey.initial(task);
        let cpus = facts.cpus.iter().copied();
        let mut processor =
            Processor::new(survey.begin_ns, cpus, *device, &[task], &initial).with_machine(&facts.machine);
        while let Some(event) = text.next_event()? {
            *kinds.entry(event.kind.name().to_owned()).or_default() += 1;
            processor.push(&event, &mut sink);
            if processor_is_due(text.counts().events) {
                session.check()?;
            }
        }
        Ok(processor.finish(survey.end_ns, &mut sink))
    })?;
    let counts = text.counts();
    note(counts, processed.lost_events, &mut notes);
    let seen = survey.threads.get(&task);
    let metadata = SystemMetadata {
        tables_version: TABLES_VERSION,
        recorded_by: format!("{VERSION}, from text"),
        clock: CLOCK.to_owned(),
        begin_ns: survey.begin_ns,
        elapsed_ns: survey.end_ns - survey.begin_ns,
        command: host.command.clone().unwrap_or_else(|| {
            vec![seen.and_then(|seen| seen.program.clone()).unwrap_or_else(|| task.to_string())]
        }),
        task,
        command_exit_code: Some(seen.and_then(|seen| seen.exit_status).unwrap_or(0)),
        kernel: facts.kernel.clone(),
        machine: facts.machine.clone(),
        cpus: facts.cpus.clone(),
        task_cpus: Vec::new(),
        memory_bytes: facts.memory_bytes.clone(),
        settings: facts.settings.clone(),
        device: device_facts(&options.device, facts, *device),
        mount: mount_facts(facts),
        journal: facts.journal.clone(),
        recording_cost: None,
        memory_group: None,
        device_age_ns: None,
        stolen_ns: None,
        has_metadata_bytes: true,
        has_start_pages: false,
        events: EventCounts {
            events: processed.events,
            by_kind: kinds.clone(),
            lost_events: processed.lost_events,
            malformed_records: counts.malformed_lines,
            repairs: repairs(&processed.repairs),
            clock_steps: processed.clock_steps,
            given_up_requests: processed.requests.given_up,
            pending_requests: processed.requests.pending,
            has_call_stacks: counts.stacks > 0,
            missing_events: missing(&kinds),
        },
        tables,
    };
    if !metadata.events.missing_events.is_empty() {
        notes.push(format!(
            "the text has no event of these kinds: {}",
            metadata.events.missing_events.join(", ")
        ));
    }
    write_metadata(draft.path(), &metadata)?;
    draft.finish()?;
    Ok(ConvertResult {
        input: input.display().to_string(),
        output: options.output.display().to_string(),
        format: "system-text",
        guess: None,
        requests: metadata.tables.get(REQUESTS).copied().unwrap_or(0),
        notes,
    })
}

/// Clock of a text, which the text does not name.
const CLOCK: &str = "text";

/// True for one event in 65,536.
const fn processor_is_due(events: u64) -> bool {
    events & 0xffff == 0
}

/// Kinds of events that every trace of a command with I/O has.
fn missing(kinds: &BTreeMap<String, u64>) -> Vec<String> {
    let expected = ["switch", "waking", "call_enter", "file_read", "device_read", "block", "stack"];
    expected.into_iter().filter(|kind| !kinds.contains_key(*kind)).map(str::to_owned).collect()
}

/// Says what of the text was not used.
fn note(counts: &TextCounts, lost_events: u64, notes: &mut Vec<String>) {
    let others: u64 = counts.other_events.values().sum();
    if others > 0 {
        let mut kinds: Vec<_> = counts.other_events.iter().collect();
        kinds.sort_by(|one, other| other.1.cmp(one.1));
        let named: Vec<String> =
            kinds.iter().take(KINDS_SHOWN).map(|(name, count)| format!("{name} ({count})")).collect();
        let more = if kinds.len() > KINDS_SHOWN { ", …" } else { "" };
        notes.push(format!(
            "skipped {} of other kinds: {}{more}",
            counted(others, "event"),
            named.join(", ")
        ));
    }
    if counts.malformed_lines > 0 {
        let lines: Vec<String> = counts.malformed.iter().map(u64::to_string).collect();
        let more = if counts.malformed_lines > lines.len() as u64 { ", …" } else { "" };
        notes.push(format!(
            "skipped {}: {}{more}",
            numbered(
                counts.malformed_lines,
                "line[|s] that [is no event or has|are no events or have] other fields"
            ),
            lines.join(", ")
        ));
    }
    if lost_events > 0 {
        notes.push(format!(
            "at least {}, at {}: the division of time is wrong there",
            numbered(lost_events, "event[|s] [was|were] lost"),
            counted(counts.losses, "place")
        ));
    }
    if counts.is_cut {
        notes.push("the last line has no end, and may have been cut".to_owned());
    }
    if !counts.has_nanoseconds {
        notes.push(
            "the times have microseconds: `perf script --ns` and `trace-cmd report -t` print nanoseconds"
                .to_owned(),
        );
    }
}

/// The first thread of the task.
fn find_task(survey: &Survey, named: Option<&str>) -> Result<u32, Failure> {
    let executed =
        || survey.threads.iter().filter_map(|(thread, seen)| Some((*thread, seen.program.as_ref()?)));
    let candidates = || {
        let candidates: Vec<String> =
            executed().take(CANDIDATES).map(|(thread, program)| format!("{thread} ({program})")).collect();
        format!("threads that executed programs: {}", candidates.join(", "))
    };
    let Some(named) = named else {
        return survey.started.ok_or_else(|| {
            Failure::new(
                "no thread of the text is known to be the command: perf or trace-cmd did not start it",
            )
            .hint(format!("name it by --task NUMBER or --task PROGRAM. {}", candidates()))
        });
    };
    let number = named.parse().ok().filter(|thread| survey.threads.contains_key(thread));
    let of_program = || executed().find(|(_, program)| *program == named).map(|(thread, _)| thread);
    let of_name = || survey.threads.iter().find(|(_, seen)| seen.name == named).map(|(thread, _)| *thread);
    number.or_else(of_program).or_else(of_name).ok_or_else(|| {
        Failure::new(format!("--task {named}: no thread of the text has that number or program"))
            .hint(candidates())
    })
}

/// Facts of the recorded host.
struct Host {
    facts: HostFacts,
    device: TracedDevice,
    command: Option<Vec<String>>,
    /// First sector of the partition.
    start: Option<u64>,
    /// True if the facts are those of this machine.
    is_here: bool,
}

impl Host {
    /// The host of a device of this machine, or of a device by its number.
    fn of(device: &str, notes: &mut Vec<String>) -> Result<Self, Failure> {
        if let Some(number) = device_number(device) {
            let facts = HostFacts {
                machine: std::env::consts::ARCH.to_owned(),
                mount: Mount { device: number, kind: "ext4".to_owned(), ..Mount::default() },
                block_bytes: BLOCK_BYTES,
                ..HostFacts::default()
            };
            let device = TracedDevice { requests: number, file_system: number, partition: None };
            return Ok(Self { facts, device, command: None, start: None, is_here: false });
        }
        let (facts, traced) = describe(Path::new(device)).map_err(|error| {
            Failure::from(error)
                .hint("for a device of another machine, write its number: --system MAJOR:MINOR")
        })?;
        notes.push(format!("memory, settings and size are those of this machine and of {device} now"));
        Ok(Self { facts, device: traced, command: None, start: None, is_here: true })
    }

    /// Takes what the text states of its host.
    fn take_header(&mut self, survey: &Survey) {
        let fact = |name: &str| survey.header.get(name);
        if let Some(kernel) = fact("os release") {
            self.facts.kernel.clone_from(kernel);
        }
        if let Some(machine) = fact("arch") {
            self.facts.machine.clone_from(machine);
        }
        let memory = fact("total memory").and_then(|memory| memory.strip_suffix(" kB")?.parse::<u64>().ok());
        if let Some(kibibytes) = memory {
            self.facts.memory_bytes.insert("MemTotal".to_owned(), kibibytes.saturating_mul(1024));
        }
        if let Some((_, command)) = fact("cmdline").and_then(|line| line.split_once(" -- ")) {
            self.command = Some(command.split_whitespace().map(str::to_owned).collect());
        }
        let online = ["nrcpus online", "cpus"].into_iter().find_map(|name| fact(name)?.parse::<u16>().ok());
        // A text has no events of idle processors, and a hostile one any number of processors.
        let mut cpus = survey.cpus.clone();
        cpus.extend(0..online.unwrap_or(0).min(4096));
        if !self.is_here || online.is_some() {
            self.facts.cpus = cpus.into_iter().collect();
        }
    }

    /// Sets a fact, `NAME=VALUE`.
    fn set(&mut self, fact: &str) -> Result<(), Failure> {
        let known = "size, whole, start, memory, kernel, machine, file_system, options, or a setting such as \
                     queue.read_ahead_kb, vm.dirty_ratio, bdi.max_bytes";
        let Some((name, value)) = fact.split_once('=') else {
            return Err(Failure::new(format!("--fact {fact}: NAME=VALUE is allowed")).hint(known));
        };
        let invalid = |allowed: &str| Failure::new(format!("--fact {name}: `{value}`: {allowed} is allowed"));
        let size = || {
            value
                .parse::<ByteSize>()
                .map(ByteSize::as_bytes)
                .map_err(|error| invalid(&format!("a size ({error})")))
        };
        match name {
            "size" => self.facts.device_bytes = size()?,
            "memory" => {
                let bytes = size()?;
                self.facts.memory_bytes.insert("MemAvailable".to_owned(), bytes);
                self.facts.memory_bytes.entry("MemTotal".to_owned()).or_insert(bytes);
            }
            "whole" => {
                self.device.requests = device_number(value).ok_or_else(|| invalid("MAJOR:MINOR"))?;
            }
            "start" => {
                self.start = Some(value.parse().map_err(|_| invalid("a number of sectors of 512 bytes"))?)
            }
            "kernel" => value.clone_into(&mut self.facts.kernel),
            "machine" => value.clone_into(&mut self.facts.machine),
            "file_system" => value.clone_into(&mut self.facts.mount.kind),
            "options" => value.clone_into(&mut self.facts.mount.options),
            name if ["vm.", "queue.", "bdi."].iter().any(|group| name.starts_with(group)) => {
                self.facts.settings.insert(name.to_owned(), value.to_owned());
            }
            _ => return Err(Failure::new(format!("--fact {name}: is no known fact")).hint(known)),
        }
        Ok(())
    }

    /// Checks that nothing needed is missing.
    fn check(&mut self, survey: &Survey, notes: &mut Vec<String>) -> Result<(), Failure> {
        if self.facts.device_bytes == 0 {
            return Err(Failure::new("the size of the device is missing")
                .hint("write --fact size=SIZE. `blockdev --getsize64 DEVICE` prints it on the recorded machine, in bytes"));
        }
        if let Some(first) = self.start {
            let sectors = self.facts.device_bytes / 512;
            self.device.partition = Some((first, first.saturating_add(sectors)));
        }
        let TracedDevice { requests, file_system, partition } = self.device;
        if requests != file_system && partition.is_none() {
            return Err(Failure::new("the place of the partition is missing").hint(
                "write --fact start=SECTOR. /sys/class/block/PARTITION/start has it on the recorded machine",
            ));
        }
        if !survey.requests.contains_key(&requests) {
            let text = |device: u32| format!("{}:{}", device >> 20, device & 0xf_ffff);
            let seen: Vec<String> = survey
                .requests
                .iter()
                .map(|(device, count)| format!("{} ({count})", text(*device)))
                .collect();
            notes.push(format!(
                "no request of the device {} is in the text. Requests by device: {}. For a partition, --fact whole=MAJOR:MINOR \
                 names the whole device",
                text(requests),
                if seen.is_empty() { "none".to_owned() } else { seen.join(", ") }
            ));
        }
        if !self.is_here {
            let mut defaults = Vec::new();
            if !self.facts.memory_bytes.contains_key("MemAvailable") {
                defaults.push("memory (--fact memory=SIZE)");
            }
            if self.facts.settings.is_empty() {
                defaults.push("settings (--fact queue.NAME=VALUE, vm.NAME=VALUE)");
            }
            if !defaults.is_empty() {
                notes.push(format!(
                    "the defaults of the model of the host apply to {}",
                    defaults.join(" and ")
                ));
            }
        }
        Ok(())
    }
}

/// `MAJOR:MINOR`.
fn device_number(text: &str) -> Option<u32> {
    let (major, minor) = text.split_once(':')?;
    let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
    (major < 1 << 12 && minor < 1 << 20).then_some(major << 20 | minor)
}
