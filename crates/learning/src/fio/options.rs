//! Properties of a load given by fio's job options.

use seeklab_core::Operation;
use serde_json::{Map, Value};

/// Engines that have one request outstanding in each job, whatever the requested depth.
const ONE_AT_A_TIME: [&str; 6] = ["sync", "psync", "vsync", "pvsync", "pvsync2", "mmap"];

/// Engines whose flushes are `fsync` or `fdatasync` of files.
const OF_FILES: [&str; 9] =
    ["sync", "psync", "vsync", "pvsync", "pvsync2", "mmap", "libaio", "io_uring", "posixaio"];

/// The most that jobs may keep outstanding together: a queue length of the tables' last class.
const DEPTH_MAX: u64 = 1 << 16;

/// Options of a job, its own before those of all.
#[derive(Debug, Clone, Copy)]
pub(super) struct Options<'a> {
    pub(super) own: Option<&'a Map<String, Value>>,
    pub(super) global: Option<&'a Map<String, Value>>,
}

/// Address pattern of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pattern {
    Sequential,
    Random,
}

impl<'a> Options<'a> {
    fn get(&self, names: &[&str]) -> Option<&'a str> {
        [self.own, self.global]
            .into_iter()
            .flatten()
            .find_map(|map| names.iter().find_map(|name| map.get(*name)).and_then(Value::as_str))
    }

    fn whole(&self, names: &[&str], or: u64) -> Result<u64, String> {
        let Some(text) = self.get(names) else { return Ok(or) };
        text.parse().ok().filter(|value| (1..=DEPTH_MAX).contains(value)).ok_or_else(|| {
            format!("option `{}` is `{text}`, allowed is a whole number from 1 to {DEPTH_MAX}", names[0])
        })
    }

    /// Jobs that were made of this one.
    pub(super) fn jobs(&self) -> Result<u64, String> {
        self.whole(&["numjobs"], 1)
    }

    /// Requests that each job keeps outstanding.
    pub(super) fn depth(&self) -> Result<u64, String> {
        let engine = self.get(&["ioengine"]).unwrap_or("psync");
        let depth = self.whole(&["iodepth"], 1)?;
        Ok(if ONE_AT_A_TIME.contains(&engine) { 1 } else { depth })
    }

    /// Returns the address pattern of the job.
    pub(super) fn pattern(&self) -> Result<Pattern, String> {
        let text = self.get(&["rw", "readwrite"]).unwrap_or("read");
        let (kind, further) = text.split_once(':').unwrap_or((text, ""));
        match kind {
            "randread" | "randwrite" | "randtrim" | "randrw" | "randtrimwrite" => Ok(Pattern::Random),
            "read" | "write" | "trim" if further.is_empty() && self.get(&["percentage_random"]).is_none() => {
                Ok(Pattern::Sequential)
            }
            "rw" | "readwrite" | "trimwrite" => {
                Err(format!("`rw={text}`: two directions in turns are neither sequential nor random"))
            }
            "read" | "write" | "trim" => Err(format!(
                "`rw={text}` with holes or with random ones between is neither sequential nor random"
            )),
            _ => Err(format!("`rw={text}` is no pattern of fio's that is known")),
        }
    }

    /// Its only direction, if it has but one.
    pub(super) fn only_direction(&self) -> Option<Operation> {
        let text = self.get(&["rw", "readwrite"]).unwrap_or("read");
        match text.split(':').next().unwrap_or_default() {
            "read" | "randread" => Some(Operation::Read),
            "write" | "randwrite" => Some(Operation::Write),
            "trim" | "randtrim" => Some(Operation::Discard),
            _ => None,
        }
    }

    /// Returns the reason if the times of the job's flushes are not real flush times.
    pub(super) fn why_not_flushes(&self) -> Option<&'static str> {
        self.get(&["sync_file_range"])
            .is_some()
            .then_some("`sync_file_range` writes pages back and flushes nothing")
    }

    /// Returns the component besides the device that contributes to the times of the job's flushes, if there is
    /// one.
    pub(super) fn beside_the_device(&self) -> Option<&'static str> {
        if !OF_FILES.contains(&self.get(&["ioengine"]).unwrap_or("psync")) {
            return None;
        }
        let files = self.get(&["filename"]);
        if files.is_none_or(|files| files.split(':').any(|file| !file.starts_with("/dev/"))) {
            return Some("a file system");
        }
        (self.get(&["direct"]) != Some("1")).then_some("a page cache")
    }

    /// Returns the number of bytes from zero on that the job may address, if stated.
    pub(super) fn region_bytes(&self) -> Option<u64> {
        let thousand = self.get(&["kb_base"]) == Some("1000");
        let size = size_bytes(self.get(&["size"])?, thousand)?;
        let offset = self.get(&["offset"]).and_then(|text| size_bytes(text, thousand)).unwrap_or(0);
        size.checked_add(offset)
    }
}

