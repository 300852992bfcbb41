// The whole product of schedules, parallelism and memory savings on as many ranks as were started: gradients
// against one rank, memory of both backends against the prediction to the byte (every rank, category and
// action), traffic of both against the formulas.
//   mpirun -n 8 full_product [--cover | --context | --experts] [--part I/N]
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "analysis/memory/memory_model.hpp"
#include "analysis/step/stage_shapes.hpp"
#include "analysis/work/routing/given_routing.hpp"
#include "analysis/work/routing/routed_traffic.hpp"
#include "bench/plan/plan.hpp"
#include "bench/training/trainer/host_values.hpp"
#include "core/backends/mpi/emulated_communicator.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/backends/mpi/session.hpp"
#include "core/run/solo_communicator.hpp"
#include "kernels/emulated/emulated_operators.hpp"
#include "tests/bench/training/product_cells.hpp"
#include "tests/bench/training/support/predicted_step.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training {
namespace {

constexpr double kGradientTolerance = 1e-5;  // of a tensor's largest entry, fp32
constexpr double kLossTolerance = 1e-6;

/// True if experts may drop rows without being padded.
bool drops(const RunConfig& config) {
  return config.mixture.capacity_factor > 0 && !config.mixture.pad_to_capacity;
}
/// True if memory depends on the experts that tokens choose.
bool follows_routing(const RunConfig& config) {
  return config.spreads_experts() || config.spreads_teacher_experts() || drops(config) ||
         (config.model.mixture && config.numerics.fp8.on());
}

/// Result of one cell; on rank 0.
struct Finding {
  double gradient_error = 0;
  std::string failures;  // one line each
  std::int64_t bytes_compared = 0;
};

/// Measurement of one backend.
struct Measured {
  const char* backend;
  const std::vector<MeasuredMemory>& memory;
  const std::vector<std::vector<MemorySample>>& samples;
  std::vector<Traffic> traffic;  // empty: not compared
  bool routed = false;           // else rows are even
  std::vector<RoutedTokens> routing;
  std::vector<RoutedTokens> teacher_routing;
};

void compare_bytes(const MemoryBreakdown& predicted, const MemoryBreakdown& measured,
                   const std::string& where, Finding& finding) {
  for (int i = 0; i < kCategories; ++i) {
    const auto category = static_cast<Category>(i);
    ++finding.bytes_compared;
    if (predicted[category] == measured[category]) continue;
    finding.failures += fmt::format("    {}, {}: predicted {}, measured {}\n", where, name_of(category),
                                    predicted[category].value, measured[category].value);
    return;  // one line per place
  }
}

void compare_with_prediction(const RunConfig& config, const Schedule& schedule, const Measured& measured,
                             Finding& finding) {
  const Layout layout = config.layout();
  std::vector<RoutedRows> rows;  // by sender, if the routing is known
  std::vector<MemoryPrediction> predictions;
  std::vector<std::optional<RoutedRows>> of_teacher;
  for (int sender = 0; sender < layout.senders() && measured.routed; ++sender) {
    rows.emplace_back(config, schedule, measured.routing, sender);
    of_teacher.push_back(teacher_rows(config, schedule, measured.teacher_routing, sender));
    predictions.push_back(
        predict_memory(config, schedule, MemoryDetail::timeline, rows.back(), or_null(of_teacher.back())));
  }
  if (rows.empty()) predictions.push_back(predict_memory(config, schedule, MemoryDetail::timeline));
  for (int rank = 0; rank < layout.world(); ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    const auto sender = static_cast<std::size_t>(layout.sender(layout.coordinates(rank)));
    const MemoryPrediction& predicted = predictions[rows.empty() ? 0 : sender];
    compare_bytes(predicted.of_rank(rank).peak, measured.memory[r].at_peak,
                  fmt::format("{} memory, rank {}", measured.backend, rank), finding);
    if (const Bytes host = predicted.of_rank(rank).host; host != measured.memory[r].host)
      finding.failures += fmt::format("    {} memory of the host, rank {}: predicted {}, measured {}\n",
                                      measured.backend, rank, host.value, measured.memory[r].host.value);
    const Coordinates at = layout.coordinates(rank);
    if (at.tensor != 0 || at.data != 0) continue;
    const auto& samples = measured.samples[static_cast<std::size_t>(at.pipeline)];
    const auto& timeline = predicted.of_rank(rank).timeline;
    if (samples.size() != timeline.size()) finding.failures += "    other number of actions\n";
    for (std::size_t i = 0; i < std::min(samples.size(), timeline.size()); ++i) {
      if (samples[i] == timeline[i]) {
        finding.bytes_compared += std::int64_t{2} * kCategories;
        continue;
      }
      const std::string where =
          fmt::format("{} timeline, rank {}, {}", measured.backend, rank,
                      to_string(schedule.actions[static_cast<std::size_t>(at.pipeline)][i]));
      compare_bytes(timeline[i].peak, samples[i].peak, where + " peak", finding);
      compare_bytes(timeline[i].after, samples[i].after, where + " after", finding);
      break;
    }
  }
  std::vector<Traffic> traffic = predict_traffic(config, schedule);
  for (int rank = 0; rank < layout.world() && !rows.empty(); ++rank) {
    const auto sender = static_cast<std::size_t>(layout.sender(layout.coordinates(rank)));
    traffic[static_cast<std::size_t>(rank)] =
        predict_traffic(config, schedule, rank, rows[sender], or_null(of_teacher[sender]));
  }
  for (std::size_t rank = 0; rank < measured.traffic.size(); ++rank) {
    if (same(traffic[rank], measured.traffic[rank])) continue;
    finding.failures +=
        fmt::format("    {} traffic of rank {} is not as the formulas say\n", measured.backend, rank);
    break;
  }
}

/// Everything that all cells of this run share.
class Product {
 public:
  explicit Product(int rank) : rank_(rank) {}

