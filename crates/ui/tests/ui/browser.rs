//! The page in a browser: form and text, a run with its curves, and two saved runs over each other.

use std::fs;

use serde_json::json;

use super::harness::{PLAN, Server};
use super::webdriver::Browser;

const TOML: &str = "document.getElementById('toml').value";
const STATE: &str = "document.getElementById('state').dataset.state";

#[test]
fn plan_is_composed_run_watched_and_compared_in_a_browser() {
    let test = "plan_is_composed_run_watched_and_compared_in_a_browser";
    let Some(browser) = Browser::start(test, 1200, 1000) else { return };
    let server = Server::new();
    browser.open(&server.page.url);
    let text = |browser: &Browser| browser.script(&format!("return {TOML};")).as_str().unwrap().to_owned();

    // The form has what the schema declares, and what the text says.
    browser.wait(STATE, |state| state == "idle");
    browser.wait("document.querySelectorAll('#form [name=\"phases[0].streams[0].workload\"]').length", |n| {
        n == 1
    });
    let keys =
        "return [...document.querySelectorAll('#form [name^=\"phases[0].\"]')].map((one) => one.name);";
    let keys = browser.script(keys);
    let schema = seeklab_lab::bench::plan_document();
    let declared = schema["properties"]["phases"]["items"]["properties"].as_object().unwrap();
    for key in declared.keys().filter(|key| *key != "streams") {
        // A list of texts has a button for its next one.
        let names = [format!("phases[0].{key}"), format!("phases[0].{key}-add")].map(|name| json!(name));
        assert!(
            keys.as_array().unwrap().iter().any(|name| names.contains(name)),
            "{key} is missing among {keys}"
        );
    }

    // Form to text.
    browser.fill("#form [name='title']", "From the form");
    browser.wait(TOML, |toml| toml.as_str().unwrap().contains("title = \"From the form\""));
    browser.click("#form [name='phases[0].streams-add']");
    browser.wait(TOML, |toml| toml.as_str().unwrap().matches("[[phases.streams]]").count() == 2);
    browser.click("#form [name='phases[0].streams[1]-remove']");
    browser.wait(TOML, |toml| toml.as_str().unwrap().matches("[[phases.streams]]").count() == 1);

    browser.script("document.querySelectorAll('#form details').forEach((one) => { one.open = true; });");
    browser.click("#form [name='watch-add']");
    browser.fill("#form [name='watch[0]']", "postgres");
    browser.wait(TOML, |toml| toml.as_str().unwrap().contains("watch = [\"postgres\"]"));
    browser.script("document.querySelectorAll('#form details').forEach((one) => { one.open = true; });");
    browser.click("#form [name='watch[0]-remove']");
    browser.wait(TOML, |toml| !toml.as_str().unwrap().contains("watch"));
    browser.script("document.querySelectorAll('#form details').forEach((one) => { one.open = true; });");
    browser.click("#form [name='verify']");
    browser.wait(TOML, |toml| toml.as_str().unwrap().contains("verify = true"));
    browser.click("#form [name='verify']");
    browser.wait(TOML, |toml| !toml.as_str().unwrap().contains("verify"));

    // Text to form, with the line of a mistake.
    browser.fill("#toml", &format!("{}threds = 2\n", text(&browser)));
    browser.wait("document.getElementById('problem').textContent", |problem| {
        problem.as_str().unwrap().contains("did you mean `threads`?")
    });
    let wrong = browser.script("return document.querySelector('#lines .wrong').textContent;");
    let line = text(&browser).lines().position(|line| line.starts_with("threds")).unwrap() + 1;
    assert_eq!(wrong, line.to_string());
    assert_eq!(browser.script("return document.getElementById('start').disabled;"), true);
    browser.fill("#toml", PLAN);
    browser.wait("document.querySelector('#form [name=\"title\"]').value", |title| title == "Twenty seconds");
    browser.wait("document.getElementById('start').disabled", |is_disabled| is_disabled == false);

    // Two runs.
    for number in 1..=2 {
        browser.click("#start");
        browser.wait("document.querySelectorAll('#runs tbody tr').length", |rows| *rows == number);
        assert_eq!(browser.script(&format!("return {STATE};")), "done");
    }
    // Every chart has axes, and every curve has the 20 intervals of the run.
    let charts = browser
        .wait("document.querySelectorAll('#live-charts figure svg[role=img]').length", |charts| charts != 0);
    assert_eq!(charts, 5);
    let drawn = browser.wait(
        "document.querySelector('#live-charts figure svg[role=img] g path').getAttribute('d').split('L').length",
        |points| points == 20,
    );
    assert_eq!(drawn, 20);
    assert_eq!(browser.script("return document.querySelectorAll('#tiles .tile').length;"), 11);

    // One over the other.
    for box_ in browser
        .script("return [...document.querySelectorAll('#runs input')].map((one) => one.name);")
        .as_array()
        .unwrap()
    {
        browser.click(&format!("[name='{}']", box_.as_str().unwrap()));
    }
    browser.click("#compare");
    let columns =
        "[...document.querySelectorAll('#overlay-table thead th')].map((one) => one.textContent).join()";
    browser.wait(columns, |columns| columns == "figure,A,B,change %");
    let legend = "document.querySelector('#overlay-charts .legend').textContent";
    browser.wait(legend, |legend| legend == "A carried outA failedB carried outB failed");

    // What would be overwritten must be typed.
    let path = server.folder.path().join("disk.img");
    fs::write(&path, vec![0; 1 << 20]).unwrap();
    let name = path.display().to_string();
    let plan = PLAN.replace("model:constant", &name).replace("read=100%", "read=0%").replace("20s", "100ms");
    browser.fill("#toml", &plan);
    browser.wait("document.querySelectorAll('#confirm input').length", |fields| fields == 1);
    assert_eq!(browser.script("return document.getElementById('start').disabled;"), true);
    browser.fill("#confirm input", &name);
    browser.wait("document.getElementById('start').disabled", |is_disabled| is_disabled == false);

    // The report and the page draw with one script.
    let id = browser.script("return document.querySelector('#runs button').name.replace('open-', '');");
    browser.open(&server.url(&format!("report?run={}", id.as_str().unwrap())));
    browser.wait("document.querySelectorAll('figure svg[role=img]').length", |charts| {
        charts.as_u64() >= Some(5)
    });
    assert_eq!(browser.errors(), [""; 0]);
}

