//! `table`: a device cloned from its trace as tables of response times.

use std::sync::Arc;

use seeklab_core::{Capabilities, Device, Seed};

use crate::error::DescriptionError;
use crate::fitted::FittedModel;
use crate::kind::{Children, DeviceKind};
use crate::table::{TableModel, TableParameters, Tables, fitted_model};

/// The kind `table`.
#[derive(Debug)]
pub(super) struct Definition;

impl DeviceKind for Definition {
    type Parameters = TableParameters;
    type Blueprint = Arc<Tables>;

    const NAME: &'static str = "table";
    const DESCRIPTION: &'static str = "a device cloned from its trace: response times drawn from tables";
    const CHILDREN: Children = Children::None;

    fn blueprint(parameters: &TableParameters) -> Result<Arc<Tables>, DescriptionError> {
        Ok(Arc::new(Tables::new(parameters)?))
    }

    fn build(
        blueprint: &Arc<Tables>,
        _children: Vec<Box<dyn Device>>,
        seed: Seed,
        name: &str,
    ) -> Result<Box<dyn Device>, DescriptionError> {
        Ok(Box::new(TableModel::of(Arc::clone(blueprint), seed, name)))
    }

    fn capabilities(blueprint: &Arc<Tables>, _children: Vec<Capabilities>) -> Capabilities {
        blueprint.capabilities.clone()
    }

    fn fitted_model(
        parameters: &TableParameters,
        _children: Vec<Option<FittedModel>>,
    ) -> Result<Option<FittedModel>, DescriptionError> {
        fitted_model(parameters).map(Some)
    }
}
