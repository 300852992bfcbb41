// Sorting and filtering of the table of cells.

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
    const text = [cell.label, cell.status, cell.reason, cell.id, ...Object.values(cell.config)].join(" ").toLowerCase();
    return {row, cell, text};
  });
  const valueOf = (cell, key) =>
    key === "status" ? cell.status : String(cell.config[key] ?? data.common[key] ?? "-");

  // A choice offers what the table shows; the table's own cells are the common language.
  const shownValue = new Map();
  for (const {row, cell} of facts) {
    for (const td of row.querySelectorAll("td[data-k]")) shownValue.set(cell.id + "\n" + td.dataset.k, td.dataset.v);
  }

  function filter() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const least = parseFloat(worst.value) / 100;
    const chosen = choices.filter((choice) => choice.value !== "").map((choice) => [choice.dataset.key, choice.value]);
    let count = 0;
    for (const {row, cell, text} of facts) {
      const fits = words.every((word) => text.includes(word)) &&
        (!(least > 0) || (cell.error && Math.abs(cell.error.step_time) >= least)) &&
        chosen.every(([key, value]) => (shownValue.get(cell.id + "\n" + key) ?? valueOf(cell, key)) === value);
      if (row.hidden === fits) row.hidden = !fits;
      count += fits ? 1 : 0;
    }
    shown.textContent = `${count} of ${rows.length} shown`;
  }

  function sortBy(heading, column) {
    const descending = heading.getAttribute("aria-sort") === "ascending";
    for (const other of table.querySelectorAll("th[aria-sort]")) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
    const keys = new Map(rows.map((row) => {
      const text = row.cells[column].dataset.v;
      return [row, {text, number: text === undefined ? NaN : Number(text)}];
    }));
    const sign = descending ? -1 : 1;
    rows.sort((one, other) => {
      const a = keys.get(one), b = keys.get(other);
      if (a.text === undefined || b.text === undefined) return (a.text === undefined) - (b.text === undefined);
      if (!Number.isNaN(a.number) && !Number.isNaN(b.number)) return sign * (a.number - b.number);
      return sign * (a.text < b.text ? -1 : a.text > b.text ? 1 : 0);
    });
    const fragment = document.createDocumentFragment();
    fragment.append(...rows);
    body.append(fragment);
  }

  for (const button of table.querySelectorAll(".sort")) {
    button.addEventListener("click", () => sortBy(button.closest("th"), Number(button.dataset.column)));
  }
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", filter);
  form.addEventListener("reset", () => requestAnimationFrame(filter));
  filter();
}

/** Marks the row of the cell that is shown in detail. */
function markRow(index) {
  for (const row of document.querySelectorAll("#table tr.here")) row.classList.remove("here");
  const row = document.querySelector(`#table tr[data-cell="${index}"]`);
  if (row) row.classList.add("here");
}
