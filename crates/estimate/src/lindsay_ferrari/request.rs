//! Equations (13) to (15) and figures 3 and 4: sectors of a request, and the time that its job is blocked.
//!
//! ```text
//! v = r_e r_k     full: (B − C)/v < d + A, the buffer has no room left before the transfer begins
//! (13)  t_0 = min((B − C)/v, d + A)
//! (14)  b_0 = C + t_0 v
//! (15)  N   = b_0 + v b_0/(r_d − v) = b_0 r_d/(r_d − v)
//!
//! without reactivation (figure 3)
//!   full:          N = B                 u = (d + A − t_0) + B/r_d
//!   else v < r_d:  N = (15)              u = 0
//!   else:          t_2 = (B − b_0)/(v − r_d)
//!                  N = r_d t_2 + B       u = B/r_d
//! with reactivation (figure 4)
//!   b_0 = B if full;   u_1 = d + A − t_0 if full, else 0
//!   v < r_d:       N = (15)              u = u_1, and 1/r_d more if full
//!   v ≥ r_d:       N = N_MAX             u = u_1 + N/r_d − (N − b_0)/v
//! ```
//! (15) has a pole where `v = r_d`. A request has at most the sectors for which the state lasts, and never fewer than
//! the buffer holds when the transfer begins. Both figures compare `v` with `r_d`.
//!
//! # Requests that are sized at their start
//! The paper has none. The size is that of the buffer's contents when the drive is free, before the access, and the job
//! goes on into the rest of the buffer until the request is complete. With `L` sectors left from the request before:
//!
//! ```text
//!   c = max(C, L)      N = min(B, c + v d)
//!   full where (B − c)/v < d + A + N/r_d:  u = d + A + N/r_d − (B − c)/v,  L = B − N
//!   else:                                  u = 0,  L = c + v (d + A + N/r_d) − N
//! ```
//! Both policies of reactivation are the same here, because all sectors of a request complete together.

use super::parameters::{Parameters, RateState, Reactivation, Transfers};

/// A request of one rate state.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Request {
    /// `N`: sectors.
    pub sectors: f64,
    /// `u`: time that the job is blocked, in seconds.
    pub blocked_s: f64,
}

/// Steps to the left-over of a request that is sized at its start. Successive steps differ by less each time.
const LEFT_OVER_STEPS: u32 = 32;

/// `N` and `u` in `state`, for a processor share `r_e` and a wait `d` in seconds.
pub(super) fn request(
    parameters: &Parameters,
    state: &RateState,
    processor_share: f64,
    wait_s: f64,
) -> Request {
    let rate = processor_share * state.rate_per_s;
    match (parameters.transfers, parameters.reactivation) {
        (Transfers::SizedAtStart, _) => sized_at_start(parameters, rate, wait_s),
        (Transfers::Chained, Reactivation::AtEnd) => {
            without_reactivation(parameters, &Start::new(parameters, rate, wait_s), state)
        }
        (Transfers::Chained, Reactivation::PerSector) => {
            with_reactivation(parameters, &Start::new(parameters, rate, wait_s), state)
        }
    }
}

/// Processor share at which the two cases of a flowchart meet: `v = r_d`, and `(B − C)/v = d + A`.
pub(super) fn boundaries(parameters: &Parameters, state: &RateState, wait_s: f64) -> [f64; 2] {
    let room = parameters.buffer_sectors - parameters.threshold_sectors;
    [
        parameters.drive_rate_per_s / state.rate_per_s,
        room / (state.rate_per_s * (wait_s + parameters.access_s)),
    ]
}

/// A request when its transfer begins.
struct Start {
    /// `v`: sectors per second of elapsed time.
    rate: f64,
    is_full: bool,
    /// `t_0`, equation (13).
    filling_s: f64,
    /// `b_0`, equation (14).
    held: f64,
    /// `d + A`.
    delay_s: f64,
}

impl Start {
    fn new(parameters: &Parameters, rate: f64, wait_s: f64) -> Self {
        let delay_s = wait_s + parameters.access_s;
        let room_s = (parameters.buffer_sectors - parameters.threshold_sectors) / rate;
        let is_full = room_s < delay_s;
        let filling_s = room_s.min(delay_s);
        let held =
            if is_full { parameters.buffer_sectors } else { parameters.threshold_sectors + filling_s * rate };
        Self { rate, is_full, filling_s, held, delay_s }
    }

    /// Sectors of a request that the buffer empties, equation (15), within the residence of the state.
    fn emptied(&self, drive_rate: f64, state: &RateState) -> f64 {
        self.within(self.held * drive_rate / (drive_rate - self.rate), state)
    }

    fn within(&self, sectors: f64, state: &RateState) -> f64 {
        sectors.min(state.residence_sectors).max(self.held)
    }
}

/// Figure 3.
fn without_reactivation(parameters: &Parameters, start: &Start, state: &RateState) -> Request {
    let (buffer, drive_rate) = (parameters.buffer_sectors, parameters.drive_rate_per_s);
    if start.is_full {
        let blocked_s = start.delay_s - start.filling_s + buffer / drive_rate;
        Request { sectors: buffer, blocked_s }
    } else if start.rate < drive_rate {
        Request { sectors: start.emptied(drive_rate, state), blocked_s: 0.0 }
    } else {
        let filling_s = (buffer - start.held) / (start.rate - drive_rate);
        let sectors = start.within(drive_rate * filling_s + buffer, state);
        Request { sectors, blocked_s: buffer / drive_rate }
    }
}

