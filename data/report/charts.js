// Charts of shapes: roofline, speedup, failures, holdings. Each takes the view (what is chosen on the
// page) and the width, and returns what page.js shows: a chart with its text alternatives, or the
// sentence that stands in its place.
"use strict";

const ofView = (view, items) =>
  items.filter((item) => view.device === null || item.device === view.device);
const deviceName = (index) => kilnData.devices[index].name;
const withDevice = (view, item) =>
  view.device === null && kilnData.devices.length > 1 ? `\n${deviceName(item.device)}` : "";
/** Devices have times of their own; those of classes of CPUs are the model's. */
const kMeasured = kilnData.shapes;
const kTypes = unique(kMeasured.map((shape) => shape.dtype)).sort(inOrder);
const kPeers = unique(kMeasured.flatMap((shape) => Object.keys(shape.peers))).sort();
const kFamilies = unique(kilnData.failures.map((failure) => failure.family)).sort();

const kFontSize = "12px";
const kTip = { fontSize: 12, lineWidth: 30, lineHeight: 1.3, stroke: "var(--edge)" };
/** What charts of every kind have in common. */
const frame = (width, height, options) => ({
  width, height, marginTop: 26, marginRight: 16, marginBottom: 44, marginLeft: 52,
  style: { fontSize: kFontSize, fontFamily: "inherit", overflow: "visible" }, ...options,
});

/** Axes of logarithmic scales: left to itself, Plot writes only some of their marks' texts. */
const logX = (ticks, text) => [Plot.gridX(ticks), Plot.axisX(ticks, { text })];
const logY = (ticks, text) => [Plot.gridY(ticks), Plot.axisY(ticks, { text })];

const intensity = (shape) => shape.flops / shape.bytes;
const rate = (shape) => (shape.flops / shape.ns) * 1e9;

/** The share of the least time that its CPU needs; nothing where that is not known. */
const roofOf = (shape, said = (share) => share) =>
  shape.roofNs > 0 ? said(percentText(shape.roofNs / shape.ns, 0)) : "";

/** What a call under load took of the device; "" where it was not measured. */
const energyText = (joules) => {
  const unit = [["J", 1], ["mJ", 1e-3], ["µJ", 1e-6]].find(([, size]) => joules >= size);
  return unit ? `${digits(joules / unit[1])} ${unit[0]}` : "";
};

/** The roofs of a device: what memory allows up to the highest of them, and each type's arithmetic. */
const roofsOf = (index, shapes, low, high) => {
  const { bytesPerSecond: memory, peaks } = kilnData.devices[index];
  const roofs = unique(shapes.map((shape) => shape.dtype)).map((dtype) => {
    const reached = most(shapes.filter((shape) => shape.dtype === dtype).map(rate));
    const top = Math.max(peaks[dtype] || 0, reached);
    const from = memory ? Math.min(Math.max(top / memory, low), high) : low;
    return { index, dtype, top, known: dtype in peaks, points: [[from, top], [high, top]] };
  });
  if (!memory) return roofs;
  const top = most(roofs.map((roof) => roof.top));
  return [...roofs, { index, memory, top, known: true,
                      points: [[low, low * memory], [top / memory, top]] }];
};

const memoryText = (slopes) =>
  slopes.length
    ? ` Slopes are what memory allows: ${slopes.map((slope) =>
        `${whole(slope.memory / 1e9)} GB/s of ${deviceName(slope.index)}`).join("; ")}.`
    : "";

const roofNotes = (roofs) => {
  const notes = [];
  const guessed = [...grouped(roofs.filter((roof) => !roof.known), (roof) => roof.index)]
    .map(([index, of]) => `${of.map((roof) => roof.dtype).join(", ")} on ${deviceName(index)}`);
  if (guessed.length)
    notes.push(`A dashed roof is the highest rate measured. No peak is stored of ` +
      `${guessed.join("; ")}. On CPUs, kiln tune stores it, and kiln bench --json with kiln report ` +
      `--bench shows it.`);
  const sloped = roofs.filter((roof) => roof.memory).map((roof) => roof.index);
  const flat = unique(roofs.filter((roof) => !sloped.includes(roof.index))
    .map((roof) => deviceName(roof.index)));
  if (flat.length)
    notes.push(`The bandwidth of ${flat.join("; ")} is not stored, so its roof has no slope: ` +
      `on CPUs kiln bench and kiln tune store it, and kiln report --bench FILE shows what ` +
      `kiln bench --json printed.`);
  return notes;
};

