//! Tests of the warm-up that a fit leaves out.

use serde_json::Value;

use super::bench::Bench;
use super::shared_trace;

#[test]
#[cfg_attr(not(shared_traces), ignore = "needs ../shared/traces")]
fn clone_of_a_database_leaves_out_the_warm_up_and_halves_the_error_of_the_trivial_model() {
    let bench = Bench::new();
    let trace = shared_trace("pgbench-loop").join("pgbench.ftrace.zst");
    let fitted = |more: &[&str]| {
        let fit = [&["fit", trace.to_str().unwrap(), "-o", "clone.toml"], more].concat();
        bench.json(&fit)["fit"].clone()
    };
    let fit = fitted(&[]);
    // The machine was busy in the first 12 to 13 s (docs/models/station.md): all operations were slower.
    let warm_up = &fit["warm_up"];
    let time_s = warm_up["time_s"].as_f64().unwrap();
    assert!((12.0..=13.0).contains(&time_s), "{time_s} s");
    let slower = warm_up["slower"].as_array().unwrap();
    assert_eq!(slower.len(), 3);
    assert!(slower.iter().all(|of| of["factor"].as_f64().unwrap() > 1.3), "{slower:?}");
    // Whoever knows that the device is always so keeps it; it is reported.
    let all = fitted(&["--warm-up", "none"]);
    assert_eq!((&warm_up["is_left_out"], &all["warm_up"]["is_left_out"]), (&true.into(), &false.into()));
    assert_eq!(all["warm_up"]["slower"], warm_up["slower"]);
    assert_eq!(fit["requests"].as_u64().unwrap() + warm_up["requests"].as_u64().unwrap(), all["requests"]);
    let error = |fit: &Value, model: &str| {
        let of = fit["evaluations"].as_array().unwrap().iter().find(|of| of["model"] == model);
        of.unwrap()["operation_means"]["demerit_to_p99_pct"].as_f64().unwrap()
    };
    // A third less was wanted. `trivial` repeats the whole fitted part, its warm-up included.
    for model in ["station", "plain"] {
        assert!(error(&fit, model) < 0.5 * error(&fit, "trivial"), "{model}: {} %", error(&fit, model));
    }
    assert_eq!(error(&fit, "trivial"), error(&all, "trivial"));
}

#[test]
fn warm_up_that_leaves_nothing_to_fit_is_refused() {
    let bench = Bench::new();
    let mut text = "arrival_ns,response_ns,device,op,lbn,blocks\n".to_owned();
    // Two seconds of requests, a pause of eight, and two seconds more, which are predicted.
    for index in 0..4_000_u64 {
        let arrival_ns = index * 1_000_000 + index / 2_000 * 8_000_000_000;
        text += &format!("{arrival_ns},500000,0,read,{},8\n", index * 7_919 % 1_000_000);
    }
    bench.write("pause.csv", text);
    for more in [&[][..], &["--model", "plain"], &["--predict", "all"]] {
        let fit = ["fit", "pause.csv", "-o", "clone.toml", "--warm-up", "3s"];
        bench.run(&[&fit[..], more].concat()).fails(&["--warm-up", "no request is left to fit", "--split"]);
    }
    bench.run(&["fit", "pause.csv", "-o", "clone.toml", "--warm-up", "1s"]).done();
    bench
        .run(&["fit", "pause.csv", "-o", "clone.toml", "--warm-up", "7s"])
        .fails(&["nothing is left to fit"]);
}
