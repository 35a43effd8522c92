//! Presets: faults with values from studies of devices in the field, from documentation, and from other tools.
//!
//! ```toml
//! [[fault]]
//! preset = "fail-slow-vibration"
//! at = "30s"                      # later by this; every other key replaces that of each fault of the preset
//! ```
//! On a line: `fail-slow-vibration,at=30s`. A preset is replaced by its faults when a description is read, so a
//! device, its description and the record of a run hold faults only.

use schemars::Schema;
use seeklab_core::{DescriptionError, Duration, Mistake, description};
use serde_json::json;
use toml::{Table, Value};

use super::parameters::{FaultParameters, FaultTable, entries, time};
use super::reference::kinds;
use crate::error::check;

/// Faults under a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    /// Name of the preset.
    pub name: &'static str,
    /// Description of the preset, in one line.
    pub about: &'static str,
    /// Source of the values.
    pub source: &'static str,
    /// Values that the source does not give, and their choice. Empty if there are none.
    pub assumed: &'static str,
    /// The faults, in TOML.
    pub toml: &'static str,
}

const FAIL_SLOW: &str = "H. Gunawi et al., Fail-Slow at Scale, FAST 2018, and ;login: summer 2018";
const TAIL_AT_STORE: &str = "M. Hao et al., The Tail at Store, FAST 2016, abstract";
const LATENCY_INJECTION: &str = "Amazon EBS user guide, Latency injection";
const SPEK: &str = "X. He, M. Zhang and Q. Yang, SPEK, 2005, section 3.3.2 and figure 8";

