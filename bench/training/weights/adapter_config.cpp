// Keys and their meaning: PEFT 0.21.2, peft/tuners/lora/config.py (LoraConfig), peft/tuners/lora/layer.py
// (update_layer) and peft/tuners/tuners_utils.py (check_target_module_exists).
#include "bench/training/weights/adapter_config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>

#include "core/base/error.hpp"
#include "core/base/json_keys.hpp"
#include "core/base/one_line.hpp"
#include "core/base/text_input.hpp"
#include "core/config/families/tensor_names.hpp"

namespace plumbline::training {
namespace {

constexpr std::size_t kMostAdapterConfigBytes = std::size_t{1} << 20;
constexpr std::size_t kMostTargets = 10'000;  // all-linear is stored as every module of every layer
constexpr double kScaleTolerance = 1e-6;      // relative; of a root that the user typed
constexpr const char* kMergeAdvice = "merge the adapters with PEFT's merge_and_unload and give weights";

/// A linear layer of the checkpoint's decoder layers, and the first of lora_targets that adapts it.
struct LinearModule {
  std::string path;  // "self_attn.q_proj"
  LoraTargets from = LoraTargets::qkv;
};

std::vector<LinearModule> linear_modules(const ModelConfig& model) {
  const TensorNames& names = tensor_names(model);
  std::vector<LinearModule> modules;
  const auto add = [&](std::string_view path, LoraTargets from) {
    if (!path.empty()) modules.push_back({std::string(path), from});
  };
  add(names.attention.query, LoraTargets::qkv);
  if (names.attention.fused == FusedQkv::none) {
    add(names.attention.key, LoraTargets::qkv);
    add(names.attention.value, LoraTargets::qkv);
  }
  add(names.attention.projection, LoraTargets::attention);
  add(names.mlp.fc1, LoraTargets::all);
  if (is_gated(model.activation)) add(names.mlp.up, LoraTargets::all);
  add(names.mlp.fc2, LoraTargets::all);
  return modules;
}

std::string last_part(const std::string& path) {
  return path.substr(path.rfind('.') + 1);
}

/// PEFT's rule for a list: an entry is a module's path, or its end from a dot on. Returns the entry.
std::optional<std::string> entry_of(const std::string& path, const std::set<std::string>& entries) {
  for (std::size_t from = 0;; ++from) {
    if (entries.contains(path.substr(from))) return path.substr(from);
    from = path.find('.', from);
    if (from == std::string::npos) return std::nullopt;
  }
}

/// Values that switch a feature off.
bool is_off(const Json& value) {
  return value.is_null() || value == false || value == 0 || value == "" ||
         (value.is_structured() && value.empty());
}

/// Keys that only describe the file, that another key switches on, or that choose values which training
/// starts from.
constexpr std::array<std::string_view, 10> kIdleKeys = {"auto_mapping",   "base_model_name_or_path",
                                                        "eva_config",     "fan_in_fan_out",
                                                        "inference_mode", "revision",
                                                        "peft_version",   "qalora_group_size",
                                                        "megatron_core",  "layers_pattern"};
/// Keys that are read.
constexpr std::array<std::string_view, 9> kReadKeys = {"peft_type",      "task_type",         "r",
                                                       "lora_alpha",     "use_rslora",        "bias",
                                                       "target_modules", "init_lora_weights", "lora_dropout"};

template <std::size_t n>
bool contains(const std::array<std::string_view, n>& keys, std::string_view key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

class AdapterConfig {
 public:
  AdapterConfig(const RunConfig& config, const std::string& path)
      : config_(config),
        path_(path),
        json_(parse_json_object(read_text_file(path, kMostAdapterConfigBytes), printable(path, 400))),
        keys_(json_, printable(path, 400)) {}

  std::vector<std::string> check() const {
    must_be("peft_type", {"LORA"}, "");
    must_be("task_type", {"CAUSAL_LM"}, "CAUSAL_LM");
    must_be("bias", {"none"}, "none");
    check_initial_values();
    for (const auto& [key, value] : json_.items()) {
      if (contains(kIdleKeys, key) || contains(kReadKeys, key) || is_off(value)) continue;
      keys_.refuse(printable(key),
                   fmt::format("null or false: the run has no such feature; {}", kMergeAdvice));
    }
    check_scale();
    check_targets();
    return remarks();
  }

 private:
  void must_be(const char* key, const std::vector<std::string>& supported,
               const std::string& otherwise) const {
    const std::string found = keys_.string_or(key, otherwise);
    if (std::find(supported.begin(), supported.end(), found) != supported.end()) return;
    keys_.refuse(key, fmt::format("{}; {}", fmt::join(supported, ", "), kMergeAdvice));
  }

  /// PEFT makes initial values before it reads the trained ones. Those of the other kinds (PiSSA, OLoRA,
  /// CorDA, LoftQ and so on) change the frozen weight as well.
  void check_initial_values() const {
    const Json* value = keys_.find("init_lora_weights");
    if (value == nullptr || value->is_boolean()) return;
    for (const char* harmless : {"gaussian", "eva", "orthogonal"})
      if (*value == harmless) return;
    keys_.refuse(
        "init_lora_weights",
        "true, false, gaussian, eva or orthogonal, which keep the frozen weights; save it with PEFT's "
        "path_initial_model_for_weight_conversion");
  }

  [[noreturn]] void contradicts(const char* key, const std::string& found, const std::string& expected,
                                const char* of) const {
    throw InputError(fmt::format("{}: found {}, expected {} as {} in {}; set {} {}", key, found, expected, of,
                                 printable(path_, 400), key, expected));
  }

  void check_scale() const {
    const FinetuneConfig& finetune = config_.finetune;
    constexpr std::int64_t kDefault = 8;
    const std::int64_t rank = keys_.integer_or("r", std::int64_t{1} << 20, kDefault);
    if (rank != finetune.lora_rank)
      contradicts("lora_rank", fmt::format("{}", finetune.lora_rank), fmt::format("{}", rank), "r");
    const double alpha = keys_.number_or("lora_alpha", 0, 1e6, kDefault);
    const bool by_root = keys_.boolean_or("use_rslora", false);
    const double wanted = by_root ? alpha * std::sqrt(static_cast<double>(rank)) : alpha;
    if (std::abs(finetune.lora_alpha - wanted) <= kScaleTolerance * wanted) return;
    contradicts("lora_alpha", fmt::format("{}", finetune.lora_alpha), fmt::format("{}", wanted),
                by_root ? "lora_alpha times the root of r (use_rslora)" : "lora_alpha");
  }

  void check_targets() const {
    const std::vector<LinearModule> modules = linear_modules(config_.model);
    const Json* value = keys_.find("target_modules");
    const bool all = value != nullptr && *value == "all-linear";
    if (value == nullptr || (value->is_string() && !all)) {
      keys_.refuse("target_modules",
                   "a list of modules, or all-linear; write the modules that the pattern matches as a list");
    }
    std::set<std::string> entries;
    if (!all) {
      const std::vector<std::string> listed = keys_.strings("target_modules", kMostTargets);
      entries.insert(listed.begin(), listed.end());
    }
    check_ends(entries);
    std::optional<LoraTargets> found;
    for (const LoraTargets each : {LoraTargets::qkv, LoraTargets::attention, LoraTargets::all})
      if (all ? each == LoraTargets::all : adapts(entries, modules, each)) found = each;
    if (!found) refuse_targets(modules);
    if (*found != config_.finetune.lora_targets)
      contradicts("lora_targets", name_of(config_.finetune.lora_targets), name_of(*found), "target_modules");
  }

  /// Embeddings and output layers are modules of PEFT, too.
  void check_ends(const std::set<std::string>& entries) const {
    const TensorNames& names = tensor_names(config_.model);
    for (const std::string_view end :
         {names.embedding, names.positions, names.block_positions, names.output}) {
      const std::optional<std::string> entry = entry_of(std::string(end), entries);
      if (end.empty() || !entry) continue;
      keys_.fail("target_modules", fmt::format("found {}, expected linear layers of decoder layers; {}",
                                               printable(*entry), kMergeAdvice));
    }
  }

  /// True if `entries` name exactly what `wanted` adapts, in every layer.
  bool adapts(const std::set<std::string>& entries, const std::vector<LinearModule>& modules,
              LoraTargets wanted) const {
    const std::string_view layers = tensor_names(config_.model).layers;
    for (std::int64_t layer = 0; layer < config_.model.layers; ++layer) {
      for (const LinearModule& module : modules) {
        const std::string path = fmt::format("{}.{}.{}", layers, layer, module.path);
        if (entry_of(path, entries).has_value() != (module.from <= wanted)) return false;
      }
    }
    return true;
  }

  [[noreturn]] void refuse_targets(const std::vector<LinearModule>& modules) const {
    const auto list = [&](LoraTargets wanted) {
      std::vector<std::string> names;
      for (const LinearModule& module : modules)
        if (module.from <= wanted) names.push_back(module.path);
      return fmt::format("{}", fmt::join(names, ", "));
    };
    keys_.refuse("target_modules",
                 fmt::format("in every layer {}; or {}; or {}; {}", list(LoraTargets::qkv),
                             list(LoraTargets::attention), list(LoraTargets::all), kMergeAdvice));
  }

  std::vector<std::string> remarks() const {
    const double dropout = keys_.number_or("lora_dropout", 0, 1, 0);
    if (dropout == 0) return {};
    return {fmt::format("{}: lora_dropout: found {}, without effect: adapters train without dropout",
                        printable(path_, 400), dropout)};
  }

  static const char* name_of(LoraTargets targets) {
    return targets == LoraTargets::qkv ? "qkv" : targets == LoraTargets::attention ? "attention" : "all";
  }

  const RunConfig& config_;
  const std::string path_;
  const Json json_;
  const JsonKeys keys_;
};

}  // namespace

std::string adapter_config(const RunConfig& config) {
  std::set<std::string> modules;
  const std::vector<LinearModule> all = linear_modules(config.model);
  for (const LinearModule& module : all) {
    if (module.from > config.finetune.lora_targets) continue;
    // PEFT compares the ends of paths: attention and MLP of GPT-2 both have a c_proj.
    const std::string last = last_part(module.path);
    const auto ends_so = [&](const LinearModule& other) { return last_part(other.path) == last; };
    modules.insert(std::count_if(all.begin(), all.end(), ends_so) > 1 ? module.path : last);
  }
  const Json json = {{"peft_type", "LORA"},
                     {"task_type", "CAUSAL_LM"},
                     {"base_model_name_or_path", config.files.weights},
                     {"r", config.finetune.lora_rank},
                     {"lora_alpha", config.finetune.lora_alpha},
                     {"lora_dropout", 0.0},
                     {"bias", "none"},
                     {"fan_in_fan_out", tensor_names(config.model).transposed},
                     {"target_modules", modules}};
  return json.dump(2) + "\n";
}

std::vector<std::string> check_adapter_config(const RunConfig& config) {
  const std::filesystem::path folder(config.files.lora_weights);
  const std::filesystem::path path = folder / "adapter_config.json";
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    throw InputError(
        fmt::format("lora_weights: found {} without adapter_config.json, expected a folder that PEFT saved; "
                    "add the file, "
                    "which says r, lora_alpha and target_modules",
                    printable(folder.string(), 400)));
  }
  return AdapterConfig(config, path.string()).check();
}

}  // namespace plumbline::training
