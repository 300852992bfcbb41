// Allowed includes between folders ("rooms"), checked for every #include line of the project.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/rules/include_checks.hpp"
#include "tests/rules/include_graph.hpp"

namespace plumbline::include_rules_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::vector<std::string> kFolders = {"analysis", "bench", "core", "kernels", "schedules", "tests"};
constexpr std::size_t kMostFiles = 30;  // of one folder: a folder with more holds more than one idea

constexpr std::size_t kMostRooms = 13;  // of bench/: as many as a newcomer keeps in mind
constexpr std::string_view kBenchmarks = "bench/measure/micro";  // programs of their own, above every room

/// The folder of bench/ or another first folder that a file is in: "bench/measure" for all of its folders.
std::string outer_room_of(const std::string& file) {
  const std::string room = room_of(file);
  if (room.rfind("bench/", 0) != 0 || room == kBenchmarks) return room;
  return room.substr(0, room.find('/', std::string_view("bench/").size()));
}

/// Allowed includes of a folder: other folders, and libraries that not every folder may use.
struct Room {
  std::string_view name;
  std::string_view may_include;  // separated by spaces
};

/// Every arrow there is, and no other. Tests may include everything.
constexpr Room kRooms[] = {
    {"analysis/diagnose", "analysis/diagnose/traces analysis/predict core/base core/config"},
    {"analysis/diagnose/logs", "core/base"},
    {"analysis/diagnose/traces", "core/base"},
    {"analysis/hardware", "analysis/silicon core/base core/run core/tensor"},
    {"analysis/hardware/logs", "analysis/hardware core/base"},
    {"analysis/hardware/profiles", "analysis/hardware core/base core/schedule"},
    {"analysis/memory",
     "analysis/hardware analysis/memory/stage analysis/step analysis/work analysis/work/routing core/base "
     "core/config core/parallel core/schedule core/tensor"},
    {"analysis/memory/stage", "analysis/step analysis/work core/schedule core/tensor"},
    {"analysis/operators", "analysis/hardware analysis/silicon core/base"},
    {"analysis/predict",
     "analysis/hardware analysis/hardware/profiles analysis/memory analysis/serving analysis/simulate "
     "analysis/step analysis/time/stage analysis/work analysis/work/routing core/base core/config core/files "
     "core/schedule core/trace"},
    {"analysis/published",
     "analysis/hardware analysis/hardware/profiles analysis/memory analysis/predict "
     "analysis/published/dialect analysis/simulate analysis/step analysis/time analysis/time/stage "
     "analysis/work core/base core/config core/schedule"},
    {"analysis/published/dialect", "analysis/hardware analysis/work core/base core/config core/config_text"},
    {"analysis/reinforcement",
     "analysis/hardware analysis/memory analysis/predict analysis/serving analysis/step analysis/time "
     "analysis/work "
     "core/base "
     "core/config core/reinforcement core/schedule core/tensor"},
    {"analysis/reliability", "analysis/hardware core/base"},
    {"analysis/search",
     "analysis/hardware analysis/hardware/profiles analysis/memory analysis/predict analysis/simulate "
     "analysis/step analysis/time analysis/time/stage analysis/work analysis/work/routing core/base "
     "core/config "
     "core/schedule core/trace"},
    {"analysis/serving",
     "analysis/hardware analysis/step analysis/time analysis/time/stage analysis/work core/base core/config"},
    {"analysis/silicon", "core/base"},
    {"analysis/size",
     "analysis/hardware analysis/predict analysis/published analysis/reliability analysis/search "
     "analysis/stragglers core/base core/config"},
    {"analysis/simulate", "core/base core/schedule core/trace core/validate"},
    {"analysis/step",
     "analysis/hardware analysis/hardware/profiles core/base core/config core/config/families core/parallel "
     "core/schedule"},
    {"analysis/time",
     "analysis/hardware analysis/memory analysis/simulate analysis/step analysis/stragglers "
     "analysis/time/tables analysis/work core/config core/schedule core/trace"},
    {"analysis/time/stage",
     "analysis/hardware analysis/memory analysis/simulate analysis/step analysis/time analysis/time/tables "
     "analysis/work analysis/work/routing core/config core/schedule"},
    {"analysis/time/tables", "analysis/hardware analysis/work core/base core/parallel"},
    {"analysis/stragglers", "analysis/reliability analysis/simulate core/base core/schedule core/trace"},
    {"analysis/topology", "analysis/hardware core/base"},
    {"analysis/work",
     "analysis/hardware analysis/step core/base core/config core/parallel core/run core/schedule"},
    {"analysis/work/frameworks", "analysis/step analysis/work core/base"},
    {"analysis/work/passes", "analysis/work core/base"},
    {"analysis/work/routing", "analysis/step analysis/work core/base core/config core/schedule"},
    {"bench", "bench/commands bench/processes/launch core/base"},
    {"bench/ask",
     "analysis/hardware analysis/hardware/profiles analysis/predict analysis/published "
     "analysis/reinforcement analysis/reliability "
     "analysis/search analysis/simulate analysis/step bench/plan bench/record bench/show/views "
     "bench/show/views/reinforcement "
     "bench/show/views/size core/base core/config core/config_text core/launch_files core/reinforcement "
     "core/schedule core/schedule_text core/trace core/validate "
     "schedules"},
    {"bench/commands",
     "analysis/hardware analysis/hardware/profiles analysis/predict analysis/published "
     "analysis/reliability analysis/serving analysis/topology bench/ask bench/commands/help "
     "bench/convert bench/cuda bench/evaluate bench/matrix bench/measure/calibrate bench/measure/machine "
     "bench/plan bench/processes/hosts bench/processes/launch bench/record bench/show/history "
     "bench/show/logs bench/show/report bench/show/text bench/show/views bench/show/views/cluster "
     "bench/show/views/reinforcement bench/training/check core/base core/config core/config_text "
     "schedules"},
    {"bench/commands/ask", "bench/ask bench/commands core/base"},
    {"bench/commands/benchmarks",
     "analysis/hardware analysis/hardware/logs analysis/predict analysis/stragglers bench/commands "
     "bench/commands/operators bench/evaluate "
     "bench/measure/collectives "
     "bench/measure/machine bench/measure/nodes bench/plan bench/processes/hosts bench/processes/launch "
     "bench/record bench/run bench/show/text "
     "bench/show/views/benchmarks core/base core/config core/config_text core/run "
     "<onednn>"},
    {"bench/commands/diagnose",
     "analysis/diagnose analysis/diagnose/logs analysis/diagnose/traces analysis/published bench/commands "
     "bench/plan bench/show/text bench/show/views/diagnose core/base core/config"},
    {"bench/commands/generate",
     "bench/commands bench/evaluate bench/plan bench/processes/hosts bench/processes/launch bench/run "
     "bench/show/text bench/training/generate bench/training/trainer core/base core/config "
     "core/config_text"},
    {"bench/commands/help", "bench/show/text core/base"},
    {"bench/commands/launch_files",
     "bench/ask bench/commands core/base core/config core/config_text core/launch_files"},
    {"bench/commands/listing",
     "analysis/hardware analysis/hardware/profiles analysis/published analysis/serving bench/commands "
     "bench/commands/help bench/commands/schedules bench/show/text core/base core/config "
     "core/config/families"},
    {"bench/commands/operators",
     "analysis/hardware analysis/operators bench/commands bench/measure/machine bench/show/text core/base"},
    {"bench/commands/predict",
     "analysis/predict analysis/reinforcement bench/commands bench/evaluate bench/measure/machine "
     "bench/plan bench/plan/vary bench/run bench/show/report bench/show/text bench/show/views "
     "bench/show/views/reinforcement bench/show/views/vary core/base core/config core/config_text"},
    {"bench/commands/reliability",
     "analysis/predict analysis/published analysis/reliability bench/ask bench/commands "
     "bench/measure/machine bench/plan "
     "bench/show/text bench/show/views/cluster bench/show/views/size core/base core/config"},
    {"bench/commands/run",
     "analysis/reinforcement bench/commands bench/evaluate bench/measure/machine bench/plan "
     "bench/processes/hosts "
     "bench/processes/launch bench/run bench/run/recovery bench/show/logs bench/show/report "
     "bench/show/text bench/show/views bench/show/views/reinforcement bench/training/checkpoints "
     "bench/training/trainer "
     "core/base core/config core/config_text core/reinforcement"},
    {"bench/commands/schedules",
     "analysis/simulate bench/ask bench/commands bench/show/report bench/show/text core/base core/schedule "
     "core/schedule_text core/trace core/validate schedules"},
    {"bench/convert", "core/base core/checkpoints core/config core/config/families core/files core/tensor"},
    {"bench/cuda",
     "bench/cuda/times bench/evaluate bench/measure/calibrate bench/measure/machine bench/measure/operators "
     "bench/plan bench/processes/hosts "
     "bench/processes/launch bench/record bench/training/generate bench/training/reinforcement "
     "bench/training/trainer core/backends/mpi core/backends/nccl core/base core/config core/profile "
     "core/run core/tensor kernels kernels/cuda <cublas> <cuda>"},
    {"bench/cuda/reinforcement", "bench/cuda bench/training/reinforcement core/backends/nccl core/schedule"},
    {"bench/cuda/times",
     "analysis/hardware bench/measure/calibrate bench/measure/operators core/backends/nccl core/base "
     "core/run "
     "core/tensor kernels <cuda>"},
    {"bench/evaluate",
     "analysis/hardware analysis/memory analysis/predict analysis/step analysis/stragglers analysis/time "
     "analysis/time/stage bench/measure/machine bench/plan bench/processes/launch bench/record "
     "bench/training/checkpoints bench/training/trainer core/backends/mpi core/base core/config "
     "core/config_text core/reinforcement core/run core/schedule kernels/emulated"},
    {"bench/matrix",
     "analysis/predict bench/evaluate bench/measure/calibrate bench/measure/machine bench/plan "
     "bench/processes/hosts bench/processes/launch bench/record bench/run bench/show/text core/base "
     "core/config core/config_text core/tensor"},
    {"bench/measure/calibrate",
     "analysis/hardware analysis/predict bench/measure/calibrate/cells bench/measure/calibrate/figures "
     "bench/measure/machine bench/plan bench/processes/launch bench/record bench/show/text "
     "bench/training/trainer core/backends/mpi core/base core/run core/tensor kernels kernels/cpu"},
    {"bench/measure/calibrate/cells", "analysis/hardware core/base core/tensor kernels"},
    {"bench/measure/calibrate/figures", "analysis/hardware bench/measure/calibrate/cells core/base"},
    {"bench/measure/collectives", "bench/record core/backends/mpi core/base core/run core/tensor kernels"},
    {"bench/measure/nodes",
     "bench/measure/operators bench/record core/backends/mpi core/base core/run core/tensor kernels"},
    {"bench/measure/operators",
     "bench/measure/calibrate bench/record core/base core/run core/tensor kernels"},
    {"bench/measure/machine",
     "analysis/hardware analysis/hardware/profiles bench/record core/backends/mpi core/backends/nccl "
     "core/base core/run <onednn>"},
    {"bench/measure/micro",
     "analysis/hardware analysis/predict analysis/search analysis/simulate bench/ask bench/cuda/times "
     "bench/measure/calibrate bench/plan bench/processes/launch bench/training/stage "
     "bench/training/trainer bench/training/weights core/backends/mpi core/base core/config "
     "core/config_text core/run core/validate kernels/cpu kernels/cuda kernels/cuda/attention "
     "kernels/cuda/device kernels/cuda/gemm kernels/emulated schedules <cuda> <onednn>"},
    {"bench/plan",
     "analysis/hardware analysis/hardware/profiles analysis/memory analysis/predict analysis/published "
     "analysis/operators analysis/reinforcement analysis/simulate analysis/step analysis/time "
     "analysis/time/stage analysis/work "
     "analysis/work/routing bench/processes/launch bench/record core/base core/config core/config_text "
     "core/parallel core/run "
     "core/schedule core/schedule_text core/validate schedules"},
    {"bench/plan/vary",
     "analysis/predict analysis/published bench/plan core/base core/config core/config_text "
     "core/launch_files core/launch_files/arguments"},
    {"bench/processes/hosts", "core/base"},
    {"bench/processes/launch", "bench/processes/hosts core/base core/run"},
    {"bench/record", "core/base core/run core/tensor core/trace"},
    {"bench/record/tables", "bench/record core/base"},
    {"bench/run",
     "analysis/hardware analysis/predict analysis/simulate analysis/time bench/cuda bench/evaluate "
     "bench/measure/calibrate bench/measure/collectives bench/measure/machine bench/measure/nodes "
     "bench/measure/operators "
     "bench/plan "
     "bench/processes/hosts bench/processes/launch bench/record "
     "bench/show/report bench/training/checkpoints bench/training/generate "
     "bench/training/reinforcement bench/training/trainer "
     "core/backends/mpi core/base core/config core/config_text core/reinforcement core/run "
     "core/schedule kernels/cpu kernels/emulated"},
    {"bench/run/recovery",
     "analysis/hardware analysis/predict analysis/reliability bench/evaluate bench/plan bench/record "
     "bench/training/checkpoints core/base core/config"},
    {"bench/show/history",
     "bench/record bench/show/report bench/show/text bench/show/views/cluster core/base"},
    {"bench/show/logs", "bench/record core/base"},
    {"bench/show/report",
     "bench/record bench/show/text core/base core/schedule core/schedule_text core/tensor core/trace"},
    {"bench/show/text", "bench/record core/base core/config_text core/trace"},
    {"bench/show/views",
     "analysis/hardware analysis/hardware/profiles analysis/memory analysis/predict analysis/published "
     "analysis/search analysis/step analysis/stragglers analysis/time/stage bench/plan bench/record "
     "bench/show/report bench/show/text bench/show/views/cluster core/base core/config core/config_text"},
    {"bench/show/views/benchmarks", "bench/record bench/show/report bench/show/text core/base"},
    {"bench/show/views/cluster",
     "analysis/published analysis/reliability analysis/stragglers analysis/topology analysis/work "
     "bench/record "
     "bench/show/report bench/show/text core/base core/config core/schedule"},
    {"bench/show/views/diagnose",
     "analysis/diagnose analysis/diagnose/logs bench/show/text core/base core/config core/config_text"},
    {"bench/show/views/reinforcement",
     "analysis/hardware analysis/reinforcement bench/show/text core/base core/config core/config_text "
     "core/reinforcement"},
    {"bench/show/views/size", "analysis/size bench/show/report bench/show/text bench/show/views core/base"},
    {"bench/show/views/vary", "bench/plan/vary bench/show/text core/base core/config_text core/trace"},
    {"bench/training/check",
     "bench/convert bench/training/stage bench/training/weights core/base core/config core/files core/run "
     "core/tensor kernels/cpu"},
    {"bench/training/blocks",
     "bench/training/ends bench/training/layer bench/training/operators bench/training/parameters "
     "bench/training/tape"},
    {"bench/training/checkpoints",
     "bench/training/parameters bench/training/stage core/base core/config core/config_text core/files "
     "core/run"},
    {"bench/training/ends",
     "bench/training/feed_forward bench/training/layer bench/training/linear bench/training/parameters "
     "core/config core/run core/trace"},
    {"bench/training/feed_forward", "bench/training/linear bench/training/parameters core/tensor"},
    {"bench/training/generate",
     "bench/training/blocks bench/training/ends bench/training/layer bench/training/trainer "
     "bench/training/weights core/base core/config core/schedule"},
    {"bench/training/layer",
     "bench/training/feed_forward bench/training/linear bench/training/parameters core/tensor"},
    {"bench/training/linear", "bench/training/parameters core/tensor"},
    {"bench/training/operators",
     "bench/training/ends bench/training/feed_forward bench/training/layer bench/training/parameters "
     "bench/training/tape"},
    {"bench/training/optimizers", "bench/training/parameters core/config kernels"},
    {"bench/training/parameters",
     "core/base core/config core/config/families core/run core/schedule core/tensor kernels"},
    {"bench/training/reinforcement",
     "bench/training/checkpoints bench/training/ends bench/training/generate bench/training/parameters "
     "bench/training/stage bench/training/trainer bench/training/weights core/base core/config "
     "core/reinforcement core/run kernels"},
    {"bench/training/stage",
     "bench/training/blocks bench/training/ends bench/training/layer bench/training/operators "
     "bench/training/optimizers bench/training/parameters bench/training/tape core/base core/run "
     "core/schedule"},
    {"bench/training/tape",
     "bench/training/ends bench/training/feed_forward bench/training/layer bench/training/linear "
     "bench/training/parameters core/base"},
    {"bench/training/trainer",
     "bench/training/checkpoints bench/training/parameters bench/training/stage bench/training/weights "
     "core/base core/config core/files core/run core/schedule core/trace kernels"},
    {"bench/training/weights",
     "bench/convert bench/training/parameters bench/training/stage core/base core/config "
     "core/config/families core/files core/run core/tensor"},
    {"core/backends/mpi", "core/base core/parallel core/run core/tensor <mpi>"},
    {"core/backends/nccl",
     "core/backends/mpi core/base core/parallel core/run core/schedule core/tensor <cuda> <nccl>"},
    {"core/checkpoints", "core/base core/files"},
    {"core/config", "core/base core/parallel core/schedule core/tensor"},
    {"core/config/families", "core/base core/config"},
    {"core/config_text", "core/base core/config core/launch_files core/reinforcement core/schedule"},
    {"core/files", "core/base core/config"},
    {"core/launch_files",
     "core/base core/config core/launch_files/arguments core/launch_files/megatron "
     "core/launch_files/reinforcement core/launch_files/sandbox core/launch_files/shell "
     "core/launch_files/torch core/launch_files/torch/titan"},
    {"core/launch_files/arguments", "core/base core/config"},
    {"core/launch_files/megatron",
     "core/base core/config core/launch_files/arguments core/launch_files/megatron/model "
     "core/launch_files/shell"},
    {"core/launch_files/megatron/model", "core/base core/config core/launch_files/arguments"},
    {"core/launch_files/torch", "core/base core/config core/launch_files/arguments"},
    {"core/launch_files/reinforcement",
     "core/base core/config core/launch_files/arguments core/launch_files/megatron"},
    {"core/launch_files/torch/titan",
     "core/base core/config core/launch_files/arguments core/launch_files/torch"},
    {"core/launch_files/sandbox", "core/base"},
    {"core/launch_files/shell", "core/base core/launch_files/arguments"},
    {"core/profile", "core/backends/nccl core/base core/run core/schedule core/trace <cuda> <cupti> <nvtx>"},
    {"core/reinforcement", "core/config"},
    {"core/run", "core/base core/parallel core/schedule core/tensor core/trace"},
    {"core/schedule", "core/base"},
    {"core/schedule_text", "core/base core/schedule core/validate"},
    {"core/tensor", "core/base"},
    {"core/trace", "core/base core/parallel core/schedule core/tensor"},
    {"core/validate", "core/base core/schedule"},
    {"kernels", "core/tensor"},
    {"kernels/checks", "core/base kernels"},
    {"kernels/cpu", "core/base core/tensor kernels kernels/checks <onednn>"},
    {"kernels/cpu/fp8", "core/tensor kernels/cpu"},
    {"kernels/cpu/attention", "kernels kernels/checks kernels/cpu"},
    {"kernels/cpu/routing", "kernels kernels/cpu"},
    {"kernels/cuda", "core/tensor kernels"},
    {"kernels/cuda/attention",
     "core/base core/tensor kernels kernels/cuda/device kernels/cuda/kernels <cuda> <cudnn>"},
    {"kernels/cuda/backend",
     "core/base kernels kernels/checks kernels/cuda kernels/cuda/attention kernels/cuda/device "
     "kernels/cuda/gemm kernels/cuda/kernels"},
    {"kernels/cuda/device", "core/base core/tensor kernels <cuda>"},
    {"kernels/cuda/gemm", "core/base kernels kernels/cuda kernels/cuda/device <cublas>"},
    {"kernels/cuda/kernels", "kernels kernels/cuda/device <cuda>"},
    {"kernels/emulated", "core/base core/run kernels kernels/checks"},
    {"schedules", "core/base core/schedule core/validate"},
};

