// Matrices whose cells run a fake program.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "bench/evaluate/cell_process.hpp"
#include "bench/matrix/matrix_runner.hpp"
#include "core/base/error.hpp"
#include "tests/bench/processes/launch/launch_support.hpp"
#include "tests/bench/record/record_support.hpp"
#include "tests/support/temporary_folder.hpp"

namespace plumbline::test {

inline std::string text_of(std::FILE* file) {
  std::rewind(file);
  std::string text(100'000, 0);
  text.resize(std::fread(text.data(), 1, text.size(), file));
  return text;
}

class MatrixCells : public ::testing::Test {
 protected:
  ~MatrixCells() override { std::fclose(log_); }

  static MatrixCell cell(const std::string& id) {
    MatrixCell made;
    made.id = id;
    made.values = {{"seed", id}};
    made.config.model = *find_preset(preset_names().front());
    made.config.parallel.world_size = 2;
    made.config.parallel.tensor = 2;
    made.config.measure.timeout_s = 300;
    return made;
  }
  static std::string good_measurement() {
    return OrderedJson{{"measurement", to_json(*sample_record("x").measurement)}}.dump();
  }
  using Behaviour = std::map<std::string, std::vector<std::string>>;
  static std::vector<std::string> good() { return {"write", good_measurement()}; }
  /// Hooks whose cells run the fake program with the words that `behaviour` has for their id.
  MatrixHooks hooks(const Behaviour& behaviour) {
    return {[this](const MatrixCell& at, Record& record) {
              predicted_.push_back(at.id);
              if (at.id == "unpredictable") throw Error("no profile");
              if (at.id == "contradiction") throw InputError("sizes contradict each other");
              record.prediction = sample_record("x").prediction;
            },
            [this, behaviour](const MatrixCell& at, const std::function<bool()>& go_on, Record& record) {
              const CellProgram program{fake({}).program, behaviour.at(at.id)};
              const CellRun run{folder_ + "/cells", at.id, go_on, {}};
              return measure_cell(at.config, program, run, record);
            },
            sample_record("x").machine};
  }
  MatrixOutcome run(const std::vector<MatrixCell>& cells, const MatrixHooks& with,
                    MatrixOptions options = {}) {
    RecordStore store(folder_);
    Progress progress(static_cast<int>(cells.size()), 0, log_, false);
    return run_matrix(cells, store, with, options, progress);
  }
  /// Hooks whose measurements call `tick` with the cell's id and the number of the tick, often.
  MatrixHooks ticking(const Behaviour& behaviour, const std::function<void(const std::string&, int)>& tick) {
    MatrixHooks made = hooks(behaviour);
    made.measure = [tick, measure = made.measure](const MatrixCell& at, const std::function<bool()>& go_on,
                                                  Record& record) {
      int ticks = 0;
      return measure(
          at,
          [&] {
            tick(at.id, ++ticks);
            return go_on();
          },
          record);
    };
    return made;
  }
  /// A program that a killed runner was about to start holds the lock of the results until it is started.
  void wait_until_free() {
    for (int attempt = 0;; ++attempt) {
      try {
        const RecordStore store(folder_);
        return;
      } catch (const InputError&) {
        if (attempt == 6000) throw;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    }
  }
  std::string said() const { return text_of(log_); }

  const TemporaryFolder temporary_;
  const std::string folder_ = temporary_.folder_;
  std::FILE* log_ = std::tmpfile();
  std::vector<std::string> predicted_;
};

}  // namespace plumbline::test
