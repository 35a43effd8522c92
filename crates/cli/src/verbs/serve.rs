//! `seeklab serve`: emulates a device in real time.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;
use seeklab_analysis::{Evidence, MissCounts};
use seeklab_core::statistics::Distribution;
use seeklab_core::{ByteSize, Duration, Seed};
use seeklab_emulator::frontend::Stop;
use seeklab_emulator::frontend::fuse::FILE_NAME;
use seeklab_emulator::frontend::loop_device::{Queue, QueueOptions};
use seeklab_emulator::frontend::nbd::Address;
use seeklab_emulator::pacer::MissCause;
use seeklab_files::{check_distinct, check_writable};
use seeklab_lab::devices::{Resolved, resolve};
use seeklab_lab::emulate::{
    Contents, FrontendOptions, HostFigures, HostFollowed, Measurements, Observer, Pace, Recorder, Running,
    StartOptions, StoreChoice, capabilities_of, exported_size, save, start,
};
use seeklab_lab::failure::Failure;
use seeklab_lab::output::{VERSION, print, print_json};
use seeklab_lab::run::metadata;
use seeklab_lab::session::Session;
use serde_json::{Value, json};

use crate::delivery::Delivery;

use super::pace::PaceFlags;
use super::queue::QueueFlags;
use super::setup::SetupFlags;

const EXAMPLES: &str = "\
Examples:
  seeklab serve cheetah-36es
  seeklab serve atlas10k --nbd tcp:127.0.0.1:10809 --store file:disk.img
  seeklab serve cheetah-36es --block                   a block device, to make a file system on
  seeklab serve cheetah-36es --fuse ~/disk              a plain file, without root
  seeklab serve hp-c2247a --nbd unix:/tmp/hp.sock --size 512MiB --record seen.parquet --pacing exact

Connect with any NBD client: nbdinfo URI, qemu-img, fio --ioengine=nbd --uri=URI. Ctrl-C ends it in order.";

/// Serves an emulated device in real time until interrupted.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Catalog name or TOML file
    device: String,
    /// Address for NBD clients: unix:PATH or tcp:ADDR [default: a socket in the temporary folder, unless --block
    /// or --fuse is given]
    #[arg(long, value_name = "ADDRESS")]
    nbd: Option<Address>,
    /// Limit of NBD connections at a time [default: 64]
    #[arg(long, value_name = "N")]
    connections: Option<NonZeroUsize>,
    /// Serve it as a block device of the kernel, /dev/loopN. Needs root and FUSE
    #[arg(long)]
    block: bool,
    /// Serve it as a plain file, `disk`, in this directory, through FUSE. Needs no root
    #[arg(long, value_name = "DIR")]
    fuse: Option<PathBuf>,
    #[command(flatten)]
    queue: QueueFlags,
    /// Bytes to export [default: the whole device]
    #[arg(long, value_name = "SIZE")]
    size: Option<ByteSize>,
    /// Store for the data: ram, or file:PATH (sparse, kept on exit)
    #[arg(long, value_name = "WHERE", default_value = "ram", value_parser = parse_store)]
    store: StoreChoice,
    /// Memory limit of a RAM store [default: half of the available memory]
    #[arg(long, value_name = "SIZE")]
    cap: Option<ByteSize>,
    /// Initial contents of the device, a raw image
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,
    /// Let --image overwrite what the file of the store holds: its name, typed again
    #[arg(long, value_name = "PATH", requires = "image")]
    destroy: Option<PathBuf>,
    /// Save the contents as a raw image on exit
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Refuse writes
    #[arg(long)]
    read_only: bool,
    #[command(flatten)]
    pace: PaceFlags,
    /// Measure the compensation of the block device continuously from the host's own time stamps, as `run` does.
    /// Costs 2 to 3 us of processor time per request
    #[arg(long, requires = "block", conflicts_with_all = ["nbd", "fuse", "uncalibrated"])]
    follow_host: bool,
    /// Write every request to a trace, with the times measured by the emulator
    #[arg(long, value_name = "TRACE")]
    record: Option<PathBuf>,
    #[command(flatten)]
    setup: SetupFlags,
    /// Seed of the model's random draws
    #[arg(long, value_name = "N", default_value = "1")]
    seed: Seed,
    /// Print one JSON document at the end
    #[arg(long)]
    json: bool,
}

