//! Rules of the project for its sources and documents.

mod retired_words;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Files below a folder with one of the suffixes.
fn files(folder: &Path, suffixes: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, suffixes));
        } else if path.extension().is_some_and(|suffix| suffixes.iter().any(|wanted| suffix == *wanted)) {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn sources() -> Vec<(PathBuf, String)> {
    files(&root().join("crates"), &["rs"])
        .into_iter()
        .map(|path| (path.clone(), fs::read_to_string(path).unwrap()))
        .collect()
}

#[test]
fn every_file_begins_with_a_module_document() {
    for (path, text) in sources() {
        let first = text.lines().find(|line| !line.starts_with("#!") && !line.is_empty()).unwrap_or_default();
        assert!(
            first.starts_with("//!"),
            "{}: begins with `{first}`, not with a module document",
            path.display()
        );
    }
}

#[test]
fn every_file_has_at_most_800_lines() {
    for (path, text) in sources() {
        let lines = text.lines().count();
        assert!(lines <= 800, "{}: {lines} lines: are these two rooms?", path.display());
    }
}

#[test]
fn sources_have_no_marks_of_unfinished_work() {
    // Spelt apart, or this file would find itself.
    let marks = [["TO", "DO"], ["FIX", "ME"], ["XX", "X:"], ["HA", "CK"]].map(|parts| parts.concat());
    for (path, text) in sources() {
        for (number, line) in text.lines().enumerate() {
            let found = marks.iter().find(|mark| line.contains(mark.as_str()));
            assert!(found.is_none(), "{}:{}: {line}", path.display(), number + 1);
        }
    }
}

/// The paths in the first column of the table under `heading` in ARCHITECTURE.md.
fn architecture_table(heading: &str) -> Vec<PathBuf> {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let (_, section) = text.split_once(&format!("\n## {heading}\n")).expect(heading);
    let rows = section.lines().take_while(|line| line.starts_with('|')).skip(2);
    rows.map(|row| PathBuf::from(row.split('`').nth(1).expect(row))).collect()
}

/// The words of Rust code: comments are left out, and text in quotes is not.
fn code_words(text: &str) -> impl Iterator<Item = &str> {
    let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    code.flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_'))
}

#[test]
fn unsafe_code_stands_where_the_architecture_says() {
    // Spelt apart, or this file would find itself.
    let marks = [["un", "safe"], ["un", "safe_code"]].map(|parts| parts.concat());
    let root = root();
    let mut found: Vec<PathBuf> = files(&root.join("fuzz/fuzz_targets"), &["rs"])
        .into_iter()
        .map(|path| (path.clone(), fs::read_to_string(path).unwrap()))
        .chain(sources())
        .filter(|(_, text)| code_words(text).any(|word| marks.iter().any(|mark| word == mark)))
        .map(|(path, _)| path.strip_prefix(&root).unwrap().to_owned())
        .collect();
    found.sort();
    let mut listed = architecture_table("Unsafe code");
    listed.sort();
    assert_eq!(
        found, listed,
        "on the left the files that have it, on the right those that ARCHITECTURE.md lists"
    );
    // The compiler refuses it where no attribute allows it, if every crate takes the lints of the workspace.
    let workspace = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    assert!(workspace.contains(&format!("\n{} = \"deny\"\n", marks[1])), "the workspace does not deny it");
    for entry in fs::read_dir(root.join("crates")).unwrap() {
        let path = entry.unwrap().path().join("Cargo.toml");
        let manifest = fs::read_to_string(&path).unwrap();
        assert!(manifest.contains("\n[lints]\nworkspace = true\n"), "{}", path.display());
    }
}

/// The glossary's right-hand column, where it bans an identifier.
#[test]
fn banned_words_are_absent_from_names() {
    let banned = ["iodepth", " n_sectors", "num_sectors", " lba_", "_lba:", "latency_ms", "latency_ns"];
    for (path, text) in sources() {
        if path.ends_with("tests/cli/tidy.rs")
            || [
                "frontend/",
                "/nbd",
                "/fuse",
                "/issue_csv",
                "/learning/src/fio/",
                "/learning/src/sweep/",
                "/fio_json",
                "/fio_output",
                "/bench/fio/",
                "/fio_jobs",
                "/fio_verify",
                "/fio_words",
            ]
            .iter()
            .any(|part| path.to_string_lossy().contains(part))
        {
            continue; // protocols and columns of files speak their own words
        }
        for (number, line) in text.lines().enumerate() {
            // fio has its own word.
            let code = line.split("//").next().unwrap_or_default().replace("--iodepth", "");
            let found = banned.iter().find(|word| code.contains(**word));
            assert!(found.is_none(), "{}:{}: {line}", path.display(), number + 1);
        }
    }
}

#[test]
fn links_of_the_documents_have_targets() {
    let root = root();
    let mut documents = files(&root.join("docs"), &["md"]);
    documents
        .extend(["README.md", "ARCHITECTURE.md", "GLOSSARY.md", "CHANGELOG.md"].map(|name| root.join(name)));
    for path in documents {
        let text = fs::read_to_string(&path).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.starts_with("http") || link.starts_with('#') {
                continue;
            }
            let target = path.parent().unwrap().join(link.split('#').next().unwrap());
            assert!(target.exists(), "{}: {link} is not there", path.display());
        }
        assert!(!text.contains("@LAWS@") && !text.contains("@SPEED@"), "{}: a gap", path.display());
    }
}

