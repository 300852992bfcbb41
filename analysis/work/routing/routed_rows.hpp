// How many rows the experts of a rank have where the routing is known: what memory and messages of experts that are spread over
// ranks depend on.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "analysis/work/shapes.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline {

/// Tokens of one micro-batch by expert, in a layer of one copy of the model: a line of what save_routing writes.
struct RoutedTokens {
  int copy = 0;            // Layout::sender of the rank that sends them
  std::int64_t layer = 0;  // of the model
  std::uint32_t microbatch = 0;
  std::vector<std::int32_t> tokens;
};

/// Of the ranks that send, and receive, as one of them does: those with its Layout::sender.
class RoutedRows {
 public:
  /// `routing`: of all copies. Throws InputError for experts or copies that the configuration does not have.
  RoutedRows(const RunConfig& config, const Schedule& schedule, std::span<const RoutedTokens> routing,
             int sender);
  /// The stage in that micro-batch. Throws InputError when the routing of one of its layers is not known.
  StageShape in_microbatch(const StageShape& shape, std::uint32_t microbatch) const;

 private:
  struct Rows {
    std::int64_t rows = 0;
    int copies = 0;  // that sent them
  };
  int ranks_ = 1;                                                // of an expert group
  std::vector<std::int64_t> first_layers_;                       // by part of the model
  std::map<std::pair<std::int64_t, std::uint32_t>, Rows> rows_;  // by layer and micro-batch
};

}  // namespace plumbline
