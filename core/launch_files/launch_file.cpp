#include "core/launch_files/launch_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <iterator>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/json_keys.hpp"
#include "core/base/mapped_file.hpp"
#include "core/base/text_input.hpp"
#include "core/launch_files/arguments/keyed_files.hpp"
#include "core/launch_files/arguments/yaml_keys.hpp"
#include "core/launch_files/launch_kinds.hpp"
#include "core/launch_files/megatron/megatron_script.hpp"
#include "core/launch_files/megatron/megatron_settings.hpp"
#include "core/launch_files/megatron/megatron_yaml.hpp"
#include "core/launch_files/named_overrides.hpp"
#include "core/launch_files/reinforcement/nemo_rl.hpp"
#include "core/launch_files/reinforcement/verl_ppo.hpp"
#include "core/launch_files/script_programs.hpp"
#include "core/launch_files/script_run.hpp"
#include "core/launch_files/shell/shell_script.hpp"
#include "core/launch_files/submitted_script.hpp"
#include "core/launch_files/torch/automodel_settings.hpp"
#include "core/launch_files/torch/axolotl_settings.hpp"
#include "core/launch_files/torch/deepspeed_settings.hpp"
#include "core/launch_files/torch/gpt_neox_settings.hpp"
#include "core/launch_files/torch/hugging_face_settings.hpp"
#include "core/launch_files/torch/titan/torchtitan_settings.hpp"
#include "core/launch_files/torch/torchtune_settings.hpp"