/// Figure 4.
fn with_reactivation(parameters: &Parameters, start: &Start, state: &RateState) -> Request {
    let drive_rate = parameters.drive_rate_per_s;
    let before_s = if start.is_full { start.delay_s - start.filling_s } else { 0.0 };
    if start.rate < drive_rate {
        let first_s = if start.is_full { 1.0 / drive_rate } else { 0.0 };
        Request { sectors: start.emptied(drive_rate, state), blocked_s: before_s + first_s }
    } else {
        let sectors = start.within(state.residence_sectors, state);
        let computing_s = (sectors - start.held) / start.rate;
        Request { sectors, blocked_s: before_s + sectors / drive_rate - computing_s }
    }
}

/// A request that is sized at its start, with the left-over that it leaves to the next.
fn sized_at_start(parameters: &Parameters, rate: f64, wait_s: f64) -> Request {
    let buffer = parameters.buffer_sectors;
    let mut left_over = 0.0_f64;
    let mut request = Request { sectors: buffer, blocked_s: 0.0 };
    for _ in 0..LEFT_OVER_STEPS {
        let at_call = left_over.max(parameters.threshold_sectors);
        let sectors = (at_call + rate * wait_s).min(buffer);
        let duration_s = wait_s + parameters.access_s + sectors / parameters.drive_rate_per_s;
        let room_s = (buffer - at_call) / rate;
        request = Request { sectors, blocked_s: (duration_s - room_s).max(0.0) };
        let held = if room_s < duration_s { buffer } else { at_call + rate * duration_s };
        let next = held - sectors;
        if next == left_over {
            break;
        }
        // Halfway, because the left-over may alternate between two values.
        left_over += (next - left_over) / 2.0;
    }
    request
}

#[cfg(test)]
mod tests {
    use super::super::parameters::tests::figure_7;
    use super::*;

    fn of(rate_per_s: f64, buffer: f64, reactivation: Reactivation) -> Request {
        let parameters = Parameters { reactivation, ..figure_7(3.0, buffer) };
        let state = RateState { rate_per_s, share: 1.0, residence_sectors: 90.0 };
        parameters.request(&state, 0.5, 0.02)
    }

    #[test]
    fn requests_have_the_figures_of_the_notes() {
        let table = [
            (38.76, 8.0, (5.699619, 0.0), (5.699619, 0.0)),
            (1500.0, 8.0, (8.0, 0.084667), (32.0, 0.077667)),
            (5000.0, 8.0, (8.0, 0.088400), (90.0, 0.137600)),
            (5000.0, 16.0, (16.0, 0.094800), (90.0, 0.139200)),
        ];
        for (rate, buffer, without, with) in table {
            for (reactivation, (sectors, blocked_s)) in
                [(Reactivation::AtEnd, without), (Reactivation::PerSector, with)]
            {
                let found = of(rate, buffer, reactivation);
                assert!((found.sectors - sectors).abs() < 6e-7, "{rate} {reactivation:?}: {found:?}");
                assert!((found.blocked_s - blocked_s).abs() < 6e-7, "{rate} {reactivation:?}: {found:?}");
            }
        }
    }

    #[test]
    fn requests_at_the_pole_last_as_long_as_their_state() {
        let mut parameters = figure_7(3.0, 200.0);
        parameters.threshold_sectors = 1.0;
        for reactivation in [Reactivation::AtEnd, Reactivation::PerSector] {
            parameters.reactivation = reactivation;
            // v = r_d, and the buffer has room until the transfer begins.
            let state = RateState { rate_per_s: 2000.0, share: 1.0, residence_sectors: 150.0 };
            let request = parameters.request(&state, 0.5, 0.02);
            assert_eq!(request.sectors, 150.0, "{reactivation:?}");
            // Never fewer sectors than the buffer holds at the start: 1 + 0.082 × 1000.
            let short = RateState { residence_sectors: 2.0, ..state };
            assert!((parameters.request(&short, 0.5, 0.02).sectors - 83.0).abs() < 1e-9);
        }
    }

    #[test]
    fn sized_requests_hold_the_buffer_when_the_drive_is_free() {
        let mut parameters = figure_7(3.0, 8.0);
        parameters.transfers = Transfers::SizedAtStart;
        let slow = RateState { rate_per_s: 10.0, share: 1.0, residence_sectors: 90.0 };
        // v = 5/s: 4 + 0.02 × 5 sectors; 0.43 more while they are written.
        let request = parameters.request(&slow, 0.5, 0.02);
        assert!((request.sectors - 4.1).abs() < 1e-9, "{request:?}");
        assert_eq!(request.blocked_s, 0.0);
        // v = 2500/s: 4 sectors of room last 1.6 ms, the request takes 20 + 62 + 8 ms.
        let fast = RateState { rate_per_s: 5000.0, ..slow };
        let request = parameters.request(&fast, 0.5, 0.02);
        assert_eq!(request.sectors, 8.0);
        assert!((request.blocked_s - 0.0884).abs() < 1e-9, "{request:?}");
        // Without a wait the request has what the call found, and the rest of the buffer fills meanwhile.
        let request = parameters.request(&fast, 0.5, 0.0);
        assert!((request.sectors - 4.0).abs() < 1e-6, "{request:?}");
        assert!((request.blocked_s - (0.066 - 0.0016)).abs() < 1e-6, "{request:?}");
    }
}
