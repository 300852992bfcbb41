#include "bench/record/record_device.hpp"

#include <algorithm>

namespace plumbline {
namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 50;
constexpr std::int64_t kMostDeviceRanks = 1 << 24;

struct RowKey {
  const char* key;
  Bytes DeviceMemoryRow::*member;
};
constexpr RowKey kSure[] = {{"libraries_bytes", &DeviceMemoryRow::libraries},
                            {"nccl_bytes", &DeviceMemoryRow::nccl},
                            {"other_bytes", &DeviceMemoryRow::other},
                            {"total_bytes", &DeviceMemoryRow::total}};

OrderedJson value_of(const std::optional<Bytes>& bytes) {
  return bytes ? OrderedJson(bytes->value) : OrderedJson(nullptr);
}

std::optional<Bytes> optional_bytes(const OrderedJsonKeys& keys, const char* key) {
  if (keys.find(key) == nullptr) return std::nullopt;
  return Bytes{keys.integer(key, 0, kMost)};
}

}  // namespace

OrderedJson to_json(const DeviceMemoryReport& report) {
  OrderedJson ranks = OrderedJson::array();
  for (const DeviceMemoryRow& row : report.ranks) {
    OrderedJson json = {{"rank", row.rank},
                        {"allocated_bytes", row.allocated.value},
                        {"reserved_bytes", value_of(row.reserved)},
                        {"context_bytes", value_of(row.context)}};
    for (const RowKey& key : kSure) json[key.key] = (row.*key.member).value;
    json["device_used_bytes"] = value_of(row.device_used);
    json["ranks_on_device"] = row.ranks_on_device;
    if (row.margin) json["allocator_margin_bytes"] = row.margin->value;
    if (row.ranks_alike > 1) json["ranks_alike"] = row.ranks_alike;
    ranks.push_back(std::move(json));
  }
  return {{"source", report.source}, {"device_bytes", report.device.value}, {"ranks", std::move(ranks)}};
}

std::optional<DeviceMemoryReport> device_memory_of(const OrderedJsonKeys& keys) {
  if (keys.find("device_memory") == nullptr) return std::nullopt;
  const OrderedJsonKeys object = keys.object("device_memory");
  DeviceMemoryReport report;
  report.source = object.string("source");
  report.device = {object.integer("device_bytes", 0, kMost)};
  for (const OrderedJsonKeys& cells : object.objects("ranks")) {
    DeviceMemoryRow row;
    row.rank = static_cast<int>(cells.integer("rank", 0, kMostDeviceRanks));
    row.allocated = {cells.integer("allocated_bytes", 0, kMost)};
    row.reserved = optional_bytes(cells, "reserved_bytes");
    row.context = optional_bytes(cells, "context_bytes");
    for (const RowKey& key : kSure) row.*key.member = {cells.integer(key.key, 0, kMost)};
    row.device_used = optional_bytes(cells, "device_used_bytes");
    row.margin = optional_bytes(cells, "allocator_margin_bytes");
    row.ranks_on_device = static_cast<int>(cells.integer("ranks_on_device", 0, kMostDeviceRanks));
    row.ranks_alike = static_cast<int>(cells.integer_or("ranks_alike", kMostDeviceRanks, 1));
    report.ranks.push_back(row);
  }
  return report;
}

}  // namespace plumbline
