// `plumbline search`: all legal configurations of a model on N accelerators, best first.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <memory>
#include <thread>

#include "analysis/hardware/hardware.hpp"
#include "analysis/hardware/profiles.hpp"
#include "analysis/search/search.hpp"
#include "bench/commands/commands.hpp"
#include "bench/commands/config_options.hpp"
#include "bench/evaluate/cluster_schedule.hpp"
#include "bench/text/progress.hpp"
#include "bench/views/search_report.hpp"
#include "core/base/error.hpp"
#include "core/base/text_input.hpp"
#include "core/config/config_checks.hpp"

namespace plumbline {
namespace {

struct SearchOptions {
  ConfigOptions config;
  int top = 10;
  int threads = 0;
  bool json = false;
  bool quiet = false;
};

/// More accelerators until something fits, or nothing after three doublings.
std::string what_would_fit(cluster::SearchRequest request, const cluster::Machine& machine,
                           const cluster::Software& software, cluster::PipelinePlans& plans) {
  request.top = 1;
  for (int doubling = 0; doubling < 3; ++doubling) {
    request.accelerators *= 2;
    try {
      const cluster::SearchResult more = search(request, machine, software, plans);
      if (!more.best.empty()) {
        return fmt::format("{} accelerators are enough ({})", request.accelerators,
                           describe_candidate(more.best[0]));
      }
    } catch (const InputError&) {
      break;  // the batch or the heads do not allow this many
    }
  }
  return "use a smaller model, sequence or batch";
}

int run_search(const SearchOptions& options) {
  if (options.top < 1 || options.top > 10000) {
    throw InputError(fmt::format("search: --top {}: expected 1 to 10000", options.top));
  }
  const RunConfig config = options.config.load();
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
  if (config.machine.hardware.empty()) {
    throw InputError(
        fmt::format("search: --hardware: missing; expected the accelerators that there are, one of {}",
                    fmt::join(hardware_preset_names(), ", ")));
  }
  const cluster::Profiles& profiles = cluster::built_in_profiles();
  const cluster::Machine& machine = profiles.machine(config.machine.hardware);
  if (const auto reason = why_unpredictable(config)) throw InputError(fmt::format("search: {}", *reason));
  const cluster::Software& software = profiles.generation("plumbline");
  cluster::SearchRequest request;
  request.model = cluster::model_of(config.model);
  request.sequence = static_cast<double>(config.batch.seq_length);
  request.hidden_dropout = config.numerics.hidden_dropout > 0;
  request.attention_dropout = config.numerics.attention_dropout > 0;
  request.global_batch = static_cast<int>(config.batch.global_batch_size);
  request.accelerators = config.parallel.world_size;
  request.config = config;
  request.memory_budget = config.machine.memory_budget.value > 0
                              ? static_cast<double>(config.machine.memory_budget.value)
                              : machine.device.memory_bytes - machine.device.reserved_bytes;
  request.top = options.top;
  request.threads = options.threads > 0 ? std::min(options.threads, 256)
                                        : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  cluster::PipelinePlans plans(make_cluster_schedule);
  Progress progress(1, 0, options.quiet ? nullptr : stderr);
  const auto show = [&](int done, int all) { progress.update(done, all, "layouts"); };
  const auto begin = std::chrono::steady_clock::now();
  const cluster::SearchResult result = search(request, machine, software, plans, show);
  const SearchContext context{
      config.machine.hardware, request.memory_budget,
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()};
  if (result.configurations == 0) {
    throw InputError(fmt::format("search: no configuration is possible on {} accelerators{}",
                                 request.accelerators, result.refused.empty() ? "" : ": " + result.refused));
  }
  if (result.best.empty()) {
    const cluster::Candidate& least = result.front.front();
    const std::string smallest = fmt::format("the smallest takes {:.2f} GiB ({})",
                                             least.peak_bytes / kBytesPerGiB, describe_candidate(least));
    throw OutOfMemory(fmt::format(
        "search: none of {} configurations fits in {:.2f} GiB per accelerator: {}; {}", result.configurations,
        request.memory_budget / kBytesPerGiB, smallest, what_would_fit(request, machine, software, plans)));
  }
  fmt::print("{}", options.json ? search_json(result, context) : search_text(result, context));
  return static_cast<int>(ExitCode::done);
}

}  // namespace

void add_search_command(CLI::App& app, CommandAction& action) {
  CLI::App* command =
      app.add_subcommand("search", "Find the best configuration of a model on N accelerators");
  const auto options = std::make_shared<SearchOptions>();
  add_config_options(*command, options->config);
  command->add_option("--top", options->top, "Configurations to print, best first")->capture_default_str();
  command->add_option("--threads", options->threads, "Threads; 0: one per processor")->capture_default_str();
  command->add_flag("--json", options->json, "Print the result as JSON");
  command->callback([=, &app, &action] {
    action = [=, &app] {
      options->quiet = is_quiet(app);
      return run_search(*options);
    };
  });
}

}  // namespace plumbline
