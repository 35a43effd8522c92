//! The options of a fio job.

use std::path::PathBuf;

use seeklab_bench::target::Polling;
use seeklab_bench::{IoPriority, WriteData};
use seeklab_core::names::near_matches;
use seeklab_core::{Duration, Operation};

use super::contents::{Contents, level, pattern, priority};
use super::distribution::FioDistribution;
use super::file::{FioOption, Section, number, switch, time, with_variables};
use super::load::{FioArrivals, FioLoad, FioSize};
use super::logs::LogOptions;
use super::names::{HONOURED, WITHOUT_EFFECT};
use super::rate::Rates;
use super::reasons;
use super::verify::VerifyOptions;
use super::zones::ZoneOptions;

/// Largest size and offset, so that sums of them are numbers, too.
const BYTES_MAX: u64 = 1 << 54;
/// Largest request.
const REQUEST_BYTES_MAX: u64 = 1 << 30;
/// Longest time: a hundred years, so that sums of times are times, too.
const TIME_MAX: Duration = Duration::from_s(36_500 * 86_400);
/// Requests under way at a time at most.
const DEPTH_MAX: u64 = 1 << 14;
/// Sizes of requests that a job draws from at most.
const SIZES_MAX: u64 = 1 << 16;

/// An option that cannot be honoured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) line: usize,
    /// Option and reason.
    pub(super) text: String,
    /// The job makes no sense without it.
    pub(super) is_final: bool,
}

/// A job.
#[derive(Debug, Clone)]
pub(super) struct Job {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) load: FioLoad,
    /// It begins when those above it have ended.
    pub(super) begins_group: bool,
    pub(super) clones: u64,
    /// Bytes from the offset of a clone to that of the next.
    pub(super) offset_increment: u64,
    pub(super) ramp: Duration,
    /// Address of a target that is no file.
    pub(super) address: Option<String>,
    pub(super) file: Option<String>,
    pub(super) directory: Option<PathBuf>,
    pub(super) file_bytes: Option<u64>,
    /// `size` and `offset` as shares of the file.
    pub(super) size_share: Option<f64>,
    pub(super) offset_share: Option<f64>,
    pub(super) is_direct: bool,
    /// The pages of the file are dropped from the page cache at the begin (`invalidate`).
    pub(super) drops_pages: bool,
    /// Completions to wait for at a time.
    pub(super) batch: u32,
    /// The engine sends one request at a time.
    pub(super) is_one_at_a_time: bool,
    /// Requests under way at a time of a job with a rate.
    pub(super) outstanding_max: Option<u32>,
    pub(super) data: WriteData,
    pub(super) priority: Option<IoPriority>,
    /// Polling by io_uring (`sqthread_poll`, `hipri`).
    pub(super) polling: Polling,
    /// Logs that the job writes.
    pub(super) logs: LogOptions,
    /// Check of the data.
    pub(super) verify: VerifyOptions,
}

/// An option with the reason for which it is refused.
type Taken = Result<(), String>;

/// A reason for which options do not go together.
pub(super) struct Reason {
    /// Option without which the job can be read.
    pub(super) option: Option<&'static str>,
    pub(super) text: String,
}

impl Reason {
    const fn of_job(text: String) -> Self {
        Self { option: None, text }
    }
}

/// Options whose meaning depends on others.
struct Reading {
    job: Job,
    rw: String,
    run_or_skip: Option<String>,
    depth: u32,
    /// Sizes of reads, writes and trims.
    sizes: [Vec<FioSize>; 3],
    engine: String,
    uri: Option<String>,
    think: Duration,
    /// Requests from one think time to the next.
    think_every: u64,
    rates: Rates,
    /// Threads of their own submit the requests (`io_submit_mode=offload`).
    is_offloaded: bool,
    batch: u64,
    kb_base: u64,
    has_mix: bool,
    contents: Contents,
    prio: Option<u8>,
    prio_class: Option<u8>,
    /// Bytes to which random offsets are aligned, of reads, writes and trims.
    aligned: [Option<u64>; 3],
    zones: ZoneOptions,
}

