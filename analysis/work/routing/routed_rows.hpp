// Rows of a rank's experts under a known routing. Memory and messages depend on them if experts are spread
// over ranks or drop rows beyond their capacity.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "analysis/step/step_model.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline {

/// Tokens of one micro-batch by chosen expert, in a layer of one copy of the model: a line of save_routing's
/// output.
struct RoutedTokens {
  int copy = 0;            // Layout::sender of the rank that sends them
  std::int64_t layer = 0;  // of the model
  std::uint32_t microbatch = 0;
  std::vector<std::int32_t> tokens;
};

/// Rows of a layer's experts: of a rank's tokens, and with experts spread over ranks of the busiest rank; 0:
/// those of a balanced routing.
struct MeanRows {
  std::int64_t sent = 0;
  std::int64_t here = 0;
};

/// Means over all layers and micro-batches: a sender's rows, and the rows of the busiest rank of every expert
/// group, for which the others wait.
MeanRows mean_rows(const StepModel& model, std::span<const RoutedTokens> routing);
/// Mean over steps.
MeanRows mean_rows(const StepModel& model, const std::vector<std::vector<RoutedTokens>>& steps);
/// Sets the rows of every layer's experts; nothing if they are 0.
void set_mean_rows(const MeanRows& rows, std::span<StageShape> stages);

/// Rows of the ranks that share a Layout::sender and so send and receive alike.
class RoutedRows {
 public:
  /// `routing`: of all copies. Throws InputError for experts or copies that the configuration does not have.
  RoutedRows(const StepModel& model, std::span<const RoutedTokens> routing, int sender);
  RoutedRows(const RunConfig& config, const Schedule& schedule, std::span<const RoutedTokens> routing,
             int sender);
  /// The stage in that micro-batch. Throws InputError when the routing of one of its layers is not known.
  StageShape in_microbatch(const StageShape& shape, std::uint32_t microbatch) const;

 private:
  struct Rows {
    KnownRows rows;
    int copies = 0;  // that sent them
  };
  int ranks_ = 1;                                                // of an expert group
  std::vector<std::int64_t> first_layers_;                       // by part of the model
  std::map<std::pair<std::int64_t, std::uint32_t>, Rows> rows_;  // by layer and micro-batch
};

}  // namespace plumbline
