//! Fitted range of clones: loads that a clone was not fitted to are counted as outside, by what they lie outside of.
//!
//! `scripts/clones.py region` prints the whole table, of three disks and six loads.

use serde_json::Value;

use super::bench::{Bench, unfolded};

const REQUESTS: &str = "requests=20000";

/// A load of 8 KiB requests, with so many reads and such arrivals.
fn load(read: &str, arrivals: &str) -> String {
    format!("synthetic,size=8KiB,read={read},{arrivals},{REQUESTS}")
}

/// Figures of a device under a load.
fn simulated(bench: &Bench, device: &str, load: &str) -> Value {
    bench.json(&["simulate", device, "-w", load, "--seed", "2"])["devices"][0].take()
}

/// Fits a model to a disk under a load, as `clone.toml`.
fn fit(bench: &Bench, disk: &str, load: &str, model: &str) {
    bench.run(&["simulate", disk, "-w", load, "--seed", "1", "--out", "recorded.parquet"]).done();
    bench.run(&["fit", "recorded.parquet", "--model", model, "-o", "clone.toml"]).done();
}

/// Greatest error of the mean of reads and writes, in percent.
fn error_pct(clone: &Value, disk: &Value) -> f64 {
    let error = |key: &str| 100.0 * (clone[key].as_f64().unwrap() / disk[key].as_f64().unwrap() - 1.0).abs();
    error("read_response_mean_ms").max(error("write_response_mean_ms"))
}

/// Share of the requests outside, the verdict, and the most frequent bound.
fn range(figures: &Value) -> (f64, String, String) {
    let range = &figures["fitted_range"];
    let first = &range["outside_of"][0];
    let bound =
        format!("{} {}", first["property"].as_str().unwrap_or(""), first["side"].as_str().unwrap_or(""));
    (range["out_of_fitted_range_pct"].as_f64().unwrap(), range["trust"].as_str().unwrap().to_owned(), bound)
}

/// Returns true if at least half of the requests lie beyond that bound.
fn beyond(figures: &Value, bound: &str) -> bool {
    let range = &figures["fitted_range"];
    range["outside_of"].as_array().unwrap().iter().any(|of| {
        let name = format!("{} {}", of["property"].as_str().unwrap(), of["side"].as_str().unwrap());
        name == bound && 2 * of["requests"].as_u64().unwrap() >= range["requests"].as_u64().unwrap()
    })
}

#[test]
fn clone_that_is_wrong_under_another_load_counts_its_requests_as_outside() {
    let bench = Bench::new();
    let base = load("67%", "closed=4");
    for (disk, fitted, asked, bound) in [
        ("nearline-7200", &base, load("67%", "closed=1"), "queue_length below"),
        ("cheetah-36es", &load("90%", "closed=4"), load("10%", "closed=4"), "write_share above"),
    ] {
        let truth = simulated(&bench, disk, &asked);
        for model in ["station", "plain", "trivial"] {
            fit(&bench, disk, fitted, model);
            let clone = simulated(&bench, "clone.toml", &asked);
            assert!(error_pct(&clone, &truth) > 20.0, "{disk} {model}: {}", error_pct(&clone, &truth));
            let (out_of_fitted_range_pct, trust, _) = range(&clone);
            assert!(
                out_of_fitted_range_pct >= 50.0 && trust == "not_trusted",
                "{disk} {model}: {out_of_fitted_range_pct} {trust}"
            );
            assert!(beyond(&clone, bound), "{disk} {model}: {}", clone["fitted_range"]);
            assert_eq!(clone["fitted_range"]["outside_requests"], clone["out_of_validated_range"]);
            let text = unfolded(&bench.run(&["simulate", "clone.toml", "-w", &asked]).done());
            assert!(text.contains("For this load the clone cannot be trusted."), "{text}");
            // The load that it was fitted to, drawn again.
            let (out_of_fitted_range_pct, trust, _) = range(&simulated(&bench, "clone.toml", fitted));
            assert!(
                out_of_fitted_range_pct < 5.0 && trust == "trusted",
                "{disk} {model}: {out_of_fitted_range_pct} {trust}"
            );
        }
    }
}

#[test]
fn calm_load_is_within_the_range_of_a_station_fitted_to_a_busier_one_and_not_the_other_way_round() {
    let bench = Bench::new();
    let (busy, calm) = (load("67%", "poisson=90/s"), load("67%", "poisson=60/s"));
    for model in ["station", "plain"] {
        fit(&bench, "atlas10k", &busy, model);
        let (out_of_fitted_range_pct, _, first) = range(&simulated(&bench, "clone.toml", &calm));
        // Times of tables hold the waits of the busy load: they are 21 % (reads) and 33 % (writes) too long here.
        match model {
            "plain" => assert!(out_of_fitted_range_pct >= 50.0 && first == "rate below", "{first}"),
            _ => assert!(out_of_fitted_range_pct <= 5.0, "{model}: {out_of_fitted_range_pct} %"),
        }
        fit(&bench, "atlas10k", &calm, model);
        let (out_of_fitted_range_pct, _, first) = range(&simulated(&bench, "clone.toml", &busy));
        assert!(out_of_fitted_range_pct >= 50.0, "{model}: {out_of_fitted_range_pct}");
        assert!(["rate above", "queue_length above"].contains(&&*first), "{model}: {first}");
    }
}

