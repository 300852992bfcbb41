// Records to JSON and back.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>

#include "bench/record/record.hpp"
#include "bench/record/record_collectives.hpp"
#include "bench/record/record_device.hpp"
#include "bench/record/record_keys.hpp"
#include "core/base/error.hpp"
#include "core/base/text_input.hpp"

namespace plumbline {
namespace {

constexpr int kMaxDepth = 16;
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 60;
constexpr std::int64_t kMaxRank = 1 << 24;

std::string key_of(Category category) {
  return std::string(name_of(category)) + "_bytes";
}

OrderedJson number(double value) {
  return std::isfinite(value) ? OrderedJson(value) : OrderedJson(nullptr);
}

/// A configuration value is text to the program; in JSON numbers and switches look like what they are.
OrderedJson value_of(const std::string& text) {
  if (text == "true" || text == "false") return text == "true";
  std::int64_t whole = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), whole);
  if (error == std::errc{} && end == text.data() + text.size() && fmt::format("{}", whole) == text)
    return whole;
  return text;
}

OrderedJson object_of(const std::vector<std::pair<std::string, std::string>>& pairs) {
  OrderedJson object = OrderedJson::object();
  for (const auto& [key, value] : pairs) object[key] = value;
  return object;
}

OrderedJson to_json(const MemoryReport& memory) {
  OrderedJson ranks = OrderedJson::array();
  for (const RankMemoryReport& rank : memory.ranks) {
    OrderedJson row = {{"rank", rank.rank}, {"pipeline_rank", rank.pipeline_rank}};
    for (int i = 0; i < kCategories; ++i) {
      const auto category = static_cast<Category>(i);
      row[key_of(category)] = rank.bytes[category].value;
    }
    row["total_bytes"] = rank.bytes.total().value;
    if (!rank.at.empty()) row["at"] = rank.at;
    for (const HolderReport& holder : rank.holders) {
      row["holders"].push_back({{"name", holder.holder},
                                {"category", name_of(holder.category)},
                                {"bytes", holder.bytes.value},
                                {"tensors", holder.tensors}});
    }
    ranks.push_back(std::move(row));
  }
  return {{"peak_bytes", memory.peak.value}, {"peak_rank", memory.peak_rank}, {"ranks", std::move(ranks)}};
}

template <class Owner, std::size_t N>
OrderedJson to_json(const Owner& owner, const Figure<Owner> (&figures)[N]) {
  OrderedJson json = OrderedJson::object();
  for (const auto& figure : figures) json[std::string(figure.key)] = number(figure.of(owner));
  return json;
}

OrderedJson to_json(const StepTime& time) {
  OrderedJson json = to_json(time, kTimeFigures);
  if (time.vocabulary_collectives) json["vocabulary_collectives"] = to_json(*time.vocabulary_collectives);
  return json;
}

OrderedJson to_json(const Throughput& throughput) {
  return to_json(throughput, kThroughputFigures);
}

struct TrafficKey {
  const char* key;
  Bytes GroupTraffic::*member;
};
constexpr TrafficKey kTrafficKeys[] = {{"all_reduce_bytes", &GroupTraffic::all_reduced},
                                       {"all_gather_bytes", &GroupTraffic::all_gathered},
                                       {"reduce_scatter_bytes", &GroupTraffic::reduce_scattered},
                                       {"broadcast_bytes", &GroupTraffic::broadcast}};

/// Groups that moved nothing are left out.
OrderedJson to_json(const Traffic& traffic) {
  OrderedJson groups = OrderedJson::object();
  for (int i = 0; i < kGroups; ++i) {
    const GroupTraffic& group = traffic.of(static_cast<Group>(i));
    if (group.calls == 0) continue;
    OrderedJson row = {{"calls", group.calls}};
    for (const TrafficKey& key : kTrafficKeys) row[key.key] = (group.*key.member).value;
    groups[std::string(name_of(static_cast<Group>(i)))] = std::move(row);
  }
  return {{"messages", traffic.messages_sent},
          {"message_bytes", traffic.point_to_point_sent.value},
          {"groups", std::move(groups)}};
}

std::optional<Traffic> traffic_of(const Keys& keys) {
  if (keys.find("traffic") == nullptr) return std::nullopt;
  const Keys row = keys.object("traffic");
  Traffic traffic;
  traffic.messages_sent = row.whole("messages", kMaxBytes);
  traffic.point_to_point_sent = {row.whole("message_bytes", kMaxBytes)};
  const Keys groups = row.object("groups");
  for (int i = 0; i < kGroups; ++i) {
    const std::string name(name_of(static_cast<Group>(i)));
    if (groups.find(name.c_str()) == nullptr) continue;
    const Keys cells = groups.object(name.c_str());
    GroupTraffic& group = traffic.of(static_cast<Group>(i));
    group.calls = cells.whole("calls", kMaxBytes);
    for (const TrafficKey& key : kTrafficKeys) group.*key.member = {cells.whole(key.key, kMaxBytes)};
  }
  return traffic;
}