/// Includes that no row of the table may allow.
const std::vector<Rule> kRules = {
    {"core(/.*)?", "(kernels|schedules|analysis|bench|tests)(/.*)?", "core depends on no other folder"},
    {"core(/(?!backends/|profile).*)?", "<(mpi|nccl|cuda|cupti)>",
     "transports live in core/backends, profilers in core/profile"},
    {"core/base", ".*", "core/base depends on nothing"},
    {"schedules(/.*)?", "(analysis|kernels|bench|tests)(/.*)?", "schedules know only core"},
    {"schedules(/.*)?", "<.*>", "schedules know only core"},
    {"analysis(/.*)?", "(kernels|bench|schedules|tests)(/.*)?",
     "a prediction must not learn from what is measured"},
    {"analysis(/.*)?", "core/backends/.*|<.*>", "analysis knows no transport"},
    {"kernels(/.*)?", "(schedules|analysis|bench|tests)(/.*)?", "kernels know only core"},
    {"kernels(/.*)?", "core/backends/.*|<(mpi|nccl)>", "kernels know no transport"},
    {"bench(/.*)?", "tests(/.*)?", "nothing uses tests"},
};

Arrows table() {
  Arrows arrows;
  for (const Room& room : kRooms) {
    std::istringstream names{std::string(room.may_include)};
    for (std::string to; names >> to;) arrows[std::string(room.name)].insert(to);
  }
  return arrows;
}