/// An option as it stands in the file.
fn written(option: &FioOption) -> String {
    match option.value.as_str() {
        "" => option.name.clone(),
        value => format!("{}={value}", option.name),
    }
}

impl Job {
    /// Reads a section. Every option that cannot be honoured is in the second part.
    pub(super) fn read(section: &Section) -> (Self, Vec<Refusal>) {
        let mut reading = Reading::new(section);
        // It changes what the others mean, wherever it stands.
        if let Some(base) = section.options.iter().rev().find(|option| option.name == "kb_base") {
            let value = with_variables(&base.value);
            reading.kb_base = if value.as_deref() == Ok("1000") { 1000 } else { 1024 };
        }
        let mut refusals = Vec::new();
        for option in &section.options {
            if let Err(reason) = reading.take(option) {
                // A later option of the same name replaces it.
                let is_replaced =
                    section.options.iter().any(|other| other.name == option.name && other.line > option.line);
                if !is_replaced || option.name != "ioengine" {
                    let is_final =
                        matches!(option.name.as_str(), "ioengine" | "rw" | "readwrite" | "filename");
                    let text = format!("{}: {reason}", written(option));
                    refusals.push(Refusal { line: option.line, text, is_final });
                }
            }
        }
        let (job, reasons) = reading.finish();
        refusals.extend(reasons.into_iter().map(|Reason { option, text }| {
            let named = section.options.iter().rev().find(|known| Some(known.name.as_str()) == option);
            match named {
                Some(option) => Refusal {
                    line: option.line,
                    text: format!("{}: {text}", written(option)),
                    is_final: false,
                },
                None => Refusal {
                    line: section.line,
                    text: format!("job `{}`: {text}", section.name),
                    is_final: true,
                },
            }
        }));
        (job, refusals)
    }
}

impl Reading {
    fn new(section: &Section) -> Self {
        let one = |bytes| vec![FioSize { bytes, share: 1.0 }];
        let load = FioLoad {
            name: section.name.clone(),
            other: None,
            read: 1.0,
            is_random: false,
            distribution: None,
            run: 1,
            skip: 0,
            sizes: [one(4096), one(4096)],
            aligned_bytes: None,
            zones: None,
            offset: 0,
            size: None,
            io_bytes: None,
            requests: None,
            loops: 1,
            file_bytes: None,
            ends_pass_by_bytes: false,
            repeats_draws: true,
            is_repeating: false,
            flush_every: None,
            flush_at_end: false,
            fua: false,
            arrivals: FioArrivals::Closed { depth: 1, think: Duration::ZERO, think_every: 1 },
            start: Duration::ZERO,
            runtime: None,
            is_time_based: false,
        };
        let job = Job {
            name: section.name.clone(),
            line: section.line,
            load,
            begins_group: false,
            clones: 1,
            offset_increment: 0,
            ramp: Duration::ZERO,
            address: None,
            file: None,
            directory: None,
            file_bytes: None,
            size_share: None,
            offset_share: None,
            is_direct: false,
            drops_pages: true,
            batch: 1,
            is_one_at_a_time: true,
            outstanding_max: None,
            data: WriteData::default(),
            priority: None,
            polling: Polling::default(),
            logs: LogOptions::default(),
            verify: VerifyOptions::default(),
        };
        Self {
            job,
            rw: "read".to_owned(),
            run_or_skip: None,
            depth: 1,
            sizes: [one(4096), one(4096), one(4096)],
            engine: "psync".to_owned(),
            uri: None,
            think: Duration::ZERO,
            think_every: 1,
            rates: Rates::default(),
            is_offloaded: false,
            batch: 1,
            kb_base: 1024,
            has_mix: false,
            contents: Contents::default(),
            prio: None,
            prio_class: None,
            aligned: [None; 3],
            zones: ZoneOptions::default(),
        }
    }

