// Attention work of a run with packed_sequence, from its data.
#pragma once

#include "core/config/run_config.hpp"

namespace plumbline {

/// Sets config.batch.packed, with which predictions price packed conversations; nothing without
/// packed_sequence, or if the configuration is invalid. Throws InputError for data that are no chats.
void add_packed_work(RunConfig& config);

}  // namespace plumbline
