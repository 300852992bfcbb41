#include "analysis/predict/prediction_rows.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <utility>
#include <vector>

#include "analysis/hardware/profiles/profiles.hpp"
#include "analysis/predict/card_share.hpp"
#include "analysis/predict/software_rows.hpp"
#include "analysis/step/stage_shapes.hpp"
#include "analysis/work/framework_list.hpp"
#include "core/schedule/schedule_traits.hpp"

namespace plumbline {
namespace {

using C = RunConfig;
using S = Software;
using H = HardwareProfile;
using Refusal = std::optional<std::string>;

Refusal listed_mixture(const C& c, const S& software, const H* /*hardware*/) {
  return why_model_unlisted(c, software);
}

/// States, operators and kept activations of other software are those of 16-bit storage and Adam.
Refusal single_precision(const C& c, const S& /*software*/, const H* /*hardware*/) {
  if (c.numerics.precision != DType::fp32) return std::nullopt;
  return fmt::format(
      "precision: found fp32 with software {}, whose step is predicted in 16 bits; expected bf16, fp16 or "
      "fp8, "
      "or software: plumbline",
      c.machine.software);
}

Refusal optimizer_of_software(const C& c, const S& software, const H* /*hardware*/) {
  const bool megatron = software.communication.buckets();
  if (c.optimizer.kind == Optimizer::adam || (megatron && c.optimizer.muons())) return std::nullopt;
  return fmt::format(
      "optimizer: found {} with software {}, whose states are predicted for adam{}; expected {}, or "
      "software: "
      "plumbline",
      optimizer_name(c.optimizer.kind), c.machine.software, megatron ? " and muon" : "",
      megatron ? "one of these" : "adam");
}

Refusal modules(const C& c, const S& software, const H* /*hardware*/) {
  const bool others =
      c.recompute.granularity == Recompute::selective && c.recompute.modules != kCoreAttention;
  if (!others || software.communication.buckets()) return std::nullopt;
  return fmt::format(
      "recompute_modules: found {} with {}, which has none; expected core_attn, or software: megatron-core",
      to_string(c.recompute.modules), c.machine.software);
}

Refusal offloaded_layers(const C& c, const S& software, const H* /*hardware*/) {
  if (!c.offload.on() || software.communication.buckets()) return std::nullopt;
  return fmt::format(
      "cpu_offloading_num_layers: found {} with {}, whose copies to the host are not predicted; expected 0, "
      "or software: megatron-core",
      c.offload.num_layers, c.machine.software);
}

Refusal offloaded_modules(const C& c, const S& software, const H* /*hardware*/) {
  if (!c.offload.modules.any() || software.communication.buckets()) return std::nullopt;
  return fmt::format(
      "offload_modules: found {} with {}, which has none; expected none, or software: megatron-core",
      to_string(c.offload.modules), c.machine.software);
}

/// HybridDeviceOptimizer of Megatron-Core has optimizer states on the host, DeepSpeed parameters of ZeRO 3
/// too, FSDP all of them or nothing.
Refusal offloaded_states(const C& c, const S& software, const H* /*hardware*/) {
  if (!c.offload.states()) return std::nullopt;
  const double fraction = c.offload.optimizer_fraction;
  const bool megatron = software.communication.buckets();
  const bool fsdp = software.communication.sharded;
  const char* const key = fraction > 0 ? "optimizer_offload_fraction" : "offload_params";
  const std::string found = fraction > 0 ? fmt::format("{}", fraction) : "true";
  if (software.memory.host_gradient_bytes == 0 || (megatron && fsdp)) {
    return fmt::format(
        "{}: found {} with {}, whose states stay on the device; expected none of it, or software: deepspeed",
        key, found, c.machine.software);
  }
  if (fsdp && (fraction != 1 || !c.offload.params)) {
    return fmt::format(
        "{}: found {} with {}, whose FSDP offloads all states or none; expected 1 with offload_params: true",
        key, found, c.machine.software);
  }
  if (c.offload.params && megatron) {
    return fmt::format(
        "offload_params: found true with {}, whose parameters stay on the device; expected false, or "
        "software: deepspeed",
        c.machine.software);
  }
  if (fsdp || megatron || c.parallel.dp.zero_stage > 0) return std::nullopt;
  return fmt::format("{}: found {} with zero_stage 0, expected zero_stage 1 to 3; change zero_stage", key,
                     found);
}

Refusal host_copies(const C& c, const S& /*software*/, const H* h) {
  if (c.offload.states() && h->accelerator() == nullptr) {
    return fmt::format(
        "optimizer_offload_fraction: found {} with {}, which has no device apart from its host; expected 0, "
        "or an accelerator by name such as hardware: h100-sxm-80gb",
        c.offload.optimizer_fraction, h->name);
  }
  if (!c.offload.on() || h->processors() > 0 || h->accelerator() != nullptr) return std::nullopt;
  return fmt::format(
      "cpu_offloading_num_layers: found {} with {}, which has no measured copies to the host; expected 0, or "
      "an "
      "accelerator by name such as hardware: h100-sxm-80gb",
      c.offload.num_layers, h->name);
}

Refusal share_of_card(const C& c, const S& software, const H* h) {
  if (!software.own_step || c.machine.backend != Backend::cuda) return std::nullopt;
  return why_too_few_multiprocessors(c, *h);
}

/// The recipe of a job that a framework does not have, and what to ask it for.
std::string why_recipe_missing(const RunConfig& config, const Software& framework) {
  const std::string& software = config.machine.software;
  constexpr std::pair<Fp8Recipe, const char*> kRecipes[] = {{Fp8Recipe::delayed, "delayed"},
                                                            {Fp8Recipe::tensorwise, "tensorwise"},
                                                            {Fp8Recipe::blockwise, "blockwise"},
                                                            {Fp8Recipe::mxfp8, "mxfp8"}};
  std::string known, found;
  for (const auto& [recipe, name] : kRecipes) {
    if (recipe == config.numerics.fp8.recipe) found = name;
    if (takes_recipe(framework, recipe)) known += (known.empty() ? "" : " or ") + std::string(name);
  }
  if (!known.empty()) return fmt::format("fp8_recipe: found {} with {}, expected {}", found, software, known);
  const bool sibling = built_in_profiles().software.contains(software + "-float8");
  return fmt::format(
      "fp8_format: found a format (precision fp8 sets one) with {}, which has no recipe; expected none, or "
      "software: {}",
      software, sibling ? software + "-float8" : "megatron-core");
}

Refusal fp8_recipe(const C& c, const S& software, const H* /*hardware*/) {
  if (!c.numerics.fp8.on() || takes_recipe(software, c.numerics.fp8.recipe)) return std::nullopt;
  return why_recipe_missing(c, software);
}

/// Megatron-Core's switch: it alone has buckets.
Refusal fp8_attention(const C& c, const S& software, const H* /*hardware*/) {
  if (!c.numerics.fp8_dot_product_attention || software.communication.buckets()) return std::nullopt;
  return fmt::format(
      "fp8_dot_product_attention: found true with {}, which has none; expected false, or software: "
      "megatron-core",
      c.machine.software);
}

/// Megatron-Core's, too.
Refusal shared_overlap(const C& c, const S& software, const H* /*hardware*/) {
  if (!c.parallel.ep.shared_expert_overlap || software.communication.buckets()) return std::nullopt;
  return fmt::format(
      "moe_shared_expert_overlap: found true with {}, which has none; expected false, or "
      "software: megatron-core",
      c.machine.software);
}

Refusal deferred_weights(const C& c, const S& software, const H* /*hardware*/) {
  if (!c.parallel.pp.defer_embedding_wgrad_compute || software.communication.buckets()) return std::nullopt;
  return fmt::format(
      "defer_embedding_wgrad_compute: found true with {}, which has none; expected false, or "
      "software: megatron-core",
      c.machine.software);
}

Refusal gather_with_update(const C& c, const S& software, const H* /*hardware*/) {
  if (!c.parallel.dp.gather_with_update || software.communication.buckets()) return std::nullopt;
  return fmt::format(
      "overlap_param_gather_with_optimizer_step: found true with {}, which has none; expected false, or "
      "software: megatron-core",
      c.machine.software);
}

/// Megatron-FSDP is sharded, and Megatron-Core's.
Refusal double_buffer(const C& c, const S& software, const H* /*hardware*/) {
  const bool has = software.communication.sharded && software.communication.buckets();
  if (!c.parallel.dp.fsdp_double_buffer || has) return std::nullopt;
  return fmt::format(
      "fsdp_double_buffer: found true with {}, which has none; expected false, or "
      "software: megatron-bridge-fsdp",
      c.machine.software);
}

Refusal rank_capacity(const C& c, const S& software, const H* /*hardware*/) {
  if (c.mixture.rank_capacity_factor == 0 || software.communication.buckets()) return std::nullopt;
  return fmt::format(
      "moe_expert_rank_capacity_factor: found {} with {}, whose buffers are as large as needed; "
      "expected none, or software: megatron-core",
      c.mixture.rank_capacity_factor, c.machine.software);
}

/// Megatron-Core's as well, or bitsandbytes'.
Refusal lean_states(const C& c, const S& software, const H* /*hardware*/) {
  const OptimizerConfig& optimizer = c.optimizer;
  if (optimizer.blockwise() && !software.memory.blockwise_quantization) {
    return fmt::format(
        "exp_avg_dtype: found int8 with {}, whose optimizer has no 8-bit states; expected fp32, or software: "
        "deepspeed",
        c.machine.software);
  }
  if (!optimizer.lean() || software.communication.buckets()) return std::nullopt;
  if (optimizer.blockwise() && !optimizer.store_param_remainders) return std::nullopt;
  const bool first = optimizer.exp_avg_dtype != MomentDType::fp32;
  const bool moments = !optimizer.blockwise() && (first || optimizer.exp_avg_sq_dtype != MomentDType::fp32);
  return fmt::format(
      "{}: found {} with {}, whose optimizer has fp32 states; expected {}, or software: "
      "megatron-core",
      !moments ? "store_param_remainders"
      : first  ? "exp_avg_dtype"
               : "exp_avg_sq_dtype",
      moments ? moment_dtype_name(first ? optimizer.exp_avg_dtype : optimizer.exp_avg_sq_dtype) : "true",
      c.machine.software, moments ? "fp32" : "false");
}

/// bitsandbytes' linear layers. Sharding cuts floating-point parameters: neither 8-bit weights nor GPTQ's.
Refusal quantized_weights(const C& c, const S& software, const H* /*hardware*/) {
  if (!c.finetune.quantized()) return std::nullopt;
  const char* const found = frozen_weights_name(c.finetune.frozen_weights);
  if (!software.memory.blockwise_quantization || software.fp8.always) {
    return fmt::format(
        "frozen_weights: found {} with {}, which has no such weights; expected native, or software: "
        "deepspeed",
        found, c.machine.software);
  }
  const bool shards =
      c.parallel.data() > 1 && (software.communication.sharded || c.parallel.dp.zero_stage == 3);
  const bool four_bit_floats = c.finetune.frozen_weights == FrozenWeights::nf4 ||
                               c.finetune.frozen_weights == FrozenWeights::nf4_double;
  if (!shards || four_bit_floats) return std::nullopt;
  return fmt::format(
      "frozen_weights: found {} with sharded parameters, which only 4-bit floats of bitsandbytes can be; "
      "expected nf4, or software: deepspeed with zero_stage 2",
      found);
}

Refusal graphs(const C& c, const S& software, const H* /*hardware*/) {
  if (c.machine.cuda_graph_impl == CudaGraphImpl::none || software.host.graph_operator_s != 0)
    return std::nullopt;
  return fmt::format(
      "cuda_graph_impl: found {} with {}, which has no CUDA graphs; expected none, or software: "
      "megatron-core",
      cuda_graph_impl_name(c.machine.cuda_graph_impl), c.machine.software);
}

Refusal four_bit_software(const C& c, const S& software, const H* /*hardware*/) {
  if (c.numerics.fp4_format == Fp4Format::none || software.fp8.nvfp4_scaling) return std::nullopt;
  return fmt::format(
      "fp4_format: found e2m1 with {}, which has none; expected none, or software: megatron-core",
      c.machine.software);
}

Refusal four_bit_hardware(const C& c, const S& /*software*/, const H* h) {
  if (c.numerics.fp4_format == Fp4Format::none ||
      (h->accelerator() != nullptr && h->accelerator()->constants.device.peak_4bit > 0))
    return std::nullopt;
  return fmt::format(
      "fp4_format: found e2m1 on {}, which has no FP4 GEMMs; expected none, or hardware: "
      "b200-sxm-180gb",
      h->name);
}

Refusal block_scales(const C& c, const S& /*software*/, const H* h) {
  const bool blocks = c.numerics.fp8.on() && c.numerics.fp8.recipe == Fp8Recipe::mxfp8;
  if (!blocks || h->accelerator() == nullptr || h->accelerator()->constants.device.peak_mx8 > 0)
    return std::nullopt;
  return fmt::format(
      "fp8_recipe: found mxfp8 on {}, whose products have no block scales; expected delayed or tensorwise, "
      "or "
      "hardware: b200-sxm-180gb",
      h->accelerator()->name);
}

/// "h100-sxm-80gb, h200-…": accelerators with FP8 products.
std::string with_fp8() {
  std::vector<std::string> able;
  for (const std::string& name : hardware_preset_names()) {
    if (find_hardware_preset(name)->multiplies_fp8()) able.push_back(name);
  }
  return fmt::format("{}", fmt::join(able, ", "));
}

Refusal fp8_format(const C& c, const S& /*software*/, const H* h) {
  if (!c.numerics.fp8.on() || h->multiplies_fp8()) return std::nullopt;
  return fmt::format("fp8_format: found {} on {}, which has no FP8 products; expected none, or hardware: {}",
                     c.numerics.fp8.format == Fp8Format::e4m3 ? "e4m3" : "hybrid", h->accelerator()->name,
                     with_fp8());
}

Refusal fp8_software(const C& c, const S& software, const H* h) {
  if (!software.fp8.always || h->multiplies_fp8()) return std::nullopt;
  return fmt::format("software: found {} on {}, which has no FP8 products; expected another, or hardware: {}",
                     c.machine.software, h->accelerator()->name, with_fp8());
}

Refusal schedule_of_software(const C& c, const S& software, const H* /*hardware*/) {
  if (c.parallel.pipeline == 1) return std::nullopt;
  const ScheduleTraits* traits = find_with_passes(c.parallel.pp.schedule, c.parallel.pp.vocab_parallel);
  if (traits == nullptr || software.runs(traits->name)) return std::nullopt;
  return fmt::format("pipeline_schedule: found {} with {}, expected one of {}", traits->name,
                     c.machine.software, fmt::join(software.schedules, ", "));
}

/// A size above 1 that the software has no code for.
Refusal size_of_software(const C& c, const S& software, const H* /*hardware*/) {
  if (!software.communication.only_shards) return std::nullopt;
  const std::pair<const char*, int> sizes[] = {{"tensor_model_parallel_size", c.parallel.tensor},
                                               {"pipeline_model_parallel_size", c.parallel.pipeline},
                                               {"context_parallel_size", c.parallel.context},
                                               {"expert_model_parallel_size", c.parallel.expert}};
  for (const auto& [key, size] : sizes)
    if (size > 1)
      return fmt::format("{}: found {} with {}, whose only parallelism is FSDP; expected 1", key, size,
                         c.machine.software);
  return std::nullopt;
}

constexpr PredictionRow kRows[] = {
    {"software", "other than plumbline, with a mixture of experts", "a software that describes mixtures",
     false, true, listed_mixture},
    {"precision", "fp32", "software: plumbline", false, true, single_precision},
    {"optimizer", "other than adam", "plumbline, or muon with Megatron-Core", false, true,
     optimizer_of_software},
    {"recompute_modules", "other than core_attn", "Megatron-Core, or plumbline", false, true, modules},
    {"cpu_offloading_num_layers", "above 0", "Megatron-Core, or plumbline", false, true, offloaded_layers},
    {"offload_modules", "other than none", "Megatron-Core", false, true, offloaded_modules},
    {"optimizer_offload_fraction", "above 0, or offload_params", "Megatron-Core, DeepSpeed or FSDP", false,
     true, offloaded_states},
    {"cpu_offloading_num_layers", "above 0, as states", "an accelerator, or measured copies to the host",
     false, false, host_copies},
    {"vocab_parallel", "other than none, with backend cuda", "a card that its collectives leave half of",
     false, false, share_of_card},
    {"fp8_recipe", "any", "a software with this recipe", false, true, fp8_recipe},
    {"fp8_dot_product_attention", "true", "Megatron-Core", false, true, fp8_attention},
    {"moe_shared_expert_overlap", "true", "Megatron-Core", false, true, shared_overlap},
    {"defer_embedding_wgrad_compute", "true", "Megatron-Core", false, true, deferred_weights},
    {"overlap_param_gather_with_optimizer_step", "true", "Megatron-Core", false, true, gather_with_update},
    {"fsdp_double_buffer", "true", "Megatron-FSDP", false, true, double_buffer},
    {"moe_expert_rank_capacity_factor", "above 0", "Megatron-Core", false, true, rank_capacity},
    {"exp_avg_dtype", "other than fp32, as exp_avg_sq_dtype and store_param_remainders",
     "Megatron-Core, or bitsandbytes' int8", false, true, lean_states},
    {"frozen_weights", "other than native", "a software of PyTorch's linear layers", false, true,
     quantized_weights},
    {"cuda_graph_impl", "local, transformer_engine, full_iteration", "a software that captures graphs", false,
     true, graphs},
    {"fp4_format", "e2m1", "a software with NVFP4", false, true, four_bit_software},
    {"fp4_format", "e2m1", "hardware with products of 4 bits", false, false, four_bit_hardware},
    {"fp8_recipe", "mxfp8", "hardware with block scales", false, false, block_scales},
    {"fp8_format", "e4m3, hybrid", "hardware with FP8 products", false, false, fp8_format},
    {"software", "one in FP8", "hardware with FP8 products", false, true, fp8_software},
    {"tensor_model_parallel_size", "above 1, as pipeline, context and expert size", "a software that has it",
     true, true, size_of_software},
    {"pipeline_schedule", "any", "a software that has the schedule", true, true, schedule_of_software},
};

/// Refusals of the rows in order, `most` at most. `hardware`: null for those of searches.
std::vector<std::string> refusals(const C& config, const H* hardware, std::size_t most) {
  const S& software = software_of(config);
  std::vector<std::string> found;
  for (const PredictionRow& row : prediction_rows()) {
    if (found.size() == most) break;
    if (row.searches != (hardware == nullptr) || (row.frameworks && software.own_step)) continue;
    if (auto refusal = row.refusal(config, software, hardware)) found.push_back(std::move(*refusal));
  }
  return found;
}

Refusal first_refusal(const C& config, const H* hardware) {
  std::vector<std::string> found = refusals(config, hardware, 1);
  if (found.empty()) return std::nullopt;
  return std::move(found.front());
}

}  // namespace

std::span<const PredictionRow> prediction_rows() {
  static const std::vector<PredictionRow> kAll = [] {
    std::vector<PredictionRow> rows(std::begin(kRows), std::end(kRows));
    rows.insert(rows.end(), software_rows().begin(), software_rows().end());
    return rows;
  }();
  return kAll;
}

std::optional<std::string> why_unpredictable(const RunConfig& config, const HardwareProfile& hardware) {
  return first_refusal(config, &hardware);
}

std::optional<std::string> why_unsearched(const RunConfig& config) {
  return first_refusal(config, nullptr);
}

std::vector<std::string> predicted_as_if(const RunConfig& config, const HardwareProfile& hardware) {
  std::vector<std::string> lines;
  for (const std::string& lacked : refusals(config, nullptr, prediction_rows().size()))
    lines.push_back(fmt::format("{}; predicted as if {} had it", lacked, config.machine.software));
  // Volta is the only architecture of the list without products in bf16.
  const bool lacks_bf16 =
      hardware.accelerator() != nullptr && hardware.accelerator()->name.starts_with("v100");
  if (lacks_bf16 && config.numerics.precision == DType::bf16) {
    lines.push_back(
        fmt::format("precision: found bf16 on {}, which has no bf16 products, expected fp16; predicted as if "
                    "it had them, at the rates of fp16",
                    hardware.accelerator()->name));
  }
  return lines;
}

std::optional<std::string> why_not_advised(const RunConfig& given, const RunConfig& changed) {
  const Software& software = software_of(changed);
  if (software.own_step) return std::nullopt;
  for (const PredictionRow& row : prediction_rows()) {
    if (!row.searches) continue;
    auto refusal = row.refusal(changed, software, nullptr);
    if (refusal && !row.refusal(given, software, nullptr)) return refusal;
  }
  return std::nullopt;
}

}  // namespace plumbline
