//! Records a command with its host as a system-level trace.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use schemars::JsonSchema;
use seeklab_core::{ByteSize, TraceRecord};
use seeklab_stage::{CpuList, MemoryUse};
use seeklab_traces::capture::system::{
    HostFacts, KnownThreads, Recorded, RecordedTask, Root, SystemCapture, SystemOptions, write_back,
};
use seeklab_traces::capture::{Rows, look_at};
use seeklab_traces::system::tables::TABLES_VERSION;
use seeklab_traces::system::{Output, Processed, Repairs, TracedDevice};
use seeklab_traces::{Metadata, TraceError, TraceWriter, check_no_part, recorder};
use serde::Serialize;

use super::folder::{Draft, REQUESTS, Tables, requests, write_metadata};
use super::info::{SystemInfo, info};
use super::metadata::{
    DeviceFacts, EventCounts, MemoryGroupFacts, MountFacts, RecordingCostFacts, SystemMetadata,
};
use crate::capture::child::Child;
use crate::capture::{lies_on, own_number};
use crate::failure::Failure;
use crate::output::{VERSION, path_text};
use crate::session::Session;

/// Clock of a recording.
const CLOCK: &str = "monotonic";

/// Options of a system-level capture.
#[derive(Debug, Clone)]
pub struct SystemCaptureOptions {
    /// Block device whose mounted file system the command uses.
    pub device: PathBuf,
    /// Folder of the trace.
    pub output: PathBuf,
    /// Bytes of each of the two kernel buffers of each processor.
    pub buffer: Option<ByteSize>,
    /// Command to run, with its arguments.
    pub command: Vec<OsString>,
    /// Write the output of the command to stderr.
    pub output_to_stderr: bool,
}

/// Result of a system-level capture. Its serialized form is the JSON document.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SystemCaptureResult {
    /// Block device.
    #[serde(serialize_with = "path_text")]
    pub device: PathBuf,
    /// Folder of the trace.
    #[serde(serialize_with = "path_text")]
    pub output: PathBuf,
    /// Program and version.
    pub version: &'static str,
    /// Exit code of the command; 128 plus the signal number if a signal ended it.
    pub command_exit_code: i32,
    /// Processor time of the command and its descendants that ended, as the operating system counts it.
    pub command_cpu_s: f64,
    /// Temporary space that the events took.
    pub spooled_bytes: u64,
    /// Description of the trace.
    pub trace: SystemInfo,
    /// Failure that kept the last dirty blocks from the device.
    #[serde(skip)]
    pub failure: Option<Failure>,
}

/// Records the host from before the command starts until its last dirty block is on the device.
///
/// # Errors
/// Missing requirements and their remedy, before the command starts. A trace that cannot be written.
pub fn capture_system(
    session: &Session,
    options: &SystemCaptureOptions,
) -> Result<SystemCaptureResult, Failure> {
    if options.command.is_empty() {
        return Err(Failure::new("a system-level capture records a command, and there is none")
            .hint("write it at the end: `-- COMMAND`"));
    }
    let command = Child::new(&options.command, options.output_to_stderr)?;
    let _held = session.hold();
    let recording =
        Recording::begin(&options.device, &options.output, options.buffer, Surroundings::default())?;
    if lies_on(&options.output, &options.device) {
        session.remark(format!(
            "note: {} lies on the recorded device. Its writes are marked as the recorder's, but they take time of the device and room in \
             its page cache, and writes that the kernel makes for them are not marked. Choose another device for the trace",
            options.output.display()
        ));
    }
    let cpu_before = children_cpu_s()?;
    let running = recording.capture.follow(|| command.start())??;
    let root = Root::Thread(running.number());
    let words: Vec<String> = options.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    // The command inherits them.
    let cpus = CpuList::permitted();
    recording.capture.set_task(&RecordedTask {
        root,
        command: words.clone(),
        cpus: cpus.as_ref().map(ToString::to_string),
        memory_limit_bytes: None,
        device_made_ns: None,
    })?;
    let mut watch = session.stop().watch();
    let ended = running.wait(&mut watch)?;
    let command_cpu_s = children_cpu_s()? - cpu_before;
    // The trace ends when what the command wrote is on the device.
    let written = write_back(&recording.capture.facts().mount);
    let exit_code = ended.exit_code;
    let recorded = recording.finish(&Traced {
        command: words,
        exit_code: Some(exit_code),
        cpus,
        root,
        end_ns: None,
        memory: None,
        device_made_ns: None,
        recorder: own_number(),
    })?;
    Ok(SystemCaptureResult {
        device: options.device.clone(),
        output: options.output.clone(),
        version: VERSION,
        command_exit_code: exit_code,
        command_cpu_s,
        spooled_bytes: recorded.spooled_bytes,
        trace: info(&options.output)?,
        failure: written.err().map(|error| {
            Failure::from(error)
                .context(
                    "cannot write back the file system, so what the command wrote is not all on the device",
                )
                .hint("the trace is complete up to this failure")
        }),
    })
}

