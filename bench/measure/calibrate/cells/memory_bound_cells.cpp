// Cells of memory-bound operators. Inputs that the operator before has just written stay in place; tensors
// saved for the backward, weights and outputs rotate through the working set.
#include <algorithm>

#include "bench/measure/calibrate/cells/cell_collector.hpp"

namespace plumbline::calibration {
namespace {

constexpr std::int64_t kSequence = 256;  // positions

void add_elementwise(CellCollector& cells) {
  cells.add("swiglu_forward", 4 * kHidden, cells.e() / 2,
            [](Operators& op, Pools& p, std::int64_t r, std::int64_t c) {
              const Matrix x = p.fresh(r, c);
              return [=, &op, y = p.output(r, c / 2)](std::int64_t i) { op.swiglu_forward(x, y.at(i)); };
            });
  cells.add("swiglu_backward", 4 * kHidden, 2 * cells.e(),
            [](Operators& op, Pools& p, std::int64_t r, std::int64_t c) {
              const Matrix dy = p.fresh(r, c / 2);
              return [=, &op, x = p.saved(r, c), dx = p.output(r, c)](std::int64_t i) {
                op.swiglu_backward(dy, x.at(i), dx.at(i));
              };
            });
  cells.add("gelu_forward", 4 * kHidden, cells.e(),
            [](Operators& op, Pools& p, std::int64_t r, std::int64_t c) {
              const Matrix x = p.fresh(r, c);
              return [=, &op, y = p.output(r, c)](std::int64_t i) { op.gelu_forward(x, y.at(i)); };
            });
  cells.add("gelu_backward", 4 * kHidden, cells.e(),
            [](Operators& op, Pools& p, std::int64_t r, std::int64_t c) {
              const Matrix dy = p.fresh(r, c);
              const Matrix dx = p.fresh(r, c);
              return [=, &op, x = p.saved(r, c)](std::int64_t i) { op.gelu_backward(dy, x.at(i), dx); };
            });
  cells.add("add", kHidden, cells.e(), [](Operators& op, Pools& p, std::int64_t r, std::int64_t c) {
    const Matrix a = p.fresh(r, c);
    const Matrix y = p.fresh(r, c);
    return [=, &op, b = p.saved(r, c)](std::int64_t i) { op.add(a, b.at(i), {}, y); };
  });
  cells.add("scale", kHidden, cells.e(), [](Operators& op, Pools& p, std::int64_t r, std::int64_t c) {
    return [&op, x = p.output(r, c)](std::int64_t i) { op.scale(x.at(i), 1); };
  });
  // Partial sums of a row-parallel product on their way into their tensor.
  cells.add("copy", kHidden, cells.e(), [](Operators& op, Pools& p, std::int64_t r, std::int64_t c) {
    const Matrix from = p.scratch(r * c).reshaped(r, c);
    return [=, &op, to = p.output(r, c)](std::int64_t i) { op.copy(from, to.at(i)); };
  });
  cells.add("bias_backward", 2 * kHidden, 0, [](Operators& op, Pools& p, std::int64_t r, std::int64_t c) {
    const Matrix dy = p.fresh(r, c);
    const Matrix dbias = p.scratch(c);
    return [=, &op](std::int64_t) { op.bias_backward(dy, dbias); };
  });
}

/// Norms of queries and keys, in heads of 128.
void add_head_norms(CellCollector& cells) {
  constexpr std::int64_t kHead = 128;
  cells.add(
      "head_norm_forward", kHidden, cells.e(), [](Operators& op, Pools& p, std::int64_t r, std::int64_t c) {
        const std::int64_t heads = std::max<std::int64_t>(1, c / kHead);
        const Matrix x = p.fresh(r, c);
        const Matrix w = p.fresh(1, c / heads);
        const Matrix rstd = p.scratch(r * heads).reshaped(r, heads);
        return
            [=, &op, y = p.output(r, c)](std::int64_t i) { op.head_norm_forward(x, w, y.at(i), rstd, 1e-6); };
      });
  cells.add("head_norm_backward", kHidden, 2 * cells.e(),
            [](Operators& op, Pools& p, std::int64_t r, std::int64_t c) {
              const std::int64_t heads = std::max<std::int64_t>(1, c / kHead);
              const Matrix dy = p.fresh(r, c);
              const Matrix w = p.fresh(1, c / heads);
              const Matrix rstd = p.scratch(r * heads).reshaped(r, heads);
              const Matrix dw = p.scratch(c / heads);
              return [=, &op, x = p.saved(r, c), dx = p.output(r, c)](std::int64_t i) {
                op.head_norm_backward(dy, x.at(i), w, rstd, dx.at(i), dw);
              };
            });
}

void add_dropout(CellCollector& cells, DType storage) {
  constexpr double kProbability = 0.1;
  // Masks have one type for every storage type: measured once.
  if (storage == DType::fp32) {
    cells.add_as("dropout_mask.uint8", kHidden, 1,
                 [](Operators& op, Pools& p, std::int64_t r, std::int64_t c) {
                   return [&op, mask = p.mask(r, c)](std::int64_t i) {
                     op.dropout_mask({kProbability, 1, 1, 1, i}, mask.at(i));
                   };
                 });
  }
  // The mask has just been drawn, the residual's addend just been computed.
  cells.add("dropout_add", kHidden, cells.e(), [](Operators& op, Pools& p, std::int64_t r, std::int64_t c) {
    const Matrix x = p.fresh(r, c);
    const Matrix y = p.fresh(r, c);
    const Matrix mask = p.fresh_mask(r, c);
    op.dropout_mask({kProbability, 1, 1, 1, 0}, mask);
    return [=, &op, residual = p.saved(r, c)](std::int64_t i) {
      op.dropout_add(x, {}, residual.at(i), mask, kProbability, y);
    };
  });
  cells.add("dropout_backward", kHidden, cells.e() + 1,
            [](Operators& op, Pools& p, std::int64_t r, std::int64_t c) {
              const Matrix dy = p.fresh(r, c);
              return [=, &op, mask = p.saved_mask(r, c), dx = p.output(r, c)](std::int64_t i) {
                op.dropout_backward(dy, mask.at(i), kProbability, dx.at(i));
              };
            });
}

void add_lookups(CellCollector& cells) {
  // The table is as large as the rotating part: each call reads rows of its own.
  cells.add("embedding_forward", kHidden, 2 * cells.e(),
            [](Operators& op, Pools& p, std::int64_t r, std::int64_t c) {
              const Matrix ids = p.tokens(r, r);
              return [=, &op, table = p.weights(r, c), y = p.output(r, c)](std::int64_t i) {
                op.embedding_forward(ids, table.at(i), 0, y.at(i));
              };
            });
  cells.add("embedding_backward", kHidden, 4, [](Operators& op, Pools& p, std::int64_t r, std::int64_t c) {
    const Matrix ids = p.tokens(r, r);
    const Matrix dy = p.fresh(r, c);
    return [=, &op, table = p.updated_fp32(r, c)](std::int64_t i) {
      op.embedding_backward(ids, dy, 0, table.at(i));
    };
  });
  cells.add("position_forward", kHidden, cells.e(),
            [](Operators& op, Pools& p, std::int64_t r, std::int64_t c) {
              const std::int64_t seq = std::min(kSequence, r);
              return [=, &op, x = p.output(r, c), table = p.weights(seq, c)](std::int64_t i) {
                op.position_forward(x.at(i), table.at(i), seq);
              };
            });
  cells.add("position_backward", kHidden, 4, [](Operators& op, Pools& p, std::int64_t r, std::int64_t c) {
    const Matrix dy = p.fresh(r, c);
    const std::int64_t seq = std::min(kSequence, r);
    return [=, &op, table = p.updated_fp32(seq, c)](std::int64_t i) {
      op.position_backward(dy, table.at(i), seq);
    };
  });
}

void add_loss(CellCollector& cells) {
  // The product before has just written the logits: one copy, beyond the private cache when large.
  cells.add(
      "cross_entropy_max", kWide, 0,
      [](Operators& op, Pools& p, std::int64_t r, std::int64_t c) {
        const Matrix logits = p.fresh(r, c);
        const Matrix row_max = p.scratch(r);
        return [=, &op](std::int64_t) { op.cross_entropy_max(logits, c, row_max); };
      },
      kLargestLogits);
  cells.add(
      "cross_entropy_sums", kWide, 0,
      [](Operators& op, Pools& p, std::int64_t r, std::int64_t c) {
        const Matrix logits = p.fresh(r, c);
        const Matrix row_max = p.scratch(r);
        std::fill_n(row_max.as<float>(), r, 4.0F);
        const Matrix sums = p.scratch(2 * r).reshaped(2, r);
        const Matrix targets = p.tokens(r, c);
        return [=, &op](std::int64_t) { op.cross_entropy_sums(logits, c, 0, targets, row_max, sums); };
      },
      kLargestLogits);
  cells.add(
      "greedy_choice", kWide, 0,
      [](Operators& op, Pools& p, std::int64_t r, std::int64_t c) {
        const Matrix logits = p.fresh(r, c);
        const Matrix choice = p.scratch(3 * r).reshaped(3, r);
        return [=, &op](std::int64_t) { op.greedy_choice(logits, c, choice); };
      },
      kLargestLogits);
  cells.add(
      "cross_entropy_gradient", kWide, cells.e(),
      [](Operators& op, Pools& p, std::int64_t r, std::int64_t c) {
        const Matrix row_max = p.scratch(r);
        std::fill_n(row_max.as<float>(), r, 4.0F);
        const Matrix sums = p.scratch(2 * r).reshaped(2, r);
        std::fill_n(sums.as<float>(), r, static_cast<float>(c));
        const Matrix targets = p.tokens(r, c);
        return [=, &op, logits = p.output(r, c)](std::int64_t i) {
          op.cross_entropy_gradient(logits.at(i), c, 0, targets, row_max, sums, 1);
        };
      },
      kLargestLogits);
}

void add_update(CellCollector& cells, DType storage) {
  const double master = storage == DType::fp32 ? 0 : 4;
  cells.add("adam", 1 << 22, cells.e() + 12 + master,
            [](Operators& op, Pools& p, std::int64_t r, std::int64_t c) {
              const bool has_master = p.storage() != DType::fp32;
              const Rotation gradient = p.weights_fp32(r, c);
              const Rotation parameter = p.updated(r, c);
              const Rotation master_weight = has_master ? p.updated_fp32(r, c) : Rotation();
              const Rotation moment1 = p.updated_fp32(r, c);
              const Rotation moment2 = p.updated_fp32(r, c);
              AdamStep step;
              step.step = 10;
              return [=, &op](std::int64_t i) {
                op.adam(parameter.at(i), gradient.at(i), has_master ? master_weight.at(i) : Matrix(),
                        moment1.at(i), moment2.at(i), step);
              };
            });
  cells.add("sgd", 1 << 22, cells.e() + 4 + master,
            [](Operators& op, Pools& p, std::int64_t r, std::int64_t c) {
              const bool has_master = p.storage() != DType::fp32;
              const Rotation gradient = p.weights_fp32(r, c);
              const Rotation parameter = p.updated(r, c);
              const Rotation master_weight = has_master ? p.updated_fp32(r, c) : Rotation();
              return [=, &op](std::int64_t i) {
                op.sgd(parameter.at(i), gradient.at(i), has_master ? master_weight.at(i) : Matrix(),
                       {.learning_rate = 1e-6});
              };
            });
  cells.add("lion", 1 << 22, cells.e() + 8 + master,
            [](Operators& op, Pools& p, std::int64_t r, std::int64_t c) {
              const bool has_master = p.storage() != DType::fp32;
              const Rotation gradient = p.weights_fp32(r, c);
              const Rotation parameter = p.updated(r, c);
              const Rotation master_weight = has_master ? p.updated_fp32(r, c) : Rotation();
              const Rotation momentum = p.updated_fp32(r, c);
              return [=, &op](std::int64_t i) {
                op.lion(parameter.at(i), gradient.at(i), has_master ? master_weight.at(i) : Matrix(),
                        momentum.at(i), {.learning_rate = 1e-6});
              };
            });
  cells.add("momentum", 1 << 22, cells.e() + 8, [](Operators& op, Pools& p, std::int64_t r, std::int64_t c) {
    const Rotation gradient = p.weights_fp32(r, c);
    const Rotation momentum = p.updated_fp32(r, c);
    return [=, &op, update = p.updated(r, c)](std::int64_t i) {
      op.momentum(gradient.at(i), momentum.at(i), update.at(i), {.keep = 0.9, .add = 0.1});
    };
  });
  cells.add("normalize", 1 << 22, cells.e(), [](Operators& op, Pools& p, std::int64_t r, std::int64_t c) {
    return [&op, x = p.updated(r, c)](std::int64_t i) { op.normalize(x.at(i), 1e-15); };
  });
  cells.add("weighted_sum", 1 << 22, 3 * cells.e(),
            [](Operators& op, Pools& p, std::int64_t r, std::int64_t c) {
              return [&op, x = p.weights(r, c), y = p.updated(r, c)](std::int64_t i) {
                op.weighted_sum(x.at(i), 0.5, y.at(i), 0.5, y.at(i));
              };
            });
  cells.add("squared_norm", 1 << 22, cells.e(), [](Operators& op, Pools& p, std::int64_t r, std::int64_t c) {
    return [&op, x = p.weights(r, c)](std::int64_t i) { op.squared_norm(x.at(i)); };
  });
  cells.add("fill", 1 << 22, cells.e(), [](Operators& op, Pools& p, std::int64_t r, std::int64_t c) {
    return [&op, x = p.updated(r, c)](std::int64_t i) { op.fill(x.at(i), 0); };
  });
}

}  // namespace

std::vector<Cell> memory_bound_cells(DType storage) {
  CellCollector cells(storage);
  add_elementwise(cells);
  add_head_norms(cells);
  add_dropout(cells, storage);
  add_lookups(cells);
  add_loss(cells);
  add_update(cells, storage);
  return cells.take();
}

}  // namespace plumbline::calibration
