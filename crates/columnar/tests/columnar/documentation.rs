//! The page on trace formats agrees with the formats.

use std::path::{Path, PathBuf};

use seeklab_columnar::FORMATS;

const BEGIN: &str =
    "<!-- begin of the table: SEEKLAB_WRITE_DOCS=1 cargo test -p seeklab-columnar writes it -->\n";
const END: &str = "<!-- end of the table -->";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the descriptions of the formats as a table.
fn table() -> String {
    let mut table =
        "| format | what it is | suffixes | reads, writes | options, the default first | missing columns |\n\
                     | --- | --- | --- | --- | --- | --- |\n"
            .to_owned();
    for format in FORMATS {
        let suffixes: Vec<_> = format.suffixes().iter().map(|suffix| format!("`.{suffix}`")).collect();
        let access = if format.is_writable() { "reads, writes" } else { "reads" };
        let options: Vec<_> = format
            .options()
            .iter()
            .map(|option| {
                let (name, default) = (option.name, option.default);
                format!("`{name}={default}` ({}): {}", option.allowed, option.meaning).replace('|', "\\|")
            })
            .collect();
        let missing: Vec<_> = format.missing_columns().iter().map(ToString::to_string).collect();
        table += &format!(
            "| `{}` | {} | {} | {access} | {} | {} |\n",
            format.name(),
            format.description(),
            suffixes.join(", "),
            options.join("<br>"),
            missing.join(", ")
        );
    }
    table
}

#[test]
fn table_of_formats_equals_the_registry() {
    let path = root().join("docs/trace-formats.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the page has the begin of the table");
    let (written, after) = rest.split_once(END).expect("the page has the end of the table");
    let table = table();
    if std::env::var_os("SEEKLAB_WRITE_DOCS").is_some() {
        std::fs::write(&path, [before, BEGIN, &table, END, after].concat()).unwrap();
        return;
    }
    assert!(
        written == table,
        "the table is out of date: run `SEEKLAB_WRITE_DOCS=1 cargo test -p seeklab-columnar`"
    );
    for format in FORMATS {
        let name = format!("**{}**", format.name());
        let has_entry = after.lines().any(|line| line.starts_with("- **") && line.contains(&name));
        assert!(has_entry, "`{}` has no source on the page", format.name());
    }
}

#[test]
fn every_format_has_a_fuzz_target() {
    let targets = std::fs::read_to_string(root().join("fuzz/Cargo.toml")).unwrap();
    for format in FORMATS {
        let target = format!("name = \"{}\"\n", format.name().replace('-', "_"));
        assert!(targets.contains(&target), "`{}` has no target in fuzz/Cargo.toml", format.name());
    }
}
