//! Walks over descriptions, layers included.

use seeklab_core::{Instant, Operation, Request, Seed};

use super::Description;
use crate::{catalog, registry};

fn parse(text: &str) -> Description {
    Description::parse("layered", "layered.toml", text).unwrap_or_else(|error| panic!("{error}"))
}

fn error(text: &str) -> String {
    let error = Description::parse("x", "x.toml", text)
        .and_then(|description| description.build(Seed(1), "disk0").map(drop))
        .expect_err(text);
    format!("{error}\nhint: {}", error.advice().unwrap_or("none"))
}

const QUEUED: &str = "kind = \"queue\"\nscheduler = \"sptf\"\n[device]\nbase = \"hp-c2247a\"\n";
const LIMITED: &str = "kind = \"limit\"\n[[requests]]\nrate = \"200/s\"\nburst = 3\n[device]\nkind = \"queue\"\n\
                       [device.device]\nbase = \"hp-c2247a\"\n";

/// Service time of one read, in nanoseconds.
fn read_ns(description: &Description) -> u64 {
    let mut device = description.build(Seed(1), "disk0").unwrap();
    device.submit(Instant::ZERO, Request::new(0, Operation::Read, 1_000_000, 16)).unwrap();
    let mut completions = Vec::new();
    while let Some(event) = device.next_event() {
        device.poll(event, &mut completions);
    }
    assert_eq!(completions[0].breakdown.bus.is_zero(), description.name.ends_with("(bare)"));
    (completions[0].completed - Instant::ZERO).as_ns()
}

#[test]
fn layers_forward_bare_tracks_validation_and_capabilities() {
    let disk = catalog::find("hp-c2247a").unwrap();
    for text in [QUEUED, LIMITED] {
        let layered = parse(text);
        assert_eq!(layered.tracks(), disk.tracks());
        assert_eq!(layered.validated(), disk.validated());
        assert_eq!(read_ns(&layered), read_ns(&disk));
        let bare = layered.bare().unwrap();
        assert_eq!(bare.name, "layered (bare)");
        assert_eq!(read_ns(&bare), read_ns(&catalog::find("hp-c2247a").unwrap().bare().unwrap()));
    }
}

/// Ganger & Patt 1998, table 2, has 56 to 96 sectors on a track of the HP C2247.
#[test]
fn tracks_of_a_disk_follow_one_another_with_the_sectors_of_the_data_sheet() {
    let tracks = catalog::find("hp-c2247a").unwrap().tracks().unwrap();
    assert_eq!(tracks[0].0, 0);
    assert!(tracks.windows(2).all(|pair| pair[0].0 + u64::from(pair[0].1) <= pair[1].0));
    let sectors = |at: usize| tracks[at].1;
    assert_eq!((sectors(tracks.len() / 9), sectors(tracks.len() - 1) / 8), (96, 7));
    assert!(tracks.iter().all(|(_, sectors)| *sectors <= 96));
}

#[test]
fn bare_queue_holds_no_more_than_the_bare_device() {
    let mut queued = parse("kind = \"queue\"\ndepth = 8\n[device]\nbase = \"nearline-7200\"\n");
    assert_eq!(queued.parameters()[0].1, "8");
    queued = queued.bare().unwrap();
    assert_eq!(queued.parameters()[0].1, "1");
    queued.build(Seed(1), "disk0").unwrap();
}

#[test]
fn capabilities_are_those_of_the_built_device() {
    let texts = [QUEUED, LIMITED].map(parse);
    let of_catalog = catalog::names().map(|name| catalog::find(name).unwrap());
    for description in of_catalog.chain(texts) {
        let built = description.build(Seed(1), "disk0").unwrap();
        assert_eq!(&description.capabilities().unwrap(), built.capabilities(), "{}", description.name);
    }
}

#[test]
fn changed_value_replaces_the_validation() {
    let changed = |description: &Description, sets: &[(&str, &str)]| {
        let mut description = description.clone();
        for (key, value) in sets {
            description.set(key, value).unwrap_or_else(|error| panic!("{error}"));
        }
        description.validated().to_owned()
    };
    let disk = catalog::find("hp-c2247a").unwrap();
    assert!(disk.validated().starts_with("measured"), "{}", disk.validated());
    assert_eq!(changed(&disk, &[("rpm", "15000rpm")]), "changed: rpm");
    assert_eq!(
        changed(&disk, &[("rpm", "15000rpm"), ("head_switch", "1ms"), ("mechanics.rpm", "9000rpm")]),
        "changed: rpm, head_switch"
    );
    assert_eq!(changed(&disk, &[("rpm", "5400rpm")]), disk.validated(), "the same value");
    let queued = parse(QUEUED);
    assert_eq!(changed(&queued, &[("rpm", "15000rpm")]), "changed: rpm");
    assert_eq!(changed(&queued, &[("scheduler", "c-look")]), "changed: scheduler");
    let stated = parse(&format!("validated = \"measured behind a queue\"\n{QUEUED}"));
    assert_eq!(changed(&stated, &[("rpm", "15000rpm")]), "changed: rpm");
    let based = parse("base = \"hp-c2247a\"\n[set]\nrpm = \"15000rpm\"\n");
    assert_eq!(based.validated(), "changed: rpm");
    assert_eq!(parse(&based.to_toml()).validated(), "changed: rpm", "saved and read again");
    let stated = parse("base = \"hp-c2247a\"\nvalidated = \"measured\"\n[set]\nrpm = \"15000rpm\"\n");
    assert_eq!(stated.validated(), "measured", "the file's own statement");
}

