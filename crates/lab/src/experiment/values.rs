//! The values of a parameter: a list or a range, and where they lie on an axis.

use seeklab_core::{ByteSize, Duration};
use seeklab_workloads::Rate;
use toml::Value;

use super::reader::Reader;
use crate::failure::Failure;

/// Keys of a table `[[parameters]]`.
pub(super) const KEYS: [&str; 6] = ["name", "values", "from", "to", "steps", "scale"];

/// Values of a range at most.
const STEPS_MAX: u64 = 10_000;

/// The largest count of a range, exact as a float.
const COUNT_MAX: u64 = 1 << 53;

/// Function that returns the position of a text on an axis of some unit.
type Place = fn(&str) -> Option<f64>;

/// A parameter that is varied.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Parameter {
    /// Name as written in the experiment: of a device, or after `workload.`.
    pub(super) name: String,
    /// Text, whole numbers, numbers without unit or truths.
    pub(super) values: Vec<Value>,
}

/// A value as people write it.
pub(super) fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

impl Parameter {
    /// Reads a table `[[parameters]]`.
    pub(super) fn read(mut reader: Reader) -> Result<Self, Failure> {
        let name = reader.needed_text("name", "\"rpm\"")?;
        let is_range = ["from", "to", "steps", "scale"].into_iter().find(|key| reader.has(key));
        let values = match (reader.has("values"), is_range) {
            (true, Some(key)) => {
                return Err(reader.wrong(key, "cannot be beside `values`").hint("give a list or a range"));
            }
            (_, Some(_)) => range(&mut reader)?,
            _ => reader.needed_list("values", "[\"5400rpm\", \"7200rpm\"]")?,
        };
        for (index, value) in values.iter().enumerate() {
            let key = format!("values[{index}]");
            if matches!(value, Value::Table(_) | Value::Array(_) | Value::Datetime(_)) {
                return Err(reader
                    .wrong(&key, format_args!("{value} is not one value"))
                    .hint("write text with its unit"));
            }
            if values[..index].iter().any(|other| text_of(other) == text_of(value)) {
                return Err(reader.wrong(&key, format_args!("`{}` is there twice", text_of(value))));
            }
        }
        Ok(Self { name, values })
    }

    /// Label and places on an axis, `None` where the values are not numbers of one kind.
    pub(super) fn axis(&self) -> Option<(String, Vec<f64>)> {
        let texts: Vec<String> = self.values.iter().map(text_of).collect();
        let split: Option<Vec<(f64, &str)>> = texts.iter().map(|text| split(text)).collect();
        let split = split?;
        let unit = split[0].1;
        if split.iter().all(|(_, other)| *other == unit) {
            let label = match unit {
                "" => self.name.clone(),
                unit => format!("{} [{}{unit}]", self.name, if unit.starts_with('/') { "1" } else { "" }),
            };
            return Some((label, split.into_iter().map(|(number, _)| number).collect()));
        }
        let all = |read: Place| texts.iter().map(|text| read(text)).collect::<Option<Vec<f64>>>();
        let kinds: [(&str, Place); 3] = [
            ("KiB", |text| text.parse::<ByteSize>().ok().map(|size| size.as_bytes() as f64 / 1024.0)),
            ("ms", |text| text.parse::<Duration>().ok().map(Duration::as_ms)),
            ("1/s", |text| text.parse::<Rate>().ok().map(Rate::as_per_s)),
        ];
        kinds.into_iter().find_map(|(unit, read)| Some((format!("{} [{unit}]", self.name), all(read)?)))
    }
}

/// The values of `from`, `to`, `steps` and `scale`.
fn range(reader: &mut Reader) -> Result<Vec<Value>, Failure> {
    let steps = reader.count("steps", 2..=STEPS_MAX)?;
    let steps =
        steps.ok_or_else(|| reader.wrong("steps", "is missing").hint("write for example steps = 5"))?;
    let is_log = match reader.text("scale")?.as_deref() {
        None | Some("linear") => false,
        Some("logarithmic") => true,
        Some(other) => {
            let problem = format!("`{other}` is not allowed");
            return Err(reader.wrong("scale", problem).hint("\"linear\" and \"logarithmic\" are"));
        }
    };
    let (from, unit) = end(reader, "from")?;
    let (to, to_unit) = end(reader, "to")?;
    if unit != to_unit {
        let named = |unit: &Option<String>| {
            unit.as_ref().map_or("no unit".to_owned(), |unit| format!("the unit `{unit}`"))
        };
        let problem = format!("has {}, but `from` has {}", named(&to_unit), named(&unit));
        return Err(reader.wrong("to", problem).hint("write both ends in one unit"));
    }
    if is_log && !(from > 0.0 && to > 0.0) {
        return Err(reader.wrong("scale", "a logarithmic range lies above 0"));
    }
    let last = steps - 1;
    let values: Vec<Value> = (0..steps)
        .map(|step| {
            let share = step as f64 / last as f64;
            let value = match step {
                0 => from,
                _ if step == last => to,
                _ if is_log => from * (to / from).powf(share),
                _ => from + (to - from) * share,
            };
            match &unit {
                None => Value::Integer(value.round() as i64),
                Some(unit) => Value::String(format!("{}{unit}", six_digits(value))),
            }
        })
        .collect();
    if (1..values.len()).any(|index| values[index] == values[index - 1]) {
        return Err(reader.wrong("steps", "the range has fewer values").hint("ask for fewer steps"));
    }
    Ok(values)
}

