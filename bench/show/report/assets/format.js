// The page's data, the format of figures, and the making of elements. Nothing of a record ever becomes
// markup: text goes in as text.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const dash = "\u2013";

/** el("td", {class: "num"}, "text", child): attributes by name, children appended as text or nodes. */
function el(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined) element.append(child);
  }
  return element;
}

const known = (value) => typeof value === "number" && Number.isFinite(value);

function bytes(value) {
  if (!known(value)) return dash;
  const mib = value / 1048576;
  if (Math.abs(mib) >= 1024) return (mib / 1024).toFixed(3) + " GiB";
  if (Math.abs(mib) >= 0.01 || value === 0) return mib.toFixed(2) + " MiB";
  return value + " B";
}

function time(seconds) {
  if (!known(seconds)) return dash;
  const size = Math.abs(seconds);
  if (size < 1e-3) return (seconds * 1e6).toFixed(1) + " \u00b5s";
  if (size < 1) return (seconds * 1e3).toFixed(2) + " ms";
  return seconds.toFixed(3) + " s";
}

const signed = (value, digits) => (value >= 0 ? "+" : "\u2212") + Math.abs(value).toFixed(digits);
const percent = (fraction, digits = 1) => (known(fraction) ? signed(100 * fraction, digits) + " %" : dash);
const plain = (value) => (known(value) ? value.toLocaleString("en", {maximumSignificantDigits: 5}) : dash);
const ratio = (value) => (known(value) ? value.toFixed(4) : dash);

/** The colour behind a custom property, as the theme has it now. */
function color(name) {
  const probe = color.probe || (color.probe = document.body.appendChild(el("span",
      {class: "sr", "aria-hidden": "true"})));
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
}

/** Index of the first element of sorted[low, high) that is greater than value. */
function upperBound(sorted, value, low, high) {
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (sorted[middle] > value) high = middle; else low = middle + 1;
  }
  return low;
}

/** Calls work at most once per frame, whatever called it meanwhile. */
function oncePerFrame(work) {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; work(); });
  };
}
