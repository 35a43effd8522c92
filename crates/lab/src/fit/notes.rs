//! Sentences about a fit: statements on the prediction, and notes on the fitted requests.

use super::{FitReport, TimesFrom, report};

/// Returns the statements on the prediction, the most important first.
pub fn statements(fit: &FitReport) -> Vec<String> {
    let all =
        [report::worst_class(fit), report::better(fit), report::stationarity(fit), report::arrivals(fit)];
    all.into_iter().flatten().collect()
}

/// Returns notes on the fitted requests: reading of the trace, requests that were omitted, and the start of the
/// response times if requests waited in the host.
pub fn notes(fit: &FitReport) -> Vec<String> {
    let without_issue = if fit.times_from == TimesFrom::Issue { fit.requests_without_issue } else { 0 };
    let counts = [
        (without_issue, "requests have no issue time; their times start at the arrival"),
        (fit.requests_without_response, "requests have no response time and were left out"),
        (fit.failed_requests, "requests failed and were left out"),
        (fit.recorder_requests, "requests were the recorder's own and were left out"),
    ];
    let left_out =
        counts.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
    fit.notes.iter().cloned().chain(left_out).chain(times_from(fit)).collect()
}

/// Returns a note on the start of the response times, if requests waited in the host before their issue.
fn times_from(fit: &FitReport) -> Option<String> {
    let waited = fit.host_queue_mean_ms.filter(|ms| *ms > 0.0)?;
    Some(match fit.times_from {
        TimesFrom::Issue => format!(
            "times start at the issue to the driver. The mean time of {waited:.3} ms in the queue of the host before is \
             omitted: a host in front of the clone has a queue of its own (--times-from arrival includes it)"
        ),
        TimesFrom::Arrival => format!(
            "times start at the arrival. They include a mean time of {waited:.3} ms in the queue of the host before the \
             issue (--times-from issue omits it)"
        ),
    })
}