/// Every preset, in the order of the help text.
pub const PRESETS: &[Preset] = &[
    Preset {
        name: "fail-slow-vibration",
        about: "a disk that vibrates passes 100 kB/s, a thousandth of its rate",
        source: FAIL_SLOW,
        assumed: "",
        toml: "
            [[fault]]
            kind = \"bandwidth_cap\"
            rate = \"100kB/s\"
        ",
    },
    Preset {
        name: "fail-slow-firmware",
        about: "an SSD whose firmware stops for seconds again and again",
        source: FAIL_SLOW,
        assumed: "3 s for `seconds`, and a mean of 60 s between two pauses",
        toml: "
            [[fault]]
            kind = \"stall\"
            for = \"3s\"
            repeat = \"about 60s\"
        ",
    },
    Preset {
        name: "firmware-pause",
        about: "a drive that pauses for garbage collection, heat or its firmware",
        source: "PierreZ/moonpool, issue 126: stalls of about 100 to 500 ms",
        assumed: "300 ms, the middle, and a mean of 10 s between two pauses",
        toml: "
            [[fault]]
            kind = \"stall\"
            for = \"300ms\"
            repeat = \"about 10s\"
        ",
    },
    Preset {
        name: "fail-slow-drive",
        about: "a drive that is slow for good, as 304 of 248,000 drives became in 10 months",
        source: "R. Lu et al., Perseus, FAST 2023, abstract",
        assumed: "factor 1.92: without its slow drives, the 99.99th percentile of a node is shorter by 48 %, and \
                  1/(1 - 0.48) is 1.92. The source gives no factor for a drive",
        toml: "
            [[fault]]
            kind = \"slow\"
            factor = 1.92
        ",
    },
    Preset {
        name: "tail-disk",
        about: "a disk that is twice as slow as its peers in 0.2 % of the time",
        source: TAIL_AT_STORE,
        assumed: "factor 2, the least that counts in the study, in episodes of an hour, its unit, at random times",
        toml: "
            [[fault]]
            kind = \"slow\"
            factor = 2.0
            for = \"1h\"
            repeat = \"about 499h\"
        ",
    },
    Preset {
        name: "tail-ssd",
        about: "an SSD that is twice as slow as its peers in 0.6 % of the time",
        source: TAIL_AT_STORE,
        assumed: "factor 2, the least that counts in the study, in episodes of an hour, its unit, at random times",
        toml: "
            [[fault]]
            kind = \"slow\"
            factor = 2.0
            for = \"1h\"
            repeat = \"about 596400s\"
        ",
    },
    Preset {
        name: "error-recovery-raid",
        about: "a disk for RAID gives up a bad sector after 7 s (ERC, TLER, CCTL)",
        source: "R. Schnabel, SCT Error Recovery Control in RAID drives, 2015 (Western Digital: 7 s)",
        assumed: "one read in a thousand finds a bad sector",
        toml: "
            [[fault]]
            kind = \"medium_error\"
            op = \"read\"
            probability = \"0.1%\"
            add = \"7s\"
            lasting = \"until_rewritten\"
        ",
    },
    Preset {
        name: "error-recovery-desktop",
        about: "a desktop disk tries to read a bad sector for two minutes",
        source: "Linux RAID wiki, Timeout Mismatch (over two minutes)",
        assumed: "2 min; one read in a thousand finds a bad sector",
        toml: "
            [[fault]]
            kind = \"medium_error\"
            op = \"read\"
            probability = \"0.1%\"
            add = \"120s\"
            lasting = \"until_rewritten\"
        ",
    },
    Preset {
        name: "volume-pause",
        about: "a cloud volume answers nothing for two minutes",
        source: "Amazon EBS user guide, Pause I/O fault injection",
        assumed: "120 s, the time within which the guide says that the volume is reported as impaired; the user \
                  chooses the length",
        toml: "
            [[fault]]
            kind = \"stall\"
            for = \"120s\"
        ",
    },
    Preset {
        name: "volume-latency-sustained",
        about: "half of the reads and all writes of a cloud volume take 500 ms longer for 15 minutes",
        source: LATENCY_INJECTION,
        assumed: "",
        toml: "
            [[fault]]
            kind = \"delay\"
            op = \"read\"
            probability = \"50%\"
            add = \"500ms\"
            for = \"15min\"
            [[fault]]
            kind = \"delay\"
            op = \"write\"
            add = \"500ms\"
            for = \"15min\"
        ",
    },
    Preset {
        name: "volume-latency-increasing",
        about: "10 % of the reads and 25 % of the writes of a cloud volume take 50 ms to 15 s longer, in five steps",
        source: LATENCY_INJECTION,
        assumed: "",
        toml: include_str!("increasing.toml"),
    },
    Preset {
        name: "volume-latency-intermittent",
        about: "0.1 % of the reads and writes of a cloud volume take 10 to 30 s longer, three times",
        source: LATENCY_INJECTION,
        assumed: "",
        toml: "
            [[fault]]
            kind = \"delay\"
            op = \"read|write\"
            probability = \"0.1%\"
            add = \"30s\"
            for = \"60s\"
            [[fault]]
            kind = \"delay\"
            op = \"read|write\"
            probability = \"0.1%\"
            add = \"10s\"
            at = \"360s\"
            for = \"120s\"
            [[fault]]
            kind = \"delay\"
            op = \"read|write\"
            probability = \"0.1%\"
            add = \"20s\"
            at = \"780s\"
            for = \"120s\"
        ",
    },
    Preset {
        name: "volume-latency-decreasing",
        about: "10 % of the reads and writes of a cloud volume take 20 s to 40 ms longer, in five steps",
        source: LATENCY_INJECTION,
        assumed: "",
        toml: include_str!("decreasing.toml"),
    },
    Preset {
        name: "spek-transient",
        about: "half of the requests end with a correctable error, which a client retries, from 15 s to 20 s",
        source: SPEK,
        assumed: "`aborted` for a correctable error response: the client of the study repeats the request",
        toml: "
            [[fault]]
            kind = \"aborted\"
            probability = \"50%\"
            at = \"15s\"
            for = \"5s\"
        ",
    },
    Preset {
        name: "spek-sticky",
        about: "every read and write ends with an uncorrectable error for good",
        source: SPEK,
        assumed: "from the beginning; the study gives no time",
        toml: "
            [[fault]]
            kind = \"medium_error\"
            lasting = \"sticky\"
        ",
    },
];

impl Preset {
    /// The preset of that name.
    pub fn find(name: &str) -> Option<&'static Self> {
        PRESETS.iter().find(|preset| preset.name == name)
    }

    /// The text of its faults, without indentation.
    pub fn text(&self) -> String {
        let lines = self.toml.lines().map(str::trim).filter(|line| !line.is_empty());
        lines.map(|line| format!("{line}\n")).collect()
    }

    /// The tables of its faults.
    fn tables(&self) -> Vec<Table> {
        let table: Table = self.toml.parse().expect("a test parses every preset");
        let faults = table["fault"].as_array().expect("a preset is a list of faults");
        faults.iter().filter_map(|fault| fault.as_table().cloned()).collect()
    }
}

