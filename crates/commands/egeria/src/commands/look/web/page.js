"use strict";

// Everything that is shown comes from /state and /history of the server of this page. Text is only ever set as text.

const SVG = "http://www.w3.org/2000/svg";
const MAX_ROWS = 200;
const MAX_FILES = 50;
const COLUMNS = [
  ["name", "Thread", (row) => `${row.name} ${row.thread.process_id}/${row.thread.thread_id}`],
  ["node", "Node", (row) => String(row.node)],
  ["read_bytes_s", "Read/s", (row) => bytes(row.read_bytes_s)],
  ["written_bytes_s", "Written/s", (row) => bytes(row.written_bytes_s)],
  ["local_share", "Local", (row) => percent(row.local_share)],
  ["cpu_share", "CPU", (row) => percent(row.cpu_share)],
  ["moves", "Moves", (row) => String(row.moves)],
];

const shown = { state: null, history: [], sort: "bytes", falling: true, failed: 0, drawn: "" };
const part = (id) => document.getElementById(id);

function bytes(value) {
  if (!Number.isFinite(value)) return "–";
  const units = ["B", "KB", "MB", "GB", "TB"];
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) { value /= 1000; unit += 1; }
  return `${unit === 0 || value >= 99.5 ? value.toFixed(0) : value.toPrecision(3)} ${units[unit]}`;
}

function percent(share) {
  return share === null || share === undefined ? "–" : `${(share * 100).toFixed(0)} %`;
}

function element(name, attributes = {}, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function html(name, text, kind) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

// What is there is changed, not made anew: focus stays, and nothing is laid out twice.
function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function facts(state) {
  const steward = state.steward ? state.steward.state : "none";
  const all = [
    ["machine", state.machine + (state.emulated ? " (emulated: all figures are in its own time)" : "")],
    ["volume", state.volume],
    ["policy", state.policy],
    ["steward", steward],
    ["local", state.window ? percent(state.window.local_share) : null],
    ["moves", state.log ? String(state.moves) : null],
    ["estimate", state.estimate],
    ["note", state.note],
  ].filter(([, value]) => value);
  const list = part("facts");
  const key = all.map(([name]) => name).join();
  if (list.dataset.key !== key) {
    list.dataset.key = key;
    list.replaceChildren(...all.map(([name]) => {
      const entry = html("div");
      entry.append(html("dt", name), html("dd"));
      return entry;
    }));
  }
  all.forEach(([, value], index) => say(list.children[index].lastChild, value));
}

// --- the machine ---

const CELL = { width: 224, height: 118, gap: 46 };
const machine = { key: "", cells: new Map(), flows: null };

function place(index, count) {
  const columns = Math.min(count, Math.max(2, Math.ceil(Math.sqrt(count * 1.3))));
  const [column, row] = [index % columns, Math.floor(index / columns)];
  return {
    x: CELL.gap / 2 + column * (CELL.width + CELL.gap),
    y: CELL.gap / 2 + row * (CELL.height + CELL.gap),
    columns: Math.min(columns, count),
  };
}

function build(nodes) {
  const { columns } = place(0, nodes.length);
  const rows = Math.ceil(nodes.length / columns);
  const size = [columns * (CELL.width + CELL.gap), rows * (CELL.height + CELL.gap)];
  const svg = element("svg", { viewBox: `0 0 ${size[0]} ${size[1]}`, role: "group", "aria-label": "The machine" });
  // A picture of few nodes is not blown up, one of many can be scrolled on a narrow screen.
  svg.style.maxHeight = `${Math.max(180, size[1])}px`;
  svg.style.minWidth = `${Math.min(size[0], (columns > 4 ? 110 : 230) * columns)}px`;
  machine.flows = element("g");
  machine.cells.clear();
  svg.append(machine.flows);
  nodes.forEach((node, index) => {
    const { x, y } = place(index, nodes.length);
    const cell = element("g", { class: "node", tabindex: "0", role: "button", transform: `translate(${x} ${y})` });
    const bar = (top, kind) => {
      cell.append(element("rect", { class: "track", x: 12, y: top, width: CELL.width - 24, height: 8, rx: 2 }));
      const full = element("rect", { class: kind, x: 12, y: top, width: 0, height: 8, rx: 2 });
      cell.append(full);
      return full;
    };
    cell.append(element("rect", { class: "box", width: CELL.width, height: CELL.height, rx: 6 }));
    cell.append(element("text", { x: 12, y: 22 }, `node ${node.node}`));
    const threads = element("text", { class: "soft", x: CELL.width - 12, y: 22, "text-anchor": "end" });
    const traffic = element("text", { class: "soft", x: 12, y: 42 });
    const remote = bar(50, "is-remote");
    const local = element("rect", { class: "is-local", x: 12, y: 50, width: 0, height: 8, rx: 2 });
    const cpus = element("text", { class: "soft", x: 12, y: 80 });
    cell.append(threads, traffic, local, cpus);
    const busy = bar(88, "is-cpu");
    const choose = () => {
      const select = part("of-node");
      select.value = select.value === String(node.node) ? "" : String(node.node);
      rows_of_threads();
      choice_of_nodes();
    };
    cell.addEventListener("click", choose);
    cell.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(); }
    });
    svg.append(cell);
    machine.cells.set(node.node, { cell, threads, traffic, remote, local, cpus, busy, x, y });
  });
  part("machine").replaceChildren(svg);
  part("of-node").replaceChildren(...["", ...nodes.map((node) => String(node.node))].map((node) => {
    const option = html("option", node === "" ? "all" : node);
    option.value = node;
    return option;
  }));
}

