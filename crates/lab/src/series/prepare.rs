//! Initial contents of a device: made once, on a device that takes no time.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use seeklab_core::ByteSize;
use seeklab_emulator::store::Store;
use seeklab_stage::{CommandLine, Phase, Stage};

use super::host::{self, Interruption};
use super::{Commands, Series};
use crate::devices::Resolved;
use crate::emulate::{capabilities_of, start_without_time};
use crate::failure::Failure;
use crate::session::Session;

/// Stores prepared so far, by block size.
#[derive(Debug, Default)]
pub(crate) struct Prepared(BTreeMap<ByteSize, Store>);

impl Prepared {
    /// A store of its own with what `device` holds at first.
    pub(crate) fn copy(
        &mut self,
        session: &Session,
        series: &Series,
        commands: &Commands,
        device: &Resolved,
        interruption: &Interruption,
    ) -> Result<Store, Failure> {
        let block_size = capabilities_of(device)?.block_size;
        let made = match self.0.entry(block_size) {
            Entry::Occupied(made) => made.into_mut(),
            Entry::Vacant(place) => place.insert(
                make(session, series, commands, device, interruption)
                    .map_err(|failure| failure.context("preparing the initial contents"))?,
            ),
        };
        let store = Store::in_ram(series.size, None)?;
        store.copy_from(made)?;
        Ok(store.with_pages_ready())
    }
}

fn make(
    session: &Session,
    series: &Series,
    commands: &Commands,
    device: &Resolved,
    interruption: &Interruption,
) -> Result<Store, Failure> {
    let store = Store::in_ram(series.size, None)?;
    if let Some(image) = &commands.image {
        store.load_image(image)?;
    }
    let running = start_without_time(session, device, store)?;
    let block = running.block().expect("the emulation was started with it").path();
    let made = host::options(series, commands, block, None)
        .and_then(|options| Stage::open(&options, interruption.stage()).map_err(host::failure))
        .and_then(|mut stage| {
            let began = match commands.image {
                None => stage.make_file_system(),
                Some(_) => stage.give_to_user(),
            };
            began.map_err(host::failure)?;
            if let Some(setup) = &commands.setup {
                let phase = Phase::new("setup", CommandLine::Shell(setup.clone()));
                let result = stage.run_phase(&phase).map_err(host::failure)?;
                if !result.is_success() {
                    return Err(Failure::check(format!("--setup `{setup}`: {}", host::how(&result))));
                }
            }
            stage.end().map_err(host::failure)
        });
    let result = running.end();
    made?;
    Ok(result?.complete()?.store)
}
