#include "core/config_text/special_keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/base/error.hpp"
#include "core/base/text_input.hpp"
#include "core/config_text/config_key_kinds.hpp"

namespace plumbline {
namespace {

constexpr KeyNames<4> kOptimizers = {"adam", "sgd", "lion", "muon"};
constexpr KeyNames<5> kMomentDTypes = {"fp32", "bf16", "fp16", "fp8", "int8"};
constexpr KeyNames<3> kMuonScales = {"spectral", "unit_rms_norm", "shape_scaling"};
constexpr KeyNames<2> kMuonCoefficients = {"simple", "quintic"};
constexpr KeyNames<2> kMuonTensorModes = {"blockwise", "duplicated"};
constexpr KeyNames<3> kPrecisions = {"fp32", "bf16", "fp16"};

/// A smaller budget without a unit is probably meant in GiB.
constexpr std::int64_t kLeastBareBudget = 1 << 20;

/// Other than 0, which means no bound.
bool is_bare_number(const std::string& text) {
  return text.find_first_not_of("0123456789.eE+") == std::string::npos &&
         text.find_first_of("123456789") != std::string::npos;
}

/// adamw, PyTorch's name, is adam here.
ConfigKey optimizer_key() {
  ConfigKey key = choice_key("optimizer", at(&RunConfig::optimizer, &OptimizerConfig::kind), kOptimizers);
  key.parse = [parse = key.parse](ConfigDraft& draft, const ConfigText& value) {
    ConfigText named = value;
    if (named.text == "adamw") named.text = "adam";
    parse(draft, named);
  };
  return key;
}

}  // namespace

std::vector<ConfigKey> optimizer_keys() {
  using Run = RunConfig;
  using O = OptimizerConfig;
  const auto of = [](auto member) { return at(&Run::optimizer, member); };
  const auto muon = [](auto member) { return at(&Run::optimizer, &O::muon, member); };
  return {
      optimizer_key(),
      number_key("learning_rate", of(&O::learning_rate), 0, 1e6),
      number_key("weight_decay", of(&O::weight_decay), 0, 1e6),
      number_key("clip_grad", of(&O::clip_grad), 0, 1e30),
      number_key("sgd_momentum", of(&O::sgd_momentum), 0, 1),
      number_key("muon_momentum", muon(&MuonConfig::momentum), 0, 1),
      boolean_key("muon_nesterov", muon(&MuonConfig::nesterov)),
      choice_key("muon_scale_mode", muon(&MuonConfig::scale_mode), kMuonScales),
      number_key("muon_extra_scale_factor", muon(&MuonConfig::extra_scale_factor), 0, 1e6),
      integer_key("muon_num_ns_steps", "", muon(&MuonConfig::num_ns_steps), 1, 100),
      choice_key("muon_coefficient_type", muon(&MuonConfig::coefficient_type), kMuonCoefficients),
      choice_key("muon_tp_mode", muon(&MuonConfig::tp_mode), kMuonTensorModes),
      boolean_key("muon_split_qkv", muon(&MuonConfig::split_qkv)),
      choice_key("exp_avg_dtype", of(&O::exp_avg_dtype), kMomentDTypes),
      choice_key("exp_avg_sq_dtype", of(&O::exp_avg_sq_dtype), kMomentDTypes),
      boolean_key("store_param_remainders", of(&O::store_param_remainders)),
  };
}

/// fp8 stands for the usual meaning: 16-bit storage, and linear layers in the usual 8-bit formats unless
/// fp8_format has named others before.
ConfigKey precision_key() {
  ConfigKey key = choice_key("precision", at(&RunConfig::numerics, &NumericsConfig::precision), kPrecisions);
  key.expected += ", or fp8: bf16 with fp8_format hybrid";
  key.parse = [expected = key.expected](ConfigDraft& draft, const ConfigText& value) {
    RunConfig& config = draft.config;
    const auto found = std::find(kPrecisions.begin(), kPrecisions.end(), value.text);
    if (found != kPrecisions.end()) {
      config.numerics.precision = static_cast<DType>(found - kPrecisions.begin());
    } else if (value.text == "fp8") {
      config.numerics.precision = DType::bf16;
      if (config.numerics.fp8.format == Fp8Format::none) config.numerics.fp8.format = Fp8Format::hybrid;
    } else {
      refuse_value(value, "precision", expected);
    }
  };
  return key;
}

ConfigKey memory_budget_key() {
  return {"memory_budget", "", "bytes such as 2GiB, or 0 for no bound",
          [](ConfigDraft& draft, const ConfigText& value) {
            try {
              draft.config.machine.memory_budget = parse_bytes(value.text, "memory_budget");
            } catch (const InputError& complaint) {
              throw InputError(fmt::format("{}: {}", value.origin, complaint.what()));
            }
            if (draft.config.machine.memory_budget.value < kLeastBareBudget && is_bare_number(value.text)) {
              refuse_value(
                  value, "memory_budget",
                  fmt::format("a unit: write {}GiB, or {}B for so few bytes", value.text, value.text));
            }
          },
          [](const RunConfig& config) {
            const std::int64_t bytes = config.machine.memory_budget.value;
            return fmt::format("{}{}", bytes, bytes > 0 && bytes < kLeastBareBudget ? "B" : "");
          }};
}

/// Two sizes, as Megatron-LM's list of them.
ConfigKey hierarchical_key() {
  const char* const name = "hierarchical_context_parallel_sizes";
  const char* const expected =
      "none, or two whole numbers such as 2,4: ranks that exchange heads, and groups of them round a ring";
  return {name, "", expected,
          [=](ConfigDraft& draft, const ConfigText& value) {
            HierarchicalContext& sizes = draft.config.parallel.cp.hierarchical;
            sizes = {};
            if (value.text == "none") return;
            const char* const stop = value.text.data() + value.text.size();
            const auto heads = std::from_chars(value.text.data(), stop, sizes.heads);
            const bool comma = heads.ec == std::errc() && heads.ptr != stop && *heads.ptr == ',';
            if (!comma) refuse_value(value, name, expected);
            const auto ring = std::from_chars(heads.ptr + 1, stop, sizes.ring);
            const auto allowed = [](int size) { return size >= 1 && size <= kMostRanks; };
            if (ring.ec != std::errc() || ring.ptr != stop || !allowed(sizes.heads) || !allowed(sizes.ring))
              refuse_value(value, name, expected);
          },
          [](const RunConfig& config) -> std::string {
            const HierarchicalContext& sizes = config.parallel.cp.hierarchical;
            return sizes.given() ? fmt::format("{},{}", sizes.heads, sizes.ring) : "none";
          }};
}

ConfigKey capacity_key(const char* name, double MixtureConfig::*factor_of) {
  const char* const expected = "none, or a number above 0 up to 1e6";
  return {name, "", expected,
          [=](ConfigDraft& draft, const ConfigText& value) {
            const auto number = value.text == "none" ? 0 : whole_number<double>(value.text);
            if (!number || (value.text != "none" && !(*number > 0 && *number <= 1e6)))
              refuse_value(value, name, expected);
            draft.config.mixture.*factor_of = *number;
          },
          [=](const RunConfig& config) {
            const double factor = config.mixture.*factor_of;
            return factor == 0 ? "none" : fmt::format("{}", factor);
          }};
}

ConfigKey seed_key() {
  const char* const expected = "a whole number from 0 to 18446744073709551615";
  return {"seed", "", expected,
          [=](ConfigDraft& draft, const ConfigText& value) {
            std::uint64_t number{};
            const char* const stop = value.text.data() + value.text.size();
            const auto [end, error] = std::from_chars(value.text.data(), stop, number);
            if (error != std::errc() || end != stop) refuse_value(value, "seed", expected);
            draft.config.measure.seed = number;
          },
          [](const RunConfig& config) { return fmt::format("{}", config.measure.seed); }};
}

}  // namespace plumbline
