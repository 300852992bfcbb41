// The collectives of vocabulary parallelism as a run records them: each once per micro-batch and rank, in
// order. Their exposed times add up to the step's.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "bench/plan/plan.hpp"
#include "core/backends/mpi/emulated_communicator.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/trace/collective_overlap.hpp"
#include "kernels/cpu/cpu_operators.hpp"
#include "kernels/emulated/emulated_operators.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training::vocabulary_trace_test {
namespace {

constexpr int kMicrobatches = 12;

RunConfig config_of(const char* schedule, const char* vocabulary) {
  RunConfig config;
  config.model = small_qwen2();
  config.model.layers = 8;
  config.batch.seq_length = 24;
  config.batch.global_batch_size = kMicrobatches;
  config.measure.warmup_steps = 1;
  config.measure.steps = 1;
  set_layout(config, {1, world_ranks(), 1});
  config.parallel.pp.schedule = schedule;
  config.parallel.pp.vocab_parallel = parse_vocab_parallel(vocabulary);
  return config;
}

TrainingResult on_cpu(const RunConfig& config, const Schedule& schedule) {
  MpiCommunicator communicator(config.layout());
  const auto operators = make_cpu_operators();
  return train(config, schedule, *operators, communicator, communicator, host_memory(), {});
}

constexpr Seconds kCollective{200e-6};

/// Every operator takes a twentieth of a millisecond, every collective a fifth.
TrainingResult on_emulated(RunConfig config, const Schedule& schedule) {
  config.machine.backend = Backend::emulated;
  MpiCommunicator control(config.layout());
  EmulatedClock clock(1, control.clock_offset());
  EmulatedLinks links;
  links.message = [](Bytes, int, int) { return EmulatedTransfer{{20e-6}, {5e-6}}; };
  links.collective = [](const EmulatedCollective&) { return kCollective; };
  EmulatedCommunicator communicator(config.layout(), clock, links);
  const auto operators = make_emulated_operators(clock, [](const EmulatedCall&) { return Seconds{50e-6}; });
  return train(config, schedule, *operators, communicator, control, untouched_memory(), {});
}

void expect_whole(const TrainingResult& result, const Schedule& schedule, double clock_error) {
  const auto ranks = static_cast<std::size_t>(schedule.ranks);
  ASSERT_EQ(result.trace.collectives.size(), ranks);
  VocabularySeconds waited{};
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const std::vector<CollectiveEvent>& events = result.trace.collectives[rank];
    ASSERT_EQ(events.size(), kVocabularyCalls * kMicrobatches);
    for (std::size_t i = 0; i < events.size(); ++i) {
      const CollectiveEvent& event = events[i];
      SCOPED_TRACE(fmt::format("rank {} {} {}", rank, name_of(event.call), event.microbatch));
      EXPECT_EQ(event.call, kAllVocabularyCalls[i / kMicrobatches]);
      EXPECT_EQ(event.microbatch, i % kMicrobatches);
      EXPECT_GE(event.start.value, -clock_error);
      EXPECT_GE(event.end, event.start);
      EXPECT_GE(event.waited.value, 0);
      EXPECT_LE(event.end.value, result.step_times.front().value + clock_error);
      if (event.microbatch > 0) {
        EXPECT_GE(event.start, events[i - 1].start) << "not in the order of micro-batches";
        EXPECT_GE(event.end, events[i - 1].end);
      }
      waited[i / kMicrobatches] += event.waited * (1.0 / schedule.ranks);
    }
  }
  for (std::size_t call = 0; call < kVocabularyCalls; ++call) {
    EXPECT_NEAR(waited[call].value, result.vocabulary_waits[call].value, 1e-9)
        << name_of(kAllVocabularyCalls[call]);
  }
  const VocabularyOverlap overlap = vocabulary_overlap(result.trace);
  for (std::size_t call = 0; call < kVocabularyCalls; ++call) {
    EXPECT_GT(overlap[call].time.value, 0);
    EXPECT_LE(overlap[call].exposed, overlap[call].time);
    EXPECT_NEAR(overlap[call].waited.value, waited[call].value, 1e-9);
    if (overlap[call].overlapped == overlap[call].overlapped) {
      EXPECT_LE(overlap[call].overlapped, 1 + 1e-9);
      EXPECT_GE(overlap[call].overlapped, 0);
    }
  }
}

struct Case {
  const char* schedule;
  const char* vocabulary;
};
constexpr Case kCases[] = {{"1f1b", "vocab-1"}, {"1f1b", "vocab-2"}, {"v-half", "vocab-2"}};

TEST(VocabularyTrace, CpuHasEveryCollective) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(fmt::format("{} {}", c.schedule, c.vocabulary));
    const RunConfig config = config_of(c.schedule, c.vocabulary);
    const Schedule schedule = schedule_for(config);
    expect_whole(on_cpu(config, schedule), schedule, 1e-3);
  }
}

// Exact times: all ranks see one end, no collective is shorter than it takes, those of a kind follow one
// another, and C2 follows C1 by itself with one barrier.
TEST(VocabularyTrace, EmulatedTimesAreTheMachines) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(fmt::format("{} {}", c.schedule, c.vocabulary));
    const RunConfig config = config_of(c.schedule, c.vocabulary);
    const Schedule schedule = schedule_for(config);
    const TrainingResult result = on_emulated(config, schedule);
    expect_whole(result, schedule, 1e-3);
    const auto& ranks = result.trace.collectives;
    for (std::size_t i = 0; i < ranks[0].size(); ++i) {
      Seconds last_came;
      for (const auto& events : ranks) {
        EXPECT_NEAR(events[i].end.value, ranks[0][i].end.value, 1e-9) << i;
        last_came = std::max(last_came, events[i].start);
      }
      EXPECT_GE((ranks[0][i].end - last_came).value, kCollective.value - 1e-9) << i;
      if (i % kMicrobatches > 0) {
        EXPECT_GE((ranks[0][i].end - ranks[0][i - 1].end).value, kCollective.value - 1e-9) << i;
      }
    }
    const VocabularyOverlap overlap = vocabulary_overlap(result.trace);
    for (std::size_t call = 0; call < kVocabularyCalls; ++call) {
      EXPECT_NEAR(overlap[call].time / (kCollective * kMicrobatches), 1, 1e-6)
          << name_of(kAllVocabularyCalls[call]);
    }
    if (std::string(c.vocabulary) != "vocab-2") continue;
    for (std::size_t m = 0; m < kMicrobatches; ++m) {
      const CollectiveEvent& gather = ranks[0][kMicrobatches + m];
      const CollectiveEvent& reduction = ranks[0][2 * kMicrobatches + m];
      EXPECT_GE(reduction.start.value, gather.end.value - 1e-9);
    }
  }
}

}  // namespace
}  // namespace plumbline::training::vocabulary_trace_test
