#include "core/launch_files/megatron/megatron_yaml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/one_line.hpp"
#include "core/launch_files/arguments/argument_table.hpp"
#include "core/launch_files/arguments/keyed_files.hpp"
#include "core/launch_files/arguments/launch_arguments.hpp"
#include "core/launch_files/arguments/yaml_keys.hpp"
#include "core/launch_files/megatron/bridge_adapters.hpp"
#include "core/launch_files/megatron/megatron_names.hpp"
#include "core/launch_files/megatron/megatron_settings.hpp"

namespace plumbline {
namespace {

/// Sections whose keys are Megatron-LM's.
constexpr std::string_view kMegatronSections[] = {"ARGS",
                                                  "MODEL_ARGS",
                                                  "language_model",
                                                  "model_parallel",
                                                  "model",
                                                  "train",
                                                  "ddp",
                                                  "dist",
                                                  "optimizer",
                                                  "dataset",
                                                  "tokenizer",
                                                  "rng",
                                                  "comm_overlap",
                                                  "validation",
                                                  "mixed_precision",
                                                  "rerun_state_machine",
                                                  "scheduler",
                                                  "logger",
                                                  "checkpoint"};

struct IdleSection {
  std::string_view name;
  const char* reason;
};
constexpr IdleSection kIdleSections[] = {
    {"DEPENDENCIES", "how the container is built"},
    {"LAUNCHER", "how processes start"},
    {"METRICS", "it compares results"},
    {"TEST_TYPE", "it compares results"},
    {"BEFORE_SCRIPT", "it prepares a run"},
    {"AFTER_SCRIPT", "it compares results"},
    {"ENV_VARS", "variables of the processes"},
    {"env_vars", "variables of the processes"},
    {"checkpoint", "it logs, saves or watches"},
    {"ft", "it logs, saves or watches"},
    {"inprocess_restart", "it logs, saves or watches"},
    {"logger", "it logs, saves or watches"},
    {"nvrx_straggler", "it logs, saves or watches"},
    {"perf_matrix", "a table of runs for another program"},
    {"profiling", "it logs, saves or watches"},
    {"rerun_state_machine", "it logs, saves or watches"},
    {"rng", "it changes values, not memory or time"},
    {"scheduler", "it changes values, not memory or time"},
    {"straggler", "it logs, saves or watches"},
    {"tensor_inspect", "it logs, saves or watches"},
    {"validation", "validation is not part of a step"},
    {"dataset", "predictions leave input out"},
    {"tokenizer", "predictions leave input out"},
};
/// Sections of Megatron-Bridge whose keys are those of others as well. The later ones count: a model's
/// vocabulary over that of its tokenizer, and precision and overlap over all (MixedPrecisionConfig.setup,
/// CommOverlapConfig.setup).
constexpr std::string_view kSectionOrder[] = {
    "dataset", "tokenizer", "optimizer", "ddp", "dist", "train", "model", "mixed_precision", "comm_overlap"};
/// Switches that are on when one of ddp and optimizer has them on.
constexpr std::string_view kSharedSwitches[] = {"--use-distributed-optimizer", "--overlap-param-gather"};

/// Megatron-Bridge's key, and the configuration's: on where an optimizer has them.
constexpr const char* kRemainders = "store_param_remainders";

/// Keys of such sections that say something.
constexpr std::string_view kTellingKeys[] = {"seq_length",        "sequence_length", "vocab_size",
                                             "tokenizer_type",    "tokenizer_model", "num_images",
                                             "hf_processor_path", "image_size"};
/// Sections of a model with a vision tower, whose config.json says the same.
constexpr std::string_view kTowerSections[] = {"vision_config", "hf_text_config", "dist_train"};

/// A recipe of Megatron-Bridge's precision by its name.
struct PrecisionRecipe {
  std::string_view words;
  const char* format;  // nullptr: none
  const char* recipe;
  bool gather;
};
constexpr PrecisionRecipe kPrecisionRecipes[] = {
    {"fp8_delayed_scaling", "hybrid", "delayed", true},
    {"mxfp8", "e4m3", "mxfp8", true},
    {"fp8_current_scaling", "hybrid", "tensorwise", true},
    {"fp8_subchannel_scaling", "hybrid", "blockwise", false},
};

class MegatronKeys {
 public:
  explicit MegatronKeys(LaunchFile& file) : file_(file) {}

