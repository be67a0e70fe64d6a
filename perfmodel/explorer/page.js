"use strict";
// The answer at one cell, the breakdown of its times, and the controls. Every change draws all of them again.

const TERMS = {
  param_load: ["weights", "parameter load"],
  kv_load: ["KV", "cache load"],
  flops: ["compute", "FLOPs"],
  activations: ["activations", "in and out"],
  comm: ["all-reduce", "communication"],
  fixed: ["launches", "fixed costs"],
  host: ["host", "waiting for the CPU"],
};

// --- the answer at one cell

function verdict(speedup, interval, gamma, fits, measured) {
  if (!fits) return "does_not_fit";
  if (gamma === 0) return "does_not_pay";
  const [low, high] = interval ?? [speedup, speedup];
  if (low > 1) return measured ? "pays" : "likely_pays";
  if (high > 1) return "too_close_to_call";
  return measured ? "does_not_pay" : "likely_does_not_pay";
}

function read(cells, b, c, inflection) {
  const { surface, alpha } = state;
  const { case: kase, content: { batch: batches, context: contexts } } = surface;
  const { gamma, speedup } = cells[b][c];
  const [batch, context] = [batches[b], contexts[c]];
  const best = surface.best(alpha, b, c);
  const interval = surface.interval(speedup, alpha, b, c, gamma);
  const drafted = gamma || surface.best(alpha, b, c, 1);
  const judged = state.gamma === null ? drafted : gamma; // if no length gains, the length that loses least
  const judgedSpeedup = surface.speedup(alpha, b, c, judged);
  const judgedInterval = surface.interval(judgedSpeedup, alpha, b, c, judged);
  const word = verdict(judgedSpeedup, judgedInterval, judged, surface.fits(b, c, gamma), kase.is_measured);
  const baseline = surface.pass("baseline", "predicted_s", b, c, 0);
  const omega = tokensPerIteration(alpha, gamma);
  const each = surface.iteration(b, c, gamma) / omega;
  const drafter = kase.draft === "self" ? `the target itself, ${kase.method}` : kase.draft;
  element("subject").textContent = `${kase.model} on ${deviceOf(kase)}; draft: ${drafter}; batch ${batch.toLocaleString("en-US")}, context ${context.toLocaleString("en-US")}, `
    + `gamma ${gamma}${state.gamma === null ? " (the best)" : ""}`;
  element("verdict").className = word;
  element("word").textContent = `${content.verdicts[word]}:`;
  element("speedup").textContent = times(speedup);
  element("interval").textContent = gamma === 0 ? "" : interval === null
    ? "(no interval: this calibration states no scatter)"
    : `(${interval[0].toFixed(2)} to ${interval[1].toFixed(2)}, ${Math.round(100 * content.coverage)} % interval)`;
  element("why").textContent = why(b, c, gamma, omega);
  const even = surface.breakEven(alpha, b, drafted);
  const ratio = (name) => (surface.pass(name, "predicted_s", b, c, gamma || 1) / baseline).toFixed(2);
  const facts = {
    "time per token": `${seconds(baseline)} baseline, ${seconds(each)} speculating`,
    throughput: `${(batch / baseline).toFixed(0)} tokens/s baseline, ${(batch / each).toFixed(0)} speculating`,
    "best gamma": `${best} (${times(surface.speedup(alpha, b, c, best))})`,
    "cost ratios": `draft/target ${ratio("draft")}, verification/target ${ratio("verify")}${gamma ? "" : " at gamma 1"}`,
    acceptance: `alpha ${alpha.toFixed(2)}, ${omega.toFixed(2)} tokens per iteration`,
    "break-even context": `${even === null ? `none up to ${contexts[COLUMNS - 1].toLocaleString("en-US")}`
      : even === 0 ? `${contexts[0].toLocaleString("en-US")} or below` : `about ${about(even)}`} at gamma ${drafted}`,
    "inflection context": inflection,
    memory: memoryText(b, c, gamma),
    "runs in": kase.runs_in ?? "no serving engine: a research stack",
    calibration: `${kase.calibration.name} (${kase.calibration.kind})`,
  };
  const measured = measuredHere().find((dot) => Math.round(dot.b) === b && Math.round(dot.c) === c);
  if (measured) facts.measured = measured.words;
  element("facts").replaceChildren(...Object.entries(facts).flatMap(([name, text]) => [make("dt", {}, name), make("dd", {}, text)]));
  element("notes").replaceChildren(...notes(b, c, gamma).map((note) => make("li", {}, note)));
  const published = kase.published[c];
  element("published").hidden = published === null;
  if (published) element("published-text").textContent = `Published alpha here: ${published[0].toFixed(2)} (${published[1]}).`;
  const command = `perfmodel whatif ${kase.flags} --batch ${batch} --context ${context} `
    + `--gamma ${state.gamma ?? "auto"} --alpha ${alpha}`;
  element("command").replaceChildren(...command.split(" ").flatMap((word) => [make("span", {}, word), " "]).slice(0, -1));
  map.setAttribute("aria-label", `Map of speedup over batch and context. At batch ${batch}, context ${context}: ${times(speedup)}.`);
}

