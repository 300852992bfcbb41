// Respects in which published runs differ: keys that one decision sets together.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "analysis/published/compared_row.hpp"

namespace plumbline {

/// The respect that a key belongs to: precision, recomputation, overlap, split (the ranks of each parallelism
/// and the chunks of a pipeline), micro-batch, optimizer sharding; every other key is a respect of its own.
std::string_view respect_of(std::string_view key);
/// True if a column is a setting of the run, not a figure or a text.
bool is_setting(std::string_view key);

/// "key=value" of every setting whose respect is wanted, a line each.
std::string settings_text(const Cells& settings, const std::function<bool(std::string_view respect)>& wanted);

/// The settings of a run that a planner is not free to choose, as one text. Rows with the same text are
/// layouts of the same training on as many GPUs. Free are the split, micro-batch, recomputation, optimizer
/// sharding and vocab_parallel.
std::string same_training(const Cells& settings);

}  // namespace plumbline
