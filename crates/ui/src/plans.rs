//! Plans on their way between the form, the TOML and the measurement.

use std::path::{Path, PathBuf};

use seeklab_lab::bench::{BenchOptions, OverwrittenTarget, PlanOverrides, overwritten, read_plan_text};
use seeklab_lab::failure::Failure;
use serde::Serialize;
use serde_json::Value;

/// Name of the plan in its errors.
const LABEL: &str = "plan";

/// The place of plans: files that they name are looked for there.
#[derive(Debug)]
pub(crate) struct PlanSource {
    pub(crate) folder: PathBuf,
}

/// A mistake, or another failure.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Problem {
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    /// Line of the TOML, from 1.
    pub(crate) line: Option<usize>,
}

impl From<&Failure> for Problem {
    fn from(failure: &Failure) -> Self {
        Self { message: failure.to_string(), hint: failure.advice().map(str::to_owned), line: failure.line() }
    }
}

/// A plan that was checked.
#[derive(Debug, Serialize)]
pub(crate) struct CheckedPlan {
    /// The text.
    toml: String,
    /// The keys and values for the form; null if the text is no TOML.
    plan: Option<Value>,
    /// The mistake, if there is one.
    problem: Option<Problem>,
    /// Targets that the plan overwrites.
    overwritten: Vec<Overwritten>,
}

/// A target that a plan overwrites.
#[derive(Debug, Serialize)]
pub(crate) struct Overwritten {
    /// The name to type again.
    target: String,
    /// The contents that are lost, or the reason for which nothing is written at all.
    refusal: String,
}

impl Overwritten {
    /// Returns true if its name is among those that were typed again.
    pub(crate) fn is_named_by(&self, typed: &[String]) -> bool {
        typed.contains(&self.target)
    }
}

impl PlanSource {
    /// Reads a plan as `seeklab bench plan.toml` does.
    ///
    /// # Errors
    /// The mistake, with its line.
    pub(crate) fn read(&self, toml: &str) -> Result<BenchOptions, Failure> {
        let folder: &Path = &self.folder;
        read_plan_text(LABEL, toml, folder, &PlanOverrides::default())
    }

    /// Checks a plan.
    pub(crate) fn check(&self, toml: String) -> CheckedPlan {
        let plan = toml.parse::<toml::Table>().ok().and_then(|table| serde_json::to_value(table).ok());
        let checked = self.read(&toml).and_then(|options| self.overwritten(&options));
        let (overwritten, problem) = match checked {
            Ok(targets) => (targets, None),
            Err(failure) => (Vec::new(), Some(Problem::from(&failure))),
        };
        CheckedPlan { plan, problem, overwritten, toml }
    }

    /// The targets that a measurement overwrites.
    ///
    /// # Errors
    /// If its workloads do not fit their options.
    pub(crate) fn overwritten(&self, options: &BenchOptions) -> Result<Vec<Overwritten>, Failure> {
        let of = |target: OverwrittenTarget| Overwritten {
            target: target.address,
            refusal: target.refusal.to_string(),
        };
        Ok(overwritten(options)?.into_iter().map(of).collect())
    }

    /// Writes the keys and values of a form as TOML, and checks it.
    ///
    /// # Errors
    /// Values that TOML does not have.
    pub(crate) fn write(&self, plan: Value) -> Result<CheckedPlan, Failure> {
        let plan = pruned(plan).unwrap_or_else(|| Value::Object(serde_json::Map::new()));
        let toml = toml::to_string(&plan)
            .map_err(|error| Failure::new(format!("this cannot be written as TOML: {error}")))?;
        Ok(self.check(toml))
    }
}

/// The value without keys that hold nothing: a field that is empty is a key that is absent.
fn pruned(value: Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::String(text) if text.trim().is_empty() => None,
        Value::Array(values) => {
            // A table without keys keeps its place: its errors have the line.
            let entry = |value: Value| match value {
                Value::Object(_) => pruned(value).or_else(|| Some(Value::Object(serde_json::Map::new()))),
                value => pruned(value),
            };
            let values: Vec<Value> = values.into_iter().filter_map(entry).collect();
            (!values.is_empty()).then_some(Value::Array(values))
        }
        Value::Object(table) => {
            let table: serde_json::Map<String, Value> =
                table.into_iter().filter_map(|(key, value)| Some((key, pruned(value)?))).collect();
            (!table.is_empty()).then_some(Value::Object(table))
        }
        value => Some(value),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SOURCE: PlanSource = PlanSource { folder: PathBuf::new() };

    #[test]
    fn form_becomes_toml_in_its_order_and_comes_back() {
        let form = json!({
            "title": "Readers",
            "target": "",
            "phases": [{
                "name": "one", "duration": "5s", "until": null, "rates": ["50%", "", "90%"], "streams": [
                    { "target": "null", "workload": "random,size=4KiB,read=100%,poisson=50/s", "threads": 2 },
                ],
            }],
            "seed": 7,
        });
        let checked = SOURCE.write(form).unwrap();
        assert!(checked.problem.is_none(), "{:?}", checked.problem);
        let keys: Vec<&str> = checked.toml.lines().filter_map(|line| line.split(" =").next()).collect();
        assert_eq!(
            keys,
            [
                "title",
                "seed",
                "",
                "[[phases]]",
                "name",
                "duration",
                "rates",
                "",
                "[[phases.streams]]",
                "target",
                "workload",
                "threads"
            ]
        );
        let plan = checked.plan.unwrap();
        assert_eq!(plan["phases"][0]["streams"][0]["threads"], 2);
        assert!(plan.get("target").is_none() && plan["phases"][0].get("until").is_none());
        assert_eq!(SOURCE.write(plan).unwrap().toml.lines().count(), checked.toml.lines().count());
    }

    #[test]
    fn mistakes_have_the_line_of_the_text() {
        let line = |toml: &str| {
            let checked = SOURCE.check(toml.to_owned());
            let problem = checked.problem.expect(toml);
            (problem.line, problem.message, checked.plan.is_some())
        };
        let (at, message, is_toml) = line("target = \"null\"\n[[phases]\n");
        assert_eq!((at, is_toml), (Some(2), false), "{message}");
        let stream = "target = \"null\"\n[[phases]]\nduration = \"5s\"\n[[phases.streams]]\n";
        let (at, message, is_toml) = line(&format!("{stream}workload = \"random,closed=2\"\nthreds = 2\n"));
        assert_eq!((at, is_toml), (Some(6), true), "{message}");
        assert!(message.contains("did you mean `threads`?"), "{message}");
        let (at, message, _) = line(&format!("{stream}workload = \"randm,closed=2\"\n"));
        assert_eq!(at, Some(5), "{message}");
        let (at, message, _) = line(&format!("{stream}workload = \"random,closed=2\"\nthreads = 0\n"));
        assert_eq!(at, Some(6), "{message}");
    }

    #[test]
    fn targets_that_are_overwritten_are_named_with_their_contents() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk.img");
        std::fs::write(&path, vec![0; 1 << 20]).unwrap();
        let plan = |read: &str| {
            let path = path.display();
            format!(
                "target = \"{path}\"\n[[phases]]\nrequests = 9\n[[phases.streams]]\nworkload = \"random,size=4KiB,read={read},closed=1\"\n"
            )
        };
        let overwritten = SOURCE.check(plan("50%")).overwritten;
        assert_eq!(overwritten.len(), 1);
        assert_eq!(overwritten[0].target, path.display().to_string());
        assert!(overwritten[0].refusal.contains("which destroys"), "{}", overwritten[0].refusal);
        assert!(SOURCE.check(plan("100%")).overwritten.is_empty());
    }
}
