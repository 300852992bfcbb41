// `plumbline stragglers`: what jitter, slow GPUs and hiccups make of a step, and which ranks of a measured one are slow.
#include <fmt/format.h>

#include <memory>
#include <vector>

#include "analysis/predict/predict.hpp"
#include "bench/commands/commands.hpp"
#include "bench/commands/config_options.hpp"
#include "bench/evaluate/plan.hpp"
#include "bench/report/timelines.hpp"
#include "bench/text/still_working.hpp"
#include "bench/views/stragglers_report.hpp"
#include "core/base/error.hpp"
#include "core/base/text_input.hpp"
#include "core/config/config_checks.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kMostTimelineBytes = std::size_t{256} << 20;
constexpr double kMostDraws = 2e9;  // half a minute or so

struct StragglerOptions {
  ConfigOptions config;
  std::string timeline;
  double jitter = 0;
  double slow_share = 0;
  double slow_factor = 1.1;
  double hiccup_share = 0;
  double hiccup = 1;
  int steps = 200;
  std::vector<std::int64_t> replaced;
  int gpus_per_node = 8;
  bool json = false;
  bool quiet = false;
};

int name_slow_ranks(const StragglerOptions& options) {
  const CellTimelines timelines =
      parse_timeline_json(read_text_file(options.timeline, kMostTimelineBytes), printable(options.timeline));
  if (!timelines.measured || !timelines.predicted) {
    throw InputError(fmt::format("stragglers: {}: expected a measured and a predicted timeline",
                                 printable(options.timeline)));
  }
  const std::vector<SlowRank> slow = slow_ranks(timelines.measured->trace, timelines.predicted->trace, {});
  fmt::print("{}", options.json ? slow_ranks_json(slow) : slow_ranks_text(slow));
  return static_cast<int>(ExitCode::done);
}

NoiseModel noise_of(const StragglerOptions& options) {
  const NoiseModel noise{options.jitter / 100,
                         options.slow_share / 100,
                         options.slow_factor,
                         options.hiccup_share / 100,
                         {options.hiccup}};
  if (!noise.any()) {
    throw InputError(
        "stragglers: found nothing that makes ranks differ, expected --jitter, --slow-share, --hiccup-share "
        "or --timeline");
  }
  if (!options.replaced.empty() && noise.slow_share == 0)
    throw InputError(
        "stragglers: --replace: expected --slow-share alongside it, slow GPUs are what is replaced");
  return noise;
}

/// Each kind of noise by itself, all together, and all with some slow GPUs replaced.
std::vector<NoiseCase> cases_of(const NoiseJob& job, const NoiseModel& noise, const StragglerOptions& options,
                                std::uint64_t seed) {
  std::vector<NoiseCase> cases;
  cases.reserve(4 + options.replaced.size());
  const auto add = [&](const std::string& what, const NoiseModel& each, std::int64_t replaced) {
    cases.push_back({what, simulate_noise(job, each, {options.steps, seed, replaced})});
  };
  const int kinds = int{noise.jitter > 0} + int{noise.slow_share > 0} + int{noise.hiccup_share > 0};
  if (kinds > 1) {
    if (noise.jitter > 0) add("jitter alone", {noise.jitter}, 0);
    if (noise.slow_share > 0) add("slow GPUs alone", {0, noise.slow_share, noise.slow_factor}, 0);
    if (noise.hiccup_share > 0) add("hiccups alone", {0, 0, 1, noise.hiccup_share, noise.hiccup}, 0);
  }
  add(kinds > 1 ? "all together" : "with noise", noise, 0);
  for (const std::int64_t replaced : options.replaced)
    add(fmt::format("{} slow GPUs replaced", replaced), noise, replaced);
  return cases;
}