  Finding run(const ProductCell& cell) {
    const Schedule schedule = schedule_for(cell.config);
    MpiCommunicator& communicator = communicator_for(cell.config.layout());
    Finding finding;
    // Delayed scaling is checked from the second step on: the first finds its scales. Figures that follow the
    // routing, which differs in every step, are checked in the first, except for the traffic of ranks that
    // find scales together.
    const bool delayed =
        cell.config.numerics.fp8.on() && cell.config.numerics.fp8.recipe == Fp8Recipe::delayed;
    const bool routed = follows_routing(cell.config);
    const StepResult step = last_step(cell.config, schedule, delayed && !routed ? 2 : 1, communicator);
    Measured on_cpu{"cpu",  step.memory,  step.samples,        from_every_rank(communicator, step.traffic),
                    routed, step.routing, step.teacher_routing};
    if (delayed && routed && cell.config.parallel.effective_sequence_parallel()) on_cpu.traffic.clear();
    if (rank_ == 0) {
      if (has_one_result(cell.config)) compare_gradients(cell, step, finding);
      compare_with_prediction(cell.config, schedule, on_cpu, finding);
    }
    for (const DType precision : {DType::fp32, DType::bf16}) {
      RunConfig config = cell.config;
      config.machine.backend = Backend::emulated;
      config.numerics.precision = precision;
      config.measure.warmup_steps = delayed ? 1 : 0;
      emulate(config, schedule, communicator, finding);
    }
    return finding;
  }

 private:
  /// In FP8 a number next to a rounding boundary comes out a step away when sums have another order. Delayed
  /// scales depend on the first tensor of a rank. fp8_step_test therefore compares those gradients. Context
  /// ranks have a capacity each, and drop other rows than one rank does. Rows of several ranks at one expert
  /// have one scale, slices of an expert one each.
  static bool has_one_result(const RunConfig& config) {
    if (drops(config) && config.parallel.context > 1) return false;
    return !config.numerics.fp8.on() ||
           (config.numerics.fp8.recipe == Fp8Recipe::tensorwise && config.parallel.tensor == 1 &&
            config.parallel.context == 1 && config.parallel.expert == 1 &&
            config.parallel.effective_expert_tensor() == 1 && !config.parallel.splits_vocabulary());
  }

  MpiCommunicator& communicator_for(const Layout& layout) {
    if (!communicator_ || layout.tensor != layout_.tensor || layout.pipeline != layout_.pipeline ||
        layout.vocab_parallel != layout_.vocab_parallel || layout.context != layout_.context ||
        layout.context_heads != layout_.context_heads || layout.expert != layout_.expert ||
        layout.expert_slices() != layout_.expert_slices() || layout.zero_param != layout_.zero_param ||
        layout.optimizer_instance != layout_.optimizer_instance) {
      emulated_.reset();
      communicator_.reset();
      communicator_ = std::make_unique<MpiCommunicator>(layout);
      emulated_ = std::make_unique<EmulatedCommunicator>(layout, clock_, EmulatedLinks{});
      layout_ = layout;
    }
    return *communicator_;
  }

