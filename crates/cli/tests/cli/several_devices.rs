//! Fits of a span of days, predictions of a whole trace, and several devices in one description.

use serde_json::Value;

use super::bench::Bench;

fn number(value: &Value) -> f64 {
    let of_text = || value.as_str().and_then(|text| text.parse().ok());
    value.as_f64().or_else(of_text).unwrap_or_else(|| panic!("{value}"))
}

/// Four days of reads, one a minute; they take 2 ms from the third day on and 1 ms before.
fn days() -> String {
    let mut text = "arrival_ns,response_ns,device,op,lbn,blocks\n".to_owned();
    for minute in 0..4 * 1_440_u64 {
        let response = if minute < 2 * 1_440 { 1_000_000 } else { 2_000_000 };
        text +=
            &format!("{},{response},0,read,{},8\n", minute * 60_000_000_000, minute * 104_729 % 1_000_000);
    }
    text
}

#[test]
fn whole_trace_is_predicted_by_a_model_of_its_first_days() {
    let bench = Bench::new();
    bench.write("days.csv", days());
    let fit = |more: &[&str]| {
        bench.json(&[&["fit", "days.csv", "-o", "clone.toml", "--model", "plain"], more].concat())
    };
    let all = fit(&["--days", "1", "--predict", "all"]);
    let evaluation = &all["fit"]["evaluations"][0];
    assert_eq!(
        (&evaluation["fitted_requests"], &evaluation["predicted_requests"]),
        (&1_440.into(), &5_760.into())
    );
    assert_eq!(all["fit"]["requests"], 5_760, "the saved model has each request once");
    assert_eq!(all["fit"]["predicted_part"], "all");
    assert!((number(&all["split"]) - 0.25).abs() < 0.001, "{all}");
    // Half of the requests took 1 ms as the fitted ones, half 2 ms: a mean of 1.5, missed by 0 and by 1 ms.
    let predicted = number(&evaluation["predicted"]["mean_ms"]);
    assert!(
        (predicted - 1.0).abs() < 0.02 && number(&evaluation["measured"]["mean_ms"]) == 1.5,
        "{evaluation}"
    );
    let demerit = number(&evaluation["demerit_all"]["ea_rms_ms"]);
    assert!((demerit - 0.5_f64.sqrt()).abs() < 0.02, "{evaluation}");
    // The rest is the later three days.
    for days in [["--days", "1"], ["--split", "1day"], ["--split", "24h"]] {
        let rest = fit(&days);
        let evaluation = &rest["fit"]["evaluations"][0];
        assert_eq!(evaluation["predicted_requests"], 4_320, "{days:?}");
        assert!((number(&evaluation["measured"]["mean_ms"]) - 5.0 / 3.0).abs() < 1e-6, "{evaluation}");
    }
    let text = bench.run(&["fit", "days.csv", "-o", "clone.toml", "--days", "1", "--predict", "all"]).done();
    let text = text.replace("\n  ", " ").replace('\n', " ");
    assert!(
        text.contains("fitted to 1440 requests in the first 25 % of the time, all 5760 predicted"),
        "{text}"
    );
    assert!(text.contains("those of the fitted part among them"), "{text}");
    for wrong in [["--days", "0"], ["--days", "many"], ["--split", "0s"]] {
        let arguments = [&["fit", "days.csv", "-o", "clone.toml"][..], &wrong].concat();
        bench.run(&arguments).fails(&[wrong[0]]);
    }
}

