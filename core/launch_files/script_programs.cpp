#include "core/launch_files/script_programs.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/one_line.hpp"
#include "core/launch_files/arguments/keyed_files.hpp"
#include "core/launch_files/megatron/megatron_yaml.hpp"
#include "core/launch_files/named_overrides.hpp"
#include "core/launch_files/shell/shell_script.hpp"
#include "core/launch_files/torch/hugging_face_settings.hpp"
#include "core/launch_files/torch/torchtitan_settings.hpp"

namespace plumbline {
namespace {

using Words = std::vector<ShellWord>;
using Arguments = std::vector<LaunchArgument>;

struct Command {
  std::string name;  // of the script
  Words launcher;    // up to the program
  Words program;     // behind it
  const OtherFile& other;
  const BesideFile& beside;
  std::map<std::string, std::string> environment;  // set on its line

  std::string place(const ShellWord& word) const { return fmt::format("{}:{}", name, word.line); }
};

struct Program {
  std::string_view framework;
  std::string_view first;   // a word, or its end behind a slash
  std::string_view second;  // the word behind it; empty: any
  LaunchFile (*read)(const Command& command);
};

std::string underscored(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

bool is_option(const ShellWord& word) {
  return word.text.size() > 2 && word.text.starts_with("--") && word.text[2] != '-';
}

/// "--key value", "--key=value" and "key=value" as keys without dashes.
Arguments keys_of(const Command& command, const Words& words) {
  Arguments found;
  for (const ShellWord& word : words) {
    const std::size_t equals = word.text.find('=');
    const bool pair = equals != std::string::npos && equals > 0 && word.text[0] != '-';
    if (is_option(word) || pair) {
      std::string key = underscored(
          word.text.substr(pair ? 0 : 2, equals == std::string::npos ? equals : equals - (pair ? 0 : 2)));
      if (pair) key.erase(0, key.find_first_not_of('+'));
      found.push_back({std::move(key), {}, command.place(word), word.known, word.reason});
      if (equals != std::string::npos) found.back().values.push_back(word.text.substr(equals + 1));
    } else if (!found.empty()) {
      found.back().values.push_back(word.text);
      if (!word.known) {
        found.back().known = false;
        found.back().unknown_reason = word.reason;
      }
    }
  }
  for (LaunchArgument& each : found)
    if (each.values.empty()) each.values = {"true"};
  return found;
}

const LaunchArgument* found_in(const Arguments& all, std::string_view name) {
  const auto found =
      std::find_if(all.rbegin(), all.rend(), [&](const LaunchArgument& each) { return each.name == name; });
  return found == all.rend() ? nullptr : &*found;
}

void rename(Arguments& all, std::string_view from, const std::string& to) {
  for (LaunchArgument& each : all)
    if (each.name == from) each.name = to;
}

std::string value_of(const Arguments& all, std::string_view name) {
  const LaunchArgument* const found = found_in(all, name);
  return found == nullptr || found->values.empty() || !found->known ? "" : found->values.front();
}

std::string other_text(const Command& command, const LaunchArgument& argument, const char* expected) {
  const std::string path = argument.values.empty() ? "" : argument.values.front();
  auto text = command.other && argument.known ? command.other(path) : std::nullopt;
  if (!text)
    throw InputError(fmt::format("{}: {}: found {}, which is not here, expected {}; put it beside the script",
                                 argument.place, argument.name, printable(path), expected));
  return *text;
}

/// GPUs that the launcher's words say; empty: none.
std::string gpus_of(const Command& command, Arguments flags) {
  for (LaunchArgument& each : keys_of(command, command.launcher)) flags.push_back(std::move(each));
  const auto number = [&](std::initializer_list<const char*> names) -> std::string {
    for (const char* const name : names)
      if (std::string value = value_of(flags, name); !value.empty()) return value;
    return "";
  };
  const auto whole = [](const std::string& text) {
    return !text.empty() && text.size() < 7 && text.find_first_not_of("0123456789") == std::string::npos
               ? std::stol(text)
               : 0;
  };
  if (std::string all = number({"num_processes"}); whole(all) > 0) return all;
  const std::string nodes = number({"nnodes", "num_nodes"});
  const long each = whole(number({"nproc_per_node", "num_gpus"}));
  const long hosts = nodes.empty() ? 1 : whole(nodes);
  return each * hosts > 0 ? fmt::format("{}", each * hosts) : "";
}

/// Variables by which ms-swift starts torchrun, as its options.
Arguments swift_gpus(const Command& command) {
  Arguments flags;
  for (const char* const name : {"NPROC_PER_NODE", "NNODES"})
    if (const auto found = command.environment.find(name); found != command.environment.end())
      flags.push_back({name[1] == 'P' ? "nproc_per_node" : "nnodes", {found->second}, command.name});
  return flags;
}

void take_gpus(LaunchFile& file, const Command& command, Arguments flags = {}) {
  const std::string gpus = gpus_of(command, std::move(flags));
  const auto has = [](const LaunchSetting& each) { return each.key == "world_size"; };
  if (gpus.empty() || std::any_of(file.settings.begin(), file.settings.end(), has)) return;
  const ShellWord& first = command.launcher.empty() ? command.program.front() : command.launcher.front();
  file.settings.push_back({"world_size", gpus, command.place(first) + ": GPUs that the launcher starts"});
  std::erase(file.notes, kNoGpusNote);
}

/// TrainingArguments, with Accelerate's configuration where its launcher names one.
LaunchFile read_trainer(const Command& command) {
  Arguments keys = keys_of(command, command.program);
  const Arguments launcher = keys_of(command, command.launcher);
  if (const LaunchArgument* const config = found_in(launcher, "config_file")) {
    const bool told = command.beside.gives("zero_stage") && command.beside.gives("software");
    if (!told || (command.other && !config->values.empty() && command.other(config->values.front()))) {
      const std::string text = other_text(
          command, *config, "Accelerate's configuration, or --software and --zero-stage in its place");
      for (LaunchArgument& each : yaml_arguments(text, config->values.front()))
        keys.push_back(std::move(each));
    }
  }
  constexpr std::string_view kOfLauncher[] = {"use_deepspeed", "use_fsdp", "deepspeed_config_file",
                                              "zero_stage"};
  for (const LaunchArgument& each : launcher) {
    if (std::find(std::begin(kOfLauncher), std::end(kOfLauncher), each.name) == std::end(kOfLauncher))
      continue;
    keys.push_back(each);
  }
  if (found_in(keys, "use_deepspeed") != nullptr)
    keys.push_back({"distributed_type", {"DEEPSPEED"}, command.name});
  if (found_in(keys, "use_fsdp") != nullptr) keys.push_back({"distributed_type", {"FSDP"}, command.name});
  std::erase_if(keys, [](const LaunchArgument& each) {
    return each.name == "use_deepspeed" || each.name == "use_fsdp";
  });
  rename(keys, "zero_stage", "deepspeed_config.zero_stage");
  rename(keys, "deepspeed_config_file", "deepspeed_config.deepspeed_config_file");
  LaunchFile file = trainer_launch(std::move(keys), command.other, command.beside);
  take_gpus(file, command);
  return file;
}

/// ms-swift: its own names for the model and adapters, defaults of its own (swift/llm/argument).
LaunchFile read_swift(const Command& command) {
  Arguments keys = keys_of(command, command.program);
  const std::string place = command.program.empty() ? command.name : command.place(command.program.front());
  rename(keys, "model", "model_name_or_path");
  rename(keys, "attn_impl", "attn_implementation");
  rename(keys, "train_type", "finetuning_type");
  rename(keys, "tuner_type", "finetuning_type");
  rename(keys, "target_modules", "lora_target");
  for (LaunchArgument& each : keys)
    if (each.name == "lora_target" && each.values == std::vector<std::string>{"all-linear"})
      each.values = {"all"};
  if (found_in(keys, "finetuning_type") == nullptr) keys.push_back({"finetuning_type", {"lora"}, place});
  if (value_of(keys, "finetuning_type") == "lora" && found_in(keys, "lora_alpha") == nullptr)
    keys.push_back({"lora_alpha", {"32"}, place});
  const std::string type = value_of(keys, "torch_dtype");
  std::erase_if(keys, [](const LaunchArgument& each) { return each.name == "torch_dtype"; });
  if (found_in(keys, "bf16") == nullptr && found_in(keys, "fp16") == nullptr && type != "float32")
    keys.push_back({type == "float16" ? "fp16" : "bf16", {"true"}, place});
  if (found_in(keys, "gradient_checkpointing") == nullptr)
    keys.push_back({"gradient_checkpointing", {"true"}, place});
  if (found_in(keys, "per_device_train_batch_size") == nullptr)
    keys.push_back({"per_device_train_batch_size", {"1"}, place});
  const std::string zero = value_of(keys, "deepspeed");
  const bool offloads = zero.ends_with("_offload");
  if (zero.starts_with("zero") && zero.size() == (offloads ? 13 : 5)) {  // ms-swift's own configurations
    rename(keys, "deepspeed", "deepspeed.zero_optimization.stage");
    for (LaunchArgument& each : keys)
      if (each.name == "deepspeed.zero_optimization.stage") each.values = {zero.substr(4, 1)};
    keys.push_back({"deepspeed.bf16.enabled", {"auto"}, place});
    if (offloads) keys.push_back({"deepspeed.zero_optimization.offload_optimizer.device", {"cpu"}, place});
  }
  LaunchFile file = trainer_launch(std::move(keys), command.other, command.beside);
  file.framework = "ms-swift";
  take_gpus(file, command, swift_gpus(command));
  return file;
}

/// Adapters of ms-swift under Megatron-Core, with its defaults; their keys are taken out.
std::vector<LaunchSetting> swift_adapters(Arguments& keys, const std::string& tuner,
                                          const std::string& place) {
  if (tuner == "full") return {};
  const LaunchArgument* const targets = found_in(keys, "target_modules");
  const bool all = targets == nullptr || targets->values == std::vector<std::string>{"all-linear"};
  if (tuner != "lora" || !all)
    throw InputError(fmt::format(
        "{}: {}: found {}, expected full, or lora on all-linear; give --megatron-args with --frozen lora",
        place, all ? "train_type" : "target_modules",
        printable(all ? tuner : fmt::format("{}", fmt::join(targets->values, " ")))));
  const auto given = [&](const char* name, const char* otherwise) {
    const std::string value = value_of(keys, name);
    return value.empty() ? otherwise : value;
  };
  std::vector<LaunchSetting> settings{{"frozen", "lora", place + ": train_type"},
                                      {"lora_targets", "all", place + ": target_modules"},
                                      {"lora_rank", given("lora_rank", "8"), place + ": lora_rank"},
                                      {"lora_alpha", given("lora_alpha", "32"), place + ": lora_alpha"}};
  std::erase_if(keys, [](const LaunchArgument& each) {
    return each.name == "lora_rank" || each.name == "lora_alpha" || each.name == "target_modules" ||
           each.name == "lora_dropout";
  });
  return settings;
}

/// Megatron-Core under ms-swift: Megatron-LM's names, a model of Hugging Face, defaults of its own.
LaunchFile read_swift_megatron(const Command& command) {
  Arguments keys = keys_of(command, command.program);
  LaunchArgument model;
  std::string tuner = "full";
  for (const LaunchArgument& each : keys) {
    if (each.name == "model" || each.name == "load") model = each;
    if (each.name == "train_type" || each.name == "tuner_type") tuner = each.values.front();
  }
  const std::string place = command.program.empty() ? command.name : command.place(command.program.front());
  const std::vector<LaunchSetting> adapters = swift_adapters(keys, tuner, place);
  rename(keys, "max_length", "seq_length");
  constexpr std::string_view kOwn[] = {"model",
                                       "train_type",
                                       "tuner_type",
                                       "dataset",
                                       "val_dataset",
                                       "packing",
                                       "load_safetensors",
                                       "save_safetensors",
                                       "max_epochs",
                                       "dataset_num_proc",
                                       "dataloader_num_workers",
                                       "model_type",
                                       "template",
                                       "system",
                                       "save_steps",
                                       "agent_template",
                                       "add_non_thinking_prefix",
                                       "new_special_tokens",
                                       "eval_steps",
                                       "save_total_limit",
                                       "logging_dir",
                                       "cached_dataset",
                                       "cached_val_dataset",
                                       "split_dataset_ratio",
                                       "streaming",
                                       "num_train_epochs",
                                       "output_dir",
                                       "save_strategy",
                                       "padding_free",
                                       "merge_lora",
                                       "attn_impl",
                                       "columns",
                                       "model_author",
                                       "model_name",
                                       "load_from_cache_file",
                                       "use_hf",
                                       "add_version",
                                       "report_to",
                                       "logging_steps",
                                       "torch_dtype",
                                       "warmup_fraction"};
  std::vector<LaunchRemark> own;
  std::erase_if(keys, [&](const LaunchArgument& each) {
    if (std::find(std::begin(kOwn), std::end(kOwn), each.name) == std::end(kOwn)) return false;
    own.push_back({each.name, each.place, "ms-swift's, of input, names and files"});
    return true;
  });
  constexpr std::pair<const char*, const char*> kDefaults[] = {{"bf16", "true"},
                                                               {"use_distributed_optimizer", "true"},
                                                               {"micro_batch_size", "1"},
                                                               {"global_batch_size", "16"},
                                                               {"overlap_grad_reduce", "false"},
                                                               {"overlap_param_gather", "false"},
                                                               {"cross_entropy_loss_fusion", "true"},
                                                               {"recompute_granularity", "selective"}};
  for (const auto& [key, value] : kDefaults)
    if (found_in(keys, key) == nullptr)
      keys.push_back({key, {value}, fmt::format("default of ms-swift in {}", place)});
  LaunchFile file = megatron_keys_launch(std::move(keys), false, command.beside);
  file.framework = "ms-swift (Megatron-Core)";
  set_named_model(file, model);
  file.settings.insert(file.settings.end(), adapters.begin(), adapters.end());
  file.without_effect.insert(file.without_effect.end(), own.begin(), own.end());
  take_gpus(file, command, swift_gpus(command));
  return file;
}

/// A YAML file behind the command, with keys over it.
LaunchFile read_factory(const Command& command) {
  const auto yaml = std::find_if(command.program.begin(), command.program.end(), [](const ShellWord& word) {
    return word.text.ends_with(".yaml") || word.text.ends_with(".yml");
  });
  Arguments keys;
  if (yaml != command.program.end()) {
    const LaunchArgument file{"train", {yaml->text}, command.place(*yaml), yaml->known, yaml->reason};
    keys = yaml_arguments(other_text(command, file, "LLaMA-Factory's configuration"), yaml->text);
  }
  for (LaunchArgument& each : keys_of(command, command.program)) keys.push_back(std::move(each));
  LaunchFile file = trainer_launch(std::move(keys), command.other, command.beside);
  take_gpus(file, command);
  return file;
}

/// A TOML file and keys over it, in torchtitan's own names.
LaunchFile read_titan(const Command& command) {
  Arguments keys;
  const Arguments flags = keys_of(command, command.program);
  if (const LaunchArgument* const config = found_in(flags, "job.config_file"))
    keys = toml_arguments(other_text(command, *config, "torchtitan's job configuration"),
                          config->values.front());
  for (const LaunchArgument& each : flags)
    if (each.name != "job.config_file") keys.push_back(each);
  LaunchFile file = torchtitan_launch(std::move(keys), command.beside);
  take_gpus(file, command);
  return file;
}

/// Overrides of a recipe of Megatron-Bridge.
LaunchFile read_bridge(const Command& command) {
  Arguments keys = keys_of(command, command.program);
  const std::string recipe = value_of(keys, "recipe");
  std::erase_if(keys, [](const LaunchArgument& each) { return each.name.find('.') == std::string::npos; });
  LaunchFile file = megatron_keys_launch(std::move(keys), true, command.beside);
  std::string_view name = recipe;
  for (const std::string_view end : {"_config", "_pretrain", "_sft", "_peft"})
    if (name.ends_with(end)) name.remove_suffix(end.size());
  if (const ModelConfig* const preset = preset_of_name(name))
    file.settings.push_back(
        {"model", preset->name, fmt::format("the name of the recipe {}", printable(recipe))});
  file.notes.push_back(
      fmt::format("the recipe {} is not read: its sequence length, batch and parallel sizes count only "
                  "where options or overrides give them",
                  printable(recipe)));
  take_gpus(file, command);
  return file;
}

constexpr Program kPrograms[] = {
    {"ms-swift (Megatron-Core)", "megatron", "sft", read_swift_megatron},
    {"ms-swift (Megatron-Core)", "megatron", "pt", read_swift_megatron},
    {"ms-swift", "swift", "sft", read_swift},
    {"ms-swift", "swift", "pt", read_swift},
    {"ms-swift", "cli/sft.py", "", read_swift},
    {"ms-swift (Megatron-Core)", "cli/_megatron/sft.py", "", read_swift_megatron},
    {"LLaMA-Factory", "llamafactory-cli", "train", read_factory},
    {"LLaMA-Factory", "src/train.py", "", read_factory},
    {"TRL", "trl", "sft", read_trainer},
    {"Megatron-Bridge", "run_recipe.py", "", read_bridge},
};
/// Keys that tell a program whose name does not.
constexpr std::pair<std::string_view, LaunchFile (*)(const Command&)> kTellingNames[] = {
    {"job.config_file", read_titan},
    {"per_device_train_batch_size", read_trainer},
};

bool is_word(const ShellWord& word, std::string_view wanted) {
  return word.text == wanted || (word.text.size() > wanted.size() && word.text.ends_with(wanted) &&
                                 word.text[word.text.size() - wanted.size() - 1] == '/');
}

bool is_program(const ShellWord& word) {
  return word.text.ends_with(".py");
}

/// The reader of a command, whose words are parted; nullptr: none.
LaunchFile (*reader_of(const Words& words, Command& command))(const Command&) {
  for (const Program& each : kPrograms) {
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (!is_word(words[i], each.first)) continue;
      const bool second = each.second.empty() || (i + 1 < words.size() && words[i + 1].text == each.second);
      if (!second) continue;
      const auto program = words.begin() + static_cast<std::ptrdiff_t>(i);
      const auto begin = program + (each.second.empty() ? 1 : 2);
      command.launcher.assign(words.begin(), program);
      command.program.assign(begin, words.end());
      return each.read;
    }
  }
  const auto program = std::find_if(words.begin(), words.end(), is_program);
  const auto module =
      std::find_if(words.begin(), words.end(), [](const ShellWord& word) { return word.text == "-m"; });
  auto begin = program != words.end()  ? program + 1
               : module == words.end() ? words.begin()
                                       : std::next(module);
  command.launcher.assign(words.begin(), begin == words.begin() ? begin : std::prev(begin));
  command.program.assign(begin, words.end());
  const Arguments keys = keys_of(command, command.program);
  for (const auto& [key, read] : kTellingNames)
    if (found_in(keys, key) != nullptr) return read;
  return nullptr;
}

}  // namespace

std::optional<LaunchFile> program_launch(std::string_view text, const std::string& name,
                                         const OtherFile& other, const BesideFile& beside) {
  const ShellScript script = read_shell_script(text, name, other, beside.variables);
  std::optional<Command> found;
  LaunchFile (*read)(const Command&) = nullptr;
  for (const ShellCommand& each : script.commands) {
    if (each.words.empty() || each.words.front().text == "echo") continue;
    Command command{name, {}, {}, other, beside, each.environment};
    const auto reader = reader_of(each.words, command);
    if (reader == nullptr) continue;
    if (!each.doubt.empty())
      throw InputError(
          fmt::format("{}:{}: found a training command that {}; expected one that the script runs for "
                      "certain; write it alone in a script",
                      name, each.line, each.doubt));
    if (read != nullptr)
      throw InputError(
          fmt::format("{}:{}: found a second training command, expected one; write it alone in a script",
                      name, each.line));
    read = reader;
    found.emplace(std::move(command));
  }
  if (read == nullptr) return std::nullopt;
  LaunchFile file = read(*found);
  file.notes.insert(file.notes.end(), script.notes.begin(), script.notes.end());
  return file;
}

}  // namespace plumbline
