// `plumbline goodput`: a month of training on many GPUs, with their failures.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <thread>

#include "analysis/predict/predict.hpp"
#include "analysis/published/comparable_runs.hpp"
#include "analysis/published/verdict.hpp"
#include "analysis/reliability/goodput.hpp"
#include "bench/commands/commands.hpp"
#include "bench/commands/config_options.hpp"
#include "bench/commands/number_range.hpp"
#include "bench/commands/reliability/job_options.hpp"
#include "bench/plan/plan.hpp"
#include "bench/show/text/still_working.hpp"
#include "bench/show/text/wrap.hpp"
#include "bench/show/views/cluster/goodput_plot.hpp"
#include "bench/show/views/cluster/goodput_report.hpp"
#include "core/base/atomic_file.hpp"
#include "core/base/error.hpp"
#include "core/base/standard_streams.hpp"
#include "core/config/config_checks.hpp"

namespace plumbline {
namespace {

struct GoodputOptions {
  ConfigOptions config;
  JobOptions job;
  double days = 30;
  int trials = 10000;
  double step = 0;
  int spares = -1;
  double repair_hours = 0;
  int groups = 0;
  bool elastic_restarts = false;
  double drop = 10;
  double rejoin = 10;
  double watts = 0;
  double gpu_hour = 0;
  double kwh = 0;
  std::string plot;
  bool published = false;
  bool json = false;
  bool html = false;
  bool quiet = false;
};

std::optional<double> given(double value) {
  return value > 0 ? std::optional(value) : std::nullopt;
}

/// Sets the seconds of a step without failures: measured, or predicted with the errors of comparable runs.
/// Returns the verdict on the memory of one that is predicted.
std::optional<MemoryVerdict> set_step(const GoodputOptions& options, const RunConfig& config,
                                      GoodputRequest& request) {
  if (options.step > 0) {
    request.step = {options.step};
    return std::nullopt;
  }
  if (config.machine.hardware.empty()) {
    throw InputError(
        "goodput: hardware: missing; expected the accelerators that the step is predicted for, or its "
        "measured time as "
        "--step-time");
  }
  const HardwareProfile hardware = load_hardware(config.machine.hardware);
  if (const auto reason = why_unpredictable(config)) throw InputError(fmt::format("goodput: {}", *reason));
  if (const auto reason = why_unpredictable(config, hardware))
    throw InputError(fmt::format("goodput: {}", *reason));
  const StillWorking working("predicting the step", options.quiet ? nullptr : stderr);
  const Prediction prediction = predict(config, step_for(config), hardware);
  if (!prediction.fit.fits) {
    throw OutOfMemory(
        fmt::format("goodput: found a configuration that does not fit its memory, expected one that fits; "
                    "`predict` shows the memory"));
  }
  request.step = prediction.time.step;
  const auto runs = std::make_shared<ComparableRuns>(known_runs(), kind_of(config, hardware), "step_s");
  if (hardware.accelerator() != nullptr && runs->interval())
    request.step_ratio = [runs](double share) { return runs->ratio_at(share); };
  return verdict_of(config, hardware, prediction.fit);
}

/// Groups that hold all states: a part of the data-parallel replicas each.
void check_groups(int groups, bool from_checkpoint, const RunConfig& config) {
  const int replicas = config.parallel.data();
  if (replicas % groups != 0) {
    throw InputError(fmt::format("goodput: --elastic {}: expected a divisor of the {} data-parallel replicas",
                                 groups, replicas));
  }
  const bool sharded = config.parallel.effective_zero_stage() > 0;
  if (sharded && groups == replicas && !from_checkpoint) {
    throw InputError(
        fmt::format("goodput: --elastic {}: with zero_stage {} every replica holds a part of the states, "
                    "which is lost with it; "
                    "expected fewer groups, of several replicas each, zero_stage 0 or --elastic-restarts",
                    groups, config.parallel.dp.zero_stage));
  }
}

SpareNodes spares_of(const GoodputOptions& options) {
  if (options.spares < 0) return {SpareNodes::kAlways, {3600 * options.repair_hours}};
  if (options.repair_hours <= 0) {
    throw InputError(
        "goodput: --repair-hours: missing; expected how long a node that failed is away from the spares");
  }
  return {options.spares, {3600 * options.repair_hours}};
}

GoodputRequest request_of(const GoodputOptions& options, const RunConfig& config) {
  check_checkpoint(options.job, config, "goodput");
  GoodputRequest request = job_of(options.job);
  if (request.checkpoint.size.value == 0)
    request.checkpoint.size = {kCheckpointBytesPerParameter * config.model.parameters()};
  request.gpus = config.parallel.world_size;
  request.tokens_per_step =
      static_cast<double>(config.batch.global_batch_size) * static_cast<double>(config.batch.seq_length);
  if (options.groups > 0) {
    check_groups(options.groups, options.elastic_restarts, config);
    request.recovery.elastic_groups = options.groups;
    request.recovery.elastic_restarts = options.elastic_restarts;
  }
  request.drop = {options.drop};
  request.rejoin = {options.rejoin};
  request.trials.trials = options.trials;
  request.trials.horizon = {86400 * options.days};
  request.trials.seed = config.measure.seed;
  request.trials.threads = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, 64U));
  request.trials.spares = spares_of(options);
  request.prices = {given(options.gpu_hour), given(options.watts), given(options.kwh)};
  if (request.prices.kwh && !request.prices.watts_per_gpu) {
    throw InputError("goodput: --gpu-watts: missing; expected the power of a GPU alongside --kwh-price");
  }
  return request;
}

