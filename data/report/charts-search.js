// Charts of searches and ranges: regret, search curves, the landscape over two keys of a config.
"use strict";

const rangeName = (range) => `${range.text} (${deviceName(range.device)})`;
const regretOf = ([, ns, best]) => Math.max(0, ns / best - 1);

const regret = (view, width) => {
  const ranges = ofView(view, kilnData.ranges).filter((range) => range.points.length);
  if (!ranges.length)
    return { empty: "No range has sizes that were also measured alone: kiln tune --shape " +
                    "\"bf16 N T 1..8192 6144 4096\" tunes a range, and kiln bench --any-m --json > " +
                    "FILE with kiln report --bench FILE races sizes of it." };
  const shown = view.range === null || !ranges.includes(kilnData.ranges[view.range])
    ? ranges : [kilnData.ranges[view.range]];
  const points = shown.flatMap((range) => range.points.map((point) => ({
    range, size: point[0], ns: point[1], best: point[2], regret: 100 * regretOf(point),
  })));
  const low = least(points.map((p) => p.size)), high = most(points.map((p) => p.size));
  const title = (p) => `${p.range.size} = ${whole(p.size)}: ${p.regret.toFixed(1)} % slower\n` +
    `${timeText(p.ns)}, alone ${timeText(p.best)}\n${p.range.text}${withDevice(view, p.range)}`;
  const dots = { x: "size", y: "regret", title };
  const single = shown.length === 1;
  const sizes = unique(shown.map((range) => range.size)).join(" or ");
  const mean = geometricMean(points.map((p) => 1 + p.regret / 100)) - 1;
  const worst = points.reduce((a, b) => (a.regret > b.regret ? a : b));
  return {
    plot: frame(width, 300, {
      x: { type: "log", base: 2, domain: low < high ? [low, high] : [low / 2, high * 2],
           label: `${sizes} →` },
      y: { domain: [0, Math.max(5, 1.1 * worst.regret)], grid: true,
           label: "↑ Slower than the fastest known (%)" },
      marks: [
        ...logX(logTicks(low, high, 2), whole),
        Plot.line(points, { x: "size", y: "regret", z: "range", stroke: markColour(0),
                            strokeOpacity: single ? 1 : 0.25 }),
        Plot.dot(points, { ...dots, r: single ? 3 : 2, fill: markColour(0), className: "shapes",
                           fillOpacity: single ? 1 : 0.6 }),
        Plot.tip(points, Plot.pointer({ ...dots, ...kTip })),
      ],
    }),
    stops: points.map((p) => ({ x: p.size, y: p.regret, text: title(p) })),
    summary: `${plural(points.length, "size")} of ${plural(shown.length, "range")}: ` +
      `${percentText(mean)} slower in the mean, at most ${worst.regret.toFixed(1)} % ` +
      `(${worst.range.size} = ${whole(worst.size)} of ${worst.range.text}).`,
    columns: [{ name: "Range" }, { name: "Size", figure: true }, { name: "gemm() runs", figure: true },
              { name: "Fastest known", figure: true }, { name: "Slower", figure: true }],
    rows: points.map((p) => [p.range.text, whole(p.size), timeText(p.ns), timeText(p.best),
                             `${p.regret.toFixed(1)} %`]),
  };
};

