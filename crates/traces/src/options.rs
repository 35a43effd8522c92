//! Options of a format, for properties that the format leaves open.
//!
//! Units, polarity, byte order, sector sizes and codes of operations that a format does not fix are
//! [`FormatOption`]s with a stated default, never a silent guess. The user's values ([`Setting`], on the
//! command line `--format-option NAME=VALUE`) are checked against the options of the chosen format.
//! [`OpenTrace::applied`](crate::OpenTrace::applied) lists the values that were used.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use seeklab_core::ByteSize;
use seeklab_core::names::near;

use crate::error::{Problem, TraceError};
use crate::trace_format::{ReadOptions, TraceFormat};

/// Something that a format leaves open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FormatOption {
    /// Its name: lower-case letters and `-`.
    pub name: &'static str,
    /// Allowed values.
    pub allowed: Allowed,
    /// Default value. It is allowed even if [`allowed`](Self::allowed) does not contain it: a word such as
    /// `header` then stands for the value in the trace itself.
    pub default: &'static str,
    /// Meaning of the option, in one line.
    pub meaning: &'static str,
}

/// The values of a [`FormatOption`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allowed {
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A whole number from the first to the second, both included.
    Number(u64, u64),
    /// A size with its unit, such as `256B`; at least one byte.
    Size,
}

/// An option as the user settled it: `NAME=VALUE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Name of the option.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// An option of a trace that was opened, with the value that was used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// Name of the option.
    pub name: &'static str,
    /// The value.
    pub value: String,
    /// True if the user gave the value, false if it is the default.
    pub is_explicit: bool,
    /// Meaning of the option.
    pub meaning: &'static str,
}

/// Information about a request or a trace that a format lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum MissingColumn {
    /// Times of arrival. The format has no times at all.
    ArrivalTimes,
    /// Arrival times finer than a second.
    FineTimes,
    /// Rows in order of arrival; they are sorted within a window.
    ArrivalOrder,
    /// Times of completion.
    ResponseTimes,
    /// Operations of the requests.
    Operations,
    /// Lengths of requests.
    Lengths,
    /// Devices that the requests address.
    Devices,
}

impl MissingColumn {
    /// Returns the name of the missing information, for programs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ArrivalTimes => "arrival_times",
            Self::FineTimes => "fine_times",
            Self::ArrivalOrder => "arrival_order",
            Self::ResponseTimes => "response_times",
            Self::Operations => "operations",
            Self::Lengths => "lengths",
            Self::Devices => "devices",
        }
    }
}

impl fmt::Display for MissingColumn {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::ArrivalTimes => "arrival times",
            Self::FineTimes => "times finer than a second",
            Self::ArrivalOrder => "rows in order of arrival",
            Self::ResponseTimes => "response times",
            Self::Operations => "operations",
            Self::Lengths => "lengths of requests",
            Self::Devices => "devices",
        })
    }
}

impl FromStr for Setting {
    type Err = String;

    /// Reads `NAME=VALUE`.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((name, value)) if !name.trim().is_empty() && !value.trim().is_empty() => {
                Ok(Self { name: name.trim().to_owned(), value: value.trim().to_owned() })
            }
            _ => Err(
                "write NAME=VALUE, for example `byte-order=big`; `seeklab trace formats` lists the options"
                    .to_owned(),
            ),
        }
    }
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::OneOf(words) => f.write_str(&words.join("|")),
            Self::Number(low, high) => write!(f, "{low} to {high}"),
            Self::Size => f.write_str("a size such as 256B"),
        }
    }
}

impl FormatOption {
    /// The value that `options` settle, else the default.
    ///
    /// # Errors
    /// If it is not allowed.
    pub fn text<'a>(&self, options: &'a ReadOptions) -> Result<&'a str, TraceError> {
        let setting = options.settings.iter().rev().find(|setting| setting.name == self.name);
        let value = setting.map_or(self.default, |setting| &setting.value);
        if self.allows(value) { Ok(value) } else { Err(TraceError::invalid(self.problem(value))) }
    }

    /// The value as a number; `None` where it is a default that is no number.
    ///
    /// # Errors
    /// If it is not allowed.
    pub fn number(&self, options: &ReadOptions) -> Result<Option<u64>, TraceError> {
        Ok(number(self.text(options)?))
    }

    /// The value as a size; `None` where it is a default that is no size.
    ///
    /// # Errors
    /// If it is not allowed.
    pub fn size(&self, options: &ReadOptions) -> Result<Option<ByteSize>, TraceError> {
        Ok(self.text(options)?.parse().ok())
    }

    fn allows(&self, value: &str) -> bool {
        value == self.default
            || match self.allowed {
                Allowed::OneOf(words) => words.contains(&value),
                Allowed::Number(low, high) => {
                    number(value).is_some_and(|number| (low..=high).contains(&number))
                }
                Allowed::Size => value.parse().is_ok_and(|size: ByteSize| size.as_bytes() > 0),
            }
    }

    fn problem(&self, value: &str) -> Box<Problem> {
        let own = match self.allowed {
            Allowed::OneOf(words) if words.contains(&self.default) => String::new(),
            Allowed::Number(..) | Allowed::Size if number(self.default).is_some() => String::new(),
            _ => format!(" or `{}`", self.default),
        };
        Problem::new(
            format!("format option `{}`", self.name),
            value,
            format!("{}{own} is allowed; {}", self.allowed, self.meaning),
        )
    }
}

