#include "bench/training/weights.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include "core/error.hpp"

namespace plumbline::training {
namespace {

std::vector<float> download_as_float(Operators& operators, const Matrix& x) {
  const auto count = static_cast<std::size_t>(x.elements());
  std::vector<float> values(count);
  if (x.dtype == DType::fp32) {
    operators.download(x, values.data());
    return values;
  }
  // bf16 is the upper half of a float.
  std::vector<std::uint16_t> halves(count);
  operators.download(x, halves.data());
  std::transform(halves.begin(), halves.end(), values.begin(),
                 [](std::uint16_t half) { return std::bit_cast<float>(std::uint32_t{half} << 16); });
  return values;
}

/// Copies a slice of a parameter to its place in the whole tensor.
void place(const Slice& slice, const Parameter& parameter, const std::vector<float>& row_of_unit,
           NamedTensor& whole) {
  for (std::int64_t row = 0; row < slice.rows; ++row) {
    const float* from =
        row_of_unit.data() + parameter.offset + (slice.local_row + row) * parameter.cols + slice.local_col;
    const std::int64_t at_row = slice.row + row;
    for (std::int64_t col = 0; col < slice.cols; ++col) {
      const std::int64_t at_col = slice.col + col;
      const std::int64_t index =
          slice.transposed ? at_col * slice.tensor_rows + at_row : at_row * slice.tensor_cols + at_col;
      whole.values[static_cast<std::size_t>(index)] = from[col];
    }
  }
}

NamedTensor empty_tensor(const Slice& slice) {
  NamedTensor whole;
  whole.name = slice.tensor;
  whole.values.resize(static_cast<std::size_t>(slice.tensor_rows * slice.tensor_cols));
  whole.shape = checkpoint_shape(slice);
  return whole;
}

}  // namespace

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
      reader(parameter, slice,
             row.data() + parameter.offset + slice.local_row * parameter.cols + slice.local_col,
             parameter.cols);
    }
  }
  return row;
}

Matrix stage_vectors(const ParameterSet& set, const StageEntry& stage) {
  const Matrix& all = set.vectors;
  return {all.at(0, stage.vector_offset), 1, stage.parameters.vectors, all.dtype};
}

/// To the nearest bf16, ties to even; a NaN stays one.
std::uint16_t nearest_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

/// Rounded on the host where the values have no fp32 master: a teacher's.
void upload_rounded(Operators& operators, const float* from, const Matrix& to) {
  if (to.dtype == DType::fp32) return operators.upload(from, to);
  if (to.dtype != DType::bf16) {
    throw Error(fmt::format("weights: found type {}, expected fp32 or bf16", name_of(to.dtype)));
  }
  std::vector<std::uint16_t> halves(static_cast<std::size_t>(to.elements()));
  std::transform(from, from + to.elements(), halves.begin(), nearest_bf16);
  operators.upload(halves.data(), to);
}

void load_unit(const TrainingContext& context, const ParameterMemory& memory, int unit,
               const std::vector<float>& row) {
  const float* owned = row.data() + memory.owned_from(unit);
  if (!memory.master) {
    const bool cut = memory.values.cut;
    upload_rounded(context.operators, cut ? owned : row.data(),
                   cut ? memory.owned(memory.values, unit) : memory.whole(memory.values, unit));
    return;
  }
  const Matrix master = memory.owned(memory.master, unit);
  const Matrix piece = memory.owned(memory.values, unit);
  context.operators.upload(owned, master);
  context.operators.copy(master, piece);
  if (pieces_of(context.config) > 1 && !memory.values.cut) {
    context.communicator.all_gather(Group::data, piece, memory.whole(memory.values, unit));
  }
}

