// Mouse and touch input on the timelines.

function listen(root, canvas, lanes) {
  const pointers = new Map();
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  canvas.addEventListener("pointerdown", (event) => {
    pointers.set(event.pointerId, place(event));
    canvas.setPointerCapture(event.pointerId);
  });
  const gone = (event) => pointers.delete(event.pointerId);
  canvas.addEventListener("pointerup", gone);
  canvas.addEventListener("pointercancel", gone);
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = place(event);
    const before = pointers.get(event.pointerId);
    if (!before) {
      const found = lanes.pick(x, y);
      const same = found && lanes.selected && found.timeline === lanes.selected.timeline &&
          found.event === lanes.selected.event &&
        found.rank === lanes.selected.rank && found.event >= 0;
      if (!same) lanes.select(found, false);
      return;
    }
    const perPixel = 1 / lanes.view.scale;
    if (pointers.size === 2) {
      const [one, two] = Array.from(pointers.values());
      const distance = Math.abs(one[0] - two[0]);
      pointers.set(event.pointerId, [x, y]);
      const [a, b] = Array.from(pointers.values());
      lanes.zoom(Math.max(distance, 8) / Math.max(Math.abs(a[0] - b[0]), 8), lanes.timeAt((a[0] + b[0]) / 2));
      return;
    }
    pointers.set(event.pointerId, [x, y]);
    lanes.pan((before[0] - x) * perPixel);
  });
  canvas.addEventListener("click", (event) => {
    const found = lanes.pick(...place(event));
    if (found) lanes.select(found, false);
  });
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    lanes.zoom(Math.exp(event.deltaY * 0.002), lanes.timeAt(place(event)[0]));
  }, {passive: false});
  root.addEventListener("keydown", (event) => {
    const work = keys[event.key] || keys[event.key.toLowerCase()];
    if (!work || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    work(lanes);
  });
}

/** The selected event, or the first of the first lane that has one. */
function here(lanes) {
  if (lanes.selected && lanes.selected.event >= 0) return lanes.selected;
  const row = lanes.lanesInView().find((each) =>
      each.timeline.ranks[each.rank].end > each.timeline.ranks[each.rank].first);
  if (!row) return null;
  const first = row.timeline.ranks[row.rank].first;
  const from = Math.max(first, upperBound(row.timeline.start, lanes.from / row.timeline.tick, first,
      row.timeline.ranks[row.rank].end) - 1);
  return {timeline: row.timeline, rank: row.rank, event: from, fresh: true};
}

function step(lanes, by) {
  const at = here(lanes);
  if (!at) return;
  const {first, end} = at.timeline.ranks[at.rank];
  const next = at.fresh ? at.event : Math.min(Math.max(at.event + by, first), end - 1);
  lanes.select({timeline: at.timeline, rank: at.rank, event: next}, true);
}

function changeLane(lanes, by) {
  const at = here(lanes);
  if (!at) return;
  const rows = lanes.lanesInView();
  const now = rows.findIndex((row) => row.timeline === at.timeline && row.rank === at.rank);
  const seconds = secondsOf(at.timeline, at.timeline.start[at.event] + at.timeline.length[at.event] / 2);
  for (let i = now + by; i >= 0 && i < rows.length; i += by) {
    const {timeline, rank} = rows[i];
    const {first, end} = timeline.ranks[rank];
    if (first === end) continue;
    const found = eventAt(timeline, rank, seconds / timeline.tick);
    const near = found >= 0 ? found : Math.min(Math.max(upperBound(timeline.start, seconds / timeline.tick,
        first, end) - 1, first), end - 1);
    lanes.select({timeline, rank, event: near}, true);
    return;
  }
}

function goTo(lanes, last) {
  const at = here(lanes);
  if (!at) return;
  const {first, end} = at.timeline.ranks[at.rank];
  lanes.select({timeline: at.timeline, rank: at.rank, event: last ? end - 1 : first}, true);
}

function nextOnChain(lanes) {
  const at = here(lanes);
  if (!at || at.timeline.chain.length === 0) return;
  const {timeline} = at;
  const now = timeline.chain.indexOf(at.event);
  const event = timeline.chain[now < 0 || now + 1 === timeline.chain.length ? 0 : now + 1];
  lanes.select({timeline, rank: timeline.rankOf[event], event}, true);
}

const middleOf = (lanes) => {
  const at = lanes.selected;
  return at && at.event >= 0 ? secondsOf(at.timeline,
      at.timeline.start[at.event] + at.timeline.length[at.event] / 2) : undefined;
};

const keys = {
  ArrowRight: (lanes) => step(lanes, 1),
  ArrowLeft: (lanes) => step(lanes, -1),
  ArrowDown: (lanes) => changeLane(lanes, 1),
  ArrowUp: (lanes) => changeLane(lanes, -1),
  "+": (lanes) => lanes.zoom(0.6, middleOf(lanes)),
  "=": (lanes) => lanes.zoom(0.6, middleOf(lanes)),
  "-": (lanes) => lanes.zoom(1 / 0.6, middleOf(lanes)),
  0: (lanes) => lanes.show(0, lanes.span * 1.01),
  Home: (lanes) => goTo(lanes, false),
  End: (lanes) => goTo(lanes, true),
  c: nextOnChain,
};
