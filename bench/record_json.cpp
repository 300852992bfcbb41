// Records to JSON and back.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>

#include "bench/record.hpp"
#include "core/error.hpp"
#include "core/text_input.hpp"

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
    ranks.push_back(std::move(row));
  }
  return {{"peak_bytes", memory.peak.value}, {"peak_rank", memory.peak_rank}, {"ranks", std::move(ranks)}};
}

OrderedJson to_json(const TimeReport& time) {
  return {{"step_s", number(time.step.value)},
          {"bubble_ratio", number(time.bubble_ratio)},
          {"bubble_fraction", number(time.bubble_fraction)},
          {"compute_s", number(time.compute.value)},
          {"exposed_tensor_s", number(time.exposed_tensor.value)},
          {"exposed_pipeline_s", number(time.exposed_pipeline.value)},
          {"exposed_data_s", number(time.exposed_data.value)},
          {"optimizer_s", number(time.optimizer.value)}};
}

OrderedJson to_json(const ThroughputReport& throughput) {
  return {{"tokens_per_s", number(throughput.tokens_per_s)},
          {"tokens_per_s_per_gpu", number(throughput.tokens_per_s_per_gpu)},
          {"model_tflops_per_gpu", number(throughput.model_tflops_per_gpu)},
          {"mfu", number(throughput.mfu)},
          {"peak_tflops", number(throughput.peak_tflops)}};
}

/// One JSON object of a file that nobody has checked.
class Keys {
 public:
  Keys(const OrderedJson& object, std::string origin) : object_(object), origin_(std::move(origin)) {
    if (!object.is_object()) throw InputError(origin_ + ": expected a JSON object");
  }
  const OrderedJson* find(const char* key) const {
    const auto at = object_.find(key);
    return at == object_.end() || at->is_null() ? nullptr : &*at;
  }
  const OrderedJson& get(const char* key) const {
    const OrderedJson* value = find(key);
    if (value == nullptr) fail(key, "is missing");
    return *value;
  }
  Keys object(const char* key) const { return {get(key), origin_ + ": " + key}; }
  std::int64_t whole(const char* key, std::int64_t max) const {
    const OrderedJson& value = get(key);
    const bool in_range = value.is_number_unsigned()
                              ? value.get<std::uint64_t>() <= static_cast<std::uint64_t>(max)
                              : value.is_number_integer() && value.get<std::int64_t>() >= 0;
    if (!in_range) fail(key, fmt::format("expected a whole number from 0 to {}", max));
    return value.get<std::int64_t>();
  }
  double real(const char* key) const {
    const OrderedJson& value = get(key);
    const double found = value.is_number() ? value.get<double>() : NAN;
    if (!std::isfinite(found)) fail(key, "expected a number");
    return found;
  }
  double at_least_0(const char* key) const {
    const double found = real(key);
    if (found < 0) fail(key, "expected a number that is not negative");
    return found;
  }
  bool boolean(const char* key) const {
    const OrderedJson& value = get(key);
    if (!value.is_boolean()) fail(key, "expected true or false");
    return value.get<bool>();
  }
  std::string text(const char* key) const {
    const OrderedJson& value = get(key);
    if (!value.is_string()) fail(key, "expected a text");
    return value.get<std::string>();
  }
  std::vector<std::pair<std::string, std::string>> texts(const char* key) const {
    std::vector<std::pair<std::string, std::string>> pairs;
    for (const auto& [name, value] : object(key).object_.items()) {
      if (value.is_structured()) fail(key, "expected plain values");
      pairs.emplace_back(name, value.is_string() ? value.get<std::string>() : value.dump());
    }
    return pairs;
  }
  [[noreturn]] void fail(const char* key, const std::string& what) const {
    throw InputError(fmt::format("{}: {}: {}", origin_, key, what));
  }
  const std::string& origin() const { return origin_; }

 private:
  const OrderedJson& object_;
  std::string origin_;
};

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
    memory.ranks.push_back(rank);
  }
  return memory;
}

TimeReport time_of(const Keys& keys) {
  return {{keys.at_least_0("step_s")},           keys.at_least_0("bubble_ratio"),
          keys.at_least_0("bubble_fraction"),    {keys.at_least_0("compute_s")},
          {keys.at_least_0("exposed_tensor_s")}, {keys.at_least_0("exposed_pipeline_s")},
          {keys.at_least_0("exposed_data_s")},   {keys.at_least_0("optimizer_s")}};
}

ThroughputReport throughput_of(const Keys& keys) {
  return {keys.at_least_0("tokens_per_s"), keys.at_least_0("tokens_per_s_per_gpu"),
          keys.at_least_0("model_tflops_per_gpu"), keys.at_least_0("mfu"), keys.at_least_0("peak_tflops")};
}

MeasurementReport measurement_of(const Keys& keys) {
  MeasurementReport measurement;
  measurement.memory = memory_of(keys.object("memory"));
  measurement.time = time_of(keys.object("time"));
  measurement.throughput = throughput_of(keys.object("throughput"));
  measurement.samples = static_cast<int>(keys.whole("samples", std::numeric_limits<int>::max()));
  measurement.step_min = {keys.at_least_0("step_s_min")};
  measurement.step_max = {keys.at_least_0("step_s_max")};
  measurement.loss = keys.find("loss") != nullptr ? keys.real("loss") : NAN;
  measurement.device_reserved = {keys.whole("device_reserved_bytes", kMaxBytes)};
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
  return {{"fits", prediction.fits},
          {"memory", to_json(prediction.memory)},
          {"time", to_json(prediction.time)},
          {"throughput", to_json(prediction.throughput)}};
}

OrderedJson to_json(const MeasurementReport& measurement) {
  return {{"memory", to_json(measurement.memory)},
          {"time", to_json(measurement.time)},
          {"throughput", to_json(measurement.throughput)},
          {"samples", measurement.samples},
          {"step_s_min", number(measurement.step_min.value)},
          {"step_s_max", number(measurement.step_max.value)},
          {"loss", number(measurement.loss)},
          {"device_reserved_bytes", measurement.device_reserved.value}};
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
    record.prediction =
        PredictionReport{prediction.boolean("fits"), memory_of(prediction.object("memory")),
                         time_of(prediction.object("time")), throughput_of(prediction.object("throughput"))};
  }
  if (keys.find("measurement") != nullptr) record.measurement = measurement_of(keys.object("measurement"));
  if (keys.find("error") != nullptr) {
    const Keys error = keys.object("error");
    record.error = {error.real("peak_memory"), error.real("step_time"), error.real("bubble_fraction")};
  }
  return record;
}

MeasurementReport parse_measurement(std::string_view text, const std::string& origin) {
  const OrderedJson json = parse_object(text, origin);
  return measurement_of(Keys(json, origin).object("measurement"));
}

}  // namespace plumbline
