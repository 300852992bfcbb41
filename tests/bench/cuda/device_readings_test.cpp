// Memory of each rank's process, from readings of a shared or a whole GPU.
#include "bench/cuda/device_readings.hpp"

#include <gtest/gtest.h>

namespace plumbline::device_readings_test {
namespace {

/// A device that a test fills: the processes' memory is known, readings are derived from it.
struct Device {
  std::int64_t used = 7;  // somebody else's
};

struct Process {
  std::int64_t context, handle, workspace, nccl, tensors, kernels;
};

/// As in bench/cuda/cuda_session.cpp: contexts and operators in turns, the rest together.
std::vector<DeviceReadings> read(const std::vector<Process>& processes, Device& device, bool before_known) {
  std::vector<DeviceReadings> all(processes.size());
  const auto reading = [&](std::size_t i, bool workspace, bool tensors) {
    return DeviceReading{
        {device.used}, {tensors ? processes[i].tensors : 0}, {workspace ? processes[i].workspace : 0}};
  };
  for (std::size_t i = 0; i < processes.size(); ++i) {
    all[i].before = {before_known ? device.used : -1};
    device.used += processes[i].context;
    all[i].context = reading(i, false, false);
    device.used += processes[i].handle + processes[i].workspace;
    all[i].operators = reading(i, true, false);
  }
  for (std::size_t i = 0; i < processes.size(); ++i) all[i].alone = reading(i, true, false);
  for (const Process& process : processes) device.used += process.nccl;
  for (std::size_t i = 0; i < processes.size(); ++i) all[i].connected = reading(i, true, false);
  for (const Process& process : processes) device.used += process.tensors + process.kernels;
  for (std::size_t i = 0; i < processes.size(); ++i) {
    all[i].last = reading(i, true, true);
    all[i].most_tensor_pool = {processes[i].tensors};
    all[i].most_library_pool = {processes[i].workspace};
  }
  return all;
}

constexpr Process kFirst{500, 20, 32, 100, 4000, 6};
constexpr Process kSecond{480, 20, 32, 140, 9000, 10};

TEST(DeviceReadings, ARankOnItsOwnDeviceIsReadToTheByte) {
  Device device;
  const auto rows = account_device(read({kFirst}, device, true), {{3900}});
  ASSERT_EQ(rows.size(), 1U);
  const DeviceMemoryRow& row = rows[0];
  EXPECT_EQ(row.allocated.value, 3900);
  EXPECT_EQ(row.reserved, Bytes{4000});
  EXPECT_EQ(row.context, Bytes{500});
  EXPECT_EQ(row.libraries.value, 52);
  EXPECT_EQ(row.nccl.value, 100);
  EXPECT_EQ(row.other.value, 6);
  EXPECT_EQ(row.total.value, 4658);
  EXPECT_EQ(row.device_used, Bytes{4658 + 7});
  EXPECT_EQ(row.ranks_on_device, 1);
}

TEST(DeviceReadings, RanksThatShareADeviceKeepWhatIsTheirs) {
  Device device;
  const auto rows = account_device(read({kFirst, kSecond}, device, true), {{3900}, {8000}});
  EXPECT_EQ(rows[0].context, Bytes{500});
  EXPECT_EQ(rows[1].context, Bytes{480});
  EXPECT_EQ(rows[0].reserved, Bytes{4000});
  EXPECT_EQ(rows[1].reserved, Bytes{9000});
  for (const DeviceMemoryRow& row : rows) {
    EXPECT_EQ(row.nccl.value, 120);
    EXPECT_EQ(row.other.value, 8);
    EXPECT_EQ(row.ranks_on_device, 2);
  }
  // Nothing is lost and nothing counted twice.
  EXPECT_EQ(rows[0].total + rows[1].total, Bytes{device.used - 7});
}

TEST(DeviceReadings, DevicesAndHostsAreKeptApart) {
  Device one;
  Device other;
  auto readings = read({kFirst}, one, true);
  for (DeviceReadings more : read({kSecond}, other, true)) {
    more.number = 1;
    readings.push_back(more);
  }
  readings.push_back(readings[1]);
  readings[2].host = 3;
  for (const DeviceMemoryRow& row : account_device(readings, {{1}, {2}, {3}})) {
    EXPECT_EQ(row.ranks_on_device, 1) << row.rank;
    EXPECT_EQ(row.nccl.value, row.rank == 0 ? 100 : 140) << row.rank;
  }
}

TEST(DeviceReadings, WithoutTheFirstReadingOnlyTheContextIsMissing) {
  Device device;
  const auto rows = account_device(read({kFirst, kSecond}, device, false), {{3900}, {8000}});
  EXPECT_FALSE(rows[0].context.has_value());
  EXPECT_EQ(rows[0].libraries.value, 52);
  EXPECT_EQ(rows[0].total.value, 4000 + 52 + 120 + 8);
}

TEST(DeviceReadings, MemoryThatOthersReturnIsNoNegativeShare) {
  Device device;
  auto readings = read({kFirst}, device, true);
  readings[0].connected.used -= Bytes{1000};
  readings[0].last.used -= Bytes{9000};
  const DeviceMemoryRow row = account_device(readings, {{3900}})[0];
  EXPECT_EQ(row.nccl.value, 0);
  EXPECT_EQ(row.other.value, 0);
}

}  // namespace
}  // namespace plumbline::device_readings_test