class IncludeRules : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    sources_ = read_sources(PLUMBLINE_SOURCE_DIR, kFolders);
    includes_ = includes_of(sources_);
  }
  static inline SourceTexts sources_;
  static inline std::vector<Include> includes_;
};

TEST_F(IncludeRules, EveryArrowIsInTheTableAndEveryRowIsUsed) {
  ASSERT_GT(sources_.size(), 500U) << "the rules look at next to nothing";
  EXPECT_THAT(not_allowed(includes_, table()), IsEmpty());
  EXPECT_THAT(unused(table(), arrows_of(includes_, room_of)), IsEmpty());
  EXPECT_THAT(table().size(), std::size(kRooms)) << "a folder has two rows, or one without an arrow";
}

TEST_F(IncludeRules, NoForbiddenArrow) {
  EXPECT_THAT(forbidden(table(), kRules), IsEmpty());
  EXPECT_THAT(forbidden(arrows_of(includes_, room_of), kRules), IsEmpty());
}

TEST_F(IncludeRules, NoLoopBetweenFilesUnitsOrRooms) {
  EXPECT_THAT(loops_in(arrows_of(includes_, room_of)), IsEmpty());
  EXPECT_THAT(loops_in(table()), IsEmpty());
  EXPECT_THAT(loops_in(arrows_of(includes_, unit_of)), IsEmpty());
  EXPECT_THAT(loops_in(arrows_of(includes_, itself)), IsEmpty());
  for (const Include& include : includes_) EXPECT_NE(include.file, include.target) << "includes itself";
}

