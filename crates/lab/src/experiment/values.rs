//! The values of a parameter: a list or a range, and where they lie on an axis.

use seeklab_columnar::{ColumnValues, TableColumn};
use seeklab_core::{ByteSize, DataRate, DescriptionError, Mistake, Ratio, RotationSpeed, SignedDuration};
use seeklab_workloads::Rate;
use toml::Value;

use super::file::{ParameterTable, Scalar, Scale};

/// The largest count of a range, exact as a float.
const COUNT_MAX: i64 = 1 << 53;

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
    /// Reads a table `[[parameters]]`; errors have the key in it.
    pub(super) fn read(table: ParameterTable) -> Result<Self, DescriptionError> {
        let ParameterTable { name, values, from, to, steps, scale } = table;
        let range_key = [
            ("from", from.is_some()),
            ("to", to.is_some()),
            ("steps", steps.is_some()),
            ("scale", scale.is_some()),
        ]
        .into_iter()
        .find_map(|(key, is_given)| is_given.then_some(key));
        let values = match (values, range_key) {
            (Some(_), Some(key)) => {
                return Err(DescriptionError::invalid(key, "cannot be beside `values`")
                    .hint("give a list or a range"));
            }
            (Some(values), None) => values.into_iter().map(|Scalar(value)| value).collect(),
            (None, Some(_)) => range(from, to, steps, scale)?,
            (None, None) => {
                return Err(DescriptionError::new(Mistake::Missing, "values", "is missing")
                    .hint("write for example values = [\"5400rpm\", \"7200rpm\"]"));
            }
        };
        check_distinct(&values)?;
        Ok(Self { name, values })
    }

    /// Name and values of the column in the table of results, of the values at these steps.
    ///
    /// Values of one quantity are numbers, and the name ends in their unit.
    pub(super) fn column(&self, name: &str, steps: impl Iterator<Item = usize>) -> TableColumn {
        let (unit, numbers) = self.numbers().unwrap_or(("", Numbers::Text));
        let is_named = unit.is_empty() || name.ends_with(&format!("_{unit}")) || last_part(name) == unit;
        let name = if is_named { name.to_owned() } else { format!("{name}_{unit}") };
        let values = match numbers {
            Numbers::Counts(counts) => ColumnValues::Counts(steps.map(|step| counts[step]).collect()),
            Numbers::Floats(floats) => ColumnValues::Numbers(steps.map(|step| Some(floats[step])).collect()),
            Numbers::Text => ColumnValues::Text(steps.map(|step| text_of(&self.values[step])).collect()),
        };
        TableColumn { name, values }
    }

    /// Unit and numbers of the values, `None` where they are not of one quantity.
    fn numbers(&self) -> Option<(&'static str, Numbers)> {
        let counts = self.values.iter().map(|value| u64::try_from(value.as_integer()?).ok());
        if let Some(counts) = counts.collect::<Option<Vec<u64>>>() {
            return Some(("", Numbers::Counts(counts)));
        }
        let plain = |value: &Value| match value {
            Value::Integer(number) => Some(*number as f64),
            Value::Float(number) => Some(*number),
            Value::String(text) => text.trim().parse::<f64>().ok(),
            _ => None,
        };
        if let Some(floats) = self.values.iter().map(plain).collect::<Option<Vec<f64>>>() {
            return Some(("", Numbers::Floats(floats)));
        }
        let texts: Vec<&str> = self.values.iter().map(Value::as_str).collect::<Option<_>>()?;
        let counts =
            |read: fn(&str) -> Option<u64>| texts.iter().map(|text| read(text)).collect::<Option<_>>();
        let floats = |read: Place| texts.iter().map(|text| read(text)).collect::<Option<_>>();
        let [bytes, ms, per_s, bytes_per_s, rpm, pct] = QUANTITIES.map(|(_, suffix, _)| suffix);
        let size = |text: &str| Some(text.parse::<ByteSize>().ok()?.as_bytes());
        let rate = |text: &str| Some(text.parse::<DataRate>().ok()?.as_bytes_per_s());
        counts(size)
            .map(|counts| (bytes, Numbers::Counts(counts)))
            .or_else(|| Some((bytes_per_s, Numbers::Counts(counts(rate)?))))
            .or_else(|| Some((ms, Numbers::Floats(floats(milliseconds)?))))
            .or_else(|| Some((per_s, Numbers::Floats(floats(per_second)?))))
            .or_else(|| Some((rpm, Numbers::Floats(floats(revolutions)?))))
            .or_else(|| Some((pct, Numbers::Floats(floats(percent)?))))
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
            ("ms", milliseconds),
            ("1/s", per_second),
        ];
        kinds.into_iter().find_map(|(unit, read)| Some((format!("{} [{unit}]", self.name), all(read)?)))
    }
}