  void add(LaunchArgument key) {
    if (file_.beside.ignores(key.name)) {
      file_.without_effect.push_back({shown(key), key.place, kIgnored});
      return;
    }
    std::vector<std::string> path = parts(key.name);
    if (path.front() == "ConfigContainer" && path.size() > 1) path.erase(path.begin());
    const std::string leaf = path.back();
    const std::string section = path.size() > 1 ? path.front() : "";
    const auto* const idle = std::find_if(
        std::begin(kIdleSections), std::end(kIdleSections),
        [&](const IdleSection& each) { return each.name == (section.empty() ? leaf : section); });
    const bool telling =
        std::find(std::begin(kTellingKeys), std::end(kTellingKeys), leaf) != std::end(kTellingKeys);
    const bool checkpoint = section == "checkpoint" && leaf == "pretrained_checkpoint" && is_given(key);
    finetunes_ = finetunes_ || checkpoint || (section == "peft" && is_given(key));
    if (idle != std::end(kIdleSections) && !(telling && path.size() == 2)) {
      file_.without_effect.push_back({shown(key), key.place, idle->reason});
      return;
    }
    if (section == "peft" && path.size() == 2) return adapters_.add(leaf, key, file_);
    if (path.size() == 3 && path[1] == "activation_func" && leaf == "_target_") {
      section_ = section;
      return add_name(path[1], std::move(key));
    }
    if (path.size() == 3 && leaf == "_target_" && is_type(path[1], key)) {
      section_ = section;
      return add_name(path[1], std::move(key));
    }
    if (path.size() >= 3 && std::find(std::begin(kTowerSections), std::end(kTowerSections), path[1]) !=
                                std::end(kTowerSections)) {
      file_.without_effect.push_back({shown(key), key.place, "the model's vision_config tells it"});
      return;
    }
    const bool of_layers = path.size() == 3 && path[1] == "transformer_layer_spec";
    if (leaf == "_target_" || leaf == "_name_" || leaf == "_partial_" || leaf == "_call_" ||
        leaf == "_args_" || of_layers) {
      file_.without_effect.push_back({shown(key), key.place, "the class of its section"});
      return;
    }
    const bool known =
        section.empty() || std::find(std::begin(kMegatronSections), std::end(kMegatronSections), section) !=
                               std::end(kMegatronSections);
    if (!known || path.size() > 2) return refuse(key, "not modelled: a section that is not known");
    const bool recipe = section.empty() && leaf == "mixed_precision";
    section_ = recipe ? leaf : section;
    if (recipe) return add_precision(key);
    add_name(leaf, std::move(key));
  }
  const std::vector<LaunchSetting>& adapters() const { return adapters_.settings(); }
  bool finetunes() const { return finetunes_; }
  /// A line about two lengths of a sequence, of which one counts; empty: there is one.
  const std::string& lengths() const { return lengths_; }
  /// Keys that only Megatron-Bridge has.
  const std::vector<LaunchArgument>& own_keys() const { return own_keys_; }

  /// Arguments in the order in which they count, the last of a name most.
  std::vector<LaunchArgument> take() {
    std::stable_sort(arguments_.begin(), arguments_.end(),
                     [](const Placed& a, const Placed& b) { return a.order < b.order; });
    std::vector<LaunchArgument> arguments;
    const LaunchArgument* sequence = nullptr;
    for (const Placed& each : arguments_) {
      if (each.argument.name != "--seq-length") continue;
      if (sequence != nullptr && sequence->values != each.argument.values) refuse_lengths(*sequence, each);
      sequence = &each.argument;
    }
    for (Placed& each : arguments_)
      if (!is_idle_offload(each.argument)) arguments.push_back(std::move(each.argument));
    return arguments;
  }

 private:
  struct Placed {
    LaunchArgument argument;
    std::size_t order = 0;
  };
  bool bridge() const { return file_.framework == "Megatron-Bridge"; }

