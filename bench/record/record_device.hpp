// The key device_memory of a record.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "bench/record/device_memory_report.hpp"

namespace plumbline {

class Keys;

nlohmann::ordered_json to_json(const DeviceMemoryReport& report);
/// The object device_memory of `keys`, or nothing; throws InputError as parse_record does.
std::optional<DeviceMemoryReport> device_memory_of(const Keys& keys);

}  // namespace plumbline
