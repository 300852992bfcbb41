// Shapes that are warned of, and those that are not.
#include "analysis/predict/shape_warnings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "analysis/hardware/profiles/profiles.hpp"
#include "core/config_text/load_config.hpp"

namespace plumbline::shape_warnings_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> warned(const char* hardware, void (*change)(RunConfig&)) {
  RunConfig config = load_run_config("", {{"model", "llama-3.1-8b"}, {"micro_batch_size", "1"}});
  config.batch.seq_length = 4096;
  change(config);
  return shape_warnings(config, *find_hardware_preset(hardware));
}

TEST(ShapeWarnings, NameWhatIsOffTheTiles) {
  constexpr const char* kH100 = "h100-sxm-80gb";
  EXPECT_THAT(warned(kH100, [](RunConfig&) {}), IsEmpty());
  EXPECT_THAT(warned(kH100, [](RunConfig& c) { c.model.head_dim = 108; }),
              ElementsAre(HasSubstr("heads of 108 are no multiple of 8")));
  EXPECT_THAT(warned(kH100, [](RunConfig& c) { c.model.head_dim = 64; }),
              ElementsAre(HasSubstr("heads of 64: kernels reach a smaller share")));
  EXPECT_THAT(warned(kH100,
                     [](RunConfig& c) {
                       c.model.vocab = 50257;
                       c.parallel.make_vocab_size_divisible_by = 1;
                     }),
              ElementsAre(HasSubstr("a vocabulary of 50257 over 1 tensor ranks")));
  EXPECT_THAT(warned(kH100, [](RunConfig& c) { c.batch.seq_length = 256; }),
              ElementsAre(HasSubstr("work for 64 of 132 processors")));
  EXPECT_THAT(warned("a100-pcie-80gb", [](RunConfig& c) { c.parallel.tensor = 2; }),
              ElementsAre(HasSubstr("tensor parallelism over a link of 20 GB/s")));
  EXPECT_THAT(warned("a100-sxm-80gb", [](RunConfig& c) { c.parallel.tensor = 2; }), IsEmpty());
}

TEST(ShapeWarnings, AreOfAcceleratorsAlone) {
  RunConfig config;
  config.model.head_dim = 3;
  EXPECT_THAT(shape_warnings(config, HardwareProfile{}), IsEmpty());
}

}  // namespace
}  // namespace plumbline::shape_warnings_test
