#include "core/profile/activity_message.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "core/base/error.hpp"

namespace plumbline {
namespace {

using Json = nlohmann::json;

Json of(const Action& action) {
  return {static_cast<int>(action.type), action.overlaps_next, action.stage, action.microbatch};
}
Action action_of(const Json& json) {
  const int type = json.at(0).get<int>();
  if (type < 0 || type >= kActionTypes)
    throw Error(fmt::format("activities: there is no action type {}", type));
  return {static_cast<ActionType>(type), json.at(1).get<bool>(), json.at(2).get<std::uint16_t>(),
          json.at(3).get<std::uint32_t>()};
}

Json of(const ClockReading& reading) {
  return {reading.at.value, reading.offset.value, reading.error.value};
}
ClockReading reading_of(const Json& json) {
  return {{json.at(0).get<double>()}, {json.at(1).get<double>()}, {json.at(2).get<double>()}};
}

Json of(const std::vector<DeviceActivity>& activities) {
  Json list = Json::array();
  for (const DeviceActivity& a : activities) {
    list.push_back({static_cast<int>(a.kind), a.name, a.start.value, a.end.value, a.stream, a.correlation,
                    a.bytes.value});
  }
  return list;
}
std::vector<DeviceActivity> activities_of(const Json& json) {
  std::vector<DeviceActivity> list;
  for (const Json& a : json) {
    list.push_back({static_cast<ActivityKind>(a.at(0).get<int>()),
                    a.at(1).get<std::string>(),
                    {a.at(2).get<double>()},
                    {a.at(3).get<double>()},
                    a.at(4).get<std::uint32_t>(),
                    a.at(5).get<std::uint32_t>(),
                    Bytes{a.at(6).get<std::int64_t>()}});
  }
  return list;
}

}  // namespace

std::vector<std::uint8_t> to_bytes(const RankActivities& rank) {
  Json json;
  json["rank"] = rank.pipeline_rank;
  json["first"] = of(rank.first);
  json["last"] = of(rank.last);
  Json& events = json["events"] = Json::array();
  for (const Event& event : rank.actions) {
    events.push_back({of(event.action), event.start.value, event.end.value});
  }
  Json& actions = json["actions"] = Json::array();
  for (const ActionActivities& action : rank.activities.actions) {
    actions.push_back({of(action.action), of(action.activities)});
  }
  json["outside"] = of(rank.activities.outside);
  return Json::to_cbor(json);
}

RankActivities rank_activities(const std::vector<std::uint8_t>& bytes) {
  try {
    const Json json = Json::from_cbor(bytes);
    RankActivities rank;
    rank.pipeline_rank = json.at("rank").get<int>();
    rank.first = reading_of(json.at("first"));
    rank.last = reading_of(json.at("last"));
    for (const Json& event : json.at("events")) {
      rank.actions.push_back(
          {action_of(event.at(0)), {event.at(1).get<double>()}, {event.at(2).get<double>()}});
    }
    for (const Json& action : json.at("actions")) {
      rank.activities.actions.push_back({action_of(action.at(0)), activities_of(action.at(1))});
    }
    rank.activities.outside = activities_of(json.at("outside"));
    return rank;
  } catch (const Json::exception&) {
    throw Error("activities of a rank cannot be read: expected those of another rank of this build");
  }
}

}  // namespace plumbline