const roofline = (view, width) => {
  const shapes = ofView(view, kMeasured);
  if (!shapes.length)
    return { empty: "No shape is tuned on this device: kiln tune --shape \"fp32 N T 512 4096 4096\"" +
                    " or kiln tune --layers stores some." };
  const xs = shapes.map(intensity), ys = shapes.map(rate);
  const low = least(xs) / 1.5, high = most(xs) * 1.5;
  const roofs = unique(shapes.map((shape) => shape.device))
    .flatMap((index) => roofsOf(index, shapes.filter((s) => s.device === index), low, high));
  const unit = most(ys) >= 1e12 ? { size: 1e12, name: "TFLOP/s" } : { size: 1e9, name: "GFLOP/s" };
  const bottom = least(ys) / unit.size / 1.5;
  const top = (most(roofs.map((roof) => roof.top)) / unit.size) * 1.5;
  const line = (known) => Plot.line(
    roofs.filter((roof) => roof.known === known)
      .flatMap((roof) => roof.points.map(([x, y]) => ({ x, y: y / unit.size, roof }))),
    { x: "x", y: "y", z: "roof",
      stroke: ({ roof }) => (roof.memory ? "currentColor" : markColour(kTypes.indexOf(roof.dtype))),
      strokeWidth: 1.5, strokeDasharray: known ? null : "5 4", clip: true });
  const title = (shape) => `${shape.text}\n${rateText(rate(shape))}, ${timeText(shape.ns)}\n` +
    `${digits(intensity(shape))} FLOP/byte${roofOf(shape, (share) => `, ${share} of its roof`)}\n` +
    (shape.joules > 0 ? `${energyText(shape.joules)} a call\n` : "") +
    `${shape.family}${withDevice(view, shape)}`;
  const sorted = [...shapes].sort((a, b) => intensity(a) - intensity(b));
  const dots = { x: intensity, y: (shape) => rate(shape) / unit.size, title };
  return {
    plot: frame(width, Math.min(460, Math.max(320, width * 0.55)), {
      x: { type: "log", domain: [low, high], label: "Arithmetic intensity (FLOP/byte) →" },
      y: { type: "log", domain: [bottom, top], label: `↑ Rate (${unit.name})` },
      symbol: { type: "identity" },
      marks: [
        ...logX(logTicks(low, high), digits), ...logY(logTicks(bottom, top), digits),
        line(true), line(false),
        Plot.dot(sorted, { ...dots, r: 3, fillOpacity: 0.65, className: "shapes",
                           fill: (shape) => markColour(kTypes.indexOf(shape.dtype)),
                           symbol: (shape) => markSymbol(kTypes.indexOf(shape.dtype)) }),
        Plot.tip(sorted, Plot.pointer({ ...dots, ...kTip })),
      ],
    }),
    legend: kTypes.filter((dtype) => shapes.some((shape) => shape.dtype === dtype)), among: kTypes,
    symbols: true,
    stops: sorted.map((shape) =>
      ({ x: intensity(shape), y: rate(shape) / unit.size, text: title(shape) })),
    summary: `${plural(shapes.length, "shape")}, from ${rateText(least(ys))} to ${rateText(most(ys))}.` +
      memoryText(roofs.filter((roof) => roof.memory)),
    notes: roofNotes(roofs),
    columns: [{ name: "Shape" }, { name: "FLOP/byte", figure: true }, { name: "Rate", figure: true },
              { name: "Time", figure: true }, { name: "Of its roof", figure: true },
              { name: "Energy", figure: true }, { name: "Family" }, { name: "Device" }],
    rows: sorted.map((shape) => [shape.text, digits(intensity(shape)), rateText(rate(shape)),
                                 timeText(shape.ns), roofOf(shape), energyText(shape.joules),
                                 shape.family,
                                 deviceName(shape.device)]),
  };
};

/** Shapes with their speedup over the chosen library, or over the fastest where none is chosen. */
const racedShapes = (view) =>
  ofView(view, kMeasured).flatMap((shape) => {
    const times = Object.entries(shape.peers)
      .filter(([peer]) => !view.peer || peer === view.peer).sort((a, b) => a[1] - b[1]);
    return times.length ? [{ ...shape, peer: times[0][0], ratio: times[0][1] / shape.ns }] : [];
  });

