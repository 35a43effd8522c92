//! The report of a series of cuts, as a page.

use seeklab_report::{Page, PageSection, PlainTable, Plot, PlotAxis, PlotMark, PlotScale, PlotSeries};

use super::result::{CrashResult, Findings, Point, Totals, Verdict};
use crate::output::VERSION;
use crate::session::Session;
use seeklab_core::number_words::counted;

/// Broken points that have a section of their own.
const SECTIONS_MAX: usize = 50;

/// Lost writes of a point that have a row.
const ROWS_MAX: usize = 40;

/// Points of a series that are drawn.
const DRAWN_MAX: usize = 2000;

impl CrashResult {
    /// The result as a page: figures, a time axis, and every broken promise with the writes that were lost.
    pub fn to_page(&self, session: &Session) -> Page {
        let bad: Vec<&Point> =
            self.points.iter().filter(|point| point.findings.verdict != Verdict::Held).collect();
        let mut notes = Vec::new();
        if self.record.is_none() && !bad.is_empty() {
            notes.push(
                "The record of the run was not kept, so no image of a cut can be written. Run with --keep FOLDER."
                    .to_owned(),
            );
        }
        if bad.len() > SECTIONS_MAX {
            notes.push(format!(
                "The first {SECTIONS_MAX} of {} points have a section; --json has all.",
                bad.len()
            ));
        }
        let mut sections = vec![self.verdicts(), self.figures(), self.over_time()];
        sections.push(overview(&bad));
        sections.extend(bad.iter().take(SECTIONS_MAX).map(|point| self.section(point)));
        let own = self.own.count();
        Page {
            title: format!("Cuts of the power under {}", self.device),
            subtitle: format!("{} in one run, {} survived", counted(own, "cut"), self.own.held),
            generated_by: VERSION.to_owned(),
            command: session.command(),
            notes,
            sections,
        }
    }

    fn verdicts(&self) -> PageSection {
        let row = |name: &str, totals: &Totals| {
            let Totals { held, broken, unknown, not_mounted, damaged } = totals;
            let figures = [held, broken, unknown, not_mounted, damaged].map(u64::to_string);
            [name.to_owned()].into_iter().chain(figures).collect::<Vec<String>>()
        };
        let mut rows = vec![row("this device", &self.own)];
        if self.legal.count() > 0 {
            rows.push(row("what devices may do", &self.legal));
        }
        let columns = ["after a cut", "held", "broken", "unknown", "not mounted", "damaged"];
        let caption = "Held: every promise holds. Broken: a promise is broken. Unknown: CHECK could not say. Damaged: every \
                       promise holds, and the file system's own check found errors. What devices may do: states that any \
                       device with a volatile cache may leave.";
        PageSection {
            title: "Verdicts".to_owned(),
            tables: vec![table(&columns, rows, caption)],
            ..PageSection::default()
        }
    }

    fn figures(&self) -> PageSection {
        let rows = [
            ("requests", self.requests.to_string()),
            ("promises", self.promises.to_string()),
            ("flushes", self.timeline.flushes_s.len().to_string()),
            ("time of the run, s", format!("{:.3}", self.run_s)),
            ("points checked in a minute", format!("{:.0}", self.points_per_minute)),
            ("seed", self.seed.0.to_string()),
        ];
        let rows = rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
        PageSection {
            title: "Figures".to_owned(),
            tables: vec![table(
                &["figure", "value"],
                rows,
                "Cuts lie between the start of COMMAND and the last completion.",
            )],
            ..PageSection::default()
        }
    }

