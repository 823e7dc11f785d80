/* SPDX-License-Identifier: MIT
 * page.js - draws the plots of an opreg bench page: a roofline, and bars by format. */
"use strict";
(function () {
  const all = JSON.parse(document.getElementById("rows").textContent);
  const markOf = {
    matmul_bt_quant: "circle", moe_matmul: "rect", moe_glu: "rectRot", moe_down: "triangle",
    moe_ffn: "rectRounded", paged_attn_decode: "rectRot", moe_combine: "rect",
  };
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const word = (row, key) => {
    const found = (row.problem || "").match(new RegExp("(?:^| )" + key + "=([^ ]+)"));
    return found ? found[1] : "";
  };
  const group = (row) => row.format || (row.op === "paged_attn_decode" ? word(row, "kv") : word(row, "q"));
  /* What tells problems of a format apart, most important first. */
  const parts = (row) => {
    const list = row.op === "paged_attn_decode"
      ? [`${word(row, "seqs")} × ${word(row, "len")}`, `${word(row, "hq")}/${word(row, "hk")} heads of ${word(row, "d")}`]
      : [row.n ? row.k ? `${row.n} × ${row.k}` : `n ${row.n}` : row.k ? `k ${row.k}` : ""];
    const more = (text) => text && list.push(text);
    more(!["", "0"].includes(word(row, "window")) && `window ${word(row, "window")}`);
    more(row.m > 1 && `m ${row.m}`);
    more(row.op.startsWith("moe_") && word(row, "experts") && `${word(row, "top_k")} of ${word(row, "experts")}`);
    more(row.op === "matmul_bt_quant" && !["", "none"].includes(word(row, "glu")) && "pair");
    more(!["", "f32"].includes(word(row, "x")) && `x ${word(row, "x")}`);
    more(!["", "f32"].includes(word(row, "y")) && `y ${word(row, "y")}`);
    return list.filter((text) => text);
  };
  const two = (row) => [`${group(row)} ${parts(row)[0] || ""}`.trim(), parts(row).slice(1).join(", ")].filter((text) => text);
  const shape = (row) => parts(row).join(", ");
  const number = (value, digits) => value === null || value === undefined ? "–" : Number(value).toPrecision(digits || 3);
  const tell = (row) => [
    `${row.kernel}${row.chosen ? " (chosen)" : ""}`,
    `${group(row)} ${shape(row)}`.trim(),
    `${number(row.us, 4)} µs ± ${number(row.spread, 2)}, ${number(row.pct_floor)} % of floor`,
    `${number(row.gbps, 4)} GB/s, error ${row.nmse === null ? "–" : Number(row.nmse).toExponential(1)}` +
      (row.ratio ? `, ${number(row.ratio)}× baseline` : ""),
  ];
  const plots = [];

  function place(parent, title, caption, height) {
    const box = document.createElement("div");
    box.className = "plot";
    box.innerHTML = "<h3></h3><p class=\"caption\"></p><div class=\"canvas\"><canvas role=\"img\"></canvas></div>";
    box.querySelector("h3").textContent = title;
    box.querySelector(".caption").textContent = caption;
    box.querySelector(".canvas").style.height = `${height}px`;
    const canvas = box.querySelector("canvas");
    canvas.setAttribute("aria-label", `${title}. ${caption} The table below has the same numbers.`);
    parent.appendChild(box);
    return canvas;
  }

  function axis(title, extra) {
    return Object.assign({
      title: { display: true, text: title, color: style("--quiet") },
      ticks: { color: style("--quiet"), maxRotation: 0 },
      grid: { color: style("--line"), drawBorder: false },
    }, extra);
  }

  /* Powers of ten alone, with a letter for thousands. */
  const isPower = (value) => Math.abs(Math.log10(value) - Math.round(Math.log10(value))) < 1e-9;
  function rate(value) {
    const step = Math.min(Math.max(Math.floor(Math.log10(value) / 3 + 1e-9), 0), 5);
    return isPower(value) ? `${+(value / 10 ** (3 * step)).toPrecision(3)} ${["", "k", "M", "G", "T", "P"][step]}`.trim() : "";
  }
  const powers = (title, extra) => axis(title, Object.assign({
    type: "logarithmic", ticks: { color: style("--quiet"), callback: rate, maxRotation: 0 },
    grid: { color: (line) => line.tick && isPower(line.tick.value) ? style("--line") : "transparent", drawBorder: false },
  }, extra));

  function roof(rows, low, high) {
    const stream = 1e9 * Math.max(...rows.map((row) => row.stream_gbps || 0));
    const most = 1e12 * Math.max(...rows.map((row) => row.tops || 0)) || Infinity;
    const knee = most / stream;
    const ends = knee < Infinity ? [low, knee, Math.max(high, 2 * knee)] : [low, high];
    return ends.filter((x) => x >= low).map((x) => ({ x, y: Math.min(x * stream, most) }));
  }

  function roofline(canvas, rows) {
    const points = rows.filter((row) => row.operations > 0 && row.us > 0);
    const of = (row) => ({ x: row.operations / row.bytes, y: 1e6 * row.operations / row.us, row });
    const xs = points.map((row) => row.operations / row.bytes);
    const low = Math.min(...xs) / 1.6, high = Math.max(...xs) * 1.6;
    const small = canvas.parentNode.clientWidth < 500 ? 0.75 : 1;
    const datasets = [{
      type: "line", label: "stream ceiling", data: roof(rows, low, high), borderColor: style("--text"),
      backgroundColor: style("--text"), borderWidth: 2, pointRadius: 0, pointHitRadius: 0, order: 10,
      pointStyle: "line",
    }];
    for (const op of Object.keys(markOf)) {
      const mine = points.filter((row) => row.op === op), color = style(`--${op}`);
      for (const chosen of [true, false]) {
        const some = mine.filter((row) => !!row.chosen === chosen);
        if (some.length > 0) {
          datasets.push({
            label: op, data: some.map(of), pointStyle: markOf[op], borderColor: chosen ? style("--panel") : color,
            backgroundColor: chosen ? color : "transparent", pointBorderWidth: 1,
            pointRadius: small * (chosen ? 6 : 3.5), pointHoverRadius: 8, order: chosen ? 1 : 5,
            quiet: !chosen && mine.some((row) => row.chosen),
          });
        }
      }
    }
    return new Chart(canvas, {
      type: "scatter", data: { datasets },
      options: {
        responsive: true, maintainAspectRatio: false, animation: false,
        scales: { x: powers("operations a byte moved", { min: low }), y: powers("operations a second") },
        plugins: {
          legend: {
            position: "bottom", onClick: () => {},
            labels: { color: style("--text"), usePointStyle: true, boxWidth: 9, boxHeight: 9, padding: 12, filter: (item, data) => !data.datasets[item.datasetIndex].quiet },
          },
          tooltip: { callbacks: { title: () => "", label: (item) => item.raw.row ? tell(item.raw.row) : "what the device streams" } },
        },
      },
    });
  }

  function bars(canvas, rows, problems, name) {
    const value = (row) => row && row.pct_floor ? row.pct_floor : null;
    const find = (problem, test) => rows.find((row) => row.op === problem.op && row.problem === problem.problem && test(row));
    const chosen = problems.map((p) => find(p, (row) => row.chosen) || p);
    const base = problems.map((p) => find(p, (row) => row.baseline && !row.chosen) || null);
    const most = Math.max(100, ...[...chosen, ...base].map((row) => value(row) || 0));
    const step = most > 250 ? 100 : most > 105 ? 50 : 20;
    const bar = (label, list, color, grouped) => ({
      label, data: list.map(value), backgroundColor: color, borderRadius: 2, barPercentage: grouped ? 0.8 : 0.45,
      categoryPercentage: 1, list, grouped: false, order: grouped ? 2 : 1,
    });
    const datasets = [bar("what a plan takes", chosen, style("--bar"), true)];
    if (base.some((row) => row !== null)) {
      datasets.push(bar("baseline", base, style("--bar-2"), false));
    }
    return new Chart(canvas, {
      type: "bar", data: { labels: problems.map(name), datasets },
      options: {
        indexAxis: "y", responsive: true, maintainAspectRatio: false, animation: false,
        interaction: { mode: "index", axis: "y", intersect: false },
        scales: {
          x: axis("", { title: { display: false }, min: 0, max: most > 105 ? Math.ceil(most / step) * step : 100, ticks: { stepSize: step, color: style("--quiet"), maxRotation: 0, autoSkipPadding: 14, callback: (v) => `${v} %` } }),
          y: axis("", { title: { display: false }, grid: { display: false, drawBorder: false }, ticks: { color: style("--text"), autoSkip: false, font: { size: 12 } } }),
        },
        plugins: {
          legend: { display: false },
          tooltip: { callbacks: { title: () => "", label: (item) => item.raw === null ? "" : tell(item.dataset.list[item.dataIndex]) } },
        },
      },
    });
  }

  /* Tells which variant a plan takes where the rows do not. */
  function mark(rows) {
    if (!rows.some((row) => row.chosen)) {
      for (const row of rows) {
        row.chosen = rows.every((other) => other.op !== row.op || other.problem !== row.problem || !(other.us < row.us));
        row.baseline = row.ratio === 1;
      }
    }
  }

  function device(section) {
    const rows = all.filter((row) => (row.device || "") === section.dataset.device &&
      (row.device_id || "") === section.dataset.id && row.op !== "token" && !row.failed);
    const parent = section.querySelector(".plots"), columns = document.createElement("div");
    columns.className = "columns";
    mark(rows);
    if (rows.some((row) => row.operations > 0 && row.us > 0 && row.stream_gbps > 0)) {
      plots.push([place(parent, "Roofline", "Filled: the variant that a plan takes; hollow: the others. On the line a call is as fast as the device can be.", 440), (canvas) => roofline(canvas, rows)]);
    }
    const left = [];
    for (const op of [...new Set(rows.map((row) => row.op))]) {
      left.push(...barsOf(columns, op, rows.filter((row) => row.op === op && row.pct_floor)));
    }
    if (left.length > 0) {
      add(columns, "Other operators", rows, left, (row) => [row.op, ...two(row)], 56);
    }
    columns.style.columns = `${Math.min(3, columns.children.length)} 360px`;
    parent.appendChild(columns);
  }

  function add(columns, title, rows, list, name, line) {
    const fast = list.some((problem) => rows.some((row) => row.problem === problem.problem && row.pct_floor > 110));
    plots.push([
      place(columns, title, "Share of the floor that is reached; grey: the baseline." +
        (fast ? " Over 100 %: some data was in a cache, or others used the device while its ceiling was measured." : ""), 34 + line * list.length),
      (canvas) => bars(canvas, rows, list, name)]);
  }

  /* One plot a shape with a bar a format; shapes that few formats have share one.  Returns what is too
   * little for a plot. */
  function barsOf(columns, op, rows) {
    const natural = (a, b) => a.localeCompare(b, "en", { numeric: true });
    const problems = [...new Map(rows.map((row) => [row.problem, row])).values()]
      .sort((a, b) => natural(group(a), group(b)) || natural(shape(a), shape(b)));
    const shapes = new Map();
    problems.forEach((row) => shapes.set(shape(row), [...(shapes.get(shape(row)) || []), row]));
    for (const [name, list] of shapes) {
      if (list.length > 2) {
        add(columns, `${op}, ${name}`, rows, list, group, 24);
        shapes.delete(name);
      }
    }
    const rest = [...shapes.values()].flat();
    if (rest.length < 3) {
      return rest;
    }
    add(columns, op, rows, rest, two, 40);
    return [];
  }

  if (typeof Chart === "undefined") {
    return;
  }
  Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
  document.querySelectorAll("section.device").forEach(device);
  let drawn = [];
  function draw() {
    drawn.forEach((chart) => chart.destroy());
    drawn = plots.map(([canvas, make]) => make(canvas));
    document.documentElement.dataset.plots = drawn.length;
  }
  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
})();
