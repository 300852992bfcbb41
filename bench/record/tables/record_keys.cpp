// Keys of a record, its prediction and its error.
#include <fmt/format.h>

#include <charconv>

#include "bench/record/tables/object_tables.hpp"

namespace plumbline {
namespace {

using Texts = std::vector<std::pair<std::string, std::string>>;
constexpr ValueRule kSlowdown{Presence::always, 0, 1e6};

OrderedJson plain_text(const std::string& text) {
  return text;
}

/// A configuration value is text to the program; in JSON numbers and switches have their own types.
OrderedJson typed_value(const std::string& text) {
  if (text == "true" || text == "false") return text == "true";
  std::int64_t whole = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), whole);
  if (error == std::errc{} && end == text.data() + text.size() && fmt::format("{}", whole) == text)
    return whole;
  return text;
}

/// An object of texts by any keys.
template <class Owner>
Field<Owner> texts_field(const char* key, Texts Owner::*member, const char* meaning, const OrderedJson& types,
                         OrderedJson (*value_of)(const std::string&)) {
  Field<Owner> made;
  made.text = {key,
               "",
               meaning,
               {{"type", "object"},
                {"properties", OrderedJson::object()},
                {"required", OrderedJson::array()},
                {"additionalProperties", {{"type", types}}}}};
  made.write = [member, value_of](const Owner& owner) {
    OrderedJson object = OrderedJson::object();
    for (const auto& pair : owner.*member) object[pair.first] = value_of(pair.second);
    return object;
  };
  made.read = [key, member](Owner& owner, const OrderedJsonKeys& keys) { owner.*member = keys.texts(key); };
  return made;
}

/// The prediction at current machine speed, without collectives.
Field<ProbedReport> probed_time_field() {
  Field<ProbedReport> made = field_in(
      "time", &ProbedReport::time,
      "prediction with the profile's times × `speed` × `stretch`; `prediction` stays at calibrated speed",
      predicted_time_table());
  made.write = [](const ProbedReport& probed) {
    StepTime time = probed.time;
    time.vocabulary_collectives.reset();
    return write_object(predicted_time_table(), time);
  };
  return made;
}

Field<ByClass> class_field(const SpeedClass& each, const char* meaning) {
  if (each.member != &ByClass::bandwidth) return field(each.name, each.member, meaning, kSlowdown);
  Field<ByClass> made = field(each.name, each.member, meaning, {Presence::newer, 0, kSlowdown.max});
  made.read = [inner = std::move(made.read), each](ByClass& values, const OrderedJsonKeys& keys) {
    values.*each.member = values.memory;  // older records had no class for it
    inner(values, keys);
  };
  return made;
}

/// Probed errors only with a prediction at probed speed.
Field<Record> error_field() {
  Field<Record> made = field("error", &Record::error, "", kOrNull);
  made.write = [](const Record& record) {
    OrderedJson json = ValueOf<std::optional<ErrorReport>>::write(record.error);
    if (!record.probed && record.error) {
      json.erase("probed_step_time");
      json.erase("probed_bubble_fraction");
    }
    return json;
  };
  return made;
}

Field<Record> baseline_field() {
  Field<Record> made;
  made.text = {"baseline", "", "`id` of the cell that it is compared with", {{"type", "string"}}, false};
  made.write = [](const Record& record) -> std::optional<OrderedJson> {
    if (!record.baseline) return std::nullopt;
    return record.baseline->id;
  };
  made.read = [](Record& record, const OrderedJsonKeys& keys) {
    if (keys.find("baseline") != nullptr) record.baseline = BaselineReport{keys.string("baseline")};
  };
  return made;
}

Field<Record> schema_field() {
  constexpr ValueRule kOne{Presence::always, kRecordSchema, kRecordSchema};
  Field<Record> made;
  made.text = {"schema", "", fmt::format("{}", kRecordSchema), number_schema("integer", kOne)};
  made.write = [](const Record& /*record*/) { return OrderedJson(kRecordSchema); };
  made.read = [](Record& /*record*/, const OrderedJsonKeys& keys) {
    const auto found = keys.integer("schema", 0, std::numeric_limits<int>::max());
    if (found != kRecordSchema)
      keys.fail("schema", fmt::format("found {}, this program reads {}", found, kRecordSchema));
  };
  return made;
}

}  // namespace

template <>
const ObjectTable<ByClass>& table_of<ByClass>() {
  static const ObjectTable<ByClass> kTable = [] {
    constexpr const char* kMeanings[] = {"products and attention, operands in caches",
                                         "memory-bound operators, operands in caches",
                                         "extra time of operands from memory", "messages", "host"};
    ObjectTable<ByClass> table{"by_class", "", {}};
    for (std::size_t i = 0; i < std::size(kSpeedClasses); ++i)
      table.fields.push_back(class_field(kSpeedClasses[i], kMeanings[i]));
    return table;
  }();
  return kTable;
}