namespace plumbline {
namespace {

/// Result of `read`. A flag that is missing has no place of its own: its error begins with the file.
template <class Read>
auto with_place(const std::string& name, const Read& read) {
  try {
    return read();
  } catch (const InputError& error) {
    const std::string_view what = error.what();
    if (what.starts_with("--") && !what.starts_with(name))
      throw InputError(fmt::format("{}: {}", name, what));
    throw;
  }
}

LaunchFile megatron_of(FoundArguments found, const std::string& name, const BesideFile& beside) {
  LaunchFile file =
      with_place(name, [&] { return megatron_launch(found.arguments, found.launcher, {}, beside); });
  file.notes.insert(file.notes.end(), std::make_move_iterator(found.notes.begin()),
                    std::make_move_iterator(found.notes.end()));
  return file;
}

bool is_script(std::string_view text, const std::string& name) {
  if (name == kMegatronArguments || text.starts_with("#!") || name.ends_with(".sh") ||
      name.ends_with(".slurm") || name.ends_with(".sbatch"))
    return true;
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  // A flag, not YAML's "---".
  return first != std::string_view::npos && text.substr(first).starts_with("--") && first + 2 < text.size() &&
         text[first + 2] >= 'a' && text[first + 2] <= 'z';
}

/// Words of launch scripts, which comments of other files may have too.
bool names_a_launch(std::string_view text) {
  return text.find("pretrain_gpt.py") != std::string_view::npos ||
         text.find("torchrun ") != std::string_view::npos;
}

/// The first line that says something is a table's title: "[job]".
bool looks_like_toml(std::string_view text, const std::string& name) {
  if (name.ends_with(".toml")) return true;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    const std::size_t first = line.find_first_not_of(" \t\r");
    if (first == std::string_view::npos || line[first] == '#') continue;
    line = line.substr(first, line.find_last_not_of(" \t\r") + 1 - first);
    return line.size() > 2 && line[0] == '[' && line[1] >= 'a' && line[1] <= 'z' && line.back() == ']' &&
           line.find_first_of(",\"'") == std::string_view::npos;
  }
  return false;
}

bool has_all(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::all_of(words.begin(), words.end(),
                     [&](std::string_view word) { return text.find(word) != std::string_view::npos; });
}

/// A configuration as a framework prints it.
std::optional<LaunchFile> read_launch_json(std::string_view text, const std::string& name,
                                           const BesideFile& beside) {
  if (has_all(text, {"\"parallelism\"", "\"training\"", "\"flavor\""}))
    return torchtitan_launch(json_arguments(parse_json_object(text, name), name), beside);
  constexpr std::string_view kDeepSpeedKeys[] = {"\"train_micro_batch_size_per_gpu\"", "\"train_batch_size\"",
                                                 "\"zero_optimization\""};
  if (std::any_of(std::begin(kDeepSpeedKeys), std::end(kDeepSpeedKeys),
                  [&](std::string_view key) { return text.find(key) != std::string_view::npos; }))
    return deepspeed_launch(json_arguments(parse_json_object(text, name), name), beside);
  return std::nullopt;
}

std::optional<LaunchFile> read_launch_yaml(std::string_view text, const std::string& name,
                                           const OtherFile& other, const BesideFile& beside) {
  if (has_yaml_key(text, "distributed_type") || has_yaml_key(text, "compute_environment"))
    return accelerate_launch(yaml_arguments(std::string(text), name), other, beside);
  if (has_yaml_key(text, "model_name_or_path") || has_yaml_key(text, "per_device_train_batch_size"))
    return trainer_launch(yaml_arguments(std::string(text), name), other, beside);
  if (has_yaml_key(text, "base_model") && has_yaml_key(text, "micro_batch_size"))
    return axolotl_launch(yaml_arguments(std::string(text), name), other, beside);
  if (auto launch = with_place(name, [&] { return megatron_yaml_launch(text, name, beside); })) return launch;
  if (auto primus = with_place(name, [&] { return primus_launch(text, name, beside); })) return primus;
  if (auto steps = with_place(name, [&] { return nemo_rl_launch(text, name, other, beside); })) return steps;
  if (auto steps = with_place(name, [&] { return verl_ppo_file(text, name, beside); })) return steps;
  if (auto recipe = automodel_launch(text, name, beside)) return recipe;
  if (auto recipe = torchtune_file(text, name, beside)) return recipe;
  refuse_unread_file(text, name);
  return with_place(name, [&] { return overrides_launch(text, name, beside); });
}

std::optional<LaunchFile> read_one(std::string_view text, const std::string& name, const OtherFile& other,
                                   const BesideFile& beside, int depth = 0) {
  constexpr int kMostSubmitted = 4;  // scripts that start each other
  if (text.find(" ...") != std::string_view::npos) {
    if (auto log = arguments_of_log(text, name)) return megatron_of(std::move(*log), name, beside);
  }
  const bool script = is_script(text, name);
  if (name.ends_with(".py")) refuse_unread_script(text, name);
  if (!script && looks_like_toml(text, name)) {
    std::vector<LaunchArgument> arguments = toml_arguments(text, name);
    if (arguments.empty())
      throw InputError(
          fmt::format("{}: found no key, expected those of torchtitan; add [model], [training]", name));
    return torchtitan_launch(std::move(arguments), beside);
  }
  if (!script) {
    if (auto neox = with_place(name, [&] { return gpt_neox_launch(text, name, beside); })) return neox;
  }
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (!script && first != std::string_view::npos && text[first] == '{') {
    auto json = read_launch_json(text, name, beside);
    if (!json) refuse_unread_file(text, name);
    return json;
  }
  if (!script) {
    if (auto yaml = read_launch_yaml(text, name, other, beside)) return yaml;
  }
  if (!script && !names_a_launch(text)) return std::nullopt;
  if (auto program = with_place(name, [&] { return program_launch(text, name, other, beside); }))
    return program;
  refuse_unread_script(text, name);
  if (auto found = arguments_of_script(text, name, other, beside))
    return megatron_of(std::move(*found), name, beside);
  if (const auto job = depth < kMostSubmitted ? submitted_script(text, name, other, beside) : std::nullopt)
    return read_one(job->text, job->name, other, job->beside, depth + 1);
  for (const std::string& note :
       read_shell_script(text, name, other, beside.variables, beside.exported).notes) {
    if (note.find("` is not read") == std::string::npos) continue;
    throw InputError(
        fmt::format("{}: found a script without arguments of training, expected them: {}, which may have "
                    "them; put that file beside the script",
                    name, note));
  }
  throw InputError(
      fmt::format("{}: found a script without arguments of Megatron-LM such as --num-layers; expected "
                  "them in one command, or in variables; add them, or change to plumbline's keys",
                  name));
}

/// The same with all faults of values told at once.
std::optional<LaunchFile> read_whole(std::string_view text, const std::string& name, const OtherFile& other,
                                     const BesideFile& beside) {
  std::optional<LaunchFile> file = read_one(text, name, other, beside);
  if (!file) return file;
  for (std::string& fault : file->faults)
    if (fault.starts_with("--") && !fault.starts_with(name)) fault = fmt::format("{}: {}", name, fault);
  if (!file->faults.empty()) file->require_modelled();
  file->require_ignored(name);
  return file;
}

}  // namespace