int run_goodput(const GoodputOptions& options) {
  if (options.published) {
    const std::vector<PublishedCheck> checks = published_checks();
    fmt::print("{}", options.json ? published_checks_json(checks) : published_checks_text(checks));
    return static_cast<int>(ExitCode::done);
  }
  const RunConfig config = options.config.load_with_notes();
  if (const auto reason = why_invalid(config)) throw InputError(fmt::format("goodput: {}", *reason));
  GoodputRequest request = request_of(options, config);
  const std::optional<MemoryVerdict> memory = set_step(options, config, request);
  const StillWorking working("simulating failures", options.quiet ? nullptr : stderr);
  const GoodputReport report = plan_goodput(request);
  if (!options.plot.empty()) write_whole_file(options.plot, goodput_svg(request, report));
  fmt::print("{}", options.json   ? goodput_json(request, report, memory)
                   : options.html ? goodput_page(request, report, memory)
                                  : within_terminal(goodput_text(request, report, memory)));
  return static_cast<int>(ExitCode::done);
}

void add_elastic_options(CLI::App& command, GoodputOptions& options) {
  command.add_option("--spares", options.spares, "Spare nodes (default: unlimited)")
      ->check(number_from(0, 1'000'000));
  command.add_option("--repair-hours", options.repair_hours, "Repair time of a failed node, in hours")
      ->check(number_from(0.001, 1e6));
  auto* elastic = command
                      .add_option("--elastic", options.groups,
                                  "Elastic groups of data-parallel replicas, each with all states; a failed "
                                  "one leaves, the others go on")
                      ->check(number_from(2, 1'000'000));
  command
      .add_flag("--elastic-restarts", options.elastic_restarts,
                "Restart from the last checkpoint when an elastic group leaves or returns, in place of "
                "--drop and --rejoin")
      ->needs(elastic);
  command.add_option("--drop", options.drop, "Pause of the other elastic groups after detection, in seconds")
      ->check(number_from(0.0, 1e7))
      ->needs(elastic)
      ->capture_default_str();
  command.add_option("--rejoin", options.rejoin, "Pause when an elastic group returns, in seconds")
      ->check(number_from(0.0, 1e7))
      ->needs(elastic)
      ->capture_default_str();
}

}  // namespace

void add_goodput_command(CLI::App& app, CommandAction& action) {
  CLI::App* command = app.add_subcommand("goodput", "Predict goodput under failures and checkpoints");
  const auto options = std::make_shared<GoodputOptions>();
  add_config_options(*command, options->config);
  add_fleet_option(*command, options->job);
  command->add_option("--days", options->days, "Length of each trial, in days")
      ->check(number_from(0.01, 3650.0))
      ->capture_default_str();
  command->add_option("--trials", options->trials, "Simulated trials")
      ->check(number_from(1, 10'000'000))
      ->capture_default_str();
  command
      ->add_option("--step-time", options->step, "Measured step time, in seconds, in place of the prediction")
      ->check(number_from(1e-6, 1e6));
  add_recovery_options(*command, options->job);
  add_elastic_options(*command, *options);
  add_checkpoint_options(*command, options->job);
  command
      ->add_option("--gpu-watts", options->watts,
                   "Power per GPU with its share of host, network and cooling, in watts")
      ->check(number_from(1.0, 1e5));
  command->add_option("--gpu-hour-price", options->gpu_hour, "Price of a GPU-hour")
      ->check(number_from(1e-9, 1e9));
  command->add_option("--kwh-price", options->kwh, "Price of a kWh")->check(number_from(1e-9, 1e9));
  command->add_option("--plot", options->plot, "Write a picture of effective time by checkpoint interval")
      ->type_name("FILE.svg");
  command->add_flag("--published", options->published,
                    "Compare the formulas with published figures, and nothing else");
  auto* json = command->add_flag("--json", options->json, "Print the result as JSON");
  command->add_flag("--html", options->html, "Print a page with tables and pictures")->excludes(json);
  command->callback([=, &app, &action] {
    action = [=, &app] {
      options->quiet = is_quiet(app);
      return run_goodput(*options);
    };
  });
}

}  // namespace plumbline
