// CUPTI's activity buffers as plain data.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/profile/activity.hpp"

namespace plumbline {

/// Appends the records of one buffer. Throws Error when CUPTI cannot read its own buffer.
void read_buffer(std::uint8_t* buffer, std::size_t valid_bytes, RecordedActivities& into);

}  // namespace plumbline
