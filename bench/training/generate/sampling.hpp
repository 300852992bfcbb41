// Choice of the next token from its logits.
#pragma once

#include <cstdint>
#include <span>

namespace plumbline::generation {

/// In transformers' order: temperature, then top-k, then top-p.
struct Sampling {
  double temperature = 0;  // 0: greedy, the id with the largest logit, of equal ones the smallest
  std::int64_t top_k = 0;  // ids that may be drawn, the likeliest; 0: all
  double top_p = 1;        // the likeliest ids whose probabilities reach this sum
  std::uint64_t seed = 1234;

  bool greedy() const { return temperature == 0; }
};

/// Decides about one token: the draw depends on the seed, the sequence and the position alone, and so neither
/// on the batch nor on the split of the model.
struct TokenPlace {
  std::int64_t sequence = 0;
  std::int64_t position = 0;
};

struct Choice {
  std::int32_t id = 0;
  double log_probability = 0;  // of the model, before temperature and limits
};

/// Throws the Error of logits that are not finite.
[[noreturn]] void refuse_logits(TokenPlace place);

/// `logits`: one per id. Throws Error if one is not a number.
Choice choose(std::span<const float> logits, const Sampling& sampling, TokenPlace place);

}  // namespace plumbline::generation
