#include "bench/training/checkpoints/checkpoint_start.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <system_error>

#include "bench/training/checkpoints/run_identity.hpp"
#include "core/base/atomic_file.hpp"
#include "core/base/byte_text.hpp"
#include "core/base/error.hpp"

namespace plumbline::training {
namespace {

void require_room(const CheckpointOptions& options, const RunConfig& config) {
  std::error_code unknown;
  const std::filesystem::space_info space = std::filesystem::space(options.folder, unknown);
  if (unknown) return;
  const Bytes one = checkpoint_bytes(config);
  const std::int64_t there = std::ssize(complete_steps(options.folder));
  const std::int64_t more = std::max<std::int64_t>(1, options.keep + 1 - there);
  const double wanted = static_cast<double>(one.value) * static_cast<double>(more);
  if (static_cast<double>(space.available) >= wanted) return;
  throw OutputError(fmt::format(
      "--checkpoint-dir: {}: found {} free, expected room for {} more checkpoints of {} each; name another "
      "folder, or a smaller --keep-checkpoints",
      options.folder, brief_bytes({static_cast<std::int64_t>(space.available)}), more, brief_bytes(one)));
}

}  // namespace

void check_checkpoint_options(const CheckpointOptions& options, const RunConfig& config) {
  if (options.folder.empty()) {
    if (options.interval > 0 || options.async || options.resume_newest) {
      throw InputError(
          "--checkpoint-dir: missing; expected the folder for --checkpoint-interval, --async-save or "
          "--resume");
    }
    return;
  }
  if (config.machine.backend == Backend::emulated) {
    throw InputError(
        "--checkpoint-dir: found with backend emulated, which computes no values, expected cpu or cuda; "
        "leave it out or use cpu");
  }
}

void make_checkpoint_folder(const std::string& folder) {
  check_can_fill(folder, "--checkpoint-dir");
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw OutputError(fmt::format("--checkpoint-dir: found {}, expected a folder that can be made: {}",
                                  folder, error.message()));
}

std::vector<std::string> choose_checkpoint(CheckpointOptions& options, std::int64_t below) {
  std::vector<std::string> remarks;
  const auto found = newest_checkpoint(options.folder, below,
                                       [&](const std::string& damaged) { remarks.push_back(damaged); });
  options.resume = found ? found->folder : "";
  for (std::string& remark : remarks)
    remark.insert(0, found ? "damaged checkpoint, the one before is taken: " : "damaged checkpoint: ");
  return remarks;
}

std::vector<std::string> prepare_checkpoints(CheckpointOptions& options, const RunConfig& config) {
  check_checkpoint_options(options, config);
  if (options.folder.empty()) return {};
  make_checkpoint_folder(options.folder);
  remove_unfinished(options.folder);
  std::vector<std::string> remarks;
  if (options.resume_newest) {
    remarks = choose_checkpoint(options, std::numeric_limits<std::int64_t>::max());
    if (options.resume.empty() && !remarks.empty()) {
      throw InputError(
          fmt::format("--resume: {}: found damaged checkpoints only ({}), expected an intact one; remove "
                      "those to begin with the first step, or name another folder",
                      options.folder, remarks.front()));
    }
    if (options.resume.empty()) {
      remarks.push_back(
          fmt::format("--resume: no checkpoint in {}, the run begins with the first step", options.folder));
    } else {
      const FoundCheckpoint found{options.resume, read_facts(options.resume)};
      require_same_run(found, config);
      const int all = config.measure.warmup_steps + config.measure.steps;
      if (found.facts.step >= all) {
        throw InputError(fmt::format(
            "--resume: found {} of step {}, expected an earlier step than the last, {}; ask for more steps",
            found.folder, found.facts.step, all));
      }
    }
  } else if (!complete_steps(options.folder).empty()) {
    throw InputError(
        fmt::format("--checkpoint-dir: found checkpoints of an earlier run in {}, expected none without "
                    "--resume; add --resume to go on from them, or name another folder",
                    options.folder));
  }
  require_room(options, config);
  return remarks;
}

}  // namespace plumbline::training