    fn take(&mut self, option: &FioOption) -> Taken {
        let value = with_variables(&option.value)?;
        let value = value.as_ref();
        let base = self.kb_base;
        let bytes = || size(value, base).map_err(str::to_owned);
        let count = || number(value, base).ok_or_else(|| "is no number".to_owned());
        let is_on = || switch(value).ok_or_else(|| "0 and 1 are allowed".to_owned());
        let seconds = || {
            let time = time(value, Duration::from_s(1)).ok_or_else(|| "is no time".to_owned())?;
            if time <= TIME_MAX { Ok(time) } else { Err("at most 36500d are allowed".to_owned()) }
        };
        let percent = || {
            let share: f64 =
                value.trim_end_matches('%').parse().map_err(|_| "is no percentage".to_owned())?;
            if (0.0..=100.0).contains(&share) {
                Ok(share / 100.0)
            } else {
                Err("0 to 100 are allowed".to_owned())
            }
        };
        match option.name.as_str() {
            "rw" | "readwrite" => {
                let (rw, more) = match value.split_once(':') {
                    Some((rw, more)) => (rw, Some(more.to_owned())),
                    None => (value, None),
                };
                let known = [
                    "read",
                    "write",
                    "randread",
                    "randwrite",
                    "rw",
                    "readwrite",
                    "randrw",
                    "trim",
                    "randtrim",
                ];
                if !known.contains(&rw) {
                    return Err(format!("{} are allowed", known.join(", ")));
                }
                (self.rw, self.run_or_skip) = (rw.to_owned(), more);
            }
            "bs" | "blocksize" => {
                self.sizes = directions(value, sizes_of_fio(), |one| {
                    let bytes = request_size(one, base)?;
                    Ok(vec![FioSize { bytes, share: 1.0 }])
                })?;
            }
            "bssplit" => {
                self.sizes = directions(value, sizes_of_fio(), |one| split(one, base))?;
            }
            "bsrange" | "blocksize_range" => {
                self.sizes = directions(value, sizes_of_fio(), |one| range(one, base))?;
            }
            "size" if value.ends_with('%') => {
                (self.job.size_share, self.job.load.size) = (Some(percent()?), None);
            }
            "size" => (self.job.size_share, self.job.load.size) = (None, Some(bytes()?)),
            "filesize" if value.contains('-') => return Err("sizes of several files".to_owned()),
            "filesize" => self.job.file_bytes = Some(bytes()?),
            "io_size" | "io_limit" => self.job.load.io_bytes = Some(bytes()?).filter(|bytes| *bytes > 0),
            "offset" if value.ends_with('%') => {
                (self.job.offset_share, self.job.load.offset) = (Some(percent()?), 0);
            }
            "offset" => (self.job.offset_share, self.job.load.offset) = (None, bytes()?),
            "offset_increment" => self.job.offset_increment = bytes()?,
            "number_ios" => self.job.load.requests = Some(count()?).filter(|requests| *requests > 0),
            "numjobs" => {
                self.job.clones = count()?;
                if !(1..=256).contains(&self.job.clones) {
                    self.job.clones = 1;
                    return Err("1 to 256 are allowed".to_owned());
                }
            }
            "iodepth" => {
                let depth = count()?.max(1);
                self.depth = depth.min(DEPTH_MAX) as u32;
                if depth > DEPTH_MAX {
                    return Err(format!("at most {DEPTH_MAX} are allowed"));
                }
            }
            // Arrivals with a rate never wait here, and others wait for completions whoever submits them.
            "io_submit_mode" => match value {
                "inline" => self.is_offloaded = false,
                "offload" => self.is_offloaded = true,
                _ => return Err("inline and offload are allowed".to_owned()),
            },
            "sqthread_poll" => self.job.polling.submission = is_on()?,
            "hipri" => self.job.polling.completion = is_on()?,
            "iodepth_batch" | "iodepth_batch_submit" if count()? == 1 => {}
            "iodepth_batch" | "iodepth_batch_submit" => {
                return Err("1 is allowed: requests are handed over as soon as they arrive".to_owned());
            }
            "iodepth_batch_complete" | "iodepth_batch_complete_min" => {
                self.batch = count()?;
                if self.batch == 0 {
                    self.batch = 1;
                    return Err("1 and more are allowed; fio does not wait with 0".to_owned());
                }
            }
            "rwmixread" | "rwmixwrite" => {
                let share = percent()?;
                self.job.load.read = if option.name == "rwmixread" { share } else { 1.0 - share };
                self.has_mix = true;
            }
            "runtime" | "timeout" => self.job.load.runtime = Some(seconds()?).filter(|time| !time.is_zero()),
            "time_based" => self.job.load.is_time_based = is_on()?,
            "ramp_time" => self.job.ramp = seconds()?,
            "startdelay" if value.contains('-') => return Err("a range of times".to_owned()),
            "startdelay" => self.job.load.start = seconds()?,
            "stonewall" | "wait_for_previous" => self.job.begins_group = is_on()?,
            "loops" => self.job.load.loops = count()?.max(1),
            "direct" => self.job.is_direct = is_on()?,
            "buffered" => self.job.is_direct = !is_on()?,
            "invalidate" => self.job.drops_pages = is_on()?,
            "ioengine" => {
                self.engine.clear();
                self.engine.push_str(value);
                return engine(value);
            }
            "uri" => self.uri = Some(value.to_owned()),
            "filename" => {
                if value.contains(':') && !value.contains("\\:") {
                    return Err("several files; one file per job is allowed".to_owned());
                }
                self.job.file = Some(value.replace("\\:", ":"));
            }
            "directory" => self.job.directory = Some(PathBuf::from(value)),
            "nrfiles" | "nr_files" if count()? == 1 => {}
            "nrfiles" | "nr_files" => return Err("one file per job is allowed".to_owned()),
            "randrepeat" | "allrandrepeat" => self.job.load.repeats_draws = is_on()?,
            "norandommap" => self.job.load.is_repeating = is_on()?,
            "random_distribution" => self.job.load.distribution = FioDistribution::read(value, base)?,
            "rate_iops" => {
                self.rates.iops = directions(value, 0.0, |one| {
                    number(one, base).map(|rate| rate as f64).ok_or("is no number")
                })?;
            }
            "rate" => {
                self.rates.bytes = directions(value, 0.0, |one| size(one, base).map(|rate| rate as f64))?
            }
            "rate_process" => {
                self.rates.is_poisson = match value {
                    "linear" => false,
                    "poisson" => true,
                    _ => return Err("linear and poisson are allowed".to_owned()),
                }
            }
            "thinktime" => {
                self.think = time(value, Duration::from_us(1))
                    .filter(|think| *think <= TIME_MAX)
                    .ok_or_else(|| "is no time".to_owned())?;
            }
            "thinktime_blocks" => {
                self.think_every = count()?;
                if self.think_every == 0 {
                    self.think_every = 1;
                    return Err("1 and more are allowed".to_owned());
                }
            }
            "thinktime_spin" => {}
            "fsync" | "fdatasync" => self.job.load.flush_every = Some(count()?).filter(|writes| *writes > 0),
            "end_fsync" => self.job.load.flush_at_end = is_on()?,
            "sync" => {
                self.job.load.fua = match value {
                    "0" | "none" => false,
                    "" | "1" | "sync" | "dsync" => true,
                    _ => return Err("none, sync and dsync are allowed".to_owned()),
                }
            }
            "zero_buffers" => self.contents.is_zero = is_on()?,
            "buffer_pattern" => self.contents.pattern = Some(pattern(value)?),
            "buffer_compress_percentage" => self.contents.compressible = percent()?,
            "buffer_compress_chunk" if bytes()? == 512 => {}
            "buffer_compress_chunk" => return Err("512 is allowed".to_owned()),
            "dedupe_percentage" => self.contents.duplicates = percent()?,
            "prio" => self.prio = Some(level(value, 7)?),
            "prioclass" => self.prio_class = Some(level(value, 3)?),
            "kb_base" if matches!(value, "1000" | "1024") => {}
            "kb_base" => return Err("1000 and 1024 are allowed".to_owned()),
            "percentage_random" if value == "100" => {}
            "percentage_random" => {
                return Err("100 is allowed: offsets are all random or all sequential".to_owned());
            }
            "blockalign" | "ba" => {
                self.aligned = directions(value, None, |one| request_size(one, base).map(Some))?;
            }
            "zonemode" | "zonesize" | "zonerange" | "zoneskip" => {
                return self.zones.take(&option.name, value, base);
            }
            "write_bw_log" | "write_iops_log" | "write_lat_log" | "log_avg_msec" | "bwavgtime"
            | "iopsavgtime" | "per_job_logs" | "log_offset" | "log_prio" | "log_max_value"
            | "disable_lat" | "disable_clat" | "disable_slat" => {
                return self.job.logs.take(&option.name, value, base);
            }
            name if name == "do_verify" || (name.starts_with("verify") && HONOURED.contains(&name)) => {
                return self.job.verify.take(name, value, option.line);
            }
            // A job goes on behind failed requests.
            "continue_on_error" if matches!(value, "all" | "io" | "1") => {}
            "continue_on_error" => return Err("errors end no job here; all and io are allowed".to_owned()),
            // Switches that fio does not turn on by itself.
            "create_only" | "exitall_on_error" if !is_on()? => {}
            "create_only" => return Err("nothing would be measured: fio sends no requests then".to_owned()),
            "exitall_on_error" => return Err("errors end no job here".to_owned()),
            "stats" if is_on()? => {}
            "stats" => return Err("the figures of every job count here".to_owned()),
            name if WITHOUT_EFFECT.contains(&name) => {}
            name => {
                let known = HONOURED.iter().chain(WITHOUT_EFFECT).copied();
                let unknown = || format!("has no counterpart here{}", near_matches(name, known));
                return Err(reasons::of(name).map_or_else(unknown, str::to_owned));
            }
        }
        Ok(())
    }

