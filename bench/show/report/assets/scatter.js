// The scatter plots: a point opens its cell; arrow keys go from point to point.

function setUpScatter(open) {
  for (const plot of document.querySelectorAll("svg.scatter")) {
    const dots = Array.from(plot.querySelectorAll(".dot"));
    dots.sort((a, b) => a.getAttribute("cx") - b.getAttribute("cx"));
    const said = plot.parentElement.appendChild(el("p", {class: "note", "aria-live": "polite"}));
    let here = -1;
    const show = (index) => {
      if (dots[here]) dots[here].classList.remove("here");
      here = index;
      const dot = dots[here];
      if (!dot) { said.textContent = ""; return; }
      dot.classList.add("here");
      said.textContent = dot.querySelector("title").textContent;
    };
    plot.addEventListener("keydown", (event) => {
      const step = {ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1}[event.key];
      if (step !== undefined && dots.length > 0) {
        event.preventDefault();
        show(Math.min(Math.max(here + step, 0), dots.length - 1));
      } else if (event.key === "Enter" && dots[here]) {
        event.preventDefault();
        open(Number(dots[here].dataset.cell));
      }
    });
    plot.addEventListener("pointerover", (event) => {
      const index = dots.indexOf(event.target);
      if (index >= 0) show(index);
    });
    plot.addEventListener("click", (event) => {
      if (event.target.classList.contains("dot")) open(Number(event.target.dataset.cell));
    });
  }
}
