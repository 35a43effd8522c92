//! Columns of a batch as the numbers that a row holds.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrowPrimitiveType};
use arrow_schema::DataType;
use seeklab_traces::schema::{Column, Content};
use seeklab_traces::{FaultNames, Problem};

/// The values of one column in a batch; names and flags as their code.
pub(crate) struct Values {
    pub(crate) column: Column,
    pub(crate) numbers: Vec<u64>,
    /// True for each value that is not null. Empty if no value is null.
    pub(crate) valid: Vec<bool>,
    /// True if no value is null.
    pub(crate) all_valid: bool,
    /// Names of the faults of the trace.
    faults: FaultNames,
}

impl Values {
    pub(crate) fn new(column: Column, faults: &FaultNames) -> Self {
        Self { column, numbers: Vec::new(), valid: Vec::new(), all_valid: true, faults: faults.clone() }
    }

    /// Returns true if every value is null.
    pub(crate) fn is_null(&self) -> bool {
        !self.all_valid && self.numbers.is_empty()
    }

    /// Takes the values of `array`.
    ///
    /// # Errors
    /// If its type or a value is not what the column allows, with the row within the batch.
    pub(crate) fn fill(&mut self, array: &dyn Array) -> Result<(), (Option<usize>, Box<Problem>)> {
        self.numbers.clear();
        self.valid.clear();
        self.all_valid = array.null_count() == 0 && *array.data_type() != DataType::Null;
        if array.null_count() == array.len() || *array.data_type() == DataType::Null {
            self.all_valid = array.is_empty();
            return Ok(());
        }
        if let Some(nulls) = array.nulls().filter(|_| !self.all_valid) {
            self.valid.extend(nulls.iter());
        }
        match (self.column.content(), array.data_type()) {
            (Content::Name(_) | Content::Faults, _) => self.fill_names(array),
            (Content::Flag, DataType::Boolean) => {
                let flags = array.as_boolean().values();
                self.numbers.extend(flags.iter().map(u64::from));
                Ok(())
            }
            (_, DataType::UInt64) => {
                self.numbers.extend_from_slice(array.as_primitive::<UInt64Type>().values());
                Ok(())
            }
            (_, DataType::UInt32) => self.fill_from::<UInt32Type>(array),
            (_, DataType::UInt16) => self.fill_from::<UInt16Type>(array),
            (_, DataType::UInt8) => self.fill_from::<UInt8Type>(array),
            (_, DataType::Int64) => self.fill_from::<Int64Type>(array),
            (_, DataType::Int32) => self.fill_from::<Int32Type>(array),
            (_, DataType::Int16) => self.fill_from::<Int16Type>(array),
            (_, DataType::Int8) => self.fill_from::<Int8Type>(array),
            (_, other) => Err((None, self.wrong_type(other))),
        }
    }

    fn is_valid(&self, index: usize) -> bool {
        self.all_valid || self.valid.get(index).copied().unwrap_or(true)
    }

    /// Integers of any width; what is negative is an error unless it is null.
    fn fill_from<T>(&mut self, array: &dyn Array) -> Result<(), (Option<usize>, Box<Problem>)>
    where
        T: ArrowPrimitiveType,
        T::Native: TryInto<u64> + std::fmt::Display,
    {
        let mut numbers = std::mem::take(&mut self.numbers);
        for (index, value) in array.as_primitive::<T>().values().iter().enumerate() {
            match (*value).try_into() {
                Ok(number) => numbers.push(number),
                Err(_) if !self.is_valid(index) => numbers.push(0),
                Err(_) => {
                    let problem = "a whole number from 0 is allowed";
                    return Err((Some(index), Problem::new(self.column.name(), value.to_string(), problem)));
                }
            }
        }
        self.numbers = numbers;
        Ok(())
    }

    /// Strings, plain or from a dictionary.
    fn fill_names(&mut self, array: &dyn Array) -> Result<(), (Option<usize>, Box<Problem>)> {
        let (column, faults) = (self.column, &self.faults);
        let code = |name: &str| match column.content() {
            Content::Faults => faults.faults(name).map(|set| u64::from(set.bits())),
            Content::Name(names) => column
                .code(name)
                .ok_or_else(|| Problem::new(column.name(), name, format!("{} is allowed", names.join(", ")))),
            Content::Number(_) | Content::Flag => unreachable!("the column has names"),
        };
        if let Some(dictionary) = array.as_any_dictionary_opt() {
            let known = dictionary.values();
            let mut text = Vec::with_capacity(known.len());
            for_each_string(known.as_ref(), |_, name| {
                text.push(name.map(str::to_owned));
                Ok(())
            })
            .map_err(|()| (None, self.wrong_type(array.data_type())))?;
            let codes: Vec<_> =
                text.iter().map(|name| name.as_deref().and_then(|name| code(name).ok())).collect();
            for (index, key) in dictionary.normalized_keys().into_iter().enumerate() {
                match codes.get(key).copied().flatten() {
                    Some(code) => self.numbers.push(code),
                    None if !self.all_valid && !self.valid[index] => self.numbers.push(0),
                    None => {
                        let name = text.get(key).cloned().flatten().unwrap_or_default();
                        return Err((Some(index), code(&name).expect_err("the name has no code")));
                    }
                }
            }
            return Ok(());
        }
        let mut failure = None;
        let numbers = &mut self.numbers;
        for_each_string(array, |index, name| {
            match name.map(code) {
                Some(Ok(code)) => numbers.push(code),
                None => numbers.push(0),
                Some(Err(problem)) => {
                    failure = Some((Some(index), problem));
                    return Err(());
                }
            }
            Ok(())
        })
        .map_err(|()| failure.unwrap_or_else(|| (None, self.wrong_type(array.data_type()))))
    }

    fn wrong_type(&self, found: &DataType) -> Box<Problem> {
        let allowed = match self.column.content() {
            Content::Number(_) => "integers are allowed",
            Content::Name(_) | Content::Faults => "strings are allowed",
            Content::Flag => "booleans are allowed",
        };
        Problem::new(format!("type of column {}", self.column.name()), found.to_string(), allowed)
    }
}

/// Calls `each` with every string of `array`. Returns an error if `array` has no strings or `each` returns an
/// error.
fn for_each_string(
    array: &dyn Array,
    mut each: impl FnMut(usize, Option<&str>) -> Result<(), ()>,
) -> Result<(), ()> {
    match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().iter().enumerate().try_for_each(|(i, name)| each(i, name)),
        DataType::LargeUtf8 => {
            array.as_string::<i64>().iter().enumerate().try_for_each(|(i, name)| each(i, name))
        }
        DataType::Utf8View => {
            array.as_string_view().iter().enumerate().try_for_each(|(i, name)| each(i, name))
        }
        _ => Err(()),
    }
}
