//! THE list of kinds of devices and layers: one file in `registry/` and one line here for each.

use seeklab_core::Mistake;
use seeklab_core::names::near_matches;
use serde::Serialize;
use toml::Table;

use crate::error::DescriptionError;
use crate::kind::Kind;

/// Declares the module of each kind and lists the kinds in order.
macro_rules! kinds {
    ($($module:ident,)+) => {
        $(mod $module;)+

        /// THE list of kinds of devices and layers.
        pub static KINDS: &[Kind] = &[$(Kind::of::<$module::Definition>()),+];
    };
}

kinds! {
    disk,
    immediate,
    constant,
    exponential,
    access,
    table,
    station,
    queue,
    limit,
    fault,
    bank,
}

/// The kind of that name, `None` if there is none.
pub(crate) fn find(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.name == name)
}

/// The kind of that name.
///
/// # Errors
/// A name that is not there, with the near ones.
pub fn kind(name: &str) -> Result<&'static Kind, DescriptionError> {
    find(name).ok_or_else(|| {
        let names: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
        let near = near_matches(name, names.iter().copied());
        DescriptionError::new(Mistake::UnknownName, "", format!("there is no kind `{name}`{near}"))
            .hint(format!("one of {}", names.join(", ")))
    })
}

/// The table of a device of that kind with those parameters.
pub(crate) fn described(kind: &str, parameters: &impl Serialize) -> Result<Table, DescriptionError> {
    let table = Table::try_from(parameters);
    let mut table = table.map_err(|error| DescriptionError::invalid("", error.to_string()))?;
    table.insert("kind".to_owned(), kind.into());
    Ok(table)
}
