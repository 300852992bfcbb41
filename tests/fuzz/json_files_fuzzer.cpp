// libFuzzer target: for any bytes, the readers of profiles, records, costs and timelines return a result or
// throw InputError. The result is written and read back.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "analysis/hardware/hardware.hpp"
#include "analysis/simulate/costs_json.hpp"
#include "bench/record/record.hpp"
#include "bench/show/report/timelines.hpp"
#include "core/base/error.hpp"
#include "core/schedule_text/schedule_text.hpp"

namespace {

using namespace plumbline;

/// Reads; accepted input must be the same after writing and reading it again.
template <class Read, class Write>
void round_trip(std::string_view text, const Read& read, const Write& write) {
  std::string written;
  try {
    written = write(read(text));
  } catch (const InputError&) {
    return;
  }
  if (write(read(written)) != written) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Schedule kSchedule = parse_schedule_csv("0F0,0F1,0B0,0B1\n", "fuzz");
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  round_trip(
      text, [](std::string_view each) { return parse_hardware(each, "fuzz"); },
      [](const HardwareProfile& profile) { return to_json(profile); });
  round_trip(
      text, [](std::string_view each) { return parse_record(each, "fuzz"); },
      [](const Record& record) { return to_line(record); });
  round_trip(
      text, [](std::string_view each) { return parse_timeline_json(each, "fuzz"); },
      [](const CellTimelines& timelines) { return to_timeline_json(timelines); });
  try {
    (void)parse_measurement(text, "fuzz");
  } catch (const InputError&) {
  }
  try {
    (void)parse_costs_json(text, "fuzz", kSchedule);
  } catch (const InputError&) {
  }
  return 0;
}