int run_stragglers(const StragglerOptions& options) {
  if (!options.timeline.empty()) return name_slow_ranks(options);
  const NoiseModel noise = noise_of(options);
  const RunConfig config = options.config.load();
  if (const auto reason = why_invalid(config)) throw InputError(fmt::format("stragglers: {}", *reason));
  if (config.machine.hardware.empty())
    throw InputError(
        "stragglers: hardware: missing; expected the accelerators that the step is predicted for");
  if (const auto reason = why_unpredictable(config)) throw InputError(fmt::format("stragglers: {}", *reason));
  const HardwareProfile hardware = load_hardware(config.machine.hardware);
  if (const auto reason = why_unpredictable(config, hardware))
    throw InputError(fmt::format("stragglers: {}", *reason));
  if (static_cast<double>(options.steps) * config.parallel.world_size > kMostDraws) {
    throw InputError(fmt::format(
        "stragglers: --steps {}: found {:.3g} ranks in all steps, expected at most {:g}; take "
        "fewer steps",
        options.steps, static_cast<double>(options.steps) * config.parallel.world_size, kMostDraws));
  }
  StillWorking working("predicting the step", options.quiet ? nullptr : stderr);
  const RepeatedSchedule step = step_for(config);
  const Prediction prediction = predict(config, step, hardware);
  if (prediction.costs.processors > 0) {
    throw InputError("stragglers: found ranks that share processors, expected accelerators, one a rank");
  }
  const ParallelConfig& parallel = config.parallel;
  const NoiseJob job{&step, prediction.costs, parallel.tensor * parallel.context, parallel.data(),
                     options.gpus_per_node};
  working.now("simulating steps");
  const std::vector<NoiseCase> cases = cases_of(job, noise, options, config.measure.seed);
  if (options.json) {
    fmt::print("{}", noise_cases_json(cases));
  } else {
    fmt::print("{} GPUs, {} pipelines of {} ranks, {} steps; a quiet one takes {:.4f} s\n\n{}",
               parallel.world_size, job.replicas, parallel.pipeline, options.steps,
               cases.front().steps.quiet.value, noise_cases_text(cases));
  }
  return static_cast<int>(ExitCode::done);
}

}  // namespace

void add_stragglers_command(CLI::App& app, CommandAction& action) {
  CLI::App* command =
      app.add_subcommand("stragglers", "Slow ranks: what they cost a step, and which ones they are");
  const auto options = std::make_shared<StragglerOptions>();
  add_config_options(*command, options->config);
  const CLI::Range percent(0.0, 100.0);
  command
      ->add_option("--jitter", options->jitter,
                   "Deviation of a GPU's computing time from step to step, in percent")
      ->check(percent);
  command->add_option("--slow-share", options->slow_share, "Slow GPUs, in percent of all")->check(percent);
  command->add_option("--slow-factor", options->slow_factor, "How much longer slow GPUs take")
      ->check(CLI::Range(1.0, 100.0))
      ->capture_default_str();
  command->add_option("--hiccup-share", options->hiccup_share, "Nodes that are late in a step, in percent")
      ->check(percent);
  command->add_option("--hiccup", options->hiccup, "Seconds by which they are")
      ->check(CLI::Range(0.0, 1e5))
      ->capture_default_str();
  command->add_option("--replace", options->replaced, "Slow GPUs to replace, those that hold up most first")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 30))
      ->delimiter(',')
      ->type_name("N[,N...]");
  command->add_option("--simulated-steps", options->steps, "Steps to simulate")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command->add_option("--gpus-per-node", options->gpus_per_node, "GPUs that are late together")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command
      ->add_option("--timeline", options->timeline,
                   "Name the slow pipeline ranks of a measured step: DIR/timelines/ID.json of a matrix")
      ->type_name("DIR/timelines/ID.json");
  command->add_flag("--json", options->json, "Print the result as JSON");
  command->callback([=, &app, &action] {
    action = [=, &app] {
      options->quiet = is_quiet(app);
      return run_stragglers(*options);
    };
  });
}

}  // namespace plumbline