function choice_of_nodes() {
  const chosen = part("of-node").value;
  for (const [node, { cell }] of machine.cells) {
    cell.classList.toggle("chosen", String(node) === chosen);
    cell.setAttribute("aria-pressed", String(String(node) === chosen));
  }
}

function draw_machine(state) {
  const key = state.nodes.map((node) => node.node).join();
  if (machine.key !== key) { machine.key = key; build(state.nodes); }
  const into = new Map(state.nodes.map((node) => [node.node, { local: 0, remote: 0 }]));
  for (const flow of state.flows) {
    const sums = into.get(flow.to);
    if (sums) sums[flow.from === flow.to ? "local" : "remote"] += flow.bytes_s;
  }
  const most = Math.max(1, ...state.nodes.map((node) => node.maximum_bytes_s || node.read_bytes_s + node.written_bytes_s));
  const room = CELL.width - 24;
  for (const node of state.nodes) {
    const cell = machine.cells.get(node.node);
    const all = node.read_bytes_s + node.written_bytes_s;
    const { local, remote } = into.get(node.node);
    const known = local + remote;
    const share = known > 0 ? local / known : 1;
    const width = Math.min(1, all / most) * room;
    say(cell.threads, `${node.threads} threads`);
    say(cell.traffic, `read ${bytes(node.read_bytes_s)}/s, written ${bytes(node.written_bytes_s)}/s`);
    cell.remote.setAttribute("width", width);
    cell.local.setAttribute("width", width * share);
    say(cell.cpus, `CPUs ${percent(node.cpu_share)}`);
    cell.busy.setAttribute("width", Math.min(1, node.cpu_share) * room);
    cell.cell.setAttribute("aria-label",
      `node ${node.node}: ${node.threads} threads, ${bytes(all)} per second, ${percent(share)} of it local, CPUs ${percent(node.cpu_share)} in use; shows its threads`);
  }
  part("key-near").hidden = state.flows.every((flow) => flow.from !== flow.to || flow.bytes_s === 0);
  part("key-far").hidden = state.flows.every((flow) => flow.from === flow.to || flow.bytes_s === 0);
  // Of many nodes only the widest flows can be told apart.
  draw_flows(state.flows.filter((flow) => flow.from !== flow.to).slice(0, state.nodes.length > 16 ? 40 : 120));
}

