// Writing and submitting jobs.
#include "bench/matrix/job_script.hpp"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <string_view>

#include "core/base/atomic_file.hpp"
#include "core/base/error.hpp"
#include "core/base/one_line.hpp"
#include "core/base/output_folder.hpp"
#include "core/base/shell_word.hpp"

namespace plumbline {
namespace {

struct StartOption {
  std::string_view name;
  bool takes_value;
};
constexpr std::array<StartOption, 7> kForThisStart = {{{"--launcher", true},
                                                       {"--print-job", false},
                                                       {"--jobs", true},
                                                       {"--job-option", true},
                                                       {"--hostfile", true},
                                                       {"--share", false},
                                                       {"--out", true}}};

}  // namespace

std::vector<std::string> runner_arguments(const std::vector<std::string>& arguments,
                                          const std::string& folder) {
  std::vector<std::string> kept;
  kept.reserve(arguments.size() + 5);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    const auto* const found =
        std::find_if(kForThisStart.begin(), kForThisStart.end(), [&](const StartOption& option) {
          return word == option.name ||
                 (option.takes_value && word.starts_with(std::string(option.name) + "="));
        });
    if (found == kForThisStart.end()) {
      kept.push_back(word);
    } else if (found->takes_value && word == found->name) {
      ++i;  // and its value
    }
  }
  kept.insert(kept.end(), {"--out", folder, "--share", "--launcher", "mpirun"});
  return kept;
}

std::string job_script(const JobScript& job) {
  std::string command = shell_word(job.program);
  for (const std::string& word : runner_arguments(job.arguments, job.folder))
    command += " " + shell_word(word);
  std::string script = "#!/bin/bash\n#SBATCH --job-name=plumbline\n";
  script += fmt::format("#SBATCH --array=0-{}\n", job.jobs - 1);
  const auto given = [&](std::string_view option) {
    return std::any_of(job.options.begin(), job.options.end(),
                       [&](const std::string& each) { return each.starts_with(option); });
  };
  if (!given("--ntasks") && !given("-n")) script += fmt::format("#SBATCH --ntasks={}\n", job.ranks);
  script += fmt::format("#SBATCH --output={}/job-%A_%a.out\n", job.folder);
  script += "#SBATCH --open-mode=append\n#SBATCH --requeue\n#SBATCH --signal=B:USR1@60\n";
  for (const std::string& option : job.options) script += fmt::format("#SBATCH {}\n", option);
  script += fmt::format("cd {} || exit 2\n", shell_word(job.working_folder));
  script +=
      "# The time limit comes: the cell that runs is stopped, and the job goes on from where it is in its "
      "next turn.\n"
      "again=\n"
      "trap 'again=1; kill -TERM \"$runner\"' USR1\n";
  script += command + " &\nrunner=$!\n";
  script +=
      "wait \"$runner\"\ncode=$?\n"
      "while kill -0 \"$runner\" 2>/dev/null; do wait \"$runner\"; code=$?; done\n"
      "if [ -n \"$again\" ]; then exec scontrol requeue \"${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}\"; "
      "fi\n"
      "exit \"$code\"\n";
  return script;
}

std::string submit_job(const JobScript& job) {
  std::error_code error;
  std::filesystem::create_directories(job.folder, error);
  if (error)
    throw OutputError(
        fmt::format("{}: {}; expected a folder that can be written", job.folder, error.message()));
  const std::string path = job.folder + "/job.sh";
  OutputFolder::named(job.folder).write("job.sh", job_script(job));
  FILE* answer = popen(("sbatch --parsable " + shell_word(path) + " 2>&1").c_str(), "re");
  if (answer == nullptr) throw Error("sbatch: cannot be started");
  std::string said;
  std::array<char, 512> part{};
  while (std::fgets(part.data(), static_cast<int>(part.size()), answer) != nullptr && said.size() < 4096)
    said += part.data();
  const int status = pclose(answer);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
  if (code == 127)
    throw InputError("sbatch: not found; expected a host of a Slurm cluster (--print-job prints the job)");
  if (code != 0) throw Error(fmt::format("sbatch: {}", one_line(said)));
  return one_line(said);
}

}  // namespace plumbline
