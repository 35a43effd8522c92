//! Popularity of the places of a fio job with random offsets.
//!
//! ```text
//! zipf, pareto, normal:  rank ─▶ hash ─▶ + base ─▶ place        zoned, zoned_abs:  zone ─▶ place in the zone
//! ```
//! # Scope and limits
//! fio scatters the ranks by a hash, also those of `normal`, so popular places are no neighbours. Two ranks may meet in one place
//! where the number of places is no power of two. The random base of `zipf` and `pareto` is another one than in fio.
//!
//! # References
//! fio 3.33, HOWTO.rst, `random_distribution`; lib/zipf.c, lib/gauss.c. Zipf: J. Gray et al., Quickly generating billion-record
//! synthetic databases, SIGMOD 1994, section 3.2.

use seeklab_core::Stream;
use serde::{Deserialize, Serialize};

use super::file::number;

/// Terms of the harmonic sum at most; fio has as many.
const TERMS_MAX: u64 = 10_000_000;
/// Uniform numbers whose mean is close to normal.
const UNIFORMS: u64 = 12;
/// Zones at most.
const ZONES_MAX: usize = 256;
/// 2^64 divided by the golden ratio, odd: the multiplier of Fibonacci hashing.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Popularity of places.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FioDistribution {
    /// The popularity of rank *k* falls with *k*^-`theta`.
    Zipf {
        /// The exponent, above 0 and not 1.
        theta: f64,
        /// Place of the first rank before the hash, as a share of all places; random without.
        base: Option<f64>,
    },
    /// The share `h` of the requests falls to the share 1 - `h` of the places that is most popular.
    Pareto {
        /// Between 0 and 1.
        h: f64,
        /// As that of `Zipf`.
        base: Option<f64>,
    },
    /// The popularity of ranks is close to normal.
    Normal {
        /// Percentage of the places by which a draw is moved, evenly to either side.
        spread_pct: f64,
        /// Place of the middle before the hash, as a share of all places.
        base: Option<f64>,
    },
    /// Zones with shares of the requests, from the first place on.
    Zoned(Vec<FioZone>),
}

/// A zone.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FioZone {
    /// Share of the requests, from 0 to 1.
    share: f64,
    /// Its length.
    length: ZoneLength,
}

/// Length of a zone.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ZoneLength {
    /// Share of all places, from 0 to 1.
    Share(f64),
    Bytes(u64),
}

/// Text of a zone: percentage of the requests, and length; each may be absent.
type ZoneText<'a> = (Option<f64>, Option<&'a str>);

impl FioDistribution {
    /// Reads the value of `random_distribution`; `None` of `random`.
    ///
    /// # Errors
    /// A mistake in it.
    pub(super) fn read(text: &str, kb_base: u64) -> Result<Option<Self>, String> {
        if text.contains(',') {
            return Err("distributions of reads and writes: one for both is allowed".to_owned());
        }
        let (name, values) = text.split_once([':', '=']).unwrap_or((text, ""));
        let read = |value: &str| value.trim().parse::<f64>().ok().filter(|value| value.is_finite());
        let value_and_base = |allowed: &str, is_allowed: fn(f64) -> bool| {
            let (value, base) = values.split_once(':').map_or((values, None), |(one, two)| (one, Some(two)));
            let value = read(value).filter(|value| is_allowed(*value));
            let value = value.ok_or_else(|| format!("{name} goes with a number {allowed}"))?;
            let base = base.map(|base| read(base).filter(|base| (0.0..=1.0).contains(base)).ok_or(base));
            let base = base.transpose().map_err(|base| format!("the base `{base}` is not from 0 to 1"))?;
            Ok::<_, String>((value, base))
        };
        Ok(Some(match name {
            "random" => return Ok(None),
            "zipf" => {
                let is_allowed = |theta: f64| theta > 0.0 && theta <= 100.0 && theta != 1.0;
                let (theta, base) =
                    value_and_base("above 0, at most 100 and not 1, as in zipf:1.2", is_allowed)?;
                Self::Zipf { theta, base }
            }
            "pareto" => {
                let (h, base) = value_and_base("between 0 and 1, as in pareto:0.2", |h| h > 0.0 && h < 1.0)?;
                Self::Pareto { h, base }
            }
            "normal" => {
                let is_allowed = |spread: f64| (0.0..=100.0).contains(&spread);
                let (spread_pct, base) = value_and_base("from 0 to 100, as in normal:20", is_allowed)?;
                Self::Normal { spread_pct, base }
            }
            "zoned" => Self::Zoned(shared_zones(&zone_texts(values)?)?),
            "zoned_abs" => Self::Zoned(sized_zones(&zone_texts(values)?, kb_base)?),
            _ => return Err("random, zipf, pareto, normal, zoned and zoned_abs are allowed".to_owned()),
        }))
    }

