// A rank's share of both ends of a model whose vocabulary is split over all ranks.
#pragma once

#include "bench/training/ends/embedding_shard.hpp"
#include "bench/training/ends/vocabulary_shard.hpp"

namespace plumbline::training {

struct VocabularyEnds {
  explicit VocabularyEnds(RankResources& rank)
      : waits(rank.context.communicator, rank.placement.microbatches),
        input(rank, waits),
        output(rank, waits) {}
  VocabularyEnds(const VocabularyEnds&) = delete;
  VocabularyEnds& operator=(const VocabularyEnds&) = delete;

  void start_step() {
    waits.clear();
    output.start_step();
  }
  /// Waits for calls still in progress.
  void finish_step() {
    input.finish_step();
    output.finish_step();
  }

  ExposedWaits waits;
  EmbeddingShard input;
  VocabularyShard output;
};

}  // namespace plumbline::training
