// Hardware profiles as JSON: written whole, read as if hostile.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "analysis/hardware/hardware.hpp"
#include "core/base/error.hpp"
#include "core/base/text_input.hpp"

namespace plumbline {
namespace {

using Json = nlohmann::json;
constexpr int kSchema = 1;
constexpr std::size_t kMaxPoints = 100'000;  // of one table

Json to_json(const Curve& curve) {
  return {{"sizes", curve.sizes}, {"seconds", curve.seconds}};
}
Json to_json(const Grid& grid) {
  return {{"x", grid.x}, {"y", grid.y}, {"z", grid.z}, {"seconds", grid.seconds}};
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
                    {"memory_bound", to_json(times.memory_bound)}});
  }
  return json;
}

/// Reads one JSON object; every failure names origin and key, and keys nobody asked for are errors.
class Reader {
 public:
  Reader(const Json& json, std::string origin, std::string path)
      : json_(json), origin_(std::move(origin)), path_(std::move(path)) {
    if (!json_.is_object()) fail("", "an object");
  }

  double number(const char* key, double low, double high, double otherwise) {
    const Json* value = find(key);
    if (value == nullptr) return otherwise;
    return checked(*value, key, low, high);
  }
  int integer(const char* key, int low, int high, int otherwise) {
    const double value = number(key, low, high, otherwise);
    if (value != std::floor(value)) fail(key, "a whole number");
    return static_cast<int>(value);
  }
  std::string text(const char* key, const std::string& otherwise) {
    const Json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_string()) fail(key, "a string");
    return printable(value->get<std::string>(), 200);
  }
  bool flag(const char* key, bool otherwise) {
    const Json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_boolean()) fail(key, "true or false");
    return value->get<bool>();
  }
  std::vector<double> numbers(const char* key, bool ascending) {
    const Json* value = find(key);
    if (value == nullptr || !value->is_array() || value->empty() || value->size() > kMaxPoints) {
      fail(key, fmt::format("a list of 1 to {} numbers", kMaxPoints));
    }
    std::vector<double> list;
    for (const Json& entry : *value) {
      list.push_back(checked(entry, key, std::numeric_limits<double>::min(), 1e30));
      if (ascending && list.size() > 1 && list.back() <= list[list.size() - 2]) {
        fail(key, "ascending numbers");
      }
    }
    return list;
  }
  /// Calls `read(reader, key)` for every member of the object `key`.
  template <class Read>
  void members(const char* key, Read&& read) {
    const Json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_object()) fail(key, "an object");
    for (const auto& [name, member] : value->items()) {
      Reader reader(member, origin_, path_ + key + "." + printable(name) + ".");
      read(reader, name);
      reader.finish();
    }
  }
  /// Calls `read(reader)` for the object `key`, if there is one.
  template <class Read>
  void object(const char* key, Read&& read) {
    const Json* value = find(key);
    if (value == nullptr) return;
    Reader reader(*value, origin_, path_ + key + ".");
    read(reader);
    reader.finish();
  }
  /// Calls `read(reader)` for every entry of the list `key`.
  template <class Read>
  void entries(const char* key, Read&& read) {
    const Json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_array() || value->size() > kMaxPoints) fail(key, "a list of objects");
    for (std::size_t i = 0; i < value->size(); ++i) {
      Reader reader((*value)[i], origin_, fmt::format("{}{}[{}].", path_, key, i));
      read(reader);
      reader.finish();
    }
  }
  void finish() const {
    for (const auto& [name, value] : json_.items()) {
      if (asked_.count(name) == 0) {
        throw InputError(fmt::format("{}: unknown key {}{}; remove it, or run calibrate again", origin_,
                                     path_, printable(name)));
      }
    }
  }
  [[noreturn]] void fail(const std::string& key, const std::string& expected) const {
    const auto found = json_.is_object() && json_.contains(key) ? json_[key] : (key.empty() ? json_ : Json());
    throw InputError(fmt::format("{}: {}{}: expected {}, found {}; fix the file or run calibrate again",
                                 origin_, path_, key, expected,
                                 printable(found.dump(-1, ' ', true, Json::error_handler_t::replace))));
  }

 private:
  const Json* find(const char* key) {
    asked_.insert(key);
    const auto found = json_.find(key);
    return found == json_.end() ? nullptr : &*found;
  }
  double checked(const Json& value, const char* key, double low, double high) const {
    const double number = value.is_number() ? value.get<double>() : std::nan("");
    if (!(number >= low && number <= high)) {
      fail(key, fmt::format("a number from {:g} to {:g}", low, high));
    }
    return number;
  }

  const Json& json_;
  std::string origin_;
  std::string path_;
  std::set<std::string> asked_;
};