/// Surroundings of a device whose host is recorded, if they differ from those of this process.
#[derive(Debug, Clone, Default)]
pub(crate) struct Surroundings {
    /// Table of the mounts, in which the device is.
    pub(crate) mounts: Option<PathBuf>,
    /// Threads whose role their processes do not tell.
    pub(crate) known: KnownThreads,
}

/// A command that was traced.
#[derive(Debug)]
pub(crate) struct Traced {
    /// The command and its arguments.
    pub(crate) command: Vec<String>,
    /// Its exit code; 128 plus the signal number if a signal ended it. `None` if it went on.
    pub(crate) exit_code: Option<i32>,
    /// Processors that it could use. `None` if they are not known.
    pub(crate) cpus: Option<CpuList>,
    /// First threads of the task.
    pub(crate) root: Root,
    /// End of the trace, in nanoseconds of CLOCK_MONOTONIC [default: the end of the recording].
    pub(crate) end_ns: Option<u64>,
    /// Memory of the group that it ran in. `None` if its memory had no limit of its own.
    pub(crate) memory: Option<MemoryUse>,
    /// Time at which the device was made, in nanoseconds of CLOCK_MONOTONIC. `None` if it is not known.
    pub(crate) device_made_ns: Option<u64>,
    /// Process that recorded it, by the kernel's number. `None` if it is not known.
    pub(crate) recorder: Option<u32>,
}

/// Size of a finished recording.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordedSize {
    /// Temporary space that the events took.
    pub(crate) spooled_bytes: u64,
    /// Events that the kernel could not record.
    pub(crate) lost_events: u64,
}

/// A host that is recorded.
pub(crate) struct Recording {
    pub(crate) capture: SystemCapture,
    device: PathBuf,
    output: PathBuf,
}

impl Recording {
    /// Begins to record the host of `device`.
    pub(crate) fn begin(
        device: &Path,
        output: &Path,
        buffer: Option<ByteSize>,
        surroundings: Surroundings,
    ) -> Result<Self, Failure> {
        if look_at(device)?.takes_bios {
            let message = format!("{}: has no request queue", device.display());
            return Err(Failure::new(message).hint("record the device beneath it"));
        }
        Draft::check(output)?;
        check_no_part(output)?;
        let options = SystemOptions {
            buffer_bytes: buffer.map(|size| usize::try_from(size.as_bytes()).unwrap_or(usize::MAX)),
            output: output.to_owned(),
            mounts: surroundings.mounts,
            known: surroundings.known,
        };
        let capture = SystemCapture::start(device, &options)?;
        Ok(Self { capture, device: device.to_owned(), output: output.to_owned() })
    }

