//! The events of a run, for clients that come early, late or do not read.

use std::io::Write;
use std::net::TcpStream;

use seeklab_ui::EVENTS_MAX;
use serde_json::Value;

use super::harness::{Event, LONG_PLAN, PLAN, Server};

fn named<'a>(events: &'a [Event], name: &str) -> Vec<&'a Event> {
    events.iter().filter(|event| event.name == name).collect()
}

#[test]
fn run_on_a_model_sends_the_figures_that_its_document_has() {
    let server = Server::new();
    let mut early = server.events(None);
    let id = server.start(PLAN, &[]);
    let events = early.until("end");
    assert_eq!(events[0].name, "run");
    assert_eq!(events[0].data["id"], id.as_str());
    let end = &events.last().unwrap().data;
    assert_eq!((&end["end"], &end["saved"]), (&"done".into(), &true.into()), "{end}");
    let run: Value =
        serde_json::from_str(&std::fs::read_to_string(server.runs().join(&id).join("run.json")).unwrap())
            .unwrap();
    assert_eq!(run["schema"], 1);
    assert_eq!(std::fs::read_to_string(server.runs().join(&id).join("plan.toml")).unwrap(), PLAN);
    let intervals = named(&events, "interval");
    let sent: Vec<&Value> = intervals.iter().map(|event| &event.data["figures"]).collect();
    let saved: Vec<&Value> = run["intervals"].as_array().unwrap().iter().collect();
    assert_eq!(sent.len(), 20);
    assert_eq!(sent, saved);
    // The points are those of the charts that the begin describes.
    let charts = events[0].data["charts"].as_array().unwrap();
    assert_eq!(charts[0]["chart"]["series"][0]["name"], "carried out");
    let points = intervals[3].data["points"].as_array().unwrap();
    assert_eq!(points.len(), charts.len());
    assert_eq!(points[0][0][1], sent[3]["requests_per_second"]);
    assert_eq!(points[0].as_array().unwrap().len(), charts[0]["chart"]["series"].as_array().unwrap().len());

    let late = server.events(None).until("end");
    let all = |events: &[Event]| events.iter().map(|event| event.data.clone()).collect::<Vec<_>>();
    assert_eq!(all(&late), all(&events), "a client that comes late hears the same");
    let again = server.events(Some(&intervals[17].id)).until("end");
    assert_eq!(named(&again, "interval").len(), 2, "a client goes on where it was");
    assert!(named(&again, "run").is_empty());
}

#[test]
fn client_that_never_reads_does_not_keep_a_run_from_its_end() {
    let server = Server::new();
    let mut mute = TcpStream::connect(server.authority()).unwrap();
    let path = server.url("api/events").split_once(&server.authority()).unwrap().1.to_owned();
    write!(mute, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    // Much more than the buffers of a socket take: about 30 MB.
    let intervals = 6 * EVENTS_MAX;
    let plan = PLAN.replacen("target", "interval = \"10ms\"\ntarget", 1);
    let plan = plan.replace("20s", &format!("{}ms", 10 * intervals));
    server.start(&plan, &[]);
    let end = server.end_of_run();
    assert_eq!(end["end"], "done", "{end}");
    let events = server.events(None).until("end");
    let skipped = named(&events, "skipped");
    let kept = events.len() - 2;
    assert_eq!(kept, EVENTS_MAX, "the begin and what was skipped come first");
    assert_eq!(skipped[0].data["events"], intervals + 1 - EVENTS_MAX);
    drop(mute);
}

#[test]
fn stop_ends_a_run_with_its_report() {
    let server = Server::new();
    assert_eq!(server.post("api/stop", &Value::Null).0, 409, "there is nothing to stop");
    let id = server.start(LONG_PLAN, &[]);
    server.events(None).until("interval");
    let (status, answer) = server.post("api/start", &serde_json::json!({ "toml": PLAN, "destroy": [] }));
    assert_eq!(status, 409, "{answer}");
    assert!(answer["problem"]["message"].as_str().unwrap().contains("under way"), "{answer}");
    assert_eq!(server.post("api/stop", &Value::Null).0, 202);
    let end = server.end_of_run();
    assert_eq!(
        (&end["end"], &end["saved"], &end["problem"]),
        (&"stopped".into(), &true.into(), &Value::Null)
    );
    let runs = server.document("api/runs");
    assert_eq!(runs["runs"][0]["id"], id.as_str());
    assert_eq!(runs["runs"][0]["stopped"], true);
    // Another one can begin at once.
    server.start(PLAN, &[]);
    assert_eq!(server.end_of_run()["end"], "done");
}

#[test]
fn server_that_ends_saves_the_run_and_tells_its_clients() {
    let mut server = Server::new();
    let id = server.start(LONG_PLAN, &[]);
    let mut events = server.events(None);
    events.until("interval");
    let ended = std::thread::scope(|scope| {
        let rest = scope.spawn(move || events.map(|event| event.name).last());
        assert!(server.end().is_ok());
        rest.join().unwrap()
    });
    assert_eq!(ended.as_deref(), Some("end"), "the stream ends behind the end of the run");
    assert!(server.runs().join(&id).join("run.json").exists());
    assert!(server.runs().join(&id).join("report.html").exists());
}