function why(b, c, gamma, omega) {
  const { surface, alpha } = state;
  if (gamma === 0) return `No draft length up to ${surface.lastGamma} is faster than the baseline; gamma 1 would give ${times(surface.speedup(alpha, b, c, 1))}.`;
  const baseline = surface.pass("baseline", "predicted_s", b, c, 0);
  const [gained, added] = [(omega - 1) * baseline, surface.iteration(b, c, gamma) - baseline];
  return `An iteration saves ${seconds(gained)} of baseline decoding (limited by ${limiter("baseline", b, c, 0)}), `
    + `${gained > added ? "more" : "no more"} than the ${seconds(added)} it adds.`;
}

function memoryText(b, c, gamma) {
  const { surface } = state;
  if (surface.case.available_bytes === null) return "unknown";
  return `${surface.fits(b, c, gamma) ? "fits" : "does not fit"}; largest batch ${whole(surface.largestBatch(c, gamma))} `
    + `(${whole(surface.largestBatch(c, 0))} baseline)`;
}

/** The models, with their maximum contexts, for which a context and the tokens of an iteration are too long. */
function exceeded(kase, context, gamma) {
  const models = Object.entries(kase.max_context);
  return (gamma ? models : models.slice(0, 1)).filter(([, most]) => context + gamma + 1 > most);
}

/** Whether a cell fits in memory and in the models' contexts. */
function runs(surface, b, c, gamma) {
  return surface.fits(b, c, gamma) && !exceeded(surface.case, content.context[c], gamma).length;
}

function notes(b, c, gamma) {
  const { surface: { case: kase } } = state;
  const context = content.context[c];
  const list = [];
  for (const [name, most] of exceeded(kase, context, gamma)) {
    list.push(`context ${context} (+${gamma + 1}) is beyond ${name}'s maximum of ${most}`);
  }
  if (!state.surface.fits(b, c, gamma)) {
    list.push(`batch ${content.batch[b]} does not fit in ${(kase.available_bytes / 1e9).toFixed(1)} GB per device`);
  }
  if (gamma && kase.kv_budget !== null && kase.kv_budget >= context) {
    list.push(`KV budget ${kase.kv_budget} is not below the context: the draft reads the full cache`);
  }
  const [target, drafter] = Object.entries(kase.vocabulary);
  if (gamma && drafter && drafter[1] !== target[1]) {
    list.push(`${drafter[0]} has ${drafter[1]} vocabulary entries, ${target[0]} ${target[1]}`);
  }
  if (gamma && !kase.runs && kase.runs_in) list.push(`no engine runs this draft: ${kase.runs_in}`);
  if (kase.transferred_from) {
    list.push(`the calibration is transferred from ${kase.transferred_from}: it was not made for ${kase.hardware}`);
  }
  return list;
}