    fn over_time(&self) -> PageSection {
        let own = || self.points.iter().filter(|point| point.state == 0);
        let axis = || PlotAxis::new("time of the record", "s", PlotScale::Linear);
        let of = |verdict: fn(Verdict) -> bool| own().filter(move |point| verdict(point.findings.verdict));
        let kinds: [(&str, fn(Verdict) -> bool); 3] = [
            ("cut, every promise held", |verdict| verdict == Verdict::Held),
            ("cut, a promise broken", |verdict| verdict == Verdict::Broken),
            ("cut, otherwise", |verdict| !matches!(verdict, Verdict::Held | Verdict::Broken)),
        ];
        let counted = |times: &[f64]| {
            let begin = (self.timeline.began_s, 0.0);
            let steps = times.iter().zip(1_u32..).map(|(at, count)| (*at, f64::from(count)));
            let end = (self.timeline.end_s, times.len() as f64);
            thinned([begin].into_iter().chain(steps).chain([end]).collect())
        };
        let series = vec![
            PlotSeries::new("promises", PlotMark::Step, counted(&self.timeline.promises_s)),
            PlotSeries::new("flushes", PlotMark::Step, counted(&self.timeline.flushes_s)),
        ];
        let mut lost = Vec::new();
        for (name, verdict) in kinds {
            let bytes =
                of(verdict).map(|point| (point.at.as_s(), point.lost_bytes(self.block_bytes) / 1024.0));
            lost.push(PlotSeries::new(name, PlotMark::Points, thinned(bytes.collect())));
        }
        let plot = |title: &str, caption: &str, y, series| Plot {
            title: title.to_owned(),
            caption: caption.to_owned(),
            x: axis(),
            y,
            series,
        };
        PageSection {
            title: "The run".to_owned(),
            plots: vec![
                plot(
                    "Promises and flushes",
                    "Promises of COMMAND, and flushes and forced writes that were complete.",
                    PlotAxis::new("so far", "", PlotScale::Linear).from_zero(),
                    series,
                ),
                plot(
                    "Cuts",
                    "Each cut stands at the data that it took: complete writes that were not on the media and not \
                     overwritten.",
                    PlotAxis::new("lost data", "KiB", PlotScale::Linear).from_zero(),
                    lost,
                ),
            ],
            ..PageSection::default()
        }
    }

    fn section(&self, point: &Point) -> PageSection {
        let Findings { output, .. } = &point.findings;
        let mut text: Vec<String> = output.lines().take(5).map(|line| format!("CHECK: {line}")).collect();
        text.push(format!("{} before the cut.", counted(point.promises, "promise")));
        if !point.torn.is_empty() {
            let units: Vec<String> =
                point.torn.iter().map(|unit| format!("{}+{}", unit.lbn, unit.blocks)).collect();
            text.push(format!("Blocks that were being written: {}.", units.join(", ")));
        }
        let mut tables = Vec::new();
        if point.state == 0 && point.lost.is_empty() {
            text.push("Every complete write was on the media.".to_owned());
        } else if point.state == 0 {
            let rows = point.lost.iter().rev().take(ROWS_MAX).map(|write| {
                vec![
                    write.request.to_string(),
                    write.lbn.to_string(),
                    write.blocks.to_string(),
                    write.missing_blocks.to_string(),
                    format!("{:.6}", write.completed_s),
                    format!("{:.3}", (point.at.as_s() - write.completed_s) * 1000.0),
                    if write.is_flushed { "yes" } else { "no" }.to_owned(),
                ]
            });
            let columns = [
                "lost write, request",
                "first block",
                "blocks",
                "not on the media",
                "complete at s",
                "before the cut ms",
                "covered by a flush",
            ];
            let caption = match point.lost.len() {
                count if count > ROWS_MAX => format!("The last {ROWS_MAX} of {count} lost writes."),
                _ => "Complete writes that were not on the media, the last first. A device that loses a write covered by \
                      a flush, or forced to the media, breaks its own promise."
                    .to_owned(),
            };
            tables.push(table(&columns, rows.collect(), &caption));
        }
        PageSection {
            title: format!("{}: {}", point.moment(), point.findings.sentence()),
            text,
            command: self.image_command(point),
            tables,
            ..PageSection::default()
        }
    }
}

/// One row for each point that was not survived.
fn overview(bad: &[&Point]) -> PageSection {
    let rows = bad.iter().take(10 * SECTIONS_MAX).map(|point| {
        let flushed = point.lost.iter().filter(|write| write.is_flushed).count();
        let first = point.findings.output.lines().next().unwrap_or_default();
        vec![
            point.moment(),
            point.findings.sentence(),
            point.promises.to_string(),
            point.lost.len().to_string(),
            flushed.to_string(),
            first.to_owned(),
        ]
    });
    let columns = ["cut", "finding", "promises before", "lost writes", "flushed of them", "output of CHECK"];
    PageSection {
        title: "Cuts that were not survived".to_owned(),
        tables: vec![table(&columns, rows.collect(), "")],
        ..PageSection::default()
    }
}

