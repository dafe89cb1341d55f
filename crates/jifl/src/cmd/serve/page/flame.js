// SPDX-License-Identifier: MIT OR Apache-2.0
// The view "flame": counts by call path, drawn as a flame graph with its root at the top. A box is a
// function as it is called on one path, as wide as its part of all. Boxes that are too narrow to be
// seen are not drawn until their caller is enlarged.
"use strict";
{
  const LINE = 18, NARROWEST = 1, LETTER = 6.6, COLORS = 6;
  const work = new Work("flame-start", "Count");
  let root = null;     // the box of all
  let top = null;      // the box that is as wide as the view
  let at = null;       // the box that keys are about
  let unit = "";
  let file = null;     // the address of the folded text

  const box = (name, up) => ({ name, up, value: 0, inside: new Map(), depth: up ? up.depth + 1 : 0 });

  // Lines of `OUTER;INNER NUMBER` as a tree; a box has the values of all that are inside.
  function parse(text) {
    const all = box("all", null);
    for (const line of text.split("\n")) {
      const cut = line.lastIndexOf(" ");
      if (cut < 0) continue;
      const value = Number(line.slice(cut + 1));
      let node = all;
      node.value += value;
      for (const part of line.slice(0, cut).split(";")) {
        let next = node.inside.get(part);
        if (!next) node.inside.set(part, next = box(part, node));
        next.value += value;
        node = next;
      }
    }
    return all;
  }

  const parts = (node) => [...node.inside.values()].sort((a, b) => b.value - a.value);
  const percent = (value) => root.value ? (value / root.value * 100).toFixed(2) : "0";
  const amount = (value) => unit === "nanoseconds" ? time(value) : `${count(value)} ${unit}`;
  const told = (node) => `${node.name}: ${amount(node.value)}, ${percent(node.value)} %`;

  // The same name has the same color.
  function color(name) {
    let hash = 0;
    for (const letter of name) hash = (hash * 31 + letter.charCodeAt(0)) >>> 0;
    return `c${hash % COLORS}`;
  }

  function make(kind, attributes) {
    const made = document.createElementNS(byId("flame").namespaceURI, kind);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    return made;
  }

  function draw() {
    const svg = byId("flame");
    const width = svg.clientWidth || svg.parentNode.clientWidth;
    if (!root || !width) return;
    const sought = byId("flame-find").value.trim().toLowerCase();
    const isFound = (node) => sought && node.name.toLowerCase().includes(sought);
    const drawn = [];
    let deepest = 0;
    const add = (node, x, wide, level) => {
      deepest = Math.max(deepest, level);
      const group = make("g", { class: `${color(node.name)}${isFound(node) ? " found" : ""}` +
        `${node === at ? " at" : ""}` });
      group.append(make("rect", { x, y: level * LINE, width: Math.max(0.5, wide - 0.5), height: LINE - 1 }));
      const letters = Math.floor((wide - 6) / LETTER);
      if (letters >= 3) {
        const text = make("text", { x: x + 3, y: level * LINE + 13 });
        text.textContent = node.name.length > letters ? `${node.name.slice(0, letters - 1)}\u2026` : node.name;
        group.append(text);
      }
      const title = make("title", {});
      title.textContent = told(node);
      group.append(title);
      group.box = node;
      drawn.push(group);
    };
    const down = (node, x, wide, level) => {
      add(node, x, wide, level);
      let from = x;
      for (const part of parts(node)) {
        const own = wide * part.value / node.value;
        if (own < NARROWEST) break;
        down(part, from, own, level + 1);
        from += own;
      }
    };
    const above = [];
    for (let up = top.up; up; up = up.up) above.unshift(up);
    above.forEach((node, level) => add(node, 0, width, level));
    down(top, 0, width, above.length);
    svg.replaceChildren(...drawn);
    svg.setAttribute("height", (deepest + 1) * LINE);
    svg.setAttribute("aria-label", `Flame graph, ${told(top)}. Arrow keys move, Enter enlarges, ` +
      "Escape makes smaller.");
    byId("flame-at").textContent = told(at) + found(sought, isFound);
  }

  // How much of all is in boxes that match: of one inside of another only the outer counts.
  function found(sought, isFound) {
    if (!sought) return "";
    const of = (node) => isFound(node) ? node.value
      : [...node.inside.values()].reduce((all, one) => all + of(one), 0);
    const all = of(root);
    return `; "${sought}" has ${amount(all)}, ${percent(all)} %`;
  }

  function enlarge(node) {
    top = at = node;
    draw();
  }

  function take(event, data) {
    if (event !== "end") return;
    root = parse(data.folded);
    unit = data.unit;
    byId("flame-notes").textContent = `${count(data.calls)} calls in ${time(data.elapsed_ns)}; ` +
      `missed ${data.missed}, without a path ${data.without_path}, stray returns ${data.stray_returns}` +
      (data.unit === "nanoseconds" ? `, without times ${data.without_times}` : "") +
      (data.cut_short ? "; ended early" : "");
    if (file) URL.revokeObjectURL(file);
    file = URL.createObjectURL(new Blob([data.folded], { type: "text/plain" }));
    byId("flame-file").href = file;
    byId("flame-file").hidden = !data.folded;
    enlarge(root);
  }

  byId("flame-order").addEventListener("submit", (event) => {
    event.preventDefault();
    const pid = numberOf("flame-pid");
    byId("flame-at").textContent = "";
    work.toggle((signal) => ask("POST", "v1/paths", {
      targets: byId("flame-targets").value.split(/[\s,]+/).filter(Boolean),
      metric: byId("flame-metric").value,
      for_ms: Number(byId("flame-for").value),
      filters: pid === undefined ? {} : { pid },
    }, signal), take);
  });
  byId("flame-find").addEventListener("input", draw);
  byId("flame").addEventListener("click", ({ target }) => {
    const node = target.closest("g")?.box;
    if (node) enlarge(node);
  });
  byId("flame").addEventListener("keydown", (event) => {
    if (!at) return;
    const beside = (step) => {
      const all = at.up && at !== top ? parts(at.up) : [at];
      return all[all.indexOf(at) + step] ?? at;
    };
    if (event.key === "ArrowDown") at = parts(at)[0] ?? at;
    else if (event.key === "ArrowUp") at = at.up ?? at;
    else if (event.key === "ArrowLeft") at = beside(-1);
    else if (event.key === "ArrowRight") at = beside(1);
    else if (event.key === "Enter") top = at;
    else if (event.key === "Escape" || event.key === "Backspace") top = at = top.up ?? top;
    else return;
    event.preventDefault();
    // What is not below the widest box is not seen.
    for (let up = at; up !== top; up = up.up) if (!up) { top = at; break; }
    draw();
  });
  addEventListener("resize", draw);
}