#[test]
fn entry_of_a_list_of_tables_is_set_by_its_index() {
    let mut limited = parse(LIMITED);
    limited.set("rate", "300/s").unwrap();
    limited.set("requests[0].used", "2").unwrap();
    let rows = limited.parameters();
    let value = |path: &str| &rows.iter().find(|(other, ..)| other == path).expect(path).1;
    assert_eq!((value("requests[0].rate").as_str(), value("requests[0].used").as_str()), ("300/s", "2"));
    limited.set("device.device.geometry.zones[0].track_skew", "15").unwrap();
    let mut disk = catalog::find("hp-c2247a").unwrap();
    disk.set("geometry.zones[7].track_skew", "9").unwrap();
    let error = disk.set("track_skew", "9").unwrap_err();
    assert_eq!(error.to_string(), "parameter `track_skew` is one of a list");
    assert!(
        error.advice().unwrap().starts_with("write one of `geometry.zones[0].track_skew`, "),
        "{error:?}"
    );
    assert!(error.advice().unwrap().ends_with("8 in all"), "{error:?}");
    assert!(disk.set("geometry.zones[8].track_skew", "9").is_err());
}

#[test]
fn entry_of_an_omitted_table_is_set() {
    let mut disk = catalog::find("hp-c2247a").unwrap();
    assert!(!disk.to_toml().contains("angles"));
    disk.set("geometry.zones[7].angles.cylinder_step", "17/134turn").unwrap();
    disk.set("geometry.zones[7].angles.head_steps", "[\"63sectors\", \"1/2turn\"]").unwrap();
    let saved = disk.to_toml();
    assert!(saved.contains("cylinder_step = \"17/134turn\""), "{saved}");
    assert!(saved.contains("head_steps = [\"63sectors\", \"1/2turn\"]"), "{saved}");
    let error = disk.set("geometry.zones[7].angles.cylinder_step", "17/134").unwrap_err();
    assert!(
        error.to_string().ends_with("geometry.zones[7].angles.cylinder_step: `17/134` has no unit"),
        "{error}"
    );
    assert!(error.advice().unwrap().contains("\"17/134turn\" or \"17/134sectors\""), "{error:?}");
}

#[test]
fn refused_value_changes_nothing() {
    let mut disk = catalog::find("hp-c2247a").unwrap();
    let before = disk.to_toml();
    for (key, value) in [("rpm", "1rpm"), ("rpm", "5400"), ("capacity_blocks", "99999999999")] {
        disk.set(key, value).unwrap_err();
        assert_eq!(disk.to_toml(), before);
    }
}

#[test]
fn layered_description_is_saved_with_all_headers() {
    let saved = parse(LIMITED).to_toml();
    let again = parse(&saved);
    assert_eq!(again.to_toml(), saved);
    let disk = catalog::find("hp-c2247a").unwrap();
    assert_eq!(again.children()[0].children()[0].header, disk.header);
    let sources = |description: &Description, path: &str| {
        description.parameters().into_iter().find(|(other, ..)| other == path).expect(path).2
    };
    assert_eq!(
        sources(&again, "device.device.electronics.buffer.write_start"),
        sources(&disk, "electronics.buffer.write_start")
    );
}

