//! Lists of processors, such as `0,2-3`.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};

use crate::error::Missing;

/// Processors by their numbers; at least one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuList(BTreeSet<usize>);

/// A list of processors that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is no list of processors; write for example `0`, `0,2` or `0-3`, with numbers below {limit}"
)]
pub struct CpuListError {
    text: String,
    limit: usize,
}

impl FromStr for CpuList {
    type Err = CpuListError;

    fn from_str(text: &str) -> Result<Self, CpuListError> {
        let number = |text: &str| {
            let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse::<usize>().ok().filter(|number| is_number && *number < CpuSet::MAX_CPU)
        };
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then_some(first..=last)
        };
        let ranges: Option<Vec<_>> = text.split(',').map(range).collect();
        let ranges = ranges.ok_or(CpuListError { text: text.to_owned(), limit: CpuSet::MAX_CPU })?;
        Ok(Self(ranges.into_iter().flatten().collect()))
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let mut numbers = self.0.iter().copied().peekable();
        let mut separator = "";
        while let Some(first) = numbers.next() {
            let mut last = first;
            while let Some(next) = numbers.next_if(|next| *next == last + 1) {
                last = next;
            }
            write!(f, "{separator}{first}")?;
            if last > first {
                write!(f, "-{last}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

impl CpuList {
    /// Returns the processors that the calling thread may use. `None` if the kernel does not tell.
    pub fn permitted() -> Option<Self> {
        let set = sched_getaffinity(None).ok()?;
        Self::new((0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)))
    }

    fn new(numbers: impl Iterator<Item = usize>) -> Option<Self> {
        let numbers: BTreeSet<usize> = numbers.collect();
        (!numbers.is_empty()).then_some(Self(numbers))
    }

    /// The numbers of the processors, in ascending order.
    pub fn numbers(&self) -> impl Iterator<Item = usize> {
        self.0.iter().copied()
    }

    /// Returns what is missing for processes of the calling thread to run on these processors.
    pub(crate) fn missing(&self) -> Option<Missing> {
        let permitted = Self::permitted()?;
        let foreign = Self::new(self.0.difference(&permitted.0).copied())?;
        let what = format!(
            "--cpus {self}: this process may not use {foreign}, or the machine has no such processor"
        );
        Some(Missing::new(what, format!("choose of {permitted}")))
    }

    /// The set as the kernel takes it.
    pub(crate) fn set(&self) -> CpuSet {
        let mut set = CpuSet::new();
        for cpu in &self.0 {
            set.set(*cpu);
        }
        set
    }
}

/// The calling thread kept off some processors, and so are the threads and processes that it starts, until this is
/// dropped on the same thread.
#[derive(Debug)]
pub struct KeptOff {
    former: CpuSet,
}

impl KeptOff {
    /// Keeps the calling thread off `cpus`. Returns `None` if no other processor is left or the kernel refuses; the
    /// thread then runs where it did.
    pub fn begin(cpus: &CpuList) -> Option<Self> {
        let former = sched_getaffinity(None).ok()?;
        let others = CpuList::new(CpuList::permitted()?.0.difference(&cpus.0).copied())?;
        sched_setaffinity(None, &others.set()).ok()?;
        Some(Self { former })
    }
}

impl Drop for KeptOff {
    fn drop(&mut self) {
        // It was permitted before.
        let _ = sched_setaffinity(None, &self.former);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_is_read_and_written_as_the_kernel_writes_it() {
        for (text, written) in
            [("0", "0"), ("0,2-3", "0,2-3"), ("3,1,2", "1-3"), ("5-5,7,9-10", "5,7,9-10"), ("0,0", "0")]
        {
            assert_eq!(text.parse::<CpuList>().unwrap().to_string(), written, "{text}");
        }
        for text in ["", "a", "1-", "-1", "3-1", "0,,1", "0 1", "+1", "1024", "0-99999999999"] {
            let error = text.parse::<CpuList>().unwrap_err();
            assert!(error.to_string().starts_with(&format!("`{text}` is no list of processors")), "{error}");
        }
    }

    #[test]
    fn processor_that_is_not_there_is_refused() {
        let own = CpuList::permitted().unwrap();
        assert_eq!(own.missing(), None);
        let missing = "1023".parse::<CpuList>().unwrap().missing().unwrap();
        assert!(missing.what.starts_with("--cpus 1023: "), "{missing}");
        assert_eq!(missing.remedy, format!("choose of {own}"));
    }

    #[test]
    fn thread_is_kept_off_until_the_end() {
        // On a thread of its own: affinity is a thread's.
        std::thread::spawn(|| {
            let own = CpuList::permitted().unwrap();
            assert!(KeptOff::begin(&own).is_none(), "no other is left");
            assert_eq!(CpuList::permitted(), Some(own.clone()));
            let first = CpuList::new(own.0.iter().copied().take(1)).unwrap();
            if own.0.len() > 1 {
                let kept = KeptOff::begin(&first).unwrap();
                let others = CpuList::permitted().unwrap();
                assert!(others.0.is_disjoint(&first.0) && others.0.len() == own.0.len() - 1);
                drop(kept);
                assert_eq!(CpuList::permitted(), Some(own));
            }
        })
        .join()
        .unwrap();
    }
}
