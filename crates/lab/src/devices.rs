//! Devices as people name them: a catalog name or a TOML file, with overrides.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use seeklab_core::{ByteSize, Coverage, DescriptionError, Device, Seed, description};
use seeklab_devices::fault::FaultParameters;
use seeklab_devices::layer::Bank;
use seeklab_devices::layer::queue_before;
use seeklab_devices::scheduler::SchedulerSpec;
use seeklab_devices::{Description, catalog};
use seeklab_report::Parameter;
use seeklab_traces::FaultNames;

use crate::failure::Failure;
use crate::fit::clone_verdict;
use crate::fitted_range::outside_sentence;

/// Bytes that a description may have.
const DESCRIPTION_BYTES_MAX: u64 = 16 << 20;

/// Setup of a device: its host queue, mechanics only, overrides.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    /// The mechanics alone.
    pub bare: bool,
    /// `key=value` overrides, after `bare`.
    pub overrides: Vec<String>,
    /// Faults of the device, after the overrides.
    pub faults: Faults,
    /// The host's queue: its scheduler and how many requests the device holds at a time.
    pub queue: Option<(SchedulerSpec, usize)>,
}

/// Faults of a device, from a file and from lines.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    /// TOML file with tables `[[fault]]`.
    pub file: Option<PathBuf>,
    /// Faults behind those of the file, on one line each, such as `delay,add=20ms,probability=1%`, or presets, such as
    /// `tail-disk,at=30s`.
    pub lines: Vec<String>,
}

/// Faults that were read, and the origin of each.
#[derive(Debug, Default)]
struct ReadFaults {
    faults: FaultParameters,
    origins: Vec<Origin>,
}

/// Place where a fault is written.
#[derive(Debug, Clone)]
struct Origin {
    /// The file, or the option.
    label: String,
    /// Text of a file whose faults are those of the device, one by one.
    text: Option<Arc<str>>,
}

impl ReadFaults {
    fn extend(&mut self, faults: FaultParameters, origin: &Origin) {
        self.origins.extend(faults.fault.iter().map(|_| origin.clone()));
        self.faults.fault.extend(faults.fault);
    }

    /// Names the place of a mistake in one of the faults.
    fn place(&self, error: DescriptionError) -> DescriptionError {
        let number = error.path().strip_prefix("fault[").and_then(|rest| rest.split(']').next());
        let origin = number.and_then(|number| self.origins.get(number.parse::<usize>().ok()?));
        match origin {
            Some(Origin { label, text: Some(text) }) => error.located(text).within(label),
            Some(Origin { label, text: None }) => error.within(label),
            None => error.within("--fault"),
        }
    }
}

impl Faults {
    /// True if there are some.
    pub const fn is_some(&self) -> bool {
        self.file.is_some() || !self.lines.is_empty()
    }

    /// All faults, in order.
    fn read(&self) -> Result<ReadFaults, Failure> {
        let mut read = ReadFaults::default();
        if let Some(path) = &self.file {
            let label = path.display().to_string();
            let text = text_of(&label)?;
            let faults = description::parse(&text).and_then(|table| {
                let faults = FaultParameters::from_table(&table)?;
                let tables = table.get("fault").and_then(|fault| fault.as_array()).map_or(0, Vec::len);
                Ok((faults, tables))
            });
            let (faults, tables) = faults.map_err(|error| error.located(&text).within(&label))?;
            // A preset is more faults than one, or in another place.
            let text = (tables == faults.fault.len() && !text.contains("preset")).then(|| text.into());
            read.extend(faults, &Origin { label, text });
        }
        for line in &self.lines {
            let label = format!("--fault {line}");
            let faults = FaultParameters::from_line(line).map_err(|error| error.within(&label))?;
            read.extend(faults, &Origin { label, text: None });
        }
        Ok(read)
    }
}

/// The text of a description in a file.
fn text_of(name: &str) -> Result<String, Failure> {
    let path = Path::new(name);
    let unreadable = |error: std::io::Error| Failure::from(error).context(format!("{name}: cannot be read"));
    let size = fs::metadata(path).map_err(unreadable)?.len();
    if size > DESCRIPTION_BYTES_MAX {
        return Err(Failure::new(format!(
            "{name}: has {size} bytes, a description has at most {DESCRIPTION_BYTES_MAX}"
        )));
    }
    fs::read_to_string(path).map_err(unreadable)
}

