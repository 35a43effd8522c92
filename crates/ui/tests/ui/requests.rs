//! Requests that the server answers, and those that it refuses.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use seeklab_lab::session::Session;
use seeklab_ui::{BODY_BYTES_MAX, CONNECTIONS_MAX, UiOptions, serve};
use serde_json::json;

use super::harness::{PATIENCE, PLAN, Server};

#[test]
fn page_needs_its_token_and_nothing_from_elsewhere() {
    let server = Server::new();
    let response = server.get_url(&server.page.url, &[]);
    assert_eq!(response.status(), 200);
    let policy = response.headers()["content-security-policy"].to_str().unwrap().to_owned();
    assert!(policy.starts_with("default-src 'none'") && !policy.contains("-inline"), "{policy}");
    assert_eq!(response.headers()["referrer-policy"], "no-referrer");
    for path in ["", "ui.css", "chart.js", "form.js", "ui.js"] {
        let (status, text) = server.get(path);
        assert_eq!(status, 200, "{path}");
        let text = text.replace("http://www.w3.org/2000/svg", "");
        for forbidden in ["http://", "https://", "@import", "innerHTML", "eval("] {
            assert!(!text.contains(forbidden), "{path} contains {forbidden}");
        }
    }
    let root = format!("http://{}", server.authority());
    let wrong = server.page.url.replace(&server.page.url[root.len() + 1..root.len() + 9], "00000000");
    for url in [format!("{root}/"), format!("{root}/api/runs"), format!("{root}/ui.js"), wrong] {
        let mut response = server.get_url(&url, &[]);
        assert_eq!(response.status(), 403, "{url}");
        let text = response.body_mut().read_to_string().unwrap();
        assert!(text.contains("token") && !text.contains(&server.page.url), "{text}");
    }
    assert_eq!(server.get("nothing").0, 404);
    assert_eq!(server.get("api/start").0, 405, "a GET starts nothing");
}

#[test]
fn requests_by_other_names_and_from_other_pages_are_refused() {
    let server = Server::new();
    let url = server.url("api/runs");
    let status = |headers: &[(&str, &str)]| server.get_url(&url, headers).status().as_u16();
    assert_eq!(status(&[("host", "localhost:1")]), 200);
    // DNS rebinding: the name of another page that points to this machine.
    assert_eq!(status(&[("host", "rebound.example")]), 403);
    assert_eq!(status(&[("origin", "http://rebound.example")]), 403);
    let body = json!({ "toml": PLAN });
    let own = format!("http://{}", server.authority());
    for origin in ["http://evil.example", "null", &own.replace("http:", "https:")] {
        let (status, answer) = server.post_with("api/start", &body, &[("origin", origin)]);
        assert_eq!(status, 403, "{origin}: {answer}");
    }
    assert!(!server.runs().exists(), "nothing was started");
    assert_eq!(server.post_with("api/check", &body, &[("origin", &own)]).0, 200);
    // A form of another page can send text, but no JSON.
    let (status, _) = server.post_with("api/start", &body, &[("content-type", "text/plain")]);
    assert_eq!(status, 415);
    let metrics = server.get_url(&server.page.metrics_url, &[("host", "rebound.example")]);
    assert_eq!(metrics.status(), 403);
}

#[test]
fn bodies_that_are_too_large_are_refused() {
    let server = Server::new();
    let text = |bytes| json!({ "toml": "#".repeat(bytes) });
    assert_eq!(server.post("api/check", &text(BODY_BYTES_MAX / 2)).0, 200);
    assert_eq!(server.post("api/check", &text(BODY_BYTES_MAX)).0, 413);
    assert_eq!(server.post("api/check", &json!({ "other": 1 })).0, 422);
    // A head without an end: the server gives up on it, and not on others.
    let mut endless = TcpStream::connect(server.authority()).unwrap();
    endless.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ").unwrap();
    let _ = endless.write_all(&[b'x'; 100 << 10]);
    endless.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut answer = Vec::new();
    let _ = endless.read_to_end(&mut answer);
    assert!(answer.starts_with(b"HTTP/1.1 431"), "{}", String::from_utf8_lossy(&answer));
    assert_eq!(server.get("api/runs").0, 200);
}

#[test]
fn body_that_nothing_reads_is_awaited_and_its_connection_serves_the_next_request() {
    let server = Server::new();
    let path = server.page.url.strip_prefix(&format!("http://{}", server.authority())).unwrap();
    for (name, status) in [("api/stop", "409"), ("nothing", "404")] {
        let mut stream = TcpStream::connect(server.authority()).unwrap();
        write!(stream, "POST {path}{name} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n").unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        assert!(stream.read(&mut [0; 8]).is_err(), "{name}: the body has not come yet");
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(b"{}").unwrap();
        let mut answer = vec![0; 4096];
        let length = stream.read(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer[..length]).into_owned();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        assert_eq!(stream.read(&mut [0; 8]).unwrap(), 8, "{name}: the connection was closed");
    }
}

#[test]
fn plan_is_checked_by_the_parser_of_bench_and_written_from_the_form() {
    let server = Server::new();
    let setup = server.document("api/setup");
    assert_eq!(setup["schema"], seeklab_lab::bench::plan_document());
    let first = server.post("api/check", &json!({ "toml": setup["plan"] })).1;
    assert!(first["problem"].is_null(), "the first plan is sound: {first}");
    let (status, answer) = server.post("api/check", &json!({ "toml": format!("{PLAN}threds = 2\n") }));
    assert_eq!(status, 200);
    assert_eq!(answer["problem"]["line"], 8, "{answer}");
    assert!(answer["problem"]["message"].as_str().unwrap().contains("`threds`"), "{answer}");
    assert_eq!(answer["plan"]["title"], "Twenty seconds", "the form is filled as far as the text is TOML");
    let (status, answer) = server.post("api/start", &json!({ "toml": "phases = 1" }));
    assert_eq!((status, &answer["problem"]["line"]), (422, &json!(1)), "{answer}");
    let plan =
        json!({ "phases": [{ "streams": [{ "target": "null", "workload": "random,size=4KiB,closed=1" }] }] });
    let (_, answer) = server.post("api/write", &json!({ "plan": plan }));
    assert!(answer["problem"].is_null(), "{answer}");
    assert_eq!(answer["plan"], plan, "it comes back from the text");
}

#[test]
fn clients_beyond_the_limit_wait_for_others_to_go() {
    let server = Server::new();
    let connect = || TcpStream::connect(server.authority()).unwrap();
    let ask = |stream: &mut TcpStream| {
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    };
    let mut all: Vec<TcpStream> = (0..CONNECTIONS_MAX).map(|_| connect()).collect();
    // Each is answered, so the server has accepted it.
    for stream in &mut all {
        ask(stream);
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(stream.read(&mut [0; 8]).unwrap(), 8);
    }
    let mut waiting = connect();
    ask(&mut waiting);
    waiting.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    assert!(waiting.read(&mut [0; 8]).is_err(), "it is not served yet");
    drop(all);
    waiting.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(waiting.read(&mut [0; 8]).unwrap(), 8);
}

#[test]
fn second_server_on_a_port_names_the_port() {
    let server = Server::new();
    let address = server.authority().parse().unwrap();
    let options = UiOptions { address, runs: server.runs(), plan: None };
    let failure = serve(&Session::default(), &options, |_| panic!("it is not ready")).unwrap_err();
    assert_eq!(failure.to_string(), format!("{address}: another program listens there"));
    assert!(failure.advice().unwrap().contains("--port"));
}
