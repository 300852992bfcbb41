#include "bench/record/recovery_report.hpp"

#include <limits>

namespace plumbline {
namespace {

constexpr std::int64_t kMostRunSteps = std::int64_t{1} << 40;
constexpr std::size_t kMostFailures = 1 << 16;

struct RecoveryTime {
  const char* key;
  Seconds RecoveryReport::*member;
};
constexpr RecoveryTime kRecoveryTimes[] = {
    {"mtbf_s", &RecoveryReport::mtbf},      {"total_s", &RecoveryReport::total},
    {"useful_s", &RecoveryReport::useful},  {"stalls_s", &RecoveryReport::stalls},
    {"lost_s", &RecoveryReport::lost},      {"detect_s", &RecoveryReport::detect},
    {"restart_s", &RecoveryReport::restart}};

struct CostOfOne {
  const char* key;
  Seconds RecoveryCosts::*member;
};
constexpr CostOfOne kCosts[] = {{"step_s", &RecoveryCosts::step},
                                {"stall_s", &RecoveryCosts::stall},
                                {"durable_s", &RecoveryCosts::durable},
                                {"restart_s", &RecoveryCosts::restart},
                                {"detect_kill_s", &RecoveryCosts::detect_kill},
                                {"detect_hang_s", &RecoveryCosts::detect_hang}};

struct GoodputShare {
  const char* key;
  double PredictedGoodput::*member;
};
constexpr GoodputShare kPredicted[] = {{"mean", &PredictedGoodput::mean},
                                       {"low", &PredictedGoodput::low},
                                       {"high", &PredictedGoodput::high},
                                       {"of_seed", &PredictedGoodput::of_seed}};

struct FailureTime {
  const char* key;
  Seconds FailureReport::*member;
};
constexpr FailureTime kFailureTimes[] = {{"at_s", &FailureReport::at},
                                         {"detect_s", &FailureReport::detect},
                                         {"restart_s", &FailureReport::restart},
                                         {"lost_s", &FailureReport::lost}};

OrderedJson to_json(const RecoveryCosts& costs) {
  OrderedJson json = OrderedJson::object();
  for (const CostOfOne& cost : kCosts) json[cost.key] = (costs.*cost.member).value;
  return json;
}

RecoveryCosts costs_of(const OrderedJsonKeys& object) {
  RecoveryCosts costs;
  for (const CostOfOne& cost : kCosts) costs.*cost.member = {object.number(cost.key, 0)};
  return costs;
}

OrderedJson to_json(const PredictedGoodput& predicted) {
  OrderedJson json = OrderedJson::object();
  for (const GoodputShare& share : kPredicted) json[share.key] = predicted.*share.member;
  json["from"] = to_json(predicted.from);
  return json;
}

PredictedGoodput predicted_of(const OrderedJsonKeys& object) {
  PredictedGoodput predicted;
  for (const GoodputShare& share : kPredicted) predicted.*share.member = object.number(share.key, 0, 1);
  predicted.from = costs_of(object.object("from"));
  return predicted;
}

OrderedJson to_json(const FailureReport& failure) {
  OrderedJson json = {{"kind", failure.kind}, {"rank", failure.rank}};
  for (const FailureTime& time : kFailureTimes) json[time.key] = (failure.*time.member).value;
  json["lost_steps"] = failure.lost_steps;
  json["resumed_step"] = failure.resumed_step;
  return json;
}

}  // namespace

OrderedJson to_json(const RecoveryReport& report) {
  OrderedJson json = OrderedJson::object();
  for (const RecoveryTime& time : kRecoveryTimes) json[time.key] = (report.*time.member).value;
  json["seed"] = report.seed;
  json["steps"] = report.steps;
  json["goodput"] = report.goodput;
  json["costs"] = to_json(report.costs);
  json["predicted"] = to_json(report.predicted);
  json["failures"] = OrderedJson::array();
  for (const FailureReport& failure : report.failures) json["failures"].push_back(to_json(failure));
  return json;
}

std::optional<RecoveryReport> recovery_report_of(const OrderedJsonKeys& keys) {
  if (keys.find("recovery") == nullptr) return std::nullopt;
  const OrderedJsonKeys object = keys.object("recovery");
  RecoveryReport report;
  for (const RecoveryTime& time : kRecoveryTimes) report.*time.member = {object.number(time.key, 0)};
  report.seed =
      static_cast<std::uint64_t>(object.integer("seed", 0, std::numeric_limits<std::int64_t>::max()));
  report.steps = object.integer("steps", 1, kMostRunSteps);
  report.goodput = object.number("goodput", 0, 1);
  report.costs = costs_of(object.object("costs"));
  report.predicted = predicted_of(object.object("predicted"));
  for (const OrderedJsonKeys& each : object.objects("failures", kMostFailures)) {
    FailureReport failure;
    failure.kind = each.string("kind");
    failure.rank = static_cast<int>(each.integer("rank", 0, std::numeric_limits<int>::max()));
    for (const FailureTime& time : kFailureTimes) failure.*time.member = {each.number(time.key, 0)};
    failure.lost_steps = each.integer("lost_steps", 0, kMostRunSteps);
    failure.resumed_step = each.integer("resumed_step", 0, kMostRunSteps);
    report.failures.push_back(std::move(failure));
  }
  return report;
}

}  // namespace plumbline