// --- the breakdown of the times

function limiter(pass, b, c, g) {
  const values = Object.keys(TERMS).map((term) => state.surface.pass(pass, term, b, c, g));
  const most = Math.max(...values);
  return most ? content.limiters[values.indexOf(most)] : "";
}

function breakDown(cells, b, c) {
  const { surface, alpha } = state;
  const chosen = cells[b][c].gamma;
  const g = chosen || 1;
  const passes = surface.case.draft_passes[g];
  const iteration = (term) => passes * surface.pass("draft", term, b, c, g) + surface.pass("verify", term, b, c, g);
  const columns = (term) => [...["baseline", "draft", "verify"].map((pass) => surface.pass(pass, term, b, c, g)), iteration(term)];
  element("breakdown-at").textContent = `at batch ${content.batch[b].toLocaleString("en-US")}, context `
    + `${content.context[c].toLocaleString("en-US")}, gamma ${g}${chosen ? "" : " (the best is none)"}; `
    + `${passes} draft ${passes === 1 ? "step" : "steps"} per iteration`;
  const most = Math.max(...Object.keys(TERMS).map(iteration));
  element("terms").replaceChildren(...Object.entries(TERMS).map(([term, [name, more]]) => line(
    [name, more], columns(term).map((value) => amount(value, most)))));
  const overhead = surface.overhead(b, c);
  const predicted = columns("predicted_s");
  predicted[3] += overhead;
  element("totals").replaceChildren(
    line(["outside the passes", ""], ["", "", "", seconds(overhead)]),
    line(["lower bound", ""], columns("lower_s").map(seconds)),
    line(["predicted", ""], predicted.map(seconds), "total"),
    line(["limited by", ""], [...["baseline", "draft", "verify"].map((pass) => limiter(pass, b, c, g)), ""]));
  race(alpha, b, c, g, passes, overhead);
}

function line([name, more], values, kind = "") {
  const head = make("th", { scope: "row" }, name, " ", make("small", {}, more));
  return make("tr", { class: kind }, head, ...values.map((value) => make("td", {}, value)));
}

function amount(value, most) {
  const bar = make("div");
  bar.style.width = `${(100 * value) / most}%`;
  return make("div", { class: "amount" }, make("span", {}, seconds(value)), bar);
}

/** Draws two bars on one scale: the baseline's time for the tokens that an iteration gains, and the time of the iteration. */
function race(alpha, b, c, g, passes, overhead) {
  const { surface } = state;
  const omega = tokensPerIteration(alpha, g);
  const baseline = omega * surface.pass("baseline", "predicted_s", b, c, 0);
  const lanes = {
    [`baseline, ${omega.toFixed(2)} tokens`]: [["--baseline", "baseline steps", baseline]],
    [`drafted, ${omega.toFixed(2)} tokens`]: [
      ["--draft", "draft steps", passes * surface.pass("draft", "predicted_s", b, c, g)],
      ["--verify", "verification", surface.pass("verify", "predicted_s", b, c, g)],
      ["--outside", "outside the passes", overhead],
    ],
  };
  const most = Math.max(baseline, surface.iteration(b, c, g));
  element("race").replaceChildren(...Object.entries(lanes).map(([name, parts]) => {
    const bar = make("div", { class: "bar", "aria-hidden": "true" });
    const words = make("div", { class: "parts" });
    for (const [colour, part, value] of parts) {
      bar.append(make("div", { style: `width: ${(100 * value) / most}%; background: var(${colour})` }));
      words.append(make("span", {}, make("i", { class: "swatch", style: `background: var(${colour})` }), `${part} ${seconds(value)}`));
    }
    return make("div", { class: "lane" }, make("span", {}, name), bar, words);
  }));
}

// --- the address, which contains the state of the page, so a link opens the page in this state

