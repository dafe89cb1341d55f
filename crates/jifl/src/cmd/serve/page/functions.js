// SPDX-License-Identifier: MIT OR Apache-2.0
// The view "functions": orders a session, reads its events, shows the figures of the last interval as
// a table and those of one function as curves.
"use strict";

const KEPT = 300;   // intervals

// --- what is shown of a row: figures of an interval, from differences of two sums ---------------

const share = (now, part) => now.elapsed_ns > 0 ? part / now.elapsed_ns : null;
const COLUMNS = [
  { title: "concurrency", about: "tasks inside, on average", text: number, color: "--accent",
    of: (now) => share(now, now.wall_ns) },
  { title: "calls/s", about: "calls that began", text: count, color: "--accent",
    of: (now) => now.elapsed_ns > 0 ? now.calls * 1e9 / now.elapsed_ns : null },
  { title: "wall/call", about: "from a call's beginning to its end", text: time, color: "--accent",
    of: (now) => now.calls > 0 ? now.wall_ns / now.calls : null },
  { title: "cpu", about: "tasks that run", text: number, color: "--cpu",
    of: (now) => share(now, now.cpu_ns) },
  { title: "blocked", about: "tasks that sleep", text: number, color: "--blocked",
    of: (now) => share(now, now.blocked_ns) },
  { title: "runnable", about: "tasks that could run and do not", text: number, color: "--runnable",
    of: (now) => share(now, now.runnable_ns) },
];
const GROWING = ["calls", "wall_ns", "cpu_ns", "blocked_ns", "runnable_ns", "elapsed_ns"];

// --- the state ------------------------------------------------------------------------------------

let session = null;         // what the daemon has answered
let reading = null;         // ends the reading of events
let sums = new Map();       // by row: the last sums
let elapsed = 0;            // until then, nanoseconds
let history = new Map();    // by row: [seconds, figures of the interval]
let moment = [];            // what the table shows: [row, name, figures]
let paused = false, sort = 0, chosen = null, dropped = 0, missed = 0;

// --- the session ------------------------------------------------------------------------------------

async function start() {
  await stop();
  fail("");
  say("starting");
  const order = {
    resources: byId("resources").value.split(/[\s,]+/).filter(Boolean),
    interval_ms: Number(byId("interval").value),
    lenient: true,
  };
  const pid = byId("pid").value.trim();
  if (pid) order.filters = { pid: Number(pid) };
  const mine = reading = new AbortController();
  try {
    session = await (await ask("POST", "v1/stat", order, mine.signal)).json();
    sums = new Map(); history = new Map(); moment = []; elapsed = 0; dropped = 0; missed = 0;
    chosen = null;
    say(`session ${session.id}: ${session.functions.length} functions`);
    byId("notes").textContent = session.left_out;
    byId("start").textContent = "Stop";
    byId("pause").disabled = false;
    await read(await ask("GET", `v1/stat/${session.id}/events`, null, mine.signal), take);
    say("ended");
  } catch (error) {
    if (mine.signal.aborted) return;
    fail(error.message);
    say("not running");
  }
  if (reading === mine) over();
}

function over() {
  reading = null;
  session = null;
  byId("start").textContent = "Start";
  byId("pause").disabled = true;
}

// The session ends with the connection.
async function stop() {
  if (!reading) return;
  reading.abort();
  over();
  say("stopped");
}

function take(event, data) {
  if (event === "dropped") dropped += data.samples;
  if (event === "error") fail(data.error);
  if (event !== "rows") return;
  missed = data.missed + data.unwatched;
  const seconds = data.elapsed_ns / 1e9;
  const now = [];
  for (const one of data.functions) {
    const before = sums.get(one.row);
    const figures = {};
    for (const key of GROWING) figures[key] = Math.max(0, one[key] - (before ? before[key] : 0));
    // A function that came only now had nothing until then.
    if (!before) figures.elapsed_ns = Math.max(1, data.elapsed_ns - elapsed);
    sums.set(one.row, one);
    let points = history.get(one.row);
    if (!points) history.set(one.row, points = []);
    points.push([seconds, figures]);
    if (points.length > KEPT) points.shift();
    now.push([one.row, name(one), figures]);
  }
  elapsed = data.elapsed_ns;
  if (paused) return;
  moment = now;
  show();
}

// --- the screen -------------------------------------------------------------------------------------

