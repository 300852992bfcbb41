#include "bench/record/recovery_report.hpp"

#include <algorithm>
#include <limits>

namespace plumbline {
namespace {

constexpr std::int64_t kMostRunSteps = std::int64_t{1} << 40;
constexpr std::size_t kMostFailures = 1 << 16;
constexpr std::size_t kMostSizes = 1 << 16;

struct RecoveryTime {
  const char* key;
  Seconds RecoveryReport::*member;
};
constexpr RecoveryTime kRecoveryTimes[] = {
    {"mtbf_s", &RecoveryReport::mtbf},      {"replacement_s", &RecoveryReport::replacement},
    {"total_s", &RecoveryReport::total},    {"useful_s", &RecoveryReport::useful},
    {"stalls_s", &RecoveryReport::stalls},  {"lost_s", &RecoveryReport::lost},
    {"detect_s", &RecoveryReport::detect},  {"restart_s", &RecoveryReport::restart},
    {"waiting_s", &RecoveryReport::waiting}};

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
                                         {"waiting_s", &FailureReport::waiting},
                                         {"lost_s", &FailureReport::lost}};

struct SaveTime {
  const char* key;
  Seconds SaveReport::*member;
};
constexpr SaveTime kSaveTimes[] = {
    {"at_s", &SaveReport::at}, {"stall_s", &SaveReport::stall}, {"durable_s", &SaveReport::durable}};

OrderedJson to_json(const RecoveryCosts& costs) {
  OrderedJson json = OrderedJson::object();
  for (const CostOfOne& cost : kCosts) json[cost.key] = (costs.*cost.member).value;
  json["reduced"] = OrderedJson::array();
  for (const ReducedSteps& each : costs.reduced)
    json["reduced"].push_back(
        {{"replicas", each.replicas}, {"steps", each.steps}, {"step_s", each.step.value}});
  return json;
}

RecoveryCosts costs_of(const OrderedJsonKeys& object) {
  RecoveryCosts costs;
  for (const CostOfOne& cost : kCosts) costs.*cost.member = {object.number(cost.key, 0)};
  for (const OrderedJsonKeys& each : object.objects("reduced", kMostSizes)) {
    costs.reduced.push_back({static_cast<int>(each.integer("replicas", 1, std::numeric_limits<int>::max())),
                             each.integer("steps", 0, kMostRunSteps),
                             {each.number("step_s", 0)}});
  }
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
  for (const GoodputShare& share : kPredicted) predicted.*share.member = object.number(share.key, 0);
  predicted.from = costs_of(object.object("from"));
  return predicted;
}

OrderedJson to_json(const FailureReport& failure) {
  OrderedJson json = {{"kind", failure.kind}, {"rank", failure.rank}};
  for (const FailureTime& time : kFailureTimes) json[time.key] = (failure.*time.member).value;
  json["lost_steps"] = failure.lost_steps;
  json["resumed_step"] = failure.resumed_step;
  json["replicas"] = failure.replicas;
  return json;
}

}  // namespace

std::int64_t count_failures(const RecoveryReport& report) {
  return std::count_if(report.failures.begin(), report.failures.end(),
                       [](const FailureReport& failure) { return failure.kind != "return"; });
}

OrderedJson to_json(const RecoveryReport& report) {
  OrderedJson json = OrderedJson::object();
  for (const RecoveryTime& time : kRecoveryTimes) json[time.key] = (report.*time.member).value;
  json["missing_s"] = report.missing.value;
  json["seed"] = report.seed;
  json["begun_step"] = report.begun_step;
  json["steps"] = report.steps;
  json["goodput"] = report.goodput;
  json["costs"] = to_json(report.costs);
  json["predicted"] = to_json(report.predicted);
  json["failures"] = OrderedJson::array();
  for (const FailureReport& failure : report.failures) json["failures"].push_back(to_json(failure));
  json["saves"] = OrderedJson::array();
  for (const SaveReport& save : report.saves) {
    OrderedJson row = {{"step", save.step}};
    for (const SaveTime& time : kSaveTimes) row[time.key] = (save.*time.member).value;
    json["saves"].push_back(std::move(row));
  }
  return json;
}

std::optional<RecoveryReport> recovery_report_of(const OrderedJsonKeys& keys) {
  if (keys.find("recovery") == nullptr) return std::nullopt;
  const OrderedJsonKeys object = keys.object("recovery");
  RecoveryReport report;
  for (const RecoveryTime& time : kRecoveryTimes) report.*time.member = {object.number(time.key, 0)};
  report.missing = {object.number("missing_s")};
  report.seed =
      static_cast<std::uint64_t>(object.integer("seed", 0, std::numeric_limits<std::int64_t>::max()));
  report.begun_step = object.integer("begun_step", 0, kMostRunSteps);
  report.steps = object.integer("steps", 1, kMostRunSteps);
  report.goodput = object.number("goodput", 0);
  report.costs = costs_of(object.object("costs"));
  report.predicted = predicted_of(object.object("predicted"));
  for (const OrderedJsonKeys& each : object.objects("failures", kMostFailures)) {
    FailureReport failure;
    failure.kind = each.string("kind");
    failure.rank = static_cast<int>(each.integer("rank", 0, std::numeric_limits<int>::max()));
    for (const FailureTime& time : kFailureTimes) failure.*time.member = {each.number(time.key, 0)};
    failure.lost_steps = each.integer("lost_steps", 0, kMostRunSteps);
    failure.resumed_step = each.integer("resumed_step", 0, kMostRunSteps);
    failure.replicas = static_cast<int>(each.integer("replicas", 1, std::numeric_limits<int>::max()));
    report.failures.push_back(std::move(failure));
  }
  for (const OrderedJsonKeys& each : object.objects("saves", kMostFailures)) {
    SaveReport save{each.integer("step", 1, kMostRunSteps), {}, {}, {}};
    for (const SaveTime& time : kSaveTimes) save.*time.member = {each.number(time.key, 0)};
    report.saves.push_back(save);
  }
  return report;
}

}  // namespace plumbline
