#include "tests/bench/training/product_cells.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>

#include "bench/plan/plan.hpp"
#include "core/base/error.hpp"
#include "core/config/config_checks.hpp"
#include "core/schedule/schedule_traits.hpp"
#include "tests/bench/training/covering.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training {
namespace {

struct Pipeline {
  std::string schedule;
  VocabPasses vocabulary = VocabPasses::none;
};
/// Every schedule that is built in but those with a teacher; vocabulary passes stand with the schedule that
/// they are added to.
const std::vector<Pipeline>& pipelines() {
  static const std::vector<Pipeline> kPipelines = [] {
    std::vector<Pipeline> list;
    for (const ScheduleTraits& traits : known_schedules()) {
      if (!traits.teacher)
        list.push_back({std::string(traits.base.empty() ? traits.name : traits.base), traits.vocab});
    }
    return list;
  }();
  return kPipelines;
}
constexpr std::size_t k1F1B = 1;
constexpr std::size_t kZeroStages = 4;
constexpr std::size_t kSequences = 3;  // off, on, on with overlapped collectives
constexpr int kLargestSize = 4;
constexpr int kMicrobatches = 8;  // enough for DualPipe on four ranks

/// Number format of linear layers.
struct LinearLayers {
  const char* name;
  Fp8Format format;
  Fp8Recipe recipe;
};
constexpr LinearLayers kLinearLayers[] = {{"", Fp8Format::none, Fp8Recipe::delayed},
                                          {" fp8 delayed", Fp8Format::hybrid, Fp8Recipe::delayed},
                                          {" fp8 tensorwise", Fp8Format::e4m3, Fp8Recipe::tensorwise}};

/// The switches of other families (bench/training/families.md), in models that together have them all.
struct Switches {
  const char* name;
  void (*set)(ModelConfig& model);
};
void set_norms(ModelConfig& model) {
  model.architecture = "bloom";
  model.norms.kind = Norm::layer;
  model.position.kind = Positions::alibi;
  model.activation = Activation::gelu_erf;
  model.biases.linear = true;
  model.embedding.norm = true;
  model.norms.qk = true;
  model.embedding.scale = 1.5;
}
void set_parallel(ModelConfig& model) {
  model.architecture = "falcon";
  model.block = Block::parallel;
  model.activation = Activation::squared_relu;
  model.rotary.dim = 4;
  model.rotary.pairs = RotaryPairs::neighbours;
  model.norms.less_one = true;
}
void set_shared_norm(ModelConfig& model) {
  set_parallel(model);
  model.block = Block::parallel_one_norm;
  model.activation = Activation::geglu;
  model.biases.linear = true;
  model.biases.output = true;
}
/// A prefix that all see is the run's own (cell_of).
void set_first_glm(ModelConfig& model) {
  model.architecture = "glm_10b";
  model.norms.kind = Norm::layer;
  model.position.kind = Positions::learned;
  model.position.max = 33;
  model.position.of_blocks = true;
  model.norms.residual = 1.5;
  model.biases.linear = true;
  model.activation = Activation::gelu;
}
void set_normed_output(ModelConfig& model) {
  model.architecture = "baichuan";
  model.embedding.tied = false;
  model.norms.output_rows = true;
}
constexpr Switches kSwitches[] = {{"", [](ModelConfig&) {}},           {" alibi and norms", set_norms},
                                  {" parallel block", set_parallel},   {" shared norm", set_shared_norm},
                                  {" normed residual", set_first_glm}, {" normed output", set_normed_output}};
/// MoE models; on devices that compute nothing every expert has equally many rows.
void set_mixture(ModelConfig& model) {
  model.architecture = "mixtral";
  model.biases.qkv = model.embedding.tied = false;
  model.mixture = {8, 2, true};
}
void set_shared_expert(ModelConfig& model) {
  set_mixture(model);
  model.architecture = "qwen2_moe";
  model.mixture.normalized = false;
  model.mixture.shared = 64;
}
void set_groups(ModelConfig& model) {
  set_mixture(model);
  model.architecture = "glm4_moe";
  model.norms.qk = true;
  model.mixture.top_k = 3;
  model.mixture.shared = 64;
  model.mixture.shared_gated = false;
  model.mixture.first_dense = 3;
  model.mixture.dense_ffn = 96;
  model.mixture.scores = RouterScores::sigmoid;
  model.mixture.groups = 4;
  model.mixture.chosen_groups = 2;
  model.mixture.routed_scale = 1.5;
  model.mixture.expert_bias = true;
}
constexpr Switches kMixtures[] = {
    {" mixture", set_mixture}, {" shared expert", set_shared_expert}, {" groups of experts", set_groups}};
constexpr std::size_t kFirstGlm = 4;

/// Context-parallel exchange, and the number format of linear layers with it.
struct Sharing {
  CpCommType type;
  std::size_t linear;
};
constexpr Sharing kSharings[] = {{CpCommType::p2p, 0}, {CpCommType::all_gather, 0},
                                 {CpCommType::a2a, 0}, {CpCommType::a2a_p2p, 0},
                                 {CpCommType::p2p, 1}, {CpCommType::all_gather, 2}};

/// Number of them that expert cells cycle through.
constexpr std::size_t kSharingsOfExperts = 2;
/// Dispatch of tokens to experts, and the capacity.
enum Dispatching : std::size_t { kSent, kGathered, kDropped, kPadded, kDispatches };

/// With context parallelism, kLinear is one of kSharings; with experts, one of the first of them with one
/// kind of dispatch.
enum Column : std::size_t { kLayout, kSchedule, kSequence, kRecompute, kZero, kDropout, kLinear, kModel };

std::vector<Layout> product_layouts(int ranks) {
  std::vector<Layout> layouts;
  for (const Layout& layout : layouts_of(ranks)) {
    if (layout.tensor <= kLargestSize && layout.pipeline <= kLargestSize && layout.data <= kLargestSize)
      layouts.push_back(layout);
  }
  return layouts;
}

std::vector<Layout> shared_layouts(int ranks) {
  std::vector<Layout> layouts;
  for (Layout layout : layouts_of(ranks)) {
    for (layout.context = 2; layout.context <= layout.data; layout.context *= 2) layouts.push_back(layout);
  }
  return layouts;
}

std::vector<Layout> expert_layouts(int ranks) {
  std::vector<Layout> layouts;
  for (Layout layout : layouts_of(ranks)) {
    for (layout.context = 1; layout.context <= std::min(layout.data, 2); layout.context *= 2) {
      for (layout.expert = 1; layout.expert <= layout.data; layout.expert *= 2) layouts.push_back(layout);
    }
    // Cut regardless of tensor ranks: no experts twice in every other layout, in the others two copies.
    layout.context = 1;
    layout.expert_tensor = layout.tensor > 1 ? 1 : 2;
    const int parts = layout.tensor * layout.data / layout.expert_tensor;
    layout.expert = layouts.size() % 2 == 0 ? parts : std::max(1, parts / 2);
    if (parts > 0) layouts.push_back(layout);
  }
  return layouts;
}

Dispatching dispatch_of(const Row& row) {
  return static_cast<Dispatching>(row[kLinear] / kSharingsOfExperts);
}

/// Half of the cells drop rows by their weight, half by their place. Ranks that share a sequence have a
/// capacity each: what is padded has room for all tokens then, so that one rank has the same results.
void set_mixture_keys(const Layout& layout, const Row& row, bool by_position, RunConfig& config) {
  const bool shared = layout.context > 1;
  config.mixture.aux_loss_coeff = shared ? 0 : 0.02;
  config.mixture.z_loss_coeff = 0.003;
  config.numerics.attention_dropout = 0;
  const Dispatching dispatch = dispatch_of(row);
  if (dispatch == kGathered) config.parallel.ep.token_dispatcher = TokenDispatcher::allgather;
  if (dispatch != kDropped && dispatch != kPadded) return;
  const Mixture& mixture = config.model.mixture;
  config.mixture.pad_to_capacity = dispatch == kPadded;
  config.mixture.capacity_factor =
      dispatch == kDropped ? 0.9
      : shared             ? static_cast<double>(mixture.experts) / static_cast<double>(mixture.top_k)
                           : 1.25;
  if (by_position) config.mixture.drop_policy = TokenDropPolicy::position;
}

bool has_schedule(const RunConfig& config) {
  try {
    schedule_for(config);
    return true;
  } catch (const InputError&) {
    return false;
  }
}

/// In every third cell the global batch is balanced, where a copy's micro-batch has no capacity, and layers
/// no second copy whose micro-batches are others.
void balance_global_batch(std::size_t sum, RunConfig& config) {
  if (sum % 3 != 0 || config.mixture.capacity_factor > 0) return;
  const MixtureConfig before = config.mixture;
  config.mixture.aux_loss_coeff = 0.02;
  config.mixture.load_balancing = LoadBalancing::global_aux_loss;
  if (!why_invalid(config) && !has_schedule(config)) config.mixture = before;
}

/// Exchanges of rows in overlapped pairs or alongside the shared expert's products, the one or the other
/// first, whichever may be; returns how.
const char* hide_exchanges(bool pairs_first, RunConfig& config) {
  for (const bool in_pairs : {pairs_first, !pairs_first}) {
    bool& overlap = in_pairs ? config.parallel.ep.overlap_comm : config.parallel.ep.shared_expert_overlap;
    overlap = true;
    if (!why_invalid(config)) return in_pairs ? " in pairs" : " alongside shared";
    overlap = false;
  }
  return "";
}

/// Marks allowed cells.
void judge(ProductCell& cell) {
  const RunConfig& config = cell.config;
  cell.illegal.clear();
  if (const auto reason = why_invalid(config)) {
    cell.illegal = *reason;
  } else if (const auto unsupported = why_unsupported(config)) {
    cell.illegal = *unsupported;
  } else {
    try {
      schedule_for(config);
    } catch (const InputError& error) {
      cell.illegal = error.what();
    }
  }
}

/// Deferred and offloaded work, at the end of a cell's name.
std::string later_work(const RunConfig& config) {
  return (config.parallel.pp.defer_embedding_wgrad_compute ? " deferred" : "") +
         (config.offload.on() ? fmt::format(" {} offloaded", config.offload.num_layers) : "");
}

/// Number format of a cell's linear layers.
const LinearLayers& linear_layers(const Layout& layout, const Row& row, std::size_t sum, bool experts) {
  return kLinearLayers[experts              ? sum % std::size(kLinearLayers)
                       : layout.context > 1 ? kSharings[row[kLinear]].linear
                                            : row[kLinear]];
}

std::size_t sum_of(const Row& row) {
  return std::accumulate(row.begin(), row.end(), std::size_t{0});
}

/// The choices of a row, and nothing else.
RunConfig config_of(const Layout& layout, const Row& row, bool experts) {
  const Switches& switches = experts ? kMixtures[row[kModel]] : kSwitches[row[kModel]];
  const Pipeline& pipeline = pipelines()[row[kSchedule]];
  const std::size_t sum = sum_of(row);
  RunConfig config;
  config.model = small_qwen2();
  config.model.layers = 9;  // stages of different lengths
  switches.set(config.model);
  config.parallel.expert = layout.expert;
  config.parallel.expert_tensor = layout.expert_tensor;
  if (!experts && row[kModel] == kFirstGlm) config.batch.prefix_length = 5;
  set_layout(config, layout);
  config.numerics.precision = DType::fp32;
  set_dropout(config, kDropouts[row[kDropout]]);
  if (experts) set_mixture_keys(layout, row, sum % 2 == 0, config);
  if (layout.context > 1) {
    config.parallel.context = layout.context;
    config.parallel.cp.comm_type = kSharings[experts ? row[kLinear] % kSharingsOfExperts : row[kLinear]].type;
    if (config.parallel.hierarchical()) config.parallel.cp.hierarchical = {2, layout.context / 2};
  }
  const LinearLayers& linear = linear_layers(layout, row, sum, experts);
  config.numerics.fp8.format = linear.format;
  config.numerics.fp8.recipe = linear.recipe;
  // A multiple of 16 for FP8, and a feed-forward layer that four tensor ranks split into such.
  config.batch.seq_length = 32;
  config.model.ffn = 192;
  config.numerics.fp8.amax_history_len = 3;
  config.batch.global_batch_size = kMicrobatches * layout.data / layout.context;
  config.parallel.make_vocab_size_divisible_by = 8;
  config.parallel.dp.bucket_size = 20'000;  // several buckets even here
  config.measure.steps = 1;
  config.measure.warmup_steps = 0;
  config.parallel.pp.schedule = pipeline.schedule;
  config.parallel.pp.vocab_parallel = pipeline.vocabulary;
  config.parallel.sequence_parallel = row[kSequence] > 0 || (layout.folds_experts() && layout.tensor > 1);
  config.parallel.tp.comm_overlap = row[kSequence] == 2;
  config.parallel.dp.zero_stage = static_cast<int>(row[kZero]);
  set_recomputation(config, kRecomputations[row[kRecompute]]);
  // Experts are in FP8 in every cell of a third, by one recipe and the other, that may be.
  if (experts && config.numerics.fp8.on() && why_invalid(config)) config.numerics.fp8 = {};
  return config;
}

/// The compatibility table allows the choices of a row.
bool may_be(const Layout& layout, const Row& row, bool experts = false) {
  const RunConfig config = config_of(layout, row, experts);
  return !why_invalid(config) && !why_unsupported(config);
}

ProductCell cell_of(const Layout& layout, const Row& row, bool experts = false) {
  constexpr const char* kDispatchNames[] = {"", " gathered", " dropped", " padded"};
  const Switches& switches = experts ? kMixtures[row[kModel]] : kSwitches[row[kModel]];
  const bool shared = layout.context > 1;
  // Every other cell one way, and every other two the other way: any setting meets all four.
  const std::size_t sum = sum_of(row);
  ProductCell cell;
  RunConfig& config = cell.config = config_of(layout, row, experts);
  cell.schedule = config.parallel.pp.schedule;
  if (config.parallel.splits_vocabulary())
    cell.schedule += fmt::format(" {}", vocab_parallel_name(config.parallel.pp.vocab_parallel));
  if (experts) balance_global_batch(sum, config);
  const bool reduces = sum % 2 == 0;
  const bool gathers = sum / 2 % 2 == 0;
  const bool receives = sum / 3 % 2 == 0;
  config.parallel.pp.overlap_p2p_comm = receives;
  config.parallel.dp.overlap_grad_reduce = reduces;
  config.parallel.dp.overlap_param_gather = gathers;
  if (gathers && why_invalid(config)) config.parallel.dp.overlap_param_gather.reset();
  config.parallel.dp.hpz_partition_size = sum / 4 % 2 == 0 ? 2 : 1;
  if (why_invalid(config)) config.parallel.dp.hpz_partition_size = 1;
  // Instances of one rank, of two, or one instance, if that may be.
  for (const int instances : {sum % 4 == 1 ? 4 : sum % 4 == 2 ? 2 : 1, 1}) {
    config.parallel.dp.optimizer_instances = instances;
    if (!why_invalid(config)) break;
  }
  const bool rounds_sums = layout.tensor > 1 && sum / 5 % 2 == 0;
  config.parallel.tp.reduce_in_fp32 = !rounds_sums;
  const std::size_t hides = sum / 2 % 4;
  const char* const hidden = experts && hides > 0 ? hide_exchanges(hides % 2 == 1, config) : "";
  // In two of five cells, if that may be.
  config.offload.num_layers = sum % 5 < 2 ? 1 + static_cast<std::int64_t>(sum % 4) : 0;
  if (why_invalid(config)) config.offload = {};
  config.parallel.pp.defer_embedding_wgrad_compute = sum % 7 < 4;
  if (why_invalid(config)) config.parallel.pp.defer_embedding_wgrad_compute = false;
  cell.name =
      fmt::format("{} tp{} pp{} dp{} sp{} recompute {} zero{} {}{}", cell.schedule, layout.tensor,
                  layout.pipeline, layout.data / layout.context, row[kSequence],
                  kRecomputations[row[kRecompute]].name, row[kZero], kDropouts[row[kDropout]].name,
                  config.numerics.fp8.on() ? linear_layers(layout, row, sum, experts).name : "") +
      (shared ? fmt::format(" cp{} {}", layout.context, cp_comm_type_name(config.parallel.cp.comm_type))
              : "") +
      (experts ? fmt::format(" ep{} etp{}{}", layout.expert, layout.expert_slices(),
                             kDispatchNames[dispatch_of(row)])
               : "") +
      (config.mixture.balances_globally() ? " global balance" : "") + switches.name + hidden +
      (reduces ? "" : " reduced late") + (receives ? " received ahead" : "") +
      (config.parallel.dp.overlap_param_gather.value_or(false) ? " gathered ahead" : "") +
      (config.parallel.dp.hpz_partition_size > 1 ? " secondary shards" : "") +
      (config.parallel.dp.optimizer_instances > 1
           ? fmt::format(" {} instances", config.parallel.dp.optimizer_instances)
           : "") +
      (rounds_sums ? " sums in storage type" : "") + later_work(config);
  cell.switches = row[kModel] + (experts ? std::size(kSwitches) : 0);
  judge(cell);
  return cell;
}

constexpr const char* kDistillations[] = {"nemo-2504", "abeja", "nemo-13065", "bubble-fill"};
/// Models with experts: student, teacher or both.
enum Distilled : std::size_t { kStudent, kTeacher, kBoth, kDistilleds };

/// A teacher for a cell of 1F1B; or the cell's MoE model as teacher, and a dense student.
void distil(Distilled which, const Row& row, const Switches& other, ProductCell& cell) {
  constexpr const char* kNames[] = {" dense teacher", " teacher of a dense one", " teacher with experts"};
  RunConfig& config = cell.config;
  cell.name.resize(cell.name.size() - later_work(config).size());  // neither goes together with a teacher
  config.offload = {};
  config.parallel.pp.defer_embedding_wgrad_compute = false;
  ModelConfig teacher = small_qwen2();
  teacher.layers = 9;
  teacher.hidden = 96;
  teacher.head_dim = 12;
  teacher.ffn = 192;
  if (which == kTeacher) {
    kMixtures[row[kModel]].set(teacher);
    ModelConfig student = small_qwen2();
    student.layers = 9;
    student.ffn = 192;
    config.model = student;
    config.mixture = {};
    config.parallel.ep.shared_expert_overlap = false;
    set_recomputation(config, kRecomputations[row[kRecompute]]);
  } else if (which == kBoth) {
    other.set(teacher);
  }
  config.distillation.teacher = teacher;
  config.distillation.schedule = kDistillations[row[kSchedule]];
  config.distillation.temperature = 2;
  config.distillation.lm_weight = 0.3;
  if (row[kZero] % 2 == 1) config.distillation.cache = DistillationCache::hidden;
  config.parallel.ep.overlap_comm = false;
  cell.name = config.distillation.schedule + cell.name.substr(cell.schedule.size()) + kNames[which];
  cell.schedule = config.distillation.schedule;
  cell.switches += std::size(kMixtures) * (1 + which);
  judge(cell);
}

}  // namespace

