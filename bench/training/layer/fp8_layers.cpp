#include "bench/training/layer/fp8_layers.hpp"

#include <fmt/format.h>

#include <array>

#include "bench/training/parameters/views.hpp"

namespace plumbline::training {
namespace {

struct Weight {
  LinearLayer linear;
  const char* role;
  Fp8Linear Fp8Layer::*member;
};
constexpr std::array<Weight, 4> kWeights = {{{LinearLayer::qkv, "qkv.weight", &Fp8Layer::qkv},
                                             {LinearLayer::proj, "proj.weight", &Fp8Layer::proj},
                                             {LinearLayer::fc1, "fc1.weight", &Fp8Layer::fc1},
                                             {LinearLayer::fc2, "fc2.weight", &Fp8Layer::fc2}}};

std::int64_t elements_of_layer(const RankParameters& parameters) {
  for (const StageEntry& stage : parameters.stages) {
    if (stage.part.layers == 0) continue;
    std::int64_t sum = 0;
    for (const Weight& weight : kWeights) {
      sum += stage.parameters.find(weight.role, stage.part.first_layer).elements();
    }
    return sum;
  }
  return 0;
}

std::int64_t layers_before(const RankParameters& parameters, const StageEntry& stage) {
  std::int64_t layers = 0;
  for (const StageEntry& other : parameters.stages) {
    if (other.part.stage < stage.part.stage) layers += other.part.layers;
  }
  return layers;
}

}  // namespace

Fp8Layers::Fp8Layers(const TrainingContext& context, const RankParameters& parameters,
                     const ParameterMemory& memory)
    : context_(context), parameters_(parameters), memory_(memory), slots_(context, parameters) {
  if (!context.config.numerics.fp8.on() || memory.values.sharded) return;
  std::int64_t layers = 0;
  for (const StageEntry& stage : parameters.stages) layers += stage.part.layers;
  const auto make = [&](const char* holder) {
    return context.arena.allocate(Category::parameters, holder, 1, layers * elements_of_layer(parameters),
                                  DType::fp8_e4m3);
  };
  weights_ = make("quantized weights");
  transposed_ = make("transposed quantized weights");
}

Fp8Layer Fp8Layers::layer(const StageEntry& stage, std::int64_t layer) {
  if (!context_.config.numerics.fp8.on()) return {};
  const std::int64_t on_rank = layers_before(parameters_, stage) + layer;
  std::int64_t offset = on_rank * elements_of_layer(parameters_);
  Fp8Layer result;
  for (const auto& [linear, role, member] : kWeights) {
    const auto slot = [&, linear = linear](SlotKind kind) {
      return Fp8Slot(slots_, {on_rank, linear, kind});
    };
    Fp8Linear& here = result.*member;
    here.input = slot(SlotKind::input);
    here.weight = slot(SlotKind::weight);
    here.gradient = slot(SlotKind::gradient);
    const Parameter& weight = stage.parameters.find(role, stage.part.first_layer + layer);
    if (weights_) {
      here.quantized = Matrix(weights_.matrix().at(0, offset), weight.rows, weight.cols, DType::fp8_e4m3);
      here.transposed = Matrix(transposed_.matrix().at(0, offset), weight.cols, weight.rows, DType::fp8_e4m3);
    }
    offset += weight.elements();
  }
  return result;
}

void Fp8Layers::quantize_weights() {
  if (!weights_) return;
  for (const StageEntry& stage : parameters_.stages) {
    for (std::int64_t i = 0; i < stage.part.layers; ++i) {
      const Fp8Layer here = layer(stage, i);
      for (const auto& [linear, role, member] : kWeights) {
        const Parameter& weight = stage.parameters.find(role, stage.part.first_layer + i);
        const Matrix unit = memory_.whole(memory_.values, stage.unit_of(weight));
        const Fp8Linear& to = here.*member;
        to.weight.quantize_in_place(view_of(weight, unit), to.quantized);
        context_.operators.fp8_transpose(to.quantized, to.transposed);
      }
    }
  }
}

std::vector<Fp8State> Fp8Layers::states() const {
  std::vector<Fp8State> states;
  if (!slots_.remembers()) return states;
  constexpr std::array<const char*, 4> kLinear = {"qkv", "proj", "fc1", "fc2"};
  constexpr std::array<const char*, 3> kKind = {"input", "weight", "gradient"};
  for (const StageEntry& stage : parameters_.stages) {
    const std::int64_t before = layers_before(parameters_, stage);
    for (std::int64_t i = 0; i < stage.part.layers; ++i) {
      for (std::size_t linear = 0; linear < kLinear.size(); ++linear) {
        for (std::size_t kind = 0; kind < kKind.size(); ++kind) {
          const Fp8Slots::Place place{before + i, static_cast<LinearLayer>(linear),
                                      static_cast<SlotKind>(kind)};
          const std::string name =
              fmt::format("layers.{}.{}.{}", stage.part.first_layer + i, kLinear[linear], kKind[kind]);
          states.push_back({name + ".scales", stage.part.route, slots_.scales_of(place)});
          states.push_back({name + ".history", stage.part.route, slots_.history_of(place)});
        }
      }
    }
  }
  return states;
}

void Fp8Layers::resume_after(std::int64_t steps) {
  slots_.resume_after(steps);
  quantize_weights();
}

}  // namespace plumbline::training
