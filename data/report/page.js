// The page: what is chosen, and every section drawn from it, again whenever a choice or the width
// changes.
"use strict";

const view = { device: null, peer: null, range: null, problem: 0, axisX: 0, axisY: 1 };
const kSections = { roofline, speedup, regret, search: searchCurves, landscape, failures, holdings };
const byId = (id) => document.getElementById(id);

/** The section's own part below its fixed text. */
const slotOf = (section) => {
  let slot = section.querySelector(":scope > .drawn");
  if (!slot) section.append((slot = element("div", { class: "drawn" })));
  return slot;
};

const draw = (id) => {
  const section = byId(id), slot = slotOf(section);
  const heading = section.querySelector("h2").textContent;
  const wasOpen = slot.querySelector("details")?.open || false;
  // A window may be narrower for a moment than any chart can be.
  const made = kSections[id](view, Math.max(240, slot.clientWidth));
  slot.replaceChildren();
  for (const control of section.querySelectorAll(".controls"))
    control.hidden = [...control.querySelectorAll("select")].every((one) => one.length < 2);
  if (made.empty) {
    slot.append(element("p", { class: "note" }, made.empty));
    return;
  }
  const svg = Plot.plot(made.plot);
  makeReachable(svg, `${heading}. ${made.summary}`, made.stops);
  if (made.legend) slot.append(legendOf(made.legend, made.among, made.symbols));
  if (made.ramp) {
    const ramp = element("div", { class: "ramp", "aria-hidden": "true" });
    ramp.append(Plot.legend(made.ramp));
    slot.append(ramp);
  }
  slot.append(element("figure", {}, svg, element("figcaption", {}, made.summary)));
  for (const note of made.notes || []) slot.append(element("p", { class: "note" }, note));
  slot.append(foldedTable(heading, made.columns, made.rows, wasOpen));
};

const drawAll = () => Object.keys(kSections).forEach(draw);

/** `choices`: [[value, text]]. */
const fill = (id, choices, chosen) => {
  byId(id).replaceChildren(...choices.map(([value, text]) => element("option", { value }, text)));
  byId(id).value = String(chosen);
};
const onChoice = (id, then) => byId(id).addEventListener("change", (event) => then(event.target.value));

const fillAxes = () => {
  const search = kilnData.landscapes[view.problem];
  const keys = search ? search.keys.map((key, index) => [index, key]) : [];
  fill("axis-x", keys, view.axisX);
  fill("axis-y", keys, view.axisY);
};

const chooseProblem = (index) => {
  view.problem = index;
  const search = kilnData.landscapes[index];
  if (search) [view.axisX, view.axisY] = firstAxes(search);
  fillAxes();
};

/** What there is to choose from depends on the device. */
const fillChoices = () => {
  const landscapes = kilnData.landscapes.map((one, index) => [index, one])
    .filter(([, one]) => view.device === null || one.device === view.device);
  fill("problem", landscapes.map(([index, one]) => [index, `${one.text}${
    view.device === null && kilnData.devices.length > 1 ? `, ${deviceName(one.device)}` : ""}`]), 0);
  chooseProblem(landscapes.length ? landscapes[0][0] : -1);
  byId("problem").value = String(view.problem);
  const ranges = kilnData.ranges.map((one, index) => [index, one])
    .filter(([, one]) => one.points.length && (view.device === null || one.device === view.device))
    .sort((a, b) => b[1].points.length - a[1].points.length);
  view.range = ranges.length ? ranges[0][0] : null;
  fill("range", [["", "all ranges"], ...ranges.map(([index, one]) => [index, rangeName(one)])],
       view.range ?? "");
};

/** The other axis gives way where both would be the same key. */
const chooseAxis = (axis, other, value) => {
  const before = view[axis];
  view[axis] = Number(value);
  if (view[axis] === view[other]) view[other] = before;
  fillAxes();
  draw("landscape");
};

const fillTiles = () => {
  const devices = kilnData.devices.filter((_, index) => view.device === null || view.device === index);
  const sum = (field) => devices.reduce((total, device) => total + device[field], 0);
  const raced = racedShapes({ ...view, peer: null });
  const tiles = [
    ["Shapes", whole(ofView(view, kMeasured).length), `on ${plural(devices.length, "device")}`],
    ["Speedup", raced.length ? timesText(geometricMean(raced.map((shape) => shape.ratio))) : "–",
     raced.length ? `over the fastest library, ${plural(raced.length, "shape")}` : "no library raced"],
    ["Candidates", whole(sum("measurements")), `${whole(sum("failures"))} failed`],
    ["Ranges", whole(sum("ranges")), "tuned as one"],
  ];
  byId("tiles").replaceChildren(...tiles.map(([name, value, more]) =>
    element("div", {}, element("dt", {}, name),
            element("dd", {}, value, element("small", {}, more)))));
};

const start = () => {
  byId("made").textContent = `Made ${kilnData.made} by kiln report. Charts take the ` +
    "focus: arrow keys go from mark to mark.";
  byId("sources").textContent = `From ${kilnData.sources.join(", ")}.`;
  fill("device", [["", "all devices"], ...kilnData.devices.map((device, index) => [index, device.name])],
       "");
  fill("peer", [["", "the fastest of each shape"], ...kPeers.map((peer) => [peer, peer])], "");
  onChoice("device", (value) => {
    view.device = value === "" ? null : Number(value);
    fillChoices();
    fillTiles();
    drawAll();
  });
  onChoice("peer", (value) => { view.peer = value || null; draw("speedup"); });
  onChoice("range", (value) => { view.range = value === "" ? null : Number(value); draw("regret"); });
  onChoice("problem", (value) => { chooseProblem(Number(value)); draw("landscape"); });
  onChoice("axis-x", (value) => chooseAxis("axisX", "axisY", value));
  onChoice("axis-y", (value) => chooseAxis("axisY", "axisX", value));
  fillChoices();
  fillTiles();
  drawAll();
  let drawnAt = document.body.clientWidth;
  new ResizeObserver(() => {
    if (document.body.clientWidth === drawnAt) return;
    drawnAt = document.body.clientWidth;
    drawAll();
  }).observe(document.body);
  document.documentElement.dataset.ready = "true";
};

start();
