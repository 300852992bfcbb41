// Cells of operators that start anew with every row (norms) or head (rope). Many short rows take longer than
// few long ones of as many elements.
#include <algorithm>

#include "bench/measure/calibrate/cells/cell_collector.hpp"

namespace plumbline::calibration {
namespace {

constexpr std::int64_t kPositions = 256;

void add_norms(CellCollector& cells) {
  cells.add_by_row(
      "rmsnorm_forward", cells.e(), [](Operators& op, Pools& p, std::int64_t elements, std::int64_t c) {
        const std::int64_t r = elements / c;
        const Matrix x = p.fresh(r, c);
        const Matrix w = p.fresh(1, c);
        const Matrix rstd = p.scratch(r);
        return
            [=, &op, y = p.output(r, c)](std::int64_t i) { op.rmsnorm_forward(x, w, y.at(i), rstd, 1e-6); };
      });
  cells.add_by_row("rmsnorm_backward", 2 * cells.e(),
                   [](Operators& op, Pools& p, std::int64_t elements, std::int64_t c) {
                     const std::int64_t r = elements / c;
                     const Matrix dy = p.fresh(r, c);
                     const Matrix w = p.fresh(1, c);
                     const Matrix rstd = p.scratch(r);
                     const Matrix dw = p.scratch(c);
                     return [=, &op, x = p.saved(r, c), dx = p.output(r, c)](std::int64_t i) {
                       op.rmsnorm_backward(dy, x.at(i), w, rstd, dx.at(i), dx.at(i), dw);
                     };
                   });
  cells.add_by_row("layernorm_forward", cells.e(),
                   [](Operators& op, Pools& p, std::int64_t elements, std::int64_t c) {
                     const std::int64_t r = elements / c;
                     const Matrix x = p.fresh(r, c);
                     const Matrix w = p.fresh(1, c);
                     const Matrix mean = p.scratch(r);
                     const Matrix rstd = p.scratch(r);
                     return [=, &op, y = p.output(r, c)](std::int64_t i) {
                       op.layernorm_forward(x, w, w, y.at(i), mean, rstd, 1e-5);
                     };
                   });
  cells.add_by_row("layernorm_backward", 2 * cells.e(),
                   [](Operators& op, Pools& p, std::int64_t elements, std::int64_t c) {
                     const std::int64_t r = elements / c;
                     const Matrix dy = p.fresh(r, c);
                     const Matrix w = p.fresh(1, c);
                     const Matrix mean = p.scratch(r);
                     const Matrix rstd = p.scratch(r);
                     const Matrix dw = p.scratch(c);
                     const Matrix db = p.scratch(c);
                     return [=, &op, x = p.saved(r, c), dx = p.output(r, c)](std::int64_t i) {
                       op.layernorm_backward(dy, x.at(i), w, mean, rstd, dx.at(i), dx.at(i), dw, db);
                     };
                   });
}

void add_rope(CellCollector& cells) {
  cells.add_by_row("rope", 0, [](Operators& op, Pools& p, std::int64_t elements, std::int64_t head) {
    const std::int64_t heads = std::clamp<std::int64_t>(kHidden / head, 1, elements / head);
    const Matrix x = p.fresh(elements / (heads * head), heads * head);
    // Small angles: values stay finite over any number of rotations.
    const std::int64_t seq = std::min(kPositions, x.rows);
    const Matrix cos = p.scratch(seq * head / 2).reshaped(seq, head / 2);
    std::fill_n(cos.as<float>(), cos.elements(), 1.0F);
    const Matrix sin = p.scratch(seq * head / 2).reshaped(seq, head / 2);
    return [=, &op](std::int64_t) { op.rope(x, cos, sin, head, false); };
  });
}

}  // namespace

std::vector<Cell> by_row_cells(DType storage) {
  CellCollector cells(storage);
  add_norms(cells);
  add_rope(cells);
  return cells.take();
}

}  // namespace plumbline::calibration
