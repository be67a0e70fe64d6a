"use strict";
// The payload, the state of the page, and the map.

const content = JSON.parse(document.getElementById("payload").textContent);
const arrays = decode(content.pool);
const element = (id) => document.getElementById(id);
const map = element("map");
const PHONE = window.matchMedia("(max-width: 559px)");
const NARROW = PHONE.matches;
const [LEFT, TOP, WIDTH, HEIGHT] = NARROW ? [48, 6, 306, 330] : [66, 6, 648, 496];
const [COLUMNS, ROWS] = [content.context.length, content.batch.length];
const [CELL_WIDTH, CELL_HEIGHT] = [WIDTH / COLUMNS, HEIGHT / ROWS];
const FONT = Math.min(15, CELL_WIDTH / 2.6, CELL_HEIGHT * 0.62);
const SMALLEST = NARROW ? 12.5 : 10; // smaller cells have no text; the pointer shows their values
// The colours of perfmodel/plots/palette.py (below, above, pale): speedups from 1 to 0.5, from 1 to 4, and no draft.
const rgbOf = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
const LIGHT_PAGE = {
  slower: ["#f6d3c9", "#e58267", "#b2182b", "#4d0712"].map(rgbOf),
  faster: ["#d6e6f1", "#92c5de", "#4393c3", "#2166ac", "#0b3d70", "#04142b"].map(rgbOf),
  undrafted: rgbOf("#ececec"),
};
const DARK_PAGE = {
  slower: ["#5b2a26", "#a9503e", "#ee8063", "#ffd9c9"].map(rgbOf),
  faster: ["#1d3b52", "#23638f", "#3a90c8", "#79bfe6", "#b4ddf3", "#f0f9ff"].map(rgbOf),
  undrafted: rgbOf("#353a45"),
};
const DARK = window.matchMedia("(prefers-color-scheme: dark)");
const colours = () => (DARK.matches ? DARK_PAGE : LIGHT_PAGE);
const [SLOWEST, FASTEST] = [0.5, 4];

const state = {
  surface: null,
  alpha: content.start.alpha,
  gamma: content.start.gamma, // null means the best draft length
  b: Math.round(0.7 * (ROWS - 1)),
  c: Math.round(0.7 * (COLUMNS - 1)),
  hover: null,
  cells: [],
};

// Numbers as text, in the form of the command line (perfmodel/answers/text.py).
const LAST_OF_UNIT = 999.5;
const whole = (value) => Math.ceil(value).toLocaleString("en-US");
const times = (value) => `${value.toFixed(2)}x`;
function seconds(value) {
  for (const [unit, factor] of [["us", 1e6], ["ms", 1e3]]) {
    if (value * factor < LAST_OF_UNIT) return `${twoDigits(value * factor)} ${unit}`;
  }
  return `${twoDigits(value)} s`;
}
function twoDigits(value) {
  if (value < 0.95) return String(Number(value.toPrecision(2)));
  return value < 9.95 ? value.toFixed(1) : Math.round(value).toLocaleString("en-US");
}
function short(tokens) {
  return tokens % 512 === 0 ? `${tokens / 1024}k` : tokens.toLocaleString("en-US");
}
const about = (value) => Number(value.toPrecision(3)).toLocaleString("en-US");

function make(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}
function draw(parent, name, attributes, text = "") {
  const made = document.createElementNS(map.namespaceURI, name);
  set(made, attributes);
  made.textContent = text;
  element(parent).append(made);
  return made;
}
function set(node, attributes) {
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
}