    /// Joins the options; what does not go together is in the second part.
    fn finish(mut self) -> (Job, Vec<Reason>) {
        let mut reasons = Vec::new();
        let load = &mut self.job.load;
        load.is_random = self.rw.starts_with("rand");
        load.other = match self.rw.trim_start_matches("rand") {
            "read" => None,
            "trim" => Some(Operation::Discard),
            _ => Some(Operation::Write),
        };
        match self.rw.as_str() {
            "read" | "randread" => load.read = 1.0,
            "write" | "randwrite" | "trim" | "randtrim" => load.read = 0.0,
            // The share of reads without rwmixread.
            _ if !self.has_mix => load.read = 0.5,
            _ => {}
        }
        let others = if load.other == Some(Operation::Discard) { 2 } else { 1 };
        load.sizes = [self.sizes[0].clone(), self.sizes[others].clone()];
        if load.is_random && self.aligned.iter().any(Option::is_some) {
            let shortest =
                self.sizes.each_ref().map(|of| of.iter().map(|size| size.bytes).min().unwrap_or(1));
            let aligned = [0, 1, 2].map(|direction| self.aligned[direction].unwrap_or(shortest[direction]));
            // fio's random map has the blocks of the shortest requests.
            load.is_repeating |= aligned != shortest;
            load.aligned_bytes = Some([aligned[0], aligned[others]]);
        }
        match self.run_or_skip.as_deref() {
            None => {}
            Some(more) if load.is_random => match number(more, self.kb_base) {
                Some(run) => load.run = run.max(1),
                None => {
                    reasons.push(Reason::of_job(format!("rw={}:{more} has no number of requests", self.rw)))
                }
            },
            Some(more) => {
                let (sign, digits) = more.strip_prefix('-').map_or((1, more), |digits| (-1, digits));
                match number(digits, self.kb_base).and_then(|bytes| i64::try_from(bytes).ok()) {
                    Some(bytes) => load.skip = sign * bytes,
                    None => {
                        reasons.push(Reason::of_job(format!("rw={}:{more} has no number of bytes", self.rw)))
                    }
                }
            }
        }
        load.zones = self.zones.zones(load, &mut reasons);
        if matches!(load.distribution, Some(FioDistribution::Zoned(_))) && !load.is_repeating {
            // fio's random map visits every place once, whatever the zones.
            reasons.push(Reason::of_job("zones of random_distribution go with norandommap".to_owned()));
        }
        if load.is_time_based && load.runtime.is_none() {
            reasons.push(Reason::of_job("time_based goes with runtime".to_owned()));
        }
        let is_one_at_a_time = is_one_at_a_time(&self.engine);
        let depth = if is_one_at_a_time { 1 } else { self.depth };
        if self.is_offloaded && is_one_at_a_time && self.depth > 1 {
            // fio's threads make such an engine send several at a time.
            let text = "goes with iodepth=1 or an engine that queues, such as libaio".to_owned();
            reasons.push(Reason { option: Some("io_submit_mode"), text });
        }
        // fio's engine `null` queues from two requests on.
        load.ends_pass_by_bytes = !is_one_at_a_time && (self.engine != "null" || depth > 1);
        if !self.think.is_zero() && depth > 1 {
            reasons.push(Reason::of_job("thinktime goes with iodepth=1".to_owned()));
        }
        load.arrivals = FioArrivals::Closed { depth, think: self.think, think_every: self.think_every };
        let polled = [("sqthread_poll", self.job.polling.submission), ("hipri", self.job.polling.completion)];
        if self.engine != "io_uring" {
            self.job.polling = Polling::default();
            reasons.extend(polled.into_iter().filter(|(_, is_on)| *is_on).map(|(option, _)| Reason {
                option: Some(option),
                text: "goes with ioengine=io_uring".to_owned(),
            }));
        }
        self.job.batch = self.batch.min(depth.into()) as u32;
        match self.rates.arrivals(load, others) {
            Ok(None) => {}
            Ok(Some(arrivals)) => {
                load.arrivals = arrivals;
                self.job.outstanding_max = Some(depth);
                if !self.think.is_zero() {
                    let text = "goes with jobs without a rate".to_owned();
                    reasons.push(Reason { option: Some("thinktime"), text });
                }
                if self.job.batch > 1 {
                    self.job.batch = 1;
                    let text = "goes with jobs without a rate".to_owned();
                    reasons.push(Reason { option: Some("iodepth_batch_complete_min"), text });
                }
            }
            Err((option, reason)) => reasons.push(Reason { option: Some(option), text: reason.to_owned() }),
        }
        self.job.is_one_at_a_time = is_one_at_a_time;
        self.job.priority = priority(self.prio, self.prio_class);
        match self.contents.data() {
            Ok(data) => self.job.data = data,
            Err(reason) => reasons.push(Reason::of_job(reason)),
        }
        let has_content = self.job.data != WriteData::default();
        self.job.verify.check(&self.job.load, has_content, &mut reasons);
        match self.engine.as_str() {
            "null" => self.job.address = Some("null".to_owned()),
            "nbd" => match self.uri {
                Some(uri) => self.job.address = Some(uri),
                None => reasons.push(Reason::of_job("ioengine=nbd goes with uri".to_owned())),
            },
            _ => {}
        }
        if self.job.address.as_deref() == Some("null") && self.job.load.size.is_none() {
            reasons.push(Reason::of_job("has no `size`".to_owned()));
        }
        (self.job, reasons)
    }
}

