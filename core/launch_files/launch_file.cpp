#include "core/launch_files/launch_file.hpp"

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "core/base/error.hpp"
#include "core/launch_files/megatron_script.hpp"
#include "core/launch_files/megatron_settings.hpp"

namespace plumbline {
namespace {

LaunchFile megatron_of(FoundArguments found, const std::string& name) {
  try {
    LaunchFile file = megatron_launch(found.arguments, found.launcher);
    file.notes.insert(file.notes.end(), std::make_move_iterator(found.notes.begin()),
                      std::make_move_iterator(found.notes.end()));
    return file;
  } catch (const InputError& error) {
    const std::string_view what = error.what();
    // A flag that is missing has no place of its own.
    if (what.starts_with("--") && !what.starts_with(name))
      throw InputError(fmt::format("{}: {}", name, what));
    throw;
  }
}

/// Words that a file of another kind than a script does not have at its begin.
bool looks_like_script(std::string_view text, const std::string& name) {
  if (text.starts_with("#!") || name.ends_with(".sh") || name.ends_with(".slurm") ||
      name.ends_with(".sbatch"))
    return true;
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  // A flag, not YAML's "---".
  if (first != std::string_view::npos && text.substr(first).starts_with("--") && first + 2 < text.size() &&
      text[first + 2] >= 'a' && text[first + 2] <= 'z')
    return true;
  return text.find("pretrain_gpt.py") != std::string_view::npos ||
         text.find("torchrun ") != std::string_view::npos;
}

}  // namespace

std::optional<LaunchFile> read_launch_file(std::string_view text, const std::string& name) {
  if (text.find(" ...") != std::string_view::npos) {
    if (auto log = arguments_of_log(text, name)) return megatron_of(std::move(*log), name);
  }
  if (looks_like_script(text, name)) {
    if (auto script = arguments_of_script(text, name)) return megatron_of(std::move(*script), name);
    throw InputError(
        fmt::format("{}: found a script without arguments of Megatron-LM such as --num-layers; expected "
                    "them in one command, or in variables",
                    name));
  }
  return std::nullopt;
}

}  // namespace plumbline