  /// A dtype that a dump of Megatron-Bridge writes as {_target_: torch.bfloat16}, which becomes "bf16".
  static bool is_type(const std::string& name, LaunchArgument& key) {
    constexpr std::pair<std::string_view, const char*> kTypes[] = {
        {"torch.float32", "fp32"}, {"torch.bfloat16", "bf16"}, {"torch.float16", "fp16"}};
    if (key.values.size() != 1 || !is_megatron_name(name)) return false;
    for (const auto& [torch, type] : kTypes) {
      if (key.values.front() != torch) continue;
      key.values = {type};
      return true;
    }
    return false;
  }
  /// Megatron-Bridge wants equal lengths of model and data; NVIDIA's scripts for its performance recipes give
  /// the data the model's (scripts/performance/utils/overrides.py).
  void refuse_lengths(const LaunchArgument& earlier, const Placed& later) {
    const auto* const model = std::find(std::begin(kSectionOrder), std::end(kSectionOrder), "model");
    const bool of_model = later.order == 2 * static_cast<std::size_t>(model - std::begin(kSectionOrder)) + 1;
    if (bridge() && of_model) {
      lengths_ = fmt::format("{}: seq_length: found {}, taken is the model's, {}", earlier.place,
                             earlier.values.front(), later.argument.values.front());
    } else {
      file_.refused.push_back({"seq_length", earlier.place, "found another one in " + later.argument.place});
    }
  }
  /// Megatron-Bridge offloads where cpu_offloading says so, which is off by default; Megatron-LM where there
  /// are layers to be offloaded (megatron/core/model_parallel_config.py, megatron/training/arguments.py).
  bool is_idle_offload(const LaunchArgument& argument) {
    if (!bridge() || argument.name != "--cpu-offloading-num-layers") return false;
    const auto found = std::find_if(own_keys_.begin(), own_keys_.end(), [](const LaunchArgument& each) {
      return each.name == "cpu_offloading" && each.values.size() == 1 &&
             (each.values.front() == "true" || each.values.front() == "True");
    });
    if (found != own_keys_.end()) return false;
    file_.without_effect.push_back({argument.name, argument.place, "cpu_offloading is off"});
    return true;
  }
  void place(LaunchArgument argument) {
    const auto* const section = std::find(std::begin(kSectionOrder), std::end(kSectionOrder), section_);
    std::size_t order = 0;
    if (section != std::end(kSectionOrder)) {
      order = 2 * static_cast<std::size_t>(section - std::begin(kSectionOrder)) + 1;
      const bool shared = std::find(std::begin(kSharedSwitches), std::end(kSharedSwitches), argument.name) !=
                          std::end(kSharedSwitches);
      if (shared && argument.values.empty() && (section_ == "ddp" || section_ == "optimizer")) order = 8;
    }
    arguments_.push_back({std::move(argument), order});
  }
  static std::vector<std::string> parts(const std::string& name) {
    std::vector<std::string> path{""};
    for (const char c : name) {
      if (c == '.') {
        path.emplace_back();
      } else {
        path.back() += c;
      }
    }
    return path;
  }
  static std::string shown(const LaunchArgument& key) { return printable(key.name, 100); }
  void refuse(const LaunchArgument& key, const std::string& reason) {
    file_.refused.push_back({shown(key), key.place, reason});
  }
  void flag(const std::string& name, std::vector<std::string> values, const std::string& place) {
    this->place({name, std::move(values), place, true});
  }

  void add_precision(const LaunchArgument& key) {
    std::string recipe = key.values.size() == 1 ? key.values.front() : "";
    std::replace(recipe.begin(), recipe.end(), '-', '_');
    if (recipe == "None") return;
    const bool bf16 = recipe.starts_with("bf16_");
    if ((!bf16 && !recipe.starts_with("fp16_")) || !recipe.ends_with("_mixed"))
      return refuse(key, "found a recipe that is not known, expected one such as bf16_mixed");
    flag(bf16 ? "--bf16" : "--fp16", {}, key.place);
    flag("--fp8-format", {"None"}, key.place);  // over the model's
    if (recipe == "bf16_mixed" || recipe == "fp16_mixed") return;
    if (recipe.find("nvfp4") != std::string::npos) return flag("--fp4-format", {"e2m1"}, key.place);
    for (const PrecisionRecipe& each : kPrecisionRecipes) {
      if (recipe.find(each.words) == std::string::npos) continue;
      flag("--fp8-format", {each.format}, key.place);
      flag("--fp8-recipe", {each.recipe}, key.place);
      if (std::string_view(each.recipe) == "delayed") flag("--fp8-amax-history-len", {"1024"}, key.place);
      if (each.gather) flag("--fp8-param-gather", {}, key.place);
      return;
    }
    refuse(key, "found a recipe that is not known, expected one such as bf16_mixed");
  }

  void add_name(const std::string& leaf, LaunchArgument key) {
    const std::string value = key.values.empty() ? "" : key.values.front();
    if (leaf == "fp32") {
      if (value == "true" || value == "True")
        return refuse(key, "not modelled: precision of a recipe in fp32");
      file_.without_effect.push_back({shown(key), key.place, "it is at a value that changes nothing"});
      return;
    }
    if (section_ == "mixed_precision" && (leaf == "fp8" || leaf == "fp4") &&
        (value == "None" || value == "null"))
      return flag("--" + leaf + "-format", {"None"}, key.place);  // over the model's
    if (leaf == "moe_flex_dispatcher_backend" && !is_given(key))
      return flag("--moe-flex-dispatcher-backend", {"None"}, key.place);  // over the default
    if (leaf == "gated_linear_unit" || leaf == "activation_func") {
      const bool gated = value == "true" || value == "True" || value == "swiglu";
      const bool squared = value.find("squared_relu") != std::string::npos;
      if (gated || squared) flag(gated ? "--swiglu" : "--squared-relu", {}, key.place);
      return;
    }
    if (section_ == "mixed_precision" && leaf == "dtype" && is_given(key)) {
      if (value.ends_with("bf16") || value.ends_with("bfloat16")) return flag("--bf16", {}, key.place);
      if (value.ends_with("fp16") || value.ends_with("float16")) return flag("--fp16", {}, key.place);
      return refuse(key, "not modelled: expected bf16 or fp16");
    }
    const std::string flag_name = leaf == "sequence_length" ? "seq_length" : leaf;
    if (!is_megatron_name(flag_name)) {
      if (argument_table("bridge_keys.txt").find(leaf) != nullptr) {
        key.name = leaf;
        own_keys_.push_back(std::move(key));
        return;
      }
      if (value == "None" || value == "null" || value == "[]") {
        file_.without_effect.push_back({shown(key), key.place, "it is not given a value"});
        return;
      }
      return refuse(key,
                    ArgumentTable::unknown(file_.framework, nearest_megatron_name(printable(leaf, 100))));
    }
    auto argument = megatron_argument(flag_name, key.values, key.place);
    if (!argument) argument = megatron_switch_off(flag_name, value, key.place);
    if (!argument) return;
    argument->known = key.known && value.find("${") == std::string::npos;
    argument->unknown_reason = key.unknown_reason;
    place(std::move(*argument));
  }