#[test]
fn several_children_take_names_of_their_own() {
    let text = "kind = \"bank\"\n[[devices]]\nbase = \"exponential\"\n[[devices]]\nname = \"b\"\n\
                kind = \"queue\"\n[devices.device]\nbase = \"exponential\"\n";
    let pair = parse(text);
    assert_eq!(parse(&pair.to_toml()).to_toml(), pair.to_toml());
    let times = |description: &Description, name: &str, number: u16| {
        let mut device = description.build(Seed(1), name).unwrap();
        let request = Request { device: number, ..Request::new(0, Operation::Read, 0, 8) };
        device.submit(Instant::ZERO, request).unwrap();
        device.next_event().unwrap()
    };
    let alone = catalog::find("exponential").unwrap();
    assert_eq!(times(&pair, "disk0", 0), times(&alone, "disk0.0", 0));
    assert_eq!(times(&pair, "disk0", 1), times(&alone, "disk0.b", 0));
    assert_eq!(
        times(&parse("kind = \"queue\"\n[device]\nbase = \"exponential\"\n"), "d", 0),
        times(&alone, "d", 0)
    );
    assert_eq!(pair.tracks(), None);
    let mut pair = pair;
    pair.set("devices[1].device.service_time", "5ms").unwrap();
    assert_eq!(pair.children()[1].validated(), "changed: service_time");
    let refused = |text: &str| error(text);
    assert_eq!(refused("kind = \"bank\"\n"), "x.toml: devices: is missing\nhint: none");
    assert_eq!(
        refused("kind = \"bank\"\ndevices = []\n"),
        "x.toml, line 2: devices: is empty\nhint: allowed: at least 1 device"
    );
    assert_eq!(
        refused(
            "kind = \"bank\"\n[[devices]]\nbase = \"immediate\"\nname = \"1\"\n[[devices]]\nbase = \"immediate\"\n"
        ),
        "x.toml, line 5: devices[1].name: `1` stands twice\nhint: allowed: a different name for each device"
    );
    assert_eq!(
        refused(
            "kind = \"bank\"\n[[devices]]\nkind = \"constant\"\nblock_size = \"512\"\ncapacity_blocks = 1\n"
        ),
        "x.toml, line 4: devices[0].block_size: `512` has no unit\nhint: write a size, for example \"512B\" or \"512KiB\""
    );
}

#[test]
fn changed_value_of_a_base_names_its_line_in_the_file() {
    let text = "base = \"hp-c2247a\"\n[set]\nhead_switch = \"1ms\"\nrpm = \"14rpm\"\n";
    assert_eq!(
        error(text),
        "x.toml, line 4: set.rpm: mechanics.rpm: 14rpm\nhint: allowed: 15rpm to 1000000rpm"
    );
    assert_eq!(
        error(&format!("kind = \"queue\"\n[device]\n{}", text.replace("[set]", "[device.set]"))),
        "x.toml, line 6: device.set.rpm: mechanics.rpm: 14rpm\nhint: allowed: 15rpm to 1000000rpm"
    );
}

#[test]
fn mistake_that_only_building_finds_names_its_line() {
    let disk = include_str!("../../catalog/hp-c2247a.toml").replacen("surfaces = 13", "surfaces = 0", 1);
    let below = |line: &str| match (line.strip_prefix("[["), line.strip_prefix('[')) {
        (Some(rest), _) => format!("[[device.{rest}\n"),
        (None, Some(rest)) => format!("[device.{rest}\n"),
        _ => format!("{line}\n"),
    };
    let layered: String = disk.lines().map(below).collect();
    let text = format!("kind = \"queue\"\n[device]\n{layered}");
    assert_eq!(
        error(&text),
        "x.toml, line 14: device.geometry.surfaces: 0\nhint: allowed: 1 to 256 surfaces"
    );
}

#[test]
fn missing_or_wrong_child_is_named() {
    assert_eq!(error("kind = \"queue\"\n"), "x.toml: device: is missing\nhint: none");
    assert_eq!(
        error("kind = \"queue\"\ndevice = 3\n"),
        "x.toml, line 2: device: integer `3` is not a table\nhint: allowed: a table"
    );
    assert_eq!(
        error("kind = \"queue\"\ndevise = 3\n[device]\nbase = \"immediate\"\n"),
        "x.toml, line 2: devise: unknown key `devise`; did you mean `device`?\nhint: allowed: scheduler, depth, device"
    );
    assert!(
        error("kind = \"constant\"\ncapacity_blocks = 1\nblock_size = \"1B\"\n[device]\n")
            .contains("unknown key `device`")
    );
}

#[test]
fn every_parameter_is_declared_with_a_description() {
    for kind in registry::KINDS {
        let parameters = kind.parameters();
        assert!(!parameters.is_empty(), "{}", kind.name);
        for parameter in parameters {
            assert!(
                !parameter.description.is_empty(),
                "{}: {} has no description",
                kind.name,
                parameter.path
            );
        }
    }
    for name in catalog::names() {
        let description = catalog::find(name).unwrap();
        let declared: Vec<String> =
            description.kind().parameters().into_iter().map(|parameter| parameter.path).collect();
        for path in description.paths() {
            let pattern: String = path
                .split_inclusive(']')
                .map(|part| part.split_once('[').map_or(part.to_owned(), |(list, _)| format!("{list}[]")))
                .collect();
            assert!(declared.contains(&pattern), "{name}: {path} is not declared: {declared:?}");
        }
    }
}