fn parse_store(text: &str) -> Result<StoreChoice, String> {
    match text.strip_prefix("file:") {
        Some("") => Err("a path is missing behind `file:`".to_owned()),
        Some(path) => Ok(StoreChoice::File(PathBuf::from(path))),
        None if text == "ram" => Ok(StoreChoice::Ram(None)),
        None => Err("`ram` and `file:PATH` are allowed".to_owned()),
    }
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Result<(), Failure> {
        let read = || [PathBuf::from(&self.device)].into_iter().chain(self.image.clone());
        self.record.as_deref().map_or(Ok(()), |path| check_distinct(path, read()))?;
        self.save.as_deref().map_or(Ok(()), check_writable)?;
        let device = resolve(&self.device, &self.setup.setup())?;
        let size = exported_size(&device, self.size)?;
        let contents = Contents {
            store: self.store_choice()?,
            image: self.image.clone(),
            destroy: self.destroy.clone(),
            read_only: self.read_only,
        };
        let store = contents.open(size)?;
        let mut options = self.options(session, &device)?;
        let mut recorder = self.recorder(&device, &options.pace)?;
        let mut followed = None;
        if self.follow_host {
            let block_bytes = capabilities_of(&device)?.block_size.as_bytes() as u32;
            let (host, feedback) = HostFollowed::prepare(block_bytes, recorder.take());
            options.observe = Some(host.observe());
            options.feedback = Some(feedback);
            followed = Some(host);
        }
        let recorder = recorder.map(Observer::start);
        if let Some(recorder) = &recorder {
            options.observe = Some(recorder.observe());
        }
        let mut running = start(session, &device, store, options, &Stop::new()?)?;
        if let Some(host) = &mut followed
            && let Err(failure) = host.watch(&running)
        {
            let _ = running.end();
            return Err(failure.context("--follow-host"));
        }
        let host_queue = running.block().map(|block| block.queue().clone());
        let text = self.ready(&device, &running);
        if self.json {
            eprint!("{text}")
        } else {
            print(&text)?
        }
        running.until_stopped(session);
        let outcome = running.end()?;
        let (written, lost) = recorder.map_or((Ok(()), 0), Observer::finish);
        let written = written.map_err(Failure::from);
        let (followed, unfollowed) = match followed.map(HostFollowed::finish).transpose() {
            Ok(followed) => (followed, Ok(())),
            Err(failure) => (None, Err(failure)),
        };
        let (host, not_recorded) = followed.map_or((None, lost), |(host, lost)| (Some(host), lost));
        let printed = if self.json {
            print_json(&document(&device, &self, &outcome, host_queue.as_ref(), host, not_recorded))
        } else {
            print(&summary(&device, &outcome, host, not_recorded))
        };
        let saved = self.save.as_deref().map_or(Ok(()), |path| save(&outcome.store, path));
        Delivery::of(printed).and(written).and(unfollowed).and(saved).finish()
    }

    /// Returns the text for the user: the places where the device is served, and commands to try.
    fn ready(&self, device: &Resolved, running: &Running) -> String {
        let (mut places, mut ways) = (Vec::new(), Vec::new());
        if let Some(block) = running.block() {
            let path = block.path().display();
            places.push(path.to_string());
            ways.push(format!("mkfs.ext4 {path}; mount {path} /mnt"));
        }
        if let Some(folder) = &self.fuse {
            let path = folder.join(FILE_NAME).display().to_string();
            ways.push(format!("fio --name=x --filename={path} --direct=1 --rw=randread"));
            places.push(path);
        }
        if let Some(uri) = running.uri() {
            places.push(uri.to_string());
            ways.push(format!("nbdinfo '{uri}'"));
        }
        format!(
            "{} is ready: {}\nend it with Ctrl-C; look at it with: {}\n",
            device.name,
            places.join(", "),
            ways.join(", or ")
        )
    }

    fn recorder(&self, device: &Resolved, pace: &Pace) -> Result<Option<Recorder>, Failure> {
        let Some(path) = &self.record else { return Ok(None) };
        let mut metadata = metadata(device, &capabilities_of(device)?, self.seed);
        pace.describe(&mut metadata);
        let writer = seeklab_columnar::create(path, None, &metadata)?;
        Ok(Some(Recorder::new(writer)))
    }

    fn store_choice(&self) -> Result<StoreChoice, Failure> {
        match (&self.store, self.cap) {
            (StoreChoice::Ram(_), cap) => Ok(StoreChoice::Ram(cap)),
            (StoreChoice::File(_), Some(_)) => {
                Err(Failure::new("--cap: is for a store in RAM").hint("leave it out"))
            }
            (file, None) => Ok(file.clone()),
        }
    }

    fn options(&self, session: &Session, device: &Resolved) -> Result<StartOptions, Failure> {
        let elsewhere = self.block || self.fuse.is_some();
        let nbd = match &self.nbd {
            Some(address) => Some(address.clone()),
            None if elsewhere => None,
            None => Some(own_socket()?),
        };
        let block = self
            .block
            .then(|| -> Result<_, Failure> {
                let rotational = capabilities_of(device)?.rotational;
                Ok(self.queue.options().or(QueueOptions::of_device(rotational)))
            })
            .transpose()?;
        let frontends =
            FrontendOptions { nbd, fuse: self.fuse.clone(), block, connections: self.connections };
        let pace = self.pace.pace(session, frontends.kind())?;
        Ok(StartOptions {
            frontends,
            read_only: self.read_only,
            pace,
            seed: self.seed,
            observe: None,
            feedback: None,
            live: true,
        })
    }
}

pub(super) fn own_socket() -> Result<Address, Failure> {
    let socket = std::env::temp_dir().join(format!("seeklab-{}.sock", std::process::id()));
    format!("unix:{}", socket.display())
        .parse()
        .map_err(|error| Failure::new(format!("{}: {error}", socket.display())))
}