/** Round ratios, 1 among them, as far apart as their texts need. */
const ratioTicks = (low, high, room) => {
  const apart = (Math.log(high / low) / room) * 34;
  const ticks = [1];
  for (const tick of [1.1, 1.25, 1.5, 2, 3, 5, 10, 20, 50, 100, 1000])
    if (tick <= high && Math.log(tick / most(ticks)) >= apart) ticks.push(tick);
  for (const tick of [0.9, 0.8, 0.7, 0.5, 0.3, 0.2, 0.1, 0.01])
    if (tick >= low && Math.log(least(ticks) / tick) >= apart) ticks.push(tick);
  return ticks;
};

const speedup = (view, width) => {
  const raced = racedShapes(view);
  if (!raced.length)
    return { empty: "No library was raced on this device: kiln tune --race stores the time of the " +
                    "system's library beside each kernel's, and kiln bench --json > FILE with kiln " +
                    "report --bench FILE shows those of all that are installed." };
  const classes = [...grouped(raced, (shape) => shape.kind)].map(([kind, of]) => {
    const ratios = of.map((shape) => shape.ratio);
    return { kind, count: of.length, mean: geometricMean(ratios), least: least(ratios),
             most: most(ratios), worst: of.reduce((a, b) => (a.ratio < b.ratio ? a : b)).text };
  }).sort((a, b) => inOrder(a.kind, b.kind));
  const order = classes.map((one) => one.kind);
  const low = Math.min(0.9, least(classes.map((one) => one.least)) / 1.05);
  const high = Math.max(1.1, most(classes.map((one) => one.most)) * 1.05);
  const left = 16 + 7 * most(order.map((kind) => kind.length)), right = 64;
  const title = (shape) => `${shape.text}\n${timesText(shape.ratio)} of ${shape.peer}\n` +
    `kiln ${timeText(shape.ns)}${withDevice(view, shape)}`;
  const sorted = raced.sort((a, b) =>
    order.indexOf(a.kind) - order.indexOf(b.kind) || a.ratio - b.ratio);
  const dots = { x: "ratio", y: "kind", title };
  const all = geometricMean(raced.map((shape) => shape.ratio));
  return {
    plot: frame(width, 70 + 40 * order.length, {
      marginLeft: left, marginRight: right,
      x: { type: "log", domain: [low, high], label: "Library’s time / kiln’s time →" },
      y: { domain: order, label: null, padding: 0.3 },
      symbol: { type: "identity" },
      marks: [
        ...logX(ratioTicks(low, high, width - left - right), (tick) => `${tick}×`),
        Plot.ruleX([1], { stroke: "currentColor", strokeDasharray: "4 3" }),
        Plot.dot(sorted, { ...dots, r: 3, fillOpacity: 0.5, className: "shapes",
                           fill: (shape) => markColour(kPeers.indexOf(shape.peer)),
                           symbol: (shape) => markSymbol(kPeers.indexOf(shape.peer)) }),
        Plot.tickX(classes, { x: "mean", y: "kind", strokeWidth: 3, className: "means" }),
        Plot.text(classes, { x: high, y: "kind", text: (one) => timesText(one.mean), dx: 8,
                             textAnchor: "start", fontWeight: 600 }),
        Plot.tip(sorted, Plot.pointer({ ...dots, ...kTip })),
      ],
    }),
    legend: kPeers.filter((peer) => raced.some((shape) => shape.peer === peer)), among: kPeers,
    symbols: true,
    stops: sorted.map((shape) => ({ x: shape.ratio, y: shape.kind, text: title(shape) })),
    summary: `${timesText(all)} over ${view.peer || "the fastest library"} in the geometric mean of ` +
      `${plural(raced.length, "shape")}; ${plural(raced.filter((s) => s.ratio < 1).length, "shape")} ` +
      `below 1.`,
    columns: [{ name: "Class" }, { name: "Shapes", figure: true }, { name: "Mean", figure: true },
              { name: "Worst", figure: true }, { name: "Best", figure: true }, { name: "Worst shape" }],
    rows: classes.map((one) => [one.kind, whole(one.count), timesText(one.mean), timesText(one.least),
                                timesText(one.most), one.worst]),
  };
};

