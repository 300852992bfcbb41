// Records to JSON and back.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>

#include "bench/record/record.hpp"
#include "bench/record/record_collectives.hpp"
#include "bench/record/record_device.hpp"
#include "core/base/error.hpp"
#include "core/base/json_keys.hpp"
#include "core/base/output_json.hpp"

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

/// A configuration value is text to the program; in JSON numbers and switches have their own types.
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
    if (rank.ranks_alike > 1) row["ranks_alike"] = rank.ranks_alike;
    for (int i = 0; i < kCategories; ++i) {
      const auto category = static_cast<Category>(i);
      row[key_of(category)] = rank.bytes[category].value;
    }
    row["total_bytes"] = rank.bytes.total().value;
    if (rank.host.value > 0) row["host_bytes"] = rank.host.value;
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
constexpr const char* kExchanged = "all_to_all_bytes";  // if there are any

/// Groups that moved nothing are left out.
OrderedJson to_json(const Traffic& traffic) {
  OrderedJson groups = OrderedJson::object();
  for (int i = 0; i < kGroups; ++i) {
    const GroupTraffic& group = traffic.of(static_cast<Group>(i));
    if (group.calls == 0) continue;
    OrderedJson row = {{"calls", group.calls}};
    for (const TrafficKey& key : kTrafficKeys) row[key.key] = (group.*key.member).value;
    if (group.exchanged.value > 0) row[kExchanged] = group.exchanged.value;
    groups[std::string(name_of(static_cast<Group>(i)))] = std::move(row);
  }
  return {{"messages", traffic.messages_sent},
          {"message_bytes", traffic.point_to_point_sent.value},
          {"groups", std::move(groups)}};
}

std::optional<Traffic> traffic_of(const OrderedJsonKeys& keys) {
  if (keys.find("traffic") == nullptr) return std::nullopt;
  const OrderedJsonKeys row = keys.object("traffic");
  Traffic traffic;
  traffic.messages_sent = row.integer("messages", 0, kMaxBytes);
  traffic.point_to_point_sent = {row.integer("message_bytes", 0, kMaxBytes)};
  const OrderedJsonKeys groups = row.object("groups");
  for (int i = 0; i < kGroups; ++i) {
    const std::string name(name_of(static_cast<Group>(i)));
    if (groups.find(name) == nullptr) continue;
    const OrderedJsonKeys cells = groups.object(name);
    GroupTraffic& group = traffic.of(static_cast<Group>(i));
    group.calls = cells.integer("calls", 0, kMaxBytes);
    for (const TrafficKey& key : kTrafficKeys) group.*key.member = {cells.integer(key.key, 0, kMaxBytes)};
    if (cells.find(kExchanged) != nullptr) group.exchanged = {cells.integer(kExchanged, 0, kMaxBytes)};
  }
  return traffic;
}

Category category_of(const OrderedJsonKeys& keys, const char* key) {
  const std::string name = keys.string(key);
  for (int i = 0; i < kCategories; ++i) {
    if (name == name_of(static_cast<Category>(i))) return static_cast<Category>(i);
  }
  keys.refuse(key, "a category of memory");
}

std::vector<HolderReport> holders_of(const OrderedJsonKeys& keys) {
  std::vector<HolderReport> holders;
  if (keys.find("holders") == nullptr) return holders;
  for (const OrderedJsonKeys& cells : keys.objects("holders")) {
    holders.push_back({cells.string("name"),
                       category_of(cells, "category"),
                       {cells.integer("bytes", 0, kMaxBytes)},
                       cells.integer("tensors", 0, kMaxBytes)});
  }
  return holders;
}

MemoryReport memory_of(const OrderedJsonKeys& keys) {
  MemoryReport memory;
  memory.peak = {keys.integer("peak_bytes", 0, kMaxBytes)};
  memory.peak_rank = static_cast<int>(keys.integer("peak_rank", 0, kMaxRank));
  for (const OrderedJsonKeys& cells : keys.objects("ranks")) {
    RankMemoryReport rank;
    rank.rank = static_cast<int>(cells.integer("rank", 0, kMaxRank));
    rank.pipeline_rank = static_cast<int>(cells.integer("pipeline_rank", 0, kMaxRank));
    rank.ranks_alike = static_cast<int>(cells.integer_or("ranks_alike", kMaxRank, 1));
    for (int i = 0; i < kCategories; ++i) {
      const auto category = static_cast<Category>(i);
      rank.bytes[category] = {cells.integer(key_of(category), 0, kMaxBytes / kCategories)};
    }
    rank.host = {cells.integer_or("host_bytes", kMaxBytes, 0)};
    if (cells.find("at") != nullptr) rank.at = cells.string("at");
    rank.holders = holders_of(cells);
    memory.ranks.push_back(std::move(rank));
  }
  return memory;
}

