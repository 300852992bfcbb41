#include "bench/record/probed_report.hpp"

namespace plumbline {
namespace {

constexpr double kLongest = 1e6;  // times as long

ByClass values_of(const OrderedJsonKeys& keys, const char* key) {
  const OrderedJsonKeys object = keys.object(key);
  ByClass values;
  for (const SpeedClass& each : kSpeedClasses) {
    // Records of before had no class for it.
    const bool lacks = each.member == &ByClass::bandwidth && object.find(each.name) == nullptr;
    values.*each.member = object.number(lacks ? "memory" : each.name, 0, kLongest);
  }
  return values;
}

}  // namespace

OrderedJson to_json(const ByClass& values) {
  OrderedJson json = OrderedJson::object();
  for (const SpeedClass& each : kSpeedClasses) json[each.name] = values.*each.member;
  return json;
}

OrderedJson to_json(const ProbedReport& probed) {
  OrderedJson time = OrderedJson::object();
  for (const auto& figure : kTimeFigures) time[std::string(figure.key)] = figure.of(probed.time);
  return {{"before", to_json(probed.before)},
          {"after", to_json(probed.after)},
          {"speed", to_json(probed.speed)},
          {"stretch", probed.stretch},
          {"time", std::move(time)}};
}

std::optional<ProbedReport> probed_of(const OrderedJsonKeys& keys) {
  if (keys.find("probed") == nullptr) return std::nullopt;
  const OrderedJsonKeys object = keys.object("probed");
  ProbedReport probed{
      values_of(object, "before"), values_of(object, "after"), values_of(object, "speed"), 1, {}};
  // Records of before have it in their speeds.
  if (object.find("stretch") != nullptr) probed.stretch = object.number("stretch", 1, kLongest);
  const OrderedJsonKeys time = object.object("time");
  for (const auto& figure : kTimeFigures) {
    const bool lacks = figure.when_lacking && time.find(figure.key.data()) == nullptr;
    figure.set(probed.time, lacks ? *figure.when_lacking : time.number(figure.key.data(), 0));
  }
  return probed;
}

}  // namespace plumbline
