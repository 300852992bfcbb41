#include "bench/commands/benchmarks/bench_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "bench/commands/number_range.hpp"
#include "core/base/error.hpp"
#include "core/base/one_line.hpp"
#include "core/base/text_input.hpp"
#include "core/config/config_checks.hpp"
#include "core/config_text/load_config.hpp"

namespace plumbline {
namespace {

constexpr const char* kSizesForm = "MIN:MAX:FACTOR such as 8:8G:2";
constexpr std::array<std::pair<std::string_view, Group>, 9> kGroupNames = {{{"world", Group::world},
                                                                            {"tp", Group::tensor},
                                                                            {"cp", Group::context},
                                                                            {"dp", Group::data},
                                                                            {"ep", Group::expert},
                                                                            {"edp", Group::expert_data},
                                                                            {"pp", Group::pipeline},
                                                                            {"model", Group::model},
                                                                            {"embedding", Group::embedding}}};

std::vector<std::string> group_words() {
  std::vector<std::string> words;
  words.reserve(kGroupNames.size());
  for (const auto& [name, group] : kGroupNames) words.emplace_back(name);
  return words;
}

std::vector<std::string> kind_words() {
  std::vector<std::string> words;
  for (const BenchedKind& kind : benched_kinds()) words.emplace_back(kind.option);
  for (const BenchedOperator kind : {BenchedOperator::gemm, BenchedOperator::attention,
                                     BenchedOperator::experts, BenchedOperator::memory_bound})
    words.emplace_back(name_of(kind));
  return words;
}

/// nccl-tests' K, M and G.
std::int64_t bytes_of(std::string text) {
  if (!text.empty() && std::string_view("kKmMgG").find(text.back()) != std::string_view::npos) {
    text.back() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.back())));
    text += "iB";
  }
  const std::int64_t bytes = parse_bytes(text, "--sizes").value;
  if (bytes < 1 || bytes > kMostBenchedBytes) {
    throw InputError(
        fmt::format("--sizes: found {}, expected 1 to {} bytes", printable(text), kMostBenchedBytes));
  }
  return bytes;
}

std::int64_t factor_of(std::string_view text) {
  std::int64_t factor = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), factor);
  if (error != std::errc() || end != text.data() + text.size() || factor < 2 || factor > 1024) {
    throw InputError(fmt::format("--sizes: found factor \"{}\", expected a whole number from 2 to 1024",
                                 printable(std::string(text))));
  }
  return factor;
}

/// The axis of the group takes all ranks when no size is given.
Layout layout_of_group(Group group, int ranks) {
  Layout layout{1, ranks, 1};
  switch (group) {
    case Group::tensor:
      layout = {ranks, 1, 1};
      break;
    case Group::context:
      layout = {1, 1, ranks};
      layout.context = ranks;
      break;
    case Group::data:
      layout = {1, 1, ranks};
      break;
    case Group::expert:
      layout = {1, 1, ranks};
      layout.expert = ranks;
      break;
    default:
      break;
  }
  return layout;
}

}  // namespace

BenchFormat BenchOptions::format() const {
  if (json) return BenchFormat::json;
  if (csv) return BenchFormat::csv;
  return nccl ? BenchFormat::nccl : BenchFormat::table;
}

BenchedSizes parse_sizes(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t first = 0; first <= text.size();) {
    const std::size_t colon = std::min(text.find(':', first), text.size());
    parts.push_back(text.substr(first, colon - first));
    first = colon + 1;
  }
  if (parts.size() > 3) {
    throw InputError(fmt::format("--sizes: found {}, expected {}", printable(text), kSizesForm));
  }
  BenchedSizes sizes;
  sizes.smallest = sizes.largest = bytes_of(parts.front());
  if (parts.size() > 1) sizes.largest = bytes_of(parts[1]);
  if (parts.size() > 2) sizes.factor = factor_of(parts[2]);
  if (sizes.largest < sizes.smallest) {
    throw InputError(
        fmt::format("--sizes: found {}, expected MIN at most MAX in {}", printable(text), kSizesForm));
  }
  return sizes;
}

Group group_named(const std::string& name) {
  const auto* const found = std::find_if(kGroupNames.begin(), kGroupNames.end(),
                                         [&](const auto& each) { return each.first == name; });
  if (found == kGroupNames.end()) {
    throw InputError(fmt::format("--group: found {}, expected one of {}", printable(name),
                                 fmt::join(group_words(), ", ")));
  }
  return found->second;
}

BenchRequest bench_request(const BenchOptions& options) {
  BenchRequest request;
  for (const std::string& word : options.kinds) {
    const auto kinds = benched_kinds();
    const auto found = std::find_if(kinds.begin(), kinds.end(),
                                    [&](const BenchedKind& kind) { return kind.option == word; });
    if (found == kinds.end()) {
      throw InputError(fmt::format("KIND: found {}, expected a collective; use bench operator", word));
    }
    request.calls.push_back(found->call);
  }
  if (request.calls.empty()) request.calls = {BenchedCall::all_reduce};
  request.sizes = parse_sizes(options.sizes);
  request.type = options.type == "bf16" ? DType::bf16 : options.type == "int32" ? DType::int32 : DType::fp32;
  request.group = group_named(options.group);
  request.limit_s = options.limit_s;
  return request;
}