  void compare_gradients(const ProductCell& cell, const StepResult& step, Finding& finding) {
    const MixtureConfig& mixture = cell.config.mixture;
    // With the global batch balanced, one micro-batch is that of all copies of the model.
    const int together = mixture.balances_globally() ? cell.config.parallel.data() : 1;
    StepResult& reference =
        references_[{cell.config.batch.global_batch_size, cell.config.numerics.hidden_dropout,
                     cell.config.numerics.fp8.on(), cell.switches, mixture.aux_loss_coeff,
                     mixture.capacity_factor, mixture.drop_policy, mixture.load_balancing, together}];
    if (reference.gradients.empty()) {
      RunConfig alone = cell.config;
      alone.batch.micro_batch_size *= together;
      set_layout(alone, Layout{});
      alone.parallel.context = alone.parallel.expert = 1;
      alone.parallel.expert_tensor = 0;
      alone.parallel.cp.hierarchical = {};
      alone.parallel.pp.schedule = "1f1b";
      alone.parallel.pp.vocab_parallel = VocabPasses::none;
      alone.parallel.sequence_parallel = false;
      alone.recompute.granularity = Recompute::none;
      alone.offload = {};
      alone.parallel.pp.defer_embedding_wgrad_compute = false;
      alone.parallel.dp.zero_stage = 0;
      alone.parallel.dp.hpz_partition_size = alone.parallel.dp.optimizer_instances = 1;
      alone.parallel.ep.overlap_comm = alone.parallel.ep.shared_expert_overlap = false;
      SoloCommunicator solo;
      reference = one_step(alone, solo);
    }
    std::string worst;
    finding.gradient_error = largest_error(reference.gradients, step.gradients, worst);
    if (!(finding.gradient_error <= kGradientTolerance)) {
      finding.failures +=
          fmt::format("    gradient of {} differs by {:.2e}\n", worst, finding.gradient_error);
    }
    if (!(std::abs(step.loss - reference.loss) <= kLossTolerance * std::abs(reference.loss))) {
      finding.failures += fmt::format("    loss {} instead of {}\n", step.loss, reference.loss);
    }
  }

  void emulate(const RunConfig& config, const Schedule& schedule, MpiCommunicator& control,
               Finding& finding) {
    const auto operators = make_emulated_operators(clock_, {});
    const auto host = emulated_host_lane(clock_, {});
    const TrainingResult result = train(config, schedule, *operators, *emulated_, control, untouched_memory(),
                                        {}, nullptr, {}, {}, host.get());
    Measured emulated{config.numerics.precision == DType::fp32 ? "emulated fp32" : "emulated bf16",
                      result.memory,
                      result.samples,
                      from_every_rank(control, result.step_traffic),
                      config.spreads_experts() || config.spreads_teacher_experts() || drops(config),
                      {},
                      {}};
    // Experts that have one row more than others are those of the first ranks.
    if (emulated.routed && config.model.mixture) emulated.routing = given_routing(config);
    if (config.spreads_teacher_experts()) emulated.teacher_routing = given_routing(evaluated_teacher(config));
    if (rank_ == 0) compare_with_prediction(config, schedule, emulated, finding);
  }

  int rank_;
  EmulatedClock clock_{0};
  Layout layout_;
  std::unique_ptr<MpiCommunicator> communicator_;
  std::unique_ptr<EmulatedCommunicator> emulated_;
  /// Keyed by global batch, dropout, FP8, the model, the weight of its load-balancing loss, capacities, the
  /// scope of balancing, and copies where it covers these; on rank 0.
  std::map<std::tuple<std::int64_t, double, bool, std::size_t, double, double, TokenDropPolicy, LoadBalancing,
                      int>,
           StepResult>
      references_;
};

/// "[####....] 120/1848, 4 min left": redrawn on a terminal, a line per tenth otherwise.
class Bar {
 public:
  Bar(std::size_t total, bool shown) : total_(total), shown_(shown), terminal_(isatty(STDERR_FILENO) != 0) {}
  void step(const std::string& cell) {
    ++done_;
    const std::size_t tenth = done_ * 10 / total_;
    if (!shown_ || (!terminal_ && tenth == tenth_)) return;
    tenth_ = tenth;
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
    const double left = elapsed.count() / static_cast<double>(done_) * static_cast<double>(total_ - done_);
    fmt::print(stderr, "{}[{:#<{}}{:.<{}}] {}/{}, {:.0f} s left, {}{}", terminal_ ? "\r\033[K" : "", "",
               done_ * 20 / total_, "", 20 - done_ * 20 / total_, done_, total_, left, cell,
               terminal_ && done_ < total_ ? "" : "\n");
    std::fflush(stderr);
  }

