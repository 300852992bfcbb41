// Memory that another training framework holds for the whole run.
#include <algorithm>

#include "analysis/memory/framework_memory.hpp"
#include "analysis/work/frozen_weights.hpp"
#include "analysis/work/parameter_units.hpp"

namespace plumbline {
namespace {

/// Tensors of fewer elements keep fp32 states (bitsandbytes-foundation/bitsandbytes@95f9af30
/// optim/optimizer.py, min_8bit_size).
constexpr std::int64_t kLeastBlockwise = 4096;
constexpr double kBlockwiseStates = 2 * (1 + 4.0 / 256);

/// States wherever they are, and the parameters that the rank updates.
struct AllHeld {
  MemoryBreakdown bytes;
  double updated = 0;
};

AllHeld all_held(std::span<const StageShape> stages) {
  AllHeld all;
  MemoryBreakdown& held = all.bytes;
  const StageShape& any = stages.front();
  double elements = 0;  // in the form that the optimizer updates
  double frozen = 0;    // in the storage type
  double trained = 0;   // of experts that are spread over ranks apart: they have other copies
  double experts = 0;
  for (const StageShape& s : stages) {
    const auto spread = static_cast<double>(spread_expert_elements(s));
    const auto whole = static_cast<double>(elements_of(s).whole());
    const auto trainable = static_cast<double>(trainable_elements(s));
    elements += trainable;
    frozen += s.adapters.rank > 0 ? whole : whole - trainable;  // adapters are no part of the whole
    trained += trainable - spread;
    experts += spread;
  }
  const auto bytes = [&](double count, double each, bool sharded) {
    return Bytes{static_cast<std::int64_t>(count * each / (sharded ? any.sharding.state_shards : 1))};
  };
  const auto piece_of_experts = [&](int stage) {
    return any.sharding.zero >= stage ? any.expert.state_shards : 1;
  };
  const Software& sw = *any.software;
  const double weights = sw.memory.state_bytes - sw.memory.gradient_bytes - sw.memory.optimizer_state_bytes;
  // An fp32 weight is the optimizer's; frozen ones keep the storage type that they are loaded in: Megatron-LM
  // (megatron/core/optimizer/__init__.py@d086a2e3 skips parameters without gradient), DeepSpeed
  // (deepspeed/runtime/engine.py@b555aa53 casts the module), PEFT 0.21.2 (peft/tuners/tuners_utils.py,
  // cast_adapter_dtype: adapters alone become fp32), torchtune (its recipes/configs/llama3_1/8B_lora.yaml
  // @0031bfb0, dtype bf16). torchtitan's adapters have the type of their weight
  // (components/lora.py@0b83f010). verl loads an actor in fp32 (software.json).
  held[Category::parameters] = bytes(elements - experts, weights, any.sharding.zero >= 3);
  double linear = 0;  // quantized
  double scales = 0;  // bytes
  if (any.adapters.quantized()) {
    for (const StageShape& s : stages) {
      linear += static_cast<double>(s.over_layers(layer_matrices));
      scales += static_cast<double>(s.layers) * frozen_scale_bytes(s);
    }
    held[Category::parameters] += bytes(frozen_packed_bytes(any, linear), 1, any.sharding.zero >= 3);
    // bitsandbytes' scales are no parameters, which FSDP and ZeRO 3 leave whole.
    held[Category::parameters] += bytes(scales, 1, any.sharding.zero >= 3 && sw.memory.sharded_scales);
  }
  const double of_frozen =
      sw.memory.frozen_bytes > 0 ? sw.memory.frozen_bytes : static_cast<double>(any.numerics.e());
  held[Category::parameters] += bytes(frozen - linear, of_frozen, any.sharding.zero >= 3);
  held[Category::parameters] += bytes(experts / piece_of_experts(3), weights, false);
  // Layer weights in the forms that FP8 products read, kept from one step to the next: besides those in 16
  // bit, or instead of them.
  if (any.numerics.framework_fp8 && !sw.fp8.always && any.sharding.zero < 3) {
    const double each =
        any.numerics.held_forms * any.numerics.operand_bytes - (any.numerics.fp8_weights ? weights : 0);
    for (const StageShape& s : stages)
      held[Category::parameters] += bytes(static_cast<double>(quantized_matrices(s)), each, false);
  }
  const auto of_gradient = static_cast<double>(any.numerics.g());
  if (any.numerics.type == DType::bf16)
    held[Category::gradients] += bytes(trained, sw.memory.bf16_copy_bytes, any.sharding.zero >= 2);
  held[Category::gradients] += bytes(trained, of_gradient, any.sharding.zero >= 2) +
                               bytes(experts / piece_of_experts(2), of_gradient, false);
  const double states = sw.memory.optimizer_state_bytes - any.numerics.optimizer.state_bytes_less;
  held[Category::optimizer] = bytes(trained, states, any.sharding.zero >= 1) +
                              bytes(experts / any.expert.state_shards, states, false);
  if (any.numerics.optimizer.kind == Optimizer::muon) {
    double matrices = 0;  // of layers, which have one moment
    for (const StageShape& s : stages)
      matrices += static_cast<double>(s.over_layers(layer_matrices) +
                                      s.weighty_modules() * prediction_module_matrices(s));
    held[Category::optimizer] -= bytes(matrices - experts, 4, any.sharding.zero >= 1) +
                                 bytes(experts / any.expert.state_shards, 4, false);
  }
  if (any.numerics.optimizer.blockwise_states && any.stream.hidden < kLeastBlockwise &&
      !any.adapters.frozen()) {
    for (const StageShape& s : stages)
      held[Category::optimizer] +=
          bytes(static_cast<double>(vectors_of(s).total()), 8 - kBlockwiseStates, any.sharding.zero >= 1);
  }
  held[Category::workspace].value = static_cast<std::int64_t>(sw.memory.workspace_bytes);
  if (const StageShape& last = stages.back(); last.scores()) {
    held[Category::logits].value = static_cast<std::int64_t>(
        sw.memory.held_logit_bytes * static_cast<double>(last.stream.tokens * last.ends.outputs));
  }
  if (any.sharding.double_buffers) held[Category::communication].value = framework_unit_buffers(any);
  // Broadcast hidden states and their gradients, two of them in fp32.
  if (any.vocabulary.split) held[Category::communication].value = 10 * any.stream.tokens * any.stream.hidden;
  all.updated =
      trained / (any.sharding.zero >= 1 ? any.sharding.state_shards : 1) + experts / any.expert.state_shards;
  return all;
}

Bytes share_of(Bytes bytes, double share) {
  return {static_cast<std::int64_t>(static_cast<double>(bytes.value) * share)};
}

}  // namespace

double framework_state_bytes(const Software& sw, double parameters, int replicas, int zero) {
  const double weights = sw.memory.state_bytes - sw.memory.gradient_bytes - sw.memory.optimizer_state_bytes;
  return parameters *
         (weights / (zero >= 3 ? replicas : 1) + sw.memory.gradient_bytes / (zero >= 2 ? replicas : 1) +
          sw.memory.optimizer_state_bytes / (zero >= 1 ? replicas : 1));
}

MemoryBreakdown framework_held_bytes(std::span<const StageShape> stages) {
  if (stages.empty()) return {};
  MemoryBreakdown held = all_held(stages).bytes;
  const HostStatesShape& host = stages.front().host_states;
  if (host.parameters) held[Category::parameters] = {};
  held[Category::gradients] = share_of(held[Category::gradients], 1 - host.gradients);
  held[Category::optimizer] = share_of(held[Category::optimizer], 1 - host.optimizer);
  return held;
}

Bytes framework_host_bytes(std::span<const StageShape> stages) {
  if (stages.empty()) return {};
  const AllHeld all = all_held(stages);
  const HostStatesShape& host = stages.front().host_states;
  Bytes bytes = share_of(all.bytes[Category::optimizer], host.optimizer);
  if (host.parameters) bytes += all.bytes[Category::parameters];
  bytes.value += static_cast<std::int64_t>(all.updated * host.optimizer *
                                           stages.front().software->memory.host_gradient_bytes);
  return bytes;
}

Bytes host_state_copies(const StageShape& s, ActionType type) {
  const bool forward = type == ActionType::forward;
  const bool backward = type == ActionType::backward || type == ActionType::backward_input;
  if (!s.host_states.in_passes() || (!forward && !backward)) return {};
  const MemoryBreakdown all = all_held({&s, 1}).bytes;
  const Bytes there = s.host_states.parameters ? all[Category::parameters] : Bytes{};
  return forward ? there : std::max(there, share_of(all[Category::gradients], s.host_states.gradients));
}

}  // namespace plumbline
