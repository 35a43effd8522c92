//! Values that the shell completes: devices, keys of `--set`, and names of kinds, documents, formats and schedulers.
//!
//! ```text
//! shell ─▶ COMPLETE=bash seeklab -- WORDS ─▶ clap_complete ─▶ completers ─▶ candidates
//! ```
//! The keys of `--set` are the parameters of the devices that the words name. Without such a device they are the
//! parameters of the whole catalog.

use std::collections::BTreeSet;
use std::ffi::OsStr;

use clap_complete::engine::{CompletionCandidate, PathCompleter, ValueCompleter};
use seeklab_lab::crates::devices::scheduler::SCHEDULERS;
use seeklab_lab::crates::devices::{Description, catalog, registry};
use seeklab_lab::crates::workloads;
use seeklab_lab::descriptions::FaultsDocument;
use seeklab_lab::devices::describe;
use seeklab_lab::documents::DOCUMENTS;
use seeklab_lab::trace::formats::formats;

/// Completes a device: a name of the catalog or a TOML file.
pub(crate) fn device(current: &OsStr) -> Vec<CompletionCandidate> {
    let files = PathCompleter::file().filter(|path| path.extension().is_some_and(|suffix| suffix == "toml"));
    matching(current, catalog::names()).into_iter().chain(files.complete(current)).collect()
}

/// Completes the key of an override, with its `=`.
pub(crate) fn override_key(current: &OsStr) -> Vec<CompletionCandidate> {
    let words: Vec<String> = std::env::args().skip_while(|word| word != "--").collect();
    let named: Vec<Description> =
        words.iter().flat_map(|word| word.split(',')).filter_map(|word| describe(word).ok()).collect();
    let descriptions = match named.is_empty() {
        true => catalog::names().filter_map(|name| describe(name).ok()).collect(),
        false => named,
    };
    let paths: BTreeSet<String> = descriptions.iter().flat_map(Description::paths).collect();
    keys(&current.to_string_lossy(), &paths).into_iter().map(CompletionCandidate::new).collect()
}

/// Returns the keys that begin with `current`: names, or paths where no name does. A name that two paths end in is
/// offered by its paths.
fn keys(current: &str, paths: &BTreeSet<String>) -> Vec<String> {
    let name = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
    let is_unique = |path: &&String| paths.iter().filter(|other| name(other) == name(path)).count() == 1;
    let begins = |key: &String| key.starts_with(current);
    let names: Vec<String> = paths.iter().filter(is_unique).map(|path| name(path)).filter(begins).collect();
    let others = paths.iter().filter(|path| names.is_empty() || !is_unique(path)).filter(|path| begins(path));
    let mut keys: Vec<String> = names.iter().cloned().chain(others.cloned()).collect();
    keys.sort();
    keys.into_iter().map(|key| key + "=").collect()
}

/// Completes a kind of device or layer.
pub(crate) fn kind(current: &OsStr) -> Vec<CompletionCandidate> {
    matching(current, registry::KINDS.iter().map(|kind| kind.name))
}

/// Completes a kind of workload.
pub(crate) fn workload_kind(current: &OsStr) -> Vec<CompletionCandidate> {
    matching(current, workloads::registry::KINDS.iter().map(|kind| kind.name))
}

/// Completes a kind or a preset of faults.
pub(crate) fn fault(current: &OsStr) -> Vec<CompletionCandidate> {
    let faults = FaultsDocument::new();
    let names = faults.kinds.iter().map(|kind| &kind.fault);
    matching(current, names.chain(faults.presets.iter().map(|preset| &preset.fault)).map(String::as_str))
}

/// Completes the name of a JSON document.
pub(crate) fn document(current: &OsStr) -> Vec<CompletionCandidate> {
    matching(current, DOCUMENTS.iter().map(|document| document.name))
}

/// Completes the name of a trace format.
pub(crate) fn format(current: &OsStr) -> Vec<CompletionCandidate> {
    matching(current, formats().formats.iter().map(|format| format.format))
}

/// Completes the name of a scheduler.
pub(crate) fn scheduler(current: &OsStr) -> Vec<CompletionCandidate> {
    matching(current, SCHEDULERS.iter().map(|scheduler| scheduler.name))
}

fn matching<'a>(current: &OsStr, names: impl IntoIterator<Item = &'a str>) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let names = names.into_iter().filter(|name| name.starts_with(&*current));
    names.map(|name| CompletionCandidate::new(name.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_names_unless_two_paths_end_in_the_same_name() {
        let paths =
            ["device.mechanics.rpm", "device.bus.rate", "depth", "requests[0].rate"].map(str::to_owned);
        let paths = BTreeSet::from(paths);
        assert_eq!(keys("r", &paths), ["requests[0].rate=", "rpm="]);
        assert_eq!(keys("d", &paths), ["depth=", "device.bus.rate="]);
        assert_eq!(keys("device.m", &paths), ["device.mechanics.rpm="]);
        assert!(keys("x", &paths).is_empty());
    }
}
