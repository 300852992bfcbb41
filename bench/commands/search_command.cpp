// `plumbline search`: all legal configurations of a model on N accelerators, best first.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/ask/launch_text.hpp"
#include "bench/ask/search_answer.hpp"
#include "bench/ask/size_answer.hpp"
#include "bench/commands/commands.hpp"
#include "bench/commands/config_options.hpp"
#include "bench/commands/number_range.hpp"
#include "bench/commands/placement_answer.hpp"
#include "bench/processes/launch/interrupts.hpp"
#include "bench/show/text/progress.hpp"
#include "bench/show/text/wrap.hpp"
#include "bench/show/views/search_report.hpp"
#include "core/base/error.hpp"
#include "core/config_text/config_keys.hpp"

namespace plumbline {
namespace {

struct SearchOptions {
  ConfigOptions config;
  int top = 10;
  int threads = 0;
  int most_experts = 0;
  std::optional<int> most_context;  // nothing: as the sequence asks for
  std::string deadline;
  std::string export_to;  // a framework: the best configuration's launch command
  bool json = false;
  bool quiet = false;
};

/// The launch file of the best configuration that the framework's keys can say. Throws InputError if they can
/// say none, with the reason for the best.
std::string best_launch(RunConfig config, const std::vector<Candidate>& best, const std::string& framework,
                        bool quiet) {
  std::string reason;
  for (std::size_t i = 0; i < best.size(); ++i) {
    set_keys(best[i].keys, config);
    try {
      std::string text = launch_text(config, framework);
      if (i > 0 && !quiet)
        fmt::print(stderr, "note: configuration {} is exported: {} cannot say those before: {}\n", i + 1,
                   framework, reason);
      return text;
    } catch (const InputError& error) {
      if (i == 0) reason = error.what();
    }
  }
  throw InputError(reason);
}

/// A step of reinforcement learning.
int run_placement_search(const SearchOptions& options, const SearchQuestion& question,
                         const RunConfig& config) {
  if (options.most_context || options.most_experts > 0 || !options.export_to.empty())
    throw InputError(fmt::format("search: found {} with task {}, expected task train or sft; leave it out",
                                 options.most_context       ? "--max-cp"
                                 : options.most_experts > 0 ? "--max-ep"
                                                            : "--export",
                                 find_config_key("task")->print(config)));
  Progress progress(1, 0, options.quiet ? nullptr : stderr);
  const PlacementAnswer answer = answer_placements(
      question, config, [&](int done, int all) { progress.update(done, all, "layouts of training"); });
  fmt::print("{}", options.json ? placements_json(answer) : placements_text(answer));
  return static_cast<int>(Interrupts::requested() ? ExitCode::rank_failed : ExitCode::done);
}

int run_search(const SearchOptions& options) {
  SearchQuestion question;
  question.source = options.config.source;
  question.keys = options.config.overrides();
  constexpr int kExportTried = 20;  // of the best; a framework's keys may not say each
  question.top =
      options.export_to.empty() || options.top < 1 ? options.top : std::max(options.top, kExportTried);
  question.threads = options.threads;
  question.most_context = options.most_context;
  question.most_experts = options.most_experts;
  check_numbers(question);
  if (options.json && !options.export_to.empty())
    throw InputError("search: found --json with --export, expected one of them");
  const RunConfig config = options.config.load_with_notes();
  if (!options.deadline.empty()) question.deadline_s = parse_duration(options.deadline, "--deadline");
  const Interrupts interrupts;
  question.stopped = Interrupts::requested;
  if (config.reinforces()) return run_placement_search(options, question, config);
  Progress progress(1, 0, options.quiet ? nullptr : stderr);
  std::string state = "of the search";
  question.found = [&](const Candidate& best) {
    state = fmt::format("of the search; best so far {:.4g} s, {}", best.time.step.value,
                        describe_candidate(best));
    progress.show(state);
  };
  SearchAnswer answer =
      answer_search(question, config, [&](int done, int all) { progress.update(done, all, state); });
  const std::vector<Candidate> best = answer.result.best;
  const auto shown = static_cast<std::size_t>(options.top);
  if (best.size() > shown) answer.result.best.resize(shown);
  fmt::print("{}", options.json
                       ? search_json(answer.result, answer.context)
                       : within_terminal(search_text(answer.result, answer.context, terminal_width(stdout))));
  if (!options.export_to.empty())
    fmt::print("\n{}", best_launch(answer.config, best, options.export_to, options.quiet));
  return static_cast<int>(Interrupts::requested() ? ExitCode::rank_failed : ExitCode::done);
}

}  // namespace

void add_search_command(CLI::App& app, CommandAction& action) {
  CLI::App* command =
      app.add_subcommand("search", "Find the best configuration of a model on N accelerators");
  const auto options = std::make_shared<SearchOptions>();
  add_config_options(*command, options->config);
  command->add_option("--top", options->top, "Number of configurations to print, best first")
      ->check(number_from(1, 10'000))
      ->capture_default_str();
  command->add_option("--threads", options->threads, "Threads; 0: one per processor")
      ->check(number_from(0, 4096))
      ->capture_default_str();
  command
      ->add_option("--max-cp", options->most_context,
                   "Largest context-parallel size to try, with every cp_comm_type; default: 8192 tokens per "
                   "rank or more, at most 32")
      ->check(number_from(1, 4096))
      ->type_name("INT");
  command
      ->add_option("--max-ep", options->most_experts,
                   "Largest expert-parallel size to try, with every expert tensor size and dispatcher; 0: "
                   "number of experts")
      ->check(number_from(0, 4096))
      ->capture_default_str();
  command
      ->add_option("--export", options->export_to,
                   "Also print the best configuration's launch file: megatron-lm, megatron-bridge, "
                   "torchtitan or deepspeed")
      ->check(CLI::IsMember({"megatron-lm", "megatron-bridge", "torchtitan", "deepspeed"}))
      ->type_name("FRAMEWORK");
  command
      ->add_option("--deadline", options->deadline,
                   "Time after which the best so far is printed, with what others can gain, such as 10s")
      ->type_name("TIME");
  command->add_flag("--json", options->json, "Print the result as JSON");
  command->callback([=, &app, &action] {
    action = [=, &app] {
      options->quiet = is_quiet(app);
      return run_search(*options);
    };
  });
}

}  // namespace plumbline
