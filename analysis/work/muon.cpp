#include "analysis/work/muon.hpp"

#include <algorithm>
#include <utility>

#include "analysis/step/parameters.hpp"
#include "analysis/work/operator_list_calls.hpp"

namespace plumbline {
namespace {

/// Lists a unit's blocks in memory order.
class BlockLister {
 public:
  explicit BlockLister(const StageShape& s) : s_(s) {}

  void add(std::int64_t rows, std::int64_t cols, BlockCut cut, std::int64_t times = 1) {
    if (rows == 0 || cols == 0) return;
    if (!s_.numerics.optimizer.gathers_blocks) cut = BlockCut::none;
    for (std::int64_t i = 0; i < times; ++i) {
      blocks.push_back({next_, rows, cols, cut});
      next_ += rows * cols;
    }
  }

  void mamba() {
    if (!s_.has_mamba()) return;
    add(s_.mixer.mamba.projected(), s_.stream.hidden, BlockCut::rows);
    add(s_.stream.hidden, s_.mixer.mamba.inner(), BlockCut::columns);
  }

  void attention() {
    const AttentionWidths& a = s_.attention;
    const std::int64_t h = s_.stream.hidden;
    if (a.latent()) {
      add(a.query_rank, h, BlockCut::none);
      add(a.compressed() - a.query_rank, h, BlockCut::none);
      add(a.q, a.query_rank > 0 ? a.query_rank : h, BlockCut::rows);
      add(a.own_keys() + a.attended(), a.kv_rank, BlockCut::rows);
    } else if (s_.numerics.optimizer.split_qkv) {
      add(a.q, h, BlockCut::rows);
      add(a.k, h, BlockCut::rows);
      add(a.values(), h, BlockCut::rows);
    } else {
      add(a.qkv(), h, BlockCut::rows);
    }
    add(h, a.attended(), BlockCut::columns);
  }

  void feed_forward() {
    const std::int64_t h = s_.stream.hidden;
    if (!s_.mixer.feed_forward) return;
    if (!s_.mixture()) {
      add(s_.mlp.fc1, h, BlockCut::rows);
      add(h, s_.mlp.ffn, BlockCut::columns);
      return;
    }
    add(s_.moe.experts, h, BlockCut::none);
    if (!s_.spreads_experts()) {
      add(s_.mlp.fc1, h, BlockCut::rows, s_.moe.experts);
      add(h, s_.mlp.ffn, BlockCut::columns, s_.moe.experts);
    } else if (!s_.exchanges_rows()) {
      experts();
    }
    if (s_.moe.latent > 0) {
      add(s_.moe.latent, h, BlockCut::none);
      add(h, s_.moe.latent, BlockCut::none);
    }
    if (s_.moe.shared == 0) return;
    if (s_.moe.shared_gated) add(1, h, BlockCut::none);
    const std::int64_t gated = s_.mlp.ffn > 0 ? s_.mlp.fc1 / s_.mlp.ffn : 2;
    add(gated * s_.moe.shared, h, BlockCut::rows);
    add(h, s_.moe.shared, BlockCut::columns);
  }

  /// Spread experts, whole or cut as other layers.
  void experts() {
    const ExpertShape& e = s_.expert;
    const bool whole = s_.folds_experts();
    add(e.fc1, s_.expert_width(), whole ? BlockCut::none : BlockCut::rows, e.local);
    add(s_.expert_width(), e.ffn, whole ? BlockCut::none : BlockCut::columns, e.local);
  }

  std::vector<OrthogonalBlock> blocks;

