// Mouse, touch and keyboard on the timelines, and the words about the action under the cursor.

const laneHelp = "Predicted and measured timelines. Left and right arrows go from action to action, up and " +
  "down from lane to lane, plus and minus zoom, 0 shows everything, Home and End go to the first and last " +
  "action, C to the next on the critical path.";
const onPath = "; exposed parts in the colour of the critical path";

function button(text, label, work) {
  const element = el("button", {type: "button", "aria-label": label, title: label}, text);
  element.addEventListener("click", work);
  return element;
}

function checkbox(text, checked, work) {
  const input = el("input", {type: "checkbox", checked});
  input.addEventListener("change", () => work(input.checked));
  return el("label", {}, input, text);
}

const nextFrame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
const nextTask = () => new Promise((done) => setTimeout(done));

/** Shows a cell's timelines below `place`; large ones in steps, so the page stays responsive. */
async function showTimelines(index, place) {
  const headers = Object.values(data.cells[index].timelines || {});
  const large = headers.some((header) => sum(header.ranks) > 20000);
  const timelines = [];
  const note = el("p", {class: "note"}, "Reading the timelines\u2026");
  if (large) {
    place.append(note);
    await nextFrame();  // the rest of the cell is shown first
  }
  for (const run of ["predicted", "measured"]) {
    if (large) await nextTask();
    if (current.index !== index) return;
    const timeline = decodeTimeline(run, index);
    if (timeline && timeline.count > 0) timelines.push(timeline);
  }
  if (large) await nextTask();
  if (current.index !== index) return;
  note.remove();
  buildTimelines(index, timelines, place);
}

function buildTimelines(index, timelines, place) {
  const cell = data.cells[index];
  if (cell.timeline_note) place.append(el("p", {class: "note"}, cell.timeline_note));
  if (timelines.length === 0) {
    if (!cell.timeline_note) {
      place.append(el("p", {class: "note"},
          "No timelines were recorded for this cell: it did not run, or its folder has " +
        "no timelines/" + cell.id + ".json."));
    }
    return;
  }
  const canvas = el("canvas", {"aria-hidden": "true"});
  const root = el("div", {class: "lanes", tabindex: "0", role: "application", "aria-label": laneHelp},
    el("div", {class: "tall"}), canvas);
  const explain = el("div", {class: "explain", id: "explain"});
  const overview = el("canvas", {class: "overview", "aria-hidden": "true"});
  const memory = el("div", {});
  let strips = null, chart = null;
  const lanes = new Lanes(timelines, root, canvas, () => { strips?.(); chart?.draw(); }, (found, byKey) => {
    explain.setAttribute("aria-live", byKey ? "polite" : "off");
    explain.replaceChildren(...explanation(found, timelines));
    if (found) chart?.follow(found.rank);
  });
  const grouping = button("Group by rank", "Group the lanes by rank", () => {
    lanes.grouping = lanes.grouping === "run" ? "rank" : "run";
    grouping.setAttribute("aria-pressed", String(lanes.grouping === "rank"));
    lanes.arrange();
  });
  grouping.setAttribute("aria-pressed", "false");
  place.append(
    el("div", {class: "toolbar"},
      button("+", "Zoom in", () => lanes.zoom(0.5)), button("\u2212", "Zoom out", () => lanes.zoom(2)),
      button("\u2190", "Earlier", () => lanes.pan(-(lanes.to - lanes.from) / 3)),
      button("\u2192", "Later", () => lanes.pan((lanes.to - lanes.from) / 3)),
      button("Fit", "Show everything", () => lanes.show(0, lanes.span * 1.01)),
      timelines.length > 1 ? grouping : null,
      timelines.some((timeline) => timeline.lanes.length)
        ? checkbox("Communication lanes", lanes.showGroups,
            (on) => { lanes.showGroups = on; lanes.arrange(); }) : null,
      checkbox("Critical path", true, (on) => { lanes.showChain = on; lanes.draw(); })),
    root, overview, explain, legend(timelines), memory, rankTable(timelines));
  explain.replaceChildren(...explanation(null, timelines));
  strips = paintOverview(overview, lanes);
  chart = showMemory(memory, lanes);
  listen(root, canvas, lanes);
  current.lanes = lanes;
}

function legend(timelines) {
  const items = data.types.filter((name, type) => !isTransfer(name) &&
      timelines.some((timeline) => timeline.types[type]))
    .map((name) => {
      const swatch = el("i", {class: "swatch"});
      swatch.style.background = fills[name] || fills.transfer;
      return el("li", {}, swatch, names[name] ? `${names[name]} (${name})` : name);
    });
  const line = el("i", {class: "swatch"});
  line.style.background = "var(--path)";
  line.style.height = "3px";
  const thin = el("i", {class: "swatch"});
  thin.style.background = fills.transfer;
  thin.style.height = "3px";
  const waits = timelines.some((timeline) => timeline.collectives.length)
    ? el("li", {}, "thin lines: vocabulary collectives C0, C1, C2, I1, I2" + onPath) : null;
  return el("ul", {class: "legend"}, items, el("li", {}, thin, "message, waiting included"), waits,
    timelines.some((timeline) => timeline.lanes.length)
      ? el("li", {}, "bars below a rank: communication and CPU offload copies" + onPath) : null,
    el("li", {}, el("i", {class: "swatch hatch"}), "bubble (idle)"), el("li", {}, line, "critical path"));
}

