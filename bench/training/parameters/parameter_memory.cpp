#include "bench/training/parameters/parameter_memory.hpp"

#include <optional>

namespace plumbline::training {
namespace {

std::int64_t elements_of(const RankParameters& parameters, UnitSet units, bool sharded) {
  switch (units) {
    case UnitSet::trained:
      return sharded ? parameters.owned : parameters.trained;
    case UnitSet::others:
      return sharded ? parameters.others_owned : parameters.others;
    case UnitSet::all:
      break;
  }
  return sharded ? parameters.owned : parameters.matrices;
}

ParameterSet allocate(const TrainingContext& context, const RankParameters& parameters, Category category,
                      const char* holder, DType type, bool sharded, UnitSet units = UnitSet::all) {
  ParameterSet set;
  set.units = units;
  if (!set.of_adapters()) set.vectors = context.arena.allocate(category, holder, 1, parameters.vectors, type);
  set.matrices = context.arena.allocate(category, holder, 1, elements_of(parameters, units, sharded), type);
  set.sharded = sharded;
  return set;
}

/// First element of a unit in the memory of a set, whole or one piece of each; nothing if it has none.
std::optional<std::int64_t> offset_in(const ParameterSet& set, const Unit& unit) {
  switch (set.units) {
    case UnitSet::trained:
      if (unit.frozen) return std::nullopt;
      return set.sharded ? unit.owned_offset : unit.trained_offset;
    case UnitSet::others:
      if (unit.of != ParameterClass::other) return std::nullopt;
      return set.sharded ? unit.other_owned_offset : unit.other_offset;
    case UnitSet::all:
      break;
  }
  return set.sharded ? unit.owned_offset : unit.offset;
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
  const UnitSet trained = context.frozen ? UnitSet::trained : UnitSet::all;
  gradients = allocate(context, parameters, Category::gradients, "gradients", config.numerics.grad_type(),
                       zero >= 2, trained);
  const auto state = [&](const char* holder, UnitSet units) {
    return allocate(context, parameters, Category::optimizer, holder, DType::fp32, zero >= 1, units);
  };
  const OptimizerConfig& optimizer = config.optimizer;
  const bool adam = optimizer.kind == Optimizer::adam;
  if (config.numerics.precision != DType::fp32) master = state("master weights", trained);
  if (optimizer.moments(ParameterClass::other) > 0) {
    moment1 = state(adam ? "Adam first moment" : "momentum", trained);
    clear(context.operators, moment1);
  }
  if (optimizer.moments(ParameterClass::other) > 1) {
    const bool of_all = optimizer.moments(ParameterClass::matrix) > 1;
    moment2 = state("Adam second moment", of_all ? trained : UnitSet::others);
    clear(context.operators, moment2);
  }
}

Matrix ParameterMemory::whole(const ParameterSet& set, int unit) const {
  const Unit& place = this->unit(unit);
  const std::optional<std::int64_t> offset = offset_in(set, place);
  if (!offset) return {};
  const Matrix& all = set.matrices;
  return {all.at(0, *offset), 1, place.padded, all.dtype};
}

Matrix ParameterMemory::owned(const ParameterSet& set, int unit) const {
  const std::optional<std::int64_t> offset = offset_in(set, this->unit(unit));
  if (!offset) return {};
  const std::int64_t first = *offset + (set.sharded ? 0 : owned_from(unit));
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
