// `plumbline goodput`: a month of training on many GPUs, with their failures.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <thread>

#include "analysis/predict/predict.hpp"
#include "analysis/reliability/goodput.hpp"
#include "bench/commands/commands.hpp"
#include "bench/commands/config_options.hpp"
#include "bench/evaluate/plan.hpp"
#include "bench/text/still_working.hpp"
#include "bench/views/cluster/goodput_plot.hpp"
#include "bench/views/cluster/goodput_report.hpp"
#include "core/base/atomic_file.hpp"
#include "core/base/error.hpp"
#include "core/base/text_input.hpp"
#include "core/config/config_checks.hpp"

namespace plumbline {
namespace {

struct GoodputOptions {
  ConfigOptions config;
  std::string fleet = "llama3-405b";
  double days = 30;
  int trials = 10000;
  double step = 0;
  double detect = 60;
  double restart = 162;
  double hot_swap = -1;
  std::string size;
  double write = 100;
  double read = 100;
  double stall = -1;
  double interval = 0;
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

/// Seconds of a step without failures: measured, or predicted.
Seconds step_of(const GoodputOptions& options, const RunConfig& config) {
  if (options.step > 0) return {options.step};
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
        fmt::format("goodput: the configuration does not fit its memory; `predict` says by how much"));
  }
  return prediction.time.step;
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
                    groups, config.parallel.zero_stage));
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
  GoodputRequest request;
  if (options.size.empty() && config.finetune.lora()) {
    throw InputError(
        "goodput: --checkpoint-size: missing; expected what a checkpoint of the adapters takes: with frozen "
        "lora the "
        "model itself is not written");
  }
  request.fleet = load_fleet(options.fleet);
  request.gpus = config.parallel.world_size;
  request.tokens_per_step =
      static_cast<double>(config.batch.global_batch_size) * static_cast<double>(config.batch.seq_length);
  request.checkpoint.size = options.size.empty()
                                ? Bytes{kCheckpointBytesPerParameter * config.model.parameters()}
                                : parse_bytes(options.size, "--checkpoint-size");
  request.checkpoint.write = {1e9 * options.write};
  request.checkpoint.read = {1e9 * options.read};
  if (options.stall >= 0) request.checkpoint.stall = Seconds{options.stall};
  if (options.interval > 0) request.interval = Seconds{options.interval};
  request.recovery.detect = {options.detect};
  request.recovery.restart = {options.restart};
  if (options.hot_swap >= 0) request.recovery.hot_swap = Seconds{options.hot_swap};
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
  request.step = step_of(options, config);
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
  const GoodputRequest request = request_of(options, config);
  const StillWorking working("simulating failures", options.quiet ? nullptr : stderr);
  const GoodputReport report = plan_goodput(request);
  if (!options.plot.empty()) write_whole_file(options.plot, goodput_svg(request, report));
  fmt::print("{}", options.json   ? goodput_json(request, report)
                   : options.html ? goodput_page(request, report)
                                  : goodput_text(request, report));
  return static_cast<int>(ExitCode::done);
}

void add_recovery_options(CLI::App& command, GoodputOptions& options) {
  command
      .add_option(
          "--detect", options.detect,
          "Seconds until a failure is noticed; with --restart's default the 3 min 42 s that OLMo's median "
          "recovery took")
      ->check(CLI::Range(0.0, 1e7))
      ->capture_default_str();
  command
      .add_option("--restart", options.restart, "Seconds from then until the ranks could read the checkpoint")
      ->check(CLI::Range(0.0, 1e7))
      ->capture_default_str();
  command
      .add_option("--hot-swap", options.hot_swap,
                  "The same where a node with the program running stands by for the one that failed")
      ->check(CLI::Range(0.0, 1e7));
  command.add_option("--spares", options.spares, "Spare nodes (default: there is always one)")
      ->check(CLI::Range(0, 1'000'000));
  command
      .add_option("--repair-hours", options.repair_hours, "Hours until a node that failed is a spare again")
      ->check(CLI::Range(0.001, 1e6));
  auto* elastic = command
                      .add_option("--elastic", options.groups,
                                  "Groups of data-parallel replicas that hold all states: one that fails "
                                  "drops out, the others go on")
                      ->check(CLI::Range(2, 1'000'000));
  command
      .add_flag("--elastic-restarts", options.elastic_restarts,
                "With --elastic: everybody starts again from the last checkpoint when a group leaves or "
                "comes back, "
                "in place of --drop and --rejoin")
      ->needs(elastic);
  command.add_option("--drop", options.drop, "With --elastic: seconds from detection until the others go on")
      ->check(CLI::Range(0.0, 1e7))
      ->capture_default_str();
  command
      .add_option("--rejoin", options.rejoin, "With --elastic: seconds that all wait when a group comes back")
      ->check(CLI::Range(0.0, 1e7))
      ->capture_default_str();
}

void add_checkpoint_options(CLI::App& command, GoodputOptions& options) {
  command.add_option("--checkpoint-size", options.size,
                     "Such as 5.2TiB (default: 14 bytes per parameter, weights and Adam's states)");
  command
      .add_option("--checkpoint-write", options.write,
                  "GB/s of the whole job to its storage; 50 to 200 are common")
      ->check(CLI::Range(1e-3, 1e9))
      ->capture_default_str();
  command.add_option("--checkpoint-read", options.read, "GB/s of the whole job from its storage")
      ->check(CLI::Range(1e-3, 1e9))
      ->capture_default_str();
  command
      .add_option(
          "--checkpoint-stall", options.stall,
          "Saves go on alongside the training, which waits these seconds for each (default: until it is "
          "written)")
      ->check(CLI::Range(0.0, 1e6));
  command
      .add_option("--checkpoint-interval", options.interval,
                  "Seconds of work between two checkpoints (default: the best)")
      ->check(CLI::Range(0.001, 1e8));
}

}  // namespace

void add_goodput_command(CLI::App& app, CommandAction& action) {
  CLI::App* command =
      app.add_subcommand("goodput", "Failures, checkpoints and the tokens of a month on many GPUs");
  const auto options = std::make_shared<GoodputOptions>();
  add_config_options(*command, options->config);
  command
      ->add_option("--fleet", options->fleet,
                   "How often what fails: llama3-405b, rsc-1, rsc-2, ft-hsdp, or a file that says it")
      ->capture_default_str()
      ->type_name("FLEET.yaml");
  command->add_option("--days", options->days, "Days of each trial")
      ->check(CLI::Range(0.01, 3650.0))
      ->capture_default_str();
  command->add_option("--trials", options->trials, "Simulated trials")
      ->check(CLI::Range(1, 10'000'000))
      ->capture_default_str();
  command->add_option("--step-time", options->step, "Measured seconds of a step, in place of predicted ones")
      ->check(CLI::Range(1e-6, 1e6));
  add_recovery_options(*command, *options);
  add_checkpoint_options(*command, *options);
  command
      ->add_option("--gpu-watts", options->watts, "Power of a GPU and its share of host, network and cooling")
      ->check(CLI::Range(1.0, 1e5));
  command->add_option("--gpu-hour-price", options->gpu_hour, "Price of a GPU-hour")
      ->check(CLI::Range(1e-9, 1e9));
  command->add_option("--kwh-price", options->kwh, "Price of a kWh")->check(CLI::Range(1e-9, 1e9));
  command->add_option("--plot", options->plot, "Also write the effective time over the interval as a picture")
      ->type_name("FILE.svg");
  command->add_flag("--published", options->published,
                    "Print the published figures that these laws are held against, and nothing else");
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