Category category_of(const Keys& keys, const char* key) {
  const std::string name = keys.text(key);
  for (int i = 0; i < kCategories; ++i) {
    if (name == name_of(static_cast<Category>(i))) return static_cast<Category>(i);
  }
  keys.fail(key, fmt::format("found \"{}\", expected a category of memory", printable(name)));
}

std::vector<HolderReport> holders_of(const Keys& keys) {
  std::vector<HolderReport> holders;
  const OrderedJson* rows = keys.find("holders");
  if (rows == nullptr) return holders;
  if (!rows->is_array()) keys.fail("holders", "expected a list");
  for (const OrderedJson& row : *rows) {
    const Keys cells(row, keys.origin() + ": holders");
    holders.push_back({cells.text("name"),
                       category_of(cells, "category"),
                       {cells.whole("bytes", kMaxBytes)},
                       cells.whole("tensors", kMaxBytes)});
  }
  return holders;
}

MemoryReport memory_of(const Keys& keys) {
  MemoryReport memory;
  memory.peak = {keys.whole("peak_bytes", kMaxBytes)};
  memory.peak_rank = static_cast<int>(keys.whole("peak_rank", kMaxRank));
  const OrderedJson& rows = keys.get("ranks");
  if (!rows.is_array()) keys.fail("ranks", "expected a list");
  for (const OrderedJson& row : rows) {
    const Keys cells(row, keys.origin() + ": ranks");
    RankMemoryReport rank;
    rank.rank = static_cast<int>(cells.whole("rank", kMaxRank));
    rank.pipeline_rank = static_cast<int>(cells.whole("pipeline_rank", kMaxRank));
    for (int i = 0; i < kCategories; ++i) {
      const auto category = static_cast<Category>(i);
      rank.bytes[category] = {cells.whole(key_of(category).c_str(), kMaxBytes / kCategories)};
    }
    if (cells.find("at") != nullptr) rank.at = cells.text("at");
    rank.holders = holders_of(cells);
    memory.ranks.push_back(std::move(rank));
  }
  return memory;
}

/// A measurement may lack times, a prediction never does.
enum class Unknown { refused, allowed };

template <class Owner, std::size_t N>
Owner figures_of(const Keys& keys, const Figure<Owner> (&figures)[N], Unknown unknown) {
  Owner owner;
  for (const auto& figure : figures) {
    const char* const key = figure.key.data();
    if (figure.when_lacking && keys.find(key) == nullptr) {
      figure.set(owner, *figure.when_lacking);
    } else if (unknown == Unknown::allowed && figure.timed) {
      figure.set(owner, keys.at_least_0_or_unknown(key));
    } else {
      figure.set(owner, keys.at_least_0(key));
    }
  }
  return owner;
}

StepTime time_of(const Keys& keys, Unknown unknown) {
  StepTime time = figures_of(keys, kTimeFigures, unknown);
  time.vocabulary_collectives = vocabulary_collectives_of(keys);
  return time;
}

Throughput throughput_of(const Keys& keys, Unknown unknown) {
  return figures_of(keys, kThroughputFigures, unknown);
}

MeasurementReport measurement_of(const Keys& keys) {
  MeasurementReport measurement;
  measurement.memory = memory_of(keys.object("memory"));
  measurement.time = time_of(keys.object("time"), Unknown::allowed);
  measurement.throughput = throughput_of(keys.object("throughput"), Unknown::allowed);
  measurement.samples = static_cast<int>(keys.whole("samples", std::numeric_limits<int>::max()));
  measurement.step_min = {keys.at_least_0_or_unknown("step_s_min")};
  measurement.step_max = {keys.at_least_0_or_unknown("step_s_max")};
  measurement.loss = keys.find("loss") != nullptr ? keys.real("loss") : NAN;
  measurement.device_reserved = {keys.whole("device_reserved_bytes", kMaxBytes)};
  measurement.traffic = traffic_of(keys);
  measurement.device_memory = device_memory_of(keys);
  return measurement;
}

Status status_of(const Keys& keys) {
  const std::string name = keys.text("status");
  for (int i = 0; i <= static_cast<int>(Status::unsupported); ++i) {
    if (name == name_of(static_cast<Status>(i))) return static_cast<Status>(i);
  }
  keys.fail("status", fmt::format("found \"{}\", expected ok, oom, invalid, failed, timeout or unsupported",
                                  printable(name)));
}