#[test]
fn command_of_a_prediction_of_the_whole_trace_repeats_it() {
    let bench = Bench::new();
    bench
        .run(&["simulate", "hp-c2247a", "-w", "random,poisson=30/s,requests=6000", "--out", "seen.csv"])
        .done();
    let fit = [
        "fit",
        "seen.csv",
        "-o",
        "clone.toml",
        "--split",
        "40%",
        "--predict",
        "all",
        "--evaluated",
        "first.toml",
        "--open",
    ];
    let document = bench.json(&fit);
    let command = document["reproduction"].as_str().unwrap();
    assert!(command.contains(" --open "), "{command}");
    let arguments: Vec<&str> = command.split(' ').skip(1).collect();
    let repeated = bench.json(&arguments)["devices"][0].take();
    let model = &document["fit"]["saved_model"];
    let evaluations = document["fit"]["evaluations"].as_array().unwrap();
    let saved = evaluations.iter().find(|one| one["model"] == *model).unwrap();
    assert_eq!(repeated["requests"], 6_000);
    for (figure, predicted) in [("response_mean_ms", "mean_ms"), ("response_p99_ms", "p99_ms")] {
        let difference = number(&repeated[figure]) - number(&saved["predicted"][predicted]);
        assert!(difference.abs() < 1e-5, "{figure}: {repeated}, {saved}");
    }
}

/// Reads of devices 0 and 3 in turn; they take 1 ms and 8 ms.
fn two_devices() -> String {
    let mut text = "arrival_ns,response_ns,device,op,lbn,blocks\n".to_owned();
    for index in 0..6_000_u64 {
        let (device, response) = if index % 2 == 0 { (0, 1_000_000) } else { (3, 8_000_000) };
        let lbn = index * 104_729 % (1_000_000 * (device + 1));
        text += &format!("{},{response},{device},read,{lbn},8\n", index * 20_000_000);
    }
    text
}

#[test]
fn all_devices_of_a_trace_are_fitted_into_one_description() {
    let bench = Bench::new();
    bench.write("two.csv", two_devices());
    let fit = ["fit", "two.csv", "-o", "two.toml", "--device", "all", "--predict", "all"];
    let document = bench.json(&fit);
    let devices: Vec<_> =
        document["devices"].as_array().unwrap().iter().map(|one| one["device"].clone()).collect();
    assert_eq!(devices, [0, 3]);
    let together = &document["together"][0];
    assert_eq!((&together["requests"], &together["operation"]), (&6_000.into(), &Value::Null));
    assert!((number(&together["measured_mean_ms"]) - 4.5).abs() < 1e-9, "{together}");
    assert!(number(&together["mean_error_pct"]).abs() < 1.0, "{together}");
    // Each request is answered by the model of its own device, whose size is its own.
    bench.run(&["simulate", "two.toml", "-w", "two.csv", "--open", "--out", "again.csv"]).done();
    for (device, expected_ms) in [("0", 1.0), ("3", 8.0)] {
        let one = ["fit", "again.csv", "-o", "one.toml", "--device", device, "--model", "trivial"];
        let mean_ms = number(&bench.json(&one)["fit"]["evaluations"][0]["measured"]["mean_ms"]);
        assert!((mean_ms / expected_ms - 1.0).abs() < 0.02, "device {device}: {mean_ms} ms");
    }
    let text = bench.run(&fit).done();
    for part in ["2 devices, 6000 requests", "all devices", "device 3", "written   "] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 90), "{text}");
    // A device that the trace lacks is none of them.
    bench.write("other.csv", "arrival_ns,device,op,lbn,blocks\n0,1,read,0,8\n");
    bench.run(&["simulate", "two.toml", "-w", "other.csv"]).fails(&["device 1"]);
    for flag in [["--report", "x.html"], ["--capacity", "1GiB"]] {
        bench.run(&[&fit[..], &flag].concat()).fails(&[flag[0], "--device N"]);
    }
    bench
        .run(&["serve", "two.toml", "--nbd", "tcp:127.0.0.1:0"])
        .fails(&["several devices in one description"]);
}

#[test]
fn numbers_of_a_bank_are_checked() {
    let bench = Bench::new();
    let device = "[[devices]]\nbase = \"immediate\"\n";
    for (numbers, problem) in [("[0]", "has 1 numbers for 2 devices"), ("[4, 4]", "4 stands twice")] {
        bench.write("bank.toml", format!("kind = \"bank\"\nnumbers = {numbers}\n{device}{device}"));
        bench.run(&["devices", "bank.toml"]).fails(&["bank.toml", "numbers", problem, "hint: "]);
    }
}

