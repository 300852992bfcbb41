// `plumbline size`: the fewest GPUs that train a model on so many tokens in so many days.
#include <fmt/format.h>

#include <memory>
#include <utility>

#include "bench/ask/size_answer.hpp"
#include "bench/commands/commands.hpp"
#include "bench/commands/config_options.hpp"
#include "bench/commands/number_range.hpp"
#include "bench/commands/reliability/job_options.hpp"
#include "bench/measure/machine/named_hardware.hpp"
#include "bench/show/text/figures.hpp"
#include "bench/show/text/progress.hpp"
#include "bench/show/text/wrap.hpp"
#include "bench/show/views/size/size_report.hpp"
#include "core/base/atomic_file.hpp"
#include "core/base/error.hpp"
#include "core/base/output_json.hpp"
#include "core/base/standard_streams.hpp"

namespace plumbline {
namespace {

struct SizeOptions {
  ConfigOptions config;
  JobOptions job;
  std::string tokens;
  double days = 0;
  std::string price;
  std::string deadline;
  int most = 131072;
  int threads = 0;
  std::string plot;
  bool fixed = false;
  bool published = false;
  bool json = false;
  bool csv = false;
  bool quiet = false;
};

SizeAsked asked_of(const SizeOptions& options) {
  SizeAsked asked;
  asked.config = {options.config.source, options.config.overrides()};
  take_choices(asked);
  for (std::string& name : asked.hardware) name_hardware(name);
  if (!options.price.empty()) asked.prices = parse_prices(options.price, "--price");
  for (HardwarePrice& price : asked.prices) name_hardware(price.hardware);
  if (options.tokens.empty())
    throw InputError("size: --tokens: missing; expected the tokens to train on, such as 2T");
  asked.tokens = parse_tokens(options.tokens, "--tokens");
  if (options.days > 0) asked.days = options.days;
  asked.most = options.most;
  asked.job = job_of(options.job);
  asked.threads = options.threads;
  asked.fixed = options.fixed;
  if (!options.deadline.empty()) asked.deadline_s = parse_duration(options.deadline, "--deadline");
  return asked;
}

std::string told(const std::string& hardware, int gpus, const std::optional<SizedJob>& job) {
  return fmt::format("{}: {} GPUs: {}", hardware, grouped_digits(gpus),
                     !job            ? "no layout that fits"
                     : job->complete ? fmt::format("{:.1f} days", job->days)
                                     : fmt::format("at most {:.1f} days", job->days));
}

int run_size(const SizeOptions& options) {
  Progress progress(1, 0, options.quiet ? nullptr : stderr);
  if (options.published) {
    const auto trainings = published_trainings([&](const std::string& name) { progress.say(name); });
    fmt::print("{}",
               options.json ? output_json(trainings_json(trainings), 2) + "\n" : trainings_text(trainings));
    return static_cast<int>(ExitCode::done);
  }
  const SizeAsked asked = asked_of(options);
  const SizeAnswer answer =
      answer_size(asked, [&](const std::string& hardware, int gpus, const std::optional<SizedJob>& job) {
        progress.say(told(hardware, gpus, job));
      });
  for (const std::string& note : answer.notes) say(fmt::format("note: {}\n", note));
  if (!options.plot.empty()) write_whole_file(options.plot, size_svg(answer));
  fmt::print("{}", options.json  ? output_json(size_json(answer), 2) + "\n"
                   : options.csv ? size_csv(answer)
                                 : within_terminal(size_text(answer, terminal_width(stdout))));
  return static_cast<int>(ExitCode::done);
}

}  // namespace

void add_size_command(CLI::App& app, CommandAction& action) {
  CLI::App* command = app.add_subcommand("size", "Find the fewest GPUs that train a model in time");
  const auto options = std::make_shared<SizeOptions>();
  add_config_options(*command, options->config);
  command->add_option("--tokens", options->tokens, "Tokens to train on, such as 2T or 300B")
      ->type_name("TOKENS");
  command->add_option("--days", options->days, "Days that the training may take")
      ->check(number_from(0.01, 36500.0));
  command
      ->add_option("--price", options->price,
                   "Price of a GPU-hour by accelerator, such as h100=2.5/h,b200=4/h")
      ->type_name("HARDWARE=PRICE");
  command->add_option("--max-gpus", options->most, "Most GPUs to try")
      ->check(number_from(1, 1'048'576))
      ->capture_default_str();
  command->add_option("--deadline", options->deadline, "End after this time with what is known, such as 60s")
      ->type_name("TIME");
  command->add_option("--threads", options->threads, "Threads; 0: one per processor")
      ->check(number_from(0, 4096))
      ->capture_default_str();
  add_fleet_option(*command, options->job);
  add_recovery_options(*command, options->job);
  add_checkpoint_options(*command, options->job);
  command->add_option("--plot", options->plot, "Write a picture of days by GPUs")->type_name("FILE.svg");
  command->add_flag("--fixed", options->fixed, "Take the layout of CONFIG as it is, without a search");
  command->add_flag("--published", options->published,
                    "Compare with GPU-hours of published trainings, and nothing else");
  auto* json = command->add_flag("--json", options->json, "Print the result as JSON");
  command->add_flag("--csv", options->csv, "Print every sized job as CSV")->excludes(json);
  command->callback([=, &app, &action] {
    action = [=, &app] {
      options->quiet = is_quiet(app);
      return run_size(*options);
    };
  });
}

}  // namespace plumbline
