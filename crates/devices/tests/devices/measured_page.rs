//! The tables of `docs/models/measured-drives.md`, from the traces of the measured drives.
//!
//! `SEEKLAB_WRITE_DOCS=1 cargo test -p seeklab-devices --test devices measured_page` writes them.

use crate::measured::coherence;
use crate::measured_relations::{Relation, relations};
use crate::page::Page;
use crate::shared::measured::{
    DRIVES, Measured, Think, buffered, demerits_of_jittered_requests, demerits_of_start_phases, replay,
    spread,
};
use seeklab_core::{Completion, Duration, Operation};

/// Errors above which a class of so many requests has its cause on the page, in percent.
const ERROR_PCT: f64 = 5.0;
const REQUESTS: usize = 50;

/// Think times up to which a command counts as coming directly behind a buffered write: some two turns.
const DIRECTLY: Duration = Duration::from_ms(15);

/// A drive with its trace and the answers of the model.
struct Answered {
    measured: Measured,
    model: Vec<Completion>,
    relations: Vec<Option<Relation>>,
}

impl Answered {
    fn all() -> Vec<Self> {
        DRIVES
            .iter()
            .map(|drive| {
                let measured = Measured::of(drive);
                let model = replay(&measured);
                let relations = relations(&measured);
                Self { measured, model, relations }
            })
            .collect()
    }

    /// Indices of the requests for which `keep` holds.
    fn rows(&self, keep: impl Fn(usize) -> bool) -> Vec<usize> {
        (0..self.model.len()).filter(|index| keep(*index)).collect()
    }

    fn is_read(&self, index: usize) -> bool {
        self.measured.requests[index].op == Operation::Read
    }

    fn follows_on(&self, index: usize) -> bool {
        let requests = &self.measured.requests;
        index > 0
            && requests[index - 1].op == requests[index].op
            && requests[index - 1].end() == requests[index].lbn
    }