function show() {
  const filter = byId("filter").value.toLowerCase();
  const column = COLUMNS[sort];
  const rows = moment.filter(([, name]) => name.toLowerCase().includes(filter));
  rows.sort((a, b) => (column.of(b[2]) ?? -1) - (column.of(a[2]) ?? -1) || a[1].localeCompare(b[1]));
  if (chosen === null && rows.length) chosen = rows[0][0];
  const body = byId("rows");
  while (body.rows.length > rows.length) body.deleteRow(-1);
  rows.forEach(([row, name, figures], at) => {
    const line = body.rows[at] || newLine(body);
    line.dataset.row = row;
    line.className = row === chosen ? "chosen" : "";
    line.cells[0].firstChild.textContent = name;
    line.cells[0].title = name;
    COLUMNS.forEach((one, index) => {
      line.cells[index + 1].textContent = one.text(one.of(figures));
    });
  });
  const lost = dropped ? `; ${dropped} intervals came too late and were left out` : "";
  if (session) {
    byId("notes").textContent = `${session.left_out ? session.left_out + "; " : ""}missed ${missed}${lost}`;
  }
  curves();
}

function newLine(body) {
  const line = body.insertRow();
  line.insertCell().append(document.createElement("button"));
  COLUMNS.forEach(() => line.insertCell());
  return line;
}

function curves() {
  const points = history.get(chosen) || [];
  const last = sums.get(chosen);
  byId("chosen").textContent = last ? name(last) : "Choose a function";
  byId("chosen-more").hidden = !last;
  const span = Math.max(30, Number(byId("interval").value) / 1000 * 60);
  COLUMNS.forEach((one, at) => {
    const figure = byId("plots").children[at];
    const own = points.map(([seconds, figures]) => [seconds, one.of(figures)]);
    const now = own.length ? one.text(own[own.length - 1][1]) : "-";
    figure.lastChild.textContent = `${one.title}: ${now}`;
    drawCurve(figure.firstChild, own, span, one.text, one.color);
  });
}

function titles() {
  const line = byId("titles");
  line.replaceChildren(document.createElement("th"));
  line.firstChild.textContent = "function";
  COLUMNS.forEach((one, at) => {
    const title = document.createElement("th");
    const button = document.createElement("button");
    button.type = "button";
    button.title = one.about;
    button.textContent = one.title + (at === sort ? " \u25be" : "");
    button.addEventListener("click", () => { sort = at; titles(); show(); });
    title.setAttribute("aria-sort", at === sort ? "descending" : "none");
    title.append(button);
    line.append(title);
  });
}

function frame() {
  COLUMNS.forEach(() => {
    const figure = document.createElement("figure");
    figure.append(document.createElement("canvas"), document.createElement("figcaption"));
    byId("plots").append(figure);
  });
  titles();
  byId("order").addEventListener("submit", (event) => {
    event.preventDefault();
    if (reading) stop(); else start();
  });
  byId("filter").addEventListener("input", show);
  byId("pause").addEventListener("click", () => {
    paused = !paused;
    byId("pause").textContent = paused ? "Go on" : "Pause";
  });
  byId("rows").addEventListener("click", (event) => {
    const line = event.target.closest("tr");
    if (line) { chosen = Number(line.dataset.row); show(); }
  });
  for (const [link, field, pid] of [["chosen-heat", "heat-function", "heat-pid"],
                                    ["chosen-flame", "flame-targets", "flame-pid"]]) {
    byId(link).addEventListener("click", () => {
      const last = sums.get(chosen);
      byId(field).value = `fn:${last.function}${last.module ? `@${last.module}` : ""}`;
      byId(pid).value = byId("pid").value;
    });
  }
  for (const id of ["resources", "heat-function"]) byId(id).addEventListener("input", suggest);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  addEventListener("resize", curves);
}

// Functions whose names begin with the last word.
let asked = 0;
async function suggest(event) {
  const words = event.target.value.split(" ");
  const word = words.pop();
  const mine = ++asked;
  if (word.replace("fn:", "").length < 3 || word.includes("*")) return;
  await new Promise((resolve) => setTimeout(resolve, 250));
  if (mine !== asked) return;
  try {
    const found = await (await ask("GET", `v1/functions?glob=${encodeURIComponent(word + "*")}`)).json();
    byId("names").replaceChildren(...found.functions.slice(0, 30).map((one) => {
      const option = document.createElement("option");
      option.value = [...words, one.word].join(" ");
      return option;
    }));
  } catch { /* no such function: nothing to suggest */ }
}

frame();
ask("GET", "v1/info").then((answer) => answer.json()).then((info) => {
  byId("host").textContent = `Linux ${info.kernel}, ${info.clients} of ${info.max_clients} clients`;
}).catch((error) => fail(error.message));