function draw_flows(flows) {
  const most = Math.max(1, ...flows.map((flow) => flow.bytes_s));
  const group = machine.flows;
  while (group.children.length > flows.length) group.lastChild.remove();
  while (group.children.length < flows.length) {
    const path = element("path", { class: "flow" });
    path.append(element("title"));
    group.append(path);
  }
  flows.forEach((flow, index) => {
    const [from, to] = [machine.cells.get(flow.from), machine.cells.get(flow.to)];
    if (!from || !to) return;
    const [x1, y1] = [from.x + CELL.width / 2, from.y + CELL.height / 2];
    const [x2, y2] = [to.x + CELL.width / 2, to.y + CELL.height / 2];
    // A little to one side, so that both directions are seen, and around cells that lie between.
    const bend = 26 + Math.hypot(x2 - x1, y2 - y1) / 12;
    const length = Math.hypot(x2 - x1, y2 - y1) || 1;
    const [mx, my] = [(x1 + x2) / 2 - ((y2 - y1) / length) * bend, (y1 + y2) / 2 + ((x2 - x1) / length) * bend];
    const path = group.children[index];
    path.setAttribute("d", `M ${x1} ${y1} Q ${mx} ${my} ${x2} ${y2}`);
    path.setAttribute("stroke-width", 1 + 9 * (flow.bytes_s / most));
    say(path.firstChild, `threads on node ${flow.from}, data on node ${flow.to}: ${bytes(flow.bytes_s)}/s`);
  });
}

// --- the last hour ---

function draw_history() {
  const svg = part("history");
  const points = shown.history;
  // A line needs two points, and a key something that it stands for.
  part("past").hidden = points.length < 2;
  if (points.length < 2) return;
  part("key-local").hidden = points.every((point) => point.local_share === null);
  part("key-acted").hidden = points.every((point) => point.actions === 0);
  const [width, height, top] = [960, 180, 8];
  const last = points[points.length - 1].time_unix_ns / 1e9;
  const span = Math.max(60, last - points[0].time_unix_ns / 1e9);
  const most = Math.max(1, ...points.map((point) => point.read_bytes_s + point.written_bytes_s));
  const x = (point) => width - ((last - point.time_unix_ns / 1e9) / span) * width;
  const y = (share) => height - 4 - share * (height - 4 - top);
  const line = (share) => {
    let path = "";
    let open = false;
    for (const point of points) {
      const value = share(point);
      if (value === null) { open = false; continue; }
      // A point alone is a dot.
      path += `${open ? "L" : "M"}${x(point).toFixed(1)} ${y(value).toFixed(1)}${open ? "" : "h0"}`;
      open = true;
    }
    return path;
  };
  const acts = points.filter((point) => point.actions > 0).map((point) =>
    element("line", { class: "act", x1: x(point), x2: x(point), y1: height - 14, y2: height }));
  svg.replaceChildren(
    ...acts,
    element("path", { class: "of-bytes", d: line((point) => (point.read_bytes_s + point.written_bytes_s) / most) }),
    element("path", { class: "of-local", d: line((point) => point.local_share) }),
    element("path", { class: "of-cpu", d: line((point) => Math.min(1, point.cpu_share)) }),
  );
  const now = points[points.length - 1];
  say(part("history-words"),
    `${duration(span)}; at most ${bytes(most)}/s, now ${bytes(now.read_bytes_s + now.written_bytes_s)}/s, ${percent(now.local_share)} local, CPUs ${percent(now.cpu_share)}`);
}

