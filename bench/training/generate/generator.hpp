// Continues prompts: prefill of a batch, then one token of every sequence per pass.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/training/generate/generation_model.hpp"
#include "bench/training/generate/sampling.hpp"

namespace plumbline::generation {

struct GenerationRequest {
  std::vector<std::vector<std::int32_t>> prompts;  // token ids; each within check_request()
  std::int64_t max_new_tokens = 16;                // of a sequence
  std::vector<std::int32_t> end_ids{};             // each ends its sequence, as its last token
  Sampling sampling{};
};

/// A prompt's continuation.
struct GeneratedSequence {
  std::vector<std::int32_t> ids;
  std::vector<double> log_probabilities;  // of the ids
};

struct GenerationResult {
  std::vector<GeneratedSequence> sequences;  // in the order of the prompts; emulated: ids are 0
  Seconds prefill;                           // sum over the batches of the slowest replica
  Seconds decode;                            // likewise, of all passes after prefill
  std::int64_t decode_passes = 0;            // likewise
  std::vector<Bytes> cache;                  // by world rank
};

/// Called on world rank 0 after every pass: passes done, and at most how many there are.
using GenerationProgress = std::function<void(std::int64_t done, std::int64_t all)>;

/// Why plumbline cannot generate with this configuration, or empty. One line that names the key.
std::string why_not_generated(const RunConfig& config);
/// Throws InputError with one line for an empty prompt, an id outside the vocabulary, or a sequence that
/// outgrows seq_length.
void check_request(const RunConfig& config, const GenerationRequest& request);

/// Continues the prompts in batches of micro_batch_size, which replicas take in turn, with the
/// configuration's weights, after warmup_steps untimed passes of the first batch (none emulated). Collective
/// over the world; all ranks get the same result. `control`, which may be `communicator`, carries results
/// between hosts' memories. The emulated backend gets no weights, and its memory is never touched. Checked
/// arguments only.
/// Throws OutOfMemory, InputError (weights), Error (logits that are not finite).
GenerationResult generate(const RunConfig& config, const GenerationRequest& request, Operators& operators,
                          Communicator& communicator, Communicator& control,
                          std::unique_ptr<MemorySource> memory, const GenerationProgress& progress = {});

/// Continuation by a model that is there, without untimed passes.
GenerationResult continue_prompts(GenerationModel& model, const GenerationRequest& request,
                                  Communicator& control, const GenerationProgress& progress = {});

}  // namespace plumbline::generation
