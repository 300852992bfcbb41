// libFuzzer target: for any bytes, the schedule readers return a schedule or throw InputError; the result can
// be checked, given transfers, written and read back.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/base/error.hpp"
#include "core/schedule_text/schedule_text.hpp"
#include "core/validate/deadlock.hpp"
#include "core/validate/validate.hpp"
#include "schedules/passes.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace plumbline;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const bool json : {false, true}) {
    try {
      const Schedule schedule = json ? parse_schedule_json(text, "fuzz") : parse_schedule_csv(text, "fuzz");
      const bool sound = find_fault(schedule).rule.empty();
      const Schedule again = json ? parse_schedule_json(to_json(schedule), "fuzz")
                                  : parse_schedule_csv(to_csv(schedule), "fuzz");
      if (again.actions != schedule.actions) std::abort();
      (void)find_deadlock(schedule, Ordering::synchronous);
      (void)find_deadlock(schedule, Ordering::grouped);
      (void)find_deadlock(schedule, Ordering::lazy_pairs);
      if (sound) validate(add_transfers(schedule));
    } catch (const InputError&) {
    }
  }
  return 0;
}
