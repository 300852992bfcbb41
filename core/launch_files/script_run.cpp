#include "core/launch_files/script_run.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/one_line.hpp"
#include "core/launch_files/sandbox/sandbox.hpp"

namespace plumbline {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kMostArguments = 99;
constexpr const char* kReadVariables[] = {"NPROC_PER_NODE", "NNODES"};  // ms-swift's
constexpr std::size_t kMostNamed = 8;                                   // programs of a note

bool is_below(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

/// The folder that a script sees: the current one if the script is below it, else the script's; none that
/// holds the user's home.
std::string visible_folder(const fs::path& script) {
  std::error_code error;
  const char* const given = std::getenv("HOME");
  const fs::path home = fs::weakly_canonical(given == nullptr ? "/root" : given, error);
  const fs::path current = fs::current_path(error);
  for (const fs::path& folder : {current, script.parent_path()})
    if (is_below(script, folder) && folder != "/" && !is_below(home, folder)) return folder.string();
  return "";
}

std::string quoted(const std::string& text) {
  std::string all = "'";
  for (const char c : text) all += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return all + "'";
}

/// A word with the variables that another shell would expand in it (srun bash -c 'torchrun --nnodes $NODES'),
/// where their values are plain.
std::string expanded(const std::string& word, const std::map<std::string, std::string>& environment) {
  constexpr std::string_view kName = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
  constexpr std::string_view kPlain = "-+./:,=@%";
  std::string all;
  for (std::size_t at = 0; at < word.size(); ++at) {
    all += word[at];
    if (word[at] == '\\' && at + 1 < word.size()) all += word[++at];
    if (word[at] != '$' || all.ends_with("\\$")) continue;
    const bool braces = word.compare(at + 1, 1, "{") == 0;
    const std::size_t begin = at + (braces ? 2 : 1);
    const std::size_t end = std::min(word.find_first_not_of(kName, begin), word.size());
    const auto found = environment.find(word.substr(begin, end - begin));
    if (found == environment.end() || (braces && word.compare(end, 1, "}") != 0)) continue;
    const auto plain = [&](char c) {
      return kName.find(c) != std::string_view::npos || kPlain.find(c) != std::string_view::npos;
    };
    if (!std::all_of(found->second.begin(), found->second.end(), plain)) continue;
    all.pop_back();
    all += found->second;
    at = end - (braces ? 0 : 1);
  }
  return all;
}

std::string line_of(const SandboxCommand& command) {
  std::string line;
  for (const char* const name : kReadVariables)
    if (const auto found = command.environment.find(name); found != command.environment.end())
      line += fmt::format("{}={} ", name, quoted(found->second));
  for (const std::string& word : command.words) line += quoted(expanded(word, command.environment)) + " ";
  return line + "\n";
}

/// Comments of Slurm, which hold the number of nodes.
std::string job_comments(std::string_view text) {
  std::string comments;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (text.starts_with("#SBATCH")) comments += fmt::format("{}\n", text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return comments;
}

/// `--set 2=8B` gives the script's second argument.
SandboxJob job_of(const BesideFile& beside) {
  SandboxJob job{fs::canonical(beside.run_script).string()};
  job.folder = visible_folder(job.script);
  for (const auto& [name, value] : beside.variables) {
    std::size_t number = 0;
    std::from_chars(name.data(), name.data() + name.size(), number);
    if (number == 0) {
      job.environment[name] = value;
    } else if (number <= kMostArguments) {
      if (job.arguments.size() < number) job.arguments.resize(number);
      job.arguments[number - 1] = value;
    }
  }
  return job;
}

}  // namespace

ScriptRun run_script(std::string_view text, const std::string& name, const BesideFile& beside) {
  const SandboxRun run = run_in_sandbox(job_of(beside));
  if (!run.unavailable.empty())
    throw InputError(fmt::format(
        "--run-script: found no sandbox on this machine ({}), expected user namespaces and /bin/bash; "
        "remove the option, or allow them (kernel.unprivileged_userns_clone, user.max_user_namespaces)",
        printable(run.unavailable, 200)));
  if (!run.limit.empty())
    throw InputError(
        fmt::format("{}: --run-script: found a script that needs more than {}, expected one that starts its "
                    "training at once; remove the option",
                    name, run.limit));
  ScriptRun done;
  if (run.status != 0)
    done.ending = fmt::format("it ended with status {}{}", run.status,
                              run.complaint.empty() ? "" : ": " + printable(run.complaint, 200));
  if (run.commands.empty())
    throw InputError(
        fmt::format("{}: --run-script: found a script that starts nothing{}, expected a command such as "
                    "torchrun, python or srun; give its variables with --set, or remove the option",
                    name, done.ending.empty() ? "" : " (" + done.ending + ")"));
  done.text = "#!/bin/bash\n" + job_comments(text);
  std::vector<std::string> programs;
  for (const SandboxCommand& each : run.commands) {
    done.text += line_of(each);
    const std::string program = printable(each.words.front());
    if (std::find(programs.begin(), programs.end(), program) == programs.end()) programs.push_back(program);
  }
  const bool more = programs.size() > kMostNamed;
  if (more) programs.resize(kMostNamed);
  done.notes.push_back(
      fmt::format("{}: run in a sandbox, where these programs only wrote their command down: {}{}", name,
                  fmt::join(programs, ", "), more ? " and others" : ""));
  if (!done.ending.empty()) done.notes.push_back(fmt::format("{}: {}", name, done.ending));
  return done;
}

}  // namespace plumbline
