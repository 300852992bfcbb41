// `plumbline convert`: checkpoints between Hugging Face's and Megatron's layouts.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>

#include "bench/commands/commands.hpp"
#include "bench/commands/convert_check.hpp"
#include "bench/commands/number_range.hpp"
#include "bench/convert/convert.hpp"
#include "bench/show/text/progress.hpp"
#include "bench/training/check/checkpoint_comparison.hpp"
#include "core/base/atomic_file.hpp"
#include "core/base/byte_text.hpp"
#include "core/base/error.hpp"
#include "core/base/json_keys.hpp"
#include "core/base/one_line.hpp"
#include "core/base/output_json.hpp"
#include "core/base/standard_streams.hpp"

namespace plumbline {
namespace {

struct ConvertOptions {
  convert::ConvertRequest request;
  training::CheckRequest check_request;
  bool check = false;
  std::string precision = "fp32";  // of the check
  std::string to_format;
  std::string padding = "repeat";
  std::string experts = "local";
  bool megatron_options = false;  // one of them was given
  bool json = false;
  bool quiet = false;
};

OrderedJson sizes_json(const convert::MegatronSizes& sizes) {
  return {{"tensor_model_parallel_size", sizes.tensor},
          {"pipeline_model_parallel_size", sizes.pipeline},
          {"virtual_pipeline_chunks", sizes.virtual_chunks},
          {"expert_model_parallel_size", sizes.expert}};
}

OrderedJson side_json(convert::CheckpointFormat format, const std::string& path,
                      const convert::MegatronSizes& sizes) {
  OrderedJson side = {{"path", printable(path, 4000)}, {"format", name_of(format)}};
  if (format == convert::CheckpointFormat::megatron) side.update(sizes_json(sizes));
  return side;
}

std::string side_text(convert::CheckpointFormat format, const convert::MegatronSizes& sizes) {
  if (format == convert::CheckpointFormat::hugging_face) return "Hugging Face";
  if (format == convert::CheckpointFormat::distributed) return "Megatron (torch_dist)";
  std::string text = fmt::format("Megatron (tp {}, pp {}", sizes.tensor, sizes.pipeline);
  if (sizes.virtual_chunks > 1) text += fmt::format(", {} chunks a rank", sizes.virtual_chunks);
  if (sizes.expert > 1) text += fmt::format(", ep {}", sizes.expert);
  return text + ")";
}

std::string report_text(const ConvertOptions& options, const convert::ConvertReport& report, double seconds) {
  std::string text =
      fmt::format("{}: {} tensors of a {} model in {} files, {} in {}\n", options.request.to, report.tensors,
                  report.architecture, report.files,
                  readable_bytes(static_cast<double>(report.written.value)), readable_duration(seconds));
  text += fmt::format("from {} to {}\n", side_text(report.from, report.from_sizes),
                      side_text(report.to, options.request.megatron.sizes));
  if (report.files_kept > 0)
    text += fmt::format("{} files were there from a conversion that was stopped\n", report.files_kept);
  return text;
}

std::string report_json(const ConvertOptions& options, const convert::ConvertReport& report, double seconds) {
  OrderedJson unused = OrderedJson::array();
  for (const std::string& name : report.unused) unused.push_back(printable(name, 400));
  const OrderedJson json = {{"from", side_json(report.from, options.request.from, report.from_sizes)},
                            {"to", side_json(report.to, options.request.to, options.request.megatron.sizes)},
                            {"architecture", report.architecture},
                            {"tensors", report.tensors},
                            {"files", report.files},
                            {"files_kept", report.files_kept},
                            {"bytes_written", report.written.value},
                            {"seconds", seconds},
                            {"unused", unused},
                            {"optimizer_left_out", report.optimizer}};
  return output_json(json, 2) + "\n";
}

void check_target_options(const ConvertOptions& options) {
  if (!options.megatron_options) return;
  const bool from_hugging_face =
      convert::format_of(options.request.from) == convert::CheckpointFormat::hugging_face;
  const bool to_megatron = options.to_format.empty() ? from_hugging_face : options.to_format == "megatron";
  if (to_megatron) return;
  throw InputError(
      "convert: --tp, --pp, --vpp, --ep, --experts, --make-vocab-size-divisible-by and --vocab-padding are "
      "about a Megatron checkpoint; expected --to megatron, or leave them out");
}

int run_check(ConvertOptions& options) {
  training::CheckRequest& request = options.check_request;
  request.folders = {options.request.from, options.request.to};
  request.model = options.request.model;
  request.precision = options.precision == "bf16" ? DType::bf16 : DType::fp32;
  Progress progress(1, 0, options.quiet ? nullptr : stderr);
  const training::CheckReport report = training::check_checkpoints(
      request, [&](int done, int all) { progress.update(done, all, "sequences"); });
  fmt::print("{}", options.json ? check_json(request, report) : check_text(request, report));
  return static_cast<int>(report.different > 0 ? ExitCode::regressed : ExitCode::done);
}

int run_convert(ConvertOptions& options) {
  using Clock = std::chrono::steady_clock;
  if (!options.to_format.empty()) {
    options.request.format = options.to_format == "megatron" ? convert::CheckpointFormat::megatron
                                                             : convert::CheckpointFormat::hugging_face;
  }
  options.request.megatron.padding =
      options.padding == "zero" ? convert::VocabularyPadding::zero : convert::VocabularyPadding::repeat;
  options.request.megatron.grouped_experts = options.experts == "grouped";
  check_target_options(options);
  const Clock::time_point begin = Clock::now();
  Progress progress(1, 0, options.quiet ? nullptr : stderr);
  const convert::ConvertReport report = [&] {
    try {
      return convert::convert_checkpoint(options.request, [&](Bytes done, Bytes all) {
        const auto mebibytes_of = [](Bytes bytes) { return static_cast<int>(bytes.value / kMiB.value); };
        if (mebibytes_of(all) > 0) progress.update(mebibytes_of(done), mebibytes_of(all), "MiB");
      });
    } catch (const std::filesystem::filesystem_error& error) {
      const std::string line = fmt::format("convert: {}: {}; expected another path",
                                           printable(error.path1().string(), 400), error.code().message());
      if (error.path1() == options.request.to) throw OutputError(line);
      throw InputError(line);
    }
  }();
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  if (!report.unused.empty()) {
    say(fmt::format(
        "note: {} tensors were left out, a {} model of this configuration has no place for them: {}{}\n",
        report.unused.size(), report.architecture, printable(report.unused.front(), 100),
        report.unused.size() > 1 ? ", …" : ""));
  }
  if (report.optimizer)
    say("note: states of an optimizer were left out, weights alone are converted: training begins anew with "
        "them\n");
  fmt::print("{}",
             options.json ? report_json(options, report, seconds) : report_text(options, report, seconds));
  return static_cast<int>(ExitCode::done);
}

/// --check, and the options that only it has.
void add_check_options(CLI::App& command, ConvertOptions& options) {
  training::CheckRequest& request = options.check_request;
  CLI::Option* check =
      command.add_flag("--check", options.check,
                       "Compare FROM and TO without writing: losses and top-5 next tokens on the same input");
  for (const char* name : {"--to", "--tp", "--pp", "--vpp", "--ep", "--make-vocab-size-divisible-by",
                           "--vocab-padding", "--experts", "--overwrite"})
    check->excludes(command.get_option(name));
  const auto of_check = [&](CLI::Option* option) { option->needs(check); };
  CLI::Option* tokens =
      command
          .add_option("--tokens", request.tokens,
                      "Token ids: .npy, a .txt of ids, or raw int32 (default: random by --seed)")
          ->type_name("FILE");
  of_check(tokens);
  of_check(command.add_option("--seed", request.seed, "Random seed of the tokens")
               ->excludes(tokens)
               ->check(number_from(std::uint64_t{0}, std::numeric_limits<std::uint64_t>::max()))
               ->capture_default_str());
  of_check(command.add_option("--sequences", request.sequences, "Number of sequences")
               ->check(number_from(1, 1 << 16))
               ->capture_default_str());
  of_check(command
               .add_option("--seq-length", request.seq_length,
                           "Sequence length, in tokens (default: 64, or the model's positions if fewer)")
               ->check(number_from(std::int64_t{1}, std::int64_t{1} << 20)));
  of_check(command
               .add_option("--precision", options.precision,
                           "Data type of the evaluation: fp32 (4 bytes per parameter) or bf16 (2)")
               ->check(CLI::IsMember({"fp32", "bf16"}))
               ->capture_default_str());
  of_check(
      command.add_option("--tolerance", request.tolerance, "Largest accepted loss difference of a sequence")
          ->check(number_from(0.0, 1e9))
          ->capture_default_str());
}

}  // namespace

void add_convert_command(CLI::App& app, CommandAction& action) {
  CLI::App* command =
      app.add_subcommand("convert", "Convert a checkpoint between Hugging Face's and Megatron's layouts");
  const auto options = std::make_shared<ConvertOptions>();
  convert::ConvertRequest& request = options->request;
  convert::MegatronTarget& megatron = request.megatron;
  command->add_option("from", request.from, "Checkpoint to read, of either format")
      ->required()
      ->type_name("FROM");
  command->add_option("to", request.to, "Output folder")->required()->type_name("TO");
  command->add_option("--to", options->to_format, "Output format (default: the other one)")
      ->check(CLI::IsMember({"hf", "megatron"}));
  const auto number = [&](const char* names, int& value, const char* what) {
    command->add_option(names, value, what)->check(number_from(1, 1 << 16))->capture_default_str();
  };
  number("--tp,--tensor-model-parallel-size", megatron.sizes.tensor, "Tensor-parallel size");
  number("--pp,--pipeline-model-parallel-size", megatron.sizes.pipeline, "Pipeline-parallel size");
  number("--vpp,--virtual-pipeline-chunks", megatron.sizes.virtual_chunks,
         "Chunks of layers per pipeline rank");
  number("--ep,--expert-model-parallel-size", megatron.sizes.expert, "Expert-parallel size");
  command
      ->add_option("--make-vocab-size-divisible-by", megatron.vocabulary_multiple,
                   "Padding of the vocabulary: to a multiple of this x tensor-parallel size")
      ->check(number_from(std::int64_t{1}, std::int64_t{1} << 24))
      ->capture_default_str();
  command
      ->add_option("--vocab-padding", options->padding,
                   "Padding rows: copies of the last row (Megatron's tools) or zeros (Megatron-Bridge)")
      ->check(CLI::IsMember({"repeat", "zero"}))
      ->capture_default_str();
  command
      ->add_option("--experts", options->experts,
                   "Names of experts: a module each (local) or those of grouped GEMM (grouped, "
                   "\"linear_fc1.weight0\")")
      ->check(CLI::IsMember({"local", "grouped"}))
      ->capture_default_str();
  command->add_option("--model", request.model,
                      "Model if FROM has no config.json: a preset, a Hugging Face folder or its config.json");
  command->add_flag("--overwrite", request.overwrite, "Replace an existing checkpoint at TO");
  command->add_flag("--json", options->json, "Print the result as JSON");
  add_check_options(*command, *options);
  command->callback([=, &app, &action] {
    for (const char* name :
         {"--tp", "--pp", "--vpp", "--ep", "--make-vocab-size-divisible-by", "--vocab-padding", "--experts"})
      options->megatron_options |= command->count(name) > 0;
    action = [=, &app] {
      options->quiet = is_quiet(app);
      return options->check ? run_check(*options) : run_convert(*options);
    };
  });
}

}  // namespace plumbline