  LaunchFile& file_;
  std::vector<Placed> arguments_;
  BridgeAdapters adapters_;
  std::vector<LaunchArgument> own_keys_;
  bool finetunes_ = false;
  std::string lengths_;
  std::string section_;
};

bool is_bridge(std::string_view text) {
  if (has_yaml_key(text, "ConfigContainer")) return true;
  return has_yaml_key(text, "model") &&
         (has_yaml_key(text, "train") || has_yaml_key(text, "ddp") || has_yaml_key(text, "mixed_precision") ||
          has_yaml_key(text, "comm_overlap"));
}

/// `partial`: the model is named elsewhere.
LaunchFile read_keys(std::vector<LaunchArgument> all, bool bridge, bool partial, const BesideFile& beside) {
  LaunchFile file;
  file.framework = bridge ? "Megatron-Bridge" : "Megatron-LM";
  file.beside = beside;
  MegatronKeys keys(file);
  for (LaunchArgument& each : all) {
    const std::size_t dashes = each.name.starts_with("--") ? 0 : each.name.find(".--") + 1;
    if (dashes != 0 || each.name.starts_with("--")) {  // a flag as it stands
      each.name.erase(dashes, 2);
      std::replace(each.name.begin() + static_cast<std::ptrdiff_t>(dashes), each.name.end(), '-', '_');
    }
    keys.add(std::move(each));
  }
  MegatronDialect dialect;
  if (bridge) {
    dialect = {.framework = "Megatron-Bridge",
               .software = "megatron-bridge",
               .partial = true,
               .provider = true,
               .finetunes = keys.finetunes()};
  }
  dialect.partial = partial;
  LaunchFile read = megatron_launch(keys.take(), {}, dialect, beside);
  if (!keys.lengths().empty()) read.notes.push_back(keys.lengths());
  read.settings.insert(read.settings.end(), keys.adapters().begin(), keys.adapters().end());
  LaunchArguments own(keys.own_keys(), argument_table("bridge_keys.txt"), read);
  own.attempt([&] { put_images(own); });
  if (own.has(kRemainders) && !own.on(kRemainders))
    std::erase_if(read.settings, [](const LaunchSetting& each) { return each.key == kRemainders; });
  read.without_effect.insert(read.without_effect.end(), file.without_effect.begin(),
                             file.without_effect.end());
  read.refused.insert(read.refused.end(), file.refused.begin(), file.refused.end());
  return read;
}

}  // namespace

std::optional<LaunchFile> megatron_yaml_launch(std::string_view text, const std::string& name,
                                               const BesideFile& beside) {
  const bool bridge = is_bridge(text);
  const bool lm = has_yaml_key(text, "language_model") || has_yaml_key(text, "ARGS") ||
                  has_yaml_key(text, "MODEL_ARGS") ||
                  (has_yaml_key(text, "num_layers") && has_yaml_key(text, "hidden_size"));
  if (!bridge && !lm) return std::nullopt;
  return read_keys(yaml_arguments(std::string(text), name), bridge, bridge, beside);
}

LaunchFile megatron_keys_launch(std::vector<LaunchArgument> keys, bool bridge, const BesideFile& beside) {
  return read_keys(std::move(keys), bridge, true, beside);
}

void add_defaults(std::vector<LaunchArgument>& keys,
                  std::span<const std::pair<const char*, const char*>> defaults, const std::string& place) {
  for (const auto& each : defaults) {
    const bool given = std::any_of(keys.begin(), keys.end(),
                                   [&](const LaunchArgument& key) { return key.name == each.first; });
    if (!given) keys.push_back({each.first, {each.second}, place});
  }
}

}  // namespace plumbline
