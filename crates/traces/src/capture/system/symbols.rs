//! Functions of the kernel by their addresses, from `/proc/kallsyms`.

use std::fs;

use serde::{Deserialize, Serialize};

use crate::system::fields::is_loop_work;
use crate::system::{StackCause, is_known};

/// The functions of the kernel. Only the names of those that matter are kept.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Symbols {
    /// Addresses in order, with the name of the function if it matters.
    functions: Vec<(u64, Option<Box<str>>)>,
}

impl Symbols {
    /// Reads the functions of the running kernel. Empty if this user may not see the addresses.
    pub(super) fn of_kernel() -> Self {
        fs::read_to_string("/proc/kallsyms").map_or_else(|_| Self::default(), |text| Self::parse(&text))
    }

    /// Reads lines such as `ffffffff81000000 T function [module]`.
    fn parse(text: &str) -> Self {
        let function = |line: &str| {
            let mut parts = line.split_whitespace();
            let address = u64::from_str_radix(parts.next()?, 16).ok().filter(|address| *address != 0)?;
            matches!(parts.next()?, "T" | "t" | "W" | "w").then_some(())?;
            let name = parts.next()?;
            let plain = name.split('.').next().unwrap_or(name);
            let matters = is_known(plain) || is_loop_work(plain);
            Some((address, matters.then(|| plain.into())))
        };
        let mut functions: Vec<_> = text.lines().filter_map(function).collect();
        // Of several names of one address, one that matters.
        functions.sort_by(|one: &(u64, Option<Box<str>>), other| {
            (one.0, one.1.is_none()).cmp(&(other.0, other.1.is_none()))
        });
        functions.dedup_by_key(|function| function.0);
        Self { functions }
    }

    /// The functions that matter, and the ends of those.
    pub(super) fn essential(&self) -> Self {
        let mut functions = self.functions.clone();
        let mut is_within = false;
        functions.retain(|(_, name)| {
            let is_end = std::mem::replace(&mut is_within, name.is_some());
            is_end || name.is_some()
        });
        Self { functions }
    }

    /// True if no function is known.
    pub(super) fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// Name of the function that contains the address, if it matters.
    fn name(&self, address: u64) -> Option<&str> {
        let behind = self.functions.partition_point(|function| function.0 <= address);
        self.functions.get(behind.checked_sub(1)?)?.1.as_deref()
    }

    pub(super) fn is_loop_work(&self, address: u64) -> bool {
        self.name(address).is_some_and(is_loop_work)
    }

    /// Cause of a wait from the return addresses of its call stack, innermost first.
    pub(super) fn cause(&self, addresses: &[u8]) -> StackCause {
        let addresses = addresses.as_chunks::<8>().0.iter();
        StackCause::of_stack(addresses.filter_map(|address| self.name(u64::from_ne_bytes(*address))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stack_is_recognised_by_the_functions_that_contain_its_addresses() {
        let symbols = Symbols::parse(
            "0000000000000000 T nothing\nffff1000 T schedule\nffff2000 t filemap_get_pages\nffff2000 T alias\n\
             ffff3000 D data\nffff4000 t loop_workfn\tloop\nffff5000 T ext4_bread.cold\nbroken\n",
        );
        let stack = |addresses: &[u64]| {
            let bytes: Vec<u8> = addresses.iter().flat_map(|address| address.to_ne_bytes()).collect();
            symbols.cause(&bytes)
        };
        assert_eq!(stack(&[0xffff_1010, 0xffff_2fff, 0xffff_5001]), StackCause::DataRead);
        assert_eq!(stack(&[0xffff_1010, 0xffff_5001, 0xffff_2fff]), StackCause::MetadataRead);
        assert_eq!(stack(&[0xffff_1010, 0x10]), StackCause::Unknown);
        assert!(symbols.is_loop_work(0xffff_4000));
        let essential = symbols.essential();
        assert_eq!(essential.functions.len(), symbols.functions.len() - 1, "nobody needs `schedule`");
        for address in [0xffff_1010, 0xffff_2000, 0xffff_2fff, 0xffff_3000, 0xffff_4000, 0xffff_5001] {
            assert_eq!(essential.name(address), symbols.name(address), "{address:x}");
        }
        assert!(!symbols.is_loop_work(0xffff_2000));
        assert!(Symbols::parse("0000000000000000 T schedule\n").is_empty());
    }
}