Layout bench_layout(const BenchOptions& options, int asked) {
  const int wanted = options.ranks > 0 ? options.ranks : asked;
  if (!options.config.empty()) {
    Overrides overrides;
    if (wanted > 0) overrides.push_back({"world_size", std::to_string(wanted)});
    const RunConfig config = load_run_config(options.config, overrides);
    if (const auto reason = why_invalid(config)) throw InputError(*reason);
    return config.layout();
  }
  const int replica = options.tensor * options.context * options.pipeline;
  if (replica * options.expert == 1)
    return layout_of_group(group_named(options.group), wanted > 0 ? wanted : 2);
  const int ranks = wanted > 0 ? wanted : replica * options.expert;
  if (ranks % replica != 0) {
    throw InputError(
        fmt::format("--ranks: found {}, expected a multiple of tp x cp x pp = {}", ranks, replica));
  }
  Layout layout{options.tensor, options.pipeline, ranks / options.tensor / options.pipeline};
  layout.context = options.context;
  layout.expert = options.expert;
  if (layout.data % layout.expert != 0) {
    throw InputError(fmt::format("--ep: found {}, expected a divisor of the {} ranks of dp x cp",
                                 options.expert, layout.data));
  }
  return layout;
}

Backend bench_backend(const BenchOptions& options) {
  return options.backend == "cuda" ? Backend::cuda : Backend::cpu;
}

void add_bench_options(CLI::App& command, const std::shared_ptr<BenchOptions>& options) {
  const CLI::Validator axis = number_from(1, 1 << 20);
  command.add_option("WHAT", options->what, "Benchmark: collective (messages between ranks), operator")
      ->required()
      ->check(CLI::IsMember({"collective", "operator"}));
  command
      .add_option("KIND", options->kinds,
                  "Collectives and messages (default: all-reduce), or operators (gemm), in this order")
      ->check(CLI::IsMember(kind_words()))
      ->type_name("KIND...");
  command
      .add_option("--sizes", options->sizes,
                  "Sizes in bytes, each FACTOR times the one before; K, M, G: powers of 1024")
      ->type_name("MIN:MAX:FACTOR")
      ->capture_default_str();
  CLI::Option* shape =
      command
          .add_option("--shape", options->shapes,
                      "Shape of an operator, such as m=512,n=512,k=512; also type, pass, name")
          ->type_name("COLUMN=VALUE,...")
          ->allow_extra_args(false);
  CLI::Option* shapes =
      command.add_option("--shapes", options->shape_file, "CSV table of an operator's shapes")
          ->type_name("FILE");
  command.add_option("--type", options->type, "Element type")
      ->check(CLI::IsMember({"fp32", "bf16", "int32"}))
      ->capture_default_str();
  command
      .add_option("--group", options->group,
                  "Group of ranks; all groups of that kind run at once. Without sizes it takes all ranks")
      ->check(CLI::IsMember(group_words()))
      ->capture_default_str();
  CLI::Option* config = command
                            .add_option("--config", options->config,
                                        "Configuration with the groups, in place of --tp, --cp, --pp, --ep; "
                                        "or with an operator's shapes")
                            ->excludes(shape)
                            ->excludes(shapes)
                            ->type_name("CONFIG");
  command
      .add_option("--ranks", options->ranks, "Ranks to start (default: those of the sizes or hosts, or 2)")
      ->check(axis)
      ->type_name("N");
  command.add_option("--tp", options->tensor, "Tensor-parallel size")->check(axis)->excludes(config);
  command.add_option("--cp", options->context, "Context-parallel size")->check(axis)->excludes(config);
  command.add_option("--pp", options->pipeline, "Pipeline-parallel size")->check(axis)->excludes(config);
  command.add_option("--ep", options->expert, "Expert-parallel size")->check(axis)->excludes(config);
  command
      .add_option("--backend", options->backend,
                  "Measured: cpu (MPI, host memory) or cuda (NCCL, GPU memory)")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  command.add_flag("--registered", options->registered, "Backend cuda: buffers registered with NCCL");
  command
      .add_option("--hardware", options->hardware,
                  "Accelerator or profile that predicts the times (default: as for `run`)")
      ->type_name("NAME|FILE");
  command.add_option("--time-limit", options->limit_s, "Longest timing of one size or shape, in seconds")
      ->check(number_from(0.01, 3600.0))
      ->type_name("S")
      ->capture_default_str();
  command
      .add_option("--launcher", options->launcher.launcher,
                  "Launcher: local (this host) or mpirun (hosts of --hostfile or of the Slurm job)")
      ->check(CLI::IsMember({"local", "mpirun"}));
  command
      .add_option("--hostfile", options->launcher.hostfile, "File of hosts for the ranks, this host first")
      ->type_name("FILE");
  CLI::Option* json = command.add_flag("--json", options->json, "Print JSON with rccl-tests' keys");
  CLI::Option* csv = command.add_flag("--csv", options->csv, "Print CSV with rccl-tests' columns");
  command.add_flag("--nccl-tests", options->nccl, "Print exactly the columns of nccl-tests")
      ->excludes(json)
      ->excludes(csv);
  csv->excludes(json);
  command
      .add_option("--plot", options->plot, "Output SVG: time over size, measured, predicted, and the limit")
      ->type_name("FILE.svg");
  command.add_flag("--rows", options->rows)->group("");
}

void check_bench_options(const CLI::App& command, const BenchOptions& options) {
  const bool of_operators = options.what == "operator";
  const std::vector<std::string> foreign =
      of_operators ? std::vector<std::string>{"--sizes",    "--group",    "--ranks",      "--tp",
                                              "--cp",       "--pp",       "--ep",         "--registered",
                                              "--launcher", "--hostfile", "--nccl-tests", "--plot"}
                   : std::vector<std::string>{"--shape", "--shapes"};
  for (const std::string& name : foreign) {
    if (command.get_option(name)->count() > 0) {
      throw InputError(
          fmt::format("{}: found it with bench {}, expected nothing; remove it", name, options.what));
    }
  }
}

}  // namespace plumbline