OtherFile files_near(const std::string& path) {
  constexpr int kMostFolders = 8;
  return [path](const std::string& named) -> std::optional<std::string> {
    std::filesystem::path folder;
    std::error_code ignored;
    for (int i = 0; i < kMostFolders; ++i) {
      const std::filesystem::path file = folder / named;
      if (std::filesystem::is_regular_file(file, ignored))
        return read_text_file(file.string(), kMostLaunchBytes);
      folder = i == 0 ? std::filesystem::absolute(path, ignored).parent_path() : folder.parent_path();
    }
    return std::nullopt;
  };
}

std::optional<LaunchFile> read_long_log(const std::string& path, const std::string& name,
                                        const BesideFile& beside) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored) ||
      std::filesystem::file_size(path, ignored) <= kMostLaunchBytes)
    return std::nullopt;
  const MappedFile file(path);
  const auto bytes = file.bytes();
  auto log = arguments_of_log({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, name);
  if (!log) {
    throw InputError(fmt::format(
        "{}: found {} bytes without a list of Megatron-LM's arguments, expected a file of at most "
        "{}; change the file",
        name, bytes.size(), kMostLaunchBytes));
  }
  return megatron_of(std::move(*log), name, beside);
}

namespace {

std::optional<LaunchFile> read_given(std::string_view text, const std::string& name, const OtherFile& other,
                                     const BesideFile& beside) {
  try {
    return read_whole(text, name, other, beside);
  } catch (const InputError& refused) {
    if (beside.keys.empty()) throw;
    BesideFile more = beside;
    more.replaces_rules = true;
    try {
      return read_whole(text, name, other, more);
    } catch (const InputError&) {
      throw refused;
    }
  }
}

/// Launch file of the commands that the script starts in a sandbox.
std::optional<LaunchFile> read_run(std::string_view text, const std::string& name, const OtherFile& other,
                                   const BesideFile& beside) {
  if (!is_script(text, name) && !names_a_launch(text))
    throw InputError(
        fmt::format("{}: found with --run-script, expected a shell script; remove the option", name));
  const ScriptRun run = run_script(text, name, beside);
  try {
    auto file = read_given(run.text, name + " (run)", other, beside);
    if (file) file->notes.insert(file->notes.begin(), run.notes.begin(), run.notes.end());
    return file;
  } catch (const InputError& refused) {
    if (run.ending.empty()) throw;
    const std::string with_ending = fmt::format("{}; of the script, {}", refused.what(), run.ending);
    throw InputError(with_ending);
  }
}

/// The script reads arguments of its command line: $1, ${10}.
bool reads_arguments(std::string_view text) {
  for (std::size_t at = text.find('$'); at != std::string_view::npos; at = text.find('$', at + 1)) {
    const std::string_view rest = text.substr(at + 1, 2);
    const std::size_t digit = rest.starts_with('{') ? 1 : 0;
    if (digit < rest.size() && rest[digit] >= '1' && rest[digit] <= '9') return true;
  }
  return false;
}

/// Phrases of refusals that another way of reading answers: code that is not evaluated.
bool needs_a_run(std::string_view refusal) {
  constexpr std::string_view kPhrases[] = {"not evaluated", "it is not known if", " may set, since ",
                                           "` is not read", "which is not read; expected a launch script"};
  return std::any_of(std::begin(kPhrases), std::end(kPhrases),
                     [&](std::string_view phrase) { return refusal.find(phrase) != std::string_view::npos; });
}

}  // namespace

std::optional<LaunchFile> read_launch_file(std::string_view text, const std::string& name,
                                           const OtherFile& other, const BesideFile& beside) {
  if (!beside.run_script.empty()) return read_run(text, name, other, beside);
  try {
    return read_given(text, name, other, beside);
  } catch (const InputError& refused) {
    if (name == kMegatronArguments || !needs_a_run(refused.what())) throw;
    const bool open = reads_arguments(text) && !beside.variables.contains("1");
    const std::string with_a_way_out =
        fmt::format("{}{}, or add --run-script, which runs the script in a sandbox", refused.what(),
                    open ? ", or give the script's arguments with --script-args 'A B'" : "");
    throw InputError(with_a_way_out);
  }
}

}  // namespace plumbline