 private:
  const StageShape& s_;
  std::int64_t next_ = 0;
};

OrthogonalBlock gathered(const StageShape& s, OrthogonalBlock block) {
  if (block.cut == BlockCut::rows) block.rows *= s.sharding.tensor;
  if (block.cut == BlockCut::columns) block.cols *= s.sharding.tensor;
  return block;
}

/// Elements of the block in the piece [from, from + owned).
std::int64_t elements_in(const OrthogonalBlock& block, std::int64_t from, std::int64_t owned) {
  return std::min(block.first + block.elements(), from + owned) - std::max(block.first, from);
}

/// The piece whose blocks take most products.
int busiest_piece(const StageShape& s, const OrthogonalUnit& of) {
  const std::int64_t owned = of.unit.owned(s.sharding.zero);
  int busiest = 0;
  double most = -1;
  for (int piece = 0; s.sharding.zero > 0 && piece < of.unit.pieces; ++piece) {
    double flops = 0;
    for (const OrthogonalBlock& block : of.blocks)
      if (elements_in(block, piece * owned, owned) > 0) flops += newton_schulz_flops(s, block);
    if (flops > most) busiest = piece;
    most = std::max(most, flops);
  }
  return busiest;
}

/// The calls that make a block orthogonal. `passes`: sums and norms are operators of their own.
void newton_schulz_calls(const StageShape& s, const OrthogonalBlock& block, bool passes, CallList& list) {
  const OrthogonalBlock whole = gathered(s, block);
  const std::int64_t side = std::min(whole.rows, whole.cols);
  const std::int64_t length = std::max(whole.rows, whole.cols);
  const auto e = static_cast<double>(s.numerics.e());
  if (block.cut != BlockCut::none) {
    list.collective(CallKind::all_gather, "Muon all-gather", Group::tensor, s.sharding.tensor,
                    whole.elements(), s.numerics.type);
    if (block.cut == BlockCut::columns) {
      list.memory("copy", block.elements(), 2 * e);
      list.calls.back().count = s.sharding.tensor;
    }
    list.memory("copy", block.elements(), 2 * e);
  }
  if (passes) list.memory("normalize", whole.elements(), 3 * e);
  const std::size_t steps = list.calls.size();
  const auto product = [&](GemmPass pass, std::int64_t tokens, std::int64_t out, std::int64_t in) {
    list.gemm("Newton-Schulz", pass, out, in);
    list.last<GemmCall>().tokens = tokens;
    if (pass == GemmPass::weight_gradient) list.last<GemmCall>().result_bytes = e;
  };
  const bool tall = whole.rows > whole.cols;
  if (tall) {
    product(GemmPass::weight_gradient, length, side, side);
    product(GemmPass::input_gradient, length, side, side);
  } else {
    product(GemmPass::forward, side, side, length);
    product(GemmPass::input_gradient, side, side, length);
  }
  product(GemmPass::input_gradient, side, side, side);
  if (passes) list.memory("weighted_sum", side * side, 3 * e);
  if (passes) list.memory("weighted_sum", whole.elements(), 3 * e);
  for (std::size_t i = steps; i < list.calls.size(); ++i)
    list.calls[i].count = s.numerics.optimizer.newton_schulz_steps;
}

void unit_calls(const StageShape& s, const OrthogonalUnit& of, int piece, CallList& list) {
  const std::int64_t owned = of.unit.owned(s.sharding.zero);
  const std::int64_t from = s.sharding.zero > 0 ? piece * owned : 0;
  const auto e = static_cast<double>(s.numerics.e());
  const std::size_t before = list.calls.size();
  list.memory("momentum", owned, static_cast<double>(s.numerics.g()) + 8 + e, s.numerics.grad_type);
  if (s.sharding.zero > 0)
    list.collective(CallKind::all_gather, "update all-gather", of.unit.group, of.unit.pieces, of.unit.padded,
                    s.numerics.type);
  std::int64_t updated = 0;
  for (std::size_t i = 0; i < of.blocks.size();) {
    const OrthogonalBlock& block = of.blocks[i];
    std::int64_t alike = 0;
    for (; i < of.blocks.size(); ++i) {
      const OrthogonalBlock& other = of.blocks[i];
      if (other.rows != block.rows || other.cols != block.cols || other.cut != block.cut) break;
      const std::int64_t here = elements_in(other, from, owned);
      if (here <= 0) continue;
      ++alike;
      updated += here;
    }
    const std::size_t begin = list.calls.size();
    if (alike > 0) newton_schulz_calls(s, block, true, list);
    for (std::size_t call = begin; call < list.calls.size(); ++call) list.calls[call].count *= alike;
  }
  list.memory("sgd", updated, 3 * e + (s.numerics.type == DType::fp32 ? 0 : 8));
  for (std::size_t i = before; i < list.calls.size(); ++i) list.calls[i].count *= of.count;
}

}  // namespace

std::vector<OrthogonalUnit> orthogonal_units(const StageShape& s) {
  std::vector<OrthogonalUnit> units;
  const std::vector<ParameterUnit> all = units_of(s);
  std::int64_t layer = 0;  // of the next unit of a layer or module
  const auto add = [&](std::int64_t count, std::vector<OrthogonalBlock> blocks, UnitKind kind) {
    const auto found = std::find_if(all.begin(), all.end(), [&](const ParameterUnit& unit) {
      return unit.kind == kind && (kind == UnitKind::experts || unit.layer == layer);
    });
    if (kind == UnitKind::layer) layer += count;
    if (count > 0 && !blocks.empty()) units.push_back({count, std::move(blocks), *found});
  };
  const auto layer_blocks = [](const StageShape& like, bool module) {
    BlockLister lister(like);
    lister.attention();
    lister.mamba();
    lister.feed_forward();
    if (module) lister.add(like.stream.hidden / like.sharding.tensor, 2 * like.stream.hidden, BlockCut::rows);
    return std::move(lister.blocks);
  };
  if (s.kinds.empty()) {
    add(s.layers, layer_blocks(s, false), UnitKind::layer);
  } else {
    for (const AlikeLayers& alike : s.alike_layers())
      add(alike.layers, layer_blocks(s.like(alike.kind), false), UnitKind::layer);
  }
  if (s.own_modules() > 0) add(s.own_modules(), layer_blocks(s.like({}), true), UnitKind::layer);
  if (s.exchanges_rows()) {
    BlockLister lister(s);
    lister.experts();
    add(s.layers - s.dense_layers() + s.own_modules(), std::move(lister.blocks), UnitKind::experts);
  }
  return units;
}

std::vector<OperatorCall> muon_calls(const StageShape& s, std::optional<OwnedPiece> piece) {
  CallList list(s);
  for (const OrthogonalUnit& of : orthogonal_units(s)) {
    const int asked = !piece                              ? busiest_piece(s, of)
                      : of.unit.kind == UnitKind::experts ? piece->of_experts
                                                          : piece->of_layers;
    unit_calls(s, of, asked % of.unit.pieces, list);
  }
  return std::move(list.calls);
}

std::vector<OperatorCall> framework_muon_calls(std::span<const StageShape> stages) {
  // fp32 passes over an update in emerging_optimizers' OrthogonalizedOptimizer.step and newton_schulz
  // (NVIDIA-NeMo/Emerging-Optimizers@fd77292): decay 8, momentum 12, norm and division 12, casts to bf16 and
  // back 12, two factors 16, update 12; and the copy to the 16-bit weight 6.
  constexpr double kPasses = 78;
  if (stages.empty()) return {};
  double all = 0;
  double largest = 0;
  for (const StageShape& s : stages) {
    for (const OrthogonalUnit& of : orthogonal_units(s)) {
      for (const OrthogonalBlock& block : of.blocks) {
        const double flops = newton_schulz_flops(s, block);
        all += flops * static_cast<double>(of.count);
        largest = std::max(largest, flops);
      }
    }
  }
  const StageShape& any = stages.front();
  const int owners = any.sharding.zero > 0 ? any.sharding.state_shards : 1;
  const double share = std::max(1.0 / owners, largest / std::max(all, 1.0));  // of the busiest owner
  CallList list(any);
  for (const StageShape& s : stages) {
    for (const OrthogonalUnit& of : orthogonal_units(s)) {
      for (const OrthogonalBlock& block : of.blocks) {
        const std::size_t before = list.calls.size();
        newton_schulz_calls(s, block, false, list);
        list.memory("Muon passes", block.elements(), kPasses, DType::fp32);
        for (std::size_t i = before; i < list.calls.size(); ++i) {
          list.calls[i].count *= of.count;
          list.calls[i].share = share;
        }
      }
    }
  }
  return std::move(list.calls);
}

std::int64_t muon_workspace(const StageShape& s) {
  std::int64_t most = 0;
  for (const OrthogonalUnit& of : orthogonal_units(s)) {
    std::int64_t side = 0;
    std::int64_t product = 0;
    std::int64_t parts = 0;
    std::int64_t joined = 0;
    for (const OrthogonalBlock& block : of.blocks) {
      const OrthogonalBlock whole = gathered(s, block);
      side = std::max(side, std::min(whole.rows, whole.cols));
      product = std::max(product, whole.elements());
      if (block.cut != BlockCut::none) parts = std::max(parts, whole.elements());
      if (block.cut == BlockCut::columns) joined = std::max(joined, whole.elements());
    }
    most = std::max(most, of.unit.padded + 2 * side * side + product + parts + joined);
  }
  return most * s.numerics.e();
}

double newton_schulz_flops(const StageShape& s, const OrthogonalBlock& block) {
  const OrthogonalBlock whole = gathered(s, block);
  const auto side = static_cast<double>(std::min(whole.rows, whole.cols));
  const auto length = static_cast<double>(std::max(whole.rows, whole.cols));
  const double of_step = 4 * side * side * length + 2 * side * side * side;
  return of_step * static_cast<double>(s.numerics.optimizer.newton_schulz_steps);
}

}  // namespace plumbline