fn table(columns: &[&str], rows: Vec<Vec<String>>, caption: &str) -> PlainTable {
    let columns = columns.iter().map(|column| (*column).to_owned()).collect();
    PlainTable { columns, rows, caption: caption.to_owned() }
}

/// At most [`DRAWN_MAX`] of the points, evenly chosen, the first and the last among them.
fn thinned(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    if points.len() <= DRAWN_MAX {
        return points;
    }
    (0..DRAWN_MAX).map(|index| points[index * (points.len() - 1) / (DRAWN_MAX - 1)]).collect()
}

#[cfg(test)]
mod tests {
    use seeklab_core::{Instant, Seed};
    use seeklab_devices::torn::TornUnit;
    use seeklab_report::render_page_html;

    use super::super::result::{LostWrite, Timeline};
    use super::*;

    fn point(index: usize, verdict: Verdict, lost: Vec<LostWrite>) -> Point {
        Point {
            index,
            state: 0,
            at: Instant::from_ns(1_000_000_000 + index as u64 * 1_000_000),
            findings: Findings {
                verdict,
                exit_code: Some(1),
                error: None,
                output: "row 7 is <missing>\n".into(),
            },
            promises: 3,
            lost,
            torn: vec![TornUnit { lbn: 640, blocks: 8 }],
        }
    }

    fn result(record: Option<&str>, points: Vec<Point>) -> CrashResult {
        CrashResult {
            device: "disk".into(),
            seed: Seed(1),
            version: VERSION,
            requests: 10,
            promises: 4,
            run_s: 2.0,
            own: Totals::of(points.iter()),
            legal: Totals::default(),
            points_per_minute: 100.0,
            points,
            record: record.map(str::to_owned),
            block_bytes: 512,
            timeline: Timeline {
                began_s: 0.5,
                end_s: 2.5,
                promises_s: vec![0.6, 0.7, 0.8, 2.0],
                flushes_s: vec![0.65, 1.9],
            },
        }
    }

    #[test]
    fn broken_promise_is_named_with_its_lost_writes_and_the_command_of_its_image() {
        let write = |request, is_flushed| LostWrite {
            request,
            lbn: 4242,
            blocks: 8,
            missing_blocks: 5,
            completed_s: 0.9,
            is_flushed,
        };
        let points = vec![
            point(0, Verdict::Held, Vec::new()),
            point(1, Verdict::Broken, vec![write(77, true), write(78, false)]),
        ];
        let page = result(Some("cuts"), points.clone()).to_page(&Session::default());
        let section = page.sections.last().unwrap();
        assert_eq!(section.title, "1.001000000 s: a promise is broken");
        let rows = &section.tables[0].rows;
        assert_eq!(rows[0], ["78", "4242", "8", "5", "0.900000", "101.000", "no"]);
        assert_eq!((rows[1][0].as_str(), rows[1][6].as_str()), ("77", "yes"));
        let command = "seeklab crash --from cuts --at 1.001000000s --image crash.img";
        assert_eq!(section.command.as_deref(), Some(command));
        assert!(section.text.iter().any(|line| line.contains("640+8")), "{:?}", section.text);
        let run = page.sections.iter().find(|section| section.title == "The run").unwrap();
        let series = |name: &str| {
            run.plots[0].series.iter().find(|series| series.name == name).unwrap().points.clone()
        };
        assert_eq!(series("flushes"), [(0.5, 0.0), (0.65, 1.0), (1.9, 2.0), (2.5, 2.0)]);
        assert_eq!(run.plots[1].series[1].name, "cut, a promise broken");
        assert_eq!(run.plots[1].series[1].points, [(1.001, 10.0 * 512.0 / 1024.0)]);
        let html = render_page_html(&page);
        assert!(html.contains(command) && html.contains("row 7 is &lt;missing&gt;"), "{html}");

        let page = result(None, points).to_page(&Session::default());
        assert!(page.notes[0].contains("--keep FOLDER"), "{:?}", page.notes);
        assert_eq!(page.sections.last().unwrap().command, None);
    }

    #[test]
    fn many_points_are_thinned_with_their_ends() {
        let points: Vec<(f64, f64)> = (0..50_000).map(|index| (f64::from(index), 0.0)).collect();
        let thin = thinned(points);
        assert_eq!((thin.len(), thin[0].0, thin[thin.len() - 1].0), (DRAWN_MAX, 0.0, 49_999.0));
    }
}
