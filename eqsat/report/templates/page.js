"use strict";
const all = (selector, within = document) => [...within.querySelectorAll(selector)];

// ---- light or dark: as the system has it, until somebody chooses
const root = document.documentElement;
const kept = { get: () => { try { return localStorage.getItem("eqsat-theme"); } catch { return null; } },
               set: (value) => { try { localStorage.setItem("eqsat-theme", value); } catch { /* files may keep nothing */ } } };
if (["light", "dark"].includes(kept.get())) root.dataset.theme = kept.get();
for (const button of all("button.theme")) {
  button.hidden = false;
  button.onclick = () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    kept.set(root.dataset.theme);
  };
}

// ---- tables: a click on a heading sorts, the field above filters
const valueOf = (row, column) => {
  const text = row.cells[column]?.textContent.trim() ?? "";
  const number = parseFloat(text.replace(/[,\s]/g, ""));
  return Number.isNaN(number) ? text : number;
};
const compare = (a, b) => typeof a === typeof b ? (typeof a === "number" ? a - b : a.localeCompare(b)) : typeof a === "number" ? -1 : 1;
for (const table of all("table.sortable")) {
  const headings = all("thead th", table);
  headings.forEach((heading, column) => {
    heading.setAttribute("aria-sort", "none");
    heading.tabIndex = 0;
    const sort = () => {
      const up = heading.ariaSort === "descending" || (heading.ariaSort === "none" && heading.classList.contains("text"));
      headings.forEach((other) => { other.ariaSort = "none"; });
      heading.ariaSort = up ? "ascending" : "descending";
      for (const body of table.tBodies) {
        body.append(...[...body.rows].sort((a, b) => (up ? 1 : -1) * compare(valueOf(a, column), valueOf(b, column))));
      }
    };
    heading.onclick = sort;
    heading.onkeydown = (event) => { if (event.key === "Enter") sort(); };
  });
  if (all("tbody tr", table).length > 8) {
    const field = Object.assign(document.createElement("input"), { type: "search", className: "filter", placeholder: "filter rows" });
    field.setAttribute("aria-label", "filter the rows of the table below");
    field.oninput = () => {
      const words = field.value.toLowerCase().split(/\s+/);
      for (const row of all("tbody tr", table)) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
    };
    table.closest(".scroll").before(field);
  }
}

// ---- graphs: buttons and Ctrl with the wheel zoom, dragging moves, a click shows what belongs together
const shownPanes = (view) => all(".pane:not([hidden])", view);
const zoom = (pane, factor, x = pane.clientWidth / 2, y = pane.clientHeight / 2) => {
  const svg = pane.querySelector("svg"), natural = svg.viewBox.baseVal;
  const old = svg.getBoundingClientRect().width / natural.width, now = Math.min(4, Math.max(0.02, old * factor));
  const [left, top] = [pane.scrollLeft + x, pane.scrollTop + y];
  svg.setAttribute("width", natural.width * now);
  svg.setAttribute("height", natural.height * now);
  pane.scrollTo(left * now / old - x, top * now / old - y);
};
const fit = (panes, whole) => {
  // One factor, so that an operator has the same size left and right.
  const factor = Math.min(...panes.map((pane) => {
    const natural = pane.querySelector("svg").viewBox.baseVal, wide = (pane.clientWidth - 4) / natural.width;
    return whole ? Math.min(wide, (pane.clientHeight - 4) / natural.height) : Math.min(1, Math.max(wide, 0.35));
  }));
  for (const pane of panes) {
    const svg = pane.querySelector("svg");
    svg.setAttribute("width", svg.viewBox.baseVal.width);
    zoom(pane, factor, 0, 0);
    pane.scrollTo((pane.scrollWidth - pane.clientWidth) / 2, 0);
  }
};
const pick = (modules) => {
  const belongs = (element, list) => list.split("\n").some((module) => modules.includes(module)) && element;
  for (const box of all("svg.graph g[data-modules]")) box.classList.toggle("picked", Boolean(belongs(box, box.dataset.modules)));
  for (const row of all("tr[data-module]")) row.classList.toggle("picked", modules.includes(row.dataset.module));
};
const reveal = (pane) => {
  const box = pane.querySelector("g.picked");
  if (!box) return;
  const [inner, outer] = [box.getBoundingClientRect(), pane.getBoundingClientRect()];
  pane.scrollBy({ left: inner.left - outer.left - (pane.clientWidth - inner.width) / 2, top: inner.top - outer.top - pane.clientHeight / 3, behavior: "smooth" });
};
for (const view of all(".view")) {
  const zoomAll = (panes, factor) => panes.forEach((pane) => zoom(pane, factor));
  const act = { in: (panes) => zoomAll(panes, 1.3), out: (panes) => zoomAll(panes, 1 / 1.3), whole: (panes) => fit(panes, true), width: (panes) => fit(panes, false) };
  for (const button of all("button[data-act]", view)) button.onclick = () => act[button.dataset.act](shownPanes(view));
  for (const choice of all("select", view)) choice.onchange = () => {
    all(".side:first-child .pane", view).forEach((pane) => { pane.hidden = pane.dataset.graph !== choice.value; });
    fit(shownPanes(view), false);
  };
  for (const pane of all(".pane", view)) {
    let from = null, moved = false;
    pane.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const place = pane.getBoundingClientRect();
      zoom(pane, Math.exp(-event.deltaY / 400), event.clientX - place.left, event.clientY - place.top);
    }, { passive: false });
    pane.onpointerdown = (event) => { if (event.button === 0 && event.pointerType === "mouse") { from = [event.clientX, event.clientY, pane.scrollLeft, pane.scrollTop]; moved = false; } };
    pane.onpointermove = (event) => {
      if (!from) return;
      moved ||= Math.hypot(event.clientX - from[0], event.clientY - from[1]) > 4;
      if (moved) { pane.classList.add("moving"); pane.scrollTo(from[2] - event.clientX + from[0], from[3] - event.clientY + from[1]); }
    };
    pane.onpointerup = pane.onpointerleave = () => { from = null; pane.classList.remove("moving"); };
    pane.onclick = (event) => {
      const box = event.target.closest("g[data-modules]");
      if (moved) return;
      pick(box ? box.dataset.modules.split("\n") : []);
      if (box) shownPanes(view).filter((other) => other !== pane).forEach(reveal);
    };
  }
  fit(shownPanes(view), false);
}
for (const row of all("tr[data-module]")) row.onclick = () => {
  const again = row.classList.contains("picked");
  pick(again ? [] : [row.dataset.module]);
  if (!again) all(".pane:not([hidden])").forEach(reveal);
};