#[test]
fn times_that_ignore_the_load_are_for_one_rate() {
    let bench = Bench::new();
    let fitted = load("67%", "poisson=90/s");
    fit(&bench, "atlas10k", &fitted, "trivial");
    assert!(range(&simulated(&bench, "clone.toml", &fitted)).0 <= 5.0);
    let calm = simulated(&bench, "clone.toml", &load("67%", "poisson=45/s"));
    assert!(range(&calm).0 >= 50.0 && beyond(&calm, "rate below"), "{}", calm["fitted_range"]);
}

#[test]
fn clone_that_knows_the_queue_is_saved_before_one_that_repeats_times() {
    let bench = Bench::new();
    let load = "random,size=8KiB,read=60%,poisson=80/s,requests=30000";
    bench.run(&["simulate", "nearline-7200", "-w", load, "--out", "recorded.parquet"]).done();
    let fit = bench.json(&["fit", "recorded.parquet", "-o", "clone.toml"])["fit"].take();
    let demerit = |model: &str| {
        let of = fit["evaluations"].as_array().unwrap().iter().find(|of| of["model"] == model).unwrap();
        of["operation_means"]["demerit_to_p99_pct"].as_f64().unwrap()
    };
    assert!(demerit("trivial") < demerit("station"), "under one load, the times of that load are closer");
    assert_ne!(fit["saved_model"], "trivial");
    assert_eq!(fit["saved_because"], "better_verdicts");
}

#[test]
fn force_unit_access_that_was_not_fitted_is_outside_and_fitted_it_is_known() {
    let bench = Bench::new();
    let fitted = load("50%", "poisson=50/s");
    fit(&bench, "cheetah-36es", &fitted, "station");
    let forced = simulated(&bench, "clone.toml", &format!("{fitted},fua=100%"));
    assert!(beyond(&forced, "fua_share above"), "{}", forced["fitted_range"]);
    // Half of the writes wait for the media.
    let mixed = format!("{fitted},fua=50%");
    fit(&bench, "cheetah-36es", &mixed, "station");
    let [clone, disk] = ["clone.toml", "cheetah-36es"].map(|device| simulated(&bench, device, &mixed));
    assert!(error_pct(&clone, &disk) < 5.0, "{} %", error_pct(&clone, &disk));
    assert_eq!(range(&clone).1, "trusted", "{}", clone["fitted_range"]);
    let buffered = simulated(&bench, "clone.toml", &fitted);
    assert!(beyond(&buffered, "fua_share below"), "{}", buffered["fitted_range"]);
}

#[test]
fn requests_that_a_limit_held_are_within_the_range() {
    let bench = Bench::new();
    bench.write(
        "volume.toml",
        "kind = \"limit\"\n[[requests]]\nrate = \"500/s\"\nburst = 2000\n[device]\nkind = \"exponential\"\n\
         capacity_blocks = 209715200\nblock_size = \"512B\"\nservice_time = \"0.1ms\"\n",
    );
    let load = load("66%", "closed=16");
    fit(&bench, "volume.toml", &load, "station");
    let clone = simulated(&bench, "clone.toml", &load);
    assert!(range(&clone).0 <= 5.0, "{}", clone["fitted_range"]);
    assert!(error_pct(&clone, &simulated(&bench, "volume.toml", &load)) < 1.0);
}

#[test]
fn bench_of_a_clone_names_what_its_load_lies_outside_of() {
    let bench = Bench::new();
    fit(&bench, "atlas10k", &load("100%", "closed=4"), "station");
    let measured = |load: &str| bench.json(&["bench", "model:clone.toml", "-w", load]);
    let same = measured(&load("100%", "closed=4"));
    assert_eq!(
        same["phases"][0]["fitted_range"]["trust"], "trusted",
        "{}",
        same["phases"][0]["fitted_range"]
    );
    let other = measured(&load("100%", "closed=1"));
    let range = &other["phases"][0]["fitted_range"];
    assert_eq!((&range["trust"], &other["trusted"]), (&"not_trusted".into(), &false.into()), "{range}");
    assert_eq!(range["outside_of"][0]["property"], "queue_length", "{range}");
    let sentence = "are outside the fitted range: queue length below";
    assert!(other["notes"].to_string().contains(sentence), "{}", other["notes"]);
    assert!(measured_disk(&bench)["phases"][0]["fitted_range"].is_null());
}

fn measured_disk(bench: &Bench) -> Value {
    bench.json(&["bench", "model:atlas10k", "-w", "random,closed=1,requests=100"])
}

#[test]
fn description_of_an_earlier_version_has_bounds_of_single_requests() {
    let bench = Bench::new();
    fit(&bench, "atlas10k", &load("67%", "closed=4"), "station");
    let text = String::from_utf8(bench.read("clone.toml")).unwrap();
    let mut table: toml::Table = text.parse().unwrap();
    assert!(table["region"]["windows"].as_array().unwrap().len() == 3, "{text}");
    table.remove("region").unwrap();
    bench.write("earlier.toml", table.to_string());
    let outside = |arrivals: &str| range(&simulated(&bench, "earlier.toml", &load("67%", arrivals))).0;
    assert_eq!(outside("closed=1"), 0.0, "nothing bounds a queue from below");
    assert!(outside("closed=8") > 90.0);
}
