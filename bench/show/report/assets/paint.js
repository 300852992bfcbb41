// Draws lanes of events on a canvas. Events narrower than a pixel share one, so a view of 200,000 events
// costs no more than its pixels.

const gutter = 70;
const axisHeight = 24;
const fills = {
  F: "#8fc1ee", B: "#f4b183", I: "#f2ca6b", W: "#c9a6e4", TF: "#7fd0c7", S: "#f0a0c4", T: "#ee9a94",
  IF: "#9fd49a", IB: "#c3d97a", ARG: "#a8b4d8", ARE: "#b9b2ee", OPT: "#e3d48b", transfer: "#8b95a5",
};
const names = {
  F: "Forward", B: "Backward", I: "Input gradient", W: "Weight gradient",
  SEND_F: "Send activation", RECV_F: "Receive activation", SEND_B: "Send gradient",
      RECV_B: "Receive gradient",
  TF: "Teacher forward", S: "Vocabulary forward", T: "Vocabulary backward",
  IF: "Embedding", IB: "Embedding gradient", ARG: "DP gradient reduction",
  ARE: "Tied embedding reduction", OPT: "Optimizer", SEND_TF: "Send teacher activation",
  RECV_TF: "Receive teacher activation",
};
const collectiveNames = ["C0 broadcast X", "C1 all-gather statistics", "C2 all-reduce dX",
    "I1 all-reduce embedded",
  "I2 broadcast gradient"];
const collectiveHeight = 4;
const collectivesHeight = collectiveHeight * collectiveNames.length;
const groupHeight = 9;
const isTransfer = (name) => name.startsWith("SEND") || name.startsWith("RECV");
const fillOf = data.types.map((name) => (isTransfer(name) ? fills.transfer : fills[name] || fills.transfer));

const transfers = data.types.map(isTransfer);

/** The same fill, lighter for later model chunks of a rank. */
const shades = new Map();
function shade(fill, chunk) {
  const key = fill + chunk;
  if (!shades.has(key)) {
    const mix = [0, 0.38, 0.62][chunk % 3];
    const channel = (at) => Math.round(parseInt(fill.slice(at, at + 2), 16) * (1 - mix) + 255 * mix);
    shades.set(key, `rgb(${channel(1)},${channel(3)},${channel(5)})`);
  }
  return shades.get(key);
}

function hatchPattern(context, theme) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const pen = tile.getContext("2d");
  pen.fillStyle = theme.lane;
  pen.fillRect(0, 0, 8, 8);
  pen.strokeStyle = theme.hatch;
  pen.lineWidth = 1.5;
  pen.beginPath();
  for (const shift of [-8, 0, 8]) { pen.moveTo(shift - 1, 9); pen.lineTo(shift + 9, -1); }
  pen.stroke();
  return context.createPattern(tile, "repeat");
}

function themeColors() {
  const theme = {};
  for (const name of ["card", "ink", "ink-2", "line", "lane", "hatch", "path", "predicted", "measured",
      "focus"]) {
    theme[name] = color("--" + name);
  }
  return theme;
}

/** A step of 1, 2 or 5 times a power of ten that gives at most `most` ticks over `span`. */
function tickStep(span, most) {
  const least = span / most;
  const power = Math.pow(10, Math.floor(Math.log10(least)));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= least * (1 - 1e-9));
}

/** Width in CSS pixels and a pen that works in them. */
function fitCanvas(canvas, width, height) {
  const dense = Math.min(window.devicePixelRatio || 1, 2);
  const w = Math.round(width * dense), h = Math.round(height * dense);
  if (canvas.width !== w) canvas.width = w;
  if (canvas.height !== h) canvas.height = h;
  canvas.style.width = width + "px";
  canvas.style.height = height + "px";
  const context = canvas.getContext("2d");
  context.setTransform(dense, 0, 0, dense, 0, 0);
  return context;
}

function paintAxis(context, view, width, height, theme) {
  const step = tickStep(view.to - view.from, Math.max(2, (width - gutter) / 95));
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  context.textAlign = "left";
  context.fillStyle = theme["ink-2"];
  context.fillText("time", 8, axisHeight / 2);
  context.textAlign = "center";
  for (let tick = Math.ceil(view.from / step) * step; tick <= view.to; tick += step) {
    const x = view.x(tick);
    context.fillStyle = theme.line;
    context.fillRect(x, axisHeight, 1, height - axisHeight);
    context.fillStyle = theme["ink-2"];
    const text = axisText(tick, step);
    if (x + context.measureText(text).width / 2 < width) context.fillText(text, x, axisHeight / 2);
  }
}

