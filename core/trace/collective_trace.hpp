// When the collectives of vocabulary parallelism ran: the common part of a simulated and a measured trace.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/units.hpp"

namespace plumbline {

/// The five of Yeung et al. (arXiv:2411.05288), each once per micro-batch on every rank and on a lane of its
/// own during the computation (bench/training/vocabulary.md).
enum class VocabularyCall : std::uint32_t {
  hidden,              // C0
  statistics,          // C1
  hidden_gradient,     // C2
  embedding,           // I1
  embedding_gradient,  // I2
};
constexpr std::size_t kVocabularyCalls = 5;
inline constexpr std::array kAllVocabularyCalls = {VocabularyCall::hidden, VocabularyCall::statistics,
                                                   VocabularyCall::hidden_gradient, VocabularyCall::embedding,
                                                   VocabularyCall::embedding_gradient};

/// "C0".
std::string_view short_name(VocabularyCall call);
/// "C0 broadcast X".
std::string_view name_of(VocabularyCall call);

/// Seconds by VocabularyCall.
using VocabularySeconds = std::array<Seconds, kVocabularyCalls>;
Seconds sum_of(const VocabularySeconds& seconds);

/// One collective on one rank. Plain memory, so that it can travel.
struct CollectiveEvent {
  VocabularyCall call = VocabularyCall::hidden;
  std::uint32_t microbatch = 0;
  Seconds start;        // the rank had reached it: it was started, or joined, here
  Seconds end;          // it was done, as far as this rank knows
  Seconds waited_from;  // from then on the rank waited for it
  Seconds waited;       // how long; 0: it did not wait
};

}  // namespace plumbline
