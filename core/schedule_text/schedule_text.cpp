#include "core/schedule_text/schedule_text.hpp"

#include <array>

#include "core/base/error.hpp"
#include "core/base/text_input.hpp"
#include "core/schedule_text/schedule_cells.hpp"
#include "core/validate/validate.hpp"

namespace plumbline {

std::string to_text(const Schedule& schedule) {
  std::string text;
  for (std::size_t rank = 0; rank < schedule.actions.size(); ++rank) {
    text += "rank " + std::to_string(rank) + ": ";
    append_cells(schedule.actions[rank], ' ', text);
    text += '\n';
  }
  return text;
}

namespace {

constexpr std::size_t kMaxScheduleBytes = std::size_t{1} << 28;

}  // namespace

bool has_send_waits(const std::string& path) {
  return read_text_file(path, kMaxScheduleBytes).find("WAIT_SEND_") != std::string::npos;
}

Schedule load_schedule(const std::string& path) {
  const std::string text = read_text_file(path, kMaxScheduleBytes);
  const bool json = path.size() >= 5 && path.compare(path.size() - 5, 5, ".json") == 0;
  Schedule schedule = json ? parse_schedule_json(text, path) : parse_schedule_csv(text, path);
  validate(schedule);
  return schedule;
}

}  // namespace plumbline