fn us(duration: Option<Duration>) -> f64 {
    duration.unwrap_or_default().as_us()
}

/// Returns the evidence for the accuracy of the run. Without `host`, the errors at the host are unknown.
fn evidence(outcome: &Measurements, host: Option<HostFigures>) -> Evidence {
    let statistics = &outcome.statistics;
    let mean_ms = |times: &Distribution| times.moments().mean().map(|ns| ns / 1e6);
    let possible = statistics.requests - statistics.deadlines.below_floor().min(statistics.requests);
    let misses = MissCause::ALL.map(|cause| statistics.deadlines.missed(cause));
    let host_seen = host.filter(|host| host.requests > 0);
    Evidence {
        requests: statistics.requests,
        model_mean_ms: host_seen
            .map_or_else(|| mean_ms(&statistics.modelled).unwrap_or_default(), |host| host.model_mean_ms),
        host_error_ms: host_seen.map(|host| host.ei_avg_ms),
        unmatched: host.map(|host| host.unmatched),
        reply_error_ms: mean_ms(statistics.deadlines.lateness()),
        limit: outcome.deadline_limit,
        beyond_limit_pct: (possible > 0)
            .then(|| 100.0 * statistics.deadlines.missed_above_floor() as f64 / possible as f64),
        misses: MissCounts::new(misses),
        below_floor: outcome.floor.map(|_| statistics.deadlines.below_floor()),
    }
}

fn summary(
    device: &Resolved,
    outcome: &Measurements,
    host: Option<HostFigures>,
    not_recorded: u64,
) -> String {
    let statistics = &outcome.statistics;
    if statistics.requests == 0 {
        return format!("no request in {:.1} s\n", outcome.elapsed.as_s());
    }
    let (response, lateness) = (&statistics.response, statistics.deadlines.lateness());
    let mut text = format!(
        "\n{} requests in {:.1} s, {} refused by the store\n",
        statistics.requests,
        outcome.elapsed.as_s(),
        statistics.refused
    );
    text += &format!(
        "response  mean {:.3} ms, p50 {:.3}, p99 {:.3}, max {:.3}\n",
        response.moments().mean().unwrap_or(0.0) / 1e6,
        us(response.quantile(0.5)) / 1e3,
        us(response.quantile(0.99)) / 1e3,
        response.moments().max().unwrap_or(0.0) / 1e6,
    );
    text += &format!(
        "lateness  p50 {:.1} us, p90 {:.1}, p99 {:.1}, max {:.1}\n",
        us(lateness.quantile(0.5)),
        us(lateness.quantile(0.9)),
        us(lateness.quantile(0.99)),
        lateness.moments().max().unwrap_or(0.0) / 1e3,
    );
    if let Some(host) = host {
        text += &format!(
            "host      mean {:.3} ms, {:+.1} us beside the model, {} of {} requests seen there\n",
            host.mean_ms,
            host.ei_avg_ms * 1e3,
            host.requests,
            statistics.requests,
        );
    }
    text += &format!("trust     {}\n", evidence(outcome, host).trust().sentence);
    if let Some(note) = device.unlike_its_fit(statistics.coverage) {
        text += &format!("warning: {note}\n");
    }
    if not_recorded > 0 {
        text += &format!("warning: {not_recorded} requests are missing in the trace\n");
    }
    text
}

fn document(
    device: &Resolved,
    arguments: &Arguments,
    outcome: &Measurements,
    host_queue: Option<&Queue>,
    host: Option<HostFigures>,
    not_recorded: u64,
) -> Value {
    let statistics = &outcome.statistics;
    let (response, lateness) = (&statistics.response, statistics.deadlines.lateness());
    let misses: serde_json::Map<String, Value> = MissCause::ALL
        .iter()
        .map(|cause| (cause.name().to_owned(), statistics.deadlines.missed(*cause).into()))
        .collect();
    json!({
        "device": device.name,
        "seed": arguments.seed.0,
        "version": VERSION,
        "elapsed_s": outcome.elapsed.as_s(),
        "requests": statistics.requests,
        "refused": statistics.refused,
        "failed_requests": statistics.failed_requests,
        "undelivered_replies": statistics.undelivered_replies,
        "response_mean_ms": response.moments().mean().map(|ns| ns / 1e6),
        "response_p50_ms": response.quantile(0.5).map(Duration::as_ms),
        "response_p99_ms": response.quantile(0.99).map(Duration::as_ms),
        "lateness_p50_us": lateness.quantile(0.5).map(Duration::as_us),
        "lateness_p90_us": lateness.quantile(0.9).map(Duration::as_us),
        "lateness_p99_us": lateness.quantile(0.99).map(Duration::as_us),
        "deadline_misses": misses,
        "out_of_validated_range":
            device.out_of_validated_range(statistics.coverage, statistics.requests, statistics.transfers),
        "not_recorded": not_recorded,
        "emulator_cpu_s": outcome.cpu.as_s(),
        "processors": outcome.processors.name(),
        "host_queue": host_queue,
        "host": host,
        "trust": evidence(outcome, host).trust().level,
        "trust_sentence": evidence(outcome, host).trust().sentence,
    })
}
