//! Figures with six decimals: to the nanosecond in milliseconds, and legible in JSON.

/// `value` rounded to six decimals; what is not finite becomes zero.
pub(crate) fn six_decimals(value: f64) -> f64 {
    let rounded = (value * 1e6).round() / 1e6;
    if rounded.is_finite() && rounded != 0.0 { rounded } else { 0.0 }
}

/// `part` in percent of `whole`, `None` if there is no whole.
pub(crate) fn percent(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| six_decimals(part / whole * 100.0))
}
