//! Retired words of GLOSSARY.md, refused wherever somebody reads them.
//!
//! The glossary is the list: its tables of retired words and of JSON keys name each word, its replacement and
//! the place where it is refused. *Everywhere* means documents, code, comments, messages, scripts and parts of
//! identifiers. *Prose* means documents, comments and messages, without those of tests.
//!
//! # Limits
//! A phrase that two lines share is not found, and neither is a word in a raw string of several lines.

use std::fs;
use std::path::{Path, PathBuf};

use super::{files, root};

/// Identifiers that may contain a retired word, with the reason.
const EXEMPT_NAMES: [(&str, &str); 2] = [
    ("BufferOutcome", "hit or miss of a buffer, a column of the trace schema"),
    (".floor()", "rounds a number"),
];

/// Sources that speak of demerits: no floor is there, because the floor is the shortest time that can be
/// emulated.
const WITHOUT_FLOOR: [&str; 7] = [
    "crates/learning/",
    "crates/analysis/src/part_times.rs",
    "crates/analysis/src/prediction.rs",
    "crates/lab/src/fit/",
    "crates/cli/src/verbs/fit",
    "docs/models/",
    "scripts/clones.py",
];

/// Place where a word is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Everywhere,
    Prose,
}

/// A retired word or phrase.
#[derive(Debug)]
struct Retired {
    /// Lower-case words with a blank between them.
    words: String,
    instead: String,
    place: Place,
}

/// Returns the texts in backquotes.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// Returns the cells of the rows of the table under `heading` in GLOSSARY.md.
fn glossary_table(heading: &str) -> Vec<[String; 3]> {
    let text = fs::read_to_string(root().join("GLOSSARY.md")).unwrap();
    let (_, section) = text.split_once(&format!("\n## {heading}\n")).expect(heading);
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with('|')).skip(2);
    rows.map(|row| {
        let cells: Vec<String> =
            row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
        <[String; 3]>::try_from(cells).unwrap_or_else(|cells| panic!("{row}: {} cells", cells.len()))
    })
    .collect()
}

/// Returns the words that the glossary retires. Rows with the place *names* are those of
/// `banned_words_are_absent_from_names`.
fn retired_words() -> Vec<Retired> {
    let mut retired = Vec::new();
    for [words, instead, place] in glossary_table("Retired words") {
        let place = match place.as_str() {
            "everywhere" => Place::Everywhere,
            "prose" => Place::Prose,
            "names" => continue,
            other => panic!("GLOSSARY.md: `{other}` is no place; allowed: everywhere, prose, names"),
        };
        let words = quoted(&words).map(str::to_owned);
        retired.extend(words.map(|words| Retired { words, instead: instead.clone(), place }));
    }
    retired
}

/// Returns the retired JSON keys that no other name can be, with their replacements: those of several words.
fn retired_keys() -> Vec<(String, String)> {
    let mut keys = Vec::new();
    for [key, _, retired] in glossary_table("JSON keys") {
        let of_several_words = quoted(&retired).filter(|key| key.contains('_'));
        keys.extend(of_several_words.map(|retired| (retired.to_owned(), key.clone())));
    }
    keys
}

/// Returns the lower-case words of a line, those of identifiers one by one, with a blank around each.
fn words(line: &str) -> String {
    let mut words = String::from(" ");
    let mut before = ' ';
    for letter in line.chars() {
        let begins_word = letter.is_uppercase() && (before.is_lowercase() || before.is_ascii_digit());
        if (begins_word || !letter.is_alphanumeric()) && !words.ends_with(' ') {
            words.push(' ');
        }
        if letter.is_alphanumeric() {
            words.extend(letter.to_lowercase());
        }
        before = letter;
    }
    words.push(' ');
    words
}

/// Returns the comment and the literals of a line of Rust, without the values that are formatted in.
/// `in_literal` is true if a literal continues from the line before, and then if one continues on the next.
fn prose_of_code(line: &str, in_literal: &mut bool) -> String {
    let (mut prose, mut in_braces, mut before) = (String::new(), 0_u32, ' ');
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' if *in_literal => {
                // At the end of the line, the literal continues on the next.
                let Some(_escaped) = letters.next() else { return prose };
            }
            // Not the character '"'.
            '"' if before != '\'' => {
                *in_literal = !*in_literal;
                prose.push(' ');
            }
            '/' if !*in_literal && letters.peek() == Some(&'/') => {
                prose.extend(letters);
                break;
            }
            '{' if *in_literal => in_braces += 1,
            '}' if *in_literal => in_braces = in_braces.saturating_sub(1),
            _ if *in_literal && in_braces == 0 => prose.push(letter),
            _ => {}
        }
        before = letter;
    }
    *in_literal = false;
    prose
}

/// A file that people read, its path below the root.
struct Source {
    path: String,
    text: String,
}

impl Source {
    fn is_code(&self) -> bool {
        !self.path.ends_with(".md")
    }