/// A device that is described, resolved and ready to be built.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// Name as given by the user.
    pub name: String,
    /// True if only the mechanics are simulated.
    pub bare: bool,
    /// Its description, overrides applied.
    pub description: Description,
    queue: Option<(SchedulerSpec, usize)>,
    /// Faults that were given apart from the description, which has them too.
    faults: Arc<ReadFaults>,
}

/// The device that `name` means: a file if it ends in `.toml`, else one of the catalog.
///
/// # Errors
/// A file that cannot be read, a description that is wrong, a name that is not there.
pub fn describe(name: &str) -> Result<Description, Failure> {
    if !name.ends_with(".toml") {
        return Ok(catalog::find(name)?);
    }
    let path = Path::new(name);
    let text = text_of(name)?;
    let stem = path.file_stem().map_or_else(|| name.to_owned(), |stem| stem.to_string_lossy().into_owned());
    Ok(Description::parse(&stem, name, &text)?)
}

/// Returns the device that `name` stands for, with the given setup.
///
/// # Errors
/// As [`describe`], and overrides that do not fit.
pub fn resolve(name: &str, setup: &Setup) -> Result<Resolved, Failure> {
    customise(name, describe(name)?, setup)
}

/// Applies the given setup to a description.
///
/// # Errors
/// Overrides or a queue that do not fit the device.
pub fn customise(name: &str, description: Description, setup: &Setup) -> Result<Resolved, Failure> {
    let mut description = if setup.bare { description.bare()? } else { description };
    for text in &setup.overrides {
        let (key, value) = text.split_once('=').ok_or_else(|| {
            Failure::new(format!("--set `{text}`: has no `=`"))
                .hint("write KEY=VALUE, for example rpm=15000rpm")
        })?;
        description.set(key.trim(), value.trim().trim_matches('"'))?;
    }
    let read = setup.faults.read()?;
    if !read.faults.fault.is_empty() {
        description = description.beneath("fault", &read.faults).map_err(|error| read.place(error))?;
    }
    let resolved = Resolved {
        name: name.to_owned(),
        bare: setup.bare,
        description,
        queue: setup.queue,
        faults: Arc::new(read),
    };
    resolved.build(Seed(0), "check")?;
    Ok(resolved)
}

impl Resolved {
    /// Checks that nothing in the description lies beyond `size`, the part of the device that is served.
    ///
    /// # Errors
    /// Faults that no request to that part can meet, or blocks beyond it.
    pub fn check_served(&self, size: ByteSize) -> Result<(), Failure> {
        self.faults.faults.check_served(size).map_err(|error| self.faults.place(error))?;
        Ok(self.description.check_served(size)?)
    }

    /// One instance of the device with the host's queue before it.
    ///
    /// A device without a queue of the host's gets one that is first come, first served and as deep as
    /// the device, so that it takes any number of requests.
    ///
    /// # Errors
    /// Parameters that no device can have, or a queue that does not fit.
    pub fn build(&self, seed: Seed, name: &str) -> Result<Box<dyn Device>, Failure> {
        let device = self.description.build(seed, name)?;
        let queue_depth = device.capabilities().queue_depth;
        let (scheduler, depth) = match self.queue {
            Some(queue) => queue,
            None if queue_depth == u32::MAX => return Ok(device),
            None => (SchedulerSpec::FCFS, queue_depth as usize),
        };
        let queue = queue_before(device, &scheduler, depth).map_err(|error| {
            let flag = if error.path() == "depth" { "--depth" } else { "--scheduler" };
            let deepens = if flag == "--depth" { self.deeper_queue(depth) } else { None };
            let deepens =
                deepens.map_or_else(String::new, |set| format!("; `{set}` deepens the drive's own queue"));
            let failure = Failure::new(format!("{}: {flag}: {}", self.name, error.problem()));
            let advice = error.advice().map(|allowed| format!("{allowed}{deepens}"));
            advice.into_iter().fold(failure, Failure::hint)
        })?;
        Ok(Box::new(queue))
    }

    /// Returns the option that gives the device a queue of `depth` of its own. `None` if it cannot have one.
    fn deeper_queue(&self, depth: usize) -> Option<String> {
        const KEY: &str = "queue.depth";
        let mut description = self.description.clone();
        description.set(KEY, &depth.to_string()).ok()?;
        description.build(Seed(0), "check").ok()?;
        Some(format!("--set {KEY}={depth}"))
    }

