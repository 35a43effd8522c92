//! Tests that every error names the place, the problem and a valid alternative.

use seeklab_core::{DescriptionError, Seed, Workload};
use seeklab_workloads::{Supplied, Synthetic, SyntheticSpec, WorkloadSpec};

use crate::common::TARGET;

/// Checks the message, and that the hint holds a text.
fn check(error: &DescriptionError, message: &str, hint: &str) {
    assert_eq!(error.to_string(), message);
    let seen = error.advice().unwrap_or("");
    assert!(seen.contains(hint), "hint of `{message}`: {seen:?} does not hold {hint:?}");
}

#[test]
fn wrong_line_reports_the_problem_and_a_hint() {
    for (line, message, hint) in [
        ("", "an empty description", "random,poisson=80/s"),
        ("randon", "unknown workload `randon`; did you mean `random`?", "oltp"),
        (
            "random,sise=8KiB",
            "sise: unknown key `sise`; did you mean `size`?",
            "allowed: requests, read, discard",
        ),
        ("random,size", "`size` has no value", "key=value"),
        ("random,size=8", "size: `8` has no unit", "\"8KiB\""),
        ("random,size=8k", "size: `8k` has an ambiguous unit", "write 8KiB"),
        ("random,size=4KiB:x", "size: `x` is not a weight", "whole number"),
        ("random,read=most", "read: `most` is not a ratio", "66%"),
        ("random,poisson=80", "arrivals.rate: `80` has no unit", "\"80/s\""),
        ("random,requests=many", "requests: string \"many\" is not a whole number from 0", "whole number"),
        ("random,read=1,read=0", "read: `read` sets a value that is already set", "remove"),
        (
            "random,poisson=8/s,closed=2",
            "arrivals.process: `closed` sets a value that is already set",
            "remove",
        ),
        (
            "random,arrivals.process=poison",
            "arrivals.process: unknown name `poison`; did you mean `poisson`?",
            "constant",
        ),
        ("random,arrivals.process=poisson", "arrivals.process: `poisson` needs a pace", "`rate`"),
        (
            "random,arrivals.rate=9/s",
            "arrivals.rate: unknown key `rate` where `process = \"closed\"`",
            "allowed: population, think, think_distribution",
        ),
        ("random,closed=0", "arrivals.population: 0", "1 to 1000000 members"),
        ("random,think=soon", "arrivals.think: `soon` is not a duration", "8.5ms"),
        ("random,arrivals.process=bursty", "arrivals.burst: is missing where `process = \"bursty\"`", ""),
        (
            "random,address.zones=9",
            "address.zones: unknown key `zones` where `distribution = \"uniform\"`",
            "allowed: start, end",
        ),
        ("random,address.distribution=hot,address.zones=9", "address.zones: `9` is not a zone", "10%:80%"),
        (
            "random,address.exponent=2",
            "address.exponent: unknown key `exponent` where `distribution = \"uniform\"`",
            "start",
        ),
        ("random,zipf=high", "address.exponent: string \"high\" is not a number", "a number"),
        ("size=8KiB,read=1", "arrivals: is missing", "process = \"poisson\""),
        ("random,read=2", "read: 2", "at most 100%"),
        ("random,address.end=120%", "address.end: 1.2", "at most 100%"),
        ("replay,arrivals=opne", "arrivals: `opne` is no arrival mode", "`open`"),
        (
            "replay,arrivals=closed 0",
            "arrivals: `0` is not a population of 1 to 1000000, or `auto`",
            "closed 8",
        ),
        ("replay,arrivals=scaled", "arrivals: `scaled` needs a factor", "scaled 2"),
    ] {
        let error = WorkloadSpec::parse(line).expect_err(line);
        check(&error, message, hint);
    }
}

#[test]
fn wrong_document_reports_the_problem_and_a_hint() {
    let base = "kind = \"synthetic\"\nread = \"66%\"\nsize = \"8KiB\"\narrivals = { process = \"closed\", population = 1 }\n";
    assert!(WorkloadSpec::from_toml(base).is_ok());
    for (from, to, message, hint) in [
        ("kind = \"synthetic\"\n", "", "kind: is missing", "preset"),
        (
            "synthetic",
            "sintetic",
            "line 1: kind: unknown kind `sintetic`; did you mean `synthetic`?",
            "replay",
        ),
        (
            "kind",
            "preset = \"olpt\"\nkind",
            "line 1: preset: unknown preset `olpt`; did you mean `oltp`?",
            "random",
        ),
        (
            "\"66%\"",
            "0.66",
            "line 2: read: floating point `0.66` is not a ratio as text with its unit, for example \"66%\"",
            "\"66%\"",
        ),
        ("\"8KiB\"", "\"8192\"", "line 3: size: `8192` has no unit", "KiB"),
        ("\"8KiB\"", "[{ size = \"4KiB\", wait = 2 }]", "line 3: size[0].wait: unknown key `wait`", "weight"),
        (
            "\"8KiB\"",
            "{ distribution = \"uniform\", min = \"4KiB\" }",
            "line 3: size.max: is missing where `distribution = \"uniform\"`",
            "max = \"64KiB\"",
        ),
        (
            "population = 1",
            "populaton = 1",
            "line 4: arrivals.populaton: unknown key `populaton` where `process = \"closed\"`; did you mean `population`?",
            "think",
        ),
        (
            "population = 1",
            "population = \"1\"",
            "line 4: arrivals.population: string \"1\" is not a whole number from 0 to 4294967295",
            "whole number",
        ),
    ] {
        let error = WorkloadSpec::from_toml(&base.replacen(from, to, 1)).expect_err(to);
        check(&error, message, hint);
    }
    let error = WorkloadSpec::from_toml("kind = ").unwrap_err();
    assert!(error.to_string().contains("line 1"), "{error}");
}

