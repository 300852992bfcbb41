// The checks of include_rules_test.cpp over small trees in which something is wrong.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/rules/include_checks.hpp"
#include "tests/rules/include_graph.hpp"

namespace plumbline::include_graph_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(IncludeGraph, IncludeLinesAreFound) {
  const SourceTexts sources = {
      {"a/x.hpp",
       "#pragma once\n#include <string>\n#include \"b/y.hpp\"\n  # include <mpi.h>\n// #include \"no\"\n"},
      {"a/z.cpp", "#include \"x.hpp\"\n#include \"gone.hpp\"\n"},
      {"b/y.hpp", "#include <cuda_runtime.h>\n#include \"nccl.h\"\n"},
  };
  std::vector<std::string> lines;
  for (const Include& i : includes_of(sources)) {
    lines.push_back(fmt::format("{}:{} {}{}", i.file, i.line, i.target, i.found ? "" : " (not there)"));
  }
  EXPECT_THAT(lines, ElementsAre("a/x.hpp:3 b/y.hpp", "a/x.hpp:4 <mpi>", "a/z.cpp:1 a/x.hpp",
                                 "a/z.cpp:2 gone.hpp (not there)", "b/y.hpp:1 <cuda>", "b/y.hpp:2 <nccl>"));
}

TEST(IncludeGraph, AnArrowThatIsNotInTheTableIsSeen) {
  const SourceTexts sources = {{"a/x.hpp", "#include \"b/y.hpp\"\n#include <mpi.h>\n#include \"c/z.hpp\"\n"},
                               {"b/y.hpp", ""},
                               {"c/z.hpp", "#include \"b/y.hpp\"\n#include \"b/gone.hpp\"\n"},
                               {"tests/a/x_test.cpp", "#include \"a/x.hpp\"\n"}};
  EXPECT_THAT(not_allowed(includes_of(sources), {{"a", {"b"}}}),
              ElementsAre("a/x.hpp:2: includes <mpi>: the table has no arrow from a to <mpi>",
                          "a/x.hpp:3: includes c/z.hpp: the table has no arrow from a to c",
                          "c/z.hpp:1: includes b/y.hpp: the table has no arrow from c to b",
                          "c/z.hpp:2: there is no b/gone.hpp"));
}

TEST(IncludeGraph, AnUnusedRowIsSeen) {
  EXPECT_THAT(unused({{"a", {"b", "c"}}, {"d", {"a"}}}, {{"a", {"b"}}, {"b", {"c"}}}),
              ElementsAre("nothing in a includes anything of c: take the arrow out",
                          "nothing in d includes anything of a: take the arrow out"));
}

TEST(IncludeGraph, LoopsAreSeen) {
  // Files: x.hpp and y.hpp include each other. Units: only z.cpp leads from z to x.
  const std::vector<Include> includes =
      includes_of({{"a/x.hpp", "#include \"a/y.hpp\"\n#include \"b/z.hpp\"\n"},
                   {"a/y.hpp", "#include \"a/x.hpp\"\n"},
                   {"b/z.hpp", ""},
                   {"b/z.cpp", "#include \"a/x.hpp\"\n#include \"b/z.hpp\"\n"},
                   {"c/w.hpp", "#include \"a/x.hpp\"\n"}});
  EXPECT_THAT(loops_in(arrows_of(includes, itself)), ElementsAre(ElementsAre("a/x.hpp", "a/y.hpp")));
  EXPECT_THAT(loops_in(arrows_of(includes, unit_of)), ElementsAre(ElementsAre("a/x", "a/y", "b/z")));
  EXPECT_THAT(loops_in(arrows_of(includes, room_of)), ElementsAre(ElementsAre("a", "b")));
  EXPECT_THAT(loops_in({{"a", {"b", "c"}}, {"b", {"d"}}, {"c", {"d"}}}), IsEmpty());
  EXPECT_THAT(loops_in({{"a", {"b"}}, {"b", {"a", "c"}}, {"c", {"d"}}, {"d", {"e"}}, {"e", {"c"}}}),
              ElementsAre(ElementsAre("c", "d", "e"), ElementsAre("a", "b")));
}

TEST(IncludeGraph, ACrowdedFolderIsSeen) {
  const SourceTexts sources = {{"a/x.hpp", ""}, {"a/y.hpp", ""}, {"a/b/z.hpp", ""}};
  EXPECT_THAT(crowded(sources, 1), ElementsAre("a: 2 files, at most 1 fit"));
  EXPECT_THAT(crowded(sources, 2), IsEmpty());
}

}  // namespace
}  // namespace plumbline::include_graph_test
