//! Disks of the catalog, taken apart and driven one request after the other.

use seeklab_core::{Completion, Device, Instant, Request, Seed};
use seeklab_devices::disk::{Disk, DiskParameters};
use seeklab_devices::{Description, catalog};
use toml::{Table, Value};

/// The device of that name with some parameters changed.
pub(crate) fn device(name: &str, overrides: &[(&str, &str)]) -> Description {
    changed(catalog::find(name).unwrap_or_else(|error| panic!("{error}")), overrides)
}

/// The bare mechanics of that device with some parameters changed.
pub(crate) fn bare(name: &str, overrides: &[(&str, &str)]) -> Description {
    changed(device(name, &[]).bare().unwrap(), overrides)
}

fn changed(mut description: Description, overrides: &[(&str, &str)]) -> Description {
    for (key, value) in overrides {
        description.set(key, value).unwrap_or_else(|error| panic!("{error}"));
    }
    description
}

/// The same disk with other electronics, a table in TOML.
pub(crate) fn with_electronics(description: &Description, electronics: &str) -> Description {
    let mut table: Table = description.to_toml().parse().unwrap();
    let electronics: Table = electronics.parse().unwrap();
    table.insert("electronics".to_owned(), Value::Table(electronics));
    Description::parse(&description.name, "test", &table.to_string())
        .unwrap_or_else(|error| panic!("{error}"))
}

/// Every disk of the catalog.
pub(crate) fn disks() -> impl Iterator<Item = &'static str> {
    catalog::names().filter(|name| device(name, &[]).kind().name == "disk")
}

/// The parameters of a disk.
pub(crate) fn parameters(description: &Description) -> DiskParameters {
    let mut table: Table = description.to_toml().parse().unwrap();
    for key in ["schema", "kind", "title", "validated", "sources"] {
        table.remove(key);
    }
    table.try_into().unwrap()
}

/// Returns a disk whose layout and mechanism can be queried.
pub(crate) fn disk(description: &Description) -> Disk {
    Disk::new(&parameters(description), Seed(1), "disk0").unwrap()
}

/// Serves requests with so many always outstanding; completions in order of time.
pub(crate) fn closed(
    device: &mut dyn Device,
    population: usize,
    requests: impl IntoIterator<Item = Request>,
) -> Vec<Completion> {
    let mut requests = requests.into_iter();
    let mut completions = Vec::new();
    let mut now = Instant::ZERO;
    let mut submitted = 0;
    loop {
        while submitted - completions.len() < population {
            let Some(request) = requests.next() else { break };
            device.submit(now, request).unwrap();
            submitted += 1;
        }
        let Some(event) = device.next_event() else { return completions };
        now = event;
        device.poll(now, &mut completions);
    }
}

/// The mean of a figure of each completion.
pub(crate) fn mean(completions: &[Completion], figure: impl Fn(&Completion) -> f64) -> f64 {
    completions.iter().map(figure).sum::<f64>() / completions.len() as f64
}
