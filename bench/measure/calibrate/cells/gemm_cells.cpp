// GEMM and attention cells. Place of the operands. A linear layer's input has just been written by the
// operator before it. Its weights, gradients and outputs were last touched a whole micro-batch ago.
#include <fmt/format.h>

#include "analysis/hardware/hardware.hpp"
#include "bench/measure/calibrate/cells/cells.hpp"

namespace plumbline::calibration {
namespace {

struct Sizes {
  std::int64_t tokens, out, in;
};

/// Bytes that rotate: weights and result.
std::int64_t rotating_bytes(GemmPass pass, const Sizes& s, std::int64_t e) {
  switch (pass) {
    case GemmPass::forward:
      return e * (s.out * s.in + s.tokens * s.out);
    case GemmPass::input_gradient:
      return e * (s.out * s.in + s.tokens * s.in);
    case GemmPass::weight_gradient:
      return 4 * s.out * s.in + e * s.tokens * s.in;
  }
  return 0;
}

CellCall prepare_gemm(Operators& op, Pools& pools, GemmPass pass, const Sizes& s, Bytes working_set) {
  pools.begin(working_set, {rotating_bytes(pass, s, size_of(pools.storage()))});
  Gemm gemm;
  Rotation b;
  Rotation c;
  switch (pass) {
    case GemmPass::forward:
      gemm.a = pools.fresh(s.tokens, s.in);
      b = pools.weights(s.out, s.in);
      c = pools.output(s.tokens, s.out);
      gemm.b_transposed = true;
      break;
    case GemmPass::input_gradient:
      gemm.a = pools.fresh(s.tokens, s.out);
      b = pools.weights(s.out, s.in);
      c = pools.output(s.tokens, s.in);
      break;
    case GemmPass::weight_gradient:
      gemm.a = pools.fresh(s.tokens, s.out);
      b = pools.saved(s.tokens, s.in);
      c = pools.updated_fp32(s.out, s.in);
      gemm.a_transposed = true;
      gemm.accumulate = true;
      break;
  }
  return [&op, gemm, b, c](std::int64_t call) mutable {
    gemm.b = b.at(call);
    gemm.c = c.at(call);
    op.gemm(gemm);
  };
}

}  // namespace

GridAxes gemm_axes(std::string_view key) {
  GridAxes axes{{16, 64, 256, 1024}, {16, 64, 256, 1024, 4096}, {16, 64, 256, 1024, 4096}};
  if (key.starts_with("forward")) axes.x.insert(axes.x.begin(), {1, 4});
  return axes;
}
GridAxes attention_axes(std::string_view key) {
  if (key.starts_with("cached")) return {{16, 64, 256, 1024}, {16, 64, 128}, {1, 4}};
  return {{16, 64, 256, 1024}, {2, 16, 64, 128}, {1, 4}};
}

std::vector<Cell> gemm_cells(DType storage, const CellLimits& limits) {
  const double most_flops = limits.of(storage);
  constexpr std::int64_t kMostBytes = std::int64_t{80} << 20;
  std::vector<Cell> cells;
  for (const GemmPass pass : {GemmPass::forward, GemmPass::input_gradient, GemmPass::weight_gradient}) {
    const GridAxes axes = gemm_axes(name_of(pass));
    for (const double tokens : axes.x) {
      for (const double out : axes.y) {
        for (const double in : axes.z) {
          const Sizes s{static_cast<std::int64_t>(tokens), static_cast<std::int64_t>(out),
                        static_cast<std::int64_t>(in)};
          const std::int64_t bytes = rotating_bytes(pass, s, size_of(storage));
          if (2 * tokens * out * in > most_flops || bytes > kMostBytes) continue;
          for (std::size_t set = 0; set < kWorkingSets.size(); ++set) {
            // A few bytes take as long from the shared cache as from memory, next to the call itself.
            if (set == 2 && bytes < kFewBytes) continue;
            // Operands beyond a working set are never in it, even with one copy: their time is that of the
            // next set.
            if (set + 1 < kWorkingSets.size() && 2 * bytes > 3 * kWorkingSets[set].value) continue;
            Cell cell;
            cell.table = Table::gemm;
            cell.key = fmt::format("{}.{}", name_of(pass), name_of(storage));
            cell.at = {tokens, out, in};
            cell.working_set = set;
            cell.storage = storage;
            cell.prepare = [pass, s, set](Operators& op, Pools& pools) {
              return prepare_gemm(op, pools, pass, s, kWorkingSets[set]);
            };
            cells.push_back(std::move(cell));
          }
        }
      }
    }
  }
  return cells;
}

namespace {

constexpr std::int64_t kHeads = 8;

CellCall prepare_attention(Operators& op, Pools& pools, const AttentionShape& shape, bool backward) {
  const std::int64_t q = shape.heads * shape.head_dim;
  const std::int64_t k = shape.kv_heads * shape.head_dim;
  const std::int64_t row = size_of(pools.storage()) * (2 * q + 2 * k);
  pools.begin(kWorkingSets[1], {shape.seq * row * (backward ? 2 : 1)});
  const Matrix scratch = pools.scratch(op.attention_scratch(shape, pools.storage()));
  const Matrix lse = pools.scratch(shape.heads * shape.seq).reshaped(shape.heads, shape.seq);
  const Rotation out = pools.output(shape.seq, q);
  if (!backward) {
    const Matrix qkv = pools.fresh(shape.seq, q + 2 * k);
    return [=, &op](std::int64_t call) {
      op.attention_forward(shape, qkv.columns(0, q), qkv.columns(q, k), qkv.columns(q + k, k), out.at(call),
                           lse, scratch);
    };
  }
  const Rotation qkv = pools.saved(shape.seq, q + 2 * k);
  const Rotation dqkv = pools.output(shape.seq, q + 2 * k);
  const Matrix dout = pools.fresh(shape.seq, q);
  return [=, &op](std::int64_t call) {
    const Matrix x = qkv.at(call);
    const Matrix dx = dqkv.at(call);
    op.attention_backward(shape, x.columns(0, q), x.columns(q, k), x.columns(q + k, k), out.at(call), lse,
                          dout, dx.columns(0, q), dx.columns(q, k), dx.columns(q + k, k), scratch);
  };
}

/// One query of every head, whose keys and values are in a cache of `shape.past + 1` tokens.
CellCall prepare_cached_attention(Operators& op, Pools& pools, const AttentionShape& shape,
                                  Bytes working_set) {
  const std::int64_t q = shape.heads * shape.head_dim;
  const std::int64_t k = shape.kv_heads * shape.head_dim;
  const std::int64_t tokens = shape.past + 1;
  pools.begin(working_set, {size_of(pools.storage()) * tokens * 2 * k});
  const Matrix scratch = pools.scratch(op.attention_scratch(shape, pools.storage()));
  const Matrix lse = pools.scratch(shape.heads).reshaped(shape.heads, 1);
  const Matrix query = pools.fresh(1, q);
  const Rotation cache = pools.saved(2 * tokens, k);
  const Rotation out = pools.output(1, q);
  return [=, &op](std::int64_t call) {
    const Matrix kept = cache.at(call);
    op.attention_forward(shape, query, kept.row_range(0, tokens), kept.row_range(tokens, tokens),
                         out.at(call), lse, scratch);
  };
}

void add_cached_attention(DType storage, std::vector<Cell>& cells) {
  const std::string key = fmt::format("cached.{}", name_of(storage));
  const GridAxes axes = attention_axes(key);
  for (const double tokens : axes.x) {
    for (const double head_dim : axes.y) {
      for (const double group : axes.z) {
        AttentionShape shape;
        shape.heads = kHeads;
        shape.kv_heads = kHeads / static_cast<std::int64_t>(group);
        shape.head_dim = static_cast<std::int64_t>(head_dim);
        shape.past = static_cast<std::int64_t>(tokens) - 1;
        for (const std::size_t set : {1, 2}) {
          Cell cell;
          cell.table = Table::attention;
          cell.key = key;
          cell.at = {tokens, head_dim, group};
          cell.working_set = set;
          cell.storage = storage;
          cell.parts = kHeads;
          cell.prepare = [=](Operators& op, Pools& pools) {
            return prepare_cached_attention(op, pools, shape, kWorkingSets[set]);
          };
          cells.push_back(std::move(cell));
        }
      }
    }
  }
}

Cell attention_cell(DType storage, bool backward, const std::array<double, 3>& at, double probability) {
  Cell cell;
  cell.table = Table::attention;
  cell.key = fmt::format("{}{}.{}", backward ? "backward" : "forward", probability > 0 ? "_dropout" : "",
                         name_of(storage));
  cell.at = at;
  cell.working_set = 1;
  cell.storage = storage;
  cell.parts = kHeads;
  AttentionShape shape;
  shape.seq = static_cast<std::int64_t>(at[0]);
  shape.heads = kHeads;
  shape.kv_heads = kHeads / static_cast<std::int64_t>(at[2]);
  shape.head_dim = static_cast<std::int64_t>(at[1]);
  shape.dropout.probability = probability;
  cell.prepare = [=](Operators& op, Pools& pools) { return prepare_attention(op, pools, shape, backward); };
  return cell;
}

}  // namespace

std::vector<Cell> attention_cells(DType storage, const CellLimits& limits) {
  constexpr double kProbability = 0.1;
  // Drawing takes as long for every pair of query and key: the rest of the grid follows (assemble.hpp).
  constexpr double kLongestDropping = 256;
  // A limit of products allows attentions of this many times the operations: there are few.
  constexpr double kAttentionShare = 2.5;
  std::vector<Cell> cells;
  const GridAxes axes = attention_axes("forward");
  for (const bool backward : {false, true}) {
    for (const double seq : axes.x) {
      for (const double head_dim : axes.y) {
        // Softmax takes about as long as the products of heads of 16.
        const double flops = (backward ? 5 : 2) * kHeads * seq * (seq + 1) * (head_dim + 16);
        if (flops > kAttentionShare * limits.of(storage)) continue;
        for (const double group : axes.z) {
          cells.push_back(attention_cell(storage, backward, {seq, head_dim, group}, 0));
        }
        if (seq > kLongestDropping) continue;
        cells.push_back(attention_cell(storage, backward, {seq, head_dim, axes.z.front()}, kProbability));
      }
    }
  }
  add_cached_attention(storage, cells);
  return cells;
}

}  // namespace plumbline::calibration
