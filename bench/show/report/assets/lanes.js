// The timelines of a cell: the existing lanes, the part of time in view, the event under the cursor.

class Lanes {
  constructor(timelines, root, canvas, onChange, onSelect) {
    this.timelines = timelines;
    this.root = root;
    this.canvas = canvas;
    this.onChange = onChange;
    this.onSelect = onSelect;
    this.grouping = "run";
    this.showChain = true;
    this.showGroups = timelines.reduce((sum, timeline) => sum + timeline.ranks.length, 0) <= 16;
    this.selected = null;
    this.span = Math.max(...timelines.map((timeline) => secondsOf(timeline, timeline.end)), 1e-12);
    this.from = 0;
    this.to = this.span * 1.01;
    const paint = oncePerFrame(() => this.paint());
    this.draw = () => { this.stale = true; paint(); };
    this.drawSelection = paint;
    this.base = document.createElement("canvas");
    this.arrange();
    root.addEventListener("scroll", this.draw, {passive: true});
    new ResizeObserver(this.draw).observe(root);
  }

  /** Rows from top to bottom: a title above each run, or predicted and measured in turn for each rank. */
  arrange() {
    const ranks = Math.max(...this.timelines.map((timeline) => timeline.ranks.length));
    const lanes = ranks * this.timelines.length;
    const height = lanes <= 24 ? 22 : lanes <= 64 ? 16 : 11;
    this.rows = [];
    let y = axisHeight;
    const lane = (timeline, rank, label) => {
      this.rows.push({timeline, rank, label, y, height: height - 2});
      y += height;
      for (const group of (this.showGroups && timeline.lanes[rank]?.groups) || []) {
        this.rows.push({of: timeline, rank, group, label: data.groups[group], y, height: groupHeight});
        y += groupHeight + 2;
      }
      if (!timeline.collectives[rank]?.length) return;
      this.rows.push({of: timeline, rank, label: "C0\u2013I2", y, height: collectivesHeight});
      y += collectivesHeight + 4;
    };
    const title = (text, run) => {
      this.rows.push({title: text, run, y, height: 20});
      y += 22;
    };
    if (this.grouping === "run") {
      for (const timeline of this.timelines) {
        title(timeline.run, timeline.run);
        timeline.ranks.forEach((_, rank) => lane(timeline, rank, `rank ${rank}`));
      }
    } else {
      for (let rank = 0; rank < ranks; ++rank) {
        for (const timeline of this.timelines) {
          if (rank < timeline.ranks.length) lane(timeline, rank, `${rank} ${timeline.run.slice(0, 4)}.`);
        }
        y += 4;
      }
    }
    this.height = y + 6;
    this.root.querySelector(".tall").style.height = this.height + "px";
    this.root.style.height = Math.min(this.height + 2, Math.max(220, window.innerHeight * 0.7)) + "px";
    this.draw();
  }

  get view() {
    const width = this.width;
    const scale = (width - gutter) / (this.to - this.from);
    return {from: this.from, to: this.to, scale, width,
        x: (seconds) => gutter + (seconds - this.from) * scale};
  }
  get width() { return Math.max(this.root.clientWidth, gutter + 50); }

  laneOf(timeline, rank) { return this.rows.find((row) => row.timeline === timeline && row.rank === rank); }
  lanesInView() { return this.rows.filter((row) => row.timeline); }

  zoom(factor, seconds) {
    const at = seconds ?? (this.from + this.to) / 2;
    const length = Math.min(Math.max((this.to - this.from) * factor, this.span * 1e-6), this.span * 1.01);
    const share = (at - this.from) / (this.to - this.from);
    this.show(at - share * length, at + (1 - share) * length);
  }
  pan(seconds) { this.show(this.from + seconds, this.to + seconds); }
  show(from, to) {
    const length = to - from;
    this.from = Math.max(0, Math.min(from, this.span * 1.01 - length));
    this.to = this.from + length;
    this.draw();
    this.onChange();
  }
  timeAt(x) { return this.from + (x - gutter) / this.view.scale; }

  /** {timeline, rank, event} under a point of the canvas, or null. */
  pick(x, y) {
    const inside = y + this.root.scrollTop;
    const holds = (each) => !each.title && inside >= each.y && inside < each.y + each.height + 2;
    const row = this.rows.find(holds);
    if (!row || x < gutter || y < axisHeight) return null;
    if (row.group !== undefined) return this.pickSpan(row, x);
    if (row.of) return this.pickCollective(row, x, inside);
    const ticks = this.timeAt(x) / row.timeline.tick;
    const event = eventAt(row.timeline, row.rank, ticks);
    return {timeline: row.timeline, rank: row.rank, event, ticks};
  }

  /** As pick(), of a group's lane: {timeline, rank, event: -1, span} or null. */
  pickSpan(row, x) {
    const {laneStart, laneLength, laneGroup, lanes, tick} = row.of;
    const {first, end} = lanes[row.rank], ticks = this.timeAt(x) / tick;
    for (let span = upperBound(laneStart, ticks, first, end) - 1; span >= first; --span) {
      if (laneGroup[span] !== row.group) continue;
      return ticks <= laneStart[span] + laneLength[span]
          ? {timeline: row.of, rank: row.rank, event: -1, ticks, span} : null;
    }
    return null;
  }

  /** As pick(), of a lane of collectives: {timeline, rank, event: -1, collective} or null. */
  pickCollective(row, x, y) {
    const kind = Math.floor((y - row.y) / collectiveHeight);
    const numbers = row.of.collectives[row.rank], ticks = this.timeAt(x) / row.of.tick;
    for (let i = 0; i < numbers.length; i += 6) {
      if (numbers[i] === kind && numbers[i + 2] <= ticks && ticks <= numbers[i + 3]) {
        return {timeline: row.of, rank: row.rank, event: -1, ticks, collective: numbers.slice(i, i + 6)};
      }
    }
    return null;
  }

