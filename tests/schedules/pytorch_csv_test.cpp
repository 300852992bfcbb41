// Schedules exported to PyTorch's CSV pass its validation, and PyTorch's own CSVs load here. Runs the Python
// that has torch: PLUMBLINE_TORCH_PYTHON, else python3; skipped if neither can import it.
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "core/schedule_text/schedule_text.hpp"
#include "core/validate/validate.hpp"
#include "schedules/make_schedule.hpp"
#include "schedules/passes.hpp"

namespace plumbline::pytorch_csv_test {
namespace {

namespace fs = std::filesystem;

TEST(PyTorchCsv, BothWays) {
  const fs::path folder = fs::temp_directory_path() / ("plumbline_pytorch_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  int written = 0;
  for (const std::string_view name : schedule_names()) {
    for (const int ranks : {2, 4}) {
      ScheduleRequest request;
      request.name = name;
      request.ranks = ranks;
      request.microbatches = 8;
      const Schedule schedule = make_schedule(request);
      // PyTorch knows F, B, I, W on one route.
      const bool foreign = schedule.vocab != VocabPasses::none || schedule.routes > 1 ||
                           to_csv(schedule).find("TF") != std::string::npos;
      if (foreign) continue;
      Schedule plain = schedule;
      plain.barrier_at_end = true;  // an attribute of ours, not part of the format
      const std::string stem = std::string(name) + "_" + std::to_string(ranks);
      std::ofstream(folder / (stem + ".csv")) << to_csv(plain);
      std::ofstream(folder / (stem + ".comms.csv")) << to_csv(add_transfers(plain), {.send_waits = true});
      ++written;
    }
  }
  EXPECT_GE(written, 20);
  const char* python = std::getenv("PLUMBLINE_TORCH_PYTHON");
  const std::string command = std::string(python != nullptr ? python : "python3") + " \"" +
                              PLUMBLINE_SOURCE_DIR + "/tests/schedules/pytorch_cross_check.py\" \"" +
                              folder.string() + "\"";
  const int status = std::system(command.c_str());
  ASSERT_TRUE(WIFEXITED(status));
  constexpr int kSkip = 77;
  if (WEXITSTATUS(status) == kSkip || WEXITSTATUS(status) == 127) {
    fs::remove_all(folder);
    GTEST_SKIP() << "no python3 with torch (set PLUMBLINE_TORCH_PYTHON)";
  }
  EXPECT_EQ(WEXITSTATUS(status), 0);
  int loaded = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().rfind("torch_", 0) != 0) continue;
    EXPECT_NO_THROW(load_schedule(entry.path().string())) << entry.path();
    ++loaded;
  }
  EXPECT_GE(loaded, 5);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace plumbline::pytorch_csv_test