    /// The host's queue: its scheduler and how many requests the device holds at a time.
    pub const fn queue(&self) -> Option<(SchedulerSpec, usize)> {
        self.queue
    }

    /// The device with that number: itself, or the one of a description that has several with numbers.
    ///
    /// # Errors
    /// A description that has no device of that number.
    pub fn numbered(&self, number: u16) -> Result<Self, Failure> {
        let Some(numbers) = self.description.device_numbers()? else { return Ok(self.clone()) };
        let place = numbers.iter().position(|found| *found == number);
        let place = place.ok_or_else(|| Failure::new(format!("{}: has no device {number}", self.label())))?;
        Ok(Self { description: self.description.children()[place].clone(), ..self.clone() })
    }

    /// One instance for each device number that occurs, made when it first does; or the devices of a description that has
    /// several with numbers.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn build_bank(&self, seed: Seed) -> Result<Bank, Failure> {
        if let Some(numbers) = self.description.device_numbers()? {
            let numbered = numbers.into_iter().zip(self.description.children());
            let built = numbered.map(|(number, description)| {
                let one = Self { description: description.clone(), ..self.clone() };
                Ok((number, one.build(seed, &format!("disk{number}"))?))
            });
            return Ok(Bank::numbered(built.collect::<Result<_, Failure>>()?));
        }
        let first = self.build(seed, "disk0")?;
        let this = self.clone();
        Ok(Bank::growing(first, move |number| {
            this.build(seed, &format!("disk{number}")).expect("the first of its kind was built")
        }))
    }

    /// Returns the names of the faults that may strike its requests; none of a device that cannot be built.
    pub fn fault_names(&self, seed: Seed) -> FaultNames {
        let names = self.build(seed, "disk0").map(|device| device.faults()).unwrap_or_default();
        FaultNames::new(names.iter().map(|name| &**name))
    }

    /// Returns its title and what it was validated against, for reports.
    pub fn about(&self) -> String {
        format!("{}; validated: {}", self.description.header.title, self.description.validated())
    }

    /// Returns true if the model was compared with measured response times of the drive, for reads and writes.
    pub fn is_measured(&self) -> bool {
        self.description.validated().starts_with("measured")
    }

    /// Returns the number of requests outside the validated range, of a kind with which the model was neither
    /// fitted nor compared. A fitted model counts them itself. For a measured drive they are all requests except
    /// the `transfers` (reads and writes), otherwise all `requests`.
    pub fn out_of_validated_range(&self, coverage: Option<Coverage>, requests: u64, transfers: u64) -> u64 {
        match coverage {
            Some(coverage) => coverage.outside,
            None if self.is_measured() => requests - transfers.min(requests),
            None => requests,
        }
    }

    /// Returns a note for the reader if so many requests are outside the range that the model was fitted to that it cannot
    /// be trusted without care.
    pub fn outside_note(&self, coverage: Option<Coverage>) -> Option<String> {
        let sentence = outside_sentence(&coverage?)?;
        Some(format!("{}: {sentence} Such requests get the times of the nearest fitted ones.", self.label()))
    }

    /// Returns the verdicts of the fit on a clone as its file states them, one for each device of a bank. Other devices state what they
    /// were validated against.
    pub fn clone_verdicts(&self) -> Vec<String> {
        let description = &self.description;
        let stated = |name: &str, description: &Description| {
            let verdict = clone_verdict(description.validated());
            (!verdict.is_empty()).then(|| format!("{name}: {verdict}"))
        };
        if description.kind().name != "bank" {
            return stated(&self.label(), description).into_iter().collect();
        }
        let name = |child: &Description| format!("{}, device {}", self.label(), child.name);
        description.children().iter().filter_map(|child| stated(&name(child), child)).collect()
    }

    /// Returns the name of the device in a report.
    pub fn label(&self) -> String {
        if self.bare { format!("{} (bare)", self.name) } else { self.name.clone() }
    }

    /// Every parameter with its source, for the report.
    pub fn parameters(&self) -> Vec<Parameter> {
        let mut parameters: Vec<Parameter> = self
            .description
            .parameters()
            .into_iter()
            .map(|(name, value, source)| Parameter {
                name,
                value,
                source: (!source.is_empty()).then_some(source),
            })
            .collect();
        if let Some((scheduler, depth)) = &self.queue {
            let value = format!("{scheduler}, {depth} at the device");
            parameters.push(Parameter { name: "host queue".to_owned(), value, source: None });
        }
        parameters
    }
}
