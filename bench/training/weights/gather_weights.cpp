// Puts a split model's tensors together on one rank.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bench/training/parameters/views.hpp"
#include "bench/training/weights/weights.hpp"
#include "core/tensor/half_floats.hpp"

namespace plumbline::training {
namespace {

std::vector<float> download_as_float(Operators& operators, const Matrix& x) {
  const auto count = static_cast<std::size_t>(x.elements());
  std::vector<float> values(count);
  if (x.dtype == DType::fp32) {
    operators.download(x, values.data());
    return values;
  }
  std::vector<std::uint16_t> halves(count);
  operators.download(x, halves.data());
  std::transform(halves.begin(), halves.end(), values.begin(),
                 x.dtype == DType::bf16 ? from_bf16 : from_fp16);
  return values;
}

/// Copies a slice of a parameter to its place in the whole tensor.
void place(const Slice& slice, const Parameter& parameter, const std::vector<float>& row_of_unit,
           Gathered what, NamedTensor& whole) {
  const float added = slice.less_one && what == Gathered::values ? 1.0F : 0.0F;
  for (std::int64_t row = 0; row < slice.rows; ++row) {
    const float* from =
        row_of_unit.data() + parameter.offset + (slice.local_row + row) * parameter.cols + slice.local_col;
    const std::int64_t at_row = slice.row + row;
    for (std::int64_t col = 0; col < slice.cols; ++col) {
      const std::int64_t at_col = slice.col + col;
      const std::int64_t index =
          slice.transposed ? at_col * slice.tensor_rows + at_row : at_row * slice.tensor_cols + at_col;
      whole.values[static_cast<std::size_t>(index)] = from[col] - added;
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

/// Collects rows of other ranks on world rank 0.
class Collector {
 public:
  Collector(RankStages& stages, Gathered what)
      : gradient_factor(what == Gathered::gradients ? 1 / stages.context().loss_scale() : 1),
        stages_(stages),
        set_(what == Gathered::gradients ? stages.memory().gradients
             : stages.memory().master    ? stages.memory().master
                                         : stages.memory().values) {}

  const double gradient_factor;  // to those of the loss itself

  /// A unit, or the vectors, of the given stage, assembled from the pieces of its copies; `layout`:
  /// parameters of the rank at `at`, which has the first. Empty except on world rank 0.
  std::vector<float> collect(const RankParameters& layout, std::size_t slot, int unit_of_stage,
                             Coordinates at) {
    const StageEntry& stage = layout.stages[slot];
    if (unit_of_stage == kUntrained) {
      return fetch(at, stage.parameters.untrained, [&] { return stage_untrained(stages_.memory(), stage); });
    }
    if (unit_of_stage == kVector) {
      const ParameterSet& vectors = set_.of_adapters() ? stages_.memory().values : set_;
      return fetch(at, stage.parameters.vectors, [&] { return stage_vectors(vectors, stage); });
    }
    const int unit = stage.first_unit + unit_of_stage;
    const Unit& wanted = layout.units[static_cast<std::size_t>(unit)];
    const Layout& ranks = stages_.context().communicator.layout();
    ExpertPlace experts = ranks.expert_place(at);
    std::vector<float> row;
    for (int place = 0; place < wanted.pieces; ++place) {
      experts.copy = place;
      Coordinates from = wanted.spread ? ranks.holder_of(experts) : Coordinates{at.tensor, place, 0};
      from.pipeline = at.pipeline;
      const std::vector<float> piece = fetch(from, wanted.owned(), [&] {
        return stages_.memory().owned(wanted.frozen ? stages_.memory().values : set_, unit);
      });
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

/// Place of one rank's part of the gathered unit.
struct Holder {
  const RankParameters* layout;
  std::size_t slot;  // of its stages
  int unit;          // of the stage, or Parameter's marks for its vectors
  Coordinates at;

  const ParameterLayout& parameters() const { return layout->stages[slot].parameters; }
};

/// All parameters of one unit, or the vectors, over all ranks that have a part.
void gather_unit(Collector& collector, const std::vector<Holder>& holders, bool receives, Gathered what,
                 const std::function<void(NamedTensor&&)>& sink) {
  std::vector<std::vector<float>> rows;
  rows.reserve(holders.size());
  for (const Holder& holder : holders) {
    rows.push_back(collector.collect(*holder.layout, holder.slot, holder.unit, holder.at));
  }
  if (!receives) return;
  for (const Parameter& wanted : holders.front().parameters().list) {
    if (wanted.unit != holders.front().unit || wanted.tied_copy) continue;
    std::map<std::string, NamedTensor> wholes;
    for (std::size_t i = 0; i < holders.size(); ++i) {
      const Parameter& parameter = holders[i].parameters().find(wanted.role, wanted.layer);
      for (const Slice& slice : parameter.slices) {
        auto [whole, is_new] = wholes.try_emplace(slice.tensor);
        if (is_new) whole->second = empty_tensor(slice);
        place(slice, parameter, rows[i], what, whole->second);
      }
    }
    for (auto& [name, whole] : wholes) {
      if (collector.gradient_factor != 1)
        for (float& value : whole.values) value = static_cast<float>(value * collector.gradient_factor);
      sink(std::move(whole));
    }
  }
}

constexpr int kNoUnit = -3;

/// The unit of a stage's shard of the vocabulary; kNoUnit if it has none of that role.
int shard_unit(const ParameterLayout& parameters, const std::string& role) {
  for (const Parameter& parameter : parameters.list) {
    if (parameter.role == role) return parameter.unit;
  }
  return kNoUnit;
}

}  // namespace

void gather_weights(RankStages& stages, Gathered what, const std::function<void(NamedTensor&&)>& sink) {
  const TrainingContext& context = stages.context();
  const StageMap& placement = stages.placement();
  const Layout& layout = context.communicator.layout();
  const bool receives = context.communicator.rank() == 0;
  Collector collector(stages, what);

  std::map<int, RankParameters> ranks;  // of those that hold different parameters
  const auto rank_at = [&](Coordinates at) {
    auto [found, is_new] = ranks.try_emplace(layout.rank_of(at));
    if (is_new) found->second = rank_parameters(context.config, placement, at);
    return &found->second;
  };
  std::vector<std::string> shards;  // roles that every rank has a part of
  if (context.config.parallel.splits_vocabulary()) shards = {"embedding.weight", "output.weight"};
  for (const std::string& role : shards) {
    std::vector<Holder> holders;
    for (int pipeline = 0; pipeline < layout.pipeline; ++pipeline) {
      for (int t = 0; t < layout.tensor; ++t) {
        const Coordinates at{t, 0, pipeline};
        const RankParameters* rank = rank_at(at);
        const int unit = shard_unit(rank->stages.front().parameters, role);
        if (unit >= 0) holders.push_back({rank, 0, unit, at});
      }
    }
    if (!holders.empty()) gather_unit(collector, holders, receives, what, sink);
  }

  for (int stage = 0; stage < placement.parts; ++stage) {  // of the first route
    const int pipeline = placement.rank_of_stage[static_cast<std::size_t>(stage)];
    const auto& entries = rank_at({0, 0, pipeline})->stages;
    const auto slot = static_cast<std::size_t>(
        std::find_if(entries.begin(), entries.end(),
                     [&](const StageEntry& entry) { return entry.part.stage == stage; }) -
        entries.begin());
    const ParameterLayout& parameters = entries[slot].parameters;
    const auto units = static_cast<int>(parameters.unit_elements.size());
    const bool all = what == Gathered::values && parameters.untrained > 0;
    for (int unit = all ? kUntrained : kVector; unit < units; ++unit) {
      if (std::any_of(shards.begin(), shards.end(),
                      [&](const std::string& role) { return shard_unit(parameters, role) == unit; })) {
        continue;
      }
      if (what != Gathered::values && !parameters.trains(unit)) continue;
      std::vector<Holder> holders;
      const auto add = [&](Coordinates at) {
        at.pipeline = pipeline;
        holders.push_back({rank_at(at), slot, unit, at});
      };
      if (unit >= units - parameters.spread_units) {
        for (int part = 0; part < layout.expert; ++part)
          for (int slice = 0; slice < layout.expert_slices(); ++slice)
            add(layout.holder_of({slice, part, 0}));
      } else {
        for (int t = 0; t < layout.tensor; ++t) add({t, 0, 0});
      }
      gather_unit(collector, holders, receives, what, sink);
    }
  }
  context.communicator.barrier(Group::world);
}

}  // namespace plumbline::training