Curve read_curve(Reader& reader) {
  Curve curve{reader.numbers("sizes", true), reader.numbers("seconds", false)};
  if (curve.sizes.size() != curve.seconds.size()) {
    reader.fail("seconds", fmt::format("{} numbers, one per size", curve.sizes.size()));
  }
  return curve;
}

Grid read_grid(Reader& reader) {
  Grid grid{reader.numbers("x", true), reader.numbers("y", true), reader.numbers("z", true),
            reader.numbers("seconds", false)};
  // Each axis is at most kMaxPoints long, so the product fits in 64 bits.
  const std::size_t cells = grid.x.size() * grid.y.size() * grid.z.size();
  if (cells != grid.seconds.size()) reader.fail("seconds", fmt::format("{} numbers, x·y·z", cells));
  return grid;
}

OperatorTimes read_times(Reader& reader) {
  OperatorTimes times;
  times.working_set.value = static_cast<std::int64_t>(reader.number("working_set_bytes", 1, 1e15, 1));
  reader.members("gemm", [&](Reader& r, const std::string& name) { times.gemm[name] = read_grid(r); });
  reader.members("attention",
                 [&](Reader& r, const std::string& name) { times.attention[name] = read_grid(r); });
  reader.members("memory_bound",
                 [&](Reader& r, const std::string& name) { times.memory_bound[name] = read_curve(r); });
  return times;
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

DeviceOverhead read_overhead(Reader& reader) {
  DeviceOverhead overhead;
  for (const OverheadKey& key : kOverhead) {
    (overhead.*key.member).value = static_cast<std::int64_t>(reader.number(key.key, 0, 1e15, 0));
  }
  if (!overhead.known()) reader.fail("device_bytes", "the memory of the device in bytes");
  overhead.measured = reader.flag("measured", false);
  return overhead;
}

DType read_dtype(Reader& reader) {
  const std::string name = reader.text("dtype", "fp32");
  for (const DType type : {DType::fp32, DType::bf16, DType::fp16}) {
    if (name == name_of(type)) return type;
  }
  reader.fail("dtype", "fp32, bf16 or fp16");
}

}  // namespace

std::string to_json(const HardwareProfile& p) {
  Json json = {{"schema", kSchema},
               {"name", p.name},
               {"machine", p.machine},
               {"processors", p.processors},
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
               {"accelerator", p.accelerator},
               {"alone", to_json(p.alone)},
               {"busy", to_json(p.busy)},
               {"all_reduce", Json::array()},
               {"messages", Json::array()}};
  if (p.overhead.known()) json["device_memory"] = to_json(p.overhead);
  for (const CollectiveTime& time : p.all_reduce) {
    Json entry = to_json(time.seconds);
    entry["ranks"] = time.ranks;
    entry["world"] = time.world;
    entry["dtype"] = name_of(time.dtype);
    entry["started"] = time.started;
    json["all_reduce"].push_back(entry);
  }
  for (const MessageTime& time : p.messages) {
    Json entry = to_json(time.seconds);
    entry["world"] = time.world;
    json["messages"].push_back(entry);
  }
  return json.dump(1) + "\n";
}

