//! The resources of the server.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::{Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use seeklab_lab::bench::plan_document;
use seeklab_lab::crates::report::{CHART_SCRIPT, PAGE_STYLE};
use seeklab_lab::failure::Failure;
use seeklab_lab::output::VERSION;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::archive::Archive;
use crate::connections::{BODY_BYTES_MAX, REQUEST_TIME};
use crate::events;
use crate::guard::{Guard, METRICS_PATH};
use crate::history::History;
use crate::metrics::{self, Metrics};
use crate::overlay::Overlay;
use crate::plans::{PlanSource, Problem};
use crate::runner::{Runner, StartError};
use crate::token::Token;

/// Parts of the server that requests need.
pub(crate) struct App {
    pub(crate) runner: Arc<Runner>,
    pub(crate) history: Arc<History>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) archive: Arc<Archive>,
    pub(crate) source: Arc<PlanSource>,
    pub(crate) first_plan: String,
}

const PAGE: &str = include_str!("../page/ui.html");
const STYLE: &str = include_str!("../page/ui.css");
const FORM_SCRIPT: &str = include_str!("../page/form.js");
const SCRIPT: &str = include_str!("../page/ui.js");

/// Nothing but this server is reached, and no other page frames this one.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                           base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// A report is a page of its own, which reaches nothing, and not this page either.
const REPORT_POLICY: &str = include_str!("../page/report.policy");

/// All resources, below the token and behind the guard.
pub(crate) fn router(app: Arc<App>, token: Token, bound: SocketAddr) -> Router {
    let pages = Router::new()
        .route("/ui.css", get(|| async { text("text/css; charset=utf-8", [PAGE_STYLE, STYLE].concat()) }))
        .route("/chart.js", get(|| async { text("text/javascript; charset=utf-8", CHART_SCRIPT) }))
        .route("/form.js", get(|| async { text("text/javascript; charset=utf-8", FORM_SCRIPT) }))
        .route("/ui.js", get(|| async { text("text/javascript; charset=utf-8", SCRIPT) }))
        .route("/api/setup", get(setup))
        .route("/api/check", post(check))
        .route("/api/write", post(write))
        .route("/api/start", post(start))
        .route("/api/rerun", post(repeat))
        .route("/api/stop", post(stop))
        .route("/api/events", get(live))
        .route("/api/runs", get(runs))
        .route("/api/overlay", get(overlay))
        .route("/report", get(report));
    Router::new()
        .route(&format!("/{}/", token.text()), get(|| async { text("text/html; charset=utf-8", PAGE) }))
        .nest(&format!("/{}", token.text()), pages)
        .route(METRICS_PATH, get(exposition))
        .fallback(|| async { refusal(StatusCode::NOT_FOUND, "there is nothing of that name") })
        .with_state(app)
        .layer(from_fn(limited))
        .layer(from_fn_with_state(Arc::new(Guard::new(token, bound)), guarded))
}