/// The tables of faults that a table with `preset` stands for.
fn faults_of(entry: &Table) -> Result<Vec<Table>, DescriptionError> {
    let names = || PRESETS.iter().map(|preset| preset.name);
    let value = &entry["preset"];
    let name = value.as_str().unwrap_or_default();
    let preset = Preset::find(name).ok_or_else(|| {
        let written = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        DescriptionError::unknown(Mistake::UnknownName, "preset", &written, names()).under("preset")
    })?;
    check(!entry.contains_key("kind"), "kind", "stands beside `preset`", "one of the two")?;
    let base = entry.get("name").map_or(name, |base| base.as_str().unwrap_or_default());
    let at = |table: &Table| match table.get("at") {
        Some(at) => time("at", at.as_str().unwrap_or_default()),
        None => Ok(Duration::ZERO),
    };
    let later = at(entry)?;
    let mut faults = preset.tables();
    let count = faults.len();
    for (index, fault) in faults.iter_mut().enumerate() {
        let own = at(fault)?;
        for (key, value) in entry.iter().filter(|(key, _)| *key != "preset") {
            fault.insert(key.clone(), value.clone());
        }
        fault.insert("at".to_owned(), (own + later).to_string().into());
        let name = if count == 1 { base.to_owned() } else { format!("{base}-{}", index + 1) };
        fault.insert("name".to_owned(), name.into());
        FaultTable::from_table(fault)?;
    }
    Ok(faults)
}

/// The table of a layer with the faults of its presets in their place. `None` if it has no preset.
///
/// # Errors
/// A mistake in one of its faults, under the place where that is written.
pub(crate) fn expanded(layer: &Table) -> Result<Option<Table>, DescriptionError> {
    let Some(Value::Array(entries)) = layer.get("fault") else { return Ok(None) };
    let tables = || entries.iter().filter_map(Value::as_table);
    if !tables().any(|entry| entry.contains_key("preset")) || tables().count() < entries.len() {
        return Ok(None);
    }
    let mut faults = Vec::with_capacity(entries.len());
    for (index, entry) in tables().enumerate() {
        let of_entry = match entry.contains_key("preset") {
            true => faults_of(entry),
            false => FaultTable::from_table(entry).map(|_| vec![entry.clone()]),
        };
        let of_entry = of_entry.map_err(|error| error.under(&format!("fault[{index}]")))?;
        faults.extend(of_entry.into_iter().map(Value::Table));
    }
    let mut layer = layer.clone();
    layer.insert("fault".to_owned(), faults.into());
    Ok(Some(layer))
}

impl FaultParameters {
    /// Faults from a table with a list `fault`, checked as far as they can be without a device.
    ///
    /// # Errors
    /// Keys and values that no fault has, and values that contradict each other.
    pub fn from_table(table: &Table) -> Result<Self, DescriptionError> {
        let expanded = expanded(table)?;
        let faults: Self = description::read(expanded.as_ref().unwrap_or(table))?;
        description::schema::check_ranges(&faults)?;
        faults.checked()?;
        Ok(faults)
    }

    /// The faults of a line: a kind or a preset, then `key=value` with commas between, such as
    /// `delay,add=20ms,probability=1%` or `tail-disk,at=30s`.
    ///
    /// # Errors
    /// A line without a kind or a preset, keys that do not exist or are given twice, and values that cannot be read.
    pub fn from_line(line: &str) -> Result<Self, DescriptionError> {
        let (name, mut table) = entries(line)?;
        if Preset::find(name).is_some() {
            table.insert("preset".to_owned(), name.into());
            let faults = faults_of(&table)?;
            let fault = faults.iter().map(FaultTable::from_table).collect::<Result<_, _>>()?;
            return Ok(Self { fault });
        }
        let kinds = kinds();
        let kinds = kinds.iter().map(|kind| kind.kind.as_str());
        if !kinds.clone().any(|kind| kind == name) {
            let names = kinds.chain(PRESETS.iter().map(|preset| preset.name));
            return Err(DescriptionError::unknown(Mistake::UnknownName, "kind or preset", name, names));
        }
        Ok(Self { fault: vec![FaultTable::from_line(line)?] })
    }
}

