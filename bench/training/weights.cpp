#include "bench/training/weights.hpp"

#include <algorithm>
#include <bit>
#include <map>

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

/// Copies a slice of the local matrix to its place in the whole tensor.
void place(const Slice& slice, const Parameter& parameter, const std::vector<float>& local,
           NamedTensor& whole) {
  for (std::int64_t row = 0; row < slice.rows; ++row) {
    const float* from = local.data() + (slice.local_row + row) * parameter.cols + slice.local_col;
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

void load_weights(TransformerStage& stage, const SliceReader& reader) {
  const StageMemory& memory = stage.memory();
  Operators& operators = stage.context().operators;
  const Tensor& exact = memory.master ? memory.master : memory.values;
  std::vector<float> local;
  for (const Parameter& parameter : stage.parameters()) {
    local.assign(static_cast<std::size_t>(parameter.elements()), 0.0F);
    for (const Slice& slice : parameter.slices) {
      reader(parameter, slice, local.data() + slice.local_row * parameter.cols + slice.local_col,
             parameter.cols);
    }
    operators.upload(local.data(), stage.view(exact, parameter));
  }
  if (memory.master) operators.copy(memory.master, memory.values);
}

void gather_weights(TransformerStage& stage, Gathered what, const std::function<void(NamedTensor&&)>& sink) {
  const TrainingContext& context = stage.context();
  Communicator& communicator = context.communicator;
  const Layout& layout = communicator.layout();
  const StageMemory& memory = stage.memory();
  const Tensor& exact = memory.master ? memory.master : memory.values;
  const Tensor& flat = what == Gathered::gradients ? memory.gradients : exact;
  const int me = communicator.rank();

  for (int pipeline_rank = 0; pipeline_rank < layout.pipeline; ++pipeline_rank) {
    std::vector<std::vector<Parameter>> parameters;  // of every tensor rank
    parameters.reserve(static_cast<std::size_t>(layout.tensor));
    for (int t = 0; t < layout.tensor; ++t) {
      parameters.push_back(stage_parameters(context.config, part_of(context.config, pipeline_rank, t)));
    }
    for (std::size_t i = 0; i < parameters.front().size(); ++i) {
      if (parameters.front()[i].tied_copy) continue;
      std::map<std::string, NamedTensor> wholes;
      for (int t = 0; t < layout.tensor; ++t) {
        const Parameter& parameter = parameters[static_cast<std::size_t>(t)][i];
        const int holder = layout.rank_of({t, 0, pipeline_rank});
        std::vector<float> local;
        if (me == holder) local = download_as_float(context.operators, stage.view(flat, parameter));
        if (holder != 0 && (me == holder || me == 0)) {
          local.resize(static_cast<std::size_t>(parameter.elements()));
          const Matrix message(local.data(), 1, parameter.elements(), DType::fp32);
          Ticket ticket =
              me == holder ? communicator.send(message, 0, 0) : communicator.receive(message, holder, 0);
          communicator.wait(ticket);
        }
        if (me != 0) continue;
        for (const Slice& slice : parameter.slices) {
          auto [whole, is_new] = wholes.try_emplace(slice.tensor);
          if (is_new) whole->second = empty_tensor(slice);
          place(slice, parameter, local, whole->second);
        }
      }
      for (auto& [name, whole] : wholes) sink(std::move(whole));
    }
  }
  communicator.barrier(Group::world);
}

}  // namespace plumbline::training