    /// Ends the recording and writes the trace. If that fails, the part file stays.
    pub(crate) fn finish(self, traced: &Traced) -> Result<RecordedSize, Failure> {
        let Self { capture, device, output } = self;
        let mut recorded = capture.finish()?;
        recorded.end_ns = traced.end_ns.map_or(recorded.end_ns, |end_ns| recorded.end_ns.min(end_ns));
        let spooled_bytes = recorded.spooled_bytes();
        let draft = Draft::create(&output)?;
        let metadata = write(&draft, &device, &mut recorded, traced)?;
        draft.finish()?;
        recorded.remove_part();
        Ok(RecordedSize { spooled_bytes, lost_events: metadata.events.lost_events })
    }
}

/// Processor time of all processes of this one that ended and were waited for.
fn children_cpu_s() -> Result<f64, Failure> {
    let usage =
        getrusage(UsageWho::RUSAGE_CHILDREN).map_err(|error| Failure::from(std::io::Error::from(error)))?;
    let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}

/// Writes the requests of the device.
struct RequestWriter {
    rows: Rows,
    writer: Box<dyn TraceWriter>,
    failed: Option<TraceError>,
}

impl RequestWriter {
    fn create(
        folder: &Path,
        device: &str,
        facts: &HostFacts,
        clock: &str,
        recorder: Option<u32>,
    ) -> Result<Self, TraceError> {
        let mut metadata = Metadata {
            block_size: ByteSize::from_bytes(facts.block_bytes),
            version: Some(VERSION.to_owned()),
            clock: Some(clock.to_owned()),
            labels: vec![device.to_owned()],
            other: BTreeMap::from([(recorder::OBSERVED.to_owned(), "requests".to_owned())]),
            ..Metadata::default()
        };
        metadata.other.extend(recorder.map(|number| (recorder::KEY.to_owned(), number.to_string())));
        metadata.set_capacity(0, ByteSize::from_bytes(facts.device_bytes));
        let writer = seeklab_columnar::create(&requests(folder), None, &metadata)?;
        Ok(Self { rows: Rows::new(facts.block_bytes), writer, failed: None })
    }

    fn finish(self) -> Result<u64, TraceError> {
        let Self { rows, mut writer, mut failed } = self;
        let (names, counts) = rows.finish(|record| write_record(&mut *writer, &mut failed, record));
        if let Some(failed) = failed {
            return Err(failed);
        }
        for (process, name) in names {
            writer.annotate(&format!("process.{process}"), &name.to_string())?;
        }
        writer.finish()?;
        Ok(counts.rows)
    }
}

fn write_record(writer: &mut dyn TraceWriter, failed: &mut Option<TraceError>, record: &TraceRecord) {
    if failed.is_none() {
        *failed = writer.write(record).err();
    }
}

/// Writes the tables of a pass over events. The requests of the process `recorder` are marked as those of the recorder. Returns what `pass` does, and the number of rows of each table.
pub(super) fn write_tables<T>(
    draft: &Draft,
    device: &str,
    facts: &HostFacts,
    clock: &str,
    recorder: Option<u32>,
    pass: impl FnOnce(&mut dyn FnMut(Output)) -> Result<T, Failure>,
) -> Result<(T, BTreeMap<String, u64>), Failure> {
    let mut tables = Tables::create(draft.path())?;
    let mut requests = RequestWriter::create(draft.path(), device, facts, clock, recorder)?;
    let processed = pass(&mut |output| match output {
        Output::Request(request) => {
            let RequestWriter { rows, writer, failed } = &mut requests;
            rows.push(&request, |record| write_record(&mut **writer, failed, record));
        }
        output => tables.write(&output),
    })?;
    let mut counts: BTreeMap<String, u64> =
        tables.finish()?.into_iter().map(|(table, rows)| (table.to_owned(), rows)).collect();
    counts.insert(REQUESTS.to_owned(), requests.finish()?);
    Ok((processed, counts))
}