    fn is_test(&self) -> bool {
        ["/tests/", "/benches/", "tests.rs"].iter().any(|part| self.path.contains(part))
    }

    /// Returns the prose of each line; of code, up to the tests.
    fn prose(&self) -> Vec<String> {
        if !self.is_code() {
            return self.text.lines().map(str::to_owned).collect();
        }
        if !self.path.ends_with(".rs") || self.is_test() {
            return Vec::new();
        }
        let before_tests = self.text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        let mut in_literal = false;
        before_tests.lines().map(|line| prose_of_code(line, &mut in_literal)).collect()
    }
}

/// Returns documents, sources, scripts and examples. History and notes may name what was.
fn read_by_people() -> Vec<Source> {
    let root = root();
    let mut paths: Vec<PathBuf> = ["README.md", "ARCHITECTURE.md"].map(|name| root.join(name)).into();
    for folder in ["docs", "crates", "scripts", "examples", "fuzz/fuzz_targets"] {
        paths.extend(files(&root.join(folder), &["md", "rs", "py", "sh", "toml", "js", "css", "html"]));
    }
    // Scripts without a suffix.
    let scripts = fs::read_dir(root.join("scripts")).unwrap().map(|entry| entry.unwrap().path());
    paths.extend(scripts.filter(|path| path.is_file() && path.extension().is_none()));
    let relative = |path: &Path| path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
    let sources = paths.iter().map(|path| (relative(path), path));
    sources
        .filter(|(name, _)| {
            let is_exempt = ["docs/notes/", "/tests/data/", "tidy/retired_words.rs"];
            !is_exempt.iter().any(|part| name.contains(part))
        })
        .map(|(path, file)| Source { path, text: fs::read_to_string(file).unwrap() })
        .collect()
}

/// Returns the words of a line without those of exempt names.
fn judged_words(line: &str) -> String {
    words(&EXEMPT_NAMES.iter().fold(line.to_owned(), |line, (name, _)| line.replace(name, " ")))
}

/// Returns the findings of a source: line number, word and replacement.
fn findings(source: &Source, retired: &[Retired], keys: &[(String, String)]) -> Vec<String> {
    let mut found = Vec::new();
    let mut report = |number: usize, word: &str, instead: &str| {
        found.push(format!("{}:{}: `{word}` is retired, write: {instead}", source.path, number + 1));
    };
    let without_floor = WITHOUT_FLOOR.iter().any(|part| source.path.starts_with(part));
    for (number, line) in source.text.lines().enumerate() {
        let judged = judged_words(line);
        for word in retired.iter().filter(|word| word.place == Place::Everywhere) {
            if judged.contains(&format!(" {} ", word.words)) {
                report(number, &word.words, &word.instead);
            }
        }
        if without_floor && judged.contains(" floor ") {
            report(number, "floor", "random variation, or resampled demerit in names");
        }
        let mut names = line.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
        if let Some((key, instead)) = names.find_map(|name| keys.iter().find(|(key, _)| key == name)) {
            report(number, key, instead);
        }
    }
    for (number, line) in source.prose().iter().enumerate() {
        let judged = judged_words(line);
        for word in retired.iter().filter(|word| word.place == Place::Prose) {
            if judged.contains(&format!(" {} ", word.words)) {
                report(number, &word.words, &word.instead);
            }
        }
    }
    found
}

#[test]
fn retired_words_are_absent() {
    let (retired, keys) = (retired_words(), retired_keys());
    let found: Vec<String> =
        read_by_people().iter().flat_map(|source| findings(source, &retired, &keys)).collect();
    assert!(found.is_empty(), "{} findings:\n{}", found.len(), found.join("\n"));
}

#[test]
fn retired_words_are_found_in_names_prose_and_keys() {
    let (retired, keys) = (retired_words(), retired_keys());
    let count = |path: &str, text: &str| {
        findings(&Source { path: path.to_owned(), text: text.to_owned() }, &retired, &keys).len()
    };
    assert_eq!(count("crates/x/src/x.rs", "struct LearntTable;\nlet is_told = 1; // was said\n"), 3);
    assert_eq!(count("crates/x/src/x.rs", "/// As it was seen.\nformat!(\"{seen} was seen\")\n"), 2);
    assert_eq!(count("crates/x/src/x.rs", "f(\"one \\\n   asked {x}\", asked)\n"), 1);
    assert_eq!(count("crates/x/tests/x.rs", "/// As it was seen.\n"), 0);
    assert_eq!(count("crates/x/src/x.rs", "let seen = unforeseen(threshold, BufferOutcome::Hit);\n"), 0);
    assert_eq!(count("docs/x.md", "The key `floor_all` and a door, unless said.\n"), 3);
    assert_eq!(count("docs/models/x.md", "The floor of a demerit\n"), 1);
    assert_eq!(count("docs/emulation.md", "The floor of a route\n"), 0);
    assert_eq!(count("crates/learning/src/x.rs", "let bin = (x / y).floor();\n"), 0);
}
