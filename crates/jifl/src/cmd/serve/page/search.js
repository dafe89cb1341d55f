// SPDX-License-Identifier: MIT OR Apache-2.0
// The view "search": has the daemon search for the bottleneck, and draws the tree of tested
// hypotheses as it grows.
"use strict";
{
  const VERDICTS = { true: "true", false: "false", "not tested": "untested" };
  const UNITS = { processors: "processors", tasks: "tasks", rate: "a second" };
  const closed = new Set();   // tests whose parts the reader has closed, by their paths
  const work = new Work("search-start", "Search");

  const value = (test) => {
    if (test.value === null) return test.why;
    const digits = test.unit === "rate" ? 0 : 2;
    return `${test.value.toFixed(digits)} ${UNITS[test.unit] ?? test.unit}, ` +
      `threshold ${test.threshold.toFixed(digits)}`;
  };

  // What one test is, without those below it.
  function line(test) {
    const verdict = element("span", `verdict ${VERDICTS[test.verdict] ?? ""}`, test.verdict);
    const parts = [verdict, element("strong", "", test.name), element("span", "", value(test))];
    if (test.share !== null && test.share !== undefined) {
      const bar = element("meter");
      bar.value = test.share;
      const percent = `${Math.round(test.share * 100)} % of all time`;
      bar.title = percent;
      parts.push(bar, element("span", "faint", percent));
    }
    return parts;
  }

  function details(test) {
    const lines = [test.about];
    if (test.site) lines.push(`at ${test.site}${test.line ? `  ${test.line}` : ""}`);
    if (test.objects.length) lines.push(test.objects.join("; "));
    if (test.path.length) lines.push(`from ${test.path.join(" < ")}`);
    return lines.map((text) => element("p", "faint", text));
  }

  function branch(test, path) {
    const own = `${path}/${test.name}`;
    const inside = element("details");
    inside.open = test.verdict === "true" && !closed.has(own);
    inside.addEventListener("toggle", () => {
      if (inside.open) closed.delete(own); else closed.add(own);
    });
    inside.append(element("summary", "", ...line(test)), ...details(test));
    if (test.tests.length) inside.append(list(test.tests, own));
    return element("li", "", inside);
  }

  const list = (tests, path) => element("ul", "tree", ...tests.map((one) => branch(one, path)));

  function draw({ report }) {
    const sofar = report.doing ? "so far: " : "finding: ";
    byId("sentence").textContent = sofar + report.sentence;
    const seconds = (report.elapsed_ns / 1e9).toFixed(1);
    byId("doing").textContent = report.doing ? `${seconds} s: ${report.doing}`
      : `${seconds} s; cost ${(report.cost * 100).toFixed(2)} % of ${report.processors} processors, ` +
        `budget ${(report.budget * 100).toFixed(2)} %` +
        (report.cut_short ? `; ended early: ${report.cut_short}` : "");
    const focused = document.activeElement?.closest("#tree li");
    const all = () => [...byId("tree").querySelectorAll("summary")];
    const at = focused ? all().findIndex((one) => focused.contains(one)) : -1;
    byId("tree").replaceChildren(list(report.tests, ""));
    all()[at]?.focus();
  }

  byId("search-order").addEventListener("submit", (event) => {
    event.preventDefault();
    if (!work.running) closed.clear();
    work.toggle((signal) => ask("POST", "v1/search", {
      for_ms: numberOf("search-for"),
      budget: numberOf("search-budget"),
      pid: numberOf("search-pid"),
    }, signal), (event, data) => {
      if (event === "tree" || event === "end") draw(data);
    });
  });
}