    /// The classes of requests, by name.
    fn classes(&self) -> [(&'static str, Vec<usize>); 7] {
        let related = |wanted: &[Relation]| {
            self.rows(|index| self.relations[index].is_some_and(|relation| wanted.contains(&relation)))
        };
        [
            ("read hit", self.rows(|index| self.is_read(index) && buffered(&self.model[index]))),
            ("read miss", self.rows(|index| self.is_read(index) && !buffered(&self.model[index]))),
            ("write", self.rows(|index| !self.is_read(index))),
            ("sequential read", self.rows(|index| self.is_read(index) && self.follows_on(index))),
            ("sequential write", self.rows(|index| !self.is_read(index) && self.follows_on(index))),
            ("re-read", related(&[Relation::ReRead, Relation::ReReadInPart, Relation::ReadBefore])),
            (
                "read of written data",
                related(&[
                    Relation::JustWritten,
                    Relation::JustWrittenInPart,
                    Relation::WrittenBefore,
                    Relation::WrittenBeforeMediaRead,
                ]),
            ),
        ]
    }
}

fn readings(drives: &[Answered]) -> String {
    let mut table =
        "| drive | pairs of reads | think times after | before |\n| --- | --- | --- | --- |\n".to_owned();
    for Answered { measured, .. } in drives {
        let (after, pairs) = coherence(measured, Think::After);
        let (before, _) = coherence(measured, Think::Before);
        let [after, before] = [(after, Think::After), (before, Think::Before)].map(|(figure, think)| {
            if think == measured.drive.think { format!("**{figure:.2}**") } else { format!("{figure:.2}") }
        });
        table += &format!("| {} | {pairs} | {after} | {before} |\n", measured.drive.title);
    }
    table
}

fn figures(drives: &[Answered]) -> String {
    let mut table =
        "| drive | demerit, start phases | second half | demerit, jittered | within 5 % | second half | \
                     DiskSim: demerit | within 5 % |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n"
            .to_owned();
    for Answered { measured, model, .. } in drives {
        let [all, _, second] = measured.parts();
        let (all, second) = (measured.compare(model, &all), measured.compare(model, &second));
        let range = |figures: &[f64]| {
            let (mean, least, most) = spread(figures);
            format!("{mean:.2} % ({least:.2} to {most:.2})")
        };
        table += &format!(
            "| {} | {} | {:.2} % | {} | {:.1} % | {:.1} % | {:.2} % | {:.1} % |\n",
            measured.drive.title,
            range(&demerits_of_start_phases(measured)),
            second.demerit_pct,
            range(&demerits_of_jittered_requests(measured)),
            all.within_5pct,
            second.within_5pct,
            all.disksim_demerit_pct,
            all.disksim_within_5pct,
        );
    }
    table
}

/// The classes, and those of which the page names the cause of their error.
fn classes(drives: &[Answered]) -> (String, Vec<(&'static str, &'static str)>) {
    let mut table = "| drive | class | requests | measured mean | error of the mean | mean absolute error | \
                     within 5 % |\n\
                     | --- | --- | --- | --- | --- | --- | --- |\n"
        .to_owned();
    let mut far = Vec::new();
    for answered in drives {
        let Answered { measured, model, .. } = answered;
        for (class, rows) in answered.classes() {
            if rows.is_empty() {
                table += &format!("| {} | {class} | 0 | | | | |\n", measured.drive.title);
                continue;
            }
            let figures = measured.compare_rows(model, &rows);
            let is_far = figures.absolute_error_pct > ERROR_PCT || figures.mean_error_pct.abs() > ERROR_PCT;
            if figures.requests >= REQUESTS && is_far {
                far.push((measured.drive.title, class));
            }
            table += &format!(
                "| {} | {class} | {} | {:.2} ms | {:+.1} % | {:.1} % | {:.1} % |\n",
                measured.drive.title,
                figures.requests,
                figures.measured_mean_ms,
                figures.mean_error_pct,
                figures.absolute_error_pct,
                figures.within_5pct,
            );
        }
    }
    (table, far)
}

fn rules(drives: &[Answered]) -> String {
    let mut table = "| drive | reads | requests | from the buffer | from the media | the model differs |\n\
                     | --- | --- | --- | --- | --- | --- |\n"
        .to_owned();
    for answered in drives {
        let Answered { measured, model, relations } = answered;
        let mut push = |name: &str, rows: &[usize]| {
            let hits = rows.iter().filter(|index| measured.is_hit(**index)).count();
            let differ =
                rows.iter().filter(|index| measured.is_hit(**index) != buffered(&model[**index])).count();
            let media = rows.len() - hits;
            let title = measured.drive.title;
            table += &format!("| {title} | {name} | {} | {hits} | {media} | {differ} |\n", rows.len());
        };
        for relation in Relation::ALL {
            let rows = answered.rows(|index| relations[index] == Some(relation));
            if !rows.is_empty() || relation.is_listed_without_requests() {
                push(relation.name(), &rows);
            }
        }
        let behind = |index: usize| answered.is_read(index) && index > 0 && !answered.is_read(index - 1);
        push("directly behind a write", &answered.rows(behind));
        let soon = |index: usize| {
            behind(index) && measured.think_before(index).is_some_and(|think| think < DIRECTLY)
        };
        push("the same, within 15 ms", &answered.rows(soon));
    }
    table
}

/// Replaces what stands between the marks of that table.
fn replace(page: &str, name: &str, table: &str) -> String {
    let (begin, end) = (format!("<!-- begin of {name} -->\n"), format!("<!-- end of {name} -->"));
    let (before, rest) = page.split_once(&begin).unwrap_or_else(|| panic!("the page has no `{begin}`"));
    let (_, after) = rest.split_once(&end).unwrap_or_else(|| panic!("the page has no `{end}`"));
    [before, &begin, table, &end, after].concat()
}

#[test]
#[cfg_attr(not(shared_reference), ignore = "needs ../shared/reference")]
fn tables_of_the_page_on_measured_drives_are_current() {
    let page = Page::read("models/measured-drives.md");
    let drives = Answered::all();
    let (classes, far) = classes(&drives);
    let mut current = page.text.clone();
    for (name, table) in [
        ("the readings", readings(&drives)),
        ("the figures", figures(&drives)),
        ("the classes", classes),
        ("the rules", rules(&drives)),
    ] {
        current = replace(&current, name, &table);
    }
    page.has(&current);
    for (title, class) in far {
        let cause = format!("| {title} | {class} | ");
        let (_, causes) = page.text.split_once("## Causes").expect("the page has a section on causes");
        assert!(causes.contains(&cause), "`{class}` of {title} has no cause on the page");
    }
}
