"use strict";
// Draws the charts of the report as SVG from the JSON in #charts, and those of a page that grows through
// `seeklabCharts.View`. Nothing is fetched; text only ever enters the page as text nodes.
const seeklabCharts = (() => {
  const NAMESPACE = "http://www.w3.org/2000/svg";
  const DASHES = ["", "7 3", "2 2.5", "9 3 2 3", "12 4", "5 2 1 2 1 2", "1 3", "14 3 3 3", "3 3"];
  const color = (style) => `var(--c${style % 9})`;
  const partColor = (style) => `var(--p${style % 9})`;
  const dash = (style) => DASHES[style % DASHES.length];

  function element(parent, name, attributes = {}, text) {
    const node = document.createElementNS(NAMESPACE, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    parent.append(node);
    return node;
  }

  function block(parent, name, className, text) {
    const node = document.createElement(name);
    if (className) node.className = className;
    if (text !== undefined) node.textContent = text;
    parent.append(node);
    return node;
  }

  // Numbers on axes are short (12M), in tooltips they have four digits.
  function short(value) {
    const size = Math.abs(value);
    for (const [unit, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
      if (size >= unit) {
        const scale = letter === "k" ? 1e3 : unit;
        return `${Number((value / scale).toPrecision(4))}${letter}`;
      }
    }
    return String(Number(value.toPrecision(6)));
  }

  function exact(value, unit) {
    const digits = Math.abs(value) >= 1e4 ? Math.round(value) : Number(value.toPrecision(4));
    return digits.toLocaleString("en", { maximumSignificantDigits: 15 }) + (unit ? ` ${unit}` : "");
  }

  // ---- Scales -------------------------------------------------------------------------------

  function niceStep(rough) {
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find((nice) => nice * power >= rough * 0.999);
    return step * power;
  }

  function linearScale(axis, low, high, target) {
    let min = axis.min ?? low;
    let max = axis.max ?? high;
    if (!(max > min)) [min, max] = min === 0 ? [0, 1] : [min - Math.abs(min) / 2, min + Math.abs(min) / 2];
    const step = niceStep((max - min) / target);
    if (axis.min === null) min = Math.floor(min / step + 1e-9) * step;
    if (axis.max === null) max = Math.ceil(max / step - 1e-9) * step;
    const ticks = [];
    for (let i = Math.ceil(min / step - 1e-9); i * step <= max + step * 1e-9; i += 1) {
      ticks.push({ value: i * step, text: short(i * step) });
    }
    return { min, max, ticks, share: (value) => (value - min) / (max - min), invert: (share) => min + share * (max - min) };
  }

  function logScale(low, high, target) {
    // Ends at 1, 2 or 5 times a power of ten.
    const ends = [1, 2, 5];
    const around = (value, up) => {
      const power = Math.floor(Math.log10(value) + 1e-12);
      const all = [power - 1, power, power + 1].flatMap((p) => ends.map((end) => end * 10 ** p));
      return up ? all.find((end) => end >= value * (1 - 1e-9)) : all.filter((end) => end <= value * (1 + 1e-9)).pop();
    };
    const min = around(low, false);
    let max = around(high, true);
    if (!(max > min)) max = min * 10;
    const [from, span] = [Math.log10(min), Math.log10(max) - Math.log10(min)];
    const labelled = span * 3 <= target ? ends : [1];
    const every = Math.max(1, Math.ceil(span / target));
    const ticks = [];
    for (let power = Math.floor(from); power <= Math.log10(max) + 1e-9; power += 1) {
      for (let digit = 1; digit < 10; digit += 1) {
        const value = Number((digit * 10 ** power).toPrecision(12));
        if (value < min * (1 - 1e-9) || value > max * (1 + 1e-9)) continue;
        const hasText = labelled.includes(digit) && (labelled.length > 1 || power % every === 0);
        if (hasText || (every === 1 && span < 5)) ticks.push({ value, text: hasText ? short(value) : "", isMinor: digit > 1 });
      }
    }
    return {
      min, max, ticks,
      share: (value) => (Math.log10(Math.max(value, min / 1e3)) - from) / span,
      invert: (share) => 10 ** (from + share * span),
    };
  }

  function scale(axis, values, target) {
    if (axis.is_log) {
      const positive = values.filter((value) => value > 0);
      return logScale(extreme(positive, Math.min) ?? 1, extreme(positive, Math.max) ?? 10, target);
    }
    return linearScale(axis, extreme(values, Math.min) ?? 0, extreme(values, Math.max) ?? 1, target);
  }

  function extreme(values, pick) {
    return values.length ? values.reduce((a, b) => pick(a, b)) : undefined;
  }

  // ---- Marks --------------------------------------------------------------------------------

  const SYMBOLS = [
    (x, y) => `M${x},${y}h.01`,
    (x, y) => `M${x - 2},${y - 2}l4,4m-4,0l4,-4`,
    (x, y) => `M${x - 2.5},${y}h5m-2.5,-2.5v5`,
  ];
  const MARKERS = [
    (x, y) => `M${x - 3.2},${y}a3.2,3.2 0 1,0 6.4,0a3.2,3.2 0 1,0 -6.4,0`,
    (x, y) => `M${x - 3},${y - 3}h6v6h-6z`,
    (x, y) => `M${x},${y - 3.8}l3.6,6.6h-7.2z`,
    (x, y) => `M${x},${y - 4}l4,4l-4,4l-4,-4z`,
  ];
  const at = (number) => Math.round(number * 10) / 10;

  function linePath(points) {
    return points.map(([x, y], i) => `${i ? "L" : "M"}${at(x)},${at(y)}`).join("");
  }

  function stepPath(points, base, end) {
    let path = `M${at(points[0][0])},${at(base)}V${at(points[0][1])}`;
    for (const [x, y] of points.slice(1)) path += `H${at(x)}V${at(y)}`;
    return end === undefined ? path : `${path}H${at(end)}`;
  }

  // The area between the layers below and their sum with this one.
  function layerPath(columns, bases, tops) {
    const last = columns.length - 1;
    let path = `M${at(columns[0])},${at(tops[0])}`;
    for (let i = 1; i <= last; i += 1) path += `H${at(columns[i])}V${at(tops[i])}`;
    path += `V${at(bases[last])}`;
    for (let i = last - 1; i >= 0; i -= 1) path += `V${at(bases[i])}H${at(columns[i])}`;
    return `${path}Z`;
  }

  function drawLayers(group, layers, place) {
    let sums = layers.length ? layers[0].points.map(() => 0) : [];
    for (const series of layers) {
      const next = sums.map((sum, index) => sum + series.points[index][1]);
      const columns = series.points.map(([x]) => place.x(x));
      element(group, "path", { d: layerPath(columns, sums.map(place.y), next.map(place.y)), fill: partColor(series.style) });
      sums = next;
    }
  }

  function drawSeries(group, series, chart, place, box) {
    const points = series.points.map(([x, y, half]) => [place.x(x), place.y(y), half]);
    if (!points.length) return;
    const stroke = { fill: "none", stroke: color(series.style), "stroke-width": 1.8, "stroke-linejoin": "round" };
    const dashed = { ...stroke, "stroke-dasharray": dash(series.style) };
    // A distribution that ends at the top of its axis stays there.
    const end = chart.y.max === null ? undefined : box.right;
    switch (series.mark) {
      case "layer":
        break;
      case "area":
        element(group, "path", { d: `${stepPath(points, box.bottom)}V${box.bottom}Z`, fill: color(series.style), "fill-opacity": 0.25 });
        element(group, "path", { d: stepPath(points, box.bottom, end), ...stroke });
        break;
      case "step":
        element(group, "path", { d: stepPath(points, box.bottom, end), ...dashed });
        break;
      case "points": {
        const symbol = SYMBOLS[series.style % SYMBOLS.length];
        const isDot = series.style % SYMBOLS.length === 0;
        const many = points.length > 800;
        element(group, "path", {
          d: points.map(([x, y]) => symbol(at(x), at(y))).join(""), fill: "none", stroke: color(series.style),
          "stroke-width": isDot ? (many ? 2.8 : 3.6) : 1.2, "stroke-linecap": "round", "stroke-opacity": many ? 0.55 : 0.8,
        });
        break;
      }
      case "cells": {
        // The third number is a share of the fullest cell; cells are as large as the series says.
        const [width, height] = series.cell;
        for (const [x, y, share] of series.points) {
          const [left, right, top, bottom] = [place.x(x), place.x(x + width), place.y(y + height), place.y(y)];
          element(group, "rect", { x: at(left), y: at(top), width: Math.max(at(right - left), 0.5), height: Math.max(at(bottom - top), 0.5), fill: color(series.style), "fill-opacity": 0.08 + 0.92 * share });
        }
        break;
      }
      case "guide":
        element(group, "path", { d: linePath(points), class: "guide" });
        break;
      case "line_and_points": {
        const marker = MARKERS[series.style % MARKERS.length];
        // Marks that touch each other hide the line; the dash then tells the series apart.
        const isCrowded = points.length > (box.right - box.left) / 8;
        element(group, "path", { d: linePath(points), ...dashed });
        let whiskers = "";
        series.points.forEach(([x, y, half]) => {
          if (half > 0) {
            const [cx, top, bottom] = [place.x(x), place.y(y + half), place.y(y - half)].map(at);
            whiskers += `M${cx - 3},${top}h6m-3,0V${bottom}m-3,0h6`;
          }
        });
        if (whiskers) element(group, "path", { d: whiskers, ...stroke, "stroke-width": 1.2 });
        if (!isCrowded) element(group, "path", { d: points.map(([x, y]) => marker(at(x), at(y))).join(""), fill: color(series.style) });
        break;
      }
      default:
        element(group, "path", { d: linePath(points), ...dashed });
    }
  }

  // ---- A chart in its figure ----------------------------------------------------------------

  let views = 0;

  class View {
    constructor(figure, chart) {
      views += 1;
      Object.assign(this, { figure, chart, number: views, hidden: new Set() });
      this.legend = block(figure, "div", "legend");
      this.canvas = block(figure, "div");
      this.tip = block(figure, "div", "tip");
      this.tip.hidden = true;
      this.buildLegend();
      this.canvas.addEventListener("pointermove", (event) => this.point(event));
      this.canvas.addEventListener("pointerleave", () => this.leave());
      new ResizeObserver(() => this.draw()).observe(this.canvas);
      this.draw();
    }

    get visible() {
      return this.chart.series.filter((series) => !this.hidden.has(series));
    }

    buildLegend() {
      const named = this.chart.series.filter((series) => series.mark !== "guide");
      if (named.length < 2) return this.legend.remove();
      for (const series of named) {
        const button = block(this.legend, "button");
        button.type = "button";
        button.setAttribute("aria-pressed", String(!this.hidden.has(series)));
        const isPart = series.mark === "part" || series.mark === "layer";
        const width = isPart ? 12 : 26;
        const key = element(button, "svg", { viewBox: `0 0 ${width} 10`, "aria-hidden": "true" });
        key.style.width = `${width}px`;
        if (isPart) element(key, "rect", { x: 0, y: 0, width: 12, height: 10, fill: partColor(series.style) });
        else if (series.mark === "points") {
          const isDot = series.style % SYMBOLS.length === 0;
          element(key, "path", { d: SYMBOLS[series.style % SYMBOLS.length](13, 5), stroke: color(series.style), fill: "none", "stroke-width": isDot ? 6 : 1.6, "stroke-linecap": "round" });
        } else {
          element(key, "path", { d: "M0,5H26", stroke: color(series.style), "stroke-width": 2, "stroke-dasharray": dash(series.style) });
          if (series.mark === "line_and_points") element(key, "path", { d: MARKERS[series.style % MARKERS.length](13, 5), fill: color(series.style) });
        }
        block(button, "span", "", series.name);
        button.addEventListener("click", () => {
          const isShown = this.hidden.delete(series) || !this.hidden.add(series);
          button.setAttribute("aria-pressed", String(isShown));
          this.draw();
        });
      }
    }

    // Adds a series to the chart, and to its legend.
    addSeries(series) {
      this.chart.series.push({ ...series, style: this.chart.series.length });
      this.legend.replaceChildren();
      this.canvas.before(this.legend);
      this.buildLegend();
      this.draw();
    }

    // Adds a point to each series, null where it has none, and draws when the browser is ready to.
    append(points) {
      points.forEach((point, index) => {
        if (point) this.chart.series[index].points.push(point);
      });
      if (!this.isWaiting) {
        this.isWaiting = true;
        requestAnimationFrame(() => {
          this.isWaiting = false;
          this.draw();
        });
      }
    }

    // Forgets points that lie before a place on the horizontal axis.
    forget(before) {
      for (const series of this.chart.series) {
        const kept = series.points.findIndex(([x]) => x >= before);
        series.points.splice(0, kept < 0 ? series.points.length : kept);
      }
    }

    // Axes whose values decide if they are logarithmic.
    decideScales() {
      [this.chart.x, this.chart.y].forEach((axis, index) => {
        if (axis.log_from_ratio === undefined) return;
        const values = this.chart.series.flatMap((series) => series.points.map((point) => point[index]));
        const low = extreme(values, Math.min);
        axis.is_log = low > 0 && extreme(values, Math.max) > axis.log_from_ratio * low;
        axis.min = axis.is_log ? null : 0;
      });
    }

    draw() {
      this.decideScales();
      const width = this.canvas.clientWidth || 560;
      this.canvas.replaceChildren();
      this.leave();
      if (this.chart.kind === "stack") this.drawStack(width);
      else this.drawPlot(width);
    }

    frame(width, height) {
      const title = this.figure.querySelector("strong")?.textContent ?? "";
      return element(this.canvas, "svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title });
    }

    drawPlot(width) {
      const { chart, visible } = this;
      const height = Math.round(Math.min(330, Math.max(230, width * 0.58)));
      const svg = this.frame(width, height);
      const all = visible.flatMap((series) => series.points);
      const y = scale(chart.y, all.flatMap(([, value, half]) => (half && !visible.some((series) => series.mark === "cells") ? [value - half, value + half] : [value])), 5);
      const widest = Math.max(...y.ticks.map((tick) => tick.text.length), 1);
      const box = { left: 26 + widest * 7, right: width - 14, top: 10, bottom: height - 42 };
      const x = scale(chart.x, all.map(([value]) => value), Math.max(2, Math.floor((box.right - box.left) / 75)));
      const place = {
        x: (value) => box.left + x.share(value) * (box.right - box.left),
        y: (value) => box.bottom - y.share(value) * (box.bottom - box.top),
      };
      this.drawBands(svg, box, place);
      this.drawAxes(svg, box, x, y, place);
      const clip = `clip${this.number}`;
      element(element(svg, "clipPath", { id: clip }), "rect", { x: box.left - 1, y: box.top - 4, width: box.right - box.left + 6, height: box.bottom - box.top + 8 });
      const group = element(svg, "g", { "clip-path": `url(#${clip})` });
      drawLayers(group, visible.filter((series) => series.mark === "layer"), place);
      for (const series of visible) drawSeries(group, series, chart, place, box);
      this.geometry = { width, box, x, place };
      this.cursor = element(svg, "path", { class: "cursor", d: "" });
    }

    // Spans of time in which a fault struck. Its name stands at the first that has room for it.
    drawBands(svg, box, place) {
      const named = new Set();
      let line = 0;
      for (const band of this.chart.bands ?? []) {
        const from = Math.max(place.x(band.from), box.left);
        const to = Math.min(Math.max(place.x(band.to), from + 1), box.right);
        if (to <= from) continue;
        const shade = element(svg, "rect", { class: "band", x: at(from), y: box.top, width: at(to - from), height: box.bottom - box.top });
        element(shade, "title", {}, band.name);
        if (named.has(band.name)) continue;
        named.add(band.name);
        const isLeft = from < (box.left + box.right) / 2;
        element(svg, "text", { class: "band-name", x: at(isLeft ? from + 3 : to - 3), y: box.top + 11 + 12 * line, "text-anchor": isLeft ? "start" : "end" }, band.name);
        line = (line + 1) % 6;
      }
    }

    drawAxes(svg, box, x, y, place) {
      const { chart } = this;
      for (const tick of y.ticks) {
        const level = at(place.y(tick.value));
        element(svg, "path", { class: "grid", d: `M${box.left},${level}H${box.right}`, opacity: tick.isMinor ? 0.5 : 1 });
        if (tick.text) element(svg, "text", { x: box.left - 6, y: level + 4, "text-anchor": "end" }, tick.text);
      }
      for (const tick of x.ticks) {
        const column = at(place.x(tick.value));
        element(svg, "path", { class: "grid", d: `M${column},${box.top}V${box.bottom}`, opacity: tick.isMinor ? 0.5 : 1 });
        if (tick.text) element(svg, "text", { x: column, y: box.bottom + 15, "text-anchor": "middle" }, tick.text);
      }
      element(svg, "path", { class: "axis", d: `M${box.left},${box.top}V${box.bottom}H${box.right}`, fill: "none" });
      const title = (axis) => (axis.unit ? `${axis.label} [${axis.unit}]` : axis.label);
      const middle = (box.left + box.right) / 2;
      element(svg, "text", { x: middle, y: box.bottom + 34, "text-anchor": "middle" }, fitted(title(chart.x), box.right - box.left));
      const center = (box.top + box.bottom) / 2;
      element(svg, "text", { x: 0, y: 0, "text-anchor": "middle", transform: `translate(12,${center}) rotate(-90)` }, fitted(title(chart.y), box.bottom - box.top));
    }

    drawStack(width) {
      const { chart, visible } = this;
      const isNarrow = width < 480;
      const names = chart.categories;
      const longest = Math.max(...names.map((name) => name.length), 1);
      const left = isNarrow ? 6 : Math.min(170, 14 + longest * 6.8);
      const [bar, row] = isNarrow ? [20, 44] : [24, 40];
      const box = { left, right: width - 16 - 6.6 * Math.max(...chart.totals.map((text) => text.length)), top: isNarrow ? 18 : 8 };
      box.bottom = box.top + names.length * row;
      const svg = this.frame(width, box.bottom + 40);
      const totals = names.map((_, index) => visible.reduce((sum, series) => sum + series.points[index][1], 0));
      const x = scale(chart.x, totals, Math.max(2, Math.floor((box.right - box.left) / 75)));
      const place = (value) => box.left + x.share(value) * (box.right - box.left);
      for (const tick of x.ticks) {
        const column = at(place(tick.value));
        element(svg, "path", { class: "grid", d: `M${column},${box.top - 4}V${box.bottom}` });
        element(svg, "text", { x: column, y: box.bottom + 13, "text-anchor": "middle" }, tick.text);
      }
      this.parts = [];
      names.forEach((name, index) => {
        const top = box.top + index * row;
        if (isNarrow) element(svg, "text", { x: left, y: top - 4, class: "bar-name" }, fitted(name, width - left));
        else element(svg, "text", { x: left - 8, y: top + bar / 2 + 4, "text-anchor": "end", class: "bar-name" }, fitted(name, left - 8));
        let sum = 0;
        for (const series of visible) {
          const value = series.points[index][1];
          const [from, to] = [place(sum), place(sum + value)];
          sum += value;
          if (to - from < 0.2) continue;
          const gap = to - from > 3 ? 1 : 0;
          element(svg, "rect", { x: at(from), y: top, width: Math.max(at(to - from) - gap, 0.3), height: bar, fill: partColor(series.style) });
          this.parts.push({ from, to, top, bottom: top + bar, series, name, value, total: totals[index] });
          if (to - from > series.name.length * 6.6 + 10) {
            element(svg, "text", { x: (from + to) / 2, y: top + bar / 2 + 4, "text-anchor": "middle", class: "bar-part" }, series.name);
          }
        }
        element(svg, "text", { x: at(place(sum)) + 6, y: top + bar / 2 + 4, class: "bar-total" }, chart.totals[index]);
      });
      element(svg, "path", { class: "axis", d: `M${box.left},${box.top - 4}V${box.bottom}` });
      const label = chart.x.unit ? `${chart.x.label} [${chart.x.unit}]` : chart.x.label;
      element(svg, "text", { x: (box.left + box.right) / 2, y: box.bottom + 31, "text-anchor": "middle" }, label);
      this.geometry = { width, box };
    }

    // ---- What is under the pointer ----------------------------------------------------------

    point(event) {
      const bounds = this.canvas.getBoundingClientRect();
      const ratio = this.geometry.width / bounds.width;
      const [x, y] = [(event.clientX - bounds.left) * ratio, (event.clientY - bounds.top) * ratio];
      const found = this.chart.kind === "stack" ? this.partAt(x, y) : this.valuesAt(x, y);
      if (!found) return this.leave();
      this.tip.replaceChildren();
      for (const line of found.lines) {
        const row = block(this.tip, "div");
        if (line.color) block(row, "i").style.background = line.color;
        block(row, "span", "", line.name);
        if (line.value !== undefined) block(row, "b", "", line.value);
      }
      this.tip.hidden = false;
      const left = (event.clientX - bounds.left) + 14;
      const space = bounds.width - this.tip.offsetWidth;
      this.tip.style.left = `${Math.max(0, left > space ? left - this.tip.offsetWidth - 28 : left)}px`;
      this.tip.style.top = `${this.canvas.offsetTop + event.clientY - bounds.top + 10}px`;
    }

    leave() {
      this.tip.hidden = true;
      this.cursor?.setAttribute("d", "");
    }

    partAt(x, y) {
      const part = this.parts.find((one) => x >= one.from && x < one.to && y >= one.top && y < one.bottom);
      if (!part) return undefined;
      const { unit } = this.chart.x;
      const lines = [{ name: part.name }, { name: part.series.name, value: exact(part.value, unit), color: partColor(part.series.style) }];
      if (unit !== "%") lines.push({ name: "share", value: exact((part.value / part.total) * 100, "%") });
      return { lines };
    }

    valuesAt(x, y) {
      const { box, place } = this.geometry;
      if (x < box.left - 4 || x > box.right + 4 || y > box.bottom + 4) return undefined;
      const shown = this.visible.filter((series) => series.mark !== "guide" && series.points.length);
      if (shown.some((series) => series.mark === "points" || series.mark === "cells")) return this.nearest(shown, x, y);
      let value = this.geometry.x.invert((x - box.left) / (box.right - box.left));
      if (shown.some((series) => series.mark === "line_and_points")) {
        // Marked points are what was observed, so the cursor keeps to them.
        const columns = shown.flatMap((series) => series.points.map((point) => point[0]));
        value = columns.reduce((a, b) => (Math.abs(place.x(b) - x) < Math.abs(place.x(a) - x) ? b : a));
        x = place.x(value);
      }
      this.cursor.setAttribute("d", `M${at(x)},${box.top}V${box.bottom}`);
      const { chart } = this;
      const lines = [{ name: chart.x.label, value: exact(value, chart.x.unit) }];
      for (const series of shown) {
        const found = pointAt(series, value, chart, place.x);
        const half = found?.[2] ? ` ± ${exact(found[2], "")}` : "";
        const unit = chart.y.unit ? ` ${chart.y.unit}` : "";
        const key = series.mark === "layer" ? partColor : color;
        lines.push({ name: series.name, color: key(series.style), value: found ? `${exact(found[1], "")}${half}${unit}` : "–" });
      }
      return { lines };
    }

    nearest(shown, x, y) {
      const { place } = this.geometry;
      let best;
      for (const series of shown) {
        for (const point of series.points) {
          const distance = Math.hypot(place.x(point[0]) - x, place.y(point[1]) - y);
          if (distance < (best?.distance ?? 24)) best = { distance, series, point };
        }
      }
      if (!best) return undefined;
      const { chart } = this;
      return {
        lines: [
          { name: best.series.name, color: color(best.series.style) },
          { name: chart.x.label, value: exact(best.point[0], chart.x.unit) },
          { name: chart.y.label, value: exact(best.point[1], chart.y.unit === "lbn" ? "" : chart.y.unit) },
        ],
      };
    }
  }

  function fitted(text, pixels) {
    const room = Math.max(6, Math.floor(pixels / 6.4));
    return text.length <= room ? text : `${text.slice(0, room - 1)}…`;
  }

  const data = document.getElementById("charts")?.textContent ?? "[]";
  const charts = new Map(JSON.parse(data).map((chart) => [chart.id, chart]));
  document.querySelectorAll("figure[data-chart]").forEach((figure) => {
    new View(figure, charts.get(figure.dataset.chart));
  });
  return { View, block };
})();
