#include "core/launch_files/named_overrides.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/one_line.hpp"
#include "core/launch_files/arguments/keyed_files.hpp"
#include "core/launch_files/arguments/named_model.hpp"
#include "core/launch_files/arguments/yaml_keys.hpp"
#include "core/launch_files/megatron/megatron_names.hpp"
#include "core/launch_files/megatron/megatron_yaml.hpp"
#include "core/launch_files/torch/titan/torchtitan_settings.hpp"

namespace plumbline {
namespace {

std::string text_of(const LaunchArgument& argument) {
  return argument.values.size() == 1 ? argument.values.front() : "";
}

/// torchtitan's name and flavor of "llama3.1_8B-BF16.yaml".
void add_flavor(std::vector<LaunchArgument>& keys, const LaunchArgument& model) {
  std::string name = text_of(model);
  name = name.substr(0, name.find(".yaml"));
  const std::size_t bar = name.rfind('_');
  if (bar == std::string::npos) return;
  std::string flavor = name.substr(bar + 1);
  flavor = flavor.substr(0, flavor.find('-'));
  std::string family = name.substr(0, bar);
  family = family.substr(0, family.find('.'));
  keys.push_back({"model.name", {family}, model.place});
  keys.push_back({"model.flavor", {flavor}, model.place});
}

/// ${NAME:default}, as Primus's files have it, with the command line's value of the variable.
void fill_in(LaunchArgument& argument, const BesideFile& beside) {
  for (std::string& value : argument.values) {
    const std::size_t colon = value.find(':');
    if (!value.starts_with("${") || !value.ends_with('}') || colon == std::string::npos) continue;
    const auto given = beside.variables.find(value.substr(2, colon - 2));
    value =
        given != beside.variables.end() ? given->second : value.substr(colon + 1, value.size() - colon - 2);
    argument.known = true;
  }
}

/// Keys that only Primus has: of logs and files, and kernels of Primus-Turbo. True: it is told.
bool is_of_primus(const LaunchArgument& key, LaunchFile& file) {
  constexpr std::string_view kIdle[] = {
      "stderr_sink_level",      "file_sink_level", "log_avg_skip_iterations",
      "log_avg_reset_interval", "sink_level",      "disable_last_saving",
      "auto_continue_train",    "disable_mlflow",  "training.mock_data"};
  constexpr std::string_view kKernels[] = {"enable_primus_turbo",
                                           "use_turbo_attention",
                                           "use_turbo_gemm",
                                           "use_turbo_rms_norm",
                                           "use_turbo_grouped_mm",
                                           "use_turbo_grouped_gemm",
                                           "use_classic_attention",
                                           "use_turbo_fused_act_with_probs",
                                           "turbo_grouped_gemm_without_padding",
                                           "turbo_deepep_num_cu",
                                           "turbo_deepep_use_comm_stream",
                                           "turbo_sync_free_moe_stage",
                                           "no_fp8_weight_transpose_cache"};
  constexpr std::string_view kTurbo = "primus_turbo.";
  std::string_view name = key.name;
  const auto in = [&](const auto& names) {
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
  };
  if (in(kIdle)) {
    file.without_effect.push_back({key.name, key.place, "it logs, saves or chooses input"});
    return true;
  }
  const bool turbo = name.starts_with(kTurbo) || name.find("turbo") != std::string_view::npos;
  if (name.starts_with(kTurbo)) name.remove_prefix(kTurbo.size());
  if (turbo && text_of(key) == "false") {
    file.without_effect.push_back({key.name, key.place, "it is off"});
    return true;
  }
  if (!in(kKernels)) return false;
  file.approximated.push_back(
      {key.name, key.place, "kernels of Primus-Turbo are predicted as the software's"});
  return true;
}

/// Primus-Turbo's DeepEP in place of the dispatcher that the file names.
void take_turbo_dispatcher(std::vector<LaunchArgument>& keys) {
  const auto turbo = std::find_if(keys.begin(), keys.end(),
                                  [](const LaunchArgument& each) { return each.name == "use_turbo_deepep"; });
  if (turbo == keys.end() || text_of(*turbo) != "true") return;
  const std::string place = turbo->place;
  std::erase_if(keys, [](const LaunchArgument& each) {
    return each.name == "use_turbo_deepep" || each.name == "moe_token_dispatcher_type" ||
           each.name == "moe_enable_deepep";
  });
  keys.push_back({"moe_token_dispatcher_type", {"flex"}, place});
  keys.push_back({"moe_enable_deepep", {"true"}, place});
}

/// Defaults of Primus's trainer (primus/configs/modules/megatron/pre_trainer.yaml and trainer_base.yaml).
void add_primus_defaults(std::vector<LaunchArgument>& keys, const std::string& name) {
  constexpr std::pair<const char*, const char*> kDefaults[] = {{"micro_batch_size", "2"},
                                                               {"global_batch_size", "16"},
                                                               {"seq_length", "1024"},
                                                               {"bf16", "true"},
                                                               {"overlap_grad_reduce", "false"},
                                                               {"overlap_param_gather", "false"},
                                                               {"use_distributed_optimizer", "true"}};
  const auto has = [&](std::string_view key) {
    return std::any_of(keys.begin(), keys.end(),
                       [&](const LaunchArgument& each) { return each.name == key; });
  };
  const std::string place = name + ": default of Primus";
  add_defaults(keys, kDefaults, place);
  if (has("fp8") && !has("fp8_amax_history_len")) keys.push_back({"fp8_amax_history_len", {"1024"}, place});
}

}  // namespace

std::optional<LaunchFile> primus_launch(std::string_view text, const std::string& name,
                                        const BesideFile& beside) {
  if (!has_yaml_key(text, "modules") || !has_yaml_key(text, "work_group")) return std::nullopt;
  constexpr std::string_view kOverrides = ".overrides.";
  std::vector<LaunchArgument> keys;
  std::vector<LaunchArgument> others;
  LaunchArgument model;
  std::string framework = "megatron";
  LaunchFile own;
  for (LaunchArgument& each : yaml_arguments(std::string(text), name)) {
    fill_in(each, beside);
    const std::size_t at = each.name.find(kOverrides);
    if (at != std::string::npos) {
      each.name.erase(0, at + kOverrides.size());
      if (!is_of_primus(each, own)) keys.push_back(std::move(each));
    } else if (each.name.ends_with(".framework")) {
      framework = text_of(each);
    } else if (each.name.starts_with("modules.") && each.name.ends_with(".model")) {
      model = std::move(each);
    } else {
      others.push_back(std::move(each));
    }
  }
  if (framework != "torchtitan" && framework != "megatron") return std::nullopt;
  LaunchFile file;
  if (framework == "torchtitan") {
    add_flavor(keys, model);
    file = torchtitan_launch(std::move(keys), beside);
  } else {
    take_turbo_dispatcher(keys);
    add_primus_defaults(keys, name);
    file = megatron_keys_launch(std::move(keys), false, beside);
    set_named_model(file, model);
  }
  file.framework = fmt::format("Primus ({})", framework);
  file.without_effect.insert(file.without_effect.end(), own.without_effect.begin(), own.without_effect.end());
  file.approximated.insert(file.approximated.end(), own.approximated.begin(), own.approximated.end());
  for (const LaunchArgument& each : others)
    file.without_effect.push_back({printable(each.name), each.place, "it names, groups or places the run"});
  return file;
}

std::optional<LaunchFile> overrides_launch(std::string_view text, const std::string& name,
                                           const BesideFile& beside) {
  constexpr int kTelling = 3;
  if (beside.is_key == nullptr || !has_yaml_key(text, "model")) return std::nullopt;
  std::vector<LaunchArgument> flags;
  std::vector<LaunchArgument> keys;
  int only_there = 0;
  for (LaunchArgument& each : yaml_arguments(std::string(text), name)) {
    if (each.name.find('.') != std::string::npos) return std::nullopt;
    const bool flag = is_megatron_name(each.name);
    only_there += flag && !beside.is_key(each.name) ? 1 : 0;
    if (beside.is_key(each.name) && !flag) {
      keys.push_back(std::move(each));
    } else {
      flags.push_back(std::move(each));
    }
  }
  if (only_there < kTelling) return std::nullopt;
  LaunchFile file = megatron_keys_launch(std::move(flags), false, beside);
  for (const LaunchArgument& each : keys) {
    const std::string place = fmt::format("{}: {}", each.place, each.name);
    std::erase_if(file.settings, [&](const LaunchSetting& other) { return other.key == each.name; });
    if (each.name == "model") {
      set_named_model(file, each);
    } else {
      file.settings.push_back({each.name, text_of(each), place});
    }
  }
  file.framework = "Megatron-LM's names beside a model";
  return file;
}

}  // namespace plumbline