/** Busy and idle time of every rank: the chart in words. */
function rankTable(timelines) {
  const head = [el("th", {scope: "col"}, "rank")];
  for (const {run} of timelines) head.push(...["busy",
      "idle"].map((what) => el("th", {scope: "col", class: "num"}, `${run} ${what}`)));
  const ranks = Math.max(...timelines.map((timeline) => timeline.ranks.length));
  const rows = [];
  for (let rank = 0; rank < ranks; ++rank) {
    const cells = [el("th", {scope: "row"}, String(rank))];
    for (const timeline of timelines) {
      const busy = timeline.busy[rank];
      cells.push(el("td", {class: "num"}, busy === undefined ? dash : time(secondsOf(timeline, busy))),
        el("td", {class: "num"}, busy === undefined ? dash
            : time(secondsOf(timeline, timeline.pipelineEnd - busy))));
    }
    rows.push(el("tr", {}, cells));
  }
  return el("details", {}, el("summary", {}, "Busy and idle time of every rank"),
    el("div", {class: "scroll", tabindex: "0", role: "region",
        "aria-label": "Busy and idle time of every rank"},
      el("table", {class: "ranks"}, el("thead", {}, el("tr", {}, head)), el("tbody", {}, rows))));
}

function explanation(found, timelines) {
  if (!found) {
    return [el("b", {}, "Point at an action"), el("p", {class: "note"},
      "or focus the chart and use the arrow keys. Drag to move, Ctrl and wheel (or two fingers) to zoom.")];
  }
  const {timeline, rank, event} = found;
  if (found.collective) {
    const [kind, microbatch, start, end, from, to] = found.collective;
    return [el("b", {}, collectiveNames[kind]),
        ` \u00b7 micro-batch ${microbatch}, rank ${rank}, ${timeline.run}`,
      el("p", {class: "note"},
        `from ${time(secondsOf(timeline, start))} to ${time(secondsOf(timeline, end))}; ` +
        (to > from ? `exposed ${time(secondsOf(timeline, to - from))}` : "overlapped with computation"))];
  }
  if (found.span !== undefined) {
    const {laneStart, laneLength, laneWaited, laneGroup} = timeline, i = found.span;
    return [el("b", {}, capital(data.group_titles[laneGroup[i]])), ` \u00b7 rank ${rank}, ${timeline.run}`,
      el("p", {class: "note"},
        `${time(secondsOf(timeline, laneStart[i]))} + ${time(secondsOf(timeline, laneLength[i]))}; ` +
        (laneWaited[i] > 0 ? `exposed ${time(secondsOf(timeline, laneWaited[i]))}`
            : "overlapped with computation"))];
  }
  if (event < 0) {
    const after = found.ticks > timeline.pipelineEnd;
    return [el("b", {}, `Rank ${rank}, ${timeline.run}: ${after ? "the step is over" : "bubble"}`),
      el("p", {class: "note"}, `at ${time(secondsOf(timeline, found.ticks))}; ` +
        (after ? "nothing left to do" : "waiting for another stage"))];
  }
  const name = data.types[timeline.type[event]];
  const other = timelines.find((each) => each !== timeline);
  const partner = other && timeline.partner[event] !== noPartner ? timeline.partner[event] : -1;
  const facts = [];
  const fact = (term, text) => facts.push(el("div", {}, el("dt", {}, term), el("dd", {}, text)));
  const describe = (line, i) =>
      `${time(secondsOf(line, line.start[i]))} + ${time(secondsOf(line, line.length[i]))}`;
  fact(`${timeline.run}: start + length`, describe(timeline, event));
  if (partner >= 0) {
    fact(`${other.run}: start + length`, describe(other, partner));
    const [p, m] = timeline.run === "predicted"
        ? [secondsOf(timeline, timeline.length[event]), secondsOf(other, other.length[partner])]
      : [secondsOf(other, other.length[partner]), secondsOf(timeline, timeline.length[event])];
    fact("length: predicted against measured", m > 0 ? percent(p / m - 1) : dash);
  }
  for (const [line, i] of partner >= 0 ? [[timeline, event], [other, partner]] : [[timeline, event]]) {
    const rows = cachedMemory(line, line.rankOf[i]);
    if (rows) fact(`${line.run} memory: peak in the action, then`, memoryText(line, rows, i));
  }
  const where = data.compute[timeline.type[event]] || isTransfer(name)
    ? `micro-batch ${timeline.microbatch[event]}, stage ${timeline.stage[event]}, ` : "";
  return [el("b", {}, names[name] ? `${names[name]} (${name})` : name),
      ` \u00b7 ${where}rank ${rank}, ${timeline.run}` +
    (timeline.onChain[event] ? ", on the critical path" : ""), el("dl", {}, facts)];
}

function cachedMemory(timeline, rank) {
  timeline.memoryRows ||= new Map();
  if (!timeline.memoryRows.has(rank)) timeline.memoryRows.set(rank, memoryOf(timeline, rank));
  return timeline.memoryRows.get(rank);
}

function memoryText(timeline, rows, event) {
  const kinds = data.categories.length;
  const row = 2 * (event - timeline.ranks[timeline.rankOf[event]].first);
  const total = (at) => rows.subarray(at * kinds, (at + 1) * kinds).reduce((sum, value) => sum + value, 0);
  return `${bytes(total(row))}, ${bytes(total(row + 1))}`;
}
