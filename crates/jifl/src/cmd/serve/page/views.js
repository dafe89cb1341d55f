// SPDX-License-Identifier: MIT OR Apache-2.0
// Which view of the page is seen. The part of the address behind # names it, so that it can be
// linked to, and the browser's keys for back and forth work.
"use strict";
{
  const tabs = [...byId("views").children];

  function see(wanted) {
    const tab = tabs.find((one) => one.dataset.view === wanted) || tabs[0];
    for (const one of tabs) {
      const isSeen = one === tab;
      one.setAttribute("aria-selected", isSeen);
      one.tabIndex = isSeen ? 0 : -1;
      byId(`view-${one.dataset.view}`).hidden = !isSeen;
    }
    // What is drawn knows its size only now.
    dispatchEvent(new Event("resize"));
  }

  byId("views").addEventListener("click", ({ target }) => {
    if (target.dataset.view) location.hash = target.dataset.view;
  });
  byId("views").addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = tabs[(tabs.indexOf(event.target) + step + tabs.length) % tabs.length];
    next.focus();
    location.hash = next.dataset.view;
  });
  addEventListener("hashchange", () => see(location.hash.slice(1)));
  see(location.hash.slice(1));
}
