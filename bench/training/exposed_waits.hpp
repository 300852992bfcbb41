// How long a rank waited for the collectives of vocabulary parallelism, which should run beside computation.
#pragma once

#include <array>
#include <cstddef>

#include "core/communicator.hpp"

namespace plumbline::training {

/// C0, C1, C2, I1 and I2 of vocabulary.md. With one barrier C2 follows C1 by itself, and what is waited for
/// C1 counts there.
enum class VocabularyCall { hidden, statistics, hidden_gradient, embedding, embedding_gradient };
constexpr std::size_t kVocabularyCalls = 5;

/// Seconds by VocabularyCall: the part of them that nothing ran beside.
using VocabularyWaits = std::array<Seconds, kVocabularyCalls>;

class ExposedWaits {
 public:
  explicit ExposedWaits(Communicator& communicator) : communicator_(communicator) {}

  void clear() { waited_ = {}; }
  void wait(VocabularyCall call, Ticket& ticket) {
    if (!ticket) return;
    const Seconds start = communicator_.now();
    communicator_.wait(ticket);
    waited_[static_cast<std::size_t>(call)] += communicator_.now() - start;
  }
  const VocabularyWaits& so_far() const { return waited_; }

 private:
  Communicator& communicator_;
  VocabularyWaits waited_{};
};

}  // namespace plumbline::training
