// A timeline from its columns of numbers (bench/show/report/packed_timeline.hpp defines the layout).

const noPartner = 0xffffffff;

/** Null, or {run, tick, ranks: [{first, end}], start, length, microbatch, partner, stage, type, …}. */
function decodeTimeline(run, index) {
  const header = (data.cells[index].timelines || {})[run];
  const element = document.getElementById(`${run}-${index}`);
  if (!header || !element) return null;
  const raw = bytesOf(element);
  const count = header.ranks.reduce((sum, events) => sum + events, 0);
  let at = 0;
  const column = (Type, length) => {
    const values = new Type(raw.buffer, raw.byteOffset + at, length);
    at += values.byteLength;
    return values;
  };
  const timeline = {run, tick: header.tick_s, count, ranks: []};
  timeline.changeBytes = column(Float64Array, header.memory);
  for (const name of ["start", "length", "microbatch", "partner"]) {
    timeline[name] = column(Uint32Array, count);
  }
  timeline.chain = column(Uint32Array, header.chain);
  timeline.changeWhen = column(Uint32Array, header.memory);
  timeline.stage = column(Uint16Array, count);
  timeline.type = column(Uint8Array, count);
  timeline.changeCategory = column(Uint8Array, header.memory);
  timeline.collectives = header.collectives || [];
  const lanes = header.lanes || [], spans = lanes.reduce((sum, each) => sum + each, 0);
  if (spans) at = Math.ceil(at / 4) * 4;
  const ofSpans = (Type) => (spans ? column(Type, spans) : new Type(0));
  for (const name of ["laneStart", "laneLength", "laneWaited"]) timeline[name] = ofSpans(Uint32Array);
  timeline.laneGroup = ofSpans(Uint8Array);
  let next = 0;
  timeline.lanes = lanes.map((length) => {
    const first = next;
    next += length;
    const groups = Array.from(new Set(timeline.laneGroup.subarray(first, next)));
    return {first, end: next, groups: groups.sort((a, b) => a - b)};
  });
  let first = 0;
  for (const events of header.ranks) {
    timeline.ranks.push({first, end: first + events});
    first += events;
  }
  derive(timeline);
  return timeline;
}

/** Figures derived from the columns: overlaps, the chain, the length of the pipeline's part. */
function derive(timeline) {
  const {start, length, type, ranks} = timeline;
  timeline.half = new Uint8Array(timeline.count);
  timeline.onChain = new Uint8Array(timeline.count);
  for (const event of timeline.chain) timeline.onChain[event] = 1;
  timeline.rankOf = new Uint16Array(timeline.count);
  timeline.types = new Uint8Array(data.types.length);
  timeline.end = 0;
  timeline.pipelineEnd = 0;
  timeline.busy = [];
  const compute = Uint8Array.from(data.compute, Number);
  const {half, stage, types} = timeline;
  timeline.chunks = ranks.map(({first, end: last}, number) => {
    const stages = new Set();
    let busy = 0, covered = 0, end = 0, known = -1;
    timeline.rankOf.fill(number, first, last);
    for (let i = first; i < last; ++i) {
      const kind = type[i];
      types[kind] = 1;
      end = start[i] + length[i];
      if (end > timeline.end) timeline.end = end;
      if (!compute[kind]) continue;
      if (stage[i] !== known) stages.add(known = stage[i]);
      if (end > covered) {
        busy += end - Math.max(start[i], covered);
        covered = end;
      }
      if (i + 1 < last && compute[type[i + 1]] && start[i + 1] < end - 0.01 * length[i]) {
        half[i] = 1;
        half[i + 1] = 2;
      }
    }
    timeline.pipelineEnd = Math.max(timeline.pipelineEnd, covered);
    timeline.busy.push(busy);
    return Array.from(stages).sort((a, b) => a - b);
  });
}

const secondsOf = (timeline, ticks) => ticks * timeline.tick;

/** Event of one rank at a time in ticks, compute before transfers; -1 where the rank does nothing. */
function eventAt(timeline, rank, ticks) {
  const {first, end} = timeline.ranks[rank];
  const last = upperBound(timeline.start, ticks, first, end) - 1;
  let found = -1;
  for (let i = last; i >= Math.max(first, last - 8); --i) {
    if (timeline.start[i] + timeline.length[i] < ticks) continue;
    if (data.compute[timeline.type[i]]) return i;
    if (found < 0) found = i;
  }
  return found;
}

/** Bytes by category at the moments of one rank: row 2k at the peak of its k-th event, 2k + 1 at its end. */
function memoryOf(timeline, rank) {
  if (timeline.changeWhen.length === 0) return null;
  const {first, end} = timeline.ranks[rank];
  const kinds = data.categories.length;
  let change = upperBound(timeline.changeWhen, 2 * first - 1, 0, timeline.changeWhen.length);
  if (change >= timeline.changeWhen.length || timeline.changeWhen[change] >= 2 * end) return null;
  const rows = new Float64Array(2 * (end - first) * kinds);
  const now = new Float64Array(kinds);
  for (let moment = 0; moment < 2 * (end - first); ++moment) {
    while (change < timeline.changeWhen.length && timeline.changeWhen[change] === moment + 2 * first) {
      now[timeline.changeCategory[change]] = timeline.changeBytes[change];
      ++change;
    }
    rows.set(now, moment * kinds);
  }
  return rows;
}
