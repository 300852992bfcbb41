// RAPL's counters, in a folder made like Linux's powercap.
#include "core/run/processor_energy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/support/temporary_folder.hpp"

namespace plumbline::processor_energy_test {
namespace {

namespace fs = std::filesystem;

class ProcessorEnergyTest : public testing::Test, protected test::TemporaryFolder {
 protected:
  void set(const std::string& zone, const std::string& name, long microjoule) {
    fs::create_directories(folder_ / zone);
    std::ofstream(folder_ / zone / "name") << name << "\n";
    std::ofstream(folder_ / zone / "energy_uj") << microjoule << "\n";
    std::ofstream(folder_ / zone / "max_energy_range_uj") << 262'143'000'000 << "\n";
  }
  static void wait() { std::this_thread::sleep_for(std::chrono::milliseconds(50)); }
};

TEST_F(ProcessorEnergyTest, AddsPackagesAndTheirMemory) {
  set("intel-rapl:0", "package-0", 1'000'000);
  set("intel-rapl:0:0", "core", 0);
  set("intel-rapl:0:1", "dram", 5'000'000);
  set("intel-rapl:1", "package-1", 262'142'000'000);
  set("intel-rapl:2", "psys", 0);
  set("intel-rapl-mmio:0", "package-0", 0);
  ProcessorEnergy energy(folder_.string());
  EXPECT_EQ(energy.why_unavailable(), "");
  EXPECT_TRUE(std::isnan(energy.watt())) << "before an interval";
  energy.begin();
  wait();
  set("intel-rapl:0", "package-0", 3'000'000);   // 2 J
  set("intel-rapl:0:0", "core", 1'000'000'000);  // within the package
  set("intel-rapl:0:1", "dram", 6'000'000);      // 1 J
  set("intel-rapl:1", "package-1", 1'000'000);   // 2 J, past its largest value
  set("intel-rapl:2", "psys", 1'000'000'000);    // all of them
  set("intel-rapl-mmio:0", "package-0", 1'000'000'000);
  energy.end();
  const double first = energy.watt();
  EXPECT_LE(first, 5 / 0.05);
  EXPECT_GE(first, 5 / 5.0);
  wait();  // not measured
  energy.begin();
  set("intel-rapl:0", "package-0", 103'000'000);
  energy.end();
  EXPECT_GT(energy.watt(), 10 * first);
}

TEST_F(ProcessorEnergyTest, NamesTheReasonWithoutACounter) {
  const ProcessorEnergy none((folder_ / "missing").string());
  EXPECT_EQ(none.why_unavailable(), (folder_ / "missing").string() + ": no RAPL counter");
  EXPECT_TRUE(std::isnan(none.watt()));
  set("intel-rapl:0", "package-0", 0);
  fs::remove(folder_ / "intel-rapl:0" / "energy_uj");  // as for a user who may not read it
  const ProcessorEnergy hidden(folder_.string());
  EXPECT_THAT(hidden.why_unavailable(), testing::EndsWith("energy_uj: not readable by this user"));
}

}  // namespace
}  // namespace plumbline::processor_energy_test
