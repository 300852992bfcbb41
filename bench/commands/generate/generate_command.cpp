// `plumbline generate`: continues prompts on ranks of its own.
#include <fmt/format.h>

#include <cstdlib>
#include <memory>

#include "bench/commands/commands.hpp"
#include "bench/commands/config_options.hpp"
#include "bench/commands/generate/result_text.hpp"
#include "bench/commands/number_range.hpp"
#include "bench/evaluate/cell_process.hpp"
#include "bench/evaluate/rank_output.hpp"
#include "bench/plan/keys_without_effect.hpp"
#include "bench/processes/hosts/placement.hpp"
#include "bench/processes/launch/run_folder.hpp"
#include "bench/run/generating_rank.hpp"
#include "bench/show/text/progress.hpp"
#include "bench/training/generate/prompts.hpp"
#include "bench/training/trainer/run_files.hpp"
#include "core/base/atomic_file.hpp"
#include "core/base/error.hpp"
#include "core/base/standard_streams.hpp"
#include "core/config/common_vocabulary.hpp"
#include "core/config/config_checks.hpp"
#include "core/config_text/config_listing.hpp"

namespace plumbline {
namespace {

struct GenerateCommand {
  ConfigOptions config;
  std::string prompts;  // file; empty: random ones
  generation::Sampling sampling;
  std::vector<std::int32_t> end_ids;
  bool json = false;
};

void check(const RunConfig& config) {
  if (const auto reason = why_generation_invalid(config)) throw InputError(*reason);
  RunConfig layers = config;  // generation executes the layers of a training step
  layers.generation.task = RunTask::train;
  if (const auto reason = why_unsupported(layers)) throw InputError(*reason);
  if (const std::string reason = generation::why_not_generated(config); !reason.empty())
    throw InputError(reason);
}

generation::GenerationRequest request_of(const GenerateCommand& command, const RunConfig& config) {
  const bool limited = command.sampling.top_k > 0 || command.sampling.top_p < 1;
  if (command.sampling.greedy() && limited) {
    throw InputError(
        "--temperature: found 0, greedy, with --top-k or --top-p, expected more than 0; add --temperature 1");
  }
  generation::GenerationRequest request;
  request.prompts =
      command.prompts.empty()
          ? generation::random_prompts(config.batch.micro_batch_size * config.parallel.data(),
                                       config.prompt_tokens(), common_vocab(config), config.measure.seed)
          : generation::read_prompts(command.prompts);
  request.max_new_tokens = config.generation.max_new_tokens;
  request.end_ids = command.end_ids;
  request.sampling = command.sampling;
  request.sampling.seed = config.measure.seed;
  check_request(config, request);
  return request;
}

/// Options that the ranks get with the files of `folder`.
std::vector<std::string> rank_arguments(const GenerateCommand& command, const std::string& folder) {
  std::vector<std::string> arguments = {"generate",      folder + "/config.yaml",
                                        "--prompts",     folder + "/prompts.jsonl",
                                        "--temperature", fmt::format("{}", command.sampling.temperature),
                                        "--top-k",       fmt::format("{}", command.sampling.top_k),
                                        "--top-p",       fmt::format("{}", command.sampling.top_p)};
  for (const std::int32_t id : command.end_ids)
    arguments.insert(arguments.end(), {"--end-id", fmt::format("{}", id)});
  if (command.json) arguments.emplace_back("--json");
  return arguments;
}

int launch_ranks(const GenerateCommand& command, bool quiet) {
  const RunConfig config = command.config.load_with_notes();
  check(config);
  const generation::GenerationRequest request = request_of(command, config);
  RunConfig files = config;  // without those of training
  files.files.data.clear();
  files.files.loss_mask.clear();
  for (const std::string& remark : training::check_files(files)) say(fmt::format("note: {}\n", remark));
  for (const std::string& idle : keys_without_effect(config)) say(fmt::format("note: {}\n", idle));

  const RunFolder scratch(RunFolderUse::files);
  write_whole_file(scratch.path() + "/config.yaml", to_yaml(config));
  write_whole_file(scratch.path() + "/prompts.jsonl", generation::to_lines(request.prompts));
  Progress progress(1, 0, quiet ? nullptr : stderr);
  fmt::print("{}", output_of_ranks(config, rank_arguments(command, scratch.path()), scratch.path(),
                                   "nothing was generated",
                                   [&](auto done, auto all) { progress.update(done, all, "passes"); }));
  return static_cast<int>(ExitCode::done);
}

/// Writes to the file of the process that started the ranks, or prints if the user did.
int generate_as_rank(const GenerateCommand& command) {
  const RunConfig config = command.config.load();
  check(config);
  const generation::GenerationRequest request = request_of(command, config);
  return run_as_generating_rank(config, request, [&](const generation::GenerationResult& result) {
    const std::string text = command.json ? to_json(request, result) : to_text(result);
    if (const char* path = std::getenv(kRecordOutVariable)) return write_whole_file(path, text);
    fmt::print("{}", text);
  });
}

int run_generate(const GenerateCommand& command, bool quiet) {
  const Placement placement = find_placement(process_variables());
  require_mpi(placement);
  if (!placement.one_of_several()) return launch_ranks(command, quiet);
  return generate_as_rank(command);
}

}  // namespace

void add_generate_command(CLI::App& app, CommandAction& action) {
  CLI::App* command = app.add_subcommand("generate", "Continue prompts of token ids, with a KV cache");
  const auto options = std::make_shared<GenerateCommand>();
  add_config_options(*command, options->config);
  command
      ->add_option("--prompts", options->prompts,
                   "Prompts, one JSON list of token ids per line (default: random ones of prompt_length)")
      ->type_name("FILE");
  command
      ->add_option("--temperature", options->sampling.temperature,
                   "Divisor of the logits before an id is drawn; 0: the likeliest id")
      ->check(number_from(0.0, 1000.0))
      ->capture_default_str();
  command->add_option("--top-k", options->sampling.top_k, "Draw from the K likeliest ids; 0: from all")
      ->type_name("K")
      ->check(number_from(std::int64_t{0}, std::int64_t{1} << 31))
      ->capture_default_str();
  command
      ->add_option("--top-p", options->sampling.top_p,
                   "Draw from the likeliest ids whose probabilities reach P together")
      ->check(number_from(0.0, 1.0))
      ->capture_default_str();
  command->add_option("--end-id", options->end_ids, "Id that ends a sequence; may be given several times")
      ->type_name("ID")
      ->check(number_from(0, std::numeric_limits<std::int32_t>::max()));
  command->add_flag("--json", options->json, "Print ids, log-probabilities, times and cache as JSON");
  command->callback([=, &app, &action] {
    action = [=, &app] {
      options->config.settings.emplace_back("task=generate");
      return run_generate(*options, is_quiet(app));
    };
  });
}

}  // namespace plumbline