function heat(speedup) {
  const [ramp, end] = speedup < 1 ? [colours().slower, SLOWEST] : [colours().faster, FASTEST];
  const at = Math.min(Math.log(speedup) / Math.log(end), 1) * (ramp.length - 1);
  const low = Math.min(Math.floor(at), ramp.length - 2);
  return ramp[low].map((value, i) => Math.round(value + (at - low) * (ramp[low + 1][i] - value)));
}
/** Whether white has the larger contrast with a colour than black, both being at least 4.5 (WCAG 2, relative luminance). */
function isDark(rgb) {
  const [r, g, b] = rgb.map((value) => (value <= 10 ? value / 3294.6 : ((value / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b < 0.179;
}
const left = (c) => LEFT + c * CELL_WIDTH;
const top_ = (b) => TOP + (ROWS - 1 - b) * CELL_HEIGHT;
const boxOf = (b, c) => ({ x: left(c), y: top_(b), width: CELL_WIDTH, height: CELL_HEIGHT });

function layOutMap() {
  map.setAttribute("viewBox", `0 0 ${LEFT + WIDTH + 6} ${TOP + HEIGHT + 58}`);
  set(element("frame-box"), { x: LEFT, y: TOP, width: WIDTH, height: HEIGHT });
  const middle = TOP + HEIGHT / 2;
  draw("axes", "text", { x: LEFT + WIDTH / 2, y: TOP + HEIGHT + 50, "text-anchor": "middle", class: "title" },
    NARROW ? "context, tokens (1k = 1024)" : "context, cached tokens per sequence (1k = 1024)");
  draw("axes", "text", { x: 15, y: middle, "text-anchor": "middle", class: "title", transform: `rotate(-90 15 ${middle})` },
    "batch, sequences");
  const sparse = (count, room, each) => Math.max(1, Math.ceil((count * each) / room));
  const longest = Math.max(...content.context.map((tokens) => short(tokens).length));
  content.context.forEach((tokens, c) => {
    if (c % sparse(COLUMNS, WIDTH, 9.5 * longest + 5)) return;
    draw("axes", "text", { x: left(c) + CELL_WIDTH / 2, y: TOP + HEIGHT + 21, "text-anchor": "middle" }, short(tokens));
  });
  content.batch.forEach((batch, b) => {
    if (b % sparse(ROWS, HEIGHT, 17)) return;
    const y = top_(b) + CELL_HEIGHT / 2;
    draw("axes", "text", { x: LEFT - 6, y, "text-anchor": "end", "dominant-baseline": "central" }, String(batch));
  });
  state.cells = content.batch.map((_, b) => content.context.map((_, c) => {
    const box = boxOf(b, c);
    return {
      colour: draw("cell-colours", "rect", box),
      hatch: draw("cell-hatches", "rect", { ...box, fill: "none" }),
      text: FONT < SMALLEST ? null : draw("cell-texts", "text", {
        x: box.x + CELL_WIDTH / 2, y: box.y + CELL_HEIGHT / 2, class: "cell", style: `font-size: ${FONT}px`,
      }),
    };
  }));
  element("shown").hidden = FONT < SMALLEST;
  const stops = Array.from({ length: 61 }, (_, i) => SLOWEST * (FASTEST / SLOWEST) ** (i / 60));
  element("scale-bar").style.background = `linear-gradient(90deg, ${stops.map((s) => `rgb(${heat(s)})`).join(", ")})`;
  for (const mark of NARROW ? [0.5, 1, 2, 4] : [0.5, 0.7, 1, 1.5, 2, 3, 4]) {
    const text = mark === SLOWEST ? `≤ ${mark}x` : mark === FASTEST ? `≥ ${mark}x` : `${mark}x`;
    const tick = make("span", {}, text);
    const share = Math.log(mark / SLOWEST) / Math.log(FASTEST / SLOWEST);
    tick.style.left = `${100 * share}%`;
    if (mark === SLOWEST) tick.style.transform = "none";
    if (mark === FASTEST) tick.style.transform = "translateX(-100%)";
    element("scale-ticks").append(tick);
  }
}

function drawMap(cells) {
  const { surface } = state;
  const shown = element("cells").value;
  cells.forEach((row, b) => row.forEach((cell, c) => {
    const { colour, hatch, text } = state.cells[b][c];
    const rgb = cell.gamma === 0 ? colours().undrafted : heat(cell.speedup);
    set(colour, { fill: `rgb(${rgb})`, stroke: `rgb(${rgb})` });
    const [low, high] = (cell.gamma && surface.interval(cell.speedup, state.alpha, b, c, cell.gamma)) || [2, 2];
    const sure = low > 1 || high <= 1 ? "none" : "url(#unsure)";
    set(hatch, { fill: runs(surface, b, c, cell.gamma) ? sure : "url(#hatch)" });
    if (text === null) return;
    text.textContent = shown === "speedup" ? cell.drafting.toFixed(2) : shown === "gamma" ? String(cell.gamma) : "";
    text.style.fill = isDark(rgb) ? "#ffffff" : "#000000";
    text.style.stroke = `rgb(${rgb})`;
  }));
  const path = boundary(cells.map((row) => row.map((cell) => cell.drafting >= 1)));
  for (const id of ["break-even", "break-even-halo"]) element(id).setAttribute("d", path);
}

/** The path between the cells that are true and those that are false. It follows the edges of cells, so it crosses no number. */
function boundary(inside) {
  const edges = [];
  inside.forEach((row, b) => row.forEach((here, c) => {
    if (c + 1 < COLUMNS && here !== row[c + 1]) edges.push(`M${left(c + 1)} ${top_(b)}v${CELL_HEIGHT}`);
    if (b + 1 < ROWS && here !== inside[b + 1][c]) edges.push(`M${left(c)} ${top_(b)}h${CELL_WIDTH}`);
  }));
  return edges.join("");
}

/** The published speedups of this surface at the chosen gamma, or at any gamma if the best one is shown. */
function measuredHere() {
  return state.surface.case.measured
    .filter(([, , gamma]) => state.gamma === null || state.gamma === gamma)
    .map(([batch, context, gamma, speedup]) => ({
      b: placeOn(content.batch, batch),
      c: placeOn(content.context, context),
      words: `${times(speedup)} at batch ${batch}, context ${whole(context)}, gamma ${gamma}`,
      speedup,
    }))
    .filter(({ b, c }) => b !== null && c !== null);
}
function drawMeasured() {
  element("measured").replaceChildren();
  for (const { b, c, speedup } of measuredHere()) {
    draw("measured", "circle", { cx: left(c) + 0.85 * CELL_WIDTH, cy: top_(b) + 0.8 * CELL_HEIGHT, r: 4, fill: `rgb(${heat(speedup)})` });
  }
  element("measured-key").hidden = measuredHere().length === 0;
}

/** The path of a vertical line at x. It has gaps at the numbers that it would cross. */
function upright(x) {
  const c = Math.min(Math.floor((x - LEFT) / CELL_WIDTH), COLUMNS - 1);
  const clear = Math.abs(x - left(c) - CELL_WIDTH / 2) > 1.25 * FONT || FONT < SMALLEST;
  if (clear) return `M${x} ${TOP}V${TOP + HEIGHT}`;
  const gap = 0.7 * FONT;
  const middles = content.batch.map((_, b) => top_(ROWS - 1 - b) + CELL_HEIGHT / 2);
  return middles.map((y) => `M${x} ${y - CELL_HEIGHT / 2}V${y - gap}M${x} ${y + gap}V${y + CELL_HEIGHT / 2}`).join("");
}

/** Draws the line of the inflection context at the gamma of the cell, and returns the context as text. */
function drawInflection(gamma) {
  const context = state.surface.case.inflection_context[gamma];
  const place = gamma === 0 ? null : placeOn(content.context, context);
  const x = place === null ? 0 : left(place) + CELL_WIDTH / 2;
  const path = place === null ? "" : upright(x);
  for (const id of ["inflection-line", "inflection-halo"]) element(id).setAttribute("d", path);
  const where = gamma === 0 ? "none at gamma 0" : context === null ? "none" : whole(context) + (path ? "" : ", off the map");
  element("inflection-key").textContent = `inflection context${gamma ? ` at γ ${gamma}` : ""}: ${where}`
    + (path ? "; from here on a larger batch does not reduce the speedup" : "");
  return where;
}

/** [b, c] of the cell under the mouse, or null. */
function under(event) {
  const box = map.getBoundingClientRect();
  const scale = map.viewBox.baseVal.width / box.width;
  const c = Math.floor(((event.clientX - box.left) * scale - LEFT) / CELL_WIDTH);
  const b = ROWS - 1 - Math.floor(((event.clientY - box.top) * scale - TOP) / CELL_HEIGHT);
  return c >= 0 && c < COLUMNS && b >= 0 && b < ROWS ? [b, c] : null;
}