/// Refuses engines that reach nothing that can be measured here.
fn engine(name: &str) -> Taken {
    let known = [
        "sync", "psync", "vsync", "pvsync", "pvsync2", "libaio", "io_uring", "posixaio", "null", "nbd",
        "mmap",
    ];
    match known.contains(&name) {
        true if name == "mmap" => Err("memory mappings are no requests to a target".to_owned()),
        true => Ok(()),
        false => Err("no such engine here; sync, psync, vsync, pvsync, pvsync2, libaio, io_uring, posixaio, null and nbd are \
                      allowed"
            .to_owned()),
    }
}

fn is_one_at_a_time(engine: &str) -> bool {
    ["sync", "psync", "vsync", "pvsync", "pvsync2", "mmap"].contains(&engine)
}

/// Bytes up to [`BYTES_MAX`].
pub(super) fn size(text: &str, base: u64) -> Result<u64, &'static str> {
    let bytes = number(text, base).ok_or("is no size")?;
    if bytes <= BYTES_MAX { Ok(bytes) } else { Err("at most 16p are allowed") }
}

/// Bytes of a request.
fn request_size(text: &str, base: u64) -> Result<u64, &'static str> {
    let bytes = number(text, base).ok_or("is no size")?;
    if (1..=REQUEST_BYTES_MAX).contains(&bytes) { Ok(bytes) } else { Err("1 to 1g are allowed") }
}

