//! Lindley's recursion over the arrivals of a trace: one server, order of arrival, any arrivals.
//!
//! Request i + 1 begins when it has arrived and request i has left: `W(i+1) = max(0, W(i) + S(i) − A(i))`, with the
//! queue time W, the service time S and the time A to the next arrival [Lindley 1952; Kleinrock 1975, section 8.1].
//! The recursion needs no assumption about the arrivals, so it holds where M/G/1 does not.

/// Arrival of a request and the time that the server holds it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ServedArrival {
    /// Arrival, in seconds from any origin.
    pub arrival_s: f64,
    /// Service time, in seconds.
    pub service_s: f64,
}

/// Lindley's recursion, one request at a time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Lindley {
    /// Time at which the server has served all requests so far, in seconds.
    free_s: f64,
    requests: u64,
    busy_s: f64,
    response_sum_s: f64,
    first_s: f64,
}

impl Lindley {
    /// A server that is free from the first arrival on.
    pub const fn new() -> Self {
        Self { free_s: f64::NEG_INFINITY, requests: 0, busy_s: 0.0, response_sum_s: 0.0, first_s: 0.0 }
    }

    /// Takes the next request in order of arrival. Returns its response time, in seconds.
    #[inline]
    pub fn push(&mut self, request: ServedArrival) -> f64 {
        if self.requests == 0 {
            self.first_s = request.arrival_s;
        }
        self.free_s = self.free_s.max(request.arrival_s) + request.service_s;
        let response_s = self.free_s - request.arrival_s;
        self.requests += 1;
        self.busy_s += request.service_s;
        self.response_sum_s += response_s;
        response_s
    }

    /// Number of requests.
    pub const fn requests(&self) -> u64 {
        self.requests
    }

    /// Mean response time, in seconds; 0 of no requests.
    pub const fn response_mean_s(&self) -> f64 {
        if self.requests == 0 { 0.0 } else { self.response_sum_s / self.requests as f64 }
    }

    /// Mean service time, in seconds; 0 of no requests.
    pub const fn service_mean_s(&self) -> f64 {
        if self.requests == 0 { 0.0 } else { self.busy_s / self.requests as f64 }
    }

    /// Time from the first arrival to the last completion, in seconds.
    pub const fn elapsed_s(&self) -> f64 {
        if self.requests == 0 { 0.0 } else { self.free_s - self.first_s }
    }

    /// Share of that time in which the server is busy.
    pub const fn utilisation(&self) -> f64 {
        let elapsed_s = self.elapsed_s();
        if elapsed_s > 0.0 { self.busy_s / elapsed_s } else { 0.0 }
    }

    /// Time at which the server has served all requests so far, in seconds.
    pub const fn free_s(&self) -> f64 {
        self.free_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_those_of_a_hand_computed_queue() {
        let mut queue = Lindley::new();
        let requests = [(10.0, 3.0), (11.0, 1.0), (13.5, 1.0), (20.0, 2.0)];
        let responses =
            requests.map(|(arrival_s, service_s)| queue.push(ServedArrival { arrival_s, service_s }));
        assert_eq!(responses, [3.0, 3.0, 1.5, 2.0]);
        assert_eq!(queue.response_mean_s(), 9.5 / 4.0);
        assert_eq!((queue.elapsed_s(), queue.utilisation()), (12.0, 7.0 / 12.0));
    }

    #[test]
    fn batches_wait_for_each_other() {
        let mut queue = Lindley::new();
        let response = (0..5).map(|_| queue.push(ServedArrival { arrival_s: 0.0, service_s: 2.0 })).last();
        assert_eq!(response, Some(10.0));
        assert_eq!(Lindley::new().response_mean_s(), 0.0);
    }
}