TEST_F(IncludeRules, BenchHasFewRoomsAndNoArrowUpwards) {
  const Arrows arrows = arrows_of(includes_, outer_room_of);
  EXPECT_THAT(loops_in(arrows), IsEmpty());
  std::set<std::string> rooms;
  for (const auto& [file, text] : sources_)
    if (const std::string room = outer_room_of(file); room.rfind("bench/", 0) == 0) rooms.insert(room);
  rooms.erase(std::string(kBenchmarks));
  EXPECT_LE(rooms.size(), kMostRooms) << "rooms of bench/ (bench/README.md)";
}

TEST_F(IncludeRules, NoFolderIsCrowded) {
  EXPECT_THAT(crowded(sources_, kMostFiles), IsEmpty());
}

TEST(IncludeRulesTable, EveryRuleSeesItsForbiddenArrow) {
  const std::vector<std::pair<std::string, std::string>> arrows = {
      {"core/run", "kernels/cpu"},    {"core/run", "<mpi>"},        {"core/base", "core/tensor"},
      {"schedules", "analysis/time"}, {"schedules", "<cuda>"},      {"analysis/time", "bench/training/stage"},
      {"analysis/time", "<nccl>"},    {"kernels/cpu", "schedules"}, {"kernels/cuda/gemm", "<mpi>"},
      {"bench", "tests/support"}};
  ASSERT_EQ(arrows.size(), kRules.size());
  for (std::size_t i = 0; i < kRules.size(); ++i) {
    const auto& [from, to] = arrows[i];
    EXPECT_THAT(forbidden({{from, {to}}}, {kRules[i]}),
                ElementsAre(fmt::format("{} includes {}: {}", from, to, kRules[i].why)));
  }
  EXPECT_THAT(forbidden({{"core/backends/mpi", {"<mpi>", "core/base"}},
                         {"core/profile", {"<cupti>"}},
                         {"kernels/cuda/gemm", {"<cublas>", "core/tensor"}},
                         {"bench/commands", {"analysis/search"}}},
                        kRules),
              IsEmpty());
}

}  // namespace
}  // namespace plumbline::include_rules_test
