// Zoom and tooltips of the timeline, the filter of sites, and links that save charts. Without this
// script the page shows the whole run.
(() => {
  "use strict";
  const source = document.getElementById("timeline-data");
  const body = document.querySelector(".tl-body");
  for (const box of document.querySelectorAll("[data-show]")) {
    box.addEventListener("change", () => filter());
  }

  function filter() {
    const hidden = new Set();
    for (const box of document.querySelectorAll("[data-show]")) {
      if (!box.checked) hidden.add(box.dataset.show);
    }
    for (const item of document.querySelectorAll("[data-site]")) {
      item.classList.toggle("off", hidden.has(item.dataset.site));
    }
    for (const item of document.querySelectorAll("[data-sites]")) {
      const isHidden = item.dataset.sites.split(" ").every((site) => hidden.has(site));
      item.classList.toggle("off", isHidden);
    }
  }

  if (!source || !body) return;
  const data = JSON.parse(source.textContent);
  const rows = [...body.querySelectorAll(".tl-row")];
  const plots = rows.map((row) => row.querySelector(".tl-plot"));
  const marks = [...body.querySelectorAll(".mark")];
  const axis = body.querySelector(".tl-axis");
  const tip = document.querySelector(".tl-tip");
  // The part of the run that is shown; a column is at least a hundredth of it.
  let view = [0, 1];
  const least = Math.min(1, 20 / Math.max(1, data.columns));
  const columnsOfRun = data.end_ns / Math.max(1, data.column_ns);

  function time(ns) {
    const units = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]];
    const [size, unit] = units.find(([size]) => Math.abs(ns) >= size) || [1, "ns"];
    return `${+(ns / size).toPrecision(4)} ${unit}`;
  }

  function show(from, to) {
    const width = Math.min(1, Math.max(least, to - from));
    const begin = Math.min(Math.max(0, from), 1 - width);
    view = [begin, begin + width];
    const box = `${begin * columnsOfRun} 0 ${width * columnsOfRun} 100`;
    for (const plot of plots) plot.setAttribute("viewBox", box);
    for (const mark of marks) {
      const place = (mark.dataset.at - begin) / width;
      mark.style.left = `${place * 100}%`;
      mark.classList.toggle("off", place < 0 || place > 1);
    }
    ticks();
  }

  function ticks() {
    const [from, to] = view.map((part) => part * data.end_ns);
    const raw = (to - from) / 6;
    const power = 10 ** Math.floor(Math.log10(Math.max(raw, 1)));
    const step = [1, 2, 5, 10].map((digit) => digit * power).find((size) => size >= raw) || raw || 1;
    axis.textContent = "";
    for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
      const label = document.createElement("span");
      label.textContent = time(at);
      label.style.left = `${((at - from) / (to - from || 1)) * 100}%`;
      axis.append(label);
    }
  }

  // The place of the pointer in the plots, from 0 at the left to 1 at the right.
  function place(event) {
    const box = axis.getBoundingClientRect();
    return Math.min(1, Math.max(0, (event.clientX - box.left) / Math.max(1, box.width)));
  }

  const inRun = (part) => view[0] + part * (view[1] - view[0]);

  for (const button of document.querySelectorAll("[data-zoom]")) {
    button.addEventListener("click", () => {
      const [from, to] = view;
      const middle = (from + to) / 2;
      const half = (to - from) / 2;
      const factor = { in: 0.5, out: 2, all: Infinity }[button.dataset.zoom];
      if (factor === Infinity) show(0, 1);
      else show(middle - half * factor, middle + half * factor);
    });
  }

  let dragged = null;
  const range = document.createElement("div");
  range.className = "tl-range off";
  body.append(range);
  body.addEventListener("pointerdown", (event) => {
    if (event.button === 0 && event.target.closest(".tl-plot")) dragged = place(event);
  });
  window.addEventListener("pointermove", (event) => {
    if (dragged === null) return;
    const [from, to] = [dragged, place(event)].sort((a, b) => a - b);
    const box = axis.getBoundingClientRect();
    const left = box.left - body.getBoundingClientRect().left;
    range.style.left = `${left + from * box.width}px`;
    range.style.width = `${(to - from) * box.width}px`;
    range.classList.remove("off");
  });
  window.addEventListener("pointerup", (event) => {
    if (dragged === null) return;
    const [from, to] = [dragged, place(event)].sort((a, b) => a - b);
    dragged = null;
    range.classList.add("off");
    if (to - from > 0.005) show(inRun(from), inRun(to));
  });
  body.addEventListener("dblclick", () => show(0, 1));

  body.addEventListener("pointermove", (event) => {
    const number = rows.findIndex((row) => row.contains(event.target));
    const plot = event.target.closest(".tl-plot");
    tip.hidden = number < 0 || !plot;
    if (tip.hidden) return;
    const row = data.rows[number];
    const column = Math.min(data.columns - 1, Math.floor(inRun(place(event)) * columnsOfRun));
    const lines = [`${row.name} at ${time(column * data.column_ns)}`];
    let left = 100;
    row.percent.forEach((series, at) => {
      const part = series[column] || 0;
      left -= part;
      if (part > 0) lines.push(`${part} %  ${data.series[at]}`);
    });
    if (left > 0) lines.push(`${left} %  idle`);
    tip.textContent = lines.join("\n");
    const box = document.querySelector(".timeline").getBoundingClientRect();
    tip.style.left = `${Math.min(event.clientX - box.left + 14, box.width - 230)}px`;
    tip.style.top = `${event.clientY - box.top + 14}px`;
  });
  body.addEventListener("pointerleave", () => { tip.hidden = true; });

  show(0, 1);
})();

// Saves a chart as a separate picture, with the colours of the page.
(() => {
  "use strict";
  const colours = document.querySelector("style").textContent;
  for (const chart of document.querySelectorAll("svg.chart")) {
    const link = document.createElement("a");
    const section = chart.closest("section");
    link.className = "csv";
    link.textContent = "SVG";
    link.href = "#";
    link.download = `${section ? section.id : "chart"}.svg`;
    link.addEventListener("click", () => {
      const picture = chart.cloneNode(true);
      const { width, height } = chart.viewBox.baseVal;
      picture.setAttribute("width", width);
      picture.setAttribute("height", height);
      const style = document.createElementNS(chart.namespaceURI, "style");
      style.textContent = colours;
      picture.prepend(style);
      const text = new XMLSerializer().serializeToString(picture);
      link.href = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
    });
    chart.after(link);
  }
})();
