// The file that `save_routing` names.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bench/training/stage/rank_stages.hpp"

namespace plumbline::training {

/// Tokens of a layer's experts, over all copies of the model and micro-batches.
struct LayerLoad {
  std::int64_t layer = 0;
  std::vector<std::int64_t> tokens;   // by expert: that chose it
  std::vector<std::int64_t> dropped;  // by expert: of those
};

/// Load of the experts in every step as CSV: a line for every step (from 0), replica, layer and micro-batch,
/// in this order: step,copy,layer,microbatch,expert 0,expert 1,… MTP modules follow the model's layers. The
/// teacher's is a file of its own, teacher_routing_file().
class RoutingFile {
 public:
  /// Writes nothing if the path is empty.
  explicit RoutingFile(std::string path) : path_(std::move(path)) {}
  /// Adds the finished step. Collective.
  void step_ended(const RankStages& stages, int step, Communicator& control);
  /// World rank 0 writes the file. Throws OutputError when the file cannot be written.
  void write() const;

 private:
  std::string path_;
  std::string text_;     // on world rank 0
  std::string teacher_;  // the same of the teacher
};

/// Tokens that chose, and were dropped by, the experts of every layer in the last step, by layer; on all
/// ranks. Collective.
std::vector<LayerLoad> gather_layer_loads(const RankStages& stages, Communicator& control);

}  // namespace plumbline::training
