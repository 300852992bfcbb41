// MTP modules, which predict further tokens (DeepSeek-AI 2024, arXiv:2412.19437 §2.2).
#pragma once

#include <vector>

#include "bench/training/ends/input_end.hpp"
#include "bench/training/ends/rank_resources.hpp"
#include "bench/training/layer/layer.hpp"
#include "bench/training/operators/input.hpp"
#include "bench/training/operators/pair.hpp"
#include "bench/training/tape/tape.hpp"

namespace plumbline::training {

/// The modules of a last stage, behind its layers. bench/training/mtp.md lists what is allocated when.
class PredictionModules {
 public:
  PredictionModules(RankResources& rank, const StageEntry& entry);
  PredictionModules(const PredictionModules&) = delete;
  PredictionModules& operator=(const PredictionModules&) = delete;

  /// Unit of the table that tokens are looked up in.
  int embedding_unit() const { return embedding_.units().front(); }
  /// Hidden states of every module (R, h) behind their norm, from the model's.
  std::vector<Slot> record(Tape& tape, Slot hidden) const;

 private:
  /// A module's parameters besides its layer's.
  struct Ends {
    PairInput pair;
    Matrix norm, norm_gradient;  // after the layer
  };
  Slot record_module(Tape& tape, std::size_t module, Slot tokens, Slot hidden) const;
  TokensOf inputs_of(std::size_t module) const;

  InputEnd embedding_;
  std::vector<Layer> layers_;
  std::vector<Ends> ends_;
};

}  // namespace plumbline::training