/// Quantities whose values become numbers in the table of results: values, suffix of the column, example.
pub(super) const QUANTITIES: [(&str, &str, &str); 6] = [
    ("sizes", "bytes", "`workload.size_bytes`"),
    ("durations", "ms", "`workload.arrivals.think_ms`"),
    ("rates of requests", "per_s", "`workload.arrivals.rate_per_s`"),
    ("rates of bytes", "bytes_per_s", "`bytes[0].rate_bytes_per_s`"),
    ("rotation speeds", "rpm", "`mechanics.rpm`"),
    ("ratios", "pct", "`workload.read_pct`"),
];

/// Values of a parameter as the table of results has them.
enum Numbers {
    Counts(Vec<u64>),
    Floats(Vec<f64>),
    Text,
}

fn milliseconds(text: &str) -> Option<f64> {
    text.parse::<SignedDuration>().ok().map(|time| time.as_ns() as f64 / 1e6)
}

fn per_second(text: &str) -> Option<f64> {
    text.parse::<Rate>().ok().map(Rate::as_per_s)
}

fn revolutions(text: &str) -> Option<f64> {
    text.parse::<RotationSpeed>().ok().map(RotationSpeed::as_rpm)
}

/// A ratio in percent, to twelve decimal places, so that `66%` is 66.
fn percent(text: &str) -> Option<f64> {
    text.parse::<Ratio>().ok().map(|ratio| (ratio.as_f64() * 1e14).round() / 1e12)
}