function remember() {
  const chosen = Object.fromEntries(Object.keys(SELECTS).map((id) => [id, element(id).value]));
  const { alpha, gamma, b, c } = state;
  const words = { ...chosen, alpha, gamma: gamma ?? "auto", batch: content.batch[b], context: content.context[c] };
  try {
    history.replaceState(null, "", `#${new URLSearchParams(words)}`);
  } catch { /* some browsers do not let a page from the disk change its address */ }
}

function recall() {
  const words = new URLSearchParams(location.hash.slice(1));
  for (const id of Object.keys(SELECTS)) {
    const known = [...element(id).options].some((option) => option.value === words.get(id));
    if (known) element(id).value = words.get(id);
  }
  const alpha = Number(words.get("alpha") ?? NaN);
  if (alpha >= 0 && alpha <= 1) state.alpha = alpha;
  if (words.has("gamma")) state.gamma = Math.max(Math.floor(Number(words.get("gamma"))), 0) || null;
  for (const [name, place] of [["batch", "b"], ["context", "c"]]) {
    const at = content[name].indexOf(Number(words.get(name)));
    if (at >= 0) state[place] = at;
  }
}

// --- the clipboard

async function copy(button, text) {
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
  } catch { // a frame without the right to write to the clipboard
    const area = make("textarea", {}, text);
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  button.textContent = "copied";
  setTimeout(() => { button.textContent = before; }, 1500);
}

// --- the controls

const OTHERS = new Set(content.cases.map((kase) => kase.calibration.stack)).size > 1;
const deviceOf = (kase) => (kase.tp > 1 ? `${kase.tp} x ` : "") + kase.hardware + (OTHERS ? `, ${kase.calibration.stack}` : "");
const SELECTS = { model: (kase) => kase.model, device: deviceOf, method: (kase) => kase.method };

/** Selects the chosen case. Options that the page has no case for are disabled: devices by the model, and methods by both. */
function choose() {
  let cases = content.cases;
  for (const [id, name] of Object.entries(SELECTS)) {
    const possible = new Set(cases.map(name));
    for (const option of element(id).options) option.disabled = !possible.has(option.value);
    if (!possible.has(element(id).value)) element(id).value = name(cases[0]);
    cases = cases.filter((kase) => name(kase) === element(id).value);
  }
  state.surface = new Surface(content, arrays, content.cases.indexOf(cases[0]));
  element("gamma").max = state.surface.lastGamma;
  if (state.gamma !== null) state.gamma = Math.min(state.gamma, state.surface.lastGamma);
}

function showControls(cells) {
  const { alpha, gamma, b, c } = state;
  element("alpha").value = alpha;
  const exact = element("alpha-exact");
  if (document.activeElement !== exact) {
    exact.value = alpha;
    refuse("");
  }
  const best = `best (${cells[b][c].gamma})`;
  element("gamma").value = gamma ?? 0;
  const values = { gamma: gamma === null ? best : String(gamma), batch: content.batch[b], context: content.context[c] };
  element("batch").value = b;
  element("context").value = c;
  for (const [id, value] of Object.entries(values)) {
    const text = value.toLocaleString("en-US");
    element(`${id}-out`).textContent = text;
    element(id).setAttribute("aria-valuetext", text);
  }
}

function update() {
  const cells = state.surface.map(state.alpha, state.gamma);
  const [b, c] = state.hover ?? [state.b, state.c];
  showControls(cells);
  drawMap(cells);
  drawMeasured();
  for (const id of ["pinned", "pinned-halo"]) set(element(id), boxOf(state.b, state.c));
  set(element("hovered"), state.hover ? boxOf(b, c) : { width: 0, height: 0 });
  read(cells, b, c, drawInflection(cells[b][c].gamma));
  breakDown(cells, b, c);
}

function refuse(message) {
  element("alpha-refused").textContent = message;
  element("alpha-exact").setAttribute("aria-invalid", message !== "");
}