/** Horizontal bars in a row each, its name above it: names may be longer than a phone is wide. */
const stackedBars = (width, rows, parts, names, label) => {
  const total = new Map([...grouped(parts, (part) => part.row)]
    .map(([row, of]) => [row, of.reduce((sum, part) => sum + part.count, 0)]));
  const high = most([...total.values()]);
  const bars = { x1: "from", x2: "to", y: "row", title: "title" };
  const reached = new Map();
  const placed = parts.map((part) => {
    const from = reached.get(part.row) || 0;
    reached.set(part.row, from + part.count);
    return { ...part, from, to: from + part.count };
  });
  return {
    plot: frame(width, 64 + 46 * rows.length, {
      marginLeft: 8, marginRight: 72,
      x: { domain: [0, high], label, grid: true, ticks: width < 500 ? 4 : 8,
           tickFormat: (tick) => whole(tick) },
      y: { domain: rows, axis: null, paddingInner: 0.55, paddingOuter: 0.4 },
      marks: [
        Plot.barX(placed, { ...bars, fill: (part) => markColour(names.indexOf(part.name)),
                            inset: 0, className: "shapes" }),
        Plot.text(rows, { x: 0, y: (row) => row, text: (row) => row, textAnchor: "start", dy: -20,
                          lineWidth: (width - 90) / 12, textOverflow: "ellipsis" }),
        Plot.text(rows, { x: (row) => total.get(row), y: (row) => row, dx: 6, textAnchor: "start",
                          text: (row) => whole(total.get(row)), fontWeight: 600 }),
        Plot.tip(placed, Plot.pointer({ x: (part) => (part.from + part.to) / 2, y: "row",
                                        title: "title", ...kTip })),
      ],
    }),
    legend: names.filter((name) => parts.some((part) => part.name === name)), among: names,
    stops: placed.map((part) => ({ x: (part.from + part.to) / 2, y: part.row, text: part.title })),
  };
};

const failures = (view, width) => {
  const failed = ofView(view, kilnData.failures);
  const measured = kilnData.devices.reduce((sum, device, index) =>
    sum + (view.device === null || view.device === index ? device.measurements : 0), 0);
  if (!failed.length)
    return { empty: measured ? `None of ${plural(measured, "stored candidate")} failed.`
                             : "Nothing is measured on this device: kiln tune keeps every candidate, " +
                               "and why it failed." };
  const parts = [...grouped(failed, (one) => `${one.reason} ${one.family}`).values()].map((of) => ({
    row: of[0].reason, name: of[0].family, count: of.reduce((sum, one) => sum + one.count, 0),
    example: of[0].example,
  })).map((part) => ({ ...part, title: `${part.row}: ${whole(part.count)}\n${part.name}\n` +
                                       `${part.example.slice(0, 120)}` }));
  const total = (of) => of.reduce((sum, part) => sum + part.count, 0);
  const rows = [...grouped(parts, (part) => part.row)]
    .sort((a, b) => total(b[1]) - total(a[1])).map(([row]) => row);
  return {
    ...stackedBars(width, rows, parts, kFamilies, "Candidates →"),
    summary: `${plural(total(parts), "candidate")} of ${whole(measured)} failed ` +
             `(${percentText(total(parts) / measured)}).`,
    columns: [{ name: "Reason" }, { name: "Family" }, { name: "Candidates", figure: true },
              { name: "Example", text: true }],
    rows: parts.map((part) => [part.row, part.name, whole(part.count), part.example]),
  };
};

const kStates = ["winners", "other candidates", "failures"];

const holdings = (view, width) => {
  const devices = kilnData.devices.filter((device, index) =>
    !device.source && (view.device === null || view.device === index));
  if (!devices.length)
    return { empty: "The database holds nothing of this device: kiln tune stores kernels and every " +
                    "measurement." };
  const parts = devices.flatMap((device) => {
    const other = device.measurements - device.winners - device.failures;
    return kStates.map((name, index) => ({
      row: device.name, name, count: [device.winners, other, device.failures][index],
    })).filter((part) => part.count > 0);
  }).map((part) => ({ ...part, title: `${part.row}\n${whole(part.count)} ${part.name}` }));
  return {
    ...stackedBars(width, devices.map((device) => device.name), parts, kStates, "Measurements →"),
    summary: `${plural(devices.length, "device")}, ` +
      `${plural(devices.reduce((sum, device) => sum + device.measurements, 0), "measurement")}. ` +
      (devices.some((device) => device.predicted)
        ? "Kernels of classes of CPUs have predicted times, which are in no other chart." : ""),
    columns: [{ name: "Device" }, { name: "Problems", figure: true }, { name: "Winners", figure: true },
              { name: "Measurements", figure: true }, { name: "Failures", figure: true },
              { name: "Ranges", figure: true }, { name: "First" }, { name: "Last" }],
    rows: devices.map((device) => [device.name, whole(device.problems), whole(device.winners),
      whole(device.measurements), whole(device.failures), whole(device.ranges),
      device.first.slice(0, 10), device.last.slice(0, 10)]),
  };
};
