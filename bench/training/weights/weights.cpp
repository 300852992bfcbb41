#include "bench/training/weights/weights.hpp"

#include <algorithm>

#include "bench/training/parameters/views.hpp"
#include "core/base/error.hpp"
#include "core/tensor/half_floats.hpp"

namespace plumbline::training {

std::vector<std::int64_t> checkpoint_shape(const Slice& slice) {
  if (slice.vector) return {slice.tensor_cols};
  if (slice.transposed) return {slice.tensor_cols, slice.tensor_rows};
  return {slice.tensor_rows, slice.tensor_cols};
}

namespace {

/// The parameters of one unit, or (unit -1) of a stage's vectors, as one row of fp32.
std::vector<float> read_row(const StageEntry& stage, int unit, std::int64_t elements,
                            const SliceReader& reader) {
  std::vector<float> row(static_cast<std::size_t>(elements), 0.0F);
  for (const Parameter& parameter : stage.parameters.list) {
    if (parameter.unit != unit) continue;
    for (const Slice& slice : parameter.slices) {
      float* to = row.data() + parameter.offset + slice.local_row * parameter.cols + slice.local_col;
      reader(parameter, slice, to, parameter.cols);
      if (slice.less_one) std::for_each(to, to + slice.cols, [](float& value) { value += 1; });
    }
  }
  return row;
}

/// Rounded on the host where the values have no fp32 master: a teacher's.
void upload_rounded(Operators& operators, const float* from, const Matrix& to) {
  if (to.dtype == DType::fp32) return operators.upload(from, to);
  std::vector<std::uint16_t> halves(static_cast<std::size_t>(to.elements()));
  std::transform(from, from + to.elements(), halves.begin(), to.dtype == DType::bf16 ? to_bf16 : to_fp16);
  operators.upload(halves.data(), to);
}

void load_unit(const TrainingContext& context, const ParameterMemory& memory, int unit,
               const std::vector<float>& row) {
  const float* owned = row.data() + memory.owned_from(unit);
  if (!memory.master || memory.unit(unit).frozen) {
    const bool sharded = memory.values.sharded;
    upload_rounded(context.operators, sharded ? owned : row.data(),
                   sharded ? memory.owned(memory.values, unit) : memory.whole(memory.values, unit));
    return;
  }
  const Matrix master = memory.owned(memory.master, unit);
  const Matrix piece = memory.owned(memory.values, unit);
  context.operators.upload(owned, master);
  context.operators.copy(master, piece);
  if (memory.unit(unit).pieces > 1 && !memory.values.sharded) {
    context.communicator.all_gather(memory.unit(unit).group, piece, memory.whole(memory.values, unit));
  }
}

void load(const TrainingContext& context, const RankParameters& parameters, const ParameterMemory& memory,
          const SliceReader& reader) {
  Operators& operators = context.operators;
  for (const StageEntry& stage : parameters.stages) {
    const std::vector<float> vectors = read_row(stage, kVector, stage.parameters.vectors, reader);
    const bool has_master = memory.master && !memory.master.of_adapters();
    const ParameterSet& exact = has_master ? memory.master : memory.values;
    upload_rounded(operators, vectors.data(), stage_vectors(exact, stage));
    if (stage.parameters.untrained > 0) {
      const std::vector<float> biases = read_row(stage, kUntrained, stage.parameters.untrained, reader);
      operators.upload(biases.data(), stage_untrained(memory, stage));
    }
    if (has_master) operators.copy(stage_vectors(memory.master, stage), stage_vectors(memory.values, stage));
    for (int i = 0; i < std::ssize(stage.parameters.unit_elements); ++i) {
      const int unit = stage.first_unit + i;
      load_unit(context, memory, unit, read_row(stage, i, memory.unit(unit).padded, reader));
    }
  }
}

}  // namespace

void load_weights(RankStages& stages, const SliceReader& reader) {
  load(stages.context(), stages.parameters(), stages.memory(), reader);
}

void load_teacher_weights(RankStages& stages, const SliceReader& reader) {
  const RankResources& teacher = *stages.teacher();
  load(teacher.context, teacher.parameters, teacher.memory, reader);
}

void load_weights(const RankResources& model, const SliceReader& reader) {
  load(model.context, model.parameters, model.memory, reader);
}

}  // namespace plumbline::training
