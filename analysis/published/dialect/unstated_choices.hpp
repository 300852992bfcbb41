// Rows that leave settings open: each is read once for every value that it may have had.
#pragma once

#include <string>
#include <vector>

#include "analysis/published/dialect/table_header.hpp"

namespace plumbline {

/// A row with a value for every setting that it leaves open.
struct Reading {
  Cells cells;
  std::string choice;  // "micro_batch_size 1, recompute_granularity none"; empty: the row leaves none open
};

/// The readings of a row, likeliest first. A cell of a configuration key leaves the key open if it has
/// several values, likeliest first ("none or full_iteration"), or is "unstated", which stands for the usual
/// ones of micro_batch_size, recompute_granularity and cuda_graph_impl. Throws InputError for too many
/// combinations.
std::vector<Reading> readings_of(const Cells& cells, const std::string& origin);

}  // namespace plumbline
