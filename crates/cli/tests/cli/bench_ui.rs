//! `seeklab bench ui` from the command line: its URL, its port, and its end.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use crate::bench::Bench;
use crate::schemas::conforms;
use crate::survive::harness::{Guarded, SEEKLAB, until};

/// A server of the page, and what it printed on stdout.
fn serve(bench: &Bench, arguments: &[&str], last_line: &str) -> (Guarded, String) {
    let mut command = Command::new(SEEKLAB);
    command.args(["bench", "ui", "--port", "0"]).args(arguments).current_dir(bench.path("."));
    let mut child = Guarded(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(child.0.stdout.take().unwrap());
    let mut text = String::new();
    while text.lines().last().is_none_or(|line| !line.starts_with(last_line)) {
        assert!(lines.read_line(&mut text).unwrap() > 0, "the server ended: {text}");
    }
    (child, text)
}

/// Interrupts the server; its exit code and what is on stderr.
fn interrupt(mut child: Guarded) -> (Option<i32>, String) {
    child.signal(Signal::INT);
    let code = child.0.wait().unwrap().code();
    let mut errors = String::new();
    child.0.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    (code, errors)
}

/// Status line and the rest of an answer.
fn request(page: &Value, method: &str, path: &str, body: &str) -> (String, String) {
    let port = page["port"].as_u64().unwrap() as u16;
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let url = page["url"].as_str().unwrap();
    let url = if path == "metrics" {
        page["metrics_url"].as_str().unwrap().to_owned()
    } else {
        format!("{url}{path}")
    };
    let path = url.splitn(4, '/').nth(3).unwrap();
    write!(
        stream,
        "{method} /{path} HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (status, rest) = text.split_once("\r\n").unwrap();
    (status.to_owned(), rest.to_owned())
}

#[test]
fn page_prints_its_url_and_ends_in_order_with_its_run() {
    let bench = Bench::new();
    bench.write(
        "plan.toml",
        "target = \"null\"\n[[phases]]\nduration = \"1h\"\n[[phases.streams]]\nworkload = \"random,size=4KiB,read=100%,closed=1\"\n",
    );
    let (child, printed) = serve(&bench, &["plan.toml", "--runs", "kept", "--json"], "}");
    let page: Value = serde_json::from_str(&printed).unwrap();
    conforms(&bench, "bench-ui", &page);
    let address = format!("127.0.0.1:{}", page["port"]);
    assert!(page["url"].as_str().unwrap().starts_with(&format!("http://{address}/")), "{page}");
    let port = page["port"].to_string();
    bench
        .run(&["bench", "ui", "--port", &port])
        .fails(&[&format!("{address}: another program listens there"), "--port 0"]);

    let (status, setup) = request(&page, "GET", "api/setup", "");
    assert!(status.ends_with("200 OK") && setup.contains("duration = \\\"1h\\\""), "{status} {setup}");
    let plan = serde_json::json!({ "toml": String::from_utf8(bench.read("plan.toml")).unwrap() });
    let (status, answer) = request(&page, "POST", "api/start", &plan.to_string());
    assert!(status.ends_with("202 Accepted"), "{status} {answer}");
    until(|| {
        let (_, metrics) = request(&page, "GET", "metrics", "");
        match metrics.contains("\nseeklab_bench_requests_per_second ") {
            true => Ok(()),
            false => Err(format!("no interval is over: {metrics}")),
        }
    });
    let (code, errors) = interrupt(child);
    assert_eq!(code, Some(0), "{errors}");
    let runs: Vec<_> =
        std::fs::read_dir(bench.path("kept")).unwrap().map(|run| run.unwrap().path()).collect();
    assert_eq!(runs.len(), 1, "the run was ended in order and is kept: {errors}");
    let run: Value = serde_json::from_slice(&std::fs::read(runs[0].join("run.json")).unwrap()).unwrap();
    assert_eq!(run["stopped"], true);
    for file in ["plan.toml", "report.html"] {
        assert!(runs[0].join(file).exists(), "{file}");
    }
}

#[test]
fn page_without_json_prints_its_url_alone_and_refuses_a_plan_that_is_not_there() {
    let bench = Bench::new();
    let (child, printed) = serve(&bench, &[], "http://127.0.0.1:");
    assert_eq!(printed.lines().count(), 1, "{printed}");
    let (code, errors) = interrupt(child);
    assert_eq!(code, Some(0));
    assert!(errors.contains("Ctrl-C ends the server"), "{errors}");
    bench.run(&["bench", "ui", "nothing.toml"]).fails(&["nothing.toml: cannot be read"]);
    bench
        .run(&["bench", "ui", "--address", "192.0.2.1"])
        .fails(&["192.0.2.1:8437: is no address of this machine"]);
}
