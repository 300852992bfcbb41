// One cell: its figures side by side, where time and memory go, and its timelines.

const current = {index: -1, lanes: null};

const capital = (text) => text[0].toUpperCase() + text.slice(1);
const isPart = (name) => name[0] === name[0].toLowerCase();
const timeRows = [
  [capital(data.labels.step_s), "step_s", time, "percent"],
  [data.labels.compute_s, "compute_s", time, "percent"],
  [data.labels.exposed_tensor_s, "exposed_tensor_s", time, "percent"],
  [data.labels.exposed_pipeline_s, "exposed_pipeline_s", time, "percent"],
  [data.labels.exposed_vocabulary_s, "exposed_vocabulary_s", time, "percent"],
  [data.labels.exposed_data_s, "exposed_data_s", time, "percent"],
  [data.labels.exposed_offload_s, "exposed_offload_s", time, "percent"],
  [data.labels.optimizer_s, "optimizer_s", time, "percent"],
  [capital(data.labels.bubble_fraction), "bubble_fraction", ratio, "absolute"],
  [capital(data.labels.bubble_ratio), "bubble_ratio", ratio, "absolute"],
];
const share = (value) => (known(value) ? (100 * value).toFixed(1) + " %" : dash);
const throughputRows = [
  [capital(data.labels.tokens_per_s), "tokens_per_s", plain, "percent"],
  [data.labels.tokens_per_s_per_gpu, "tokens_per_s_per_gpu", plain, "percent"],
  [data.labels.model_tflops_per_gpu, "model_tflops_per_gpu", plain, "percent"],
  [data.labels.mfu, "mfu", share, "percent"],
  [data.labels.hfu, "hfu", share, "percent"],
];
/** A page of predictions alone has no columns for measurements. */
const anyMeasured = data.measured;
// GPU memory of the process of the fullest rank.
const deviceRows = [
  ["tensors (allocated)", "allocated_bytes"],
  ["tensors (reserved)", "reserved_bytes"],
  ["context", "context_bytes"],
  ["libraries and workspaces", "libraries_bytes"],
  ["communicators", "nccl_bytes"],
  ["kernels and other", "other_bytes"],
];

function difference(predicted, measured, kind) {
  if (!known(predicted) || !known(measured)) return dash;
  if (kind === "absolute") return signed(predicted - measured, 4);
  return measured === 0 ? dash : percent(predicted / measured - 1);
}

function compareTable(cell) {
  const p = cell.prediction, m = cell.measurement;
  const rows = [];
  const row = (name, key, predicted, measured, write, kind) => {
    if (!predicted && !measured && isPart(name)) return;  // nothing of this kind here
    rows.push(el("tr", {class: isPart(name) ? "sub" : null, "data-key": key}, el("th", {scope: "row"}, name),
      el("td", {class: "num", "data-v": predicted}, write(predicted)),
      anyMeasured ? [el("td", {class: "num", "data-v": measured}, write(measured)),
          el("td", {class: "num"}, difference(predicted, measured, kind))] : null));
  };
  row("Peak memory", "peak_bytes", p?.memory.peak_bytes, m?.memory.peak_bytes, bytes, "percent");
  const onDevice = [p, m].map((part) => part?.device_memory?.ranks[0]);
  if (onDevice.some(Boolean)) {
    const both = (key) => onDevice.map((rank) => rank?.[key]);
    row("Device memory, fullest rank", "device_total_bytes", ...both("total_bytes"), bytes, "percent");
    for (const [name, key] of deviceRows) row(name, "device_" + key, ...both(key), bytes, "percent");
  }
  for (const [name, key, write, kind] of timeRows) row(name, key, p?.time[key], m?.time[key], write, kind);
  collectiveNames.forEach((name, i) => {
    const call = ["C0", "C1", "C2", "I1", "I2"][i], of = (part) => part?.time.vocabulary_collectives?.[call];
    if (!of(p) && !of(m)) return;
    row(name, call + "_time_s", of(p)?.time_s, of(m)?.time_s, time, "percent");
    row("exposed", call + "_exposed_s", of(p)?.exposed_s, of(m)?.exposed_s, time, "percent");
    row("overlap in steady state", call + "_overlapped", of(p)?.overlapped, of(m)?.overlapped, share,
        "absolute");
  });
  data.groups.forEach((name, i) => {
    const of = (part) => part?.lanes?.[name];
    if (!of(p) && !of(m)) return;
    row(capital(data.group_titles[i]), "lane_" + name + "_time_s", of(p)?.time_s, of(m)?.time_s, time,
        "percent");
    row("exposed", "lane_" + name + "_exposed_s", of(p)?.exposed_s, of(m)?.exposed_s, time, "percent");
  });
  for (const [name, key, write, kind] of throughputRows) {
    row(name, key, p?.throughput[key], m?.throughput[key], write, kind);
  }
  const heading = p?.heading || "predicted";
  const heads = anyMeasured ? ["", heading, "measured", "difference"] : ["", heading];
  const head = heads.map((text, i) => el("th", {scope: "col", class: i ? "num" : null}, text));
  return el("div", {class: "scroll compare", tabindex: "0", role: "region",
      "aria-label": "Predicted and measured figures"},
    el("table", {id: "compare"}, el("thead", {}, el("tr", {}, head)), el("tbody", {}, rows)));
}

function bar(parts, most) {
  const box = el("div", {class: "bar", "aria-hidden": "true"});
  parts.forEach((value, kind) => {
    if (!(value > 0)) return;
    const piece = el("i", {class: `k${kind}`});
    piece.style.width = (100 * value / most) + "%";
    box.append(piece);
  });
  return box;
}

const sum = (values) => values.reduce((total, value) => total + (value || 0), 0);

