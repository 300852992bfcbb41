// A prediction of generation as people and programs read it.
#include "bench/show/views/generation_summary.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/config_text/load_config.hpp"

namespace plumbline::generation_summary_test {
namespace {

using testing::HasSubstr;
using testing::Not;

RunConfig generation(const Overrides& overrides = {}) {
  Overrides all = {
      {"model", "llama-3.1-8b", ""}, {"task", "generate", ""},   {"hardware", "h100-sxm-80gb", ""},
      {"precision", "bf16", ""},     {"mbs", "8", ""},           {"seq_length", "2048", ""},
      {"prompt_length", "1024", ""}, {"max_new_tokens", "3", ""}};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return load_run_config("", all);
}

TEST(GenerationSummary, TextSaysFiguresAndTheirBasis) {
  const RunConfig config = generation();
  const HardwareProfile& hardware = *find_hardware_preset("h100-sxm-80gb");
  const std::string text = generation_text(config, hardware, predict_generation(config, hardware));
  EXPECT_THAT(text,
              HasSubstr("llama-3.1-8b generates on 1 x h100-sxm-80gb: TP 1, PP 1, DP 1; bf16\n"
                        "8 sequences per replica: 1024 prompt and 3 new tokens each; KV cache of 2048"));
  EXPECT_THAT(text, HasSubstr("fits: "));
  EXPECT_THAT(text, HasSubstr("2.000"));  // GiB: 2 · 32 layers · 8 heads · 128 · 2048 tokens · 8 · 2 bytes
  EXPECT_THAT(text, HasSubstr("decode step, length 1025"));
  EXPECT_THAT(text, HasSubstr("decode step, length 1026"));
  EXPECT_THAT(text, HasSubstr("to read parameters and cache"));
  EXPECT_THAT(text, HasSubstr("workspace: estimated"));
  EXPECT_THAT(text, HasSubstr("decoding 8 and 32 sequences took 2 and 3 times as long"));
  EXPECT_THAT(text, Not(HasSubstr("one after the other")));

  const RunConfig stages = generation({{"pp", "2", ""}});
  EXPECT_THAT(generation_text(stages, hardware, predict_generation(stages, hardware)),
              HasSubstr("pipeline ranks compute one after the other"));
  EXPECT_THAT(generation_text(config, HardwareProfile(), predict_generation(config, hardware)),
              HasSubstr("time: guess from generic rates"));
}

TEST(GenerationSummary, JsonHasEveryFigure) {
  const RunConfig config = generation({{"pp", "2", ""}});
  const HardwareProfile& hardware = *find_hardware_preset("h100-sxm-80gb");
  const GenerationPrediction prediction = predict_generation(config, hardware);
  const OrderedJson json = generation_json(config, hardware, prediction);
  EXPECT_EQ(json["config"]["task"], "generate");
  EXPECT_EQ(json["memory"]["ranks"].size(), 2U);
  EXPECT_EQ(json["memory"]["ranks"][1]["cache_bytes"], std::int64_t{1} << 30);
  EXPECT_EQ(json["memory"]["peak_bytes"],
            json["memory"]["ranks"][json["memory"]["peak_rank"].get<std::size_t>()]["total_bytes"]);
  EXPECT_EQ(json["time"]["decode"].size(), 2U);
  EXPECT_EQ(json["time"]["decode"][0]["length"], 1025);
  EXPECT_NEAR(json["time"]["total_s"],
              prediction.time.prefill.value + 2 * json["time"]["decode_s"].get<double>(), 1e-12);
  EXPECT_NEAR(json["throughput"]["tokens_per_s"], 8 * 3 / json["time"]["total_s"].get<double>(), 1e-6);
  EXPECT_EQ(json["trust"]["time"], "estimated");
}

}  // namespace
}  // namespace plumbline::generation_summary_test