/// Makes the pass over the events, and writes all files.
pub(super) fn write(
    draft: &Draft,
    device: &Path,
    recorded: &mut Recorded,
    traced: &Traced,
) -> Result<SystemMetadata, Failure> {
    let facts = recorded.facts.clone();
    let label = device.display().to_string();
    let (processed, counts) = write_tables(draft, &label, &facts, CLOCK, traced.recorder, |mut sink| {
        Ok(recorded.process(traced.root, &mut sink)?)
    })?;
    let metadata = metadata(device, recorded, &processed, counts, traced);
    write_metadata(draft.path(), &metadata)?;
    Ok(metadata)
}

pub(super) fn repairs(repairs: &Repairs) -> BTreeMap<String, u64> {
    let counts = [
        ("unrecorded_switch", repairs.unrecorded_switch),
        ("current_thread", repairs.current_thread),
        ("two_processors", repairs.two_processors),
        ("not_woken", repairs.not_woken),
        ("interrupts", repairs.interrupts),
        ("existing_thread", repairs.existing_thread),
    ];
    counts.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
}

pub(super) fn device_facts(path: &str, facts: &HostFacts, device: TracedDevice) -> DeviceFacts {
    DeviceFacts {
        path: path.to_owned(),
        number: device.requests,
        size_bytes: facts.device_bytes,
        block_bytes: facts.block_bytes,
        partition_start_sector: device.partition.map(|(first, _)| first),
    }
}

pub(super) fn mount_facts(facts: &HostFacts) -> MountFacts {
    MountFacts {
        point: facts.mount.point.display().to_string(),
        file_system: facts.mount.kind.clone(),
        options: facts.mount.options.clone(),
        number: facts.mount.device,
    }
}

fn metadata(
    device: &Path,
    recorded: &Recorded,
    processed: &Processed,
    tables: BTreeMap<String, u64>,
    traced: &Traced,
) -> SystemMetadata {
    let facts = &recorded.facts;
    SystemMetadata {
        tables_version: TABLES_VERSION,
        recorded_by: VERSION.to_owned(),
        clock: CLOCK.to_owned(),
        begin_ns: recorded.begin_ns,
        elapsed_ns: recorded.end_ns - recorded.begin_ns,
        command: traced.command.clone(),
        task: match traced.root {
            Root::Thread(thread) => thread,
            Root::ChildrenOf(_) => processed.first_task.unwrap_or(0),
        },
        command_exit_code: traced.exit_code,
        kernel: facts.kernel.clone(),
        machine: facts.machine.clone(),
        cpus: facts.cpus.clone(),
        task_cpus: traced.cpus.iter().flat_map(CpuList::numbers).map(|cpu| cpu as u16).collect(),
        memory_bytes: facts.memory_bytes.clone(),
        settings: facts.settings.clone(),
        device: device_facts(&device.display().to_string(), facts, recorded.device),
        mount: mount_facts(facts),
        journal: facts.journal.clone(),
        recording_cost: Some(RecordingCostFacts {
            call_event_ns: recorded.cost.call_ns,
            other_event_ns: recorded.cost.access_ns,
        }),
        memory_group: traced.memory.map(|memory| MemoryGroupFacts {
            limit_bytes: memory.limit_bytes,
            used_bytes: memory.used_bytes.unwrap_or(0),
        }),
        device_age_ns: traced.device_made_ns.map(|made_ns| recorded.begin_ns.saturating_sub(made_ns)),
        stolen_ns: recorded.stolen_ns,
        has_metadata_bytes: true,
        has_start_pages: recorded.state.has_pages,
        events: EventCounts {
            events: processed.events,
            by_kind: recorded.kinds.iter().map(|(kind, count)| ((*kind).to_owned(), *count)).collect(),
            lost_events: processed.lost_events.max(recorded.lost_events()),
            malformed_records: recorded.malformed_records,
            repairs: repairs(&processed.repairs),
            clock_steps: processed.clock_steps,
            given_up_requests: processed.requests.given_up,
            pending_requests: processed.requests.pending,
            has_call_stacks: recorded.has_symbols && !recorded.missing_events.contains(&"kernel_stack"),
            missing_events: recorded.missing_events.iter().map(|name| (*name).to_owned()).collect(),
        },
        tables,
    }
}