function timeBars(cell) {
  const parts = ["compute_s", "exposed_tensor_s", "exposed_pipeline_s", "exposed_data_s", "optimizer_s"];
  const words = parts.map((key) => data.labels[key]);
  const runs = [[cell.prediction?.times_guessed ? "guess" : "predicted", cell.prediction],
      ["measured", cell.measurement]].filter(([, part]) => part)
    .map(([run, part]) => [run, parts.map((key) => part.time[key]), part.time.step_s]);
  const most = Math.max(...runs.map(([, values, whole]) => Math.max(sum(values), whole || 0)));
  if (!(most > 0)) return [];
  const bars = runs.flatMap(([run, values, whole]) =>
      [el("span", {class: "who"}, run), bar(values, most), el("span", {}, time(whole))]);
  return [el("h3", {}, "Step time breakdown"),
    el("div", {class: "bars", role: "img", "aria-label": runs.map(([run, values]) =>
      `${run}: ` + words.map((word, i) => `${word} ${time(values[i])}`).join(", ")).join("; ")}, bars),
    el("ul", {class: "legend"}, words.map((word, i) =>
        el("li", {}, el("i", {class: `swatch k${i}`}), word)))];
}

/** "0–3, 8": [0, 3, 8, 8]. */
function rankText(ranges) {
  const parts = [];
  for (let i = 0; i < ranges.length; i += 2) {
    parts.push(ranges[i] === ranges[i + 1] ? ranges[i] : `${ranges[i]}\u2013${ranges[i + 1]}`);
  }
  return (parts.length === 1 && ranges[0] === ranges[1] ? "rank " : "ranks ") + parts.join(", ");
}

function memoryBars(cell) {
  const groups = new Map();
  for (const [run, part] of [["predicted", cell.prediction], ["measured", cell.measurement]]) {
    for (const row of part?.memory.ranks || []) {
      const key = row.ranks.join();
      if (!groups.has(key)) groups.set(key, {row, runs: []});
      groups.get(key).runs.push([run, row.bytes, row]);
    }
  }
  if (groups.size === 0) return [];
  const rows = Array.from(groups.values()).sort((a, b) => a.row.ranks[0] - b.row.ranks[0]);
  const most = Math.max(...rows.flatMap(({runs}) => runs.map(([, values]) => sum(values))), 1);
  const bars = rows.flatMap(({row, runs}) => [el("span", {class: "rank"},
      `${rankText(row.ranks)}, pipeline rank ${row.pipeline_rank}`),
    ...runs.flatMap(([run, values]) => [el("span", {class: "who"}, run), bar(values, most),
        el("span", {"data-total": sum(values)}, bytes(sum(values)))])]);
  const words = rows.map(({row, runs}) => `${rankText(row.ranks)}: ` +
      runs.map(([run, values]) => `${run} ${bytes(sum(values))}`).join(", "));
  const used = data.categories.map((_, i) => i).filter((i) =>
      rows.some(({runs}) => runs.some(([, values]) => values[i] > 0)));
  return [el("h3", {}, "Peak memory per rank"),
    el("div", {class: "bars", role: "img", "aria-label": words.join("; ")}, bars), categoryLegend(used),
        memoryTable(rows, used), holderTable(rows)];
}

function factsOf(cell) {
  const config = {...data.common, ...cell.config};
  const rows = Object.entries(config).map(([key, value]) =>
      el("tr", {}, el("th", {scope: "row"}, key), el("td", {}, String(value) || dash)));
  return el("details", {}, el("summary", {}, "Configuration"),
      el("table", {id: "config"}, el("tbody", {}, rows)));
}

function runNote(cell) {
  const m = cell.measurement;
  if (!m) return null;
  const share = (value, what) => value > 0.05 ? [`${(100 * value).toFixed(0)} % ${what}`] : [];
  const d = m.disturbance;
  const disturbed = d && d.disturbed ? " Disturbed: " +
      [...share(d.others, "of the processors used by other programs"),
    ...share(d.stolen, "taken by the hypervisor"),
        ...share(d.waited, "of the time waited for a processor")].join(", ") + "." : "";
  const probed = cell.probed && cell.error
      ? `Step time, predicted (current machine speed): ${time(cell.probed.time.step_s)}, error ` +
    `${percent(cell.error.probed_step_time)}. ` : "";
  return el("p", {class: "note"},
      `${probed}${m.samples} timed steps, ${time(m.step_s_min)} to ${time(m.step_s_max)}; loss ` +
    `${known(m.loss) ? m.loss.toFixed(6) : dash}; ${bytes(m.device_reserved_bytes)} reserved on the device ` +
    `of the fullest rank.${disturbed}`);
}

async function showCell(index) {
  const cell = data.cells[index];
  if (!cell || index === current.index) return;
  current.index = index;
  current.lanes = null;
  document.getElementById("pick").value = String(index);
  markRow(index);
  const place = document.getElementById("detail");
  try {
    await loadDetails(index);
  } catch (error) {
    place.replaceChildren(el("p", {class: "note"},
        `The details cannot be read; a newer browser may: ${error.message}`));
    return;
  }
  if (current.index !== index) return;
  const left = el("div", {}, compareTable(cell), runNote(cell), trafficTable(cell), factsOf(cell));
  const right = el("div", {}, timeBars(cell), memoryBars(cell));
  const lines = el("div", {}, el("h3", {}, "Timelines"));
  const status = el("p", {}, el("span", {class: `status ${cell.status}`}, cell.status),
      cell.reason ? `: ${cell.reason}` : "",
    cell.prediction && !cell.prediction.fits ? " (predicted not to fit)" : "");
  place.replaceChildren(el("p", {class: "note", id: "cell-id"}, cell.id), status,
      el("div", {class: "columns"}, left, right), lines);
  showTimelines(index, lines);
}
