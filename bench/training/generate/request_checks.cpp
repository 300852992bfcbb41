// Configurations and prompts that cannot be generated from.
#include <fmt/format.h>

#include <iterator>

#include "bench/training/generate/generator.hpp"
#include "core/base/error.hpp"
#include "core/config/common_vocabulary.hpp"

namespace plumbline::generation {
namespace {

/// A key whose value plumbline's own generation does not execute.
struct Refusal {
  std::string_view text;  // found and expected
  bool (*applies)(const RunConfig& config);
};

constexpr Refusal kRefusals[] = {
    {"context_parallel_size: found more than 1, expected 1 in generation; leave it out",
     [](const RunConfig& c) { return c.parallel.context > 1; }},
    {"moe_token_dispatcher_type: found allgather, expected alltoall or auto in generation, whose replicas "
     "have "
     "unequal numbers of tokens; leave it out",
     [](const RunConfig& c) {
       return c.spreads_experts() && c.parallel.ep.token_dispatcher == TokenDispatcher::allgather;
     }},
    {"expert_tensor_parallel_size: found other than tensor_model_parallel_size, expected the same in "
     "generation; leave it out",
     [](const RunConfig& c) { return c.spreads_experts() && c.parallel.folds_experts(); }},
    {"vocab_parallel: found a vocabulary split over the pipeline, expected none in generation; leave it out",
     [](const RunConfig& c) { return c.parallel.splits_vocabulary(); }},
    {"fp8_format: found one, expected none in generation; leave it out",
     [](const RunConfig& c) { return c.numerics.fp8.on(); }},
    {"moe_expert_capacity_factor: found a limit, expected none in generation; leave it out",
     [](const RunConfig& c) { return c.mixture.capacity_factor > 0; }},
    {"teacher: found one, expected none in generation; leave it out",
     [](const RunConfig& c) { return c.distillation.teacher.has_value(); }},
    {"mtp_num_layers: found MTP modules, expected 0 in generation; leave it out",
     [](const RunConfig& c) { return c.model.prediction_modules > 0; }},
    {"prefix_length: found a prefix, expected a causal model in generation; leave it out",
     [](const RunConfig& c) { return c.batch.prefix_length > 0; }},
    {"model: found one whose tokens have two positions, expected one position per token; choose another "
     "model",
     [](const RunConfig& c) { return c.model.position.of_blocks; }},
    {"model: found ALiBi with a sliding window, expected one of them; choose another model",
     [](const RunConfig& c) { return c.model.position.kind == Positions::alibi && c.model.window.size > 0; }},
};

std::string name_of_prompt(std::size_t index) {
  return fmt::format("prompt {}", index + 1);
}

}  // namespace

std::string why_not_generated(const RunConfig& config) {
  for (const Refusal& refusal : kRefusals)
    if (refusal.applies(config)) return std::string(refusal.text);
  return {};
}

void check_request(const RunConfig& config, const GenerationRequest& request) {
  const std::int64_t vocab = common_vocab(config);
  if (request.prompts.empty()) throw InputError("prompts: found none, expected at least one; add a prompt");
  for (std::size_t i = 0; i < request.prompts.size(); ++i) {
    const std::vector<std::int32_t>& prompt = request.prompts[i];
    if (prompt.empty())
      throw InputError(
          fmt::format("{}: found no token ids, expected at least one; change the prompt", name_of_prompt(i)));
    for (const std::int32_t id : prompt) {
      if (id < 0 || id >= vocab) {
        throw InputError(
            fmt::format("{}: found id {}, expected one from 0 to {}, the model's vocabulary; "
                        "change the prompt",
                        name_of_prompt(i), id, vocab - 1));
      }
    }
    const std::int64_t longest = std::ssize(prompt) + request.max_new_tokens;
    if (longest > config.batch.seq_length) {
      throw InputError(fmt::format(
          "seq_length: found {}, expected at least {} for {} with {} tokens and {} "
          "new ones; change seq_length or --max-new-tokens",
          config.batch.seq_length, longest, name_of_prompt(i), prompt.size(), request.max_new_tokens));
    }
  }
  for (const std::int32_t id : request.end_ids) {
    if (id < 0 || id >= vocab) {
      throw InputError(
          fmt::format("--end-id: found {}, expected one from 0 to {}, the model's vocabulary; change the id",
                      id, vocab - 1));
    }
  }
}

}  // namespace plumbline::generation
