// A generation as JSON and as text.
#pragma once

#include <string>

#include "bench/training/generate/generator.hpp"

namespace plumbline {

/// `sequences[].{prompt_tokens, ids, log_probabilities}`, prefill_s and decode_s (all batches),
/// decode_passes, decode_s_per_pass, tokens_per_s (of generated tokens, prefill included), cache_bytes by
/// rank.
std::string to_json(const generation::GenerationRequest& request, const generation::GenerationResult& result);
/// A line of ids per prompt, in the form of a prompt, and a line of times and memory.
std::string to_text(const generation::GenerationResult& result);

}  // namespace plumbline