/// One end of a range: its number and unit, `None` of a count.
fn end(reader: &mut Reader, key: &str) -> Result<(f64, Option<String>), Failure> {
    if reader.is_count(key) {
        let count = reader.count(key, 0..=COUNT_MAX)?.expect("the key was found above");
        return Ok((count as f64, None));
    }
    let text = reader.needed_text(key, "\"20/s\"")?;
    match split(&text) {
        Some((_, "")) => Err(reader
            .wrong(key, format_args!("\"{text}\" has no unit"))
            .hint(format!("write a quantity, for example \"{text}ms\", or a count without quotes"))),
        Some((number, unit)) => Ok((number, Some(unit.to_owned()))),
        None => Err(reader
            .wrong(key, format_args!("\"{text}\" is not a number with its unit"))
            .hint("write for example \"20/s\"")),
    }
}

/// A number and what stands behind it, `None` of text, fractions and sums.
fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || "+-._".contains(c))).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: f64 = number.replace('_', "").parse().ok()?;
    let unit = unit.trim();
    (number.is_finite() && !unit.contains(|c: char| c.is_ascii_digit())).then_some((number, unit))
}

/// `value` to six significant digits, so that the steps of a range are legible.
fn six_digits(value: f64) -> f64 {
    format!("{value:.5e}").parse().expect("a formatted number can be read")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(toml: &str) -> Result<Parameter, String> {
        let table = toml.parse().unwrap();
        let reader =
            Reader::new("a.toml", "parameters[0]", table, &KEYS).map_err(|error| error.to_string())?;
        Parameter::read(reader).map_err(|error| error.to_string())
    }

    fn texts(toml: &str) -> Vec<String> {
        read(toml).unwrap().values.iter().map(text_of).collect()
    }

    #[test]
    fn ranges_contain_both_ends() {
        let linear = "name = 'a'\nfrom = '20/s'\nto = '80/s'\nsteps = 4";
        assert_eq!(texts(linear), ["20/s", "40/s", "60/s", "80/s"]);
        let sizes = "name = 'a'\nfrom = '4KiB'\nto = '64KiB'\nsteps = 5\nscale = 'logarithmic'";
        assert_eq!(texts(sizes), ["4KiB", "8KiB", "16KiB", "32KiB", "64KiB"]);
        let counts = "name = 'a'\nfrom = 1\nto = 100\nsteps = 3\nscale = 'logarithmic'";
        assert_eq!(texts(counts), ["1", "10", "100"]);
        let down = "name = 'a'\nfrom = '1ms'\nto = '0ms'\nsteps = 3";
        assert_eq!(texts(down), ["1ms", "0.5ms", "0ms"]);
    }

    #[test]
    fn wrong_ranges_give_the_reason() {
        let wrong = |toml: &str| read(toml).unwrap_err();
        assert_eq!(
            wrong("name = 'a'\nfrom = '20/s'\nto = '80ms'\nsteps = 4"),
            "a.toml: parameters[0].to: has the unit `ms`, but `from` has the unit `/s`"
        );
        assert!(wrong("name = 'a'\nfrom = '20'\nto = '80'\nsteps = 4").contains("from: \"20\" has no unit"));
        assert!(
            wrong("name = 'a'\nfrom = 1\nto = 3\nsteps = 9").contains("steps: the range has fewer values")
        );
        assert!(wrong("name = 'a'\nvalues = []").contains("values: is an empty list"));
        assert!(wrong("name = 'a'\nvalues = ['1ms']\nto = '2ms'").contains("to: cannot be beside `values`"));
        assert!(wrong("name = 'a'\nvalues = ['1ms', '1ms']").contains("values[1]: `1ms` is there twice"));
    }

    #[test]
    fn numeric_values_lie_on_an_axis() {
        let axis = |values: &str| read(&format!("name = 'a'\nvalues = {values}")).unwrap().axis();
        assert_eq!(axis("['20/s', '40/s']"), Some(("a [1/s]".to_owned(), vec![20.0, 40.0])));
        assert_eq!(axis("['512KiB', '1MiB']"), Some(("a [KiB]".to_owned(), vec![512.0, 1024.0])));
        assert_eq!(axis("[1, 2]"), Some(("a".to_owned(), vec![1.0, 2.0])));
        assert_eq!(axis("['fcfs', 'sptf']"), None);
        assert_eq!(axis("[true, false]"), None);
    }
}
