//! The text of a fio job file: sections with their options, and values as fio writes them.
//!
//! # References
//! fio 3.33, HOWTO.rst, "Job file format" and "Parameter types".

use std::borrow::Cow;
use std::env;

use seeklab_core::Duration;

use crate::failure::Failure;

/// An option of a job, with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FioOption {
    /// Name as written.
    pub(super) name: String,
    /// Value; empty of an option without one.
    pub(super) value: String,
    /// Line of the file.
    pub(super) line: usize,
}

/// A job with the options that apply to it, those of `[global]` first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) options: Vec<FioOption>,
}

/// Reads the jobs of a file.
///
/// # Errors
/// Text that is no job file, with its line.
pub(super) fn sections(label: &str, text: &str) -> Result<Vec<Section>, Failure> {
    let wrong = |line: usize, problem: &str, hint: &str| {
        Failure::new(format!("{label}, line {line}: {problem}")).hint(hint.to_owned())
    };
    let mut global: Vec<FioOption> = Vec::new();
    let mut jobs: Vec<Section> = Vec::new();
    let mut is_global = None;
    for (index, full) in text.lines().enumerate() {
        let line = index + 1;
        // fio cuts lines at the first sign of a comment.
        let stripped = full.split([';', '#']).next().unwrap_or("").trim();
        if stripped.is_empty() {
            continue;
        }
        if let Some(header) = stripped.strip_prefix('[') {
            let Some((name, _)) = header.rsplit_once(']') else {
                return Err(wrong(line, "a section without `]`", "write for example [readers]"));
            };
            let name = name.trim();
            is_global = Some(name.eq_ignore_ascii_case("global"));
            if is_global == Some(false) {
                jobs.push(Section { name: name.to_owned(), line, options: global.clone() });
            }
            continue;
        }
        let (name, value) = match stripped.split_once('=') {
            Some((name, value)) => (name.trim(), value.trim()),
            None if stripped.split_whitespace().count() > 1 => {
                return Err(wrong(line, &format!("`{stripped}` is no option"), "write NAME=VALUE"));
            }
            None => (stripped, ""),
        };
        let option = FioOption { name: name.to_ascii_lowercase(), value: value.to_owned(), line };
        match (is_global, jobs.last_mut()) {
            (Some(true), _) => global.push(option),
            (Some(false), Some(job)) => job.options.push(option),
            _ => {
                let problem = format!("`{stripped}` stands before any section");
                return Err(wrong(
                    line,
                    &problem,
                    "begin a job file with [global] or the name of a job in brackets",
                ));
            }
        }
    }
    if jobs.is_empty() {
        return Err(Failure::new(format!("{label}: has no jobs"))
            .hint("a job file has a section for each job; a plan is a file that ends in .toml"));
    }
    Ok(jobs)
}

/// The value with the variables of the environment in it, such as `${SIZE}`.
///
/// # Errors
/// A variable that is not set. fio takes nothing for it.
pub(super) fn with_variables(value: &str) -> Result<Cow<'_, str>, String> {
    let mut parts = value.split("${");
    let first = parts.next().unwrap_or_default();
    let mut text = Cow::Borrowed(first);
    for part in parts {
        let (name, rest) = part.split_once('}').ok_or("has `${` without `}`")?;
        let of_variable = env::var(name)
            .map_err(|_| format!("the variable `{name}` is not set: run {name}=… seeklab bench …"))?;
        text.to_mut().push_str(&of_variable);
        text.to_mut().push_str(rest);
    }
    Ok(text)
}

/// A number as fio writes it: `4k` is 4096, `4ki` is 4000 (with `kb_base=1024`, the default; the other way round with 1000).
pub(super) fn number(text: &str, base: u64) -> Option<u64> {
    let lower = text.trim().to_ascii_lowercase();
    if let Some(hex) = lower.strip_prefix("0x") {
        return u64::from_str_radix(hex, 16).ok();
    }
    let digits = lower.find(|sign: char| !sign.is_ascii_digit() && sign != '.').unwrap_or(lower.len());
    let (digits, unit) = lower.split_at(digits);
    let other = if base == 1024 { 1000 } else { 1024 };
    let (letter, base) = match unit.strip_suffix("ib").or_else(|| unit.strip_suffix('i')) {
        Some(letter) => (letter, other),
        None => (unit.strip_suffix('b').unwrap_or(unit), base),
    };
    let power = ["", "k", "m", "g", "t", "p", "e"].iter().position(|known| *known == letter)?;
    let factor = base.checked_pow(u32::try_from(power).ok()?)?;
    match digits.parse::<u64>() {
        Ok(number) => number.checked_mul(factor),
        Err(_) => digits.parse::<f64>().ok().map(|number| (number * factor as f64) as u64),
    }
}