function axisText(seconds, step) {
  const [factor, unit] = step < 1e-3 * 0.999 ? [1e6, "\u00b5s"] : step < 0.999 ? [1e3, "ms"] : [1, "s"];
  const digits = Math.max(0, Math.min(3, -Math.floor(Math.log10(step * factor * 1.0001))));
  return (seconds * factor).toFixed(digits) + " " + unit;
}

const rgbOf = (fill) => [1, 3, 5].map((at) => parseInt(fill.slice(at, at + 2), 16));

const rgbOfType = fillOf.map(rgbOf);

/** Events narrower than a pixel: each pixel gets the mean colour of its time, idle time included. */
class Mixture {
  constructor(boxes, y, height, idle) {
    Object.assign(this, {boxes, y, height, idle, column: -1, busy: 0, red: 0, green: 0, blue: 0, fill: "",
        from: 0, to: -1});
  }
  add(column, width, [red, green, blue]) {
    if (column !== this.column) {
      this.close();
      this.column = column;
    }
    this.busy += width;
    this.red += width * red;
    this.green += width * green;
    this.blue += width * blue;
  }
  /** Ends a pixel; neighbours of one colour become one box. */
  close() {
    if (this.busy > 0) {
      const rest = Math.max(0, 1 - this.busy), all = Math.max(1, this.busy);
      const mixed = [this.red, this.green, this.blue].map((sum, i) =>
          Math.min(255, 6 * Math.round((sum + rest * this.idle[i]) / all / 6)));
      const fill = `rgb(${mixed.join()})`;
      if (fill !== this.fill || this.to !== this.column) {
        this.flush();
        this.fill = fill;
        this.from = this.column;
      }
      this.to = this.column + 1;
    }
    this.busy = this.red = this.green = this.blue = 0;
  }
  flush() {
    if (this.to > this.from && this.fill) {
      put(this.boxes, this.fill, this.from, this.y, this.to - this.from, this.height);
    }
    this.fill = "";
  }
  end() {
    this.close();
    this.flush();
  }
}

/** The boxes of one lane, gathered by colour. */
function gatherLane(lane, view, boxes, labels, idle) {
  const {timeline, rank, y, height} = lane;
  const {start, length, type, stage, microbatch, half, tick} = timeline;
  const {first, end} = timeline.ranks[rank];
  const chunks = timeline.chunks[rank];
  const from = view.from / tick, to = view.to / tick, scale = view.scale * tick,
      shift = gutter - view.from * view.scale;
  const mixture = new Mixture(boxes, y, height, idle);
  let i = Math.max(first, upperBound(start, from, first, end) - 9);
  let lastThin = -1;
  for (; i < end && start[i] <= to; ++i) {
    if (start[i] + length[i] < from) continue;
    const x0 = Math.max(gutter, shift + start[i] * scale);
    const x1 = Math.min(view.width, shift + (start[i] + length[i]) * scale);
    const kind = type[i];
    if (transfers[kind]) {
      if (height < 12 || x1 - x0 < 0.5 || Math.floor(x1) <= lastThin) continue;
      lastThin = Math.floor(x1);
      put(boxes, fills.transfer, x0, y + height - 3, x1 - x0, 3);
      continue;
    }
    if (x1 - x0 < 1.5) {
      mixture.add(Math.floor(x0), x1 - x0, rgbOfType[kind]);
      continue;
    }
    const gap = x1 - x0 > 4 ? 0.75 : 0;
    const h = half[i] ? height / 2 : height;
    const top = half[i] === 2 ? y + h : y;
    const chunk = chunks.length > 1 ? chunks.indexOf(stage[i]) : 0;
    put(boxes, chunk > 0 ? shade(fillOf[kind], chunk) : fillOf[kind], x0, top, x1 - x0 - gap,
        h - (half[i] ? 0.5 : 0));
    if (h >= 10 && x1 - x0 > 15) addLabel(labels, kind, microbatch[i], (x0 + x1 - gap) / 2, top + h / 2,
        x1 - x0 - 4, h);
  }
  mixture.end();
}