function listen() {
  const on = (id, type, change) => element(id).addEventListener(type, (event) => {
    change(event.target.value, event);
    update();
    if (!type.startsWith("pointer")) remember();
  });
  for (const id of Object.keys(SELECTS)) on(id, "change", choose);
  on("cells", "change", () => {});
  on("alpha", "input", (value) => { state.alpha = Number(value); });
  on("alpha-exact", "input", (value) => {
    const alpha = Number(value);
    const possible = value !== "" && alpha >= 0 && alpha <= 1;
    if (possible) state.alpha = alpha;
    refuse(possible ? "" : `A number from 0 to 1; the page shows ${state.alpha}.`);
  });
  on("alpha-exact", "blur", () => {});
  on("gamma", "input", (value) => { state.gamma = Number(value) || null; });
  on("batch", "input", (value) => { state.b = Number(value); });
  on("context", "input", (value) => { state.c = Number(value); });
  on("use-published", "click", () => { [state.alpha] = state.surface.case.published[(state.hover ?? [0, state.c])[1]]; });
  on("map", "pointermove", (_, event) => { state.hover = under(event); });
  on("map", "pointerleave", () => { state.hover = null; });
  on("map", "click", (_, event) => {
    const cell = under(event);
    if (cell) [state.b, state.c] = cell;
  });
  element("copy").addEventListener("click", (event) => copy(event.target, element("command").textContent));
  element("share").addEventListener("click", (event) => {
    remember();
    copy(event.target, location.href);
  });
  element("controls").addEventListener("submit", (event) => event.preventDefault());
  for (const layout of [DARK, PHONE]) layout.addEventListener("change", () => location.reload());
}

/** The cell with the largest speedup of a surface, among the cells that fit in memory and in the models' contexts. */
function bestCell(surface) {
  let most = { speedup: 0, b: 0, c: 0 };
  surface.map(state.alpha, state.gamma).forEach((row, b) => row.forEach(({ speedup, gamma }, c) => {
    if (runs(surface, b, c, gamma) && speedup > most.speedup) most = { speedup, b, c };
  }));
  return most;
}

/** Selects the best cell of the first surface on which speculation pays off, among those of the draft that was asked for. */
function openAtBest() {
  const { draft } = content.start;
  const number = Math.max(content.cases.findIndex((kase, n) => (
    (draft === null || kase.draft === draft) && bestCell(new Surface(content, arrays, n)).speedup > 1)), 0);
  for (const [id, name] of Object.entries(SELECTS)) element(id).value = name(content.cases[number]);
  const { b, c } = bestCell(new Surface(content, arrays, number));
  Object.assign(state, { b, c });
}

/** Sends the height of this page to the page that shows it in a frame. */
function tellHeight() {
  if (window.parent !== window) window.parent.postMessage({ explorerHeight: document.documentElement.scrollHeight }, "*");
}

function begin() {
  for (const [id, name] of Object.entries(SELECTS)) {
    for (const value of new Set(content.cases.map(name))) {
      element(id).append(make("option", {}, value));
    }
  }
  element("batch").max = ROWS - 1;
  element("context").max = COLUMNS - 1;
  const made = [...new Set(content.cases.map(({ calibration: { name, kind, stack, fitted_on: on } }) => (
    `${name} (${kind}, stack ${stack}${on.length ? `, fitted on ${on.join(", ")}` : ""})`)))];
  element("basis").textContent = `perfmodel ${content.version}. Calibrations: ${made.join("; ")}. The times are those of `
    + "perfmodel at the points of the map, in 32 bits. This page computes tokens per iteration, speedup and the best gamma from "
    + "them, with the same acceptance at every position. The interval covers the error of the times, not that of the acceptance. "
    + "Only the break-even line and context lie between points.";
  layOutMap();
  openAtBest();
  recall();
  choose();
  listen();
  update();
  tellHeight();
  window.addEventListener("resize", tellHeight);
}

begin();
