// SPDX-License-Identifier: MIT OR Apache-2.0
// What all views of the page share: requests to the daemon, its events, and how values are written.
// docs/serve.md describes the protocol.
"use strict";

const token = new URLSearchParams(location.search).get("token");
const byId = (id) => document.getElementById(id);

const count = (value) => value === null ? "-" : Math.round(value).toLocaleString("en");
const number = (value) => value === null ? "-" : value.toFixed(3);
const time = (value) => {
  if (value === null) return "-";
  for (const [unit, scale] of [["s", 1e9], ["ms", 1e6], ["us", 1e3]]) {
    if (value >= scale) return `${(value / scale).toFixed(value < 10 * scale ? 1 : 0)} ${unit}`;
  }
  return `${Math.round(value)} ns`;
};

function name(one) {
  return one.module ? `${one.function} [${one.module}]` : one.function;
}

function say(state) { byId("state").textContent = state; }

function fail(text) {
  byId("error").textContent = text;
  byId("error").hidden = !text;
}

async function ask(method, path, body, signal) {
  const headers = {};
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body) headers["Content-Type"] = "application/json";
  const answer = await fetch(path, { method, headers, body: body && JSON.stringify(body), signal,
                                     cache: "no-store" });
  if (answer.ok) return answer;
  let why = `${answer.status}`;
  try { why = (await answer.json()).error; } catch { /* no JSON: the status says it */ }
  throw new Error(why);
}

// Reads the events of an answer until there are no more. take: their names and data.
async function read(answer, take) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let kept = [];   // pieces of an event that has not ended: it may be large, so all are joined once
  let end = "";    // the line feed with which the last of them ended: the next may begin with another
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const pieces = (end + value).split("\n\n");
    const last = pieces.pop();
    end = last.endsWith("\n") ? "\n" : "";
    const events = pieces.map((piece) => {
      const whole = kept.concat(piece).join("");
      kept = [];
      return whole;
    });
    kept.push(end ? last.slice(0, -1) : last);
    for (const piece of events) {
      const field = (key) => piece.split("\n").filter((line) => line.startsWith(`${key}: `))
        .map((line) => line.slice(key.length + 2)).join("");
      const data = field("data");
      if (data) take(field("event"), JSON.parse(data));
    }
  }
}

// Work that one button begins and ends: its events come to take, which may be called late. The
// daemon ends it with the connection.
class Work {
  // button: its text is label while nothing runs.
  constructor(button, label) {
    this.button = byId(button);
    this.label = label;
    this.running = null;
  }

  // begin: orders it with a signal that ends it, and returns the answer with the events.
  async toggle(begin, take) {
    if (this.running) { this.stop(); say("stopped"); return; }
    const mine = this.running = new AbortController();
    fail("");
    say("starting");
    this.button.textContent = "Stop";
    try {
      const answer = await begin(mine.signal);
      say("running");
      await read(answer, (event, data) => {
        if (event === "error") fail(data.error);
        take(event, data);
      });
      say("ended");
    } catch (error) {
      if (mine.signal.aborted) return;
      fail(error.message);
      say("not running");
    }
    if (this.running === mine) this.stop();
  }

  stop() {
    if (!this.running) return;
    this.running.abort();
    this.running = null;
    this.button.textContent = this.label;
  }
}

// A number of a field, or nothing.
function numberOf(id) {
  const text = byId(id).value.trim();
  return text ? Number(text) : undefined;
}

// An element with a class and what is in it: elements, or text.
function element(kind, name, ...inside) {
  const made = document.createElement(kind);
  if (name) made.className = name;
  made.append(...inside);
  return made;
}