/** Share of the best after so many candidates: that of the last step before. */
const shareAfter = (search, count) => {
  let share = 0;
  for (const [at, value] of search.steps) if (at <= count) share = value;
  return share;
};
const median = (values) => {
  const sorted = [...values].sort((a, b) => a - b);
  return (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2;
};

/** What one in fifty is below. */
const lowQuantile = (values) =>
  values.length ? [...values].sort((a, b) => a - b)[Math.floor(values.length / 50)] : 0;

const searchCurves = (view, width) => {
  const searches = kilnData.searches
    .filter((search) => view.device === null || search.device === deviceName(view.device));
  if (!searches.length)
    return { empty: "No search of this device measured 16 candidates or more: kiln tune with a larger " +
                    "--budget measures more." };
  const longest = most(searches.map((search) => search.count));
  const points = searches.flatMap((search, index) => {
    const steps = [...search.steps, [search.count, shareAfter(search, search.count)]];
    return steps.map(([count, share]) => ({ index, count, share: 100 * share }));
  });
  const counts = [];
  for (let count = 1; count <= longest; count = Math.max(count + 1, Math.round(count * 1.1)))
    counts.push(count);
  const middle = counts.map((count) =>
    ({ count, share: 100 * median(searches.map((search) => shareAfter(search, count))) }));
  const title = (p) => `after ${plural(p.count, "candidate")}\nmedian ${p.share.toFixed(1)} % of the best`;
  const after = (count) => percentText(median(searches.map((search) => shareAfter(search, count))));
  const curve = { x: "count", y: "share", curve: "step-after" };
  const found = points.map((p) => p.share).filter((share) => share > 0);
  const floor = Math.min(90, 10 * Math.floor(lowQuantile(found) / 10));
  return {
    plot: frame(width, 320, {
      x: { type: "log", base: 2, domain: [1, longest], label: "Candidates measured →" },
      y: { domain: [floor, 100], grid: true, label: "↑ Best so far, in % of the fastest known" },
      marks: [
        ...logX(logTicks(1, longest, 2), whole),
        Plot.line(points, { ...curve, z: "index", stroke: "var(--mark-6)", strokeOpacity: 0.18,
                            strokeWidth: 1, className: "shapes", clip: true }),
        Plot.line(middle, { ...curve, stroke: markColour(0), strokeWidth: 3, clip: true }),
        Plot.tip(middle, Plot.pointerX({ x: "count", y: "share", title, ...kTip })),
      ],
    }),
    stops: middle.map((p) => ({ x: p.count, y: p.share, text: title(p) })),
    summary: `${plural(searches.length, "search", "searches")} of 16 candidates or more. Half of them ` +
      `were at ${after(8)} of the fastest known, or better, after 8 candidates, at ${after(16)} after ` +
      `16${longest >= 64 ? `, at ${after(64)} after 64` : ""}.`,
    columns: [{ name: "Problem" }, { name: "Candidates", figure: true }, { name: "After 8", figure: true },
              { name: "After 16", figure: true }, { name: "After 64", figure: true }, { name: "Device" }],
    rows: searches.map((search) => [search.text, whole(search.count),
      ...[8, 16, 64].map((count) => percentText(shareAfter(search, count))), search.device]),
  };
};

const kMostValues = 16;

/** Cells of a pair of keys in which a candidate ran; 0 where a key has more values than fit. */
const cellsTimed = (landscape, x, y) => {
  const rows = landscape.rows.filter((row) => row.at(-1) > 0);
  const fits = [x, y].every((key) => unique(rows.map((row) => row[key])).length <= kMostValues);
  return fits ? unique(rows.map((row) => `${row[x]}\n${row[y]}`)).length : 0;
};
/** The two keys to begin with: those asked for, else the pair that the search tried most of. */
const firstAxes = (landscape) => {
  const asked = kilnData.axes.map((key) => landscape.keys.indexOf(key));
  if (asked.length === 2 && asked.every((key) => key >= 0)) return asked;
  let first = [0, 1], count = 0;
  for (let y = 0; y < landscape.keys.length; ++y)
    for (let x = 0; x < y; ++x) {
      const timed = cellsTimed(landscape, x, y);
      if (timed > count) [first, count] = [[x, y], timed];
    }
  return first;
};

const kClasses = [50, 70, 80, 90, 95, 99];
const kClassColours = ["#00224e", "#213b6e", "#4c556c", "#6c6e72", "#8e8978", "#b8a76c", "#fee838"];

const cellsOf = (landscape, x, y) => {
  const fastest = least(landscape.rows.map((row) => row.at(-1)).filter((ns) => ns > 0));
  return [...grouped(landscape.rows, (row) => `${row[x]}\n${row[y]}`).values()].map((rows) => {
    const times = rows.map((row) => row.at(-1)).filter((ns) => ns > 0);
    const ns = times.length ? least(times) : 0;
    return { x: rows[0][x], y: rows[0][y], ns, count: rows.length, share: ns ? (100 * fastest) / ns : 0,
             failed: rows.length - times.length };
  });
};

const landscape = (view, width) => {
  const search = kilnData.landscapes[view.problem];
  if (!search || (view.device !== null && search.device !== view.device))
    return { empty: "No search of this device measured 16 candidates of one family: kiln tune with a " +
                    "larger --budget measures more." };
  const [x, y] = [view.axisX, view.axisY];
  const keys = [search.keys[x], search.keys[y]];
  const cells = cellsOf(search, x, y);
  const columns = unique(cells.map((cell) => cell.x)).sort(inOrder);
  const rows = unique(cells.map((cell) => cell.y)).sort(inOrder).reverse();
  const timed = cells.filter((cell) => cell.ns > 0);
  const title = (cell) => `${keys[0]} = ${cell.x}, ${keys[1]} = ${cell.y}\n` +
    (cell.ns ? `${cell.share.toFixed(1)} % of the fastest, ${timeText(cell.ns)}\n` : "none ran\n") +
    `${plural(cell.count, "candidate")}, ${whole(cell.failed)} failed`;
  const dots = { x: "x", y: "y", title };
  const left = 24 + 8 * most(rows.map((row) => row.length));
  const room = (width - left - 16) / columns.length;
  const best = timed.reduce((a, b) => (a.share > b.share ? a : b));
  const sorted = [...cells].sort((a, b) => inOrder(a.y, b.y) || inOrder(a.x, b.x));
  return {
    plot: frame(width, 80 + 34 * rows.length, {
      marginLeft: left, marginTop: 30,
      x: { type: "band", domain: columns, label: `${keys[0]} →`, padding: 0.04,
           tickRotate: room < 9 * most(columns.map((c) => c.length)) ? -60 : 0 },
      y: { type: "band", domain: rows, label: `↑ ${keys[1]}`, labelAnchor: "top", labelArrow: "none",
           padding: 0.06 },
      color: { type: "threshold", domain: kClasses, range: kClassColours },
      marks: [
        Plot.cell(timed, { ...dots, fill: "share", className: "shapes" }),
        Plot.cell(cells.filter((cell) => !cell.ns), { x: "x", y: "y", fill: "none",
                                                      stroke: "var(--quiet)", strokeDasharray: "3 3" }),
        Plot.text(room > 30 ? timed : [], { x: "x", y: "y", text: (cell) => cell.share.toFixed(0),
          fill: (cell) => (cell.share >= kClasses[3] ? "#000" : "#fff") }),
        Plot.tip(sorted, Plot.pointer({ ...dots, ...kTip })),
      ],
    }),
    ramp: { color: { type: "threshold", domain: kClasses, range: kClassColours },
            label: "Percent of the fastest; dashed: none ran", width: Math.min(width, 320) },
    stops: sorted.map((cell) => ({ x: cell.x, y: cell.y, text: title(cell) })),
    summary: `${plural(search.rows.length, "candidate")} of ${search.family} for ${search.text} on ` +
      `${deviceName(search.device)}. The fastest: ${keys[0]} = ${best.x}, ${keys[1]} = ${best.y}, ` +
      `${timeText(best.ns)}.`,
    columns: [{ name: keys[0], figure: true }, { name: keys[1], figure: true },
              { name: "Fastest", figure: true }, { name: "Of the best", figure: true },
              { name: "Candidates", figure: true }, { name: "Failed", figure: true }],
    rows: sorted.map((cell) => [cell.x, cell.y, cell.ns ? timeText(cell.ns) : "–",
      cell.ns ? `${cell.share.toFixed(1)} %` : "–", whole(cell.count), whole(cell.failed)]),
  };
};