std::vector<ProductCell> product_cells(int ranks, bool covering) {
  const std::vector<Layout> layouts = product_layouts(ranks);
  std::vector<Row> rows;
  if (covering) {
    std::vector<std::pair<std::size_t, std::size_t>> given;
    for (std::size_t layout = 0; layout < layouts.size(); ++layout) {
      for (std::size_t schedule = 0; schedule < pipelines().size(); ++schedule)
        given.emplace_back(layout, schedule);
    }
    const auto allowed = [&](const Row& row) { return may_be(layouts[row[kLayout]], row); };
    rows = covering_rows(given,
                         {kSequences, std::size(kRecomputations), kZeroStages, std::size(kDropouts),
                          std::size(kLinearLayers), std::size(kSwitches)},
                         allowed);
  } else {
    Row row{};
    for (row[kLayout] = 0; row[kLayout] < layouts.size(); ++row[kLayout])
      for (row[kSchedule] = 0; row[kSchedule] < pipelines().size(); ++row[kSchedule])
        for (row[kSequence] = 0; row[kSequence] < kSequences; ++row[kSequence])
          for (row[kRecompute] = 0; row[kRecompute] < std::size(kRecomputations); ++row[kRecompute])
            for (row[kZero] = 0; row[kZero] < kZeroStages; ++row[kZero]) {
              // Every other cell drops: any two other settings meet with and without.
              row[kDropout] =
                  (row[kLayout] + row[kSchedule] + row[kSequence] + row[kRecompute] + row[kZero]) %
                  std::size(kDropouts);
              // Every third cell is in FP8, with alternating recipes.
              row[kLinear] = rows.size() % 3 == 2 ? 1 + rows.size() / 3 % 2 : 0;
              row[kModel] = rows.size() / 2 % std::size(kSwitches);
              if (!may_be(layouts[row[kLayout]], row)) row[kModel] = rows.size() % 2;
              rows.push_back(row);
            }
  }
  std::vector<ProductCell> cells;
  cells.reserve(rows.size());
  for (const Row& row : rows) cells.push_back(cell_of(layouts[row[kLayout]], row));
  return cells;
}

