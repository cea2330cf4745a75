// What all charts share: number formats, elements, tables, legends, and stepping through marks with
// the keyboard.
"use strict";

const kilnData = JSON.parse(document.getElementById("data").textContent);

const digits = (value) => value.toLocaleString("en", { maximumSignificantDigits: 3 });
const whole = (value) => Math.round(value).toLocaleString("en");

const timeText = (ns) =>
  ns < 1e3 ? `${digits(ns)} ns`
  : ns < 1e6 ? `${digits(ns / 1e3)} µs`
  : ns < 1e9 ? `${digits(ns / 1e6)} ms`
  : `${digits(ns / 1e9)} s`;
/** Operations a second. */
const rateText = (rate) =>
  rate < 1e12 ? `${digits(rate / 1e9)} GFLOP/s` : `${digits(rate / 1e12)} TFLOP/s`;
const timesText = (ratio) => `${ratio.toFixed(2)}×`;
const percentText = (share, places = 1) => `${(100 * share).toFixed(places)} %`;
const plural = (count, one, many = `${one}s`) => `${whole(count)} ${count === 1 ? one : many}`;

const geometricMean = (values) =>
  Math.exp(values.reduce((sum, value) => sum + Math.log(value), 0) / values.length);
const unique = (values) => [...new Set(values)];
const least = (values) => values.reduce((a, b) => Math.min(a, b), Infinity);
const most = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity);
/** Map from key to the items that have it, in order of appearance. */
const grouped = (items, key) => {
  const groups = new Map();
  for (const item of items) {
    const of = key(item);
    if (!groups.has(of)) groups.set(of, []);
    groups.get(of).push(item);
  }
  return groups;
};

/** Numbers before words, each in its own order. */
const inOrder = (a, b) => {
  const [x, y] = [Number(a), Number(b)];
  return Number.isNaN(x) || Number.isNaN(y) ? String(a).localeCompare(String(b)) : x - y;
};

/** Marks of a logarithmic axis: powers of the base, with 2 and 5 between few powers of ten. */
const logTicks = (low, high, base = 10) => {
  const exponent = (value) => Math.log(value) / Math.log(base);
  const first = Math.floor(exponent(low)), last = Math.ceil(exponent(high));
  const steps = base === 10 && last - first <= 3 ? [1, 2, 5] : [1];
  const stride = base === 2 && last - first > 10 ? 2 : 1;
  const ticks = [];
  for (let power = first; power <= last; power += stride)
    for (const step of steps) ticks.push(step * base ** power);
  return ticks.filter((tick) => tick >= low && tick <= high);
};

const element = (tag, attributes = {}, ...children) => {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
};

const markColour = (index) => `var(--mark-${index % 8})`;
const kSymbols = ["circle", "square", "triangle", "diamond", "cross", "star", "wye", "times"];
const markSymbol = (index) => kSymbols[index % kSymbols.length];

/**
 * A legend of names, which have the colours of their places among all; symbols where the chart has
 * them, so that colour is not all there is.
 */
const legendOf = (names, among, symbols = false) =>
  element("ul", { class: "legend" },
    ...names.map((name) => {
      const index = among.indexOf(name);
      const swatch = Plot.plot({
        width: 14, height: 14, margin: 0, axis: null,
        x: { domain: [0, 1] }, y: { domain: [0, 1] }, symbol: { type: "identity" },
        marks: [Plot.dot([0], { x: 0.5, y: 0.5, r: 4.5, fill: markColour(index),
                                symbol: symbols ? markSymbol(index) : "circle" })],
      });
      swatch.setAttribute("aria-hidden", "true");
      return element("li", {}, swatch, name);
    }));

/** `columns`: [{name, figure, text}]; rows of text in the same order. */
const tableOf = (caption, columns, rows) => {
  const kind = ({ figure, text }) => ({ class: figure ? "figure" : text ? "text" : "word" });
  const head = element("tr", {},
    ...columns.map((column) => element("th", { scope: "col", ...kind(column) }, column.name)));
  const body = rows.map((row) => element("tr", {},
    ...row.map((cell, index) => element("td", kind(columns[index]), String(cell)))));
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    element("table", {}, element("thead", {}, head), element("tbody", {}, ...body)));
};

/** A table that is made when it is opened: hundreds of rows are not needed to show a chart. */
const foldedTable = (caption, columns, rows, open = false) => {
  const details = element("details", {},
    element("summary", {}, `${caption}: table of ${plural(rows.length, "row")}`));
  details.addEventListener("toggle", () => {
    if (details.open && !details.querySelector("table"))
      details.append(tableOf(caption, columns, rows));
  });
  details.open = open;
  return details;
};

const announce = (text) => { document.getElementById("announcer").textContent = text; };

/**
 * Makes a chart usable without a mouse: it has a name, takes the focus, and arrow keys go from mark
 * to mark, each of which is shown and read out. `stops`: [{x, y, text}] in the chart's own values.
 */
const makeReachable = (svg, name, stops) => {
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", stops.length ? `${name} Arrow keys step through the marks.` : name);
  svg.setAttribute("tabindex", "0");
  let at = -1;
  const place = (scale, value) =>
    scale.apply(value) + (scale.bandwidth ? scale.bandwidth / 2 : 0);
  const show = () => {
    const box = svg.getBoundingClientRect(), view = svg.viewBox.baseVal;
    const zoom = box.width / view.width;
    svg.dispatchEvent(new PointerEvent("pointermove", {
      bubbles: true, pointerType: "mouse",
      clientX: box.left + zoom * place(svg.scale("x"), stops[at].x),
      clientY: box.top + zoom * place(svg.scale("y"), stops[at].y),
    }));
    announce(`${at + 1} of ${stops.length}: ${stops[at].text.replaceAll("\n", ", ")}`);
  };
  const hide = () => svg.dispatchEvent(new PointerEvent("pointerleave", { pointerType: "mouse" }));
  const moves = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
  svg.addEventListener("keydown", (event) => {
    if (!stops.length) return;
    if (event.key === "Escape") at = -1, hide();
    if (event.key === "Home") at = 0;
    else if (event.key === "End") at = stops.length - 1;
    else if (event.key in moves)
      at = at < 0 ? 0 : (at + moves[event.key] + stops.length) % stops.length;
    else return;
    event.preventDefault();
    show();
  });
  svg.addEventListener("blur", () => { at = -1; hide(); });
};
