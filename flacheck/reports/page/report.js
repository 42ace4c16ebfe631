"use strict";
(async () => {
  const $ = (id) => document.getElementById(id);

  function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value !== null && value !== undefined) element.setAttribute(name, value);
    }
    // Text nodes only: names of kernels may contain markup.
    element.append(...children.filter((child) => child !== null));
    return element;
  }

  function copyButton(text) {
    return make("span", { class: "copy" }, make("code", {}, text),
      make("button", { type: "button", "data-copy": text, "aria-label": `Copy ${text}` }, "Copy"));
  }

  async function copyText(text) {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // A page that was opened as a file may lack access to the clipboard.
      const area = make("textarea");
      area.value = text;
      (document.querySelector("dialog[open]") || document.body).append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
  }

  // The data is JSON, compressed by gzip, in base64.
  function unpack(base64) {
    const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).json();
  }

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    await copyText(button.dataset.copy);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });

  if (!$("data")) return;
  const data = await unpack($("data").textContent);
  const text = (number) => data.texts[number];
  // The marks of a square, as in reports/chart.py.
  const MARKS = [[1, "slow", "slow"], [2, "⇩", "spills"], [4, "∅", "partly not tested"], [8, "?", "partly unknown"], [16, "", "has accepted failures"]];
  const STATES = { f: "fails", c: "compiles", a: "fails, accepted", "?": "unknown", n: "not tested", s: "skipped" };
  const ORDER = "fc?ans";
  const CLASSES = { "?": "q" };
  // Rows are added in steps while the reader scrolls; large charts start with closed modules.
  const STEP = 250;
  const MANY = 300;

  const state = { target: 0, dtype: "", signature: "", failing: false, search: "", open: new Map() };
  let rows = [];
  let queue = [];

  function cellOf(raw, dtype) {
    const [kind, compiles, tested, marks, seconds, shared, registers, stack, spills, key, ...numbers] = raw;
    const [code, message, signature, options, ...fallbacks] = numbers.map(text);
    return { kind, compiles, tested, marks, seconds, shared, registers, stack, spills, key, dtype, code, message, signature, options, fallbacks };
  }

  function merge(cells) {
    const whole = { compiles: 0, tested: 0, marks: 0, codes: [], parts: cells };
    for (const cell of cells) {
      whole.compiles += cell.compiles;
      whole.tested += cell.tested;
      whole.marks |= cell.marks;
      if (cell.code && !whole.codes.includes(cell.code)) whole.codes.push(cell.code);
    }
    whole.kind = [...ORDER].find((kind) => cells.some((cell) => cell.kind === kind));
    return whole;
  }

  function readRows() {
    const target = data.targets[state.target];
    const byName = new Map();
    for (const [where, name, dtype, ...cells] of target.rows) {
      if (state.dtype && text(dtype) !== state.dtype) continue;
      const key = `${where} ${name}`;
      if (!byName.has(key)) byName.set(key, { where: text(where), name: text(name), dtypes: [], parts: target.columns.map(() => []) });
      const row = byName.get(key);
      if (text(dtype)) row.dtypes.push(text(dtype));
      cells.forEach((raw, column) => { if (raw) row.parts[column].push(cellOf(raw, text(dtype))); });
    }
    rows = [...byName.values()];
    for (const row of rows) row.cells = row.parts.map((parts) => (parts.length ? merge(parts) : null));
  }

  const isPerfect = (row) => row.cells.every((cell) => !cell || (cell.kind === "c" && !(cell.marks & 29)));
  const hasSignature = (row) => row.parts.some((parts) => parts.some((cell) => cell.signature === state.signature));

  function chosenRows() {
    const words = state.search.toLowerCase().split(/\s+/).filter(Boolean);
    return rows.filter((row) => {
      if (state.failing && isPerfect(row)) return false;
      if (state.signature && !hasSignature(row)) return false;
      const name = `${row.where}:${row.name}`.toLowerCase();
      return words.every((word) => name.includes(word));
    });
  }

  function describe(cell) {
    if (!cell) return "";
    const lines = [];
    if (cell.kind === "s") lines.push("–");
    else if (cell.kind === "n") lines.push("∅");
    else if (cell.kind === "?") lines.push("?");
    else lines.push(`${cell.compiles}/${cell.tested}`);
    for (const code of cell.codes.slice(0, 2)) lines.push(cell.kind === "f" ? code : `(${code})`);
    if (cell.codes.length > 2) lines.push(`+${cell.codes.length - 2}`);
    const signs = MARKS.filter(([bit, sign]) => cell.marks & bit && sign).map(([, sign]) => sign);
    if (signs.length && !"n?".includes(cell.kind)) lines.push(signs.join(" "));
    return lines.join(" ");
  }

  function label(cell, column) {
    const target = data.targets[state.target];
    if (!cell) return `${target.columns[column]}: nothing scanned`;
    const marks = MARKS.filter(([bit]) => cell.marks & bit).map(([, , word]) => word);
    const words = [STATES[cell.kind], ...cell.codes, `${cell.compiles} of ${cell.tested} compile`, ...marks];
    return `${target.columns[column]}: ${words.join(", ")}`;
  }

  function rowElement(row, number) {
    const dtypes = row.dtypes.length > 1 || !state.dtype ? row.dtypes.join(", ") : "";
    const head = make("th", { scope: "row" }, row.name, dtypes ? make("small", {}, ` ${dtypes}`) : null);
    const element = make("tr", { "data-row": number }, head);
    row.cells.forEach((cell, column) => {
      const kind = cell ? CLASSES[cell.kind] || cell.kind : "empty";
      element.append(make("td", { class: kind, tabindex: "-1", "data-column": column, "aria-label": label(cell, column) }, describe(cell)));
    });
    return element;
  }

  function groupElement(where, group, isOpen) {
    const columns = data.targets[state.target].columns.length;
    const button = make("button", { type: "button", "aria-expanded": String(isOpen), "data-module": where }, `${isOpen ? "▾" : "▸"} ${where} (${group.length})`);
    const element = make("tr", { class: "group" }, make("th", { class: "module", scope: "rowgroup" }, button));
    for (let column = 0; column < columns; column += 1) {
      const cells = group.map((row) => row.cells[column]).filter(Boolean);
      element.append(make("td", {}, cells.length ? summary(cells) : ""));
    }
    return element;
  }

  // Only kernels that compile, and skipped ones beside them, make a module's check mark.
  function summary(cells) {
    const counts = [["f", "fail"], ["?", "unknown"], ["n", "not tested"]];
    const words = counts.map(([kind, word]) => [cells.filter((cell) => cell.kind === kind).length, word]);
    const rest = words.filter(([count]) => count).map(([count, word]) => `${count} ${word}`).join(", ");
    return rest || (cells.every((cell) => cell.kind === "s") ? "–" : "✓");
  }

  function heading() {
    const target = data.targets[state.target];
    const row = make("tr", {}, make("th", { scope: "col" }, "kernel"));
    target.columns.forEach((name, column) => {
      const advised = target.advisories[column];
      const mark = advised.length ? make("span", { role: "img", "aria-label": `advisory: ${advised.join("; ")}`, title: advised.join("\n") }, " ⚠") : null;
      row.append(make("th", { scope: "col" }, name, mark));
    });
    return make("thead", {}, row);
  }

  function draw() {
    const chosen = chosenRows();
    const groups = new Map();
    for (const row of chosen) {
      if (!groups.has(row.where)) groups.set(row.where, []);
      groups.get(row.where).push(row);
    }
    const isFiltered = state.search || state.signature || state.failing;
    queue = [];
    for (const [where, group] of groups) {
      const fails = group.some((row) => row.cells.some((cell) => cell && cell.kind === "f"));
      const byDefault = isFiltered || groups.size === 1 || chosen.length <= MANY || fails;
      const isOpen = state.open.has(where) ? state.open.get(where) : byDefault;
      queue.push(() => groupElement(where, group, isOpen));
      if (isOpen) for (const row of group) queue.push(() => rowElement(row, rows.indexOf(row)));
    }
    const body = make("tbody", { id: "rows" });
    $("grid").replaceChildren(heading(), body);
    $("count").textContent = `${chosen.length} of ${rows.length} kernels on ${data.targets[state.target].name}`;
    more(STEP);
    const first = body.querySelector("td[data-column]");
    if (first) first.tabIndex = 0;
  }

  function more(count) {
    const fragment = document.createDocumentFragment();
    for (const build of queue.splice(0, count)) fragment.append(build());
    $("rows").append(fragment);
  }

  $("panel").addEventListener("scroll", () => {
    const panel = $("panel");
    if (queue.length && panel.scrollTop + 2 * panel.clientHeight > panel.scrollHeight) more(STEP);
  });
  addEventListener("scroll", () => { if (queue.length && $("panel").getBoundingClientRect().bottom < 2 * innerHeight) more(STEP); });
  addEventListener("beforeprint", () => more(Infinity));

  // Cells

  function kernelOf(row) { return row.where.includes(" ") || !row.where ? row.name : `${row.where}:${row.name}`; }

  function linkTo(row, column) {
    const target = data.targets[state.target];
    return `#${[target.name, `${row.where}:${row.name}`, target.columns[column]].map(encodeURIComponent).join("/")}`;
  }

  function open(number, column) {
    const row = rows[number];
    const cell = row && row.cells[column];
    if (!cell) return;
    const target = data.targets[state.target];
    history.replaceState(null, "", linkTo(row, column));
    const dialog = $("detail");
    const content = [make("h3", { id: "detail-heading" }, row.name), make("p", { class: "faint" }, `${kernelOf(row)} · ${target.columns[column]} on ${target.name}`)];
    for (const part of cell.parts) content.push(...details(part, target, column));
    for (const advisory of target.advisories[column]) content.push(make("p", { class: "tone-doubt" }, `⚠ ${advisory}`));
    const link = location.href;
    content.push(make("p", {}, copyButtonFor("Copy a link to this cell", link), " ", make("button", { type: "button", id: "close" }, "Close")));
    dialog.replaceChildren(...content);
    dialog.showModal();
    $("close").addEventListener("click", () => dialog.close());
  }

  function copyButtonFor(name, value) { return make("button", { type: "button", "data-copy": value }, name); }

  function details(part, target, column) {
    const list = make("dl");
    const add = (name, value) => { if (value) list.append(make("dt", {}, name), make("dd", {}, value)); };
    const rule = data.rules[part.code];
    add([part.dtype, STATES[part.kind]].filter(Boolean).join(" · "), `${part.compiles} of ${part.tested} cells compile`);
    add(part.code ? `${part.code}${rule ? ` ${rule[0]}` : ""}` : "reason", part.message && make("code", {}, part.message));
    add("configuration", part.options);
    if (rule) { add("cause", rule[1]); add("remedy", rule[2]); }
    if (part.fallbacks.length) {
      const uses = make("span");
      for (const use of part.fallbacks) uses.append(copyButton(use), " ");
      add("compiles instead", uses);
    }
    const bytes = (value, name) => (value ? `${value.toLocaleString("en")} ${name}` : "");
    add("resources", [bytes(part.shared, "bytes shared"), bytes(part.registers, "registers"), bytes(part.stack, "bytes of stack"), bytes(part.spills, "bytes of spills"), part.seconds ? `${part.seconds} s to compile` : ""].filter(Boolean).join(" · "));
    if (part.key) {
      const commands = make("span");
      for (const command of ["bisect", "repro"]) commands.append(copyButton(`flacheck ${command} ${part.key}`), " ");
      add("next", commands);
    }
    return [list];
  }

  $("grid").addEventListener("click", (event) => {
    const button = event.target.closest("[data-module]");
    if (button) {
      state.open.set(button.dataset.module, button.getAttribute("aria-expanded") !== "true");
      draw();
      for (const each of document.querySelectorAll("[data-module]")) if (each.dataset.module === button.dataset.module) each.focus();
      return;
    }
    const cell = event.target.closest("td[data-column]");
    if (!cell) return;
    focusCell(cell);
    open(Number(cell.parentElement.dataset.row), Number(cell.dataset.column));
  });

  function focusCell(cell) {
    for (const each of document.querySelectorAll("#grid td[tabindex='0']")) each.tabIndex = -1;
    cell.tabIndex = 0;
    cell.focus();
  }

  function nextRow(row, step) {
    let next = row;
    do {
      if (step > 0 && !next.nextElementSibling) more(STEP);
      next = step > 0 ? next.nextElementSibling : next.previousElementSibling;
    } while (next && !next.dataset.row);
    return next;
  }

  $("grid").addEventListener("keydown", (event) => {
    const cell = event.target.closest("td[data-column]");
    if (!cell) return;
    const row = cell.parentElement;
    const column = Number(cell.dataset.column);
    const cells = row.querySelectorAll("td");
    let to = null;
    if (event.key === "ArrowRight") to = cells[column + 1];
    else if (event.key === "ArrowLeft") to = cells[column - 1];
    else if (event.key === "Home") to = cells[0];
    else if (event.key === "End") to = cells[cells.length - 1];
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const next = nextRow(row, event.key === "ArrowDown" ? 1 : -1);
      to = next && next.querySelectorAll("td")[column];
    } else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      open(Number(row.dataset.row), column);
      return;
    } else return;
    event.preventDefault();
    if (to) focusCell(to);
  });

  // Choices

  function choose(number) {
    state.target = number;
    state.open.clear();
    for (const [place, tab] of [...$("tabs").children].entries()) {
      tab.setAttribute("aria-selected", String(place === number));
      tab.tabIndex = place === number ? 0 : -1;
    }
    $("panel").setAttribute("aria-labelledby", `tab-${number}`);
    fill($("dtype"), "all", data.targets[number].rows.map((row) => text(row[2])), "dtype");
    const signatures = new Map();
    for (const row of data.targets[number].rows) for (const raw of row.slice(3)) {
      if (raw && raw[9]) { const cell = cellOf(raw, ""); if (cell.signature) signatures.set(cell.signature, `${cell.code} ${cell.message}`.slice(0, 110)); }
    }
    fill($("signature"), "any", [...signatures.keys()], "signature", signatures);
    readRows();
    draw();
  }

  function fill(select, everything, values, name, labels = new Map()) {
    const options = [...new Set(values)].filter(Boolean).sort();
    if (!options.includes(state[name])) state[name] = "";
    select.replaceChildren(make("option", { value: "" }, everything), ...options.map((value) => make("option", { value }, labels.get(value) || value)));
    select.value = state[name];
  }

  function countFailing(target) {
    const names = target.rows.filter((row) => row.slice(3).some((raw) => raw && raw[0] === "f"));
    return new Set(names.map((row) => `${row[0]} ${row[1]}`)).size;
  }

  data.targets.forEach((target, number) => {
    const tab = make("button", { type: "button", role: "tab", id: `tab-${number}`, "aria-controls": "panel", title: target.gpu }, target.name);
    const failing = countFailing(target);
    if (failing) tab.append(make("small", { class: "tone-bad" }, ` ${failing} fail`));
    tab.addEventListener("click", () => choose(number));
    $("tabs").append(tab);
  });
  $("tabs").addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    choose((state.target + step + data.targets.length) % data.targets.length);
    $(`tab-${state.target}`).focus();
  });
  let timer = 0;
  $("search").addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => { state.search = $("search").value; draw(); }, 80);
  });
  $("filters").addEventListener("submit", (event) => event.preventDefault());
  $("dtype").addEventListener("change", () => { state.dtype = $("dtype").value; readRows(); draw(); });
  $("signature").addEventListener("change", () => { state.signature = $("signature").value; draw(); });
  $("failing").addEventListener("change", () => { state.failing = $("failing").checked; draw(); });
  addEventListener("keydown", (event) => {
    if (event.key !== "/" || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    event.preventDefault();
    $("search").focus();
  });

  function follow() {
    const [target, kernel, release] = location.hash.slice(1).split("/").map((part) => {
      try { return decodeURIComponent(part); } catch { return ""; }
    });
    const number = data.targets.findIndex((each) => each.name === target);
    if (number < 0 || $("detail").open) return;
    state.dtype = "";
    choose(number);
    const row = rows.findIndex((each) => `${each.where}:${each.name}` === kernel);
    if (row < 0) return;
    state.search = $("search").value = rows[row].name;
    draw();
    const column = data.targets[number].columns.indexOf(release);
    const element = document.querySelector(`tr[data-row="${row}"]`);
    if (element) focusCell(element.querySelectorAll("td")[Math.max(column, 0)]);
    open(row, column);
  }

  if (data.targets.length) {
    choose(0);
    follow();
    addEventListener("hashchange", follow);
  } else {
    $("chart").hidden = true;
  }
})();
