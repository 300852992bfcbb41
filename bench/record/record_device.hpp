// The key device_memory of a record.
#pragma once

#include <optional>

#include "bench/record/device_memory_report.hpp"
#include "core/base/json_keys.hpp"

namespace plumbline {

OrderedJson to_json(const DeviceMemoryReport& report);
/// The object device_memory of `keys`, or nothing; throws InputError as parse_record does.
std::optional<DeviceMemoryReport> device_memory_of(const OrderedJsonKeys& keys);

}  // namespace plumbline
