#include "bench/training/linear/fp8_layers.hpp"

#include <fmt/format.h>

#include <array>

#include "bench/training/parameters/views.hpp"

namespace plumbline::training {
namespace {

struct Weight {
  LinearLayer linear;
  const char* role;
  const char* name;  // in checkpoints
  Fp8Linear& (*member)(Fp8Layer&);
  bool of_experts = false;
};
constexpr Weight kAttention[] = {
    {LinearLayer::qkv, "qkv.weight", "qkv", [](Fp8Layer& layer) -> Fp8Linear& { return layer.qkv; }},
    {LinearLayer::proj, "proj.weight", "proj", [](Fp8Layer& layer) -> Fp8Linear& { return layer.proj; }}};
constexpr Weight kLatent[] = {
    {LinearLayer::qkv, "down.weight", "down", [](Fp8Layer& layer) -> Fp8Linear& { return layer.qkv; }},
    {LinearLayer::queries, "queries.weight", "queries",
     [](Fp8Layer& layer) -> Fp8Linear& { return layer.queries; }},
    {LinearLayer::keys_values, "keys_values.weight", "keys_values",
     [](Fp8Layer& layer) -> Fp8Linear& { return layer.keys_values; }},
    {LinearLayer::proj, "proj.weight", "proj", [](Fp8Layer& layer) -> Fp8Linear& { return layer.proj; }}};
constexpr Weight kDense[] = {
    {LinearLayer::fc1, "fc1.weight", "fc1", [](Fp8Layer& layer) -> Fp8Linear& { return layer.fc1; }},
    {LinearLayer::fc2, "fc2.weight", "fc2", [](Fp8Layer& layer) -> Fp8Linear& { return layer.fc2; }}};
constexpr Weight kExperts[] = {{LinearLayer::fc1, "fc1.weight", "fc1",
                                [](Fp8Layer& layer) -> Fp8Linear& { return layer.mixture.fc1; }, true},
                               {LinearLayer::fc2, "fc2.weight", "fc2",
                                [](Fp8Layer& layer) -> Fp8Linear& { return layer.mixture.fc2; }, true}};
constexpr Weight kShared[] = {{LinearLayer::fc1, "shared_fc1.weight", "shared_fc1",
                               [](Fp8Layer& layer) -> Fp8Linear& { return layer.mixture.shared_fc1; }},
                              {LinearLayer::fc2, "shared_fc2.weight", "shared_fc2",
                               [](Fp8Layer& layer) -> Fp8Linear& { return layer.mixture.shared_fc2; }}};

/// Weights of the model's layer `layer`.
std::vector<Weight> weights_of(const TrainingContext& context, std::int64_t layer) {
  std::vector<Weight> all;
  const auto add = [&](std::span<const Weight> some) { all.insert(all.end(), some.begin(), some.end()); };
  if (context.model().latent) {
    add(kLatent);
  } else {
    add(kAttention);
  }
  const Mixture& mixture = context.model().mixture;
  const bool experts = mixture && layer >= mixture.first_dense;
  add(experts ? kExperts : kDense);
  if (experts && mixture.shared > 0) add(kShared);
  return all;
}

/// visit(layer of the stage, layer of the rank, its stage, its weights); layers of MTP modules are behind the
/// stage's.
template <class Visit>
void for_each_layer(const TrainingContext& context, const RankParameters& parameters, const Visit& visit) {
  std::int64_t on_rank = 0;
  for (const StageEntry& stage : parameters.stages) {
    for (std::int64_t i = 0; i < stage.part.all_layers(); ++i, ++on_rank)
      visit(i, on_rank, stage, weights_of(context, stage.part.first_layer + i));
  }
}

std::int64_t elements_of(const StageEntry& stage, std::int64_t layer, std::span<const Weight> weights) {
  std::int64_t sum = 0;
  for (const Weight& weight : weights)
    sum += stage.parameters.find(weight.role, stage.part.first_layer + layer).elements();
  return sum;
}

}  // namespace

Fp8Layers::Fp8Layers(const TrainingContext& context, const RankParameters& parameters,
                     const ParameterMemory& memory)
    : context_(context),
      parameters_(parameters),
      memory_(memory),
      slots_(context, parameters),
      expert_slots_(context, parameters, SlotsOf::experts) {
  if (!context.config.numerics.fp8.on()) return;
  std::int64_t elements = 0;
  for_each_layer(context, parameters,
                 [&](std::int64_t i, std::int64_t, const StageEntry& stage, std::span<const Weight> weights) {
                   offsets_.push_back(elements);
                   elements += elements_of(stage, i, weights);
                 });
  if (memory.values.sharded) return;
  const auto make = [&](const char* holder) {
    return context.arena.allocate(Category::parameters, holder, 1, elements, DType::fp8_e4m3);
  };
  weights_ = make("quantized weights");
  transposed_ = make("transposed quantized weights");
}

std::int64_t Fp8Layers::on_rank(const StageEntry& stage, std::int64_t layer) const {
  for (const StageEntry& other : parameters_.stages) {
    if (other.part.stage < stage.part.stage) layer += other.part.all_layers();
  }
  return layer;
}

Fp8Layer Fp8Layers::layer(const StageEntry& stage, std::int64_t layer) {
  if (!context_.config.numerics.fp8.on()) return {};
  const std::int64_t place = on_rank(stage, layer);
  std::int64_t offset = offsets_[static_cast<std::size_t>(place)];
  Fp8Layer result;
  for (const Weight& weight : weights_of(context_, stage.part.first_layer + layer)) {
    Fp8Slots& slots = weight.of_experts ? expert_slots_ : slots_;
    const auto slot = [&](SlotKind kind) { return Fp8Slot(slots, {place, weight.linear, kind}); };
    Fp8Linear& here = weight.member(result);
    here.input = slot(SlotKind::input);
    here.weight = slot(SlotKind::weight);
    here.gradient = slot(SlotKind::gradient);
    const Parameter& values = stage.parameters.find(weight.role, stage.part.first_layer + layer);
    if (weights_) {
      const std::int64_t matrices = weight.of_experts ? slots.experts() : 1;
      here.quantized = Matrix(weights_.matrix().at(0, offset), values.rows, values.cols, DType::fp8_e4m3);
      here.transposed = Matrix(transposed_.matrix().at(0, offset), matrices * values.cols,
                               values.rows / matrices, DType::fp8_e4m3);
    }
    offset += values.elements();
  }
  return result;
}

/// Units that are wanted.
template <class Wanted>
void Fp8Layers::quantize_weights_of(const Wanted& wanted) {
  if (!weights_) return;
  for_each_layer(context_, parameters_,
                 [&](std::int64_t i, std::int64_t, const StageEntry& stage, std::span<const Weight> weights) {
                   Fp8Layer here = layer(stage, i);
                   for (const Weight& weight : weights) {
                     const Parameter& parameter =
                         stage.parameters.find(weight.role, stage.part.first_layer + i);
                     const int unit = stage.unit_of(parameter);
                     if (!wanted(unit)) continue;
                     const Matrix values = view_of(parameter, memory_.whole(memory_.values, unit));
                     const Fp8Linear& to = weight.member(here);
                     const std::int64_t matrices = weight.of_experts ? expert_slots_.experts() : 1;
                     for (std::int64_t expert = 0; expert < matrices; ++expert) {
                       const auto part = [&](const Matrix& all) {
                         return all.row_range(all.rows / matrices * expert, all.rows / matrices);
                       };
                       to.weight.of_expert(expert).quantize_in_place(part(values), part(to.quantized),
                                                                     part(to.transposed));
                     }
                   }
                 });
}

void Fp8Layers::quantize_weights() {
  const bool gathers = context_.config.parallel.effective_overlap_param_gather();
  quantize_weights_of([&](int unit) { return !gathers || memory_.unit(unit).pieces == 1; });
}

void Fp8Layers::quantize_weights(int unit) {
  quantize_weights_of([&](int other) { return other == unit; });
}

std::vector<Fp8State> Fp8Layers::states() const {
  std::vector<Fp8State> states;
  if (!slots_.remembers()) return states;
  constexpr std::array<const char*, 3> kKind = {"input", "weight", "gradient"};
  const auto add = [&](const Fp8Slots& slots, const Fp8Slots::Place& place, const StageEntry& stage,
                       const std::string& name) {
    states.push_back({name + ".scales", stage.part.route, &slots == &expert_slots_, slots.scales_of(place)});
    states.push_back(
        {name + ".history", stage.part.route, &slots == &expert_slots_, slots.history_of(place)});
  };
  for_each_layer(
      context_, parameters_,
      [&](std::int64_t i, std::int64_t on_rank, const StageEntry& stage, std::span<const Weight> weights) {
        for (const Weight& weight : weights) {
          const std::string linear = fmt::format("layers.{}.{}", stage.part.first_layer + i, weight.name);
          const std::int64_t matrices = weight.of_experts ? expert_slots_.experts() : 1;
          const std::int64_t first = matrices * stage.part.expert_rank;
          for (std::int64_t expert = 0; expert < matrices; ++expert) {
            const std::string number = weight.of_experts ? fmt::format(".{}", first + expert) : "";
            for (std::size_t kind = 0; kind < kKind.size(); ++kind) {
              add(weight.of_experts ? expert_slots_ : slots_,
                  {on_rank, weight.linear, static_cast<SlotKind>(kind), expert}, stage,
                  fmt::format("{}{}.{}", linear, number, kKind[kind]));
            }
          }
        }
      });
  return states;
}

void Fp8Layers::resume_after(std::int64_t steps) {
  slots_.resume_after(steps);
  expert_slots_.resume_after(steps);
  quantize_weights();
}

}  // namespace plumbline::training
