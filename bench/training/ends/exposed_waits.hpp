// Collectives of vocabulary parallelism as a rank sees them, which should overlap with computation. Has their
// start and end times, and how long the rank waited.
#pragma once

#include <cstdint>
#include <vector>

#include "core/run/communicator.hpp"
#include "core/trace/collective_trace.hpp"

namespace plumbline::training {

/// C0, C1, C2, I1 and I2 of vocabulary.md, each once per micro-batch. With one barrier C2 follows C1 by
/// itself, and waits for C1 count there.
class ExposedWaits {
 public:
  /// Room for a step of `microbatches`; nothing is allocated later.
  ExposedWaits(Communicator& communicator, int microbatches)
      : communicator_(communicator),
        microbatches_(static_cast<std::size_t>(microbatches)),
        calls_(kVocabularyCalls * microbatches_) {}

  void clear() {
    waited_ = {};
    for (Call& call : calls_) call = {};
  }
  /// It has just been started, or joined, and has this ticket.
  void started(VocabularyCall call, std::uint32_t microbatch, const Ticket& ticket) {
    Call& here = at(call, microbatch);
    here.seen = true;
    if (ticket) {
      communicator_.watch(ticket, here.times);
    } else {
      const Seconds now = communicator_.now();  // a group of one: done already
      here.times = {now, now};
    }
  }
  void wait(VocabularyCall call, std::uint32_t microbatch, Ticket& ticket) {
    if (!ticket) return;
    Call& here = at(call, microbatch);
    here.waited_from = communicator_.now();
    communicator_.wait(ticket);
    here.waited = communicator_.now() - here.waited_from;
    waited_[static_cast<std::size_t>(call)] += here.waited;
  }
  const VocabularySeconds& so_far() const { return waited_; }

  /// Events of the step by kind and then micro-batch, on a clock that was 0 at `origin`. If a transport does
  /// not report when a collective was done, the time is that at which the wait for it returned. The operators
  /// have been waited for; from now on so_far() has a device's waits.
  std::vector<CollectiveEvent> events(Seconds origin) {
    communicator_.settle_times();
    std::vector<CollectiveEvent> events;
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      Call& from = calls_[i];
      if (!from.seen) continue;
      if (from.times.waited_to.value > 0) {
        const Seconds waited = from.times.waited_to - from.times.waited_from;
        waited_[i / microbatches_] += waited - from.waited;
        from.waited_from = from.times.waited_from;
        from.waited = waited;
      }
      const Seconds waited_to = from.waited_from + from.waited;
      const Seconds end = from.times.end.value > 0 ? from.times.end : waited_to;
      events.push_back({kAllVocabularyCalls[i / microbatches_], static_cast<std::uint32_t>(i % microbatches_),
                        from.times.start - origin, end - origin,
                        (from.waited_from.value > 0 ? from.waited_from : end) - origin, from.waited});
    }
    return events;
  }

 private:
  struct Call {
    bool seen = false;
    TicketTimes times;
    Seconds waited_from;
    Seconds waited;
  };
  Call& at(VocabularyCall call, std::uint32_t microbatch) {
    return calls_[static_cast<std::size_t>(call) * microbatches_ + microbatch];
  }

  Communicator& communicator_;
  std::size_t microbatches_;
  std::vector<Call> calls_;  // at kind · micro-batches + micro-batch
  VocabularySeconds waited_{};
};

}  // namespace plumbline::training