/// Declares the key `preset` beside `kind`, one of which a fault has.
pub(super) fn declare(schema: &mut Schema) {
    let names: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
    let preset = json!({
        "description": "Preset in place of a kind: its faults, later by `at`. Every other key replaces that of each of \
                        them.",
        "enum": names,
    });
    let object = schema.ensure_object();
    if let Some(properties) = object.get_mut("properties").and_then(|properties| properties.as_object_mut()) {
        properties.insert("preset".to_owned(), preset);
    }
    object.remove("required");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Table {
        text.parse().unwrap()
    }

    #[test]
    fn every_preset_is_made_of_right_faults_and_names_its_source() {
        for preset in PRESETS {
            let faults = FaultParameters::from_line(preset.name).unwrap_or_else(|error| panic!("{error}"));
            assert!(!faults.fault.is_empty() && faults.checked().is_ok(), "{}", preset.name);
            assert!(!preset.source.is_empty() && !preset.about.ends_with('.'), "{}", preset.name);
            let again = FaultParameters::from_table(&table(&preset.text())).unwrap();
            assert_eq!(again.fault.len(), faults.fault.len());
            assert!(kinds().iter().all(|kind| kind.kind != preset.name), "{} is a kind", preset.name);
        }
    }

    #[test]
    fn preset_begins_later_and_takes_other_values() {
        let text = "[[fault]]\npreset = \"volume-latency-intermittent\"\nat = \"30s\"\nprobability = \"100%\"\n\
                    [[fault]]\nkind = \"delay\"\nadd = \"1ms\"\n";
        let faults = FaultParameters::from_table(&table(text)).unwrap().fault;
        let at: Vec<String> = faults.iter().map(|fault| fault.at.to_string()).collect();
        assert_eq!(at, ["30s", "390s", "810s", "0s"]);
        assert_eq!(faults[1].name.as_deref(), Some("volume-latency-intermittent-2"));
        assert!(faults[..3].iter().all(|fault| fault.probability.as_f64() == 1.0));
        let named = FaultParameters::from_line("tail-disk,name=slow,factor=3").unwrap().fault;
        assert_eq!((named[0].name.as_deref(), named[0].factor), (Some("slow"), Some(3.0)));
    }

    #[test]
    fn mistakes_beside_a_preset_name_the_fault_as_written() {
        let plain = "[[fault]]\npreset = \"volume-latency-sustained\"\n";
        for (text, parts) in [
            (
                "[[fault]]\npreset = \"tail-disc\"\n",
                &["fault[1].preset: unknown preset `tail-disc`", "tail-disk"][..],
            ),
            ("[[fault]]\npreset = 3\n", &["fault[1].preset: unknown preset `3`"]),
            (
                "[[fault]]\npreset = \"tail-disk\"\nkind = \"slow\"\n",
                &["fault[1].kind: stands beside `preset`"],
            ),
            ("[[fault]]\npreset = \"tail-disk\"\nadd = \"1ms\"\n", &["fault[1].add: is no key of `slow`"]),
            ("[[fault]]\npreset = \"tail-disk\"\nfactor = 0.5\n", &["fault[1].factor: 0.5"]),
            ("[[fault]]\npreset = \"tail-disk\"\nat = \"soon\"\n", &["fault[1].at"]),
            ("[[fault]]\nkind = \"stall\"\n", &["fault[1].for: is missing"]),
            (plain, &["names two faults"]),
        ] {
            let error = FaultParameters::from_table(&table(&format!("{plain}{text}"))).unwrap_err();
            let text = format!("{error}; {}", error.advice().unwrap_or_default());
            assert!(parts.iter().all(|part| text.contains(part)), "{text}");
        }
        let error = FaultParameters::from_line("tail-discs").unwrap_err().to_string();
        assert!(
            error.contains("unknown kind or preset `tail-discs`") && error.contains("tail-disk"),
            "{error}"
        );
    }
}
