//! A cap on the bytes per second that a device passes.
//!
//! A leaky bucket without depth: behind the device is a pipe of that rate, and a request leaves when its last byte has
//! passed. The pipe saves up nothing while it is idle, so no burst exceeds the rate, as behind a failing link or a
//! vibrating disk. Rates with bursts, which a provider sells, are a [limit](crate::layer::Limit) before the device.

use seeklab_core::{ByteSize, DataRate, Instant};

/// A cap on the bytes per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cap {
    /// Bytes per second.
    pub(super) rate: DataRate,
    /// Bit that stands for the cap in the fate of a request.
    pub(super) bit: u32,
}

impl Cap {
    /// Caps of a layer at most, one bit each.
    pub(super) const MAX: usize = u32::BITS as usize;

    /// Bit that stands for the cap in the fate of a request.
    pub const fn bit(self) -> u32 {
        self.bit
    }

    /// The time at which a request leaves that the device has completed at `done`. The pipe is free from `free` on,
    /// and from the returned time on afterwards. The transfer begins at the submission, beside the work of the device.
    pub fn leave(self, free: &mut Instant, submitted: Instant, done: Instant, size: ByteSize) -> Instant {
        let passed = submitted.max(*free).as_ns().saturating_add(self.rate.time_for(size).as_ns());
        *free = Instant::from_ns(passed).max(done);
        *free
    }
}

#[cfg(test)]
mod tests {
    use seeklab_core::Duration;

    use super::*;

    #[test]
    fn bytes_leave_no_faster_than_the_rate() {
        let cap = Cap { rate: DataRate::from_bytes_per_s(3_000), bit: 1 };
        let ms = |ms: u64| Instant::ZERO + Duration::from_ms(ms);
        let mut free = Instant::ZERO;
        let mut leave = |submitted, done, bytes| {
            cap.leave(&mut free, ms(submitted), ms(done), ByteSize::from_bytes(bytes)).as_ns()
        };
        assert_eq!(leave(0, 1, 3), 1_000_000, "the transfer is hidden in the work of the device");
        assert_eq!(leave(0, 2, 30), 11_000_000, "behind the one before");
        assert_eq!(leave(5, 12, 10), 14_333_334, "rounded up to the next nanosecond");
        assert_eq!(leave(100, 101, 300), 200_000_000, "idle time is not saved up");
        assert_eq!(leave(150, 900, 3), 900_000_000, "a slow device hides the cap");
    }
}