  select(found, reveal) {
    this.selected = found;
    if (found && found.event >= 0 && reveal) this.reveal(found);
    this.drawSelection();
    this.onSelect(found, reveal);
  }

  /** Brings an event into view. */
  reveal({timeline, rank, event}) {
    const t0 = secondsOf(timeline, timeline.start[event]);
    const t1 = t0 + secondsOf(timeline, timeline.length[event]);
    if (t1 > this.to || t0 < this.from) {
      const length = Math.max(this.to - this.from, t1 - t0);
      this.show((t0 + t1 - length) / 2, (t0 + t1 + length) / 2);
    }
    const row = this.laneOf(timeline, rank);
    const room = this.root.clientHeight;
    if (row.y - this.root.scrollTop < axisHeight + 22) this.root.scrollTop = row.y - axisHeight - 22;
    if (row.y + row.height - this.root.scrollTop > room) this.root.scrollTop = row.y + row.height - room + 6;
  }

  /** Draws everything when something has changed, else only the selection over what was drawn. */
  paint() {
    if (this.root.clientHeight === 0) return;  // another cell has taken its place
    const view = this.view;
    const theme = themeColors();
    const visible = Math.min(this.root.clientHeight, this.height);
    if (this.stale) this.paintBase(fitCanvas(this.base, view.width, visible), view, theme, visible);
    this.stale = false;
    const context = fitCanvas(this.canvas, view.width, visible);
    context.save();
    context.resetTransform();
    context.drawImage(this.base, 0, 0);
    context.restore();
    this.paintSelection(context, view, theme, this.root.scrollTop);
  }

  paintBase(context, view, theme, visible) {
    context.fillStyle = theme.card;
    context.fillRect(0, 0, view.width, visible);
    const scroll = this.root.scrollTop;
    const rows = this.rows.filter((row) => row.y + row.height > scroll && row.y < scroll + visible)
      .map((row) => ({...row, y: row.y - scroll}));
    paintAxis(context, view, view.width, visible, theme);
    const hatch = hatchPattern(context, theme);
    const boxes = new Map(), labels = [];
    const idle = (theme.lane.match(/[\d.]+/g) || [238, 240, 244]).slice(0, 3).map(Number);
    for (const row of rows) {
      if (row.group !== undefined) gatherGroup(row, view, boxes, theme);
      else if (row.of) gatherCollectives(row, view, boxes, theme);
      if (!row.timeline) continue;
      const end = Math.min(view.width, view.x(secondsOf(row.timeline, row.timeline.pipelineEnd)));
      const from = Math.max(gutter, view.x(0));
      context.fillStyle = hatch;
      if (end > from) context.fillRect(from, row.y, end - from, row.height);
      gatherLane(row, view, boxes, labels, idle);
    }
    paintBoxes(context, boxes, labels);
    if (this.showChain) this.paintChains(context, view, theme, scroll);
    this.paintGutter(context, rows, theme, visible);
    // The axis stays on top of the scrolled content.
    context.fillStyle = theme.card;
    context.fillRect(0, 0, view.width, axisHeight);
    paintAxis(context, view, view.width, axisHeight, theme);
  }

  paintChains(context, view, theme, scroll) {
    for (const timeline of this.timelines) {
      const lanes = timeline.ranks.map((_, rank) => {
        const row = this.laneOf(timeline, rank);
        return {y: row.y - scroll, height: row.height};
      });
      paintChain(context, timeline, lanes, view, theme);
    }
  }

  paintGutter(context, rows, theme, visible) {
    context.fillStyle = theme.card;
    context.fillRect(0, axisHeight, gutter - 1, visible);
    context.textAlign = "left";
    context.textBaseline = "middle";
    for (const row of rows) {
      const middle = row.y + row.height / 2;
      context.fillStyle = theme[row.title ? row.run : (row.timeline || row.of).run];
      if (row.title) {
        context.font = "600 12px system-ui, sans-serif";
        context.fillText(row.title, 6, middle + 2);
        continue;
      }
      context.fillRect(0, row.y, 3, row.height);
      context.fillStyle = theme["ink-2"];
      context.font = `${row.height < 11 ? 9 : 11}px system-ui, sans-serif`;
      context.fillText(row.label, 8, middle);
    }
  }

  paintSelection(context, view, theme, scroll) {
    const found = this.selected;
    if (!found || found.event < 0) return;
    context.save();
    context.beginPath();
    context.rect(gutter - 1, axisHeight, view.width, 1e5);
    context.clip();
    const outline = (timeline, event) => {
      const row = this.laneOf(timeline, timeline.rankOf[event]);
      const x0 = Math.max(gutter, view.x(secondsOf(timeline, timeline.start[event])));
      const x1 = Math.min(view.width, view.x(secondsOf(timeline,
          timeline.start[event] + timeline.length[event])));
      if (x1 < gutter || x0 > view.width) return;
      context.strokeStyle = theme.ink;
      context.lineWidth = 2;
      context.strokeRect(x0, row.y - scroll, Math.max(x1 - x0, 2), row.height);
    };
    outline(found.timeline, found.event);
    const other = this.timelines.find((timeline) => timeline !== found.timeline);
    const partner = found.timeline.partner[found.event];
    if (other && partner !== noPartner) outline(other, partner);
    context.restore();
  }
}