template <>
const ObjectTable<ProbedReport>& table_of<ProbedReport>() {
  using Report = ProbedReport;
  static const ObjectTable<Report> kTable{
      "probed",
      "Each rank times some of calibration's operators and messages right before and after a cell. On "
      "backend cpu, with measured operators only.",
      {field("before", &Report::before, "probe time ÷ calibrated time, mean over ranks"),
       field("after", &Report::after, "the same after the cell"),
       field("speed", &Report::speed,
             "mean of those probes that were disturbed or undisturbed as the cell was; if neither was, the "
             "lower of both for an undisturbed cell"),
       field("stretch", &Report::stretch,
             "slowdown from other programs, by `waited` or `others` of the median step",
             {Presence::newer, 1, kSlowdown.max}),
       probed_time_field()},
      true};
  return kTable;
}

template <>
const ObjectTable<PredictionReport>& table_of<PredictionReport>() {
  using Report = PredictionReport;
  static const ObjectTable<Report> kTable{
      "prediction",
      "",
      {field("fits", &Report::fits, "every rank fits its memory"),
       field("verdict", &Report::verdict, "fits, tight, does not fit, unknown", kLeftOut),
       field("chance", &Report::chance, "share of comparable published runs beyond the limit",
             {Presence::left_out, 0, 1}),
       field("memory", &Report::memory, ""), field_in("time", &Report::time, "", predicted_time_table()),
       field_in("throughput", &Report::throughput, "", predicted_throughput_table()),
       field("traffic", &Report::traffic, "", kLeftOut),
       field("device_memory", &Report::device_memory, "", kLeftOut),
       field("step_interval_s", &Report::step_interval,
             "the step with every class at its fastest or slowest in calibration", kLeftOut),
       field("comparable_step_s", &Report::comparable_step, "80 % interval by comparable runs", kLeftOut),
       field("expert_load", &Report::expert_load, "",
             {Presence::left_out, 0, OrderedJsonKeys::kInfinite, std::size_t{1} << 16}),
       field("lanes", &Report::lanes, "", kLeftOut), field("attention", &Report::attention, "", kLeftOut),
       field("times_guessed", &Report::times_guessed, "true without calibration and accelerator", kLeftOut),
       field("times_estimated", &Report::times_estimated, "true with an accelerator's constants", kLeftOut)},
      true};
  return kTable;
}

template <>
const ObjectTable<ErrorReport>& table_of<ErrorReport>() {
  using Report = ErrorReport;
  constexpr ValueRule kUnknown{Presence::or_null, -OrderedJsonKeys::kInfinite};
  constexpr ValueRule kProbed{Presence::or_missing, -OrderedJsonKeys::kInfinite};
  static const ObjectTable<Report> kTable{
      "error",
      "",
      {field("peak_memory", &Report::peak_memory, "predicted ÷ measured − 1", kAnySign),
       field("step_time", &Report::step_time, "predicted ÷ measured − 1", kUnknown),
       field("bubble_fraction", &Report::bubble_fraction, "predicted − measured", kUnknown),
       field("probed_step_time", &Report::probed_step_time, "with the prediction at current machine speed",
             kProbed),
       field("probed_bubble_fraction", &Report::probed_bubble_fraction,
             "with the prediction at current machine speed", kProbed)},
      true};
  return kTable;
}

template <>
const ObjectTable<ModelReport>& table_of<ModelReport>() {
  using Report = ModelReport;
  static const ObjectTable<Report> kTable{
      "model",
      "",
      {field("parameters", &Report::parameters, "tied embeddings once, without MTP modules"),
       field("active_parameters", &Report::active_parameters, "those that a token goes through", kNewer),
       field("mtp_parameters", &Report::mtp_parameters, "those of MTP modules", kNewer),
       field("flops_per_token", &Report::flops_per_token,
             "model FLOPs, forward and backward, of MTP modules too")}};
  return kTable;
}

template <>
const ObjectTable<MachineReport>& table_of<MachineReport>() {
  using Report = MachineReport;
  static const ObjectTable<Report> kTable{
      "machine",
      "",
      {field("host", &Report::host, "name"), field("cpu", &Report::cpu, "processor"),
       field("gpu", &Report::gpu, "GPU; empty: none"),
       texts_field("versions", &Report::versions, "program and libraries", "string", plain_text),
       texts_field("environment", &Report::environment,
                   "variables, only those in `bench/measure/machine/recorded_variables.cpp`", "string",
                   plain_text)}};
  return kTable;
}

template <>
const ObjectTable<Record>& table_of<Record>() {
  static const ObjectTable<Record> kTable{
      "record",
      "",
      {schema_field(), field("id", &Record::id, "equal for equal keys and values of a configuration"),
       texts_field("config", &Record::config, "every configuration key; sizes with a unit as text",
                   {"string", "number", "boolean"}, typed_value),
       field("machine", &Record::machine, ""), field("status", &Record::status, "[status](#status)"),
       field("reason", &Record::reason, "one line with rank and event, empty when `ok`"),
       field("model", &Record::model, ""), field("prediction", &Record::prediction, "", kOrNull),
       field("measurement", &Record::measurement, "", kOrNull),
       field("probed", &Record::probed, "", kOrMissing), error_field(),
       field("recovery", &Record::recovery, "", kLeftOut), baseline_field()}};
  return kTable;
}

}  // namespace plumbline
