//! A struct that declares a parameter of each sort: its reference, its mistakes and its ranges.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema::{check_ranges, schema_of, settable_paths, type_texts};
use super::*;
use crate::units::{ByteSize, Duration};

/// A store of goods.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Store {
    /// Name of the store.
    name: String,
    /// Levels of the store.
    #[serde(default = "four")]
    #[schemars(range(min = 1, max = 9), extend("x-unit" = "levels"))]
    levels: u64,
    /// Share of the space in use.
    #[serde(default)]
    load: f64,
    /// Refuse goods.
    #[serde(default)]
    closed: bool,
    /// Longest wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    wait: Option<Duration>,
    /// Labels of the rooms.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-unit" = "labels"))]
    labels: Option<Vec<String>>,
    /// Sizes that fit, or `any`.
    #[serde(default = "any")]
    fits: Fits,
    /// Colour of the walls.
    #[serde(default)]
    colour: Colour,
    /// Shelves.
    #[serde(default)]
    shelves: Vec<Shelf>,
    /// Access to the levels.
    access: Access,
}

const fn four() -> u64 {
    4
}

fn any() -> Fits {
    Fits::Word("any".to_owned())
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Colour {
    #[default]
    White,
    DarkGrey,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Fits {
    Sizes(Vec<ByteSize>),
    Word(String),
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Shelf {
    /// Boxes on the shelf.
    #[schemars(range(min = 2), extend("x-unit" = "boxes"), example = 7)]
    boxes: u64,
}

/// Access.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "by", rename_all = "snake_case", deny_unknown_fields)]
enum Access {
    /// A ladder.
    Ladder {
        /// Rungs of the ladder.
        #[schemars(range(max = 30), example = 12)]
        rungs: u64,
    },
    /// A lift.
    Lift {
        /// Time between two levels.
        #[schemars(extend("x-minimum" = "1s"))]
        time: Duration,
        /// Colour of the cabin.
        #[serde(default)]
        cabin: Colour,
    },
}

const WHOLE: &str = "name = \"n\"\naccess = { by = \"lift\", time = \"2s\" }\nshelves = [{ boxes = 3 }]\n";

fn mistake(text: &str) -> String {
    let read = || -> Result<Store, DescriptionError> {
        let store = read::<Store>(&parse(text)?)?;
        check_ranges(&store)?;
        Ok(store)
    };
    let error = read().unwrap_err().located(text);
    match error.advice() {
        Some(advice) => format!("{error}; {advice}"),
        None => error.to_string(),
    }
}

#[test]
fn reference_names_each_parameter_with_its_values_range_and_default() {
    let rows = reference(&schema_of::<Store>());
    let rows: Vec<[&str; 5]> = rows
        .iter()
        .map(|row| {
            let default = row.default.as_deref().unwrap_or("required");
            [row.path.as_str(), &row.only_if, &row.value, &row.range, default]
        })
        .collect();
    assert_eq!(
        rows,
        [
            ["name", "", "text", "", "required"],
            ["levels", "", "whole number of levels", "1 to 9 levels", "4"],
            ["load", "", "number", "", "0.0"],
            ["closed", "", "true or false", "", "false"],
            ["wait", "", "duration", "", ""],
            ["labels", "", "list of labels", "", ""],
            ["fits", "", "list or text", "", "\"any\""],
            ["colour", "", "one of `white`, `dark_grey`", "", "\"white\""],
            ["shelves", "", "list of tables", "", "[]"],
            ["shelves[].boxes", "", "whole number of boxes", "at least 2 boxes", "required"],
            ["access.by", "", "one of `ladder`, `lift`", "", "required"],
            ["access.rungs", "access.by = \"ladder\"", "whole number", "0 to 30", "required"],
            ["access.time", "access.by = \"lift\"", "duration", "at least 1s", "required"],
            ["access.cabin", "access.by = \"lift\"", "one of `white`, `dark_grey`", "", "\"white\""],
        ]
    );
}

#[test]
fn mistakes_name_the_path_of_the_key_and_what_is_allowed_there() {
    for (change, expected) in [
        (("boxes = 3", "boxes = 1"), "line 3: shelves[0].boxes: 1; allowed: at least 2 boxes"),
        (("boxes = 3", ""), "line 3: shelves[0].boxes: is missing; write for example boxes = 7"),
        (
            ("boxes = 3", "boxs = 3"),
            "line 3: shelves[0].boxs: unknown key `boxs`; did you mean `boxes`?; allowed: boxes",
        ),
        (("time = \"2s\"", "time = \"0.5s\""), "line 2: access.time: 500ms; allowed: at least 1s"),
        (
            ("time = \"2s\"", "rungs = 3"),
            "line 2: access.rungs: unknown key `rungs` where `by = \"lift\"`; allowed: time, cabin",
        ),
        (
            ("by = \"lift\", time = \"2s\"", "by = \"ladder\""),
            "line 2: access.rungs: is missing where `by = \"ladder\"`; write for example rungs = 12",
        ),
        (
            ("time = \"2s\"", "time = \"2s\", cabin = \"dark\""),
            "line 2: access.cabin: unknown name `dark`; did you mean `dark_grey`?; allowed: white, dark_grey",
        ),
        (
            ("by = \"lift\", time = \"2s\"", "by = \"ladder\", rungs = 31"),
            "line 2: access.rungs: 31; allowed: 0 to 30",
        ),
        (
            ("access = { by = \"lift\", time = \"2s\" }", ""),
            "access: is missing; write for example access = { by = \"ladder\", … }",
        ),
        (("name = \"n\"", "name = \"n\"\nlevels = 10"), "line 2: levels: 10; allowed: 1 to 9 levels"),
        (
            ("name = \"n\"", "name = \"n\"\ncolour = \"dark\""),
            "line 2: colour: unknown name `dark`; did you mean `dark_grey`?; allowed: white, dark_grey",
        ),
    ] {
        let text = WHOLE.replace(change.0, change.1);
        assert_eq!(mistake(&text), expected, "{text}");
    }
}

#[test]
fn paths_of_a_table_include_its_entries_and_the_keys_of_its_variant() {
    let paths = settable_paths(&schema_of::<Store>(), &parse(WHOLE).unwrap());
    assert_eq!(
        paths,
        [
            "name",
            "levels",
            "load",
            "closed",
            "wait",
            "labels",
            "fits",
            "colour",
            "shelves",
            "shelves[0].boxes",
            "access.by",
            "access.time",
            "access.cabin"
        ]
    );
}

#[test]
fn texts_of_a_line_become_the_declared_types() {
    let mut table =
        parse("name = \"7\"\nlevels = \"1_0\"\nload = \"0.5\"\nclosed = \"true\"\naccess = { by = \"ladder\", rungs = \"8\" }\n")
            .unwrap();
    type_texts(&schema_of::<Store>(), &mut table);
    let store: Store = read(&table).unwrap();
    assert_eq!((store.name.as_str(), store.levels, store.load, store.closed), ("7", 10, 0.5, true));
    assert_eq!(store.access, Access::Ladder { rungs: 8 });
}