/// Bytes by fio's rules: `k` is 1024 and `ki` 1000, unless `kb_base=1000` turns them round.
fn size_bytes(text: &str, thousand: bool) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let letter = unit.strip_suffix('b').unwrap_or(unit);
    let (letter, with_i) = match letter.strip_suffix('i') {
        Some(letter) => (letter, true),
        None => (letter, false),
    };
    let power = ["", "k", "m", "g", "t", "p"].iter().position(|of| *of == letter)? as u32;
    let base: u64 = if thousand == with_i { 1024 } else { 1000 };
    number.checked_mul(base.checked_pow(power)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_fio_reads_them() {
        for (text, bytes) in
            [("4096", 4096), ("4k", 4096), ("1G", 1 << 30), ("64KiB", 64_000), ("2mb", 2 << 20)]
        {
            assert_eq!(size_bytes(text, false), Some(bytes), "{text}");
        }
        assert_eq!(size_bytes("4k", true), Some(4000));
        assert_eq!(size_bytes("4ki", true), Some(4096));
        for text in ["", "k", "10%", "-1", "4x", "99999999999999999999", "18446744073709551615k", "é"] {
            assert_eq!(size_bytes(text, false), None, "{text}");
        }
    }

    fn options(text: &str) -> Map<String, Value> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn options_of_a_job_come_before_global_ones() {
        let own =
            options(r#"{"iodepth": "8", "numjobs": "4", "rw": "randread", "size": "1g", "offset": "512m"}"#);
        let global = options(r#"{"iodepth": "2", "ioengine": "libaio"}"#);
        let both = Options { own: Some(&own), global: Some(&global) };
        assert_eq!((both.depth(), both.jobs(), both.pattern()), (Ok(8), Ok(4), Ok(Pattern::Random)));
        assert_eq!(both.region_bytes(), Some(3 << 29));
        let alone = Options { own: None, global: Some(&global) };
        assert_eq!((alone.depth(), alone.jobs(), alone.pattern()), (Ok(2), Ok(1), Ok(Pattern::Sequential)));
        let synchronous = Options { own: Some(&own), global: None };
        assert_eq!(synchronous.depth(), Ok(1), "the default engine has one request outstanding");
    }

    #[test]
    fn patterns_neither_sequential_nor_random_are_noted() {
        for (text, part) in [
            (r#"{"rw": "rw"}"#, "two directions"),
            (r#"{"rw": "read:4k"}"#, "holes"),
            (r#"{"rw": "read", "percentage_random": "50"}"#, "random ones between"),
            (r#"{"rw": "sideways"}"#, "no pattern"),
        ] {
            let own = options(text);
            let error = Options { own: Some(&own), global: None }.pattern().unwrap_err();
            assert!(error.contains(part), "{error}");
        }
        let own = options(r#"{"numjobs": "0"}"#);
        let error = Options { own: Some(&own), global: None }.jobs().unwrap_err();
        assert!(error.contains("`numjobs` is `0`") && error.contains("1 to"), "{error}");
    }
}
