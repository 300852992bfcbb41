// The tables behind the bars of a cell: memory in numbers, the largest tensors, communication.

/** A folded table: titles of the columns, of which those from `numeric` on are figures, and rows of cells. */
function folded(title, heads, numeric, rows, name) {
  const head = heads.map((text, i) => el("th", {scope: "col", class: i >= numeric ? "num" : null}, text));
  return el("details", {}, el("summary", {}, title),
    el("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": title},
      el("table", {class: name}, el("thead", {}, el("tr", {}, head)), el("tbody", {}, rows))));
}

const figure = (value, write) => el("td", {class: "num", "data-v": value}, write(value));

function memoryTable(rows, used) {
  const lines = rows.flatMap(({row, runs}) => runs.map(([run, values, of]) =>
      el("tr", {}, el("th", {scope: "row"}, rankText(row.ranks)),
    el("td", {}, run), el("td", {}, of.at || dash), used.map((i) => figure(values[i], bytes)))));
  return folded("Peak memory by category", ["ranks", "", "peak during",
      ...used.map((i) => data.categories[i])], 3, lines, "memory-table");
}

function holderTable(rows) {
  const lines = rows.flatMap(({runs}) => runs.flatMap(([run, , of]) => of.holders.map((holder) => el("tr", {},
    el("th", {scope: "row"}, `rank ${of.ranks[0]}`), el("td", {}, run), el("td", {}, holder.name),
        el("td", {}, holder.category),
    figure(holder.bytes, bytes), figure(holder.tensors, plain)))));
  if (lines.length === 0) return null;
  return folded("Largest tensors at the peak", ["rank", "", "tensor", "category", "total", "tensors"], 4,
      lines, "holders");
}

const titleOf = (group) => data.group_titles[data.groups.indexOf(group)] ?? group;

/** Bytes and messages that a rank sends in a step, of each figure the largest of any rank. */
function trafficTable(cell) {
  const p = cell.prediction?.traffic, m = cell.measurement?.traffic;
  if (!p && !m) return null;
  const lines = [];
  const line = (name, predicted, measured, write) => {
    if (!predicted && !measured) return;
    lines.push(el("tr", {}, el("th", {scope: "row"}, name), figure(predicted, write),
      anyMeasured ? [figure(measured, write), el("td", {class: "num"},
          difference(predicted, measured, "percent"))] : null));
  };
  line("P2P messages", p?.messages, m?.messages, plain);
  line("P2P bytes", p?.message_bytes, m?.message_bytes, bytes);
  for (const group of new Set([...Object.keys(p?.groups || {}), ...Object.keys(m?.groups || {})])) {
    const mine = p?.groups[group] || {}, theirs = m?.groups[group] || {};
    line(`${titleOf(group)}: calls`, p && (mine.calls || 0), m && (theirs.calls || 0), plain);
    for (const [key, name] of [["all_reduce_bytes", "all-reduce bytes"],
        ["all_gather_bytes", "all-gather bytes"],
      ["reduce_scatter_bytes", "reduce-scatter bytes"], ["broadcast_bytes", "broadcast bytes"],
      ["all_to_all_bytes", "all-to-all bytes"]]) {
      line(`${titleOf(group)}: ${name}`, p && (mine[key] || 0), m && (theirs[key] || 0), bytes);
    }
  }
  const heads = anyMeasured ? ["", "predicted", "measured", "difference"] : ["", "predicted"];
  return folded("Communication per step, maximum over ranks", heads, 1, lines, "traffic");
}