/// A measurement may lack times, a prediction never does.
enum class Unknown { refused, allowed };

template <class Owner, std::size_t N>
Owner figures_of(const OrderedJsonKeys& keys, const Figure<Owner> (&figures)[N], Unknown unknown) {
  Owner owner;
  for (const auto& figure : figures) {
    const char* const key = figure.key.data();
    if (figure.when_lacking && keys.find(key) == nullptr) {
      figure.set(owner, *figure.when_lacking);
    } else if (unknown == Unknown::allowed && figure.timed) {
      figure.set(owner, keys.number_or_null(key, 0));
    } else {
      figure.set(owner, keys.number(key, 0));
    }
  }
  return owner;
}

StepTime time_of(const OrderedJsonKeys& keys, Unknown unknown) {
  StepTime time = figures_of(keys, kTimeFigures, unknown);
  time.vocabulary_collectives = vocabulary_collectives_of(keys);
  return time;
}

Throughput throughput_of(const OrderedJsonKeys& keys, Unknown unknown) {
  return figures_of(keys, kThroughputFigures, unknown);
}

MeasurementReport measurement_of(const OrderedJsonKeys& keys) {
  MeasurementReport measurement;
  measurement.memory = memory_of(keys.object("memory"));
  measurement.time = time_of(keys.object("time"), Unknown::allowed);
  measurement.throughput = throughput_of(keys.object("throughput"), Unknown::allowed);
  measurement.samples = static_cast<int>(keys.integer("samples", 0, std::numeric_limits<int>::max()));
  measurement.step_min = {keys.number_or_null("step_s_min", 0)};
  measurement.step_max = {keys.number_or_null("step_s_max", 0)};
  measurement.loss = keys.find("loss") != nullptr ? keys.number("loss") : NAN;
  if (keys.find("losses") != nullptr)
    measurement.losses = keys.numbers("losses", -OrderedJsonKeys::kInfinite, OrderedJsonKeys::kInfinite);
  if (keys.find("mtp_losses") != nullptr) {
    measurement.module_losses =
        keys.numbers("mtp_losses", -OrderedJsonKeys::kInfinite, OrderedJsonKeys::kInfinite);
  }
  measurement.device_reserved = {keys.integer("device_reserved_bytes", 0, kMaxBytes)};
  measurement.traffic = traffic_of(keys);
  measurement.device_memory = device_memory_of(keys);
  measurement.gpu = gpu_report_of(keys);
  measurement.checkpoints = checkpoint_report_of(keys);
  measurement.steps = steps_of(keys);
  measurement.disturbance = disturbance_of(keys);
  measurement.computing = computing_of(keys);
  measurement.expert_load = expert_load_of(keys);
  measurement.lanes = lane_sums_of(keys);
  measurement.rounds = static_cast<int>(keys.integer_or("rounds", 1, kMaxRank, 1));
  return measurement;
}

Status status_of(const OrderedJsonKeys& keys) {
  const std::string name = keys.string("status");
  for (int i = 0; i <= static_cast<int>(Status::unsupported); ++i) {
    if (name == name_of(static_cast<Status>(i))) return static_cast<Status>(i);
  }
  keys.refuse("status", "ok, oom, invalid, failed, timeout or unsupported");
}

}  // namespace

