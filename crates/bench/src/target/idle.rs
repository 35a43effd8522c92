//! Waiting while nothing is under way.

use rustix::time::ClockId;
use seeklab_core::Instant;
use seeklab_emulator::clock::{Clock, Wait};

/// Longest sleep without a deadline, after which the caller looks around.
const LONGEST_NS: u64 = 100_000_000;

/// Waits as `wait` says, and returns the number of system calls that this took. A signal ends the wait early.
pub(super) fn idle(clock: Clock, wait: Wait) -> u64 {
    let until = match wait {
        Wait::Spin => {
            std::hint::spin_loop();
            return 0;
        }
        Wait::Until(until) => until,
        Wait::Forever => Instant::from_ns(clock.now().as_ns() + LONGEST_NS),
    };
    // Whoever called looks at the clock anyway.
    let _ = rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &clock.timespec(until));
    1
}