/// A whole number, decimal or hexadecimal with `0x`.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Checks what the user settled against the options of `format`; what holds then.
///
/// # Errors
/// If the format has no such option, or the value is not allowed.
pub(crate) fn apply(format: &dyn TraceFormat, options: &ReadOptions) -> Result<Vec<Applied>, TraceError> {
    let known = format.options();
    for setting in &options.settings {
        if !known.iter().any(|option| option.name == setting.name) {
            return Err(unknown(format, setting));
        }
    }
    known
        .iter()
        .map(|option| {
            let value = option.text(options)?.to_owned();
            let is_explicit = options.settings.iter().any(|setting| setting.name == option.name);
            Ok(Applied { name: option.name, value, is_explicit, meaning: option.meaning })
        })
        .collect()
}

#[cold]
fn unknown(format: &dyn TraceFormat, setting: &Setting) -> TraceError {
    let names = || format.options().iter().map(|option| option.name);
    let listed = names().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let problem: Cow<'static, str> = match listed.is_empty() {
        true => format!("the format `{}` has no options", format.name()).into(),
        false => format!("the format `{}` has the options {listed}", format.name()).into(),
    };
    let hint = match near(&setting.name, names()).first() {
        Some(near) => format!("did you mean `{near}`?"),
        None => "`seeklab trace formats` lists the options of every format".to_owned(),
    };
    TraceError::invalid(Problem::new("format option", &setting.name, problem).hint(hint))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FORMATS;

    const ORDER: FormatOption = FormatOption {
        name: "byte-order",
        allowed: Allowed::OneOf(&["little", "big"]),
        default: "little",
        meaning: "byte order of the records",
    };
    const SECTOR: FormatOption =
        FormatOption { name: "sector-size", allowed: Allowed::Size, default: "header", meaning: "sectors" };
    const CODE: FormatOption =
        FormatOption { name: "read-code", allowed: Allowed::Number(0, 255), default: "0", meaning: "reads" };

    fn with(settings: &[&str]) -> ReadOptions {
        let settings = settings.iter().map(|text| text.parse().unwrap()).collect();
        ReadOptions { settings, ..ReadOptions::default() }
    }

    #[test]
    fn defaults_apply_without_settings_and_the_last_setting_counts() {
        assert_eq!(ORDER.text(&with(&[])).unwrap(), "little");
        assert_eq!(ORDER.text(&with(&["byte-order=little", "byte-order=big"])).unwrap(), "big");
        assert_eq!(SECTOR.size(&with(&[])).unwrap(), None);
        assert_eq!(SECTOR.size(&with(&["sector-size=256B"])).unwrap(), Some(ByteSize::from_bytes(256)));
        assert_eq!(CODE.number(&with(&["read-code=0x28"])).unwrap(), Some(40));
    }

    #[test]
    fn disallowed_values_are_refused_with_the_allowed_values() {
        let error = ORDER.text(&with(&["byte-order=middle"])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "format option `byte-order` is `middle`: little|big is allowed; byte order of the records"
        );
        let error = SECTOR.size(&with(&["sector-size=256"])).unwrap_err();
        assert!(error.to_string().contains("a size such as 256B or `header` is allowed"), "{error}");
        assert!(SECTOR.size(&with(&["sector-size=0B"])).is_err());
        assert!(CODE.number(&with(&["read-code=256"])).is_err());
        for text in ["byte-order", "=big", "byte-order=", ""] {
            assert!(text.parse::<Setting>().is_err(), "{text}");
        }
    }

    #[test]
    fn option_of_another_format_is_refused() {
        let arc = FORMATS.iter().find(|format| format.name() == "arc").unwrap();
        let error = apply(*arc, &with(&["byte-order=big"])).unwrap_err();
        assert_eq!(error.to_string(), "format option is `byte-order`: the format `arc` has no options");
    }
}