#[test]
fn reference_gives_unit_range_default_and_variant() {
    let parameters = registry::find("disk").unwrap().parameters();
    let of = |path: &str| parameters.iter().find(|parameter| parameter.path == path).expect(path);
    let surfaces = of("geometry.surfaces");
    assert_eq!(
        (surfaces.value.as_str(), surfaces.range.as_str()),
        ("whole number of surfaces", "1 to 256 surfaces")
    );
    assert_eq!(surfaces.default, None);
    let rpm = of("mechanics.rpm");
    assert_eq!((rpm.value.as_str(), rpm.range.as_str()), ("rotation speed", "15rpm to 1000000rpm"));
    let depth = of("queue.depth");
    assert_eq!((depth.default.as_deref(), depth.range.as_str()), (Some("1"), "at least 1 command"));
    assert_eq!(of("geometry.block_size").default.as_deref(), Some("\"512B\""));
    assert_eq!(of("geometry.zones").value, "list of tables");
    assert_eq!(of("geometry.zones[].track_skew").value, "whole number of sectors");
    assert_eq!(of("electronics.stream.read_ahead").only_if, "electronics.controller = \"streaming\"");
    assert_eq!(
        of("electronics.controller").value,
        "one of `direct`, `segmented`, `streaming`, `track_buffer`"
    );
}

#[test]
fn value_outside_its_declared_range_is_refused() {
    let refused = |name: &str, key: &str, value: &str| {
        let mut device = catalog::find(name).unwrap();
        let error = device.set(key, value).unwrap_err();
        format!("{error}; {}", error.advice().unwrap_or("none"))
    };
    for (name, key, value, expected) in [
        ("hp-c2247a", "rpm_error", "50%", "mechanics.rpm_error: 0.5; allowed: less than 50%"),
        ("hp-c2247a", "start_phase", "1", "mechanics.start_phase: 1; allowed: less than 100%"),
        ("hp-c2247a", "rpm", "14rpm", "mechanics.rpm: 14rpm; allowed: 15rpm to 1000000rpm"),
        ("hp-c2247a", "read_watermark", "101%", "electronics.bus.read_watermark: 1.01; allowed: at most 1"),
        ("hp-c2247a", "geometry.block_size", "0B", "geometry.block_size: 0B; allowed: 1B to 16MiB"),
        ("hp-c2247a", "geometry.zones", "[]", "geometry.zones: is empty; allowed: at least 1 zone"),
        (
            "hp-c2247a",
            "geometry.zones[2].sectors_per_track",
            "0",
            "geometry.zones[2].sectors_per_track: 0; allowed: 1 to 65535 sectors",
        ),
        ("atlas10k", "electronics.segments", "1", "electronics.segments: 1; allowed: 2 to 256 segments"),
        ("barracuda", "write.segments", "9", "electronics.write.segments: 9; allowed: 1 to 8 extents"),
        ("barracuda", "live_skip", "2s", "electronics.read_hit.live_skip: 2s; allowed: at most 1s"),
        ("barracuda", "live.margin", "2s", "electronics.stream.live.margin: 2s; allowed: at most 1s"),
    ] {
        let refused = refused(name, key, value);
        assert!(refused.ends_with(&format!(": {expected}")), "{refused}");
    }
}

#[test]
fn reference_page_of_device_keys_is_current() {
    let page = crate::schema::reference_page(registry::KINDS);
    let kept = include_str!("../../../../docs/reference/devices.md");
    assert!(kept == page, "write `seeklab devices --reference` to docs/reference/devices.md:\n{page}");
}

#[test]
fn description_of_a_newer_schema_is_refused_with_advice() {
    let text = catalog::find("constant").unwrap().to_toml();
    assert!(text.contains("schema = 1\n"), "{text}");
    assert!(Description::parse("x", "x.toml", &text).is_ok());
    let newer = text.replacen("schema = 1", "schema = 2", 1);
    let error = Description::parse("x", "x.toml", &newer).unwrap_err();
    let problem = ": schema: 2 is newer than 1, the version that this program reads";
    assert!(
        error.to_string().starts_with("x.toml, line ") && error.to_string().ends_with(problem),
        "{error}"
    );
    assert!(error.advice().unwrap().contains("update seeklab"));
    assert!(Description::parse("x", "x.toml", &text.replacen("schema = 1\n", "", 1)).is_ok());
    assert!(Description::parse("x", "x.toml", &text.replacen("schema = 1", "schema = \"1\"", 1)).is_err());
}
