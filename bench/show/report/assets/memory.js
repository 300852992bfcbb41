// Memory over time of one rank, and the overview strip below the timelines.

/** Stacked bytes by category, predicted above measured, on the time axis of the lanes. Null without bytes. */
function showMemory(place, lanes) {
  const having = lanes.timelines.filter((timeline) => timeline.changeWhen.length > 0);
  if (having.length === 0) return null;
  const canvas = el("canvas", {class: "memory", role: "img"});
  const ranks = Math.max(...having.map((timeline) => timeline.ranks.length));
  const pick = el("select", {id: "memory-rank"},
      Array.from({length: ranks}, (_, rank) => el("option", {value: rank}, `rank ${rank}`)));
  place.append(el("h3", {}, "Memory over time"),
      el("div", {class: "toolbar"}, el("label", {}, "Rank ", pick)), canvas,
    categoryLegend(having.flatMap((timeline) =>
        Array.from(new Set(timeline.changeCategory.filter((_, i) => timeline.changeBytes[i] > 0))))));
  let rank = 0;
  const paint = () => {
    const peaks = paintMemory(canvas, having, rank, lanes);
    canvas.setAttribute("aria-label", `Memory of rank ${rank} over the step: ` +
      peaks.map(([run, peak]) => `${run} peak ${bytes(peak)}`).join(", "));
  };
  const draw = oncePerFrame(paint);
  pick.addEventListener("change", () => { rank = Number(pick.value); draw(); });
  new ResizeObserver(draw).observe(canvas.parentElement);
  return {
    draw,
    follow(next) {
      if (next === rank || next >= ranks) return;
      rank = next;
      pick.value = String(next);
      draw();
    },
  };
}

function paintMemory(canvas, timelines, rank, lanes) {
  const width = canvas.parentElement.clientWidth - 2;
  const height = axisHeight + 180;
  const context = fitCanvas(canvas, width, height);
  const theme = themeColors();
  context.fillStyle = theme.card;
  context.fillRect(0, 0, width, height);
  const kinds = data.categories.length;
  const colors = data.categories.map((_, i) => color(`--c${i}`));
  const view = lanes.view;
  const sets = timelines.filter((timeline) => rank < timeline.ranks.length)
    .map((timeline) => ({timeline, rows: cachedMemory(timeline, rank)})).filter(({rows}) => rows);
  const peaks = sets.map(({timeline, rows}) => [timeline.run, peakOf(rows, kinds)]);
  const most = Math.max(...peaks.map(([, peak]) => peak), 1);
  const part = (height - axisHeight) / Math.max(sets.length, 1);
  paintAxis(context, view, view.width, height, theme);
  sets.forEach(({timeline, rows}, place) => {
    const top = axisHeight + place * part;
    const bottom = top + part - 2, room = part - 20;
    paintBytes(context, view.width, bottom, room, most, theme);
    const {first, end} = timeline.ranks[rank];
    let i = Math.max(upperBound(timeline.start, view.from / timeline.tick, first, end) - 1, first);
    for (let x = gutter; x < view.width && i < end; ++x) {
      // The largest state that any event of this column of pixels has.
      const until = (view.from + (x + 1 - gutter) / view.scale) / timeline.tick;
      if (until < timeline.start[first]) continue;
      let row = -1, largest = -1;
      for (;; ++i) {
        const inside = timeline.start[i] + timeline.length[i] >= 
            (view.from + (x - gutter) / view.scale) / timeline.tick;
        const at = 2 * (i - first) + (inside ? 0 : 1);
        const total = totalOf(rows, at, kinds);
        if (total > largest) { largest = total; row = at; }
        if (i + 1 >= end || timeline.start[i + 1] > until) break;
      }
      let y = bottom;
      for (let kind = 0; kind < kinds; ++kind) {
        const size = rows[row * kinds + kind] / most * room;
        if (size <= 0) continue;
        context.fillStyle = colors[kind];
        context.fillRect(x, y - size, 1, size);
        y -= size;
      }
      if (until > timeline.end) break;
    }
    context.fillStyle = theme[timeline.run];
    context.font = "600 12px system-ui, sans-serif";
    context.textBaseline = "top";
    context.textAlign = "left";
    context.fillText(`${timeline.run}: peak ${bytes(peaks[place][1])}`, gutter, top + 3);
    context.fillRect(0, top + 2, 3, part - 4);
  });
  return peaks;
}