fn last_part(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// Refuses a value that stands twice in the list.
fn check_distinct(values: &[Value]) -> Result<(), DescriptionError> {
    for (index, value) in values.iter().enumerate() {
        if values[..index].iter().any(|other| text_of(other) == text_of(value)) {
            let problem = format!("`{}` is there twice", text_of(value));
            return Err(
                DescriptionError::invalid(format!("values[{index}]"), problem).hint("remove one of them")
            );
        }
    }
    Ok(())
}

/// The values of `from`, `to`, `steps` and `scale`.
fn range(
    from: Option<Scalar>,
    to: Option<Scalar>,
    steps: Option<u64>,
    scale: Option<Scale>,
) -> Result<Vec<Value>, DescriptionError> {
    let missing = |key: &str, example: &str| {
        DescriptionError::new(Mistake::Missing, key, "is missing")
            .hint(format!("write for example {key} = {example}"))
    };
    let steps = steps.ok_or_else(|| missing("steps", "5"))?;
    let is_log = scale == Some(Scale::Logarithmic);
    let (from, unit) = end(from.ok_or_else(|| missing("from", "\"20/s\""))?, "from")?;
    let (to, to_unit) = end(to.ok_or_else(|| missing("to", "\"80/s\""))?, "to")?;
    if unit != to_unit {
        let named = |unit: &Option<String>| {
            unit.as_ref().map_or("no unit".to_owned(), |unit| format!("the unit `{unit}`"))
        };
        let problem = format!("has {}, but `from` has {}", named(&to_unit), named(&unit));
        return Err(DescriptionError::invalid("to", problem).hint("write both ends in one unit"));
    }
    if is_log && !(from > 0.0 && to > 0.0) {
        return Err(DescriptionError::invalid("scale", "a logarithmic range lies above 0"));
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
        return Err(DescriptionError::invalid("steps", "the range has fewer values")
            .hint("write a smaller number of steps"));
    }
    Ok(values)
}

/// One end of a range: its number and unit, `None` of a count.
fn end(value: Scalar, key: &str) -> Result<(f64, Option<String>), DescriptionError> {
    let text = match value.0 {
        Value::Integer(count) if (0..=COUNT_MAX).contains(&count) => return Ok((count as f64, None)),
        Value::String(text) => text,
        other => {
            let allowed = format!("a quantity such as \"20/s\", or a whole number from 0 to {COUNT_MAX}");
            return Err(DescriptionError::refused(key, other.to_string(), allowed));
        }
    };
    match split(&text) {
        Some((_, "")) => Err(DescriptionError::invalid(key, format!("\"{text}\" has no unit"))
            .hint(format!("write a quantity, for example \"{text}ms\", or a count without quotes"))),
        Some((number, unit)) => Ok((number, Some(unit.to_owned()))),
        None => Err(DescriptionError::invalid(key, format!("\"{text}\" is not a number with its unit"))
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
    use seeklab_core::description;

    use super::*;

    fn read(toml: &str) -> Result<Parameter, String> {
        let table = toml.parse().unwrap();
        let declared: ParameterTable = description::read(&table).map_err(|error| error.to_string())?;
        Parameter::read(declared).map_err(|error| error.to_string())
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
            "to: has the unit `ms`, but `from` has the unit `/s`"
        );
        assert!(wrong("name = 'a'\nfrom = '20'\nto = '80'\nsteps = 4").contains("from: \"20\" has no unit"));
        assert!(
            wrong("name = 'a'\nfrom = 1\nto = 3\nsteps = 9").contains("steps: the range has fewer values")
        );
        assert!(wrong("name = 'a'\nvalues = ['1ms']\nto = '2ms'").contains("to: cannot be beside `values`"));
        assert!(wrong("name = 'a'\nvalues = ['1ms', '1ms']").contains("values[1]: `1ms` is there twice"));
    }

    #[test]
    fn values_of_one_quantity_are_numbers_with_the_unit_in_the_name() {
        let column = |name: &str, values: &str| {
            let parameter = read(&format!("name = '{name}'\nvalues = {values}")).unwrap();
            let TableColumn { name, values } = parameter.column(name, [1, 0, 1].into_iter());
            (name, values)
        };
        let counts = |name: &str, counts: [u64; 3]| (name.to_owned(), ColumnValues::Counts(counts.to_vec()));
        let floats = |name: &str, floats: [f64; 3]| {
            (name.to_owned(), ColumnValues::Numbers(floats.map(Some).to_vec()))
        };
        let texts = |name: &str, texts: [&str; 3]| {
            (name.to_owned(), ColumnValues::Text(texts.map(str::to_owned).to_vec()))
        };
        assert_eq!(column("w.size", "['8KiB', '1MB']"), counts("w.size_bytes", [1_000_000, 8192, 1_000_000]));
        assert_eq!(column("w.rate", "['20/s', '60/min']"), floats("w.rate_per_s", [1.0, 20.0, 1.0]));
        assert_eq!(
            column("b.rate", "['1MB/s', '2MB/s']"),
            counts("b.rate_bytes_per_s", [2_000_000, 1_000_000, 2_000_000])
        );
        assert_eq!(column("write_settle", "['-500us', '1ms']"), floats("write_settle_ms", [1.0, -0.5, 1.0]));
        assert_eq!(
            column("mechanics.rpm", "['5400rpm', '7200rpm']"),
            floats("mechanics.rpm", [7200.0, 5400.0, 7200.0])
        );
        assert_eq!(column("w.read", "['66%', '1/2']"), floats("w.read_pct", [50.0, 66.0, 50.0]));
        assert_eq!(column("depth", "[1, 8]"), counts("depth", [8, 1, 8]));
        assert_eq!(column("zipf", "[0.5, 2]"), floats("zipf", [2.0, 0.5, 2.0]));
        assert_eq!(
            column("order", "['scattered', 'ascending']"),
            texts("order", ["ascending", "scattered", "ascending"])
        );
        assert_eq!(column("flag", "[true, false]"), texts("flag", ["false", "true", "false"]));
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
