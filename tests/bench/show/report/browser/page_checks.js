// Run inside the page by check_report.py; every function returns a list of errors.

(() => {
  const visible = (element) => element.checkVisibility({checkOpacity: true, checkVisibilityCSS: true});
  const name = (element) => {
    const label = element.id ? "#" + element.id : element.className && element.className.baseVal === undefined
        ? "." + element.className : "";
    return `${element.tagName.toLowerCase()}${label} "${(element.textContent || "").trim().slice(0, 40)}"`;
  };

  /** Boxes of all visible text, cut to what their scrolling ancestors show. */
  function textBoxes() {
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const boxes = [];
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const parent = node.parentElement;
      if (!node.data.trim() || parent.closest("script, style, noscript, option, title, .sr, .skip") ||
          !visible(parent)) continue;
      let clip = null, scrolls = false;
      for (let at = parent; at; at = at.parentElement) {
        const style = getComputedStyle(at);
        if (style.overflowX === "visible" && style.overflowY === "visible") continue;
        if (at === document.documentElement || at === document.body) continue;
        const box = at.getBoundingClientRect();
        scrolls ||= style.overflowX === "auto" || style.overflowX === "scroll";
        clip = clip ? {left: Math.max(clip.left, box.left), right: Math.min(clip.right, box.right),
            top: Math.max(clip.top, box.top),
          bottom: Math.min(clip.bottom, box.bottom)}
              : {left: box.left, right: box.right, top: box.top, bottom: box.bottom};
      }
      const range = document.createRange();
      range.selectNodeContents(node);
      for (const box of range.getClientRects()) {
        const cut = clip ? {left: Math.max(box.left, clip.left), right: Math.min(box.right, clip.right),
            top: Math.max(box.top, clip.top),
          bottom: Math.min(box.bottom, clip.bottom)} : box;
        if (cut.right - cut.left < 1 || cut.bottom - cut.top < 1) continue;
        boxes.push({node, parent, left: cut.left, right: cut.right, top: cut.top, bottom: cut.bottom,
            scrolls});
      }
    }
    return boxes;
  }

  function overflow() {
    const wrong = [];
    const width = document.documentElement.clientWidth;
    const wide = document.documentElement.scrollWidth;
    if (wide > width) wrong.push(`the page is ${wide} wide in a view of ${width}`);
    for (const box of textBoxes()) {
      if (!box.scrolls && (box.left < -1 || box.right > width + 1)) wrong.push("outside the view: " +
          name(box.parent));
    }
    const lines = new Map();
    for (const box of textBoxes()) lines.set(box.node, (lines.get(box.node) || 0) + 1);
    for (const [node, count] of lines) {
      if (count > 3 && node.data.trim().length < 6 * count) wrong.push("broken into letters: " +
          name(node.parentElement));
    }
    for (const element of document.querySelectorAll("body *")) {
      if (!visible(element) || element.closest(".sr, .skip, .lanes, .bar, svg, option") ||
          element.tagName === "CANVAS") continue;
      const style = getComputedStyle(element);
      if ((style.overflowX === "hidden" || style.overflowX === "clip" || element.tagName === "BUTTON") &&
          element.tagName !== "SELECT" &&
          element.tagName !== "INPUT" && element.scrollWidth > element.clientWidth +
              1) wrong.push("text cut off: " + name(element));
    }
    return wrong;
  }

  function overlap() {
    const boxes = textBoxes().filter((box) => !box.parent.closest("nav"));
    boxes.sort((a, b) => a.top - b.top);
    const wrong = [];
    let active = [];
    for (const box of boxes) {
      active = active.filter((other) => other.bottom > box.top + 1);
      for (const other of active) {
        if (other.node === box.node) continue;
        const across = Math.min(box.right, other.right) - Math.max(box.left, other.left);
        const down = Math.min(box.bottom, other.bottom) - Math.max(box.top, other.top);
        // Line boxes are taller than letters: an overlap of a few pixels does not cover anything.
        if (across > 2 && down > 0.35 * Math.min(box.bottom - box.top, other.bottom - other.top)) {
          wrong.push(`${name(box.parent)} lies on ${name(other.parent)}`);
        }
      }
      active.push(box);
    }
    return wrong;
  }

  const pen = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  function rgba(text) {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = text;
    pen.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  }
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  function luminance([r, g, b]) {
    const linear = [r, g, b].map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92
        : Math.pow((v / 255 + 0.055) / 1.055, 2.4)));
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  }
  function contrastOf(a, b) {
    const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
    return (high + 0.05) / (low + 0.05);
  }
  function behind(element) {
    const layers = [];
    for (let at = element; at; at = at.parentElement) layers.push(rgba(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]);
  }

  /** WCAG 2.2 AA: text 4.5:1, large text 3:1, what a control or a chart is told by 3:1. */
  function contrast() {
    const wrong = new Set();
    for (const {parent} of textBoxes()) {
      const style = getComputedStyle(parent);
      const back = behind(parent);
      const front = over(rgba(parent.closest("svg") ? style.fill : style.color), back);
      const size = parseFloat(style.fontSize);
      const needed = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
      const found = contrastOf(front, back);
      if (found < needed) wrong.add(`${found.toFixed(2)} of ${needed}: ${name(parent)}`);
    }
    const of = (property) => rgba(color(property));
    for (const [front, back] of [["--predicted", "--card"], ["--measured", "--card"], ["--path", "--card"],
        ["--line-2", "--card"],
      ["--accent", "--card"], ["--focus", "--card"], ["--focus", "--page"]]) {
      const found = contrastOf(of(front), of(back));
      if (found < 3) wrong.add(`${found.toFixed(2)} of 3: ${front} on ${back}`);
    }
    for (const front of ["--ink-2", "--predicted", "--measured"]) {
      const found = contrastOf(of(front), of("--card"));
      if (found < 4.5) wrong.add(`${found.toFixed(2)} of 4.5: ${front} as text of the timelines`);
    }
    for (const [kind, fill] of Object.entries(fills)) {
      for (const chunk of [0, 1, 2]) {
        const found = contrastOf(rgba("#10131a"), rgba(chunk ? shade(fill, chunk) : fill));
        if (kind !== "transfer" &&
            found < 4.5) wrong.add(`${found.toFixed(2)} of 4.5: the label of ${kind}, chunk ${chunk}`);
      }
    }
    return Array.from(wrong);
  }

  const focusables = "a[href], button, input, select, summary, [tabindex='0']";
  const focusable = () => Array.from(document.querySelectorAll(focusables)).filter(
    (element) => visible(element) && !element.disabled);

  /** Frames from the start of `work` until its result has been drawn, in milliseconds. */
  async function until(work) {
    const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    await frame();
    const start = performance.now();
    await work();
    await frame();
    return performance.now() - start;
  }

  /** Texts that canvases draw when the timelines and memory are drawn again: [class of the canvas, text]. */
  async function drawnTexts() {
    const pens = CanvasRenderingContext2D.prototype, fillText = pens.fillText, seen = [];
    pens.fillText = function (text, ...place) {
      seen.push([this.canvas.className, text]);
      return fillText.call(this, text, ...place);
    };
    await until(() => { current.lanes.stale = true; current.lanes.show(current.lanes.from,
        current.lanes.to); });
    pens.fillText = fillText;
    return seen;
  }

  window.checks = {overflow, overlap, contrast, focusable, until, name, drawnTexts};
})();
