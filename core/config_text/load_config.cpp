#include "core/config_text/load_config.hpp"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <optional>
#include <string_view>

#include "core/base/error.hpp"
#include "core/base/text_input.hpp"
#include "core/config/model_config.hpp"
#include "core/config_text/config_file.hpp"
#include "core/config_text/config_key_kinds.hpp"
#include "core/config_text/config_keys.hpp"
#include "core/launch_files/launch_file.hpp"
#include "core/launch_files/submitted_script.hpp"

namespace plumbline {

namespace {

constexpr const char* kVariableCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

void add_note(std::string& notes, const std::string& line) {
  notes += (notes.empty() ? "" : "\nnote: ") + line;
}

/// Refuses a name on the Hub of a model with other layers before anything of the file beside it.
void check_layers(const ConfigText& model) {
  std::error_code error;
  if (find_preset(model.text) == nullptr && !std::filesystem::exists(absolute_path(model), error))
    refuse_other_layers(model.text, model.origin + ": ");
}

/// One micro-batch per replica, or as many as a launch file says.
void take_smallest_batch(RunConfig& config, std::int64_t given, std::string* note) {
  BatchConfig& batch = config.batch;
  const std::int64_t replicas = config.parallel.data();
  if (given > std::numeric_limits<int>::max()) return;
  const std::int64_t passes = std::max<std::int64_t>(1, given);
  const std::int64_t each = batch.micro_batch_size * replicas;
  if (each < 1 || each > std::numeric_limits<int>::max() / passes) return;
  const std::int64_t samples = each * passes;
  if (given == 0 && batch.global_batch_size % samples == 0) return;
  batch.global_batch_size = samples;
  if (note == nullptr || config.generation.on()) return;
  add_note(
      *note,
      fmt::format(
          "global_batch_size is not given: {} is taken, micro_batch_size x data parallel size = {} x {}{}",
          samples, batch.micro_batch_size, replicas,
          passes == 1 ? "" : fmt::format(", times {} micro-batches", passes)));
}

/// Lengths that a user may not have meant.
void note_lengths(const RunConfig& config, bool given, std::string& notes) {
  const std::int64_t length = config.batch.seq_length;
  const ModelConfig& model = config.model;
  if (!given) add_note(notes, fmt::format("seq_length is not given: {} is taken", length));
  if (model.position.max > 0 && length > model.position.max) {
    add_note(notes, fmt::format("seq_length {} is longer than the {} positions that {} was trained with",
                                length, model.position.max, model.name));
  }
}

/// Sizes of a launch file, in the model that the command line names.
void take_sizes(const ConfigFile& file, RunConfig& config, std::string* note) {
  std::vector<std::string> changes;
  config.model = with_sizes(config.model, file.model_sizes(), changes);
  for (const std::string& line : changes)
    if (note != nullptr) add_note(*note, line);
}

/// Megatron's recipes set experts up for models that have none, too: nothing comes of it there.
void leave_out_experts(const ConfigFile& file, const Settings& given, RunConfig& config, std::string* note) {
  const auto& teacher = config.distillation.teacher;
  if (!file.is_launch_file() || config.model.mixture || (teacher && teacher->mixture)) return;
  static const RunConfig kDefaults;
  for (const ConfigKey& key : config_keys()) {
    if (!key.name.starts_with("moe_") || given.contains(key.name)) continue;
    const std::string value = key.print(config);
    const std::string otherwise = key.print(kDefaults);
    if (value == otherwise) continue;
    ConfigDraft draft{config, std::nullopt, std::nullopt};
    key.parse(draft, {otherwise, file.name(), ""});
    config = draft.config;
    if (note != nullptr)
      add_note(*note, fmt::format("{}: found {} with {}, which has no experts: without effect", key.name,
                                  value, config.model.name));
  }
}

bool has_variable(const std::string& source, const std::string& name) {
  std::error_code ignored;
  const bool script = std::filesystem::is_regular_file(source, ignored) &&
                      std::filesystem::file_size(source, ignored) <= kMostLaunchBytes;
  if (!script || name.empty() || name.find_first_not_of(kVariableCharacters) != std::string::npos)
    return false;
  const std::string text = read_text_file(source, kMostLaunchBytes);
  const auto in_name = [&](std::size_t at) {
    return at < text.size() && std::string_view(kVariableCharacters).find(text[at]) != std::string_view::npos;
  };
  for (std::size_t at = 0; (at = text.find(name, at)) != std::string::npos; ++at)
    if ((at == 0 || !in_name(at - 1)) && !in_name(at + name.size())) return true;
  return false;
}

/// Origin of a launcher's number of GPUs that does not suit the sizes, and the way to another one. It is no
/// refusal here: a search chooses sizes itself.
void note_launcher(const std::string& source, const Settings& settings, const RunConfig& config,
                   std::string& notes) {
  const auto gpus = settings.find("world_size");
  if (gpus == settings.end() || config.parallel.world_size % config.parallel.model_ranks() == 0) return;
  std::string variable;
  for (const char* name : {"NNODES", "NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES"})
    if (variable.empty() && has_variable(source, name)) variable = fmt::format(" or --set {}=N", name);
  add_note(notes, fmt::format("{}: {}; --gpus N{} gives another number", gpus->second.origin,
                              config.parallel.world_size, variable));
}

/// Keys and values of a source that is one configuration.
Settings settings_in(const ConfigFile& file) {
  for (const char* name : {"matrix", "include", "exclude", "fit", "published", "hypotheses"}) {
    if (file.root()[name]) {
      throw InputError(
          fmt::format("{}: {}: this is a matrix file; expected one configuration (use `plumbline "
                      "matrix` for a matrix)",
                      file.origin(file.root()[name]), name));
    }
  }
  return file.settings(file.root());
}

}  // namespace

CommandLine command_line(const std::string& source, const Overrides& overrides) {
  CommandLine line;
  Overrides keys;
  for (const Override& each : overrides) {
    if (each.runs) {
      std::error_code ignored;
      if (!std::filesystem::is_regular_file(source, ignored))
        throw InputError(
            fmt::format("--run-script: found {}, expected a shell script as CONFIG; remove the option",
                        source.empty() ? "no file" : printable(source)));
      line.beside.run_script = source;
    } else if (each.ignores) {
      line.beside.ignored.insert(BesideFile::plain_name(each.key));
    } else if (each.argument) {
      const std::vector<std::string> words = words_of_command(each.value);
      for (std::size_t i = 0; i < words.size(); ++i)
        line.beside.variables[fmt::format("{}", i + 1)] = words[i];
    } else if (find_config_key(each.key) == nullptr && has_variable(source, each.key)) {
      line.beside.variables[each.key] = each.value;
    } else {
      keys.push_back(each);
    }
  }
  line.settings = settings_of(keys);
  line.beside.is_key = [](std::string_view name) { return find_config_key(name) != nullptr; };
  for (const auto& [key, value] : line.settings) line.beside.keys[key] = value.text;
  return line;
}

void check_readable(const std::string& source, const Overrides& overrides) {
  const CommandLine told = command_line(source, overrides);
  settings_in(ConfigFile(source, told.beside));
}

RunConfig load_run_config(const std::string& source, const Overrides& overrides, std::string* note,
                          const std::string* text) {
  CommandLine told = command_line(source, overrides);
  told.beside.text = text;
  const Settings& given = told.settings;
  if (const auto model = given.find("model"); model != given.end()) check_layers(model->second);
  const ConfigFile file(source, told.beside);
  Settings settings = settings_in(file);
  put_over(settings, given);
  file.check_model(settings);
  std::string contradiction;
  RunConfig config = config_from(settings, file.name(), contradiction);
  if (!contradiction.empty()) throw InputError(fmt::format("{}: {}", file.name(), contradiction));
  const bool replicas_given = given.contains("data_parallel_size");
  if (!replicas_given) file.check_replicas(config.parallel.data());
  for (const std::string& line : file.notes()) {
    const bool answered = line == kNoGpusNote && (replicas_given || given.contains("world_size"));
    if (note != nullptr && !answered) add_note(*note, line);
  }
  if (given.contains("model")) take_sizes(file, config, note);
  leave_out_experts(file, given, config, note);
  if (note != nullptr && file.is_launch_file() && !given.contains("world_size"))
    note_launcher(source, settings, config, *note);
  if (note != nullptr) note_lengths(config, settings.contains("seq_length"), *note);
  if (!settings.contains("global_batch_size")) take_smallest_batch(config, file.num_microbatches(), note);
  return config;
}

}  // namespace plumbline