 private:
  std::size_t total_;
  bool shown_;
  bool terminal_;
  std::size_t done_ = 0;
  std::size_t tenth_ = 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

struct Line {
  int run = 0;
  int illegal = 0;
  int failed = 0;
  double gradient_error = 0;
  std::int64_t bytes_compared = 0;
  void add(const Line& other) {
    run += other.run;
    illegal += other.illegal;
    failed += other.failed;
    gradient_error = std::max(gradient_error, other.gradient_error);
    bytes_compared += other.bytes_compared;
  }
};

int run_product(int rank, int ranks, const std::vector<ProductCell>& cells) {
  Product product(rank);
  Bar bar(cells.size(), rank == 0);
  std::map<std::string, Line> lines;
  std::map<std::string, std::pair<int, std::string>> reasons;  // of illegal cells, with an example
  std::string failing;
  for (const ProductCell& cell : cells) {
    Line& line = lines[cell.schedule];
    if (!cell.illegal.empty()) {
      ++line.illegal;
      auto& [count, example] = reasons[cell.illegal];
      if (count++ == 0) example = cell.name;
    } else {
      const Finding finding = product.run(cell);
      line.add({1, 0, finding.failures.empty() ? 0 : 1, finding.gradient_error, finding.bytes_compared});
      if (!finding.failures.empty()) failing += fmt::format("  {}\n{}", cell.name, finding.failures);
    }
    bar.step(cell.name);
  }
  if (rank != 0) return 0;
  Line all;
  fmt::print("{} rank{}\n{:<18}{:>7}{:>9}{:>8}{:>18}{:>18}\n", ranks, ranks == 1 ? "" : "s", "schedule",
             "cells", "illegal", "failed", "gradient error", "figures equal");
  const auto print = [](const std::string& name, const Line& line) {
    fmt::print("{:<18}{:>7}{:>9}{:>8}{:>18.2e}{:>18}\n", name, line.run, line.illegal, line.failed,
               line.gradient_error, line.bytes_compared);
  };
  for (const auto& [name, line] : lines) {
    print(name, line);
    all.add(line);
  }
  print("all", all);
  const auto hidden = [&](auto overlap) {
    return std::count_if(cells.begin(), cells.end(), [&](const ProductCell& cell) {
      return cell.illegal.empty() && overlap(cell.config.parallel);
    });
  };
  fmt::print(
      "{} cells offload layers, {} defer gradients of the output layer\n",
      std::count_if(cells.begin(), cells.end(),
                    [](const ProductCell& cell) { return cell.illegal.empty() && cell.config.offload.on(); }),
      hidden([](const ParallelConfig& p) { return p.pp.defer_embedding_wgrad_compute; }));
  if (cells.front().config.model.mixture)
    fmt::print("rows of experts hidden in {} cells by pairs, in {} by the shared expert\n",
               hidden([](const ParallelConfig& p) { return p.ep.overlap_comm; }),
               hidden([](const ParallelConfig& p) { return p.ep.shared_expert_overlap; }));
  for (const auto& [reason, seen] : reasons)
    fmt::print("illegal, {} cells such as {}: {}\n", seen.first, seen.second, reason);
  if (!failing.empty()) fmt::print("failing cells:\n{}", failing);
  std::fflush(stdout);
  return all.failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace plumbline::training

int main(int argc, char** argv) {
  bool covering = false;
  bool context = false;
  bool experts = false;
  std::size_t part = 1;  // the cells part, part + parts, ...
  std::size_t parts = 1;
  for (int i = 1; i < argc; ++i) {
    covering = covering || std::strcmp(argv[i], "--cover") == 0;
    context = context || std::strcmp(argv[i], "--context") == 0;
    experts = experts || std::strcmp(argv[i], "--experts") == 0;
    if (std::strcmp(argv[i], "--part") == 0 && i + 1 < argc &&
        std::sscanf(argv[i + 1], "%zu/%zu", &part, &parts) == 2 && part >= 1 && part <= parts) {
      ++i;
    } else if (!covering && !context && !experts) {
      fmt::print(stderr, "found {}, expected --cover, --context, --experts or nothing, and --part 1/4\n",
                 argv[i]);
      return 2;
    }
  }
  const plumbline::MpiSession session(argc, argv);
  using namespace plumbline::training;
  return session.guard([&] {
    const int ranks = session.ranks();
    const std::vector<ProductCell> all = experts   ? expert_cells(ranks)
                                         : context ? context_cells(ranks)
                                                   : product_cells(ranks, covering);
    std::vector<ProductCell> cells;
    for (std::size_t i = part - 1; i < all.size(); i += parts) cells.push_back(all[i]);
    return run_product(session.rank(), ranks, cells);
  });
}
