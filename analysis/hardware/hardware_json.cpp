// Hardware profiles as JSON: written whole, read as untrusted input.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "analysis/hardware/hardware.hpp"
#include "core/base/error.hpp"
#include "core/base/json_keys.hpp"
#include "core/base/output_json.hpp"
#include "core/base/text_input.hpp"

namespace plumbline {
namespace {

constexpr int kSchema = 1;
constexpr std::size_t kMaxPoints = 100'000;  // of one table

template <class Table>
Json with_spread(Json json, const Table& table) {
  if (!table.spread.empty()) json["spread"] = table.spread;
  return json;
}
Json to_json(const Curve& curve) {
  return with_spread({{"sizes", curve.sizes}, {"seconds", curve.seconds}}, curve);
}
Json to_json(const Grid& grid) {
  return with_spread({{"x", grid.x}, {"y", grid.y}, {"z", grid.z}, {"seconds", grid.seconds}}, grid);
}
template <class Table>
Json to_json(const std::map<std::string, Table>& tables) {
  Json json = Json::object();
  for (const auto& [name, table] : tables) json[name] = to_json(table);
  return json;
}
Json to_json(const std::vector<OperatorTimes>& list) {
  Json json = Json::array();
  for (const OperatorTimes& times : list) {
    json.push_back({{"working_set_bytes", times.working_set.value},
                    {"gemm", to_json(times.gemm)},
                    {"attention", to_json(times.attention)},
                    {"memory_bound", to_json(times.memory_bound)},
                    {"by_row", to_json(times.by_row)}});
  }
  return json;
}

Json to_json(const CacheLevels& levels) {
  return {{"bytes", levels.bytes}, {"level", levels.level}};
}

constexpr double kHuge = 1e24;

/// From 1 to kMaxPoints numbers above 0.
std::vector<double> numbers(const JsonKeys& keys, const char* key) {
  std::vector<double> list = keys.numbers(key, std::numeric_limits<double>::min(), 1e30, kMaxPoints);
  if (list.empty()) keys.refuse(key, fmt::format("a list of 1 to {} numbers", kMaxPoints));
  return list;
}

std::vector<double> axis(const JsonKeys& keys, const char* key) {
  std::vector<double> list = numbers(keys, key);
  if (std::adjacent_find(list.begin(), list.end(), std::greater_equal<>()) != list.end())
    keys.refuse(key, "ascending numbers");
  return list;
}

/// One per second of the table, or none.
template <class Table>
void read_spread(const JsonKeys& keys, Table& table) {
  if (keys.find("spread") == nullptr) return;
  table.spread = keys.numbers("spread", 0, 1e9, kMaxPoints);
  if (table.spread.size() != table.seconds.size())
    keys.refuse("spread", fmt::format("{} numbers, one per time", table.seconds.size()));
}

Curve read_curve(const JsonKeys& keys) {
  Curve curve{axis(keys, "sizes"), numbers(keys, "seconds")};
  if (curve.sizes.size() != curve.seconds.size()) {
    keys.refuse("seconds", fmt::format("{} numbers, one per size", curve.sizes.size()));
  }
  read_spread(keys, curve);
  return curve;
}

Grid read_grid(const JsonKeys& keys) {
  Grid grid{axis(keys, "x"), axis(keys, "y"), axis(keys, "z"), numbers(keys, "seconds")};
  // Each axis is at most kMaxPoints long, so the product fits in 64 bits.
  const std::size_t cells = grid.x.size() * grid.y.size() * grid.z.size();
  if (cells != grid.seconds.size()) keys.refuse("seconds", fmt::format("{} numbers, x·y·z", cells));
  read_spread(keys, grid);
  return grid;
}

/// Every member of the object `key`, if there is one.
template <class Table>
void read_tables(const JsonKeys& keys, const char* key, Table (*read)(const JsonKeys&),
                 std::map<std::string, Table>& tables) {
  if (keys.find(key) == nullptr) return;
  for (const auto& [name, table] : keys.members(key)) {
    tables[name] = read(table);
    table.refuse_unknown();
  }
}

/// Calls `read` for every entry of the list `key`, if there is one.
template <class Read>
void read_entries(const JsonKeys& keys, const char* key, Read&& read) {
  if (keys.find(key) == nullptr) return;
  for (const JsonKeys& entry : keys.objects(key, kMaxPoints)) {
    read(entry);
    entry.refuse_unknown();
  }
}

void read_times(const JsonKeys& keys, const char* key, std::vector<OperatorTimes>& list) {
  read_entries(keys, key, [&](const JsonKeys& entry) {
    OperatorTimes& times = list.emplace_back();
    times.working_set.value = static_cast<std::int64_t>(entry.number_or("working_set_bytes", 1, 1e15, 1));
    read_tables(entry, "gemm", read_grid, times.gemm);
    read_tables(entry, "attention", read_grid, times.attention);
    read_tables(entry, "memory_bound", read_curve, times.memory_bound);
    read_tables(entry, "by_row", read_grid, times.by_row);
    if (list.size() > 1 && times.working_set <= list[list.size() - 2].working_set)
      entry.refuse("working_set_bytes", "ascending working sets");
  });
}

CacheLevels read_levels(const JsonKeys& keys) {
  constexpr double kMostTables = 1000;
  CacheLevels levels{axis(keys, "bytes"), keys.numbers("level", 0, kMostTables, kMaxPoints)};
  if (levels.level.size() != levels.bytes.size() || !std::is_sorted(levels.level.begin(), levels.level.end()))
    keys.refuse("level", fmt::format("{} numbers that do not descend", levels.bytes.size()));
  keys.refuse_unknown();
  return levels;
}

struct OverheadKey {
  const char* key;
  Bytes DeviceOverhead::*member;
};
constexpr OverheadKey kOverhead[] = {{"device_bytes", &DeviceOverhead::device},
                                     {"context_bytes", &DeviceOverhead::context},
                                     {"libraries_bytes", &DeviceOverhead::libraries},
                                     {"kernels_bytes", &DeviceOverhead::kernels},
                                     {"nccl_first_bytes", &DeviceOverhead::nccl_first},
                                     {"nccl_group_bytes", &DeviceOverhead::nccl_group},
                                     {"nccl_channel_bytes", &DeviceOverhead::nccl_channel}};

Json to_json(const DeviceOverhead& overhead) {
  Json json = {{"measured", overhead.measured}};
  for (const OverheadKey& key : kOverhead) json[key.key] = (overhead.*key.member).value;
  return json;
}

DeviceOverhead read_overhead(const JsonKeys& keys) {
  DeviceOverhead overhead;
  for (const OverheadKey& key : kOverhead)
    (overhead.*key.member).value = static_cast<std::int64_t>(keys.number_or(key.key, 0, 1e15, 0));
  if (!overhead.known()) keys.refuse("device_bytes", "the memory of the device in bytes");
  overhead.measured = keys.boolean_or("measured", false);
  keys.refuse_unknown();
  return overhead;
}

constexpr std::string_view kSharedGpu = "shared-gpu";  // ranks of the calibration had one GPU

/// Two ranks on one GPU have two members and sockets: that is not the memory of a group over NVLink.
void take_nccl_of(const MemoryBytes& preset, DeviceOverhead& overhead) {
  overhead.nccl_first = {};
  overhead.nccl_group = {static_cast<std::int64_t>(preset.nccl_group_bytes)};
  overhead.nccl_channel = {static_cast<std::int64_t>(preset.nccl_channel_bytes)};
}

Json to_json(const Calibration& calibration) {
  Json noise = Json::object();
  for (const SpeedClass& each : kSpeedClasses) noise[each.name] = calibration.noise.*each.member;
  return {{"unix_s", calibration.unix_s},
          {"seconds", calibration.seconds},
          {"host", calibration.host},
          {"cpu", calibration.cpu},
          {"noise", noise},
          {"figures", calibration.figures},
          {"seen_once", calibration.seen_once},
          {"unsettled", calibration.unsettled}};
}

Calibration read_calibration(const JsonKeys& keys) {
  constexpr std::int64_t kMostFigures = 1'000'000'000;
  constexpr std::int64_t kLatest = 253'402'300'799;  // the end of the year 9999
  Calibration calibration;
  calibration.unix_s = keys.integer("unix_s", 1, kLatest);
  calibration.seconds = keys.number_or("seconds", 0, 1e9, 0);
  calibration.host = printable(keys.string_or("host", ""), 200);
  calibration.cpu = printable(keys.string_or("cpu", ""), 200);
  calibration.figures = keys.integer_or("figures", 0, kMostFigures, 0);
  calibration.seen_once = keys.integer_or("seen_once", 0, kMostFigures, 0);
  calibration.unsettled = keys.integer_or("unsettled", 0, kMostFigures, 0);
  if (keys.find("noise") != nullptr) {
    const JsonKeys noise = keys.object("noise");
    for (const SpeedClass& each : kSpeedClasses)
      calibration.noise.*each.member = noise.number_or(each.name, 0, 1e6, 0);
    noise.refuse_unknown();
  }
  keys.refuse_unknown();
  return calibration;
}

DType read_dtype(const JsonKeys& keys) {
  const std::string name = keys.string_or("dtype", "fp32");
  for (const DType type : {DType::fp32, DType::bf16, DType::fp16}) {
    if (name == name_of(type)) return type;
  }
  keys.refuse("dtype", "fp32, bf16 or fp16");
}

std::string text_or(const JsonKeys& keys, const char* key, const std::string& otherwise) {
  return keys.find(key) == nullptr ? otherwise : printable(keys.string(key), 200);
}

int small(const JsonKeys& keys, const char* key, int min, int otherwise) {
  return static_cast<int>(keys.integer_or(key, min, 1 << 20, otherwise));
}

void read_accelerator(const JsonKeys& keys, HardwareProfile& p) {
  const std::string name = text_or(keys, "accelerator", "");
  if (name.empty()) return;
  const HardwareProfile* preset = find_hardware_preset(name);
  if (preset == nullptr)
    keys.refuse("accelerator", fmt::format("one of {}", fmt::join(hardware_preset_names(), ", ")));
  if (p.processors() > 0) keys.refuse("processors", "0 with an accelerator, whose ranks share none");
  p.kind = preset->kind;
}

HardwareProfile profile_of(const JsonKeys& keys) {
  if (keys.integer_or("schema", 0, 1 << 20, 0) != kSchema) keys.refuse("schema", fmt::format("{}", kSchema));
  HardwareProfile p;
  p.name = text_or(keys, "name", keys.origin());
  p.machine = text_or(keys, "machine", "");
  p.kind = Calibrated{small(keys, "processors", 0, 0)};
  p.memory.value = static_cast<std::int64_t>(keys.number_or("memory_bytes", 0, 1e18, 0));
  p.peak_fp32.value = keys.number("peak_fp32_flops", 1, kHuge);
  p.peak_16bit.value = keys.number("peak_16bit_flops", 1, kHuge);
  p.memory_bandwidth.value = keys.number("memory_bytes_per_s", 1, kHuge);
  p.gemm_efficiency = keys.number_or("gemm_efficiency", 1e-6, 1, p.gemm_efficiency);
  p.attention_efficiency = keys.number_or("attention_efficiency", 1e-6, 1, p.attention_efficiency);
  p.bandwidth_efficiency = keys.number_or("bandwidth_efficiency", 1e-6, 1, p.bandwidth_efficiency);
  p.launch_overhead.value = keys.number_or("launch_overhead_s", 0, 1, 0);
  p.link_latency.value = keys.number_or("link_latency_s", 0, 1e3, 0);
  p.link_bandwidth.value = keys.number_or("link_bytes_per_s", 1, kHuge, 1e9);
  p.allocation.value = keys.number_or("allocation_s", 0, 1, 0);
  p.action_overhead.value = keys.number_or("action_overhead_s", 0, 1, 0);
  p.step_overhead.value = keys.number_or("step_overhead_s", 0, 1e3, 0);
  if (keys.find("calibration") != nullptr) p.calibration = read_calibration(keys.object("calibration"));
  read_accelerator(keys, p);
  if (keys.find("device_memory") != nullptr) {
    p.overhead = read_overhead(keys.object("device_memory"));
    if (p.accelerator() != nullptr && p.machine.find(kSharedGpu) != std::string::npos)
      take_nccl_of(p.accelerator()->constants.device.memory, p.overhead);
  }
  read_times(keys, "alone", p.alone);
  read_times(keys, "busy", p.busy);
  if (keys.find("alone_levels") != nullptr) p.alone_levels = read_levels(keys.object("alone_levels"));
  if (keys.find("busy_levels") != nullptr) p.busy_levels = read_levels(keys.object("busy_levels"));
  for (const CollectiveKind kind : kTimedCollectives) {
    read_entries(keys, std::string(name_of(kind)).c_str(), [&](const JsonKeys& entry) {
      p.collectives.push_back({small(entry, "ranks", 2, 2), small(entry, "world", 2, 2), read_dtype(entry),
                               entry.boolean_or("started", false), read_curve(entry), kind});
    });
  }
  read_entries(keys, "messages", [&](const JsonKeys& entry) {
    p.messages.push_back({small(entry, "world", 2, 2), read_curve(entry)});
  });
  keys.refuse_unknown();
  return p;
}

}  // namespace

std::string to_json(const HardwareProfile& p) {
  Json json = {{"schema", kSchema},
               {"name", p.name},
               {"machine", p.machine},
               {"processors", p.processors()},
               {"memory_bytes", p.memory.value},
               {"peak_fp32_flops", p.peak_fp32.value},
               {"peak_16bit_flops", p.peak_16bit.value},
               {"memory_bytes_per_s", p.memory_bandwidth.value},
               {"gemm_efficiency", p.gemm_efficiency},
               {"attention_efficiency", p.attention_efficiency},
               {"bandwidth_efficiency", p.bandwidth_efficiency},
               {"launch_overhead_s", p.launch_overhead.value},
               {"link_latency_s", p.link_latency.value},
               {"link_bytes_per_s", p.link_bandwidth.value},
               {"allocation_s", p.allocation.value},
               {"action_overhead_s", p.action_overhead.value},
               {"step_overhead_s", p.step_overhead.value},
               {"accelerator", p.accelerator() != nullptr ? p.accelerator()->name : ""},
               {"alone", to_json(p.alone)},
               {"busy", to_json(p.busy)},
               {"messages", Json::array()}};
  for (const CollectiveKind kind : kTimedCollectives) json[std::string(name_of(kind))] = Json::array();
  if (!p.alone_levels.empty()) json["alone_levels"] = to_json(p.alone_levels);
  if (!p.busy_levels.empty()) json["busy_levels"] = to_json(p.busy_levels);
  if (p.overhead.known()) json["device_memory"] = to_json(p.overhead);
  if (p.calibration.known()) json["calibration"] = to_json(p.calibration);
  for (const CollectiveTime& time : p.collectives) {
    Json entry = to_json(time.seconds);
    entry["ranks"] = time.ranks;
    entry["world"] = time.world;
    entry["dtype"] = name_of(time.dtype);
    entry["started"] = time.started;
    json[std::string(name_of(time.kind))].push_back(entry);
  }
  for (const MessageTime& time : p.messages) {
    Json entry = to_json(time.seconds);
    entry["world"] = time.world;
    json["messages"].push_back(entry);
  }
  return output_json(json, 1) + "\n";
}

HardwareProfile parse_hardware(std::string_view text, const std::string& origin) {
  try {
    const Json json = parse_json_object(text, origin);
    return profile_of(JsonKeys(json, origin, JsonNull::refused));
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}; fix the file or run calibrate again", error.what()));
  }
}

}  // namespace plumbline
