//! Tests that every mistake in a description names its file, line and key, the value found and what is allowed.

use super::Description;

/// The text of `hp-c2247a` with one thing changed gives this error and hint.
fn check(from: &str, to: &str, expected: &str) {
    let text = include_str!("../../catalog/hp-c2247a.toml");
    assert!(text.contains(from), "{from}");
    let error = Description::parse("x", "x.toml", &text.replacen(from, to, 1))
        .and_then(|description| description.build(seeklab_core::Seed(1), "disk0").map(drop))
        .expect_err(expected);
    assert_eq!(format!("{error}\nhint: {}", error.advice().unwrap_or("none")), expected);
}

#[test]
fn mistake_names_its_key_and_the_allowed_values() {
    check(
        "\"5400rpm\"",
        "\"5400\"",
        "x.toml, line 96: mechanics.rpm: `5400` has no unit\nhint: write a rotation speed, for example \"5400rpm\"",
    );
    check(
        "\"5400rpm\"",
        "5400",
        "x.toml, line 96: mechanics.rpm: integer `5400` is not a rotation speed as text with its unit, for example \
         \"7200rpm\"\nhint: allowed: a rotation speed as text with its unit, for example \"7200rpm\"",
    );
    check(
        "first_block_offset = 73",
        "first_block_ofset = 73",
        "x.toml, line 40: geometry.zones[2].first_block_ofset: unknown key `first_block_ofset`; did you mean \
         `first_block_offset`?\nhint: allowed: first_cylinder, last_cylinder, sectors_per_track, surface_sectors, \
         first_block_offset, reserved_blocks, track_skew, cylinder_skew, angles, spares, slips, remaps",
    );
    check(
        "track_skew = 13",
        "track_skew = -13",
        "x.toml, line 31: geometry.zones[1].track_skew: integer `-13` is not a whole number from 0 to 4294967295\n\
         hint: allowed: a whole number from 0 to 4294967295",
    );
    check(
        "last_cylinder = 558\n",
        "",
        "x.toml, line 16: geometry.zones[0].last_cylinder: is missing\nhint: none",
    );
    check(
        "mapping = \"normal\"",
        "mapping = \"serpentin\"",
        "x.toml, line 13: geometry.mapping: unknown name `serpentin`; did you mean `serpentine`, \
         `serpentine_per_zone`?\n\
         hint: allowed: normal, serpentine_per_zone, serpentine, surface_first",
    );
    check(
        "surfaces = 13",
        "surfaces = 0",
        "x.toml, line 12: geometry.surfaces: 0\nhint: allowed: 1 to 256 surfaces",
    );
    check(
        "last_cylinder = 2050",
        "last_cylinder = 2000000000",
        "x.toml, line 87: geometry.zones[7].last_cylinder: 2000000000\n\
         hint: allowed: from the zone's first cylinder, 1794, to 16777215",
    );
}

#[test]
fn key_is_found_below_a_tag() {
    check(
        "sqrt_factor = \"0.33ms\"",
        "sqrt_factor = \"0.33\"",
        "x.toml, line 104: mechanics.seek.sqrt_factor: `0.33` has no unit\nhint: write a duration, for example \"0.33ms\"",
    );
    check(
        "segments = 2",
        "segments = \"many\"",
        "x.toml, line 145: electronics.buffer.segments: string \"many\" is not a whole number from 0 to 4294967295\n\
         hint: allowed: a whole number from 0 to 4294967295",
    );
}

#[test]
fn text_that_is_not_toml_names_the_line() {
    check("surfaces = 13", "surfaces 13", "x.toml, line 12: key with no value, expected `=`\nhint: none");
}
