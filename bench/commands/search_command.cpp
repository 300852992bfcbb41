// `plumbline search`: all legal configurations of a model on N accelerators, best first.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>

#include "analysis/hardware/hardware.hpp"
#include "analysis/predict/context_advice.hpp"
#include "analysis/predict/predict.hpp"
#include "analysis/search/search.hpp"
#include "bench/commands/commands.hpp"
#include "bench/commands/config_options.hpp"
#include "bench/evaluate/plan.hpp"
#include "bench/launch/launch_agent.hpp"
#include "bench/text/progress.hpp"
#include "bench/views/search_report.hpp"
#include "core/base/error.hpp"
#include "core/base/text_input.hpp"
#include "core/config/config_checks.hpp"
#include "core/config_text/config_keys.hpp"
#include "core/launch_files/launch_export.hpp"

namespace plumbline {
namespace {

struct SearchOptions {
  ConfigOptions config;
  int top = 10;
  int threads = 0;
  SearchLimits limits;
  std::optional<int> most_context;  // nothing: as the sequence asks for
  std::string export_to;            // a framework: the best configuration's launch command
  bool json = false;
  bool quiet = false;
};

/// More accelerators until something fits, or nothing after three doublings.
std::string what_would_fit(SearchRequest request, const HardwareProfile& hardware) {
  request.top = 1;
  for (int doubling = 0; doubling < 3; ++doubling) {
    request.config.parallel.world_size *= 2;
    try {
      const SearchResult more = search(request, hardware, step_for);
      if (!more.best.empty()) {
        return fmt::format("{} accelerators are enough ({})", request.config.parallel.world_size,
                           describe_candidate(more.best[0]));
      }
    } catch (const InputError&) {
      break;  // the batch or the heads do not allow this many
    }
  }
  return "use a smaller model, sequence or batch";
}

/// Results of the other cp_comm_types for the best candidate.
std::string ways_of_best(RunConfig config, const Candidate& best, const HardwareProfile& hardware) {
  set_keys(best.keys, config);
  if (config.parallel.context == 1) return "";
  const Schedule schedule = schedule_for(config);
  return context_report(config, schedule, predict(config, schedule, hardware), hardware);
}

/// The word as a shell takes it, in quotes where it needs them.
std::string pasted(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.,/:=+@%";
  return !word.empty() && word.find_first_not_of(kPlain) == std::string::npos ? word : shell_word(word);
}

/// `predict` of one candidate: the question's keys, and the candidate's keys that differ.
std::string command_of(const ConfigOptions& asked, const RunConfig& config, const Candidate& candidate) {
  const auto settings = settings_of(candidate);
  std::string command = "plumbline predict";
  if (!asked.source.empty()) command += " " + pasted(asked.source);
  const auto add = [&](const ConfigKey& key, const std::string& value) {
    command += fmt::format(" --{} {}", key.alias.empty() ? key.flag() : key.alias, pasted(value));
  };
  for (const Override& given : asked.overrides()) {
    const ConfigKey& key = get_config_key(given.key, "search");
    const bool searched =
        std::ranges::any_of(settings, [&](const auto& each) { return each.first == key.name; });
    if (!searched) add(key, given.value);
  }
  if (!asked.gives("world_size"))
    add(*find_config_key("world_size"), std::to_string(config.parallel.world_size));
  for (const auto& [name, value] : settings) {
    const ConfigKey& key = *find_config_key(name);
    if (name == "data_parallel_size" || asked.gives(name) || key.print(config) != value) add(key, value);
  }
  return command;
}

double in_gib(Bytes bytes) {
  return static_cast<double>(bytes.value) / kBytesPerGiB;
}

int run_search(const SearchOptions& options) {
  if (options.top < 1 || options.top > 10000) {
    throw InputError(fmt::format("search: --top {}: expected 1 to 10000", options.top));
  }
  if (options.most_context && (*options.most_context < 1 || *options.most_context > 4096)) {
    throw InputError(fmt::format("search: --max-cp {}: expected 1 to 4096", *options.most_context));
  }
  if (options.limits.expert < 0 || options.limits.expert > 4096) {
    throw InputError(
        fmt::format("search: --max-ep {}: expected 1 to 4096, or 0 for as many as the model has experts",
                    options.limits.expert));
  }
  if (options.json && !options.export_to.empty())
    throw InputError("search: found --json with --export, expected one of them");
  const RunConfig config = options.config.load_with_notes();
  if (!options.config.gives("world_size") && config.parallel.world_size == 1) {
    throw InputError("search: --gpus: missing; expected the number of accelerators that there are");
  }
  if (config.distillation.teacher) {
    throw InputError(fmt::format(
        "search: teacher: found {}; expected none, distillation is not searched; remove the key, or give "
        "one configuration to `predict`",
        printable(config.distillation.teacher->name)));
  }
  if (config.numerics.fp8.on()) {
    throw InputError(fmt::format(
        "search: fp8_format: found {}; expected none, linear layers in FP8 are not searched; remove "
        "the key (precision: fp8 stands for it too), or give one configuration to `predict`",
        config.numerics.fp8.format == Fp8Format::e4m3 ? "e4m3" : "hybrid"));
  }
  if (config.parallel.context > 1) {
    throw InputError(
        fmt::format("search: context_parallel_size: found {}; expected 1; remove the key and give --max-cp "
                    "{}, which searches "
                    "sizes up to that, or give one configuration to `predict`",
                    config.parallel.context, config.parallel.context));
  }
  if (config.spreads_experts()) {
    throw InputError(fmt::format(
        "search: {}; expected no such key; remove it: sizes up to the number of experts are searched, or up "
        "to --max-ep "
        "N, or give one configuration to `predict`",
        config.parallel.expert > 1
            ? fmt::format("expert_model_parallel_size: found {}", config.parallel.expert)
            : fmt::format("expert_tensor_parallel_size: found {}", config.parallel.expert_tensor)));
  }
  if (config.machine.hardware.empty()) {
    throw InputError(
        fmt::format("search: --hardware: missing; expected the accelerators that there are, one of {}",
                    fmt::join(hardware_preset_names(), ", ")));
  }
  const HardwareProfile hardware = load_hardware(config.machine.hardware);
  if (const auto reason = why_unpredictable(config)) throw InputError(fmt::format("search: {}", *reason));
  if (const auto reason = why_unpredictable(config, hardware))
    throw InputError(fmt::format("search: {}", *reason));
  SearchRequest request;
  request.config = config;
  request.top = options.top;
  request.limits = options.limits;
  request.limits.context = options.most_context.value_or(context_for_sequence(config.batch.seq_length));
  request.threads = options.threads > 0 ? std::min(options.threads, 256)
                                        : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  Progress progress(1, 0, options.quiet ? nullptr : stderr);
  const auto show = [&](int done, int all) { progress.update(done, all, "layouts"); };
  const auto begin = std::chrono::steady_clock::now();
  const SearchResult result = search(request, hardware, step_for, show);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (result.configurations == 0) {
    throw InputError(
        fmt::format("search: --gpus: found {}, on which no configuration is valid, expected a number that "
                    "sizes of the model divide; change --gpus or the batch{}",
                    config.parallel.world_size, result.refused.empty() ? "" : ": " + result.refused));
  }
  const Fit limit = result.front.front().fit;
  if (result.best.empty()) {
    const Candidate& least = result.front.front();
    const std::string smallest =
        fmt::format("the smallest takes {:.2f} GiB{} ({})", in_gib(least.fit.needed),
                    limit.by_device ? " of device memory with its margin" : "", describe_candidate(least));
    throw OutOfMemory(
        fmt::format("search: none of {} configurations fits in {:.2f} GiB per accelerator: {}; {}",
                    result.configurations, in_gib(limit.limit), smallest, what_would_fit(request, hardware)));
  }
  SearchContext context{config.machine.hardware,
                        limit.limit,
                        limit.by_device,
                        seconds,
                        request.limits.context,
                        request.limits.expert,
                        ways_of_best(config, result.best.front(), hardware),
                        [&](const Candidate& c) { return command_of(options.config, config, c); }};
  fmt::print("{}", options.json ? search_json(result, context) : search_text(result, context));
  if (!options.export_to.empty()) {
    RunConfig best = config;
    set_keys(result.best.front().keys, best);
    fmt::print("\n{}", export_launch(best, options.export_to));
  }
  return static_cast<int>(ExitCode::done);
}

}  // namespace

void add_search_command(CLI::App& app, CommandAction& action) {
  CLI::App* command =
      app.add_subcommand("search", "Find the best configuration of a model on N accelerators");
  const auto options = std::make_shared<SearchOptions>();
  add_config_options(*command, options->config);
  command->add_option("--top", options->top, "Number of configurations to print, best first")
      ->capture_default_str();
  command->add_option("--threads", options->threads, "Threads; 0: one per processor")->capture_default_str();
  command
      ->add_option("--max-cp", options->most_context,
                   "Largest context-parallel size to try, with every cp_comm_type; default: 8192 tokens per "
                   "rank or more, at most 32")
      ->type_name("INT");
  command
      ->add_option("--max-ep", options->limits.expert,
                   "Largest expert-parallel size to try, with every expert tensor size and dispatcher; 0: "
                   "number of experts")
      ->capture_default_str();
  command
      ->add_option("--export", options->export_to,
                   "Also print the launch command of the best configuration: megatron-lm")
      ->type_name("FRAMEWORK");
  command->add_flag("--json", options->json, "Print the result as JSON");
  command->callback([=, &app, &action] {
    action = [=, &app] {
      options->quiet = is_quiet(app);
      return run_search(*options);
    };
  });
}

}  // namespace plumbline