/** Collectives of vocabulary parallelism on one rank, a line per kind; exposed time in the path's colour. */
function gatherCollectives(row, view, boxes, theme) {
  const numbers = row.of.collectives[row.rank], tick = row.of.tick;
  const box = (fill, from, to, y) => {
    const x0 = Math.max(gutter, view.x(from * tick)), x1 = Math.min(view.width, view.x(to * tick));
    if (x1 >= gutter && x0 <= view.width && x1 >= x0) put(boxes, fill, x0, y, Math.max(x1 - x0, 0.5),
        collectiveHeight - 1);
  };
  for (const pass of [0, 1]) {
    for (let i = 0; i < numbers.length; i += 6) {
      const y = row.y + numbers[i] * collectiveHeight;
      if (pass === 0) box(fills.transfer, numbers[i + 2], numbers[i + 3], y);
      else if (numbers[i + 5] > numbers[i + 4]) box(theme.path, numbers[i + 4], numbers[i + 5], y);
    }
  }
}

/** The collectives of one group on one rank; exposed time, the end of each, in the colour of the path. */
function gatherGroup(row, view, boxes, theme) {
  const {laneStart, laneLength, laneWaited, laneGroup, lanes, tick} = row.of;
  const {first, end} = lanes[row.rank];
  const last = {};
  const box = (fill, from, to) => {
    const x0 = Math.max(gutter, view.x(from * tick)), x1 = Math.min(view.width, view.x(to * tick));
    if (x1 < gutter || x0 > view.width || x1 - (last[fill] || 0) < 0.5) return;  // a pixel has one box
    last[fill] = x1;
    put(boxes, fill, x0, row.y + 1, Math.max(x1 - x0, 0.5), groupHeight - 2);
  };
  // One that has begun before the view may reach into it.
  for (let i = Math.max(first, upperBound(laneStart, view.from / tick, first, end) - 64);
      i < end && laneStart[i] * tick <= view.to; ++i) {
    if (laneGroup[i] !== row.group) continue;
    const until = laneStart[i] + laneLength[i];
    const waited = Math.min(laneWaited[i], laneLength[i]);
    if (waited < laneLength[i]) box(fills.transfer, laneStart[i], until - waited);
    if (waited > 0) box(theme.path, until - waited, until);
  }
}

function addLabel(labels, kind, microbatch, x, y, room, height) {
  const name = data.types[kind];
  const small = data.compute[kind] ? String(microbatch) : name;
  const full = data.compute[kind] ? `${name} ${microbatch}` : name;
  const text = full.length * 6.6 < room ? full : small.length * 6.6 < room ? small : "";
  if (text) labels.push([text, x, y, height < 14 ? 9 : 11]);
}

function put(boxes, fill, x, y, w, h) {
  let list = boxes.get(fill);
  if (!list) boxes.set(fill, list = []);
  list.push(x, y, w, h);
}

function paintBoxes(context, boxes, labels) {
  for (const [fill, list] of boxes) {
    context.fillStyle = fill;
    for (let i = 0; i < list.length; i += 4) context.fillRect(list[i], list[i + 1], list[i + 2], list[i + 3]);
  }
  context.fillStyle = "#10131a";
  context.textAlign = "center";
  context.textBaseline = "middle";
  for (const size of [9, 11]) {
    context.font = `${size}px system-ui, sans-serif`;
    for (const [text, x, y, wanted] of labels) if (wanted === size) context.fillText(text, x, y + 0.5);
  }
}

/** The critical path of one timeline: along its events, and from lane to lane where it changes rank. */
function paintChain(context, timeline, laneOfRank, view, theme) {
  const {chain, start, length, rankOf, tick} = timeline;
  context.save();
  context.beginPath();
  context.rect(gutter, axisHeight, view.width - gutter, 1e5);
  context.clip();
  context.strokeStyle = theme.path;
  context.lineWidth = 2;
  context.lineJoin = "round";
  context.beginPath();
  let penX = NaN, penY = NaN, open = false, before = 0;
  for (const event of chain) {
    // Waiting events (a receive, a reduction) are on the path only from the end of the one before.
    const t1 = (start[event] + length[event]) * tick;
    const t0 = Math.min(Math.max(start[event] * tick, before), t1);
    before = t1;
    const lane = laneOfRank[rankOf[event]];
    if (!lane || t1 < view.from) { open = false; continue; }
    if (t0 > view.to && !open) break;
    const y = lane.y + lane.height - 1.5;
    const x0 = view.x(t0), x1 = view.x(t1);
    if (!open) {
      context.moveTo(x0, y);
      open = true;
    } else if (y !== penY || x0 - penX > 0.7) {
      context.lineTo(x0, y);
    }
    if (x1 - x0 > 0.7 || y !== penY) { context.lineTo(x1, y); penX = x1; penY = y; }
    if (t0 > view.to) break;
  }
  context.stroke();
  context.restore();
}
