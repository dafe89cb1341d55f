// SPDX-License-Identifier: MIT OR Apache-2.0
// The view "latencies": how long calls of a function took, over time. A column is an interval, a
// line a power of two of nanoseconds, and the colour says how many calls. The table beside it has
// the numbers of one interval, and of all.
"use strict";
{
  const COLUMNS_KEPT = 240;
  const OF = ["wall", "cpu", "blocked", "runnable"];   // in the order of the metrics
  const work = new Work("heat-start", "Start");
  let before = [];    // of each metric: sums by bucket, at the last event
  let columns = [];   // of each interval: seconds at its end, and of each metric counts by bucket
  let at = null;      // the interval that the table shows; null: the last
  let row = 0;        // the function's number in the session: others of the order are not shown
  let title = "";

  // Values whose numbers have so many bits: from, and below.
  const low = (bits) => bits === 0 ? 0 : 2 ** (bits - 1);
  const range = (bits) => bits > 64 ? "below 0" : `${time(low(bits))} to ${time(2 ** bits)}`;

  function take(event, data) {
    if (event !== "rows" && event !== "end") return;
    const own = data.functions.find((one) => one.row === row);
    const counts = OF.map((_, metric) => {
      const now = own?.distributions?.[metric] ?? [];
      const then = before[metric] ?? [];
      before[metric] = now;
      return now.map((value, bits) => Math.max(0, value - (then[bits] ?? 0)));
    });
    columns.push([data.elapsed_ns / 1e9, counts]);
    if (columns.length > COLUMNS_KEPT) {
      columns.shift();
      if (at !== null) at = Math.max(0, at - 1);
    }
    show();
  }

  const metric = () => Math.max(0, OF.indexOf(byId("heat-of").value));
  const sum = (values) => values.reduce((all, value) => all + value, 0);

  // The power of two below which this share of the values is.
  function quantile(counts, share) {
    const all = sum(counts);
    let seen = 0;
    for (let bits = 0; bits < counts.length; bits++) {
      seen += counts[bits];
      if (all > 0 && seen >= all * share) return `below ${time(2 ** bits)}`;
    }
    return "-";
  }

  function show() {
    const which = metric();
    const totals = [];
    for (const [, counts] of columns) {
      counts[which].forEach((value, bits) => { totals[bits] = (totals[bits] ?? 0) + value; });
    }
    const used = totals.map((value, bits) => value > 0 ? bits : -1).filter((bits) => bits >= 0);
    const index = at ?? columns.length - 1;
    const [seconds, own] = columns[index] ?? [0, OF.map(() => [])];
    byId("heat-title").textContent = title;
    byId("heat-at").textContent = columns.length
      ? `interval that ended at ${seconds.toFixed(2)} s: ${count(sum(own[which]))} calls, ` +
        `half of them ${quantile(own[which], 0.5)}, 99 % ${quantile(own[which], 0.99)}`
      : "no interval yet";
    const lines = used.slice().reverse().map((bits) => element("tr", "",
      element("td", "", range(bits)), element("td", "", count(own[which][bits] ?? 0)),
      element("td", "", count(totals[bits]))));
    byId("heat-rows").replaceChildren(...lines);
    draw(used, index);
  }

  function draw(used, index) {
    const sheet = beginDrawing(byId("heat"));
    if (!sheet) return;
    const { to, width, height } = sheet;
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(name);
    if (!used.length) return;
    const which = metric();
    const [first, last] = [used[0], used[used.length - 1]];
    const lines = last - first + 1;
    const left = 62, bottom = height - 16, top = 2;
    const each = bottom - top, step = each / lines;
    const wide = Math.max(2, Math.min(16, (width - left) / Math.max(60, columns.length)));
    const most = Math.max(1, ...columns.map(([, counts]) => Math.max(0, ...counts[which])));
    const x = (column) => width - (columns.length - column) * wide;
    const y = (bits) => bottom - (bits - first + 1) * step;
    to.fillStyle = color("--accent");
    columns.forEach(([, counts], column) => {
      if (x(column) < left) return;
      counts[which].forEach((value, bits) => {
        if (!value) return;
        to.globalAlpha = 0.15 + 0.85 * Math.log1p(value) / Math.log1p(most);
        to.fillRect(x(column), y(bits), wide, step);
      });
    });
    to.globalAlpha = 1;
    to.fillStyle = color("--faint");
    const every = Math.max(1, Math.ceil(14 / step));
    for (let bits = first; bits <= last; bits += every) {
      to.fillText(time(low(bits)), 0, y(bits) + step);
    }
    to.fillText(`${columns.length} intervals; darkest: ${count(most)} calls`, left, height - 4);
    to.strokeStyle = color("--text");
    to.strokeRect(x(index) + 0.5, top + 0.5, wide - 1, each - 1);
  }

  byId("heat-order").addEventListener("submit", (event) => {
    event.preventDefault();
    const word = byId("heat-function").value.trim();
    const order = {
      resources: [word.includes(":") ? word : `fn:${word}`],
      metrics: ["calls", ...OF.map((one) => `hist:${one}`)],
      interval_ms: Number(byId("heat-interval").value),
    };
    const pid = numberOf("heat-pid");
    if (pid !== undefined) order.filters = { pid };
    work.toggle(async (signal) => {
      const begun = await (await ask("POST", "v1/stat", order, signal)).json();
      before = []; columns = []; at = null;
      row = begun.functions[0].row;
      title = begun.functions.length === 1 ? name(begun.functions[0])
        : `${name(begun.functions[0])}, the first of ${begun.functions.length}`;
      show();
      return ask("GET", `v1/stat/${begun.id}/events`, null, signal);
    }, take);
  });
  byId("heat-of").addEventListener("change", show);
  byId("heat").addEventListener("click", (event) => {
    const wide = Math.max(2, Math.min(16, (byId("heat").clientWidth - 62) / Math.max(60, columns.length)));
    const back = Math.ceil((byId("heat").clientWidth - event.offsetX) / wide);
    at = Math.max(0, Math.min(columns.length - 1, columns.length - back));
    show();
  });
  byId("heat").addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: -1, ArrowRight: 1, Home: -COLUMNS_KEPT, End: COLUMNS_KEPT };
    if (event.key === "Escape") at = null;
    else if (event.key in steps && columns.length) {
      const next = (at ?? columns.length - 1) + steps[event.key];
      at = next >= columns.length ? null : Math.max(0, next);
    } else return;
    event.preventDefault();
    show();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  addEventListener("resize", show);
}
