// `plumbline run`: measures one configuration on ranks of its own and sets it beside the prediction.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <memory>

#include "bench/budget_check.hpp"
#include "bench/commands.hpp"
#include "bench/config_options.hpp"
#include "bench/evaluation.hpp"
#include "bench/launch.hpp"
#include "bench/plan.hpp"
#include "bench/reports.hpp"
#include "bench/side_by_side.hpp"
#include "core/error.hpp"

namespace plumbline {
namespace {

ExitCode exit_code_of(Status status) {
  switch (status) {
    case Status::ok:
      return ExitCode::done;
    case Status::oom:
      return ExitCode::does_not_fit;
    case Status::invalid:
    case Status::unsupported:
      return ExitCode::bad_input;
    case Status::failed:
      return ExitCode::rank_failed;
    case Status::timeout:
      return ExitCode::timed_out;
  }
  return ExitCode::rank_failed;
}

/// A folder for the files of one run, gone at the end.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "plumbline-run-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) {
      throw InputError(
          fmt::format("cannot make a temporary folder like {}; set TMPDIR to a writable one", pattern));
    }
    path_ = pattern;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

int launch_and_compare(const RunConfig& config, const RunFiles& files, bool json) {
  Record record = start_record("run", config);
  if (record.status != Status::ok || !has_device(config, record)) throw InputError(record.reason);
  std::string note;
  const Schedule schedule = schedule_for(config);
  check_budget(config, schedule);
  record.prediction = report_of(predict(config, schedule, hardware_of(config, note)), config, schedule);
  if (!note.empty()) fmt::print(stderr, "note: {}\n", note);

  const ScratchFolder scratch;
  const auto show = [](const OutputLine& line) {
    if (line.rank >= 0 && line.error_stream) fmt::print(stderr, "{}\n", line.text);
  };
  CellProgram program;
  for (const auto& [option, file] :
       {std::pair("--trace", files.trace), std::pair("--timelines", files.timelines)}) {
    if (!file.empty()) {
      program.command.insert(program.command.end(), {option, std::filesystem::absolute(file).string()});
    }
  }
  measure_cell(config, program, {.folder = scratch.path(), .name = "run", .go_on = {}, .on_line = show},
               record);
  if (record.status == Status::invalid) throw InputError(record.reason);
  fmt::print("{}", json ? to_json(record).dump(2) + "\n" : side_by_side(record));
  return static_cast<int>(exit_code_of(record.status));
}

}  // namespace

void add_run_command(CLI::App& app, CommandAction& action) {
  CLI::App* command = app.add_subcommand(
      "run", "Measure one configuration and compare with its prediction; starts mpirun itself");
  const auto options = std::make_shared<ConfigOptions>();
  const auto json = std::make_shared<bool>(false);
  add_config_options(*command, *options);
  command->add_flag("--json", *json, "Print the record as JSON");
  const auto files = std::make_shared<RunFiles>();
  command
      ->add_option("--trace", files->trace,
                   "Write the predicted and the measured timeline and memory for ui.perfetto.dev")
      ->type_name("FILE.json");
  command->add_option("--timelines", files->timelines)->group("");  // what `matrix` asks its ranks for
  command->callback([=, &action] {
    action = [=] {
      const RunConfig config = options->load();
      if (already_launched_by() == nullptr) return launch_and_compare(config, *files, *json);
      int argc = 0;
      char** argv = nullptr;
      return run_as_rank(config, *files, argc, argv);
    };
  });
}

}  // namespace plumbline
