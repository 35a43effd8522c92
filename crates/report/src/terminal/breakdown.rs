//! Composition of the response time: a bar per device, with a texture for each part.

use super::shortened;
use crate::document::DeviceSection;
use crate::number::{TimeUnit, column};
use crate::text::listed;

/// Characters of a bar.
const BAR_WIDTH: usize = 42;
const NAME_WIDTH: usize = 22;

/// The texture of each part, in the order of the breakdown.
const TEXTURES: [char; 9] = ['░', '▁', '█', '▚', '▞', '▒', '▄', '═', '╳'];

/// Bars of the devices whose breakdown is known; nothing if there are none.
pub(super) fn render(devices: &[DeviceSection]) -> String {
    let known: Vec<_> = devices
        .iter()
        .filter_map(|device| device.summary.breakdown.map(|breakdown| (device, breakdown)))
        .filter(|(_, breakdown)| breakdown.total_ms() > 0.0)
        .collect();
    if known.is_empty() {
        return String::new();
    }
    let unit = TimeUnit::of_ms(known.iter().map(|(_, breakdown)| breakdown.total_ms()));
    let means: Vec<Option<f64>> =
        known.iter().map(|(_, breakdown)| Some(unit.scale_ms(breakdown.total_ms()))).collect();
    let means = column(&means);
    let name_width =
        known.iter().map(|(device, _)| device.name.chars().count().min(NAME_WIDTH)).max().unwrap_or(0);
    let mean_width = means.iter().map(|mean| mean.chars().count()).max().unwrap_or(0);
    let mut lines = vec!["where the time goes (share of the mean response time)".to_owned()];
    let mut used = [false; TEXTURES.len()];
    for ((device, breakdown), mean) in known.iter().zip(&means) {
        let shares = breakdown.shares_pct().map(|(_, share)| share);
        for (used, share) in used.iter_mut().zip(shares) {
            *used |= share > 0.0;
        }
        let name = shortened(&device.name, NAME_WIDTH);
        lines.push(format!("{name:name_width$}  {}  {mean:>mean_width$} {}", bar(&shares), unit.name));
        let mut largest: Vec<(&str, f64)> =
            breakdown.shares_pct().into_iter().filter(|(_, share)| *share >= 0.5).collect();
        largest.sort_by(|a, b| b.1.total_cmp(&a.1));
        let parts =
            largest.iter().take(5).map(|(name, share)| format!("{} {share:.0} %", name.replace('_', " ")));
        lines.push(listed(&format!("{:name_width$}  ", ""), parts));
    }
    let names = known[0].1.parts_ms().map(|(name, _)| name.replace('_', " "));
    let legend = names.iter().zip(TEXTURES).zip(used).filter(|(_, used)| *used);
    let legend: Vec<String> = legend.map(|((name, texture), _)| format!("{texture} {name}")).collect();
    lines.push(listed(&format!("{:name_width$}  ", ""), legend));
    lines.join("\n")
}

/// A bar of exactly `BAR_WIDTH` characters; rounding cumulates, so the parts always fill it.
fn bar(shares_pct: &[f64; 9]) -> String {
    let mut bar = String::new();
    let (mut share, mut drawn) = (0.0, 0);
    for (part, texture) in shares_pct.iter().zip(TEXTURES) {
        share += part;
        let end = ((share / 100.0 * BAR_WIDTH as f64).round() as usize).min(BAR_WIDTH);
        bar.extend(std::iter::repeat_n(texture, end - drawn));
        drawn = end;
    }
    bar
}
