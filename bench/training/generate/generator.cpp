#include "bench/training/generate/generator.hpp"

#include <algorithm>
#include <utility>

#include "bench/training/generate/token_choice.hpp"
#include "bench/training/trainer/host_values.hpp"
#include "bench/training/weights/weights.hpp"

namespace plumbline::generation {
namespace {

/// Parts of a run that all of its batches share. `control` carries values between hosts' memories.
struct Run {
  GenerationModel& model;
  Communicator& control;
  const GenerationRequest& request;
};

/// One batch of sequences, a slot of the cache each. It may be empty where experts are spread over replicas,
/// which all make as many passes.
class Batch {
 public:
  Batch(const Run& run, std::int64_t first, std::int64_t count, GenerationResult& result,
        const std::function<void(std::int64_t)>& passed)
      : model_(run.model),
        context_(run.model.resources().context),
        control_(run.control),
        request_(run.request),
        first_(first),
        result_(result),
        passed_(passed),
        live_(static_cast<std::size_t>(count)) {
    for (std::int64_t slot = 0; slot < count; ++slot) live_[static_cast<std::size_t>(slot)] = slot;
  }

  void run() {
    context_.communicator.barrier(Group::model);
    Seconds start = context_.communicator.now();
    pass();
    result_.prefill += time_since(start);
    start = context_.communicator.now();
    for (; goes_on(); ++result_.decode_passes) pass();
    result_.decode += time_since(start);
  }

 private:
  std::size_t sequence(std::int64_t slot) const { return static_cast<std::size_t>(first_ + slot); }

  Seconds time_since(Seconds start) const {
    context_.operators.synchronize();
    return context_.communicator.now() - start;
  }

  bool goes_on() const {
    const std::int32_t live = live_.empty() ? 0 : 1;
    if (!context_.config.spreads_experts()) return live > 0;
    return std::ranges::max(training::from_every_rank(control_, live)) > 0;
  }

  /// Nobody reads its token's result; the experts have other replicas' tokens.
  void idle_pass() {
    constexpr SequenceRows kRow{0, 0, 1, 0};
    constexpr std::int32_t kToken = 0;
    model_.forward({&kRow, 1}, {&kToken, 1});
  }

  /// All live sequences by their next tokens: the whole prompt, later one.
  void pass() {
    if (live_.empty()) return idle_pass();
    std::vector<SequenceRows> rows;
    std::vector<std::int32_t> tokens;
    for (const std::int64_t slot : live_) {
      const std::vector<std::int32_t>& prompt = request_.prompts[sequence(slot)];
      const std::vector<std::int32_t>& made = result_.sequences[sequence(slot)].ids;
      const std::int64_t row = std::ssize(tokens);
      if (made.empty()) {
        tokens.insert(tokens.end(), prompt.begin(), prompt.end());
        rows.push_back({slot, row, std::ssize(prompt), 0});
      } else {
        tokens.push_back(made.back());
        rows.push_back({slot, row, 1, std::ssize(prompt) + std::ssize(made) - 1});
      }
    }
    const Tensor logits = model_.forward(rows, tokens);
    std::vector<Choice> chosen(rows.size());
    if (logits) chosen = choose_tokens(context_, logits, rows, first_, request_.sampling);
    pass_on(chosen);
    keep(chosen);
    passed_(++passes_);
  }

  /// From the last stage to all ranks of the replica.
  void pass_on(std::vector<Choice>& chosen) const {
    const Layout& layout = context_.communicator.layout();
    if (layout.tensor * layout.pipeline == 1) return;
    std::vector<std::int32_t> ids(chosen.size());
    std::transform(chosen.begin(), chosen.end(), ids.begin(), [](const Choice& each) { return each.id; });
    const Tensor sent =
        context_.arena.allocate(Category::workspace, "chosen tokens", 1, std::ssize(ids), DType::int32);
    context_.operators.upload(ids.data(), sent);
    context_.communicator.broadcast(Group::model, model_.last_rank(), sent);
    context_.operators.download(sent, ids.data());
    for (std::size_t i = 0; i < ids.size(); ++i) chosen[i].id = ids[i];
  }

  void keep(const std::vector<Choice>& chosen) {
    std::vector<std::int64_t> live;
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      GeneratedSequence& made = result_.sequences[sequence(live_[i])];
      made.ids.push_back(chosen[i].id);
      made.log_probabilities.push_back(chosen[i].log_probability);
      const std::vector<std::int32_t>& ends = request_.end_ids;
      const bool ended = std::find(ends.begin(), ends.end(), chosen[i].id) != ends.end();
      if (!ended && std::ssize(made.ids) < request_.max_new_tokens) live.push_back(live_[i]);
    }
    live_ = std::move(live);
  }