#[test]
fn description_that_does_not_fit_the_device_is_refused() {
    for (line, message, hint) in [
        ("size=16GiB", "size: 16GiB is more than the addresses span, which is 8GiB", ""),
        ("size=100B", "size: 100B is not a positive multiple of the block size, 512B", ""),
        ("size=4KiB:0", "size: the weights of the mix sum to 0", "weight above 0"),
        ("size=8KiB,align=100B", "align: 100B is not a positive multiple of the block size, 512B", ""),
        (
            "size=8KiB,sequential=60%,local=50%",
            "sequential: `sequential` (0.6) and `local` (0.5) sum to more than 1",
            "100%",
        ),
        ("size=8KiB,local=50%", "local_distance: is missing, but `local` is given", "20MiB"),
        (
            "size=8KiB,address.start=1/2,address.end=1/2",
            "address: no aligned block lies between start (block 8388608) and end (block 8388608)",
            "",
        ),
        ("size=1MiB,address.end=1/16777216", "size: 1MiB is more than the addresses span, which is 512B", ""),
        ("size=8KiB,zipf=0", "address.exponent: `0` is out of range", "above 0"),
        (
            "size=8KiB,align=4KiB,zipf=1,address.granularity=6KiB",
            "address.granularity: 6KiB is not a multiple of the alignment",
            "`align`",
        ),
        (
            "size=8KiB,address.distribution=hot,address.zones=60%:1%+50%:1%",
            "address.zones: `share_of_space` sums to 1.1, more than 1",
            "100%",
        ),
        (
            "size=8KiB,address.distribution=hot,address.zones=100%:50%",
            "address.zones: the zones take all of the space, but only 0.5 of the requests",
            "100%",
        ),
        (
            "size.distribution=exponential,size.mean=100B",
            "size.mean: 100B is less than a block, which has 512B",
            "",
        ),
        (
            "size.distribution=exponential,size.mean=8KiB,size.max=4KiB",
            "size.max: 4KiB is less than the mean, 8KiB",
            "",
        ),
        ("size.distribution=uniform,size.min=8KiB,size.max=4KiB", "size.min: is larger than `size.max`", ""),
        ("requests=1", "size: is missing", "8KiB"),
        ("address.distribution=extents", "address: `extents` needs a list of extents", "tracks"),
        (
            "address.distribution=extents,sequential=1/2",
            "sequential: does not go with the address distribution `extents`",
            "remove",
        ),
        (
            "size=8KiB,arrivals.process=shaped",
            "arrivals: `shaped` needs a list of interarrival times",
            "trace",
        ),
    ] {
        let read = if line.contains("read=") { "" } else { ",read=1" };
        let arrivals = if line.contains("arrivals.") { "" } else { ",closed=1" };
        let spec = SyntheticSpec::parse(&format!("{line}{read}{arrivals}"))
            .unwrap_or_else(|e| panic!("{line}: {e}"));
        let error = Synthetic::new(&spec, TARGET, Seed(1), Supplied::default())
            .err()
            .unwrap_or_else(|| panic!("{line}"));
        check(&error, message, hint);
    }
}

#[test]
fn workload_of_no_requests_finishes_at_once() {
    let spec = SyntheticSpec::parse("random,requests=0").unwrap();
    let mut workload = Synthetic::new(&spec, TARGET, Seed(1), Supplied::default()).unwrap();
    assert_eq!(workload.next_arrival(seeklab_core::Instant::ZERO), seeklab_core::Arrival::Finished);
}

#[test]
fn value_of_the_wrong_type_reports_the_expected_type() {
    for (key, value, message) in [
        (
            "arrivals",
            "5",
            "line 2: arrivals: integer `5` is not a table with a process, for example { process = \"poisson\", rate = \"100/s\" }",
        ),
        (
            "address",
            "\"hot\"",
            "line 2: address: string \"hot\" is not a table, for example { distribution = \"zipf\", exponent = 0.9 }",
        ),
        (
            "size",
            "[4096]",
            "line 2: size[0]: integer `4096` is not a size with its weight, for example { size = \"4KiB\", weight = 3 }",
        ),
        ("requests", "\"many\"", "line 2: requests: string \"many\" is not a whole number from 0"),
        ("requests", "-1", "line 2: requests: integer `-1` is not a whole number from 0"),
    ] {
        let error = WorkloadSpec::from_toml(&format!("preset = \"random\"\n{key} = {value}")).expect_err(key);
        check(&error, message, "allowed");
    }
}