function duration(seconds) {
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 2 * 3600) return `${Math.round(seconds / 60)} min`;
  return seconds < 48 * 3600 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} days`;
}

// --- actions ---

function draw_actions(state) {
  const list = part("actions");
  const key = JSON.stringify(state.last_actions.map((action) => [action.at_ns, action.until_ns, action.report]));
  if (list.dataset.key === key) return;
  list.dataset.key = key;
  if (state.last_actions.length === 0) {
    list.replaceChildren(html("li", state.log ? "Nothing was done yet." : "No steward is at work here: nothing is done."));
    return;
  }
  list.replaceChildren(...state.last_actions.map((action) => {
    const entry = html("li");
    const time = html("time", `${(action.at_ns / 1e9).toFixed(1)} s`);
    const missed = action.result && action.result.missed;
    entry.append(time, html("span", action.report, missed ? "missed" : ""));
    return entry;
  }));
}

// --- threads ---

function build_columns() {
  part("columns").replaceChildren(...COLUMNS.map(([name, title], index) => {
    const head = html("th", undefined, index > 0 ? "number" : "");
    head.scope = "col";
    const button = html("button", title);
    button.type = "button";
    button.addEventListener("click", () => {
      shown.falling = shown.sort === name ? !shown.falling : name !== "name" && name !== "node";
      shown.sort = name;
      rows_of_threads();
    });
    head.append(button);
    return head;
  }));
}

function rows_of_threads() {
  const state = shown.state;
  if (!state) return;
  const node = part("of-node").value;
  const name = part("of-name").value.toLowerCase();
  const value = (row) => (shown.sort === "bytes" ? row.read_bytes_s + row.written_bytes_s : row[shown.sort]);
  const chosen = state.threads.filter((row) =>
    (node === "" || String(row.node) === node)
    && (name === "" || `${row.name} ${row.thread.process_id}/${row.thread.thread_id}`.toLowerCase().includes(name)));
  const sign = shown.falling ? -1 : 1;
  chosen.sort((one, other) => {
    const [left, right] = [value(one) ?? Infinity, value(other) ?? Infinity];
    const order = left < right ? -1 : left > right ? 1 : 0;
    return order * sign || one.thread.process_id - other.thread.process_id || one.thread.thread_id - other.thread.thread_id;
  });
  const rows = part("rows");
  const count = Math.min(chosen.length, MAX_ROWS);
  while (rows.children.length > count) rows.lastChild.remove();
  while (rows.children.length < count) {
    const row = html("tr");
    COLUMNS.forEach((_, index) => row.append(html("td", "", index > 0 ? "number" : "")));
    rows.append(row);
  }
  for (let index = 0; index < count; index += 1) {
    COLUMNS.forEach(([, , text], column) => say(rows.children[index].children[column], text(chosen[index])));
  }
  [...part("columns").children].forEach((head, index) =>
    head.setAttribute("aria-sort", COLUMNS[index][0] !== shown.sort ? "none" : shown.falling ? "descending" : "ascending"));
  const left = chosen.length - count + state.threads_omitted;
  say(part("omitted"), left > 0 ? `${left} more threads are not listed: choose a node or a name.` : "");
}

// --- files ---

const FILE_CELLS = [
  (file) => file.path ?? `inode ${file.inode}`,
  (file) => file.shares.map(([node, share]) => `${node}: ${percent(share)}`).join(", "),
  (file) => percent(file.local_share),
  (file) => bytes(file.local_read_bytes_s),
  (file) => bytes(file.remote_read_bytes_s),
  (file) => bytes(file.written_bytes_s),
];

function draw_table(name, entries, cells) {
  const rows = part(name);
  while (rows.children.length > entries.length) rows.lastChild.remove();
  while (rows.children.length < entries.length) {
    const row = html("tr");
    cells.forEach((_, index) => row.append(html("td", "", index > 0 ? "number" : "")));
    rows.append(row);
  }
  entries.forEach((entry, index) => cells.forEach((text, column) => say(rows.children[index].children[column], text(entry))));
}

function draw_files(state) {
  const files = (state.files || []).slice(0, MAX_FILES);
  part("files").hidden = files.length === 0;
  draw_table("file-rows", files, FILE_CELLS);
  const left = (state.files || []).length - files.length;
  say(part("files-omitted"), left > 0 ? `${left} more files are not listed.` : "");
}

// --- programs ---

const held = (of) => (of ? bytes(of.bytes) : "?");
const PROGRAM_CELLS = [
  (program) => `${program.name} ${program.process_id}`,
  (program) => program.threads.map((on) => `${on.node}: ${on.threads}`).join(", "),
  (program) => percent(program.cpu_share),
  (program) => held(program.heap),
  (program) => percent(program.heap?.local_share),
  (program) => held(program.page_cache),
  (program) => percent(program.page_cache?.local_share),
  (program) => (program.read_bytes_s === null ? "?" : bytes(program.read_bytes_s + program.written_bytes_s)),
  (program) => percent(program.files_local_share),
];

function draw_programs(state) {
  const programs = state.programs || [];
  part("programs").hidden = programs.length === 0;
  draw_table("program-rows", programs, PROGRAM_CELLS);
}

// --- processes ---

function draw_processes(state) {
  const lines = [...(state.arriving || []), ...(state.kept_processes || []), ...(state.kinds || [])];
  const words = lines.slice(0, MAX_FILES).map((line) => line.sentence);
  part("processes").hidden = words.length === 0;
  part("process-words").replaceChildren(...words.map((sentence) => html("li", sentence)));
}

// --- the clock ---

async function asked(path) {
  const answer = await fetch(path, { cache: "no-store" });
  if (!answer.ok) throw new Error(String(answer.status));
  return answer.json();
}

function note(point_of) {
  if (!point_of.window) return;
  const time = point_of.window.time_unix_ns;
  const points = shown.history;
  if (points.length > 0 && points[points.length - 1].time_unix_ns >= time) return;
  const sum = (field) => point_of.nodes.reduce((all, node) => all + node[field], 0);
  const at = point_of.window.start_ns;
  const actions = point_of.last_actions.filter((action) => action.until_ns >= at).length;
  points.push({
    time_unix_ns: time,
    read_bytes_s: sum("read_bytes_s"),
    written_bytes_s: sum("written_bytes_s"),
    local_share: point_of.window.local_share,
    cpu_share: sum("cpu_share") / Math.max(1, point_of.nodes.length),
    actions,
  });
  while (points.length > 3600) points.shift();
}

function draw(state) {
  const begun = performance.now();
  shown.state = state;
  note(state);
  facts(state);
  part("nodes").hidden = state.nodes.length === 0;
  part("done").hidden = false;
  part("threads").hidden = state.threads.length === 0;
  if (state.nodes.length > 0) draw_machine(state);
  draw_history();
  draw_actions(state);
  draw_programs(state);
  draw_files(state);
  draw_processes(state);
  rows_of_threads();
  document.documentElement.dataset.frameMs = (performance.now() - begun).toFixed(1);
}

function age(state) {
  if (!state.window) return "Nothing was read or written yet.";
  const seconds = Math.max(0, Date.now() / 1000 - state.window.time_unix_ns / 1e9);
  return seconds < 3 ? "live" : `nothing new for ${duration(seconds)}`;
}

async function look() {
  const status = part("status");
  try {
    const state = await asked("/state");
    shown.failed = 0;
    draw(state);
    status.className = "";
    say(status, age(state));
  } catch (error) {
    shown.failed += 1;
    status.className = "bad";
    say(status, "The server does not answer: is egeria web still running?");
  }
  // A page in the background asks less often.
  const pause = document.hidden ? 5000 : Math.min(10000, 1000 * 2 ** Math.min(shown.failed, 4));
  setTimeout(look, pause);
}

async function begin() {
  build_columns();
  part("choice").addEventListener("submit", (event) => event.preventDefault());
  part("of-node").addEventListener("change", () => { rows_of_threads(); choice_of_nodes(); });
  part("of-name").addEventListener("input", rows_of_threads);
  try { shown.history = await asked("/history"); } catch (error) { shown.history = []; }
  look();
}

begin();