#[test]
fn every_kind_of_device_has_a_page() {
    let pages: String = files(&root().join("docs/models"), &["md"])
        .into_iter()
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    for kind in seeklab_devices::registry::KINDS {
        assert!(pages.contains(&format!("\"{}\"", kind.name)), "no page describes kind \"{}\"", kind.name);
    }
    for scheduler in seeklab_devices::scheduler::SCHEDULERS {
        assert!(pages.contains(&format!("`{}", scheduler.name)), "no page describes `{}`", scheduler.name);
    }
}

/// Returns the output that the README shows for the command whose line begins with `begin`, and its output
/// now.
fn shown_and_printed(begin: &str) -> (String, String) {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let start = readme.find(begin).unwrap_or_else(|| panic!("{begin}: is not there"));
    let (command, rest) = readme[start..].split_once('\n').unwrap();
    let shown = rest.split("\n```").next().unwrap();
    let words = command.trim_start_matches("$ cargo run --release -- ").trim_start_matches("$ seeklab ");
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.html");
    let arguments =
        words.split(' ').map(|word| if word == "report.html" { report.to_str().unwrap() } else { word });
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_seeklab"))
        .args(arguments)
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(report.exists());
    (shown.to_owned(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn readme_shows_the_real_output_of_the_simulator() {
    let (shown, printed) = shown_and_printed("$ seeklab simulate ");
    // The simulator's own speed and the path of the report differ from run to run.
    let stable = |text: &str| {
        let end = text.find("note: simulated requests per CPU-second").expect("the output states the speed");
        text[..end].lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(stable(&printed), stable(&shown));
}

#[test]
fn readme_shows_the_words_of_the_real_output_of_its_first_command() {
    let (shown, printed) = shown_and_printed("$ cargo run --release -- run ");
    // Times differ from run to run: what remains are the words, up to the bars.
    let words = |text: &str| {
        let end = text.find("where the time goes").expect("the output shows where the time goes");
        let is_word = |word: &&str| word.chars().all(|c| c.is_alphabetic() || c == '-' || c == '±');
        let words = text[..end].split_whitespace().filter(is_word).map(str::to_owned);
        words.collect::<Vec<_>>()
    };
    assert_eq!(words(&printed), words(&shown));
    let elapsed = |device: &str| -> f64 {
        let row = printed.lines().find(|line| line.starts_with(&format!("{device} "))).expect(device);
        row.split_whitespace().nth(2).unwrap().replace(',', "").parse().expect(device)
    };
    let (cheetah, faster) = (elapsed("cheetah-36es"), elapsed("cheetah-36es-50krpm"));
    let immediate = elapsed("immediate");
    assert!(immediate < faster && faster < cheetah, "{immediate} {faster} {cheetah}");
}

/// The crates that `Cargo.toml` of a crate names as dependencies, without those of tests.
fn dependencies(name: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(root().join("crates").join(name).join("Cargo.toml")).unwrap();
    let manifest: toml::Table = text.parse().unwrap();
    let ours =
        manifest.get("dependencies").and_then(toml::Value::as_table).into_iter().flat_map(toml::Table::keys);
    ours.filter_map(|key| key.strip_prefix("seeklab-")).map(str::to_owned).collect()
}

#[test]
fn crates_depend_on_the_crates_of_their_row_alone() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let section = text.split("## Dependencies").nth(1).unwrap().split("\n## ").next().unwrap();
    let quoted = |cell: &str| -> Vec<String> {
        cell.split('`').skip(1).step_by(2).filter(|word| !word.contains(':')).map(str::to_owned).collect()
    };
    let mut above: BTreeSet<String> = BTreeSet::new();
    for row in section.lines().filter(|line| line.starts_with("| `")) {
        let [names, allowed] = row.trim_matches('|').splitn(2, '|').collect::<Vec<_>>()[..] else {
            panic!("{row}: has two cells");
        };
        let allowed: BTreeSet<String> =
            if allowed.contains("all above") { above.clone() } else { quoted(allowed).into_iter().collect() };
        for name in quoted(names) {
            let found = dependencies(&name);
            assert!(found.is_subset(&allowed), "{name}: depends on {found:?}, allowed are {allowed:?}");
            above.insert(name);
        }
    }
    let crates = fs::read_dir(root().join("crates")).unwrap();
    for entry in crates {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(above.contains(&name), "{name}: has no row in the table of ARCHITECTURE.md");
    }
}

/// Words with which a question or a riddle begins.
const QUESTION_WORDS: [&str; 12] =
    ["What", "How", "Whether", "Who", "Whom", "Whose", "When", "That", "Those", "Which", "Where", "Why"];

/// Beginnings of a first line that hang on another sentence.
const RIDDLES: [&str; 12] = [
    "By how much",
    "By what",
    "By which",
    "Along what",
    "Of those",
    "Of these",
    "Every how",
    "In what",
    "In which",
    "In words",
    "For how long",
    "They, ",
];

/// Returns true if text opens with a question word or a riddle, in upper or lower case.
fn opens_with_a_question(text: &str) -> bool {
    let word = text.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
    QUESTION_WORDS.iter().any(|question| word.eq_ignore_ascii_case(question))
        || RIDDLES.iter().any(|riddle| text.starts_with(riddle))
}

/// Returns true if the line behind `before` begins a paragraph or a sentence of the same documentation.
fn begins_a_sentence(before: &str) -> bool {
    item_doc(before).is_some_and(|text| text.is_empty() || text.starts_with('#') || text.ends_with('.'))
}

/// Returns true if a line of item documentation begins with a question word in place of its subject. A clause with
/// "when", "where" or "that" names its subject later.
fn hides_its_subject(line: &str) -> bool {
    let word =
        item_doc(line).unwrap_or_default().split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
    QUESTION_WORDS.contains(&word) && !["When", "Where", "That"].contains(&word)
}

/// Returns the text of a line of item documentation.
fn item_doc(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).map(str::trim_start)
}

#[test]
fn item_docs_say_what_an_item_is_and_ask_nothing() {
    let opens = |line: &str| item_doc(line).is_some_and(opens_with_a_question);
    assert!(opens("    /// Whether writes are refused.") && opens("//! Of these, one."));
    assert!(!opens("/// Whatever comes first.") && !opens("// What is this?"));
    assert!(begins_a_sentence("/// # Errors") && hides_its_subject("/// What is wrong."));
    assert!(!begins_a_sentence("/// Says to the reader") && !hides_its_subject("/// Where it can, it does."));
    for (path, text) in sources() {
        let mut before = "";
        for (number, line) in text.lines().enumerate() {
            let is_first = item_doc(before).is_none();
            let opens_with_it = is_first && opens(line);
            let goes_on_with_it = begins_a_sentence(before) && hides_its_subject(line);
            assert!(
                !opens_with_it && !goes_on_with_it,
                "{}:{}: {}: write what the item is or does",
                path.display(),
                number + 1,
                line.trim()
            );
            before = line;
        }
    }
}

/// Keys of literals that explain a value or option to the user.
const EXPLANATIONS: [&str; 7] =
    ["help = ", "long_help = ", "about = ", "long_about = ", "meaning: ", "description: ", "caption: "];

/// Returns the explanation that begins in a line: of an option of a trace format, a scheduler, a kind, or one
/// that clap shows.
fn explanation(line: &str) -> Option<&str> {
    let begins = EXPLANATIONS.iter().find_map(|key| line.split_once(*key));
    begins.and_then(|(_, value)| value.strip_prefix('"'))
}

#[test]
fn explanations_of_options_and_values_ask_nothing() {
    assert_eq!(explanation("    meaning: \"whether rows end\","), Some("whether rows end\","));
    let mut count = 0;
    for (path, text) in sources().iter().filter(|(path, _)| !path.ends_with("tests/cli/tidy.rs")) {
        for (number, line) in text.lines().enumerate() {
            let Some(text) = explanation(line) else { continue };
            count += 1;
            assert!(
                !opens_with_a_question(text),
                "{}:{}: {}: write what the value is, or what the option does",
                path.display(),
                number + 1,
                line.trim()
            );
        }
    }
    assert!(count > 30, "only {count} explanations");
}

/// Returns the words of a test's name that ask instead of state.
fn is_question(name: &str) -> bool {
    let first = name.split('_').next().unwrap_or_default();
    ["does", "do", "is", "are", "has", "have", "was", "were", "can", "will", "whether", "what", "how", "who"]
        .contains(&first)
}

#[test]
fn names_of_tests_state_what_holds() {
    assert!(is_question("is_a_miss_slow") && !is_question("island_is_read"));
    for (path, text) in sources() {
        let mut is_test = false;
        for line in text.lines().map(str::trim) {
            if let Some(name) = line.strip_prefix("fn ").filter(|_| is_test) {
                assert!(!is_question(name), "{}: {name}: state what holds", path.display());
            }
            is_test = line.starts_with("#[test]") || (is_test && line.starts_with("#["));
        }
    }
}
