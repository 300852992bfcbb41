// Puts the page to work: the choice of a cell, the address, the theme.

function setUpPicker(open) {
  const pick = document.getElementById("pick");
  const options = document.createDocumentFragment();
  data.cells.forEach((cell, index) => options.append(el("option", {value: index},
      `${index + 1}: ${cell.label} (${cell.status})`)));
  pick.append(options);
  pick.addEventListener("change", () => open(Number(pick.value), false));
  const move = (by) => open(Math.min(Math.max(current.index + by, 0), data.cells.length - 1), false);
  document.getElementById("previous").addEventListener("click", () => move(-1));
  document.getElementById("next").addEventListener("click", () => move(1));
}

/** The first cell to show: the worst predicted step; of predictions alone the fastest that fits. */
function firstCell() {
  let best = 0, worst = -1;
  data.cells.forEach((cell, index) => {
    const fits = !anyMeasured && cell.status === "ok" && cell.fits;
    const off = cell.error ? Math.abs(cell.error.step_time) : fits ? cell.tokens_per_s_per_gpu : -1;
    if (off > worst) { worst = off; best = index; }
  });
  return best;
}

function setUpTheme() {
  const root = document.documentElement;
  const toggle = document.getElementById("theme");
  const dark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark"
      : "light")) === "dark";
  const name = () => { toggle.textContent = dark() ? "Light" : "Dark"; };
  const redraw = () => { name(); current.lanes?.show(current.lanes.from, current.lanes.to); };
  toggle.hidden = false;
  toggle.setAttribute("aria-label", "Change between light and dark");
  toggle.addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; redraw(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  name();
}

function open(index, scroll = true) {
  showCell(index);
  if (location.hash !== `#cell-${index + 1}`) history.replaceState(null, "", `#cell-${index + 1}`);
  if (!scroll) return;
  const heading = document.getElementById("detail-section-title");
  heading.tabIndex = -1;
  heading.focus({preventScroll: true});
  document.getElementById("detail-section").scrollIntoView();
}

function followAddress() {
  const found = /^#cell-(\d+)$/.exec(location.hash);
  if (found && data.cells[Number(found[1]) - 1]) open(Number(found[1]) - 1);
}

setUpTheme();
if (data.cells.length > 0) {
  setUpTable();
  setUpScatter(open);
  setUpPicker(open);
  window.addEventListener("hashchange", followAddress);
  // The page is painted before the details, which may be large, are read.
  requestAnimationFrame(() => setTimeout(() => {
    if (current.index < 0) followAddress();
    if (current.index < 0) showCell(firstCell());
  }));
}