/// Lets a request through that the guard has nothing against, and gives each answer its headers.
async fn guarded(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let mut response = match guard.check(request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err((status, problem)) => refusal_unread(status, problem),
    };
    let headers = response.headers_mut();
    let policy = HeaderValue::from_static(PAGE_POLICY);
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(policy);
    for (name, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (header::HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Reads the body of a request before anything answers it, and gives up on one that does not come or is too long.
///
/// A body that comes after its answer ends the connection, which the client may have kept for its next request.
async fn limited(request: Request, next: Next) -> Response {
    let answered = async {
        let (head, body) = request.into_parts();
        match to_bytes(body, BODY_BYTES_MAX).await {
            Ok(body) => next.run(Request::from_parts(head, Body::from(body))).await,
            Err(_) => refusal_unread(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("the body of a request has at most {} KiB", BODY_BYTES_MAX >> 10),
            ),
        }
    };
    match tokio::time::timeout(REQUEST_TIME, answered).await {
        Ok(response) => response,
        Err(_) => refusal_unread(StatusCode::REQUEST_TIMEOUT, "the request took too long"),
    }
}

fn text(content_type: &'static str, body: impl Into<Body>) -> Response {
    ([(header::CONTENT_TYPE, content_type)], body.into()).into_response()
}

/// An answer that says why there is no other.
fn refusal(status: StatusCode, problem: impl Into<String>) -> Response {
    let problem = Problem { message: problem.into(), hint: None, line: None };
    (status, Json(json!({ "problem": problem }))).into_response()
}

/// A refusal of a request whose body is not read, which ends the connection.
fn refusal_unread(status: StatusCode, problem: impl Into<String>) -> Response {
    let mut response = refusal(status, problem);
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// An answer, or the failure.
fn answer<D: Serialize>(result: Result<D, Failure>, status: StatusCode) -> Response {
    match result {
        Ok(document) => Json(document).into_response(),
        Err(failure) => (status, Json(json!({ "problem": Problem::from(&failure) }))).into_response(),
    }
}

/// Does work that may wait for files, beside the thread of the server.
async fn beside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| {
        Failure::new("an internal error ended the request").hint("the terminal of the server shows it")
    })
}

/// Everything that a page needs once.
async fn setup(State(app): State<Arc<App>>) -> Json<Value> {
    Json(json!({ "version": VERSION, "schema": plan_document(), "plan": app.first_plan }))
}

/// A plan as text.
#[derive(Deserialize)]
struct PlanText {
    toml: String,
}

async fn check(State(app): State<Arc<App>>, Json(PlanText { toml }): Json<PlanText>) -> Response {
    let source = Arc::clone(&app.source);
    answer(beside(move || source.check(toml)).await, StatusCode::INTERNAL_SERVER_ERROR)
}

/// A plan as keys and values.
#[derive(Deserialize)]
struct PlanValues {
    plan: Value,
}

async fn write(State(app): State<Arc<App>>, Json(PlanValues { plan }): Json<PlanValues>) -> Response {
    let source = Arc::clone(&app.source);
    let written = beside(move || source.write(plan)).await.and_then(|written| written);
    answer(written, StatusCode::UNPROCESSABLE_ENTITY)
}

/// A plan that is to run, and the names of targets, typed again.
#[derive(Deserialize)]
struct StartRequest {
    toml: String,
    #[serde(default)]
    destroy: Vec<String>,
}

async fn start(State(app): State<Arc<App>>, Json(request): Json<StartRequest>) -> Response {
    let runner = Arc::clone(&app.runner);
    started(beside(move || runner.start(request.toml, request.destroy)).await)
}

/// A saved run that is to run again, and the names of targets, typed again.
#[derive(Deserialize)]
struct RerunRequest {
    run: String,
    #[serde(default)]
    destroy: Vec<String>,
}

async fn repeat(State(app): State<Arc<App>>, Json(request): Json<RerunRequest>) -> Response {
    let runner = Arc::clone(&app.runner);
    started(beside(move || runner.rerun(&request.run, request.destroy)).await)
}

/// The answer to a request for a run.
fn started(result: Result<Result<String, StartError>, Failure>) -> Response {
    match result {
        Ok(Ok(id)) => (StatusCode::ACCEPTED, Json(json!({ "id": id }))).into_response(),
        Ok(Err(StartError::Busy(problem))) => refusal(StatusCode::CONFLICT, problem),
        Ok(Err(StartError::Unnamed(overwritten))) => {
            let message = "targets would be overwritten: type their names again".to_owned();
            let problem = Problem { message, hint: None, line: None };
            let answer = json!({ "problem": problem, "overwritten": overwritten });
            (StatusCode::UNPROCESSABLE_ENTITY, Json(answer)).into_response()
        }
        Ok(Err(StartError::Failed(failure))) => answer::<()>(Err(failure), StatusCode::UNPROCESSABLE_ENTITY),
        Err(failure) => answer::<()>(Err(failure), StatusCode::INTERNAL_SERVER_ERROR),
    }
}

async fn stop(State(app): State<Arc<App>>) -> Response {
    match app.runner.stop() {
        true => (StatusCode::ACCEPTED, Json(json!({}))).into_response(),
        false => refusal(StatusCode::CONFLICT, "no run is under way"),
    }
}

async fn live(State(app): State<Arc<App>>, method: Method, headers: HeaderMap) -> Response {
    if method == Method::HEAD {
        return text("text/event-stream", "");
    }
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    text("text/event-stream", events::body(&app.history, last))
}

async fn runs(State(app): State<Arc<App>>) -> Response {
    let archive = Arc::clone(&app.archive);
    let listed = beside(move || archive.list()).await.and_then(|listed| listed);
    let listed =
        listed.map(|runs| json!({ "runs": runs.iter().map(|run| run.as_ref()).collect::<Vec<_>>() }));
    answer(listed, StatusCode::INTERNAL_SERVER_ERROR)
}

/// A saved run, or two.
#[derive(Deserialize)]
struct Chosen {
    run: String,
    other: Option<String>,
}

async fn overlay(State(app): State<Arc<App>>, Query(chosen): Query<Chosen>) -> Response {
    let archive = Arc::clone(&app.archive);
    let overlaid = beside(move || {
        let ids = [Some(chosen.run), chosen.other];
        let runs = ids.into_iter().flatten().map(|id| archive.open(&id)).collect::<Result<Vec<_>, _>>()?;
        Overlay::of(&runs)
    });
    answer(overlaid.await.and_then(|overlaid| overlaid), StatusCode::NOT_FOUND)
}

async fn report(State(app): State<Arc<App>>, Query(chosen): Query<Chosen>) -> Response {
    let archive = Arc::clone(&app.archive);
    match beside(move || archive.report(&chosen.run)).await.and_then(|report| report) {
        Ok(page) => {
            let mut response = text("text/html; charset=utf-8", page);
            let policy = HeaderValue::from_static(REPORT_POLICY);
            response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
            response
        }
        Err(failure) => answer::<()>(Err(failure), StatusCode::NOT_FOUND),
    }
}

async fn exposition(State(app): State<Arc<App>>) -> Response {
    text(metrics::CONTENT_TYPE, app.metrics.text())
}
