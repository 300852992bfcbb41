#include "bench/training/generate/generator.hpp"

#include <algorithm>
#include <utility>

#include "bench/training/generate/token_choice.hpp"
#include "bench/training/trainer/host_values.hpp"
#include "bench/training/weights/weights.hpp"

namespace plumbline::generation {
namespace {

/// One batch of sequences, a slot of the cache each.
class Batch {
 public:
  Batch(GenerationModel& model, const GenerationRequest& request, std::int64_t first, std::int64_t count,
        GenerationResult& result, const std::function<void(std::int64_t)>& passed)
      : model_(model),
        context_(model.resources().context),
        request_(request),
        first_(first),
        result_(result),
        passed_(passed),
        live_(static_cast<std::size_t>(count)) {
    for (std::int64_t slot = 0; slot < count; ++slot) live_[static_cast<std::size_t>(slot)] = slot;
  }

  void run() {
    context_.communicator.barrier(Group::world);
    Seconds start = context_.communicator.now();
    pass();
    result_.prefill += time_since(start);
    start = context_.communicator.now();
    for (; !live_.empty(); ++result_.decode_passes) pass();
    result_.decode += time_since(start);
  }

 private:
  std::size_t sequence(std::int64_t slot) const { return static_cast<std::size_t>(first_ + slot); }

  Seconds time_since(Seconds start) const {
    context_.operators.synchronize();
    return context_.communicator.now() - start;
  }

  /// All live sequences by their next tokens: the whole prompt, later one.
  void pass() {
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

  /// From the last stage to all ranks.
  void pass_on(std::vector<Choice>& chosen) const {
    if (context_.communicator.layout().world() == 1) return;
    std::vector<std::int32_t> ids(chosen.size());
    std::transform(chosen.begin(), chosen.end(), ids.begin(), [](const Choice& each) { return each.id; });
    const Tensor sent =
        context_.arena.allocate(Category::workspace, "chosen tokens", 1, std::ssize(ids), DType::int32);
    context_.operators.upload(ids.data(), sent);
    context_.communicator.broadcast(Group::world, model_.last_rank(), sent);
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
  const GenerationRequest& request_;
  const std::int64_t first_;  // prompt
  GenerationResult& result_;
  const std::function<void(std::int64_t)>& passed_;  // called with the batch's passes so far
  std::int64_t passes_ = 0;
  std::vector<std::int64_t> live_;  // slots of the sequences that go on
};

/// Untimed passes of the first batch: at their first use, products and attention are planned and chosen, and
/// kernels are loaded.
void warm_up(GenerationModel& model, const RunConfig& config, GenerationRequest request) {
  if (config.machine.backend == Backend::emulated) return;
  const std::int64_t together =
      std::min(config.batch.micro_batch_size, std::int64_t{std::ssize(request.prompts)});
  request.max_new_tokens = std::min<std::int64_t>(request.max_new_tokens, 2);  // a prefill and a decode pass
  for (int i = 0; i < config.measure.warmup_steps; ++i) {
    GenerationResult unused;
    unused.sequences.resize(request.prompts.size());
    Batch(model, request, 0, together, unused, [](std::int64_t) {}).run();
  }
}

/// Those of the last stage, on every rank.
void share_log_probabilities(const GenerationModel& model, GenerationResult& result, Communicator& control) {
  for (GeneratedSequence& sequence : result.sequences)
    training::broadcast_values(control, model.last_rank(), sequence.log_probabilities);
}

}  // namespace

GenerationResult generate(const RunConfig& config, const GenerationRequest& request, Operators& operators,
                          Communicator& communicator, Communicator& control,
                          std::unique_ptr<MemorySource> memory, const GenerationProgress& progress) {
  Arena arena(config.machine.memory_budget, std::move(memory));
  GenerationModel model(config, operators, communicator, arena);
  if (config.machine.backend != Backend::emulated) {
    load_weights(model.resources(), config.files.weights.empty()
                                        ? training::random_weights(config.measure.seed, config.model.init_std)
                                        : training::checkpoint_weights(config.files.weights, config.model));
  }
  warm_up(model, config, request);
  GenerationResult result;
  result.sequences.resize(request.prompts.size());
  const std::int64_t all = std::ssize(request.prompts);
  const std::int64_t together = config.batch.micro_batch_size;
  const std::int64_t passes = (all + together - 1) / together * request.max_new_tokens;
  for (std::int64_t first = 0; first < all; first += together) {
    const std::int64_t before = first / together * request.max_new_tokens;
    const std::function<void(std::int64_t)> passed = [&](std::int64_t done) {
      if (progress && communicator.rank() == 0) progress(before + done, passes);
    };
    Batch(model, request, first, std::min(together, all - first), result, passed).run();
  }
  share_log_probabilities(model, result, control);
  result.cache = training::from_every_rank(control, model.cache_bytes());
  return result;
}

}  // namespace plumbline::generation
