#include "bench/run/cell_timelines.hpp"

#include <algorithm>
#include <filesystem>

#include "analysis/simulate/simulator.hpp"
#include "analysis/time/action_lanes.hpp"
#include "core/base/output_folder.hpp"

namespace plumbline {

std::size_t count_actions(const Schedule& schedule) {
  std::size_t count = 0;
  for (const auto& actions : schedule.actions) count += actions.size();
  return count;
}

Timeline predicted_timeline(const RunConfig& config, const Schedule& schedule, const Prediction& prediction,
                            const HardwareProfile& hardware) {
  Timeline timeline{simulate(schedule, prediction.costs), {}};
  timeline.lanes = lanes_of(schedule, timeline.trace, action_lanes(config, schedule, hardware),
                            prediction.costs.processors > 0);
  const MemoryPrediction memory = predict_memory(config, schedule, MemoryDetail::timeline);
  for (const RankMemory& rank : memory.ranks) timeline.memory.push_back(rank.timeline);
  return timeline;
}

Timeline measured_timeline(const training::TrainingResult& result) {
  Timeline timeline{result.trace, result.samples, result.lanes};
  // The origin is rank 0's clock when it left the barrier; a clock that is a little behind reads less than 0.
  for (auto& events : timeline.trace.ranks) {
    for (Event& event : events) {
      event.start = std::max(event.start, Seconds{0});
      event.end = std::max(event.end, event.start);
    }
  }
  for (auto& events : timeline.trace.collectives) {
    for (CollectiveEvent& event : events) {
      event.start = std::max(event.start, Seconds{0});
      event.end = std::max(event.end, event.start);
      event.waited_from = std::max(event.waited_from, Seconds{0});
    }
  }
  for (auto& spans : timeline.lanes) {
    for (LaneSpan& span : spans) {
      span.start = std::max(span.start, Seconds{0});
      span.end = std::max(span.end, span.start);
    }
  }
  return timeline;
}

void write_timelines(const std::string& path, CellTimelines timelines) {
  const std::filesystem::path place(path);
  timelines.id = place.stem().string();
  OutputFolder::make(place.parent_path().string())
      .write(place.filename().string(), to_timeline_json(timelines));
}

}  // namespace plumbline
