#include "bench/training/parameters/parameter_memory.hpp"

namespace plumbline::training {
namespace {

ParameterSet allocate(const TrainingContext& context, const RankParameters& parameters, Category category,
                      const char* holder, DType type, bool sharded, bool of_adapters = false) {
  ParameterSet set;
  set.of_adapters = of_adapters;
  if (!of_adapters) set.vectors = context.arena.allocate(category, holder, 1, parameters.vectors, type);
  const std::int64_t whole = of_adapters ? parameters.trained : parameters.matrices;
  set.matrices = context.arena.allocate(category, holder, 1, sharded ? parameters.owned : whole, type);
  set.sharded = sharded;
  return set;
}

void clear(Operators& operators, const ParameterSet& set) {
  if (set.vectors) operators.fill(set.vectors, 0);
  operators.fill(set.matrices, 0);
}

}  // namespace

ParameterMemory::ParameterMemory(const TrainingContext& context, const RankParameters& parameters)
    : parameters_(parameters),
      data_rank_(context.communicator.layout().coordinates(context.communicator.rank()).data),
      secondary_ranks_(context.config.parallel.dp.hpz_partition_size),
      expert_copy_(context.communicator.layout()
                       .expert_place(context.communicator.layout().coordinates(context.communicator.rank()))
                       .copy) {
  const RunConfig& config = context.config;
  const int zero = config.parallel.effective_zero_stage();
  if (const bool teacher = context.kept == Category::teacher; teacher || context.inference) {
    const Category category = teacher ? Category::teacher : Category::parameters;
    values = allocate(context, parameters, category, teacher ? "teacher parameters" : "parameters",
                      config.numerics.precision, false);
    if (parameters.untrained > 0)
      untrained = context.make_fp32(category, "expert biases", 1, parameters.untrained);
    return;
  }
  values =
      allocate(context, parameters, Category::parameters, "parameters", config.numerics.precision, zero >= 3);
  if (secondary_ranks_ > 1) {
    std::int64_t elements = 0;
    for (const Unit& unit : parameters.units) {
      secondary_offsets_.push_back(elements);
      if (has_secondary_shard(unit)) elements += unit.padded / secondary_ranks_;
    }
    secondary = context.make(Category::parameters, "secondary shards", 1, elements);
  }
  if (parameters.untrained > 0)
    untrained = context.make_fp32(Category::parameters, "expert biases", 1, parameters.untrained);
  gradients = allocate(context, parameters, Category::gradients, "gradients", config.numerics.grad_type(),
                       zero >= 2, context.frozen);
  const auto state = [&](const char* holder) {
    return allocate(context, parameters, Category::optimizer, holder, DType::fp32, zero >= 1, context.frozen);
  };
  if (config.numerics.precision != DType::fp32) master = state("master weights");
  if (config.optimizer.kind == Optimizer::adam) {
    moment1 = state("Adam first moment");
    moment2 = state("Adam second moment");
    clear(context.operators, moment1);
    clear(context.operators, moment2);
  }
}

Matrix ParameterMemory::whole(const ParameterSet& set, int unit) const {
  const Unit& place = this->unit(unit);
  if (set.of_adapters && place.frozen) return {};
  const Matrix& all = set.matrices;
  return {all.at(0, set.of_adapters ? place.trained_offset : place.offset), 1, place.padded, all.dtype};
}

Matrix ParameterMemory::owned(const ParameterSet& set, int unit) const {
  const Unit& place = this->unit(unit);
  if (set.of_adapters && place.frozen) return {};
  const std::int64_t start = set.of_adapters ? place.trained_offset : place.offset;
  const std::int64_t first = set.sharded ? place.owned_offset : start + owned_from(unit);
  const Matrix& all = set.matrices;
  return {all.at(0, first), 1, owned_elements(unit), all.dtype};
}

Matrix ParameterMemory::secondary_shard(int unit) const {
  return secondary.matrix().columns(secondary_offsets_[static_cast<std::size_t>(unit)],
                                    this->unit(unit).padded / secondary_ranks_);
}

Matrix ParameterMemory::secondary_part(const Matrix& gathered) const {
  const std::int64_t elements = gathered.cols / secondary_ranks_;
  return gathered.columns(data_rank_ % secondary_ranks_ * elements, elements);
}

}  // namespace plumbline::training
