//! `seeklab serve`: emulates a device in real time.

use std::path::PathBuf;

use clap::Args;
use clap_complete::ArgValueCompleter;
use seeklab_lab::crates::core::number_words::{counted, numbered};
use seeklab_lab::crates::core::{ByteSize, Seed};
use seeklab_lab::crates::files::{check_apart, check_writable};
use seeklab_lab::crates::report::folded;
use seeklab_lab::crates::traces::capture::criticality::ClassRule;
use seeklab_lab::devices::resolve;
use seeklab_lab::emulate::{
    Contents, EmulationOptions, EmulationResult, Endpoints, FrontendOptions, StoreChoice, serve,
};
use seeklab_lab::failure::Failure;
use seeklab_lab::session::Session;

use crate::completion;
use crate::delivery::Delivery;
use crate::output::{print, print_json};
use crate::terminal::tell;

use super::criticality::rule;
use super::frontends::FrontendFlags;
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
    #[arg(add = ArgValueCompleter::new(completion::device))]
    device: String,
    #[command(flatten)]
    frontends: FrontendFlags,
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
    /// Save the contents as they were without faults of data: lost, torn and misdirected writes are whole, and no bit has
    /// changed
    #[arg(long, requires = "save")]
    pristine: bool,
    /// Refuse writes
    #[arg(long)]
    read_only: bool,
    #[command(flatten)]
    pace: PaceFlags,
    /// Measure the compensation of the block device continuously from the host's own time stamps, as `run` does.
    /// Costs 2 to 3 us of processor time per request
    #[arg(long, requires = "block", conflicts_with_all = FrontendFlags::names().chain(["uncalibrated"]))]
    follow_host: bool,
    /// Class requests of the block device, and reclass pending ones, by the flags that the kernel gives them or by the
    /// threads that sleep on them. A scheduler such as criticality-c-look prefers those that a process waits for
    #[arg(long, value_name = "RULE", requires = "block", conflicts_with_all = FrontendFlags::names(), value_parser = rule())]
    criticality: Option<ClassRule>,
    /// Write every request to a trace, with the times measured by the emulator
    #[arg(long, value_name = "TRACE")]
    record: Option<PathBuf>,
    /// Write the events inside the device, such as written blocks that became durable and faults that struck, to a CSV
    /// file
    #[arg(long, value_name = "FILE.csv")]
    events: Option<PathBuf>,
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
        self.save.as_deref().map_or(Ok(()), check_writable)?;
        check_apart([&self.save, &self.record, &self.events].into_iter().flatten())?;
        let options = self.options()?;
        let name = options.device.name.clone();
        let result = serve(session, &options, |endpoints| {
            let text = ready(&name, endpoints);
            if self.json {
                tell(&text)
            } else {
                print(&text)?
            }
            Ok(())
        })?;
        let printed = if self.json { print_json(&result) } else { print(&summary(&result)) };
        let saved = self.save.as_deref().map_or(Ok(()), |path| result.save(path));
        Delivery::of(session, printed).and(result.failure.map_or(Ok(()), Err)).and(saved).finish()
    }

    fn options(&self) -> Result<EmulationOptions, Failure> {
        if !self.frontends.has_block() {
            self.queue.check_without_block("the device is not served as a block device; add --block")?;
        }
        Ok(EmulationOptions {
            device: resolve(&self.device, &self.setup.setup())?,
            frontends: FrontendOptions {
                criticality: self.criticality,
                ..self.frontends.options(self.queue.options())
            },
            size: self.size,
            contents: Contents {
                store: self.store_choice()?,
                image: self.image.clone(),
                destroy: self.destroy.clone(),
                read_only: self.read_only,
            },
            pace: self.pace.options(),
            follow_host: self.follow_host,
            record: self.record.clone(),
            events: self.events.clone(),
            pristine: self.pristine,
            seed: self.seed,
        })
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
}

/// Returns the text for the user: the places where the device is served, and commands to try.
fn ready(name: &str, endpoints: &Endpoints) -> String {
    let commands: Vec<&str> = endpoints.iter().map(|endpoint| endpoint.trial.as_str()).collect();
    format!("{name} is ready: {endpoints}\nend it with Ctrl-C; try it with: {}\n", commands.join(", or "))
}

fn summary(result: &EmulationResult) -> String {
    if result.requests == 0 {
        return format!("no request in {:.1} s\n", result.elapsed_s);
    }
    let figure = Option::unwrap_or_default;
    let failed = match result.failed_requests {
        0 => String::new(),
        failed => format!(", {failed} failed"),
    };
    let mut text = format!(
        "\n{} in {:.1} s{failed}, {} refused by the store\n",
        counted(result.requests, "request"),
        result.elapsed_s,
        result.refused_requests
    );
    if let Some(mean) = result.response_mean_ms {
        text += &format!(
            "response  mean {mean:.3} ms, p50 {:.3}, p99 {:.3}, max {:.3}\n",
            figure(result.response_p50_ms),
            figure(result.response_p99_ms),
            figure(result.response_max_ms),
        );
    }
    text += &format!(
        "lateness  p50 {:.1} us, p90 {:.1}, p99 {:.1}, max {:.1}\n",
        figure(result.lateness_p50_us),
        figure(result.lateness_p90_us),
        figure(result.lateness_p99_us),
        figure(result.lateness_max_us),
    );
    if let Some(host) = &result.host {
        let line = format!(
            "host      mean {:.3} ms, {:+.1} us compared with the model, {} of {} measured there",
            host.mean_ms,
            host.ei_avg_ms * 1e3,
            host.requests,
            counted(result.requests, "request"),
        );
        text += &format!("{}\n", folded(&line, 10));
    }
    if let Some(criticality) = &result.criticality {
        text += &format!("{}\n", folded(&format!("classes   {}", criticality.sentence()), 10));
    }
    text += &format!("{}\n", folded(&format!("trust     {}", result.trust.sentence), 10));
    for note in &result.notes {
        text += &format!("{}\n", folded(&format!("warning: {note}"), 2));
    }
    if result.unrecorded_requests > 0 {
        text += &format!(
            "warning: {} missing in the trace\n",
            numbered(result.unrecorded_requests, "request[|s] [is|are]")
        );
    }
    text
}
