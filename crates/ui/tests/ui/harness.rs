//! A server in this process, and a client.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use seeklab_lab::bench::BenchPage;
use seeklab_lab::failure::Failure;
use seeklab_lab::session::Session;
use seeklab_ui::{UiOptions, serve};
use serde_json::{Value, json};
use tempfile::TempDir;
use ureq::http::Response;
use ureq::{Agent, Body};

/// Time after which a test gives up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// A plan on a model in virtual time: 20 intervals of a second.
pub(crate) const PLAN: &str = "\
title = \"Twenty seconds\"
target = \"model:constant\"
[[phases]]
name = \"first\"
duration = \"20s\"
[[phases.streams]]
workload = \"random,size=4KiB,read=100%,poisson=50/s\"
";

/// A plan in real time that would take an hour.
pub(crate) const LONG_PLAN: &str = "\
target = \"null\"
interval = \"10ms\"
[[phases]]
duration = \"1h\"
[[phases.streams]]
workload = \"random,size=4KiB,read=100%,poisson=1000/s\"
";

/// A server that ends with the test.
pub(crate) struct Server {
    pub(crate) page: BenchPage,
    pub(crate) folder: TempDir,
    session: Session,
    thread: Option<JoinHandle<Result<(), Failure>>>,
    agent: Agent,
}

impl Server {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = UiOptions {
            address: "127.0.0.1:0".parse().unwrap(),
            runs: folder.path().join("runs"),
            plan: None,
        };
        let session = Session::default();
        let (ready, page) = mpsc::channel();
        let of_server = session.clone();
        let thread = std::thread::spawn(move || {
            serve(&of_server, &options, |page| {
                ready.send(page.clone()).unwrap();
                Ok(())
            })
        });
        let page = page.recv_timeout(PATIENCE).expect("the server is ready");
        let config = Agent::config_builder().http_status_as_error(false).timeout_global(Some(PATIENCE));
        Self { page, folder, session, thread: Some(thread), agent: config.build().into() }
    }

    pub(crate) fn runs(&self) -> PathBuf {
        self.folder.path().join("runs")
    }

    /// Host and port.
    pub(crate) fn authority(&self) -> String {
        format!("{}:{}", self.page.address, self.page.port)
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.page.url)
    }

    /// Answers to a GET of an URL with further headers.
    pub(crate) fn get_url(&self, url: &str, headers: &[(&str, &str)]) -> Response<Body> {
        let request = self.agent.get(url);
        headers.iter().fold(request, |request, (name, value)| request.header(*name, *value)).call().unwrap()
    }

    /// Status and text of a resource.
    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        let mut response = self.get_url(&self.url(path), &[]);
        (response.status().as_u16(), response.body_mut().read_to_string().unwrap())
    }

    /// The document of a resource.
    pub(crate) fn document(&self, path: &str) -> Value {
        let (status, text) = self.get(path);
        assert_eq!(status, 200, "{text}");
        serde_json::from_str(&text).unwrap()
    }

    /// Status and answer of a POST with further headers.
    pub(crate) fn post_with(&self, path: &str, body: &Value, headers: &[(&str, &str)]) -> (u16, Value) {
        let request = self.agent.post(self.url(path));
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let mut response = request.send_json(body).unwrap();
        let text = response.body_mut().read_to_string().unwrap();
        let answer = serde_json::from_str(&text).unwrap_or(Value::String(text));
        (response.status().as_u16(), answer)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.post_with(path, body, &[])
    }

    /// Starts a plan; the name of the run.
    pub(crate) fn start(&self, plan: &str, destroy: &[&str]) -> String {
        let (status, answer) = self.post("api/start", &json!({ "toml": plan, "destroy": destroy }));
        assert_eq!(status, 202, "{answer}");
        answer["id"].as_str().unwrap().to_owned()
    }

    /// The stream of events, from its begin or from behind an identifier.
    pub(crate) fn events(&self, last: Option<&str>) -> Events {
        let headers: Vec<(&str, &str)> = last.map(|last| ("last-event-id", last)).into_iter().collect();
        let response = self.get_url(&self.url("api/events"), &headers);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Events { lines: BufReader::new(Box::new(response.into_body().into_reader())) }
    }

    /// Waits for the end of the run under way; its event.
    pub(crate) fn end_of_run(&self) -> Value {
        self.events(None).until("end").pop().unwrap().data
    }

    /// Stops the server as Ctrl-C does; its result.
    pub(crate) fn end(&mut self) -> Result<(), Failure> {
        self.session.stop().stop();
        self.thread.take().map_or(Ok(()), |thread| thread.join().unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let ended = self.end();
        assert!(std::thread::panicking() || ended.is_ok(), "{ended:?}");
    }
}

/// An event that a client heard of.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) data: Value,
}

/// The events of a client.
pub(crate) struct Events {
    lines: BufReader<Box<dyn std::io::Read + Send>>,
}

impl Iterator for Events {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let mut event = Event { id: String::new(), name: String::new(), data: Value::Null };
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            match line.trim_end().split_once(": ") {
                Some(("id", id)) => event.id = id.to_owned(),
                Some(("event", name)) => event.name = name.to_owned(),
                Some(("data", data)) => event.data = serde_json::from_str(data).unwrap(),
                None if !event.name.is_empty() => return Some(event),
                _ => {}
            }
        }
    }
}

impl Events {
    /// All events up to the first one of that name.
    pub(crate) fn until(&mut self, name: &str) -> Vec<Event> {
        let mut all = Vec::new();
        while all.last().is_none_or(|event: &Event| event.name != name) {
            all.push(self.next().unwrap_or_else(|| panic!("the stream ended before `{name}`")));
        }
        all
    }
}

/// Calls `look` until it finds something, at most as long as a test lasts.
#[track_caller]
pub(crate) fn until<T>(mut look: impl FnMut() -> Result<T, String>) -> T {
    let pause = Duration::from_millis(20);
    let mut problem = String::new();
    for _ in 0..PATIENCE.as_millis() / pause.as_millis() {
        match look() {
            Ok(found) => return found,
            Err(text) => problem = text,
        }
        std::thread::park_timeout(pause);
    }
    panic!("{problem}");
}
