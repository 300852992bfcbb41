// Cells of the loss between teacher and student, in one pass after another over both models' logits.
#include <algorithm>

#include "bench/measure/calibrate/cells/cell_collector.hpp"

namespace plumbline::calibration {
namespace {

/// Between teacher and student. The teacher's logits were computed in the action before, or earlier.
void add_distillation(CellCollector& cells) {
  constexpr Distillation kLoss{.temperature = 1, .reverse = false, .lm_weight = 0};
  struct Statistics {
    Statistics(Pools& p, std::int64_t rows)
        : row_max(p.scratch(2 * rows).reshaped(2, rows)),
          sums(p.scratch(4 * rows).reshaped(4, rows)),
          divergence(p.scratch(rows)) {
      std::fill_n(row_max.as<float>(), row_max.elements(), 4.0F);
      std::fill_n(sums.as<float>(), sums.elements(), 1000.0F);
    }
    Matrix row_max, sums, divergence;
  };
  cells.add(
      "distillation_sums", kWide, cells.e(),
      [](Operators& op, Pools& p, std::int64_t r, std::int64_t c) {
        const Matrix student = p.fresh(r, c);
        const Statistics of(p, r);
        const Matrix targets = p.tokens(r, c);
        return [=, &op, teacher = p.saved(r, c)](std::int64_t i) {
          op.distillation_sums(student, teacher.at(i), c, 0, targets, 1, of.row_max, of.sums);
        };
      },
      kLargestLogits);
  cells.add(
      "distillation_divergence", kWide, cells.e(),
      [=](Operators& op, Pools& p, std::int64_t r, std::int64_t c) {
        const Matrix student = p.fresh(r, c);
        const Statistics of(p, r);
        return [=, &op, teacher = p.saved(r, c)](std::int64_t i) {
          op.distillation_divergence(student, teacher.at(i), c, kLoss, of.row_max, of.sums, of.divergence);
        };
      },
      kLargestLogits);
  cells.add(
      "distillation_gradient", kWide, 2 * cells.e(),
      [=](Operators& op, Pools& p, std::int64_t r, std::int64_t c) {
        const Statistics of(p, r);
        const Matrix targets = p.tokens(r, c);
        return [=, &op, student = p.output(r, c), teacher = p.saved(r, c)](std::int64_t i) {
          op.distillation_gradient(student.at(i), teacher.at(i), c, 0, targets, kLoss, of.row_max, of.sums,
                                   of.divergence, 1);
        };
      },
      kLargestLogits);
}

/// The same loss in the passes of eager code, in fp32 for every storage type.
void add_eager_distillation(CellCollector& cells) {
  cells.add(
      "softmax", kWide, cells.e(),
      [](Operators& op, Pools& p, std::int64_t r, std::int64_t c) {
        const Matrix x = p.fresh(r, c);
        return [=, &op, y = p.output(r, c)](std::int64_t i) { op.softmax(x, c, true, y.at(i)); };
      },
      kLargestLogits);
  cells.add(
      "divergence_terms", kWide, cells.e(),
      [](Operators& op, Pools& p, std::int64_t r, std::int64_t c) {
        const Matrix probabilities = p.scratch(r * c).reshaped(r, c);
        std::fill_n(probabilities.as<float>(), r * c, 1.0F / static_cast<float>(c));
        const Matrix log_s = p.fresh(r, c);
        const Matrix targets = p.tokens(r, c);
        return [=, &op, terms = p.output(r, c)](std::int64_t i) {
          op.divergence_terms(probabilities, log_s, c, targets, terms.at(i));
        };
      },
      kLargestLogits);
  cells.add(
      "log_softmax_backward", kWide, cells.e(),
      [](Operators& op, Pools& p, std::int64_t r, std::int64_t c) {
        const Matrix dy = p.fresh(r, c);
        const Matrix log_s = p.fresh(r, c);
        const Matrix targets = p.tokens(r, c);
        return [=, &op, dx = p.output(r, c)](std::int64_t i) {
          op.log_softmax_backward(dy, log_s, c, targets, 1, dx.at(i));
        };
      },
      kLargestLogits);
}

}  // namespace

std::vector<Cell> distillation_cells(DType storage) {
  CellCollector cells(storage);
  add_distillation(cells);
  if (storage == DType::fp32) add_eager_distillation(cells);
  return cells.take();
}

}  // namespace plumbline::calibration
