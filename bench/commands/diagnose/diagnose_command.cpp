// `plumbline diagnose`: the time of somebody's measured step by category, beside the prediction.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/diagnose/diagnosis.hpp"
#include "analysis/diagnose/expected_time.hpp"
#include "analysis/diagnose/logs/iteration_log.hpp"
#include "analysis/diagnose/traces/trace_reader.hpp"
#include "analysis/published/comparable_figures.hpp"
#include "bench/commands/commands.hpp"
#include "bench/commands/config_options.hpp"
#include "bench/commands/diagnose/trace_arguments.hpp"
#include "bench/commands/number_range.hpp"
#include "bench/plan/plan.hpp"
#include "bench/show/text/still_working.hpp"
#include "bench/show/views/diagnose/diagnosis_report.hpp"
#include "bench/show/views/diagnose/log_report.hpp"
#include "core/base/error.hpp"
#include "core/base/output_json.hpp"
#include "core/base/standard_streams.hpp"
#include "core/config/config_checks.hpp"

namespace plumbline {
namespace {

struct DiagnoseOptions {
  ConfigOptions config;
  std::vector<std::string> files;
  std::optional<std::int64_t> step;
  std::string log;
  bool json = false;
  bool quiet = false;
};

/// The prediction of CONFIG, and its sizes for the groups of the trace.
struct AskedPrediction {
  RunConfig config;
  std::string hardware;
  Prediction prediction;
  std::string comparable;  // interval of comparable published runs
};

AskedPrediction predicted(const ConfigOptions& options) {
  AskedPrediction asked{options.load_with_notes(), "", {}, ""};
  if (const auto reason = why_invalid(asked.config)) throw InputError(fmt::format("diagnose: {}", *reason));
  if (asked.config.machine.hardware.empty()) {
    throw InputError(
        "diagnose: hardware: missing; expected the accelerator of the trace; add --hardware, for example "
        "h100");
  }
  if (const auto reason = why_unpredictable(asked.config))
    throw InputError(fmt::format("diagnose: {}", *reason));
  const HardwareProfile hardware = load_hardware(asked.config.machine.hardware);
  if (const auto reason = why_unpredictable(asked.config, hardware))
    throw InputError(fmt::format("diagnose: {}", *reason));
  asked.hardware = asked.config.machine.hardware;
  asked.prediction = predict(asked.config, step_for(asked.config), hardware);
  asked.comparable = comparable_line(comparable_figures(asked.config, hardware, asked.prediction),
                                     asked.prediction.time.step);
  return asked;
}

int run_log(const DiagnoseOptions& options) {
  std::optional<AskedPrediction> asked;
  if (!options.config.source.empty() || options.config.gives("model")) asked = predicted(options.config);
  const IterationLog log = read_iteration_log(options.log);
  double tokens_per_gpu = 0;
  double samples = 0;
  std::optional<ExpectedLog> expected;
  if (asked) {
    const BatchConfig& batch = asked->config.batch;
    samples = static_cast<double>(batch.global_batch_size);
    tokens_per_gpu = samples * static_cast<double>(batch.seq_length) / asked->config.parallel.world_size;
    expected.emplace(ExpectedLog{asked->config, asked->hardware, asked->prediction.time.step.value,
                                 static_cast<double>(asked->prediction.memory.peak.value),
                                 asked->comparable});
  }
  const IterationSummary summary = summary_of(log, tokens_per_gpu, samples);
  fmt::print("{}",
             options.json ? output_json(log_json(summary, expected), 2) + "\n" : log_text(summary, expected));
  return static_cast<int>(ExitCode::done);
}

int run_diagnose(DiagnoseOptions& options) {
  std::vector<std::string> files;
  if (!options.config.source.empty()) files.push_back(options.config.source);
  files.insert(files.end(), options.files.begin(), options.files.end());
  TraceArguments arguments = sort_arguments(files);
  options.config.source = arguments.config;
  if (!options.log.empty()) {
    if (arguments.traces.empty() && !options.step) return run_log(options);
    throw InputError("diagnose: found --log with a trace, expected one of them; leave the other out");
  }
  if (arguments.traces.empty()) {
    throw InputError(
        "diagnose: found no trace, expected TRACE files of PyTorch's profiler or plumbline; add one a rank");
  }
  StillWorking working("reading traces", options.quiet ? nullptr : stderr);
  std::optional<AskedPrediction> asked;
  if (!options.config.source.empty() || options.config.gives("model")) asked = predicted(options.config);
  std::vector<ProfileTrace> traces;
  for (const std::string& file : arguments.traces) {
    for (ProfileTrace& rank : read_trace_file(file)) traces.push_back(std::move(rank));
  }
  working.now("adding up the step");
  const Diagnosis diagnosis =
      diagnose(traces, options.step, asked ? group_sizes_of(asked->config) : GroupSizes{});
  std::optional<ExpectedStep> expected;
  if (asked) {
    const SharedTime time = expected_time(asked->prediction);
    expected = ExpectedStep{time, asked->hardware, asked->comparable, differences_of(diagnosis, time)};
  }
  for (const std::string& note : diagnosis.notes) say(fmt::format("note: {}\n", note));
  fmt::print("{}", options.json ? output_json(diagnosis_json(diagnosis, expected), 2) + "\n"
                                : diagnosis_text(diagnosis, expected));
  return static_cast<int>(ExitCode::done);
}

}  // namespace

void add_diagnose_command(CLI::App& app, CommandAction& action) {
  CLI::App* command =
      app.add_subcommand("diagnose", "Say where a measured step's time went, beside the prediction");
  const auto options = std::make_shared<DiagnoseOptions>();
  add_config_options(*command, options->config);
  command
      ->add_option("TRACE", options->files, "Traces, one a rank, folders of them, and CONFIG, in any order")
      ->type_name("TRACE");
  command->add_option("--step", options->step, "Step of the trace (default: the one of median time)")
      ->check(number_from(std::int64_t{0}, std::int64_t{1} << 53))
      ->type_name("K");
  command->add_option("--log", options->log, "Training log with iteration lines, in place of traces")
      ->type_name("FILE");
  command->add_flag("--json", options->json, "Print the result as JSON");
  command->callback([=, &app, &action] {
    action = [=, &app] {
      options->quiet = is_quiet(app);
      return run_diagnose(*options);
    };
  });
}

}  // namespace plumbline