std::vector<ProductCell> context_cells(int ranks) {
  const std::vector<Layout> layouts = shared_layouts(ranks);
  std::vector<std::pair<std::size_t, std::size_t>> given;
  for (std::size_t layout = 0; layout < layouts.size(); ++layout) {
    for (std::size_t schedule = 0; schedule < pipelines().size(); ++schedule)
      given.emplace_back(layout, schedule);
  }
  const auto allowed = [&](const Row& row) { return may_be(layouts[row[kLayout]], row); };
  std::vector<ProductCell> cells;
  for (const Row& row : covering_rows(given,
                                      {kSequences, std::size(kRecomputations), kZeroStages,
                                       std::size(kDropouts), std::size(kSharings), std::size(kSwitches)},
                                      allowed))
    cells.push_back(cell_of(layouts[row[kLayout]], row));
  return cells;
}

std::vector<ProductCell> expert_cells(int ranks) {
  const std::vector<Layout> layouts = expert_layouts(ranks);
  std::vector<std::pair<std::size_t, std::size_t>> given;
  for (std::size_t layout = 0; layout < layouts.size(); ++layout) {
    for (std::size_t schedule = 0; schedule < pipelines().size(); ++schedule)
      given.emplace_back(layout, schedule);
  }
  const auto allowed = [&](const Row& row) {
    // Without ranks to gather from it is another name for the same cell.
    if (dispatch_of(row) == kGathered && !layouts[row[kLayout]].spreads_experts()) return false;
    return may_be(layouts[row[kLayout]], row, true);
  };
  std::vector<ProductCell> cells;
  for (const Row& row :
       covering_rows(given,
                     {kSequences - 1, std::size(kRecomputations), kZeroStages, std::size(kDropouts),
                      kDispatches * kSharingsOfExperts, std::size(kMixtures)},
                     allowed))
    cells.push_back(cell_of(layouts[row[kLayout]], row, true));
  std::vector<std::pair<std::size_t, std::size_t>> taught;
  for (std::size_t layout = 0; layout < layouts.size(); ++layout) {
    for (std::size_t schedule = 0; schedule < std::size(kDistillations); ++schedule)
      taught.emplace_back(layout, schedule);
  }
  constexpr std::size_t kKinds = std::size(kMixtures);
  // The row of the cell that gets a teacher: 1F1B, with the first mixture.
  const auto plain_row = [&](Row row) {
    row[kModel] %= kKinds;
    row[kSchedule] = k1F1B;
    return row;
  };
  for (const Row& row :
       covering_rows(taught,
                     {kSequences - 1, std::size(kRecomputations), kZeroStages, std::size(kDropouts),
                      kDispatches * kSharingsOfExperts, kKinds * kDistilleds},
                     [&](const Row& row) { return allowed(plain_row(row)); })) {
    Row of_cell = row;
    of_cell[kModel] = row[kModel] % kKinds;
    cells.push_back(cell_of(layouts[row[kLayout]], plain_row(row), true));
    distil(static_cast<Distilled>(row[kModel] / kKinds), of_cell, kMixtures[(of_cell[kModel] + 1) % kKinds],
           cells.back());
  }
  return cells;
}

}  // namespace plumbline::training
