#include "bench/training/optimizers/muon.hpp"

#include <algorithm>

#include "bench/training/optimizers/newton_schulz.hpp"

namespace plumbline::training {
namespace {

/// Rows of each block of a parameter; several of equal columns, one below the other.
std::vector<std::int64_t> rows_of_blocks(const TrainingContext& context, const Parameter& parameter) {
  const LayerWidths& shape = context.shape;
  if (parameter.role == "qkv.weight" && context.config.optimizer.muon.split_qkv)
    return {shape.query, shape.key, shape.value};
  if (parameter.role == "down.weight" && shape.query_rank > 0)
    return {shape.query_rank, parameter.rows - shape.query_rank};
  const bool experts = (parameter.role == "fc1.weight" || parameter.role == "fc2.weight") &&
                       context.model().has_experts(parameter.layer);
  if (!experts) return {parameter.rows};
  return std::vector<std::int64_t>(static_cast<std::size_t>(shape.local), parameter.rows / shape.local);
}

TensorCut cut_of(const TrainingContext& context, const Parameter& parameter) {
  if (context.tensor_size() == 1 || parameter.replicated) return TensorCut::none;
  if (context.config.optimizer.muon.tp_mode == MuonTensorMode::blockwise) return TensorCut::none;
  if (parameter.spread && context.config.parallel.folds_experts()) return TensorCut::none;  // they are whole
  return parameter.role.ends_with("proj.weight") || parameter.role.ends_with("fc2.weight")
             ? TensorCut::columns
             : TensorCut::rows;
}

/// A block as all tensor ranks have it together.
Matrix gathered_shape(const TrainingContext& context, const MuonBlock& block) {
  const int ranks = block.cut == TensorCut::none ? 1 : context.tensor_size();
  Matrix whole;
  whole.rows = block.rows * (block.cut == TensorCut::rows ? ranks : 1);
  whole.cols = block.cols * (block.cut == TensorCut::columns ? ranks : 1);
  return whole;
}

/// Memory for the blocks of one unit, one after another, enough for any of them.
class BlockMemory {
 public:
  BlockMemory(const TrainingContext& context, const std::vector<MuonBlock>& blocks)
      : context_(context), sizes_(context, blocks), steps_(context, sizes_.side, sizes_.elements) {
    if (sizes_.gathered > 0)
      gathered_ = context.make(Category::workspace, "Muon gathered matrix", 1, sizes_.gathered);
    if (sizes_.joined > 0)
      joined_ = context.make(Category::workspace, "Muon joined columns", 1, sizes_.joined);
  }

  /// x, this rank's part of the block, becomes its part of the orthogonal matrix.
  void orthogonalize(const MuonBlock& block, const Matrix& x) {
    Operators& operators = context_.operators;
    const MuonConfig& config = context_.config.optimizer.muon;
    if (block.cut == TensorCut::none) return training::orthogonalize(operators, config, x, steps_);
    const int ranks = context_.tensor_size();
    const int mine = context_.tensor_rank();
    const Matrix parts(gathered_.matrix().data, block.rows * ranks, block.cols, x.dtype);
    context_.over_context_ranks([&](Communicator& over) { over.all_gather(Group::tensor, x, parts); });
    if (block.cut == TensorCut::rows) {
      training::orthogonalize(operators, config, parts, steps_);
      operators.copy(parts.row_range(mine * block.rows, block.rows), x);
      return;
    }
    const Matrix whole(joined_.matrix().data, block.rows, block.cols * ranks, x.dtype);
    for (int rank = 0; rank < ranks; ++rank)
      operators.copy(parts.row_range(rank * block.rows, block.rows),
                     whole.columns(rank * block.cols, block.cols));
    training::orthogonalize(operators, config, whole, steps_);
    operators.copy(whole.columns(mine * block.cols, block.cols), x);
  }

 private:
  struct Sizes {
    Sizes(const TrainingContext& context, const std::vector<MuonBlock>& blocks) {
      for (const MuonBlock& block : blocks) {
        const Matrix whole = gathered_shape(context, block);
        side = std::max(side, std::min(whole.rows, whole.cols));
        elements = std::max(elements, whole.elements());
        if (block.cut != TensorCut::none) gathered = std::max(gathered, whole.elements());
        if (block.cut == TensorCut::columns) joined = std::max(joined, whole.elements());
      }
    }
    std::int64_t side = 0;
    std::int64_t elements = 0;
    std::int64_t gathered = 0;
    std::int64_t joined = 0;
  };

  const TrainingContext& context_;
  const Sizes sizes_;
  NewtonSchulzScratch steps_;
  Tensor gathered_, joined_;
};

}  // namespace

std::vector<MuonBlock> muon_blocks(const TrainingContext& context, const StageEntry& stage,
                                   int unit_of_stage) {
  std::vector<MuonBlock> blocks;
  for (const Parameter& parameter : stage.parameters.list) {
    if (parameter.unit != unit_of_stage) continue;
    std::int64_t row = 0;
    for (const std::int64_t rows : rows_of_blocks(context, parameter)) {
      blocks.push_back(
          {parameter.offset + row * parameter.cols, rows, parameter.cols, cut_of(context, parameter)});
      row += rows;
    }
  }
  return blocks;
}

void update_with_muon(const TrainingContext& context, const ParameterMemory& memory, const StageEntry& stage,
                      int unit_of_stage, double gradient_scale) {
  const OptimizerConfig& config = context.config.optimizer;
  const int unit = stage.first_unit + unit_of_stage;
  const Unit& place = memory.unit(unit);
  const std::int64_t from = memory.owned_from(unit);
  const auto owned = [&](const ParameterSet& set) { return set ? memory.owned(set, unit) : Matrix(); };
  const Tensor updates = context.make(Category::workspace, "Muon updates", 1, place.padded);
  const Matrix all = updates;
  const Matrix own = all.columns(from, place.owned());

  const double keep = config.muon.momentum;
  MomentumStep average{.keep = keep, .add = 1 - keep, .gradient_scale = gradient_scale};
  if (config.muon.nesterov) {
    average.of_gradient = 1 - keep;
    average.of_momentum = keep;
  }
  context.operators.momentum(owned(memory.gradients), owned(memory.moment1), own, average);
  if (place.pieces > 1) context.communicator.all_gather(place.group, own, all);

  const std::vector<MuonBlock> blocks = muon_blocks(context, stage, unit_of_stage);
  BlockMemory of_blocks(context, blocks);
  const Matrix values = owned(memory.values);
  const Matrix master = owned(memory.master);
  for (const MuonBlock& block : blocks) {
    const std::int64_t first = std::max(block.first, from);
    const std::int64_t end = std::min(block.first + block.elements(), from + place.owned());
    if (first >= end) continue;
    of_blocks.orthogonalize(block, Matrix(all.at(0, block.first), block.rows, block.cols, all.dtype));
    const Matrix whole = gathered_shape(context, block);
    DescentStep step{.learning_rate = config.learning_rate, .weight_decay = config.weight_decay};
    step.gradient_scale = muon_scale(config.muon, whole.rows, whole.cols);
    const auto part = [&](const Matrix& row) {
      return row.data == nullptr ? Matrix() : row.columns(first - from, end - first);
    };
    context.operators.sgd(part(values), all.columns(first, end - first), part(master), step);
  }
}

}  // namespace plumbline::training