OrderedJson to_json(const PredictionReport& prediction) {
  OrderedJson json = {{"fits", prediction.fits},
                      {"memory", to_json(prediction.memory)},
                      {"time", to_json(prediction.time)},
                      {"throughput", to_json(prediction.throughput)}};
  if (prediction.traffic) json["traffic"] = to_json(*prediction.traffic);
  if (prediction.device_memory) json["device_memory"] = to_json(*prediction.device_memory);
  if (prediction.step_interval) json["step_interval_s"] = to_json(*prediction.step_interval);
  if (!prediction.expert_load.empty()) json["expert_load"] = to_json(prediction.expert_load);
  if (prediction.lanes) json["lanes"] = to_json(*prediction.lanes);
  if (prediction.times_guessed) json["times_guessed"] = true;
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
  for (const double loss : measurement.losses) json["losses"].push_back(number(loss));
  for (const double loss : measurement.module_losses) json["mtp_losses"].push_back(number(loss));
  if (measurement.traffic) json["traffic"] = to_json(*measurement.traffic);
  if (measurement.device_memory) json["device_memory"] = to_json(*measurement.device_memory);
  if (measurement.gpu) json["gpu"] = to_json(*measurement.gpu);
  if (measurement.checkpoints) json["checkpoints"] = to_json(*measurement.checkpoints);
  if (!measurement.expert_load.empty()) json["expert_load"] = to_json(measurement.expert_load);
  if (measurement.lanes) json["lanes"] = to_json(*measurement.lanes);
  if (measurement.steps.empty()) return json;
  json["steps"] = to_json(measurement.steps);
  json["step_interval_s"] = to_json(interval_of(measurement.steps));
  json["disturbance"] = to_json(measurement.disturbance);
  if (!measurement.computing.empty()) json["computing"] = to_json(measurement.computing);
  json["rounds"] = measurement.rounds;
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
  OrderedJson json = {{"schema", kRecordSchema},
                      {"id", record.id},
                      {"config", std::move(config)},
                      {"machine", to_json(record.machine)},
                      {"status", name_of(record.status)},
                      {"reason", record.reason},
                      {"model",
                       {{"parameters", record.model.parameters},
                        {"active_parameters", record.model.active_parameters},
                        {"mtp_parameters", record.model.mtp_parameters},
                        {"flops_per_token", number(record.model.flops_per_token)}}},
                      {"prediction", nullptr},
                      {"measurement", nullptr},
                      {"probed", nullptr},
                      {"error", nullptr}};
  if (record.prediction) json["prediction"] = to_json(*record.prediction);
  if (record.measurement) json["measurement"] = to_json(*record.measurement);
  if (record.probed) json["probed"] = to_json(*record.probed);
  if (record.error) {
    json["error"] = {{"peak_memory", number(record.error->peak_memory)},
                     {"step_time", number(record.error->step_time)},
                     {"bubble_fraction", number(record.error->bubble_fraction)}};
    if (record.probed) {
      json["error"]["probed_step_time"] = number(record.error->probed_step_time);
      json["error"]["probed_bubble_fraction"] = number(record.error->probed_bubble_fraction);
    }
  }
  if (record.recovery) json["recovery"] = to_json(*record.recovery);
  if (record.baseline) json["baseline"] = record.baseline->id;
  return json;
}

std::string to_line(const Record& record) {
  return output_json(to_json(record), -1);
}

Record parse_record(std::string_view line, const std::string& origin) {
  const auto json = parse_json_object<OrderedJson>(line, origin, kMaxDepth);
  const OrderedJsonKeys keys(json, origin);
  if (const auto schema = keys.integer("schema", 0, std::numeric_limits<int>::max());
      schema != kRecordSchema) {
    keys.fail("schema", fmt::format("found {}, this program reads {}", schema, kRecordSchema));
  }
  Record record;
  record.id = keys.string("id");
  record.config = keys.texts("config");
  const OrderedJsonKeys machine = keys.object("machine");
  record.machine = {machine.string("host"), machine.string("cpu"), machine.string("gpu"),
                    machine.texts("versions"), machine.texts("environment")};
  record.status = status_of(keys);
  record.reason = keys.string("reason");
  const OrderedJsonKeys model = keys.object("model");
  record.model = {model.integer("parameters", 0, kMaxBytes),
                  model.integer_or("active_parameters", 0, kMaxBytes, 0),
                  model.integer_or("mtp_parameters", 0, kMaxBytes, 0), model.number("flops_per_token", 0)};
  if (keys.find("prediction") != nullptr) {
    const OrderedJsonKeys prediction = keys.object("prediction");
    record.prediction =
        PredictionReport{prediction.boolean("fits"),
                         memory_of(prediction.object("memory")),
                         time_of(prediction.object("time"), Unknown::refused),
                         throughput_of(prediction.object("throughput"), Unknown::refused),
                         traffic_of(prediction),
                         device_memory_of(prediction),
                         step_interval_of(prediction),
                         expert_load_of(prediction),
                         lane_sums_of(prediction),
                         prediction.find("times_guessed") != nullptr && prediction.boolean("times_guessed")};
  }
  if (keys.find("measurement") != nullptr) record.measurement = measurement_of(keys.object("measurement"));
  record.probed = probed_of(keys);
  if (keys.find("error") != nullptr) {
    const OrderedJsonKeys error = keys.object("error");
    const auto read = [&](const char* key) { return error.find(key) == nullptr ? NAN : error.number(key); };
    record.error = {error.number("peak_memory"), read("step_time"), read("bubble_fraction"),
                    read("probed_step_time"), read("probed_bubble_fraction")};
  }
  record.recovery = recovery_report_of(keys);
  if (keys.find("baseline") != nullptr) record.baseline = BaselineReport{keys.string("baseline")};
  return record;
}

RankMeasurement parse_measurement(std::string_view text, const std::string& origin) {
  const auto json = parse_json_object<OrderedJson>(text, origin, kMaxDepth);
  const OrderedJsonKeys keys(json, origin);
  return {measurement_of(keys.object("measurement")), probed_of(keys)};
}

}  // namespace plumbline