/** The vertical axis: lines and labels at round numbers of bytes up to `most`, `room` pixels high. */
function paintBytes(context, width, bottom, room, most, theme) {
  const [unit, name] = most >= 1073741824 ? [1073741824, "GiB"] : most >= 1048576 ? [1048576, "MiB"]
      : [1, "B"];
  const step = tickStep(most / unit, 3);
  context.font = "11px system-ui, sans-serif";
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (let tick = 0; tick * unit <= most; tick += step) {
    const y = bottom - tick * unit / most * room;
    context.fillStyle = theme.line;
    context.fillRect(gutter, y, width - gutter, 1);
    context.fillStyle = theme["ink-2"];
    context.fillText(`${plain(tick)} ${name}`, gutter - 6, Math.min(y, bottom - 5));
  }
}

function totalOf(rows, at, kinds) {
  let sum = 0;
  for (let i = at * kinds; i < (at + 1) * kinds; ++i) sum += rows[i];
  return sum;
}

function peakOf(rows, kinds) {
  let peak = 0;
  for (let at = 0; at * kinds < rows.length; ++at) peak = Math.max(peak, totalOf(rows, at, kinds));
  return peak;
}

/** The categories whose numbers are in `used`. */
function categoryLegend(used) {
  return el("ul", {class: "legend"}, data.categories.map((name, i) =>
    (used.includes(i) ? el("li", {}, el("i", {class: `swatch k${i}`}), name) : null)));
}

/** Part of the step in view, over the load of the ranks; dragging moves it. */
function paintOverview(canvas, lanes) {
  const busyness = lanes.timelines.map((timeline) => {
    const bins = new Float64Array(400);
    const perBin = lanes.span * 1.01 / bins.length / timeline.tick;
    for (let i = 0; i < timeline.count; ++i) {
      if (!data.compute[timeline.type[i]]) continue;
      const end = timeline.start[i] + timeline.length[i];
      for (let bin = Math.floor(timeline.start[i] / perBin); bin < bins.length && bin * perBin < end; ++bin) {
        bins[bin] += Math.min(end, (bin + 1) * perBin) - Math.max(timeline.start[i], bin * perBin);
      }
    }
    return bins.map((busy) => busy / perBin / timeline.ranks.length);
  });
  const paint = () => {
    const width = canvas.parentElement.clientWidth - 2, height = 26;
    if (width < 2 * gutter) return;
    const context = fitCanvas(canvas, width, height);
    const theme = themeColors();
    context.clearRect(0, 0, width, height);
    const part = height / busyness.length;
    const x = (share) => gutter + share * (width - gutter);
    busyness.forEach((bins, place) => {
      context.fillStyle = theme[lanes.timelines[place].run];
      bins.forEach((busy, bin) => {
        const h = Math.min(busy, 1) * (part - 2);
        context.fillRect(x(bin / 400), (place + 1) * part - h, (width - gutter) / 400 + 0.5, h);
      });
    });
    const from = x(lanes.from / (lanes.span * 1.01)), to = x(lanes.to / (lanes.span * 1.01));
    context.globalAlpha = 0.62;
    context.fillStyle = theme.card;
    context.fillRect(gutter, 0, from - gutter, height);
    context.fillRect(to, 0, width - to, height);
    context.globalAlpha = 1;
    context.strokeStyle = theme.ink;
    context.strokeRect(from + 0.5, 0.5, Math.max(to - from - 1, 2), height - 1);
    context.fillStyle = theme["ink-2"];
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.fillText("whole step", 4, height / 2);
  };
  const move = (event) => {
    if (event.buttons === 0) return;
    const box = canvas.getBoundingClientRect();
    const share = (event.clientX - box.left - gutter) / (box.width - gutter);
    const half = (lanes.to - lanes.from) / 2;
    lanes.show(share * lanes.span * 1.01 - half, share * lanes.span * 1.01 + half);
  };
  canvas.addEventListener("pointerdown", (event) =>
      { canvas.setPointerCapture(event.pointerId); move(event); });
  canvas.addEventListener("pointermove", move);
  const draw = oncePerFrame(paint);
  new ResizeObserver(draw).observe(canvas.parentElement);
  return draw;
}
