//! Names of the faults that may strike the requests of a trace.

use seeklab_core::FaultSet;

use crate::error::Problem;
use crate::schema::Column;

/// Names of the faults of a device, by their numbers in [`FaultSet`]. The column `fault` has the names of those that
/// struck a request, joined with `+`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FaultNames(Vec<String>);

impl FaultNames {
    /// Joins the names of several faults.
    const JOINT: char = '+';

    /// Name that the faults share which have the last number.
    const OTHERS: &str = "others";

    /// The names in order of their numbers. Those from the last number on share it.
    pub fn new<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Self {
        let mut names: Vec<String> = names.into_iter().map(Into::into).collect();
        if names.len() > FaultSet::CAPACITY {
            names.truncate(FaultSet::CAPACITY - 1);
            names.push(Self::OTHERS.to_owned());
        }
        Self(names)
    }

    /// Returns the names in order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Names the fault of that number.
    ///
    /// # Errors
    /// A number without a place in a set, or a name that the column cannot hold.
    pub(crate) fn set(&mut self, number: &str, name: &str) -> Result<(), Box<Problem>> {
        let place = number.parse::<usize>().ok().filter(|place| *place < FaultSet::CAPACITY);
        let place = place.ok_or_else(|| {
            let last = FaultSet::CAPACITY - 1;
            Problem::new("fault", number, format!("a number from 0 to {last} is allowed"))
        })?;
        if name.is_empty() || name.contains([Self::JOINT, ',', '"', '\n', '\r']) {
            let problem = "a name without `+`, `,`, quotes and line ends is allowed";
            return Err(Problem::new(format!("fault.{place}"), name, problem));
        }
        if self.0.len() <= place {
            self.0.resize(place + 1, String::new());
        }
        name.clone_into(&mut self.0[place]);
        Ok(())
    }

    /// Returns the names of a set as the column has them.
    ///
    /// # Errors
    /// If a fault has no name.
    pub fn text(&self, set: FaultSet) -> Result<String, Box<Problem>> {
        let mut text = String::new();
        for number in set.numbers() {
            let name = self.0.get(number).filter(|name| !name.is_empty()).ok_or_else(|| {
                Problem::new(
                    Column::Fault.name(),
                    number.to_string(),
                    "the metadata has no name for the fault",
                )
            })?;
            if !text.is_empty() {
                text.push(Self::JOINT);
            }
            text += name;
        }
        Ok(text)
    }

    /// Returns the set of a value of the column.
    ///
    /// # Errors
    /// A name that the metadata does not have.
    pub fn faults(&self, text: &str) -> Result<FaultSet, Box<Problem>> {
        text.split(Self::JOINT).try_fold(FaultSet::NONE, |set, name| {
            let place = self.0.iter().position(|known| known == name && !name.is_empty());
            place.map(|place| set.with(place)).ok_or_else(|| self.unknown(name))
        })
    }

    #[cold]
    fn unknown(&self, name: &str) -> Box<Problem> {
        let known: Vec<&str> = self.iter().filter(|name| !name.is_empty()).collect();
        let allowed = match known.is_empty() {
            true => "the metadata names no fault".to_owned(),
            false => format!("{} is allowed, several with `+` between them", known.join(", ")),
        };
        Problem::new(Column::Fault.name(), name, allowed)
            .hint("name the fault in the metadata, for example `fault.0`")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_set_round_trip() {
        let names = FaultNames::new(["delay", "bad block", "gone"]);
        for (numbers, text) in
            [(vec![0], "delay"), (vec![1, 2], "bad block+gone"), (vec![0, 1, 2], "delay+bad block+gone")]
        {
            let set = numbers.iter().fold(FaultSet::NONE, |set, number| set.with(*number));
            assert_eq!(names.text(set).unwrap(), text);
            assert_eq!(names.faults(text).unwrap(), set);
        }
        assert!(names.text(FaultSet::NONE.with(3)).is_err());
        for wrong in ["delays", "delay+", "", "delay,gone"] {
            let problem = names.faults(wrong).unwrap_err();
            assert!(problem.to_string().contains("fault"), "{problem}");
        }
    }

    #[test]
    fn faults_beyond_the_last_number_share_a_name() {
        let names = FaultNames::new((0..40).map(|number| format!("f{number}")));
        assert_eq!(names.iter().count(), 24);
        assert_eq!(names.text(FaultSet::NONE.with(22).with(35)).unwrap(), "f22+others");
        let all = FaultNames::new((0..24).map(|number| format!("f{number}")));
        assert_eq!(all.text(FaultSet::NONE.with(23)).unwrap(), "f23");
    }
}
