// Doubts about a hardware profile before it is used.
#include "bench/evaluate/profile_trust.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plumbline::profile_trust_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::int64_t kNow = 1'800'000'000;
constexpr std::int64_t kDaySeconds = 86'400;

TEST(ProfileTrust, EveryDoubtIsALine) {
  const MachineReport here{"here", "a CPU", "", {}, {}};
  HardwareProfile profile;
  EXPECT_THAT(doubts_about(profile, here, kNow, true), IsEmpty()) << "an accelerator, or an older profile";
  profile.calibration = {kNow - 2 * kDaySeconds,         60,   "here", "a CPU",
                         {0.02, 0.03, 0.02, 0.01, 0.05}, 5000, 100,    40};
  EXPECT_THAT(doubts_about(profile, here, kNow, true), IsEmpty());

  HardwareProfile old = profile;
  old.calibration.unix_s = kNow - 30 * kDaySeconds;
  EXPECT_THAT(doubts_about(old, here, kNow, true), ElementsAre(HasSubstr("is 30 days old")));
  HardwareProfile noisy = profile;
  noisy.calibration.noise = {0.25, 0.03, 0.04, 0.4, 0};
  EXPECT_THAT(doubts_about(noisy, here, kNow, true),
              ElementsAre(HasSubstr("compute by 25 %, messages by 40 %")));
  HardwareProfile unsettled = profile;
  unsettled.calibration.unsettled = 900;
  EXPECT_THAT(doubts_about(unsettled, here, kNow, true), ElementsAre(HasSubstr("900 of the 5000 figures")));
  HardwareProfile hasty = profile;
  hasty.calibration.seen_once = 4000;
  EXPECT_THAT(doubts_about(hasty, here, kNow, true), ElementsAre(HasSubstr("4000 of the 5000 figures")));
  HardwareProfile other = profile;
  other.calibration.host = "there";
  EXPECT_THAT(doubts_about(other, here, kNow, true),
              ElementsAre(HasSubstr("of another machine: found there (a CPU)")));
  EXPECT_THAT(doubts_about(other, here, kNow, false), IsEmpty())
      << "predicting for another machine is no mistake";
}

}  // namespace
}  // namespace plumbline::profile_trust_test
