// `plumbline stragglers`: step time under jitter, slow GPUs and hiccups, and the slow ranks of a measured
// step.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

#include "analysis/predict/predict.hpp"
#include "bench/commands/commands.hpp"
#include "bench/commands/config_options.hpp"
#include "bench/commands/number_range.hpp"
#include "bench/plan/plan.hpp"
#include "bench/record/record_store.hpp"
#include "bench/show/report/timelines.hpp"
#include "bench/show/text/still_working.hpp"
#include "bench/show/views/cluster/slow_rank_lines.hpp"
#include "bench/show/views/cluster/stragglers_report.hpp"
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
  std::string record;
  std::string jitter;
  double slow_link_share = 0;
  double slow_link_factor = 2;
  double slow_share = 0;
  double slow_factor = 1.1;
  double hiccup_share = 0;
  double hiccup = 1;
  int steps = 200;
  std::vector<std::int64_t> replaced;
  int gpus_per_node = 8;
  bool json = false;
  bool html = false;
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

/// Slow ranks of measured runs: from the output of `run --json`, or a matrix's records.
int name_slow_ranks_of_records(const StragglerOptions& options) {
  std::vector<Record> records;
  std::error_code error;
  if (std::filesystem::is_directory(options.record, error) || options.record.ends_with(".jsonl")) {
    records = load_records(options.record);
  } else {
    records.push_back(
        parse_record(read_text_file(options.record, kMostTimelineBytes), printable(options.record)));
  }
  std::erase_if(records, [](const Record& record) {
    return !record.measurement || compared_ranks(*record.measurement) == 0;
  });
  if (records.empty()) {
    throw InputError(
        fmt::format("stragglers: {}: found no measured run with three ranks of one stage, expected one: "
                    "fewer cannot be told "
                    "apart",
                    printable(options.record)));
  }
  fmt::print("{}", options.json ? slow_ranks_json(records) : slow_ranks_text(records));
  return static_cast<int>(ExitCode::done);
}

/// "2": of a GPU's whole step, or "F=2,B=3,W=1": of its actions by kind; percent.
void read_jitter(const std::string& text, NoiseModel& noise) {
  const auto refuse = [&] {
    throw InputError(
        fmt::format("stragglers: --jitter: found {}, expected percent from 0 to 100, such as 2, or by kind "
                    "of action, such as F=2,B=3,W=1",
                    printable(text)));
  };
  const auto percent = [&](std::string_view number) {
    double value = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    const bool whole = error == std::errc() && end == number.data() + number.size();
    if (!whole || !(value >= 0 && value <= 100)) refuse();
    return value / 100;
  };
  if (text.find('=') == std::string::npos) {
    noise.jitter = percent(text);
    return;
  }
  constexpr std::string_view kKinds = "FBW";
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view part = std::string_view(text).substr(begin, end - begin);
    const std::size_t kind = part.empty() ? kKinds.npos : kKinds.find(part.front());
    if (kind == kKinds.npos || part.size() < 3 || part[1] != '=') refuse();
    noise.kind_jitter[kind] = percent(part.substr(2));
    begin = end + 1;
  }
}

NoiseModel noise_of(const StragglerOptions& options) {
  NoiseModel noise;
  if (!options.jitter.empty()) read_jitter(options.jitter, noise);
  noise.slow_share = options.slow_share / 100;
  noise.slow_factor = options.slow_factor;
  noise.slow_link_share = options.slow_link_share / 100;
  noise.slow_link_factor = options.slow_link_factor;
  noise.hiccup_share = options.hiccup_share / 100;
  noise.hiccup = {options.hiccup};
  if (!noise.any()) {
    throw InputError(
        "stragglers: found no noise source, expected --jitter, --slow-share, "
        "--slow-link-share, "
        "--hiccup-share, --record or --timeline");
  }
  if (!options.replaced.empty() && noise.slow_share == 0)
    throw InputError("stragglers: --replace: found without --slow-share, expected both; add --slow-share");
  return noise;
}