    /// The places of a job that has so many, each of so many bytes.
    pub(super) fn sampler(&self, places: u64, place_bytes: u64, stream: &mut Stream) -> Sampler {
        let count = places as f64;
        let mut at = |base: &Option<f64>| match base {
            Some(base) => (count * base) as u64,
            None => stream.bits(),
        };
        let form = match self {
            Self::Zipf { theta, base } => {
                let sum: f64 = (1..=places.min(TERMS_MAX)).map(|rank| (rank as f64).powf(-theta)).sum();
                let two = 1.0 + 0.5_f64.powf(*theta);
                let eta = (1.0 - (2.0 / count).powf(1.0 - theta)) / (1.0 - two / sum);
                Form::Zipf { sum, two, eta, power: 1.0 / (1.0 - theta), base: at(base) }
            }
            Self::Pareto { h, base } => Form::Pareto { power: h.ln() / (1.0 - h).ln(), base: at(base) },
            Self::Normal { spread_pct, base } => {
                let spread = ((count * spread_pct / 100.0).ceil() as u64).min(places / 2);
                let base = base.map_or(0, |base| (count * (base - 0.5)) as i64);
                Form::Normal { spread, base: base.rem_euclid(places.max(1) as i64) as u64 }
            }
            Self::Zoned(zones) => {
                let mut first = 0;
                let zones = zones.iter().map(|zone| {
                    let length = match zone.length {
                        ZoneLength::Share(share) => (count * share).round() as u64,
                        ZoneLength::Bytes(bytes) => bytes / place_bytes,
                    };
                    let begin = first.min(places - 1);
                    first = begin.saturating_add(length.max(1)).min(places);
                    (zone.share, begin, first - begin)
                });
                Form::Zoned(zones.collect())
            }
        };
        Sampler { places, form }
    }
}

/// Zones as fio writes them: `60/10:30/20:10/70`.
fn zone_texts(text: &str) -> Result<Vec<ZoneText<'_>>, String> {
    let zone = |part| {
        let (requests, length): (&str, &str) =
            str::split_once(part, '/').ok_or_else(|| format!("`{part}` is no zone such as 60/10"))?;
        let requests = percentage(requests).map_err(|problem| format!("zone `{part}`: {problem}"))?;
        Ok::<_, String>((requests, Some(length.trim()).filter(|length| !length.is_empty())))
    };
    let zones: Vec<ZoneText<'_>> = text.split(':').map(zone).collect::<Result<_, _>>()?;
    if zones.len() > ZONES_MAX {
        return Err(format!("has {} zones; at most {ZONES_MAX} are allowed", zones.len()));
    }
    Ok(zones)
}

/// A percentage; `None` of nothing.
fn percentage(text: &str) -> Result<Option<f64>, String> {
    match text.trim().trim_end_matches('%') {
        "" => Ok(None),
        digits => match digits.parse::<f64>() {
            Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(Some(percent)),
            _ => Err(format!("`{digits}` is no percentage from 0 to 100")),
        },
    }
}