HardwareProfile parse_hardware(std::string_view text, const std::string& origin) {
  const Json json = Json::parse(text.begin(), text.end(), nullptr, false);
  if (json.is_discarded()) {
    throw InputError(fmt::format(
        "{}: not JSON; expected a hardware profile as calibrate writes it, run calibrate again", origin));
  }
  Reader reader(json, origin, "");
  if (reader.integer("schema", 0, 1 << 20, 0) != kSchema) {
    reader.fail("schema", fmt::format("{}", kSchema));
  }
  constexpr double kHuge = 1e24;
  HardwareProfile p;
  p.name = reader.text("name", origin);
  p.machine = reader.text("machine", "");
  p.processors = reader.integer("processors", 0, 1 << 20, 0);
  p.memory.value = static_cast<std::int64_t>(reader.number("memory_bytes", 0, 1e18, 0));
  p.peak_fp32.value = reader.number("peak_fp32_flops", 1, kHuge, 0);
  p.peak_16bit.value = reader.number("peak_16bit_flops", 1, kHuge, 0);
  p.memory_bandwidth.value = reader.number("memory_bytes_per_s", 1, kHuge, 0);
  if (p.peak_fp32.value <= 0) reader.fail("peak_fp32_flops", "a number");
  if (p.peak_16bit.value <= 0) reader.fail("peak_16bit_flops", "a number");
  if (p.memory_bandwidth.value <= 0) reader.fail("memory_bytes_per_s", "a number");
  p.gemm_efficiency = reader.number("gemm_efficiency", 1e-6, 1, p.gemm_efficiency);
  p.attention_efficiency = reader.number("attention_efficiency", 1e-6, 1, p.attention_efficiency);
  p.bandwidth_efficiency = reader.number("bandwidth_efficiency", 1e-6, 1, p.bandwidth_efficiency);
  p.launch_overhead.value = reader.number("launch_overhead_s", 0, 1, 0);
  p.link_latency.value = reader.number("link_latency_s", 0, 1e3, 0);
  p.link_bandwidth.value = reader.number("link_bytes_per_s", 1, kHuge, 1e9);
  p.allocation.value = reader.number("allocation_s", 0, 1, 0);
  p.action_overhead.value = reader.number("action_overhead_s", 0, 1, 0);
  p.accelerator = reader.text("accelerator", "");
  if (!p.accelerator.empty()) {
    const HardwareProfile* preset = find_hardware_preset(p.accelerator);
    if (preset == nullptr) {
      reader.fail("accelerator", fmt::format("one of {}", fmt::join(hardware_preset_names(), ", ")));
    }
    p.constants = preset->constants;
  }
  reader.object("device_memory", [&](Reader& r) { p.overhead = read_overhead(r); });
  const auto read_list = [&](const char* key, std::vector<OperatorTimes>& list) {
    reader.entries(key, [&](Reader& r) {
      list.push_back(read_times(r));
      if (list.size() > 1 && list.back().working_set <= list[list.size() - 2].working_set) {
        r.fail("working_set_bytes", "ascending working sets");
      }
    });
  };
  read_list("alone", p.alone);
  read_list("busy", p.busy);
  reader.entries("all_reduce", [&](Reader& r) {
    CollectiveTime time;
    time.ranks = r.integer("ranks", 2, 1 << 20, 2);
    time.world = r.integer("world", 2, 1 << 20, 2);
    time.dtype = read_dtype(r);
    time.started = r.flag("started", false);
    time.seconds = read_curve(r);
    p.all_reduce.push_back(std::move(time));
  });
  reader.entries("messages", [&](Reader& r) {
    MessageTime time;
    time.world = r.integer("world", 2, 1 << 20, 2);
    time.seconds = read_curve(r);
    p.messages.push_back(std::move(time));
  });
  reader.finish();
  return p;
}

}  // namespace plumbline
