// Pipeline stages as torchtitan splits a model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/launch_files/arguments/launch_arguments.hpp"

namespace plumbline {

/// Sets pipeline_model_parallel_size, pipeline_schedule, virtual_pipeline_chunks and layer_distribution for a
/// model of `layers` layers. Throws InputError (place, key, found, expected).
void set_torchtitan_layout(LaunchArguments& arguments, std::int64_t layers);

/// Keys that make torchtitan split a model into these stages.
struct TitanSplit {
  std::string schedule;               // "Interleaved1F1B"
  std::int64_t less_first = 1;        // layers that the first stage has less
  std::int64_t less_last = 1;         // and the last
  std::int64_t layers_per_stage = 0;  // 0: not needed
};

/// Nothing when torchtitan has no such schedule, or no such split.
std::optional<TitanSplit> titan_split(const std::string& schedule, std::int64_t ranks,
                                      const std::vector<int>& stages);

}  // namespace plumbline
