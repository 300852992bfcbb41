// Sorting and filtering of the table of cells.

/** Rows that are laid out at a time: more come when the table is scrolled to its end. */
const rowsAtATime = 60;

function setUpTable() {
  const table = document.getElementById("table");
  const body = table.tBodies[0];
  const rows = Array.from(body.rows);
  const form = document.getElementById("filters");
  const search = document.getElementById("search");
  const worst = document.getElementById("worst");
  const shown = document.getElementById("shown");
  const choices = Array.from(form.querySelectorAll("select[data-key]"));
  const facts = rows.map((row) => {
    const cell = data.cells[Number(row.dataset.cell)];
    const text = [cell.label, cell.status, cell.reason, cell.id,
        ...Object.values(cell.config)].join(" ").toLowerCase();
    return {row, cell, text, fits: true, keys: []};
  });
  markRow.rows = rows;
  const valueOf = (cell, key) =>
    key === "status" ? cell.status : String(cell.config[key] ?? data.common[key] ?? "-");

  // A choice offers the table's own values; the table's cells are the common language.
  const shownValue = new Map();
  for (const {row, cell} of facts) {
    for (const td of row.querySelectorAll("td[data-k]")) {
      shownValue.set(cell.id + "\n" + td.dataset.k, td.dataset.v);
    }
  }

  function filter() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const least = worst ? parseFloat(worst.value) / 100 : NaN;
    const chosen = choices.filter((choice) => choice.value !== "").map((choice) =>
        [choice.dataset.key, choice.value]);
    for (const fact of facts) {
      const {cell, text} = fact;
      fact.fits = words.every((word) => text.includes(word)) &&
        (!(least > 0) || (cell.error && Math.abs(cell.error.step_time) >= least)) &&
        chosen.every(([key, value]) =>
          (shownValue.get(cell.id + "\n" + key) ?? valueOf(cell, key)) === value);
    }
    room = rowsAtATime;
    show();
  }

  let room = rowsAtATime, whole = false;
  /** Puts the first of the rows that the filter leaves into the table, in order. */
  function show() {
    const found = facts.filter((fact) => fact.fits);
    const some = whole ? found : found.slice(0, room);
    body.replaceChildren(...some.map((fact) => fact.row));
    shown.textContent = `${found.length} of ${facts.length} cells` +
      (some.length < found.length ? `, the first ${some.length} below; scroll for more` : "");
  }

  function keyOf(fact, column) {
    if (!fact.keys[column]) {
      const text = fact.row.cells[column].dataset.v;
      fact.keys[column] = {text, number: text === undefined ? NaN : Number(text)};
    }
    return fact.keys[column];
  }

  function sortBy(heading, column) {
    const descending = heading.getAttribute("aria-sort") === "ascending";
    for (const other of table.querySelectorAll("th[aria-sort]")) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
    const sign = descending ? -1 : 1;
    facts.sort((one, other) => {
      const a = keyOf(one, column), b = keyOf(other, column);
      const missing = [a, b].map((each) => each.text === undefined);
      if (missing[0] || missing[1]) return missing[0] - missing[1];
      if (!Number.isNaN(a.number) && !Number.isNaN(b.number)) return sign * (a.number - b.number);
      return sign * (a.text < b.text ? -1 : a.text > b.text ? 1 : 0);
    });
    room = rowsAtATime;
    show();
  }

  for (const button of table.querySelectorAll(".sort")) {
    button.addEventListener("click", () => sortBy(button.closest("th"), Number(button.dataset.column)));
  }
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", filter);
  form.addEventListener("reset", () => requestAnimationFrame(filter));
  const region = table.closest(".scroll");
  region.addEventListener("scroll", () => {
    if (room >= rows.length || region.scrollTop + region.clientHeight < region.scrollHeight - 200) return;
    room += rowsAtATime;
    show();
  }, {passive: true});
  window.addEventListener("beforeprint", () => { whole = true; show(); });
  window.addEventListener("afterprint", () => { whole = false; show(); });
  filter();
}

/** Marks the row of the cell that is shown in detail. */
function markRow(index) {
  markRow.row?.classList.remove("here");
  markRow.row = (markRow.rows || [])[index];
  markRow.row?.classList.add("here");
}
