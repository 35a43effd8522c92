//! Numbers for people: one unit and one number of decimals per column, thousands apart.

/// The unit of the response times of a report: the one in which the typical times read best.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct TimeUnit {
    pub(crate) name: &'static str,
    per_ms: f64,
    seconds: f64,
}

impl TimeUnit {
    const US: Self = Self { name: "µs", per_ms: 1e3, seconds: 1e-6 };
    pub(crate) const MS: Self = Self { name: "ms", per_ms: 1.0, seconds: 1e-3 };
    const S: Self = Self { name: "s", per_ms: 1e-3, seconds: 1.0 };

    /// The unit for times like these, in milliseconds: that of the longest.
    pub(crate) fn of_ms(times_ms: impl Iterator<Item = f64>) -> Self {
        match times_ms.fold(0.0, f64::max) {
            longest if longest <= 0.0 => Self::MS,
            longest if longest < 1.0 => Self::US,
            longest if longest < 10_000.0 => Self::MS,
            _ => Self::S,
        }
    }

    /// The unit for the axis of a run that lasts `seconds`.
    pub(crate) fn of_s(seconds: f64) -> Self {
        match seconds {
            s if s >= 1.0 => Self::S,
            s if s >= 1e-3 => Self::MS,
            _ => Self::US,
        }
    }

    /// `ms` in this unit.
    pub(crate) fn scale_ms(self, ms: f64) -> f64 {
        ms * self.per_ms
    }

    /// `seconds` in this unit.
    pub(crate) fn scale_s(self, seconds: f64) -> f64 {
        seconds / self.seconds
    }
}

/// Formats the values of one column with the same number of decimals: enough for three significant digits of
/// the smallest value, at most three, and fewer beside large values. An absent value becomes a dash.
pub(crate) fn column(values: &[Option<f64>]) -> Vec<String> {
    let smallest = values.iter().flatten().map(|value| value.abs()).filter(|value| *value >= 5e-4);
    let smallest = smallest.fold(f64::INFINITY, f64::min);
    let largest = values.iter().flatten().map(|value| value.abs()).fold(0.0, f64::max);
    let by_smallest = match smallest {
        value if value < 9.995 => 3,
        value if value < 99.95 => 2,
        value if value < 999.5 => 1,
        _ => 0,
    };
    let by_largest = match largest {
        value if value < 999.5 => 3,
        value if value < 9_999.5 => 2,
        value if value < 99_999.5 => 1,
        _ => 0,
    };
    let decimals = by_smallest.min(by_largest);
    values.iter().map(|value| value.map_or_else(|| "–".to_owned(), |value| fixed(value, decimals))).collect()
}

/// `value` with `decimals` decimals and thousands apart.
pub(crate) fn fixed(value: f64, decimals: usize) -> String {
    let text = format!("{:.decimals$}", value.abs());
    let (whole, fraction) = text.split_once('.').map_or((text.as_str(), ""), |(w, f)| (w, f));
    let is_zero = text.bytes().all(|byte| byte == b'0' || byte == b'.');
    let sign = if value < 0.0 && !is_zero { "-" } else { "" };
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{}{point}{fraction}", group(whole))
}

/// A count with thousands apart.
pub(crate) fn count(value: u64) -> String {
    group(&value.to_string())
}

fn group(digits: &str) -> String {
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `value` to six significant digits, for plots.
pub(crate) fn plotted(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let places = 5 - value.abs().log10().floor() as i32;
    // A power of ten below 1 is not exact, so the scale is always a whole number.
    if places >= 0 {
        let scale = 10_f64.powi(places);
        (value * scale).round() / scale
    } else {
        let scale = 10_f64.powi(-places);
        (value / scale).round() * scale
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn column_has_one_number_of_decimals() {
        assert_eq!(column(&[Some(12.3456), None, Some(1_234.5)]), ["12.35", "–", "1,234.50"]);
        assert_eq!(column(&[Some(0.0), Some(0.0851)]), ["0.000", "0.085"]);
        assert_eq!(column(&[Some(99_999.6)]), ["100,000"]);
        assert_eq!(fixed(-0.0004, 3), "0.000");
        assert_eq!(fixed(-1_234.5, 1), "-1,234.5");
        assert_eq!(count(1_000_000), "1,000,000");
    }

    #[test]
    fn unit_is_chosen_by_the_longest_time() {
        let name = |times: &[f64]| TimeUnit::of_ms(times.iter().copied()).name;
        assert_eq!(name(&[0.08, 0.3]), "µs");
        assert_eq!(name(&[0.08, 12.0]), "ms");
        assert_eq!(name(&[30_000.0]), "s");
        assert_eq!(name(&[]), "ms");
    }

    #[test]
    fn plotted_values_are_short() {
        assert_eq!(plotted(1.0 / 3.0), 0.333333);
        assert_eq!(plotted(123_456_789.0), 123_457_000.0);
        assert_eq!(plotted(0.0), 0.0);
    }
}