/// A time as fio writes it, in a unit of its own or in `unit`.
pub(super) fn time(text: &str, unit: Duration) -> Option<Duration> {
    let lower = text.trim().to_ascii_lowercase();
    let digits = lower.find(|sign: char| !sign.is_ascii_digit() && sign != '.').unwrap_or(lower.len());
    let (digits, name) = lower.split_at(digits);
    let unit = match name.trim() {
        "" => unit,
        "us" | "usec" => Duration::from_us(1),
        "ms" | "msec" => Duration::from_ms(1),
        "s" => Duration::from_s(1),
        "m" => Duration::from_s(60),
        "h" => Duration::from_s(3_600),
        "d" => Duration::from_s(86_400),
        _ => return None,
    };
    let number: f64 = digits.parse().ok()?;
    Some(Duration::from_ns_f64(number * unit.as_ns() as f64))
}

/// A switch: on without a value.
pub(super) fn switch(text: &str) -> Option<bool> {
    match text.trim() {
        "" | "1" | "true" => Some(true),
        "0" | "false" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_values_of_fio() {
        // HOWTO.rst: "With kb_base=1024, the unit prefixes are opposite from those specified in the SI".
        for (text, base, value) in [
            ("4k", 1024, 4096),
            ("4K", 1024, 4096),
            ("4kb", 1024, 4096),
            ("4ki", 1024, 4000),
            ("4KiB", 1024, 4000),
            ("4k", 1000, 4000),
            ("4kib", 1000, 4096),
            ("1.5m", 1024, 1_572_864),
            ("512", 1024, 512),
            ("0x200", 1024, 512),
            ("2g", 1024, 2 << 30),
        ] {
            assert_eq!(number(text, base), Some(value), "{text} {base}");
        }
        for text in ["", "k", "4x", "-4", "4kk"] {
            assert_eq!(number(text, 1024), None, "{text}");
        }
        let s = Duration::from_s(1);
        assert_eq!(time("90", s), Some(Duration::from_s(90)));
        assert_eq!(time("2m", s), Some(Duration::from_s(120)));
        assert_eq!(time("250ms", s), Some(Duration::from_ms(250)));
        assert_eq!(time("250", Duration::from_us(1)), Some(Duration::from_us(250)));
        assert_eq!(time("5parsecs", s), None);
        assert_eq!(
            [switch(""), switch("1"), switch("0"), switch("2")],
            [Some(true), Some(true), Some(false), None]
        );
    }

    #[test]
    fn jobs_have_the_global_options_above_them() {
        let text = "; a comment\n[global]\nbs=4k # in a line\nrw = randread\n[a]\niodepth=4\n[global]\nbs=8k\n[b]\nstonewall\n";
        let jobs = sections("x.fio", text).unwrap();
        let of = |job: &Section| -> Vec<(String, String, usize)> {
            job.options
                .iter()
                .map(|option| (option.name.clone(), option.value.clone(), option.line))
                .collect()
        };
        let one = |name: &str, value: &str, line| (name.to_owned(), value.to_owned(), line);
        assert_eq!(of(&jobs[0]), [one("bs", "4k", 3), one("rw", "randread", 4), one("iodepth", "4", 6)]);
        assert_eq!(
            of(&jobs[1]),
            [one("bs", "4k", 3), one("rw", "randread", 4), one("bs", "8k", 8), one("stonewall", "", 10)]
        );
        for (text, part) in [
            ("bs=4k\n", "line 1: `bs=4k` stands before any section"),
            ("[a\n", "line 1: a section without `]`"),
            ("[global]\nbs=4k\n", "has no jobs"),
            ("[a]\nsome words\n", "line 2: `some words` is no option"),
        ] {
            let problem = sections("x.fio", text).unwrap_err().to_string();
            assert!(problem.contains(part), "{problem}");
        }
    }
}