/// Each kind of noise by itself, all together, and all with some slow GPUs replaced.
std::vector<NoiseCase> cases_of(const NoiseJob& job, const NoiseModel& noise, const StragglerOptions& options,
                                std::uint64_t seed) {
  const std::int64_t gpus = std::int64_t{job.ranks_per_stage} * job.replicas * job.step->once.ranks;
  for (const std::int64_t replaced : options.replaced) {
    if (replaced <= gpus) continue;
    throw InputError(fmt::format("stragglers: --replace: found {}, expected at most the {} GPUs of the job",
                                 replaced, gpus));
  }
  std::vector<NoiseCase> cases;
  cases.reserve(5 + options.replaced.size());
  const auto add = [&](const std::string& what, const NoiseModel& each, std::int64_t replaced) -> NoiseCase& {
    return cases.emplace_back(
        NoiseCase{what, simulate_noise(job, each, {options.steps, seed, replaced}), false});
  };
  const int kinds = int{noise.jitters()} + int{noise.slow_share > 0} + int{noise.slow_link_share > 0} +
                    int{noise.hiccup_share > 0};
  if (kinds > 1) {
    NoiseModel alone;
    alone.jitter = noise.jitter;
    alone.kind_jitter = noise.kind_jitter;
    if (alone.any()) add("jitter alone", alone, 0);
    alone = {};
    alone.slow_share = noise.slow_share;
    alone.slow_factor = noise.slow_factor;
    if (alone.any()) add("slow GPUs alone", alone, 0);
    alone = {};
    alone.slow_link_share = noise.slow_link_share;
    alone.slow_link_factor = noise.slow_link_factor;
    if (alone.any()) add("slow links alone", alone, 0);
    alone = {};
    alone.hiccup_share = noise.hiccup_share;
    alone.hiccup = noise.hiccup;
    if (alone.any()) add("hiccups alone", alone, 0);
  }
  add(kinds > 1 ? "all together" : "with noise", noise, 0).everything = true;
  for (const std::int64_t replaced : options.replaced)
    add(fmt::format("{} slow GPUs replaced", replaced), noise, replaced);
  return cases;
}

int run_stragglers(const StragglerOptions& options) {
  if (!options.timeline.empty()) return name_slow_ranks(options);
  if (!options.record.empty()) return name_slow_ranks_of_records(options);
  const NoiseModel noise = noise_of(options);
  const RunConfig config = options.config.load_with_notes();
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
  } else if (options.html) {
    fmt::print("{}",
               noise_cases_page(
                   fmt::format("{} of {} GPUs, {} pipelines of {} ranks, {} steps; step time without noise "
                               "{:.4f} s",
                               config.model.name, parallel.world_size, job.replicas, parallel.pipeline,
                               options.steps, cases.front().steps.quiet.value),
                   cases));
  } else {
    fmt::print("{} GPUs, {} pipelines of {} ranks, {} steps; step time without noise {:.4f} s\n\n{}",
               parallel.world_size, job.replicas, parallel.pipeline, options.steps,
               cases.front().steps.quiet.value, noise_cases_text(cases));
  }
  return static_cast<int>(ExitCode::done);
}

}  // namespace

void add_stragglers_command(CLI::App& app, CommandAction& action) {
  CLI::App* command =
      app.add_subcommand("stragglers", "Predict the cost of slow ranks, or find them in measurements");
  const auto options = std::make_shared<StragglerOptions>();
  add_config_options(*command, options->config);
  const CLI::Validator percent = number_from(0.0, 100.0);
  command
      ->add_option("--jitter", options->jitter,
                   "Step-to-step deviation of a GPU's compute time, in percent; or by kind of action, such "
                   "as F=2,B=3,W=1")
      ->type_name("PERCENT");
  command->add_option("--slow-share", options->slow_share, "Share of slow GPUs, in percent")->check(percent);
  command->add_option("--slow-factor", options->slow_factor, "Compute time factor of slow GPUs")
      ->check(number_from(1.0, 100.0))
      ->needs("--slow-share")
      ->capture_default_str();
  command
      ->add_option("--slow-link-share", options->slow_link_share, "Share of slow network ports, in percent")
      ->check(percent);
  command
      ->add_option("--slow-link-factor", options->slow_link_factor,
                   "Message time factor of slow network ports")
      ->check(number_from(1.0, 100.0))
      ->needs("--slow-link-share")
      ->capture_default_str();
  command
      ->add_option("--hiccup-share", options->hiccup_share,
                   "Share of nodes with a hiccup in a step, in percent")
      ->check(percent);
  command->add_option("--hiccup", options->hiccup, "Length of a hiccup, in seconds")
      ->check(number_from(0.0, 1e5))
      ->needs("--hiccup-share")
      ->capture_default_str();
  command
      ->add_option("--replace", options->replaced, "Number of slow GPUs to replace, the most delaying first")
      ->check(number_from(std::int64_t{0}, std::int64_t{1} << 30))
      ->delimiter(',')
      ->type_name("N[,N...]");
  command->add_option("--simulated-steps", options->steps, "Steps to simulate")
      ->check(number_from(1, 1'000'000))
      ->capture_default_str();
  command->add_option("--gpus-per-node", options->gpus_per_node, "GPUs per node")
      ->check(number_from(1, 64))
      ->capture_default_str();
  command
      ->add_option("--timeline", options->timeline,
                   "Find slow pipeline ranks in a measured step: DIR/timelines/ID.json of a matrix")
      ->type_name("DIR/timelines/ID.json");
  command
      ->add_option("--record", options->record,
                   "Find slow ranks in measured runs: output of run --json, or the folder of a matrix")
      ->type_name("RECORD.json|DIR");
  auto* json = command->add_flag("--json", options->json, "Print the result as JSON");
  command->add_flag("--html", options->html, "Print a page with tables and pictures")->excludes(json);
  command->callback([=, &app, &action] {
    action = [=, &app] {
      options->quiet = is_quiet(app);
      return run_stragglers(*options);
    };
  });
}

}  // namespace plumbline