/// Shares that sum to one: those that are absent have equal parts of the rest.
fn shares(percentages: &[Option<f64>], of: &str) -> Result<Vec<f64>, String> {
    let given: f64 = percentages.iter().flatten().sum();
    let absent = percentages.iter().filter(|share| share.is_none()).count();
    if given > 100.0 + 1e-9 || (absent == 0 && given < 100.0 - 1e-9) {
        return Err(format!("the zones have {given} % of the {of}"));
    }
    let rest = (100.0 - given) / absent.max(1) as f64;
    Ok(percentages.iter().map(|percent| percent.unwrap_or(rest) / 100.0).collect())
}

/// Zones of percentages of the places.
fn shared_zones(zones: &[ZoneText<'_>]) -> Result<Vec<FioZone>, String> {
    let requests: Vec<Option<f64>> = zones.iter().map(|(requests, _)| *requests).collect();
    let lengths: Vec<Option<f64>> =
        zones.iter().map(|(_, length)| percentage(length.unwrap_or_default())).collect::<Result<_, _>>()?;
    let (requests, lengths) = (shares(&requests, "requests")?, shares(&lengths, "space")?);
    let zone = |(share, length)| FioZone { share, length: ZoneLength::Share(length) };
    Ok(requests.into_iter().zip(lengths).map(zone).collect())
}

/// Zones of bytes.
fn sized_zones(zones: &[ZoneText<'_>], kb_base: u64) -> Result<Vec<FioZone>, String> {
    let requests: Vec<Option<f64>> = zones.iter().map(|(requests, _)| *requests).collect();
    let zone = |(share, (_, length)): (f64, &ZoneText<'_>)| {
        let bytes = length.and_then(|length| number(length, kb_base)).filter(|bytes| *bytes > 0);
        let bytes = bytes.ok_or_else(|| format!("`{}` is no size of a zone", length.unwrap_or_default()))?;
        Ok(FioZone { share, length: ZoneLength::Bytes(bytes) })
    };
    shares(&requests, "requests")?.into_iter().zip(zones).map(zone).collect()
}

/// Places of a job, drawn by their popularity.
#[derive(Debug, Clone)]
pub(super) struct Sampler {
    places: u64,
    form: Form,
}

#[derive(Debug, Clone)]
enum Form {
    Zipf {
        sum: f64,
        two: f64,
        eta: f64,
        power: f64,
        base: u64,
    },
    Pareto {
        power: f64,
        base: u64,
    },
    Normal {
        spread: u64,
        base: u64,
    },
    /// Shares of the requests, first places and numbers of places.
    Zoned(Vec<(f64, u64, u64)>),
}

impl Sampler {
    /// A place, from 0.
    pub(super) fn draw(&self, stream: &mut Stream) -> u64 {
        let places = self.places as f64;
        let (rank, base) = match &self.form {
            Form::Zipf { sum, two, eta, power, base } => {
                let unit = stream.unit();
                let rank = match unit * sum {
                    scaled if scaled < 1.0 => 0,
                    scaled if scaled < *two => 1,
                    _ => (places * (eta * unit - eta + 1.0).powf(*power)) as u64,
                };
                (rank, base)
            }
            Form::Pareto { power, base } => (((places - 1.0) * stream.unit().powf(*power)) as u64, base),
            Form::Normal { spread, base } => {
                let sum: u64 = (0..UNIFORMS).map(|_| stream.below(self.places + 1)).sum();
                let rank = sum.div_ceil(UNIFORMS) as i64;
                let mut moved = (*spread as f64 * stream.unit()) as i64 - (*spread / 2) as i64;
                while !(0..self.places as i64).contains(&(rank + moved)) && moved != 0 {
                    moved /= 2;
                }
                ((rank + moved) as u64, base)
            }
            Form::Zoned(zones) => {
                let mut unit = stream.unit();
                let chosen = zones.iter().find(|(share, ..)| {
                    let is_here = unit < *share;
                    unit -= share;
                    is_here
                });
                let (_, first, length) = chosen.or(zones.last()).copied().unwrap_or((1.0, 0, self.places));
                return first + stream.below(length);
            }
        };
        rank.wrapping_mul(GOLDEN).wrapping_add(*base) % self.places
    }
}