/// The devices of the predictions lie in one file, and the printed commands give their figures.
#[test]
fn commands_repeat_the_predictions_of_several_devices() {
    let bench = Bench::new();
    bench.write("two.csv", two_devices());
    for (more, commands) in [(&["--predict", "all", "--open"][..], 1), (&[][..], 2)] {
        let fit = ["fit", "two.csv", "-o", "two.toml", "--device", "all", "--evaluated", "first.toml"];
        let document = bench.json(&[&fit[..], more].concat());
        let reproductions = document["reproductions"].as_array().unwrap();
        assert_eq!(reproductions.len(), commands, "{document}");
        let expected: Vec<(&Value, &Value)> = match commands {
            1 => vec![(&document["together"][0]["requests"], &document["together"][0]["predicted_mean_ms"])],
            _ => document["devices"].as_array().unwrap().iter().map(saved_figures).collect(),
        };
        for (command, (requests, mean_ms)) in reproductions.iter().zip(expected) {
            let arguments: Vec<&str> = command.as_str().unwrap().split(' ').skip(1).collect();
            let repeated = bench.json(&arguments)["devices"][0].take();
            assert_eq!(&repeated["requests"], requests, "{command}");
            let difference = number(&repeated["response_mean_ms"]) - number(mean_ms);
            // A simulation states whole nanoseconds.
            assert!(difference.abs() < 1e-6, "{command}: {repeated}, {mean_ms}");
        }
    }
}

/// Requests and mean of the prediction of the saved model.
fn saved_figures(device: &Value) -> (&Value, &Value) {
    let evaluations = device["evaluations"].as_array().unwrap();
    let saved = evaluations.iter().find(|one| one["model"] == device["saved_model"]).unwrap();
    (&saved["predicted_requests"], &saved["predicted"]["mean_ms"])
}

#[test]
fn bank_beneath_another_device_is_refused() {
    let bench = Bench::new();
    let bank = "kind = \"bank\"\n[[DEVICE.devices]]\nbase = \"immediate\"\n";
    let queue = format!("kind = \"queue\"\n[device]\n{}", bank.replace("DEVICE", "device"));
    bench.write("queue.toml", queue);
    bench.run(&["devices", "queue.toml"]).fails(&[
        "queue.toml",
        "device.kind",
        "`bank` stands beneath",
        "hint: ",
    ]);
    bench.write("bank.toml", bank.replace("DEVICE.", ""));
    bench
        .run(&["simulate", "bank.toml", "-w", "random,requests=1", "--fault", "aborted,after=1"])
        .fails(&["`bank` stands beneath", "[[devices]]"]);
}

/// The end of each device of a bank is its own: requests beyond the smaller one reach the larger one only.
#[test]
fn each_device_of_a_bank_has_its_own_size() {
    let bench = Bench::new();
    let constant = |blocks: u32| {
        format!(
            "[[devices]]\nkind = \"constant\"\nblock_size = \"512B\"\ncapacity_blocks = {blocks}\nservice_time = \"1ms\"\n"
        )
    };
    bench.write("bank.toml", format!("kind = \"bank\"\n{}{}", constant(100), constant(1_000)));
    bench.write("fits.csv", "arrival_ns,device,op,lbn,blocks\n0,0,read,92,8\n0,1,read,992,8\n");
    let fits = bench.json(&["simulate", "bank.toml", "-w", "fits.csv"]);
    assert_eq!(fits["devices"][0]["requests"], 2, "{fits}");
    bench.write("beyond.csv", "arrival_ns,device,op,lbn,blocks\n0,1,read,992,8\n0,0,read,93,8\n");
    bench.run(&["simulate", "bank.toml", "-w", "beyond.csv"]).fails(&["93", "100"]);
}