void load(const TrainingContext& context, const RankParameters& parameters, const ParameterMemory& memory,
          const SliceReader& reader) {
  Operators& operators = context.operators;
  for (const StageEntry& stage : parameters.stages) {
    const std::vector<float> vectors = read_row(stage, -1, stage.parameters.vectors, reader);
    const ParameterSet& exact = memory.master ? memory.master : memory.values;
    upload_rounded(operators, vectors.data(), stage_vectors(exact, stage));
    if (memory.master)
      operators.copy(stage_vectors(memory.master, stage), stage_vectors(memory.values, stage));
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

namespace {

/// Collects rows of other ranks on world rank 0.
class Collector {
 public:
  Collector(RankStages& stages, Gathered what)
      : stages_(stages),
        set_(what == Gathered::gradients ? stages.memory().gradients
             : stages.memory().master    ? stages.memory().master
                                         : stages.memory().values) {}

  /// A unit (or with -1 the vectors) of the given stage, put together from its data ranks' pieces; `layout`
  /// are the parameters of the rank that holds it. Empty but on world rank 0.
  std::vector<float> collect(const RankParameters& layout, std::size_t slot, int unit_of_stage, int tensor,
                             int pipeline) {
    const StageEntry& stage = layout.stages[slot];
    if (unit_of_stage < 0) {
      return fetch({tensor, 0, pipeline}, stage.parameters.vectors,
                   [&] { return stage_vectors(set_, stage); });
    }
    const int unit = stage.first_unit + unit_of_stage;
    const int pieces = pieces_of(stages_.context().config);
    std::vector<float> row;
    for (int data = 0; data < pieces; ++data) {
      const std::int64_t elements = layout.units[static_cast<std::size_t>(unit)].padded / pieces;
      const std::vector<float> piece =
          fetch({tensor, data, pipeline}, elements, [&] { return stages_.memory().owned(set_, unit); });
      row.insert(row.end(), piece.begin(), piece.end());
    }
    return row;
  }

 private:
  template <class View>
  std::vector<float> fetch(Coordinates from, std::int64_t elements, View view) {
    Communicator& communicator = stages_.context().communicator;
    const int me = communicator.rank();
    const int holder = communicator.layout().rank_of(from);
    std::vector<float> row;
    if (me == holder) row = download_as_float(stages_.context().operators, view());
    if (holder != 0 && (me == holder || me == 0)) {
      row.resize(static_cast<std::size_t>(elements));
      const Matrix message(row.data(), 1, elements, DType::fp32);
      Ticket ticket =
          me == holder ? communicator.send(message, 0, 0) : communicator.receive(message, holder, 0);
      communicator.wait(ticket);
    }
    if (me != 0) row.clear();
    return row;
  }

  RankStages& stages_;
  const ParameterSet& set_;
};

/// All parameters of one unit (or with -1 the vectors) of a stage, over all tensor ranks.
void gather_unit(Collector& collector, const std::vector<RankParameters>& tensor_ranks, std::size_t slot,
                 int unit, int pipeline, bool receives, const std::function<void(NamedTensor&&)>& sink) {
  std::vector<std::vector<float>> rows;
  rows.reserve(tensor_ranks.size());
  for (std::size_t t = 0; t < tensor_ranks.size(); ++t) {
    rows.push_back(collector.collect(tensor_ranks[t], slot, unit, static_cast<int>(t), pipeline));
  }
  if (!receives) return;
  const auto& list = tensor_ranks.front().stages[slot].parameters.list;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i].unit != unit || list[i].tied_copy) continue;
    std::map<std::string, NamedTensor> wholes;
    for (std::size_t t = 0; t < tensor_ranks.size(); ++t) {
      const Parameter& parameter = tensor_ranks[t].stages[slot].parameters.list[i];
      for (const Slice& slice : parameter.slices) {
        auto [whole, is_new] = wholes.try_emplace(slice.tensor);
        if (is_new) whole->second = empty_tensor(slice);
        place(slice, parameter, rows[t], whole->second);
      }
    }
    for (auto& [name, whole] : wholes) sink(std::move(whole));
  }
}

}  // namespace

void gather_weights(RankStages& stages, Gathered what, const std::function<void(NamedTensor&&)>& sink) {
  const TrainingContext& context = stages.context();
  const Placement& placement = stages.placement();
  const Layout& layout = context.communicator.layout();
  Collector collector(stages, what);
  for (int stage = 0; stage < placement.parts; ++stage) {  // of the first route
    const int pipeline = placement.rank_of_stage[static_cast<std::size_t>(stage)];
    std::vector<RankParameters> tensor_ranks;
    tensor_ranks.reserve(static_cast<std::size_t>(layout.tensor));
    for (int t = 0; t < layout.tensor; ++t) {
      tensor_ranks.push_back(rank_parameters(context.config, placement, pipeline, t));
    }
    const auto& entries = tensor_ranks.front().stages;
    const auto slot = static_cast<std::size_t>(
        std::find_if(entries.begin(), entries.end(),
                     [&](const StageEntry& entry) { return entry.part.stage == stage; }) -
        entries.begin());
    const auto units = static_cast<int>(entries[slot].parameters.unit_elements.size());
    for (int unit = -1; unit < units; ++unit) {
      gather_unit(collector, tensor_ranks, slot, unit, pipeline, context.communicator.rank() == 0, sink);
    }
  }
  context.communicator.barrier(Group::world);
}

}  // namespace plumbline::training
