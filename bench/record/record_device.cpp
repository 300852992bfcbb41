#include "bench/record/record_device.hpp"

#include "bench/record/record_keys.hpp"

namespace plumbline {
namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 50;
constexpr std::int64_t kMostRanks = 1 << 24;

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

std::optional<Bytes> optional_bytes(const Keys& keys, const char* key) {
  if (keys.find(key) == nullptr) return std::nullopt;
  return Bytes{keys.whole(key, kMost)};
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
    ranks.push_back(std::move(json));
  }
  return {{"source", report.source}, {"device_bytes", report.device.value}, {"ranks", std::move(ranks)}};
}

std::optional<DeviceMemoryReport> device_memory_of(const Keys& keys) {
  if (keys.find("device_memory") == nullptr) return std::nullopt;
  const Keys object = keys.object("device_memory");
  DeviceMemoryReport report;
  report.source = object.text("source");
  report.device = {object.whole("device_bytes", kMost)};
  const OrderedJson& rows = object.get("ranks");
  if (!rows.is_array()) object.fail("ranks", "expected a list");
  for (const OrderedJson& json : rows) {
    const Keys cells(json, object.origin() + ": ranks");
    DeviceMemoryRow row;
    row.rank = static_cast<int>(cells.whole("rank", kMostRanks));
    row.allocated = {cells.whole("allocated_bytes", kMost)};
    row.reserved = optional_bytes(cells, "reserved_bytes");
    row.context = optional_bytes(cells, "context_bytes");
    for (const RowKey& key : kSure) row.*key.member = {cells.whole(key.key, kMost)};
    row.device_used = optional_bytes(cells, "device_used_bytes");
    row.ranks_on_device = static_cast<int>(cells.whole("ranks_on_device", kMostRanks));
    report.ranks.push_back(row);
  }
  return report;
}

}  // namespace plumbline
