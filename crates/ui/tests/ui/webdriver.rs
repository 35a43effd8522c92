//! A browser that a test drives, over the WebDriver protocol of chromedriver.
//!
//! # References
//! W3C, *WebDriver*, second version.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use ureq::Agent;

use super::harness::{PATIENCE, until};

/// Key of the reference of an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A window of a browser without a screen.
pub(crate) struct Browser {
    driver: Child,
    agent: Agent,
    session: String,
    _profile: TempDir,
}

impl Browser {
    /// Starts a browser; `None`, with a line, if chromium or its driver is not installed.
    pub(crate) fn start(test: &str, width: u32, height: u32) -> Option<Self> {
        let mut driver = match Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
        {
            Ok(driver) => driver,
            Err(error) => {
                eprintln!(
                    "{test}: skipped, chromedriver cannot be started (Debian: chromium-driver): {error}"
                );
                return None;
            }
        };
        let mut printed = BufReader::new(driver.stdout.take().unwrap());
        let mut line = String::new();
        let port = loop {
            line.clear();
            assert!(printed.read_line(&mut line).unwrap() > 0, "chromedriver ended before it was ready");
            if let Some((_, port)) = line.trim_end().trim_end_matches('.').split_once("successfully on port ")
            {
                break port.to_owned();
            }
        };
        // It writes more, which must go somewhere.
        std::thread::spawn(move || printed.lines().map_while(Result::ok).for_each(drop));
        let config = Agent::config_builder().http_status_as_error(false).timeout_global(Some(PATIENCE));
        let profile = tempfile::tempdir().unwrap();
        let mut this = Self {
            driver,
            agent: config.build().into(),
            session: format!("http://127.0.0.1:{port}/session"),
            _profile: profile,
        };
        let arguments = [
            "--headless=new".to_owned(),
            "--no-sandbox".to_owned(),
            "--disable-gpu".to_owned(),
            "--disable-dev-shm-usage".to_owned(),
            format!("--window-size={width},{height}"),
            format!("--user-data-dir={}", this._profile.path().display()),
        ];
        let capabilities = json!({ "capabilities": { "alwaysMatch": {
            "goog:chromeOptions": { "args": arguments },
            "goog:loggingPrefs": { "browser": "ALL" },
        } } });
        let begun = this.post("", &capabilities);
        this.session = format!("{}/{}", this.session, begun["sessionId"].as_str().unwrap());
        Some(this)
    }

    #[track_caller]
    fn post(&self, path: &str, body: &Value) -> Value {
        let mut response = self.agent.post(format!("{}{path}", self.session)).send_json(body).unwrap();
        let answer: Value = response.body_mut().read_json().unwrap();
        assert!(answer["value"]["error"].is_null(), "{path}: {}", answer["value"]["message"]);
        answer["value"].clone()
    }

    #[track_caller]
    pub(crate) fn open(&self, url: &str) {
        self.post("/url", &json!({ "url": url }));
    }

    /// Value of the body of a function.
    #[track_caller]
    pub(crate) fn script(&self, body: &str) -> Value {
        self.post("/execute/sync", &json!({ "script": body, "args": [] }))
    }

    #[track_caller]
    fn element(&self, selector: &str) -> String {
        let found = self.post("/element", &json!({ "using": "css selector", "value": selector }));
        format!("/element/{}", found[ELEMENT].as_str().unwrap())
    }

    /// Clicks on an element, as a user does: it must be in sight and not covered.
    #[track_caller]
    pub(crate) fn click(&self, selector: &str) {
        self.post(&format!("{}/click", self.element(selector)), &json!({}));
    }

    /// Types a text in place of what an element has.
    #[track_caller]
    pub(crate) fn fill(&self, selector: &str, text: &str) {
        let element = self.element(selector);
        self.post(&format!("{element}/clear"), &json!({}));
        self.post(&format!("{element}/value"), &json!({ "text": text }));
    }

    /// Waits until an expression has a value; the value.
    #[track_caller]
    pub(crate) fn wait(&self, expression: &str, is_there: impl Fn(&Value) -> bool) -> Value {
        until(|| {
            let value = self.script(&format!("return {expression};"));
            if is_there(&value) { Ok(value) } else { Err(format!("{expression} is still {value}")) }
        })
    }

    /// Errors and refusals of the content policy so far.
    pub(crate) fn errors(&self) -> Vec<String> {
        let log = self.post("/se/log", &json!({ "type": "browser" }));
        let severe = log.as_array().unwrap().iter().filter(|entry| entry["level"] == "SEVERE");
        severe.map(|entry| entry["message"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser ends with its session.
        let _ = self.agent.delete(&self.session).call();
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
