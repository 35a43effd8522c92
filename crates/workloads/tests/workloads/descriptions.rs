//! Tests that both written forms mean the same, and that every registered example works.

use std::sync::Arc;

use seeklab_core::{Seed, Workload};
use seeklab_workloads::presets::PRESETS;
use seeklab_workloads::registry::KINDS;
use seeklab_workloads::synthetic::Extent;
use seeklab_workloads::{Supplied, Synthetic, SyntheticSpec, WorkloadSpec};

use crate::common::TARGET;

/// Checks that a line and a TOML document describe the same workload, which survives printing.
fn check(line: &str, document: &str) {
    let spec = WorkloadSpec::parse(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    assert_eq!(WorkloadSpec::from_toml(document).as_ref(), Ok(&spec), "{line}");
    let printed = toml::to_string(&spec).unwrap();
    assert_eq!(WorkloadSpec::from_toml(&printed).as_ref(), Ok(&spec), "{printed}");
    assert_eq!(toml::from_str::<WorkloadSpec>(&printed).as_ref(), Ok(&spec), "{printed}");
}

#[test]
fn both_forms_mean_the_same() {
    check(
        "size=8KiB,read=66%,align=8KiB,sequential=20%,local=30%,local_distance=20MiB,poisson=100/s,requests=100000",
        r#"
        kind = "synthetic"
        requests = 100000
        read = "66%"
        size = "8KiB"
        align = "8KiB"
        sequential = "20%"
        local = "30%"
        local_distance = "20MiB"
        address = { distribution = "uniform" }
        arrivals = { process = "poisson", rate = "100/s" }
        "#,
    );
    check(
        "size=4KiB:3+64KiB,read=1/2,zipf=0.9,address.order=ascending,closed=8,think=10ms,arrivals.think_distribution=exponential",
        r#"
        kind = "synthetic"
        read = "0.5"
        size = [{ size = "4KiB", weight = 3 }, { size = "64KiB" }]
        address = { distribution = "zipf", exponent = 0.9, order = "ascending" }
        arrivals = { process = "closed", population = 8, think = "10ms", think_distribution = "exponential" }
        "#,
    );
    check(
        "random,address.distribution=hot,address.zones=10%:80%,arrivals.process=bursty,arrivals.burst=20,arrivals.within=1ms,arrivals.gap=1s",
        r#"
        preset = "random"
        address = { distribution = "hot", zones = [{ share_of_space = "10%", share_of_requests = "80%" }] }
        arrivals = { process = "bursty", burst = 20, within = "1ms", gap = "1s" }
        "#,
    );
    check(
        "oltp,requests=7,arrivals.population=2",
        "kind = \"synthetic\"\npreset = \"oltp\"\nrequests = 7\narrivals.population = 2",
    );
    check(
        "replay,trace=a.csv,arrivals=scaled 2,beyond=drop,requests=9,device=3",
        "kind = \"replay\"\ntrace = \"a.csv\"\narrivals = \"scaled 2\"\nbeyond = \"drop\"\nrequests = 9\ndevice = 3",
    );
    check("replay,arrivals=closed auto", "kind = \"replay\"\narrivals = \"closed auto\"");
    check("replay,arrivals=follow", "kind = \"replay\"\narrivals = \"follow\"");
    check("replay", "kind = \"replay\"");
}

#[test]
fn every_registered_kind_has_a_working_example() {
    for kind in KINDS {
        check(kind.example, kind.example_toml);
        assert!(kind.example.starts_with(kind.name));
    }
}

#[test]
fn every_preset_issues_requests() {
    let extents: Arc<[Extent]> = [Extent { lbn: 0, blocks: 528 }].into();
    for preset in PRESETS {
        let spec = SyntheticSpec::parse(preset.name).unwrap();
        check(preset.name, &format!("preset = \"{}\"", preset.name));
        let supplied = Supplied { extents: Some(extents.clone()), ..Supplied::default() };
        let mut workload = Synthetic::new(&spec, TARGET, Seed(1), supplied).unwrap();
        assert!(matches!(
            workload.next_arrival(seeklab_core::Instant::ZERO),
            seeklab_core::Arrival::Request(_)
        ));
        assert!(!preset.about.is_empty() && !preset.source.is_empty());
    }
}

#[test]
fn examples_of_the_grammar_parse() {
    for line in [
        "random,size=8KiB,read=66%,poisson=80/s,requests=10000",
        "size=4KiB:3+64KiB:1,read=2/3,sequential=20%,arrivals.process=closed,arrivals.population=8",
        "replay,arrivals=closed auto,beyond=wrap",
    ] {
        WorkloadSpec::parse(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    }
}

#[test]
fn number_of_requests_is_limited_for_every_kind() {
    for kind in KINDS {
        let mut spec = WorkloadSpec::parse(kind.example).unwrap();
        let before = spec.clone();
        spec.limit_requests(7);
        let requests = match spec {
            WorkloadSpec::Synthetic(spec) => spec.requests,
            WorkloadSpec::Replay(spec) => spec.requests.unwrap(),
            application => {
                let is_whole = application.builtin().is_some()
                    || matches!(
                        application,
                        WorkloadSpec::Host(_) | WorkloadSpec::System(_) | WorkloadSpec::Jobs(_)
                    );
                assert!(application == before && is_whole, "it does its work whole");
                continue;
            }
        };
        assert_eq!(requests, 7, "{}", kind.name);
    }
}