  GenerationModel& model_;
  const training::TrainingContext& context_;
  Communicator& control_;
  const GenerationRequest& request_;
  const std::int64_t first_;  // prompt
  GenerationResult& result_;
  const std::function<void(std::int64_t)>& passed_;  // called with the batch's passes so far
  std::int64_t passes_ = 0;
  std::vector<std::int64_t> live_;  // slots of the sequences that go on
};

/// Untimed passes of the first batch: at their first use, products and attention are planned and chosen, and
/// kernels are loaded.
void warm_up(const Run& run, const RunConfig& config) {
  if (config.machine.backend == Backend::emulated) return;
  GenerationRequest request = run.request;
  const std::int64_t together =
      std::min(config.batch.micro_batch_size, std::int64_t{std::ssize(request.prompts)});
  request.max_new_tokens = std::min<std::int64_t>(request.max_new_tokens, 2);  // a prefill and a decode pass
  for (int i = 0; i < config.measure.warmup_steps; ++i) {
    GenerationResult unused;
    unused.sequences.resize(request.prompts.size());
    Batch({run.model, run.control, request}, 0, together, unused, [](std::int64_t) {}).run();
  }
}

/// Sequences of the last stage of each replica, on every rank. `together`: sequences of a batch.
void share_sequences(GenerationResult& result, std::int64_t together, const Layout& layout,
                     Communicator& control) {
  for (std::int64_t i = 0; i < std::ssize(result.sequences); ++i) {
    GeneratedSequence& sequence = result.sequences[static_cast<std::size_t>(i)];
    const int replica = static_cast<int>(i / together % layout.data);
    const int source = layout.rank_of({0, replica, layout.pipeline - 1});
    const auto tokens = training::from_every_rank(control, std::int64_t{std::ssize(sequence.ids)});
    sequence.ids.resize(static_cast<std::size_t>(tokens[static_cast<std::size_t>(source)]));
    sequence.log_probabilities.resize(sequence.ids.size());
    training::broadcast_values(control, source, sequence.ids);
    training::broadcast_values(control, source, sequence.log_probabilities);
  }
}

/// Those of the slowest replica.
template <class T>
T largest_of(Communicator& control, T mine) {
  return std::ranges::max(training::from_every_rank(control, mine));
}

}  // namespace

GenerationResult generate(const RunConfig& config, const GenerationRequest& request, Operators& operators,
                          Communicator& communicator, Communicator& control,
                          std::unique_ptr<MemorySource> memory, const GenerationProgress& progress) {
  Arena arena(config.machine.memory_budget, std::move(memory));
  GenerationModel model(config, operators, communicator, arena);
  model.make_cache();
  if (config.machine.backend != Backend::emulated) {
    load_weights(model.resources(), config.files.weights.empty()
                                        ? training::random_weights(config.measure.seed, config.model.init_std)
                                        : training::checkpoint_weights(config.files.weights, config.model));
  }
  warm_up({model, control, request}, config);
  return continue_prompts(model, request, control, progress);
}

GenerationResult continue_prompts(GenerationModel& model, const GenerationRequest& request,
                                  Communicator& control, const GenerationProgress& progress) {
  const training::TrainingContext& context = model.resources().context;
  const RunConfig& config = context.config;
  const Layout& layout = context.communicator.layout();
  const Run run{model, control, request};
  GenerationResult result;
  result.sequences.resize(request.prompts.size());
  const std::int64_t all = std::ssize(request.prompts);
  const std::int64_t together = config.batch.micro_batch_size;
  // Replicas take batches in turn.
  const std::int64_t in_turn = together * layout.data;
  const std::int64_t mine = together * layout.coordinates(control.rank()).data;
  const std::int64_t passes = (all + in_turn - 1) / in_turn * request.max_new_tokens;
  for (std::int64_t before = 0; before < passes; before += request.max_new_tokens) {
    const std::int64_t first = before / request.max_new_tokens * in_turn + mine;
    const std::int64_t count = std::clamp<std::int64_t>(all - first, 0, together);
    if (count == 0 && !config.spreads_experts()) break;
    const std::function<void(std::int64_t)> passed = [&](std::int64_t done) {
      if (progress && control.rank() == 0) progress(before + done, passes);
    };
    Batch(run, first, count, result, passed).run();
  }
  share_sequences(result, together, layout, control);
  result.prefill = Seconds{largest_of(control, result.prefill.value)};
  result.decode = Seconds{largest_of(control, result.decode.value)};
  result.decode_passes = largest_of(control, result.decode_passes);
  result.cache = training::from_every_rank(control, model.cache_bytes());
  return result;
}

}  // namespace plumbline::generation