/// fio's size of requests without an option.
fn sizes_of_fio() -> Vec<FioSize> {
    vec![FioSize { bytes: 4096, share: 1.0 }]
}

/// Values of reads, writes and trims, separated by commas. The last one holds for those behind it, too; an empty one leaves the
/// default.
fn directions<T: Clone>(
    value: &str,
    default: T,
    read: impl Fn(&str) -> Result<T, &'static str>,
) -> Result<[T; 3], String> {
    let mut found = [default.clone(), default.clone(), default.clone()];
    for (direction, part) in value.split(',').map(str::trim).enumerate() {
        let places = found.get_mut(direction..).filter(|places| !places.is_empty());
        let places = places.ok_or("has more values than reads, writes and trims")?;
        places.fill(if part.is_empty() { default.clone() } else { read(part)? });
    }
    Ok(found)
}

/// Sizes with their percentages: `4k/10:64k/50:32k/40`. Those without share the rest.
fn split(text: &str, base: u64) -> Result<Vec<FioSize>, &'static str> {
    let mut sizes = Vec::new();
    let mut without = 0_u32;
    for part in text.split(':') {
        let (size, percent) = part.split_once('/').unwrap_or((part, ""));
        let bytes = request_size(size, base)?;
        let percent = percent.trim();
        without += u32::from(percent.is_empty());
        let share = match percent {
            "" => f64::NAN,
            percent => percent.parse::<f64>().map_err(|_| "has a percentage that is none")? / 100.0,
        };
        sizes.push(FioSize { bytes, share });
    }
    let given: f64 = sizes.iter().map(|size| size.share).filter(|share| !share.is_nan()).sum();
    if given > 1.0 + 1e-9 {
        return Err("has percentages that sum to more than 100");
    }
    let rest = (1.0 - given) / f64::from(without.max(1));
    sizes.iter_mut().filter(|size| size.share.is_nan()).for_each(|size| size.share = rest);
    if without == 0 && given < 1.0 - 1e-9 {
        return Err("has percentages that sum to less than 100");
    }
    Ok(sizes)
}

/// Sizes of a range in steps of the smallest: `4k-64k`.
fn range(text: &str, base: u64) -> Result<Vec<FioSize>, &'static str> {
    let (min, max) = text.split_once('-').unwrap_or((text, text));
    let (min, max) = (request_size(min, base)?, request_size(max, base)?);
    if min > max {
        return Err("begins above its end");
    }
    // fio draws a size from 1 byte to the largest and rounds it up to a multiple of the smallest, so each is as likely.
    let steps = max / min;
    if steps > SIZES_MAX {
        return Err("has more than 65536 sizes");
    }
    let share = 1.0 / steps as f64;
    Ok((1..=steps).map(|step| FioSize { bytes: step * min, share }).collect())
}
