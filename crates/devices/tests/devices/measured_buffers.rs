//! Tests that buffer hits and buffered writes of the drives of 1997-99 match the real drives.
//!
//! Reference: `../shared/reference/measured/`. The constants of the electronics were identified from the first half
//! of each trace and are judged by the second; the rules were found on the whole of it.

use crate::shared::measured::{DRIVES, Measured, Think, buffered, replay};
use seeklab_core::{Completion, Operation};

/// Least shares within 5 % of read hits and of buffered writes on the second half, in percent.
const LIMITS: [(&str, f64, f64); 3] =
    [("barracuda", 96.0, 96.0), ("cheetah9lp", 92.5, 96.0), ("atlas10k", 97.0, 95.0)];

#[test]
#[cfg_attr(not(shared_reference), ignore = "needs ../shared/reference")]
fn buffer_hits_and_buffered_writes_match_the_second_half() {
    let newer = DRIVES.iter().filter(|drive| drive.think == Think::Before);
    for (drive, (device, hits_min, writes_min)) in newer.zip(LIMITS) {
        assert_eq!(drive.device, device);
        let measured = Measured::of(drive);
        let model = replay(&measured);
        let second = &measured.parts()[2];
        for (kind, op, least) in
            [("read hits", Operation::Read, hits_min), ("buffered writes", Operation::Write, writes_min)]
        {
            let keep = |completion: &Completion| buffered(completion) && completion.request.op == op;
            let of_kind = measured.compare_where(&model, second, keep);
            println!("{device} second half, {kind}: {of_kind}");
            assert!(of_kind.within_5pct >= least, "{device} {kind}: {of_kind}");
            assert!(of_kind.within_5pct > of_kind.disksim_within_5pct, "{device} {kind}: {of_kind}");
        }
    }
}
