//! Emulations as functions: side by side, and the example that clones a device from a trace.

use std::path::Path;
use std::sync::Arc;

use seeklab_core::Seed;
use seeklab_lab::devices::{Setup, resolve};
use seeklab_lab::drive::{DriveResult, drive};
use seeklab_lab::emulate::{EmulationOptions, EmulationResult, serve};
use seeklab_lab::listener::Unheard;
use seeklab_lab::session::Session;
use seeklab_lab::stop::Stop;

#[allow(dead_code, reason = "the main function of the example is not called")]
#[path = "../examples/clone_and_serve.rs"]
mod example;

const LINE: &str = "postmark,files=20,transactions=40";

/// Options to emulate a server that takes this time for each request.
fn options(service_time: &str, trace: Option<&Path>) -> EmulationOptions {
    let overrides = vec![format!("service_time={service_time}")];
    let device = resolve("constant", &Setup { overrides, ..Setup::default() }).unwrap();
    let mut options = EmulationOptions::new(device);
    options.size = Some("64MiB".parse().unwrap());
    options.pace.is_calibrated = false;
    options.record = trace.map(Path::to_owned);
    options
}

/// Serves the device, calls `meanwhile`, runs the application and stops.
fn emulate(options: &EmulationOptions, meanwhile: impl FnOnce()) -> (DriveResult, EmulationResult) {
    let stop = Stop::new();
    let session = Session::new(Arc::new(Unheard), stop.clone());
    let mut driven = None;
    let result = serve(&session, options, |endpoints| {
        meanwhile();
        driven = Some(drive(&session, &endpoints.nbd().unwrap(), LINE, Seed(1))?);
        stop.stop();
        Ok(())
    });
    let result = result.unwrap();
    (driven.unwrap(), result)
}

#[test]
fn two_emulations_run_side_by_side() {
    let (fast, slow) = (options("1ms", None), options("3ms", None));
    // The second emulation begins, serves and ends while the first one serves.
    let mut inner = None;
    let outer = emulate(&slow, || inner = Some(emulate(&fast, || {})));
    let inner = inner.unwrap();
    for ((driven, result), least_ms) in [(&inner, 1.0), (&outer, 3.0)] {
        assert!(driven.requests > 0 && driven.mismatch_count == 0, "{driven:?}");
        assert!(result.requests >= driven.requests, "{} {driven:?}", result.requests);
        assert_eq!((result.refused_requests, result.failed_requests), (0, 0));
        assert!(result.response_mean_ms.unwrap() >= least_ms, "{:?}", result.response_mean_ms);
    }
    assert_eq!(inner.0.requests, outer.0.requests, "the same application with the same seed");
}

#[test]
fn clone_of_a_recorded_device_is_fitted_served_and_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("seen.csv");
    let (_, recorded) = emulate(&options("1ms", Some(&trace)), || {});
    assert_eq!(recorded.unrecorded_requests, 0);
    assert!(recorded.failure.is_none(), "{:?}", recorded.failure);
    let result = example::clone_and_serve(&trace, LINE).unwrap();
    assert_eq!((result.device.as_str(), result.failed_requests), ("clone", 0));
    assert!(result.requests > 0 && result.response_mean_ms.unwrap() >= 0.5, "{result:?}");
    let document = serde_json::to_value(&result).unwrap();
    assert_eq!(document["requests"], result.requests);
    assert!(document["trust"].is_string() && document.get("store").is_none(), "{document}");
}