#[test]
fn counters_are_drawn_beside_the_curves_and_a_run_runs_again_in_a_browser() {
    let test = "counters_are_drawn_beside_the_curves_and_a_run_runs_again_in_a_browser";
    let Some(browser) = Browser::start(test, 500, 900) else { return };
    let server = Server::new();
    let plan = super::harness::LONG_PLAN.replace("1h", "400ms");
    let plan = format!("counters = \"50ms\"\n{plan}");
    let id = server.start(&plan, &[]);
    server.end_of_run();
    browser.open(&server.page.url);
    let charts = "document.querySelectorAll('#counter-charts figure svg[role=img]').length";
    browser.wait(charts, |charts| charts.as_u64() >= Some(3));
    // A series has the points of all samples, in one line of the legend.
    let path = "document.querySelector('#counter-charts figure svg[role=img] g path').getAttribute('d').split('L').length";
    browser.wait(path, |points| points.as_u64() >= Some(4));
    let names = "[...document.querySelectorAll('#counter-charts figure:first-child .legend span')].map((one) => one.textContent)";
    let names = browser.script(&format!("return {names};"));
    let names: Vec<&str> = names.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    assert!(names.contains(&"cpu user"), "{names:?}");
    assert_eq!(names.iter().collect::<std::collections::BTreeSet<_>>().len(), names.len(), "{names:?}");

    browser.click(&format!("[name='open-{id}']"));
    let command = "document.querySelector('#overlay-about .command code')?.textContent ?? ''";
    browser.wait(command, |command| command.as_str().unwrap().starts_with("seeklab bench "));
    browser.script("document.querySelector('#overlay-about details').open = true;");
    browser.click(&format!("[name='rerun-{id}']"));
    browser.wait("document.querySelectorAll('#runs tbody tr').length", |rows| rows == 2);
    let overflow =
        browser.script("return document.documentElement.scrollWidth - document.documentElement.clientWidth;");
    assert_eq!(overflow, 0, "nothing is wider than the window of a phone");
    assert_eq!(browser.errors(), [""; 0]);
}

#[test]
fn page_fits_the_width_of_a_phone() {
    let test = "page_fits_the_width_of_a_phone";
    let Some(browser) = Browser::start(test, 500, 900) else { return };
    let server = Server::new();
    server.start(PLAN, &[]);
    server.end_of_run();
    browser.open(&server.page.url);
    browser
        .wait("document.querySelectorAll('#live-charts figure svg[role=img]').length", |charts| charts == 5);
    browser.wait("document.querySelectorAll('#form input').length", |fields| fields.as_u64() > Some(10));
    let overflow =
        browser.script("return document.documentElement.scrollWidth - document.documentElement.clientWidth;");
    assert_eq!(overflow, 0, "nothing is wider than the window");
    assert_eq!(browser.errors(), [""; 0]);
}
