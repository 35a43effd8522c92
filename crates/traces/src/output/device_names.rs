//! Names of devices in formats that name the device in every row.
//!
//! # Scope and limits
//! A device keeps the name of its first row, since a reader would take a second name for another device. If
//! another device already has the label, the number of the device is used instead.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::output::rows::RowsOut;

/// The names of devices as bytes of the format.
pub(crate) struct DevicesOut {
    labels: Vec<String>,
    /// The name that a label is, if it can be one.
    named: fn(&str) -> Option<Vec<u8>>,
    /// The name of a device without a label.
    numbered: fn(u16) -> Vec<u8>,
    /// Names that rows have used.
    used: BTreeMap<u16, Vec<u8>>,
}

/// Two devices would have one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SameName(u16);

impl From<SameName> for Cow<'static, str> {
    fn from(SameName(device): SameName) -> Self {
        format!("device {device} by a name that no other device has").into()
    }
}

impl DevicesOut {
    /// Devices of those labels.
    pub(crate) fn new(
        labels: &[String],
        named: fn(&str) -> Option<Vec<u8>>,
        numbered: fn(u16) -> Vec<u8>,
    ) -> Self {
        Self { labels: labels.to_vec(), named, numbered, used: BTreeMap::new() }
    }

    /// Takes a label that was not known before.
    pub(crate) fn label(&mut self, device: u16, name: &str) {
        let device = usize::from(device);
        if self.labels.len() <= device {
            self.labels.resize(device + 1, String::new());
        }
        name.clone_into(&mut self.labels[device]);
    }

    /// The name of `device` in rows.
    #[inline]
    pub(crate) fn name(&mut self, device: u16) -> Result<&[u8], SameName> {
        if !self.used.contains_key(&device) {
            self.choose(device)?;
        }
        Ok(&self.used[&device])
    }

    #[cold]
    fn choose(&mut self, device: u16) -> Result<(), SameName> {
        let label = self.labels.get(usize::from(device)).and_then(|label| (self.named)(label));
        let is_free = |name: &Vec<u8>| !self.used.values().any(|used| used == name);
        let name = label.into_iter().chain([(self.numbered)(device)]).find(is_free);
        self.used.insert(device, name.ok_or(SameName(device))?);
        Ok(())
    }
}

/// Devices whose labels are whole numbers, as decimals.
pub(crate) fn numbers(labels: &[String]) -> DevicesOut {
    DevicesOut::new(
        labels,
        |label| label.parse::<u64>().ok().map(|number| number.to_string().into_bytes()),
        |device| device.to_string().into_bytes(),
    )
}

/// Appends the name of `device` to the line of `rows`.
#[inline]
pub(crate) fn push_device(
    rows: &mut RowsOut,
    devices: &mut DevicesOut,
    device: u16,
) -> Result<(), crate::error::TraceError> {
    match devices.name(device) {
        Ok(name) => {
            rows.line.extend_from_slice(name);
            Ok(())
        }
        Err(same) => Err(rows.cannot(same)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_keeps_a_unique_name() {
        let mut devices = numbers(&["7".to_owned(), "x".to_owned(), "1".to_owned()]);
        assert_eq!(devices.name(0), Ok(&b"7"[..]));
        assert_eq!(devices.name(1), Ok(&b"1"[..]), "its label is no number");
        assert_eq!(devices.name(2), Ok(&b"2"[..]), "its label is taken");
        devices.label(9, "419");
        assert_eq!(devices.name(9), Ok(&b"419"[..]), "a label that came later");
        devices.label(1, "8");
        assert_eq!(devices.name(1), Ok(&b"1"[..]), "rows have used its name");
        assert_eq!(devices.name(7), Err(SameName(7)));
    }
}
