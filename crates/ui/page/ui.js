"use strict";
// The page of `seeklab bench ui`. The server is the only place that reads plans and makes figures; this shows both.
(() => {
  const { View, block } = seeklabCharts;
  const $ = (id) => document.getElementById(id);
  // Points of a curve, as many as the server keeps.
  const POINTS_MAX = 3600;
  const CHECK_DELAY_MS = 200;

  // A number with as many digits as it needs. Counts have no decimals, quantities keep theirs.
  function number(value, isQuantity = !Number.isInteger(value)) {
    if (value === null || value === undefined) return "–";
    const size = Math.abs(value);
    const decimals = !isQuantity ? 0 : size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : 3;
    return value.toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
  }

  async function call(path, body) {
    const options = body === undefined ? {} : { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
    const response = await fetch(path, options);
    const answer = await response.json().catch(() => ({ problem: { message: `the server answered ${response.status}` } }));
    return { isOk: response.ok, ...answer };
  }

  function problemText(problem) {
    return problem.hint ? `${problem.message}. Hint: ${problem.hint}` : problem.message;
  }

  function note(parent, text, isWarning) {
    const line = block(parent, "p", isWarning ? "note warning" : "note");
    block(line, "strong", "", isWarning ? "warning" : "note");
    line.append(` ${text}`);
  }

  function fillTable(table, columns, rows) {
    const [head, body] = [table.tHead, table.tBodies[0]];
    head.replaceChildren();
    body.replaceChildren();
    const line = block(head, "tr");
    columns.forEach(([name, className]) => {
      const cell = block(line, "th", className, name);
      cell.scope = "col";
    });
    for (const row of rows) {
      const tr = block(body, "tr");
      row.forEach((content, index) => {
        const cell = block(tr, index ? "td" : "th", columns[index][1]);
        if (content instanceof Node) cell.append(content);
        else cell.textContent = content;
      });
    }
  }

  function drawChart(place, { title, caption, chart }) {
    const figure = block(place, "figure");
    const head = block(figure, "figcaption");
    block(head, "strong", "", title);
    head.append(" ");
    block(head, "span", "", caption);
    return new View(figure, chart);
  }

  function drawCharts(place, charts) {
    place.replaceChildren();
    return charts.map((chart) => drawChart(place, chart));
  }

  // ---- The plan -----------------------------------------------------------------------------

  const toml = $("toml");
  let form;
  let version = 0;
  let checkedVersion = 0;
  let waiting;
  let checked = { overwritten: [] };
  let isRunning = false;

  function showLines(wrong) {
    const place = $("lines");
    place.replaceChildren();
    toml.value.split("\n").forEach((_, index) => {
      block(place, "span", index + 1 === wrong ? "wrong" : "", String(index + 1));
      place.append("\n");
    });
    place.scrollTop = toml.scrollTop;
  }

  function showChecked(answer) {
    checked = answer.overwritten ? answer : { overwritten: [], problem: answer.problem };
    const { problem } = checked;
    $("problem").hidden = !problem;
    $("problem").textContent = problem ? problemText(problem) : "";
    showLines(problem?.line);
    showConfirmations();
    showButtons();
  }

  // Asks for the names of the targets that the plan overwrites. What is typed stays while the plan is edited.
  function showConfirmations() {
    const place = $("confirm");
    const typed = new Map([...place.querySelectorAll("input")].map((input) => [input.name, input.value]));
    place.replaceChildren();
    place.hidden = !checked.overwritten.length;
    for (const { target, refusal } of checked.overwritten) {
      note(place, refusal, true);
      const label = block(place, "label", "", `Type ${target} to let this plan overwrite it`);
      const input = block(label, "input");
      Object.assign(input, { name: target, value: typed.get(target) ?? "", spellcheck: false, autocomplete: "off" });
      input.addEventListener("input", showButtons);
    }
  }

  const confirmations = () => [...$("confirm").querySelectorAll("input")];

  function showButtons() {
    const isConfirmed = confirmations().every((input) => input.value === input.name);
    $("start").disabled = isRunning || Boolean(checked.problem) || !isConfirmed || checkedVersion !== version;
    $("stop").disabled = !isRunning;
  }

  // Sends the plan behind the last change, and shows the answer unless there was another change meanwhile.
  function later(send, show) {
    clearTimeout(waiting);
    version += 1;
    showButtons();
    waiting = setTimeout(async () => {
      const mine = version;
      const answer = await send().catch(() => undefined);
      if (mine !== version || !answer) return;
      checkedVersion = mine;
      show(answer);
      showChecked(answer);
    }, CHECK_DELAY_MS);
  }

  function formChanged() {
    later(() => call("api/write", { plan: form.plan }), (answer) => {
      if (answer.toml !== undefined) toml.value = answer.toml;
    });
  }

  function tomlChanged() {
    showLines();
    later(() => call("api/check", { toml: toml.value }), (answer) => {
      if (answer.plan) form.show(answer.plan);
    });
  }

  function showPlan(text) {
    toml.value = text;
    tomlChanged();
  }

  toml.addEventListener("input", tomlChanged);
  toml.addEventListener("scroll", () => { $("lines").scrollTop = toml.scrollTop; });
  $("problem").addEventListener("click", () => {
    const line = checked.problem?.line;
    if (!line) return;
    const lines = toml.value.split("\n");
    const from = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
    toml.focus();
    toml.setSelectionRange(from, from + lines[line - 1].length);
  });

  $("start").addEventListener("click", async () => {
    $("start").disabled = true;
    $("message").textContent = "";
    const answer = await call("api/start", { toml: toml.value, destroy: confirmations().map((input) => input.value) });
    if (!answer.isOk) {
      $("message").textContent = problemText(answer.problem);
      showButtons();
      return;
    }
    // The next run needs the names again.
    confirmations().forEach((input) => { input.value = ""; });
  });

  $("stop").addEventListener("click", async () => {
    $("stop").disabled = true;
    $("message").textContent = "The run ends in order.";
    const answer = await call("api/stop", {});
    if (!answer.isOk) $("message").textContent = problemText(answer.problem);
  });

  // ---- The run under way --------------------------------------------------------------------

  let views = [];
  let places = [];
  // Charts of counters by title. Their series come and go with processes.
  let counters = new Map();
  let errors = 0;
  let run;

  function showState(state, text) {
    $("state").dataset.state = state;
    $("state").textContent = text;
    isRunning = state === "running";
    showButtons();
  }

  function showTiles(phase, figures) {
    const hung = figures.hung_requests ? `${figures.hung_requests}, ${number(figures.oldest_ms / 1e3)} s` : "none";
    const tiles = [
      ["phase", phase],
      ["time [s]", number(figures.from_s + figures.length_s)],
      ["requests [1/s]", number(figures.requests_per_second)],
      ["throughput [MiB/s]", number(figures.mib_per_second)],
      ["response p50 [ms]", number(figures.response_p50_ms)],
      ["response p99 [ms]", number(figures.response_p99_ms)],
      ["response max [ms]", number(figures.response_max_ms)],
      ["under way", number(figures.outstanding)],
      ["waiting", number(figures.queued_requests)],
      ["failed attempts", number(errors), errors > 0],
      ["hung, oldest", hung, figures.hung_requests > 0],
    ];
    $("tiles").replaceChildren();
    for (const [name, value, isBad] of tiles) {
      const tile = block($("tiles"), "div", isBad ? "tile bad" : "tile");
      block(tile, "b", "", value);
      block(tile, "span", "", name);
    }
  }

  let latest;
  function tilesLater(phase, figures) {
    const isWaiting = latest !== undefined;
    latest = [phase, figures];
    if (isWaiting) return;
    requestAnimationFrame(() => {
      showTiles(...latest);
      latest = undefined;
    });
  }

  // The last requests of a phase are waited for.
  let isDraining = false;

  const HANDLERS = {
    run(begun) {
      isDraining = false;
      run = begun;
      [places, errors, counters] = [[], 0, new Map()];
      $("live").hidden = false;
      $("live-title").textContent = begun.title ?? `Run ${begun.id}`;
      const phases = `${begun.phases.length} phase${begun.phases.length === 1 ? "" : "s"}`;
      const times = begun.repetitions > 1 ? `, ${begun.repetitions} times` : "";
      $("live-about").textContent = `${begun.id}: ${phases}${times} on ${begun.targets.join(", ")}`;
      $("tiles").replaceChildren();
      $("live-notes").replaceChildren();
      views = drawCharts($("live-charts"), begun.charts);
      $("counter-charts").replaceChildren();
      $("counters").hidden = true;
      $("message").textContent = "";
      showState("running", "running");
    },
    interval({ phase, repetition, figures, points }) {
      if (isDraining) showState("running", "running");
      isDraining = false;
      errors += figures.errors;
      tilesLater(repetition > 1 ? `${phase} #${repetition}` : phase, figures);
      points.forEach((point, index) => views[index]?.append(point));
      places.push(figures.from_s);
      if (places.length > POINTS_MAX) {
        places.splice(0, places.length - POINTS_MAX);
        views.forEach((view) => view.forget(places[0]));
      }
    },
    counters({ charts }) {
      $("counters").hidden = false;
      for (const { title, caption, chart } of charts) {
        const view = counters.get(title);
        if (!view) {
          counters.set(title, drawChart($("counter-charts"), { title, caption, chart }));
          continue;
        }
        const known = view.chart.series;
        chart.series.filter(({ name }) => !known.some((series) => series.name === name)).forEach((series) => view.addSeries({ ...series, points: [] }));
        view.append(known.map(({ name }) => chart.series.find((series) => series.name === name)?.points[0] ?? null));
        if (known.some(({ points }) => points.length > POINTS_MAX)) view.forget(known[0].points[1]?.[0] ?? 0);
      }
    },
    draining({ figures }) {
      isDraining = true;
      const age = figures.oldest_ms === null ? "" : `, the oldest ${(figures.oldest_ms / 1000).toFixed(1)} s old`;
      showState("running", `no more arrivals: ${figures.outstanding} outstanding${age}`);
    },
    note({ warning, text }) {
      note($("live-notes"), text, warning);
    },
    skipped({ events }) {
      note($("live-notes"), `${events} events are missing here: this page did not read them in time, or opened late. The saved run has them all.`, true);
    },
    end({ id, end, problem, saved }) {
      showState(end, end);
      if (problem) note($("live-notes"), problemText(problem), true);
      $("message").textContent = saved ? `Run ${id} is saved.` : `Run ${id} measured nothing.`;
      showRuns();
    },
  };

  function listen() {
    const source = new EventSource("api/events");
    for (const [name, handle] of Object.entries(HANDLERS)) {
      source.addEventListener(name, (event) => handle(JSON.parse(event.data)));
    }
    source.addEventListener("open", () => {
      $("lost").hidden = true;
      if (!run) showState("idle", "idle");
    });
    source.addEventListener("error", () => {
      $("lost").hidden = false;
      showState("lost", "no connection");
      // Everything comes again with the connection, or with the page.
      run = undefined;
    });
  }

  // ---- Saved runs ---------------------------------------------------------------------------

  const chosen = new Set();

  function link(parent, text, href) {
    const anchor = block(parent, "a", "", text);
    Object.assign(anchor, { href, target: "_blank", rel: "noreferrer" });
    return anchor;
  }

  async function showRuns() {
    const answer = await call("api/runs");
    const runs = answer.runs ?? [];
    $("no-runs").hidden = runs.length > 0;
    $("runs").hidden = $("run-actions").hidden = runs.length === 0;
    const known = new Set(runs.map(({ id }) => id));
    [...chosen].filter((id) => !known.has(id)).forEach((id) => chosen.delete(id));
    const rows = runs.map((saved) => {
      const box = document.createElement("input");
      Object.assign(box, { type: "checkbox", checked: chosen.has(saved.id), name: `choose-${saved.id}` });
      box.setAttribute("aria-label", `Choose ${saved.id}`);
      box.addEventListener("change", () => {
        if (box.checked) chosen.add(saved.id);
        else chosen.delete(saved.id);
        showCompare();
      });
      const open = document.createElement("span");
      const button = block(open, "button", "small", "open");
      button.type = "button";
      button.name = `open-${saved.id}`;
      button.addEventListener("click", () => showOverlay([saved.id]));
      if (saved.has_report) link(open, "report", `report?run=${encodeURIComponent(saved.id)}`);
      const at = saved.started_at ? new Date(saved.started_at).toLocaleString() : saved.id;
      const states = { running: "under way", killed: "killed", failed: "failed", stopped: "stopped" };
      const end = states[saved.state] ?? (saved.stopped ? "stopped" : saved.trusted ? "trusted" : "see notes");
      return [
        box, open, at, saved.title, number(saved.requests_per_second), number(saved.mib_per_second),
        number(saved.response_mean_ms), number(saved.response_p99_ms), number(saved.errors), end,
      ];
    });
    const columns = [
      ["", ""], ["", "do"], ["started", ""], ["run", "title"], ["IOPS", "n"], ["MiB/s", "n"], ["mean ms", "n"], ["p99 ms", "n"],
      ["errors", "n"], ["", ""],
    ];
    fillTable($("runs"), columns, rows);
    order = runs.map(({ id }) => id);
    showCompare();
  }

  let order = [];

  function showCompare() {
    $("compare").disabled = chosen.size !== 2;
  }

  // The earlier run is A.
  $("compare").addEventListener("click", () => showOverlay([...chosen].sort((one, other) => order.indexOf(other) - order.indexOf(one))));

  // The command of a run, which can be copied. Without a clipboard (a page over plain HTTP from elsewhere), it is selected.
  function showCommand(parent, command) {
    const line = block(parent, "p", "command");
    const code = block(line, "code", "", command);
    const copy = block(line, "button", "small", "copy");
    copy.type = "button";
    copy.addEventListener("click", async () => {
      getSelection().selectAllChildren(code);
      const copied = await navigator.clipboard?.writeText(command).then(() => true, () => false);
      copy.textContent = copied || document.execCommand("copy") ? "copied" : "selected";
    });
  }

  // Runs a saved run again: its plan, seed and targets. Names of targets are asked of who repeats it, too.
  function showRepeat(parent, id) {
    const line = block(parent, "div", "repeat");
    const button = block(line, "button", "small", "run again");
    button.type = "button";
    button.name = `rerun-${id}`;
    const names = block(line, "div", "names");
    const message = block(line, "span", "origin");
    message.setAttribute("role", "status");
    button.addEventListener("click", async () => {
      button.disabled = true;
      message.textContent = "";
      const destroy = [...names.querySelectorAll("input")].map((input) => input.value);
      const answer = await call("api/rerun", { run: id, destroy });
      button.disabled = false;
      names.replaceChildren();
      if (answer.isOk) {
        message.textContent = `The run ${answer.id} has begun.`;
        return;
      }
      message.textContent = problemText(answer.problem);
      for (const { target, refusal } of answer.overwritten ?? []) {
        note(names, refusal, true);
        const label = block(names, "label", "", `Type ${target} to let the run overwrite it`);
        Object.assign(block(label, "input"), { name: target, spellcheck: false, autocomplete: "off" });
      }
    });
  }

  async function showOverlay([one, other]) {
    const query = new URLSearchParams(other ? { run: one, other } : { run: one });
    const answer = await call(`api/overlay?${query}`);
    $("overlay").hidden = false;
    $("overlay-about").replaceChildren();
    if (!answer.isOk) {
      $("overlay-title").textContent = other ?? one;
      note($("overlay-about"), problemText(answer.problem), true);
      $("overlay-table").hidden = true;
      $("overlay-charts").replaceChildren();
      return;
    }
    $("overlay-title").textContent = other ? "Two runs" : answer.runs[0].title ?? answer.runs[0].id;
    for (const saved of answer.runs) {
      const name = [saved.letter, saved.title ?? saved.id, saved.title ? `(${saved.id})` : ""].filter(Boolean).join(" ");
      const details = block($("overlay-about"), "details");
      block(details, "summary", "", other ? name : "Plan, command and notes");
      for (const text of saved.notes) note(details, text, false);
      if (saved.command) showCommand(details, saved.command);
      showRepeat(details, saved.id);
      if (saved.plan) {
        block(block(details, "pre"), "code", "", saved.plan);
        const use = block(details, "button", "small", "edit this plan");
        use.type = "button";
        use.addEventListener("click", () => {
          showPlan(saved.plan);
          scrollTo({ top: 0, behavior: "smooth" });
        });
      }
    }
    const values = other ? [["A", "n"], ["B", "n"], ["change %", "n"]] : [["value", "n"]];
    const rows = answer.rows.map((row) => {
      const name = row.unit ? `${row.name} [${row.unit}]` : row.name;
      const change = row.change_pct === null ? "–" : `${row.change_pct >= 0.05 ? "+" : ""}${row.change_pct.toFixed(1).replace(/^-0\.0$/, "0.0")}`;
      return [name, ...row.values.map((value) => number(value, row.unit !== "")), ...(other ? [change] : [])];
    });
    $("overlay-table").hidden = false;
    fillTable($("overlay-table"), [["figure", ""], ...values], rows);
    drawCharts($("overlay-charts"), answer.charts);
    $("overlay").scrollIntoView({ behavior: "smooth" });
  }

  // ---- Begin --------------------------------------------------------------------------------

  async function begin() {
    const setup = await call("api/setup");
    if (!setup.isOk) throw new Error(problemText(setup.problem));
    form = new seeklabForm.Form($("form"), setup.schema, formChanged);
    showPlan(setup.plan);
    listen();
    await showRuns();
  }

  begin().catch((error) => {
    $("lost").hidden = false;
    $("lost").append(` (${error.message})`);
    showState("lost", "no connection");
  });
})();
