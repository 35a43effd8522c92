//! Sentences about a fit: statements on the prediction, and notes on the fitted requests.

use super::suitability::not_judged;
use super::{FitReport, FoundWarmUp, Suitability, TimesFrom, report};
use seeklab_core::number_words::numbered;

/// Returns the statements on the prediction: the verdict of [`verdict`], then [`details`].
pub fn statements(fit: &FitReport) -> Vec<String> {
    [verdict(fit), details(fit)].concat()
}

/// Returns the statements that come before all figures: the loads that the clone is good for, the worst class, and the
/// choice of the model.
pub fn verdict(fit: &FitReport) -> Vec<String> {
    if fit.has_unjudged_limit() {
        return [Some(unjudged_limit()), report::choice(fit)].into_iter().flatten().collect();
    }
    let suitability = fit.saved().map(|saved| match Suitability::of(saved) {
        Some(suitability) => suitability.sentence(saved.model),
        None => not_judged(saved),
    });
    [suitability, report::worst_class(fit), report::choice(fit)].into_iter().flatten().collect()
}

/// The verdict on a clone with a limit that its prediction lacked.
fn unjudged_limit() -> String {
    "The clone is not judged: its limit shows in the whole trace only, and the prediction was made by a model of the first part \
         without it. All errors below are that model's. A later --split, such as --split 80%, may show the limit in the first part."
        .to_owned()
}

/// Returns the other statements on the prediction.
pub fn details(fit: &FitReport) -> Vec<String> {
    [report::stationarity(fit), report::arrivals(fit), report::protocol(fit)].into_iter().flatten().collect()
}

/// Returns notes on the fitted requests: reading of the trace, requests that were omitted, and the start of the
/// response times if requests waited in the host.
pub fn notes(fit: &FitReport) -> Vec<String> {
    let without_issue = if fit.times_from == TimesFrom::Issue { fit.requests_without_issue } else { 0 };
    let counts = [
        (
            without_issue,
            "request[|s] [has|have] no issue time; [its time starts|their times start] at the arrival",
        ),
        (fit.requests_without_response, "request[|s] [has|have] no response time and [was|were] left out"),
        (fit.failed_requests, "request[|s] failed and [was|were] left out"),
        (fit.recorder_requests, "request[|s] [was|were] the recorder's own and [was|were] left out"),
    ];
    let left_out =
        counts.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| numbered(count, what));
    let failed = fit.rest.as_ref().map_or(0, |rest| rest.failed_requests);
    let repeated = (failed > 0).then(|| {
        let text = "request[|s] of the predicted part failed; [it is|they are] sent to the device and [counts|count] in no figure";
        numbered(failed, text)
    });
    let warm_up = fit.warm_up.as_ref().map(FoundWarmUp::note);
    let others = [warm_up, times_from(fit), hidden_limit(fit)].into_iter().flatten();
    fit.notes.iter().cloned().chain(left_out).chain(repeated).chain(others).collect()
}

/// Returns a note on limits of the other unit, if all limits that were found count one unit.
fn hidden_limit(fit: &FitReport) -> Option<String> {
    let found = fit.limits.first()?.counts;
    if fit.limits.iter().any(|limit| limit.counts != found) {
        return None;
    }
    let other = if found == "bytes" { "requests" } else { "bytes" };
    Some(format!(
        "the load reached limits of {found} only, so a limit of {other} above it cannot be found. A load of short requests, \
         such as 4 KiB, reaches a limit of requests first, and one of long requests, such as 256 KiB, a limit of bytes"
    ))
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