OrderedJson parse_object(std::string_view text, const std::string& origin) {
  const auto shallow = [&](int depth, OrderedJson::parse_event_t /*event*/, OrderedJson& /*value*/) {
    if (depth > kMaxDepth)
      throw InputError(fmt::format("{}: nested deeper than {} levels", origin, kMaxDepth));
    return true;
  };
  try {
    return OrderedJson::parse(text, shallow);
  } catch (const OrderedJson::exception& error) {
    throw InputError(fmt::format("{}: not valid JSON: {}", origin, printable(error.what(), 200)));
  }
}

}  // namespace

OrderedJson to_json(const PredictionReport& prediction) {
  OrderedJson json = {{"fits", prediction.fits},
                      {"memory", to_json(prediction.memory)},
                      {"time", to_json(prediction.time)},
                      {"throughput", to_json(prediction.throughput)}};
  if (prediction.traffic) json["traffic"] = to_json(*prediction.traffic);
  if (prediction.device_memory) json["device_memory"] = to_json(*prediction.device_memory);
  return json;
}

OrderedJson to_json(const MeasurementReport& measurement) {
  OrderedJson json = {{"memory", to_json(measurement.memory)},
                      {"time", to_json(measurement.time)},
                      {"throughput", to_json(measurement.throughput)},
                      {"samples", measurement.samples},
                      {"step_s_min", number(measurement.step_min.value)},
                      {"step_s_max", number(measurement.step_max.value)},
                      {"loss", number(measurement.loss)},
                      {"device_reserved_bytes", measurement.device_reserved.value}};
  if (measurement.traffic) json["traffic"] = to_json(*measurement.traffic);
  if (measurement.device_memory) json["device_memory"] = to_json(*measurement.device_memory);
  return json;
}

OrderedJson to_json(const MachineReport& machine) {
  return {{"host", machine.host},
          {"cpu", machine.cpu},
          {"gpu", machine.gpu},
          {"versions", object_of(machine.versions)},
          {"environment", object_of(machine.environment)}};
}

OrderedJson to_json(const Record& record) {
  OrderedJson config = OrderedJson::object();
  for (const auto& [key, value] : record.config) config[key] = value_of(value);
  OrderedJson json = {
      {"schema", kRecordSchema},
      {"id", record.id},
      {"config", std::move(config)},
      {"machine", to_json(record.machine)},
      {"status", name_of(record.status)},
      {"reason", record.reason},
      {"model",
       {{"parameters", record.model.parameters}, {"flops_per_token", number(record.model.flops_per_token)}}},
      {"prediction", nullptr},
      {"measurement", nullptr},
      {"error", nullptr}};
  if (record.prediction) json["prediction"] = to_json(*record.prediction);
  if (record.measurement) json["measurement"] = to_json(*record.measurement);
  if (record.error) {
    json["error"] = {{"peak_memory", number(record.error->peak_memory)},
                     {"step_time", number(record.error->step_time)},
                     {"bubble_fraction", number(record.error->bubble_fraction)}};
  }
  return json;
}

std::string to_line(const Record& record) {
  return to_json(record).dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

Record parse_record(std::string_view line, const std::string& origin) {
  const OrderedJson json = parse_object(line, origin);
  const Keys keys(json, origin);
  if (const auto schema = keys.whole("schema", std::numeric_limits<int>::max()); schema != kRecordSchema) {
    keys.fail("schema", fmt::format("found {}, this program reads {}", schema, kRecordSchema));
  }
  Record record;
  record.id = keys.text("id");
  record.config = keys.texts("config");
  const Keys machine = keys.object("machine");
  record.machine = {machine.text("host"), machine.text("cpu"), machine.text("gpu"), machine.texts("versions"),
                    machine.texts("environment")};
  record.status = status_of(keys);
  record.reason = keys.text("reason");
  const Keys model = keys.object("model");
  record.model = {model.whole("parameters", kMaxBytes), model.at_least_0("flops_per_token")};
  if (keys.find("prediction") != nullptr) {
    const Keys prediction = keys.object("prediction");
    record.prediction = PredictionReport{prediction.boolean("fits"),
                                         memory_of(prediction.object("memory")),
                                         time_of(prediction.object("time"), Unknown::refused),
                                         throughput_of(prediction.object("throughput"), Unknown::refused),
                                         traffic_of(prediction),
                                         device_memory_of(prediction)};
  }
  if (keys.find("measurement") != nullptr) record.measurement = measurement_of(keys.object("measurement"));
  if (keys.find("error") != nullptr) {
    const Keys error = keys.object("error");
    const auto read = [&](const char* key) { return error.find(key) == nullptr ? NAN : error.real(key); };
    record.error = {error.real("peak_memory"), read("step_time"), read("bubble_fraction")};
  }
  return record;
}

MeasurementReport parse_measurement(std::string_view text, const std::string& origin) {
  const OrderedJson json = parse_object(text, origin);
  return measurement_of(Keys(json, origin).object("measurement"));
}

}  // namespace plumbline
