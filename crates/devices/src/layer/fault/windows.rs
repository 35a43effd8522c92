//! Times for which faults of the whole device last.

use seeklab_core::{Device, FaultWindow, Instant};

use super::Fault;
use crate::fault::{Action, Rule};

/// Windows of each fault at most.
const WINDOWS_MAX: usize = 100_000;

impl Fault {
    /// The windows before `end`, those of the device beneath first, by the time outside as far as its clock remembers.
    pub(super) fn windows_before(&self, end: Instant) -> Vec<FaultWindow> {
        let mut windows = self.device.fault_windows(self.clock.inside(end));
        for window in &mut windows {
            window.from = self.clock.outside(window.from);
            window.until = self.clock.outside(window.until);
        }
        for (number, rule) in self.rules.iter().enumerate().filter(|(_, rule)| strikes_device(rule)) {
            let number = self.first_number + number;
            let mut window = rule.schedule.first();
            for _ in 0..WINDOWS_MAX {
                if window.start >= end {
                    break;
                }
                windows.push(FaultWindow { number, from: window.start, until: window.end });
                let next = rule.schedule.advance(window, window.end);
                if next == window {
                    break;
                }
                window = next;
            }
        }
        windows
    }
}

/// Returns true if the fault strikes the whole device, whether a request arrives or not.
const fn strikes_device(rule: &Rule) -> bool {
    matches!(rule.action, Action::Stall | Action::Slow(_) | Action::Gone(_) | Action::PowerLoss(_))
}
