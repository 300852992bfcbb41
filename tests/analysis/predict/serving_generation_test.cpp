// Generation under inference engines: fused experts, kernels of decoding, hosts, memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "analysis/predict/generation.hpp"
#include "analysis/serving/inference_engine.hpp"
#include "analysis/work/generation_list.hpp"
#include "core/base/error.hpp"
#include "core/config_text/load_config.hpp"

namespace plumbline::serving_generation_test {
namespace {

constexpr const char* kEngineNames[] = {"sglang", "tensorrt-llm", "vllm", "vllm-v0", "vllm-v1"};

RunConfig serving(const std::string& model, const std::string& software, int batch,
                  const Overrides& more = {}) {
  Overrides all = {{"model", model, ""},       {"task", "generate", ""},
                   {"precision", "bf16", ""},  {"hardware", "h100-sxm-80gb", ""},
                   {"software", software, ""}, {"mbs", std::to_string(batch), ""},
                   {"seq_length", "640", ""},  {"max_new_tokens", "128", ""}};
  all.insert(all.end(), more.begin(), more.end());
  return load_run_config("", all);
}

GenerationPrediction predicted(const RunConfig& config) {
  return predict_generation(config, *find_hardware_preset(config.machine.hardware));
}

GenerationPrediction predicted(const std::string& model, const std::string& software, int batch,
                               const Overrides& more = {}) {
  return predicted(serving(model, software, batch, more));
}

std::int64_t products_of(const GenerationPrediction& prediction, const std::string& phase) {
  std::int64_t count = 0;
  for (const CostLine& line : prediction.lines)
    if (line.phase == phase && line.label.starts_with("fc")) count += line.count;
  return count;
}

double seconds_of(const GenerationPrediction& prediction, const std::string& phase,
                  const std::string& label) {
  double sum = 0;
  for (const CostLine& line : prediction.lines)
    if (line.phase == phase && line.label.find(label) != std::string::npos) sum += line.seconds.value;
  return sum;
}

TEST(ServingGeneration, ExpertsReachedAreTheExpectedOnes) {
  EXPECT_NEAR(experts_reached(128, 8, 1), 8, 1e-9);
  EXPECT_NEAR(experts_reached(8, 2, 1), 2, 1e-9);
  EXPECT_NEAR(experts_reached(8, 2, 4), 8 * (1 - std::pow(0.75, 4)), 1e-9);
  EXPECT_NEAR(experts_reached(128, 8, 1000), 128, 1e-6);
  EXPECT_NEAR(experts_reached(4, 4, 3), 4, 1e-12);  // each token takes all
}

/// Own software runs a product per expert with tokens and matrix; engines two grouped ones a layer.
TEST(ServingGeneration, ExpertsAreFusedUnderEnginesAlone) {
  const struct {
    const char* model;
    int batch;
    std::int64_t layers, own;  // own: products of a decoding step
  } kCases[] = {
      {"mixtral-8x7b", 1, 32, 2 * 32 * 2},
      {"mixtral-8x7b", 64, 32, 2 * 32 * 8},
      {"qwen3-30b-a3b", 1, 48, 2 * 48 * 8},
      {"qwen3-30b-a3b", 64, 48, 2 * 48 * 128},
  };
  for (const auto& of : kCases) {
    EXPECT_EQ(products_of(predicted(of.model, "plumbline", of.batch), "decode"), of.own) << of.model;
    for (const char* engine : kEngineNames) {
      const GenerationPrediction prediction = predicted(of.model, engine, of.batch);
      EXPECT_EQ(products_of(prediction, "decode"), 2 * of.layers) << of.model << ' ' << engine;
      EXPECT_EQ(products_of(prediction, "prefill"), 2 * of.layers) << of.model << ' ' << engine;
      EXPECT_EQ(seconds_of(prediction, "decode", "combine_rows"), 0);
    }
  }
}

/// Weights of the experts that have tokens are read once: as the share of the bandwidth says.
TEST(ServingGeneration, GroupedProductsReadTheReachedExperts) {
  const HardwareProfile& hardware = *find_hardware_preset("h100-sxm-80gb");
  const Device& device = hardware.accelerator()->constants.device;
  for (const int batch : {1, 4, 16, 64}) {
    for (const int tp : {1, 2}) {
      const RunConfig config = serving("qwen3-30b-a3b", "vllm", batch, {{"tp", std::to_string(tp), ""}});
      const GenerationPrediction prediction = predicted(config);
      const double weights = experts_reached(128, 8, batch) * 3 * 2048 * 768 / tp * 2;
      const double read = 48 * (weights / (device.bandwidth * device.serving.experts_share));
      const double grouped = seconds_of(prediction, "decode", "fc") - 48 * device.serving.experts_s;
      EXPECT_NEAR(grouped, read, 0.04 * read) << batch << ' ' << tp;  // and rows of activations
    }
  }
  // Beyond all experts, more tokens read no more.
  const double many = predicted("qwen3-30b-a3b", "vllm", 256).time.decode_mean.value;
  const double few = predicted("qwen3-30b-a3b", "vllm", 1).time.decode_mean.value;
  EXPECT_GT(many, 2 * few);
  EXPECT_LT(many, 10 * few);
}

TEST(ServingGeneration, FlopsAreThoseOfTheRows) {
  const auto flops = [](const GenerationPrediction& prediction) {
    double sum = 0;
    for (const CostLine& line : prediction.lines)
      if (line.phase == "prefill" && line.label.starts_with("fc")) sum += line.flops.value;
    return sum;
  };
  const double wanted = 2.0 * 4 * 512 * 8 * 3 * 2048 * 768 * 48;
  EXPECT_NEAR(flops(predicted("qwen3-30b-a3b", "vllm", 4)), wanted, 1e-9 * wanted);
  EXPECT_NEAR(flops(predicted("qwen3-30b-a3b", "plumbline", 4)), wanted, 1e-9 * wanted);
}

/// Engines shard experts over tensor ranks, which reduce their sums; the own step's rule does not bind
/// them.
TEST(ServingGeneration, ExpertsAreShardedOverTensorRanks) {
  const double one = predicted("mixtral-8x7b", "vllm", 8).time.decode_mean.value;
  const GenerationPrediction two = predicted("mixtral-8x7b", "vllm", 8, {{"tp", "2", ""}});
  EXPECT_LT(two.time.decode_mean.value, 0.75 * one);
  EXPECT_GT(two.time.decode_mean.value, 0.5 * one);
  EXPECT_GT(seconds_of(two, "decode", "all-reduce"), 0);
}

/// Small all-reduces are the custom kernel's on NVLink: 4.3 us on an H100, not NCCL's.
TEST(ServingGeneration, SmallAllReducesAreTheEngines) {
  const auto each = [](const std::string& software, int batch) {
    const GenerationPrediction prediction = predicted("llama-3.1-70b", software, batch, {{"tp", "8", ""}});
    return seconds_of(prediction, "decode", "tensor all-reduce") / 160;
  };
  EXPECT_GT(each("vllm", 1), 4.3e-6);
  EXPECT_LT(each("vllm", 1), 6e-6);
  EXPECT_GT(each("vllm", 16), each("vllm", 1));
  EXPECT_LT(each("vllm", 16), each("plumbline", 16));
}

/// Releases of vLLM differ in what the GPUs wait for between steps; sequences add to it.
TEST(ServingGeneration, HostsOfReleasesDiffer) {
  const auto step = [](const char* engine, int batch) {
    return predicted("llama-3.1-8b", engine, batch).time.decode_mean.value;
  };
  for (const int batch : {1, 64}) {
    EXPECT_GT(step("vllm-v0", batch), step("vllm-v1", batch));
    EXPECT_GT(step("vllm-v1", batch), step("vllm", batch));
    EXPECT_EQ(step("vllm", batch), step("sglang", batch));
  }
  EXPECT_NEAR(step("vllm-v0", 64) - step("vllm", 64), 0.9e-3 + 64 * 1.7e-5, 1e-9);
  // A short eager prefill waits for launches, one in graphs does not.
  const auto prefill = [](const char* engine) {
    return predicted("qwen2.5-0.5b", engine, 1, {{"prompt_length", "8", ""}}).time.prefill.value;
  };
  EXPECT_GT(prefill("vllm-v0"), prefill("vllm") + 0.9e-3 + 0.3e-3);
}

/// 80 GB: 512 MiB + 1.5 x 8192 + 128 per GPU + 2 x 256 MiB stay free; 10 GiB at least.
TEST(ServingGeneration, SglangKeepsItsReserve) {
  constexpr double kGib = 1 << 30, kMib = 1 << 20;
  const auto gib = [](double size) { return Bytes{static_cast<std::int64_t>(size * (1 << 30))}; };
  EXPECT_NEAR(static_cast<double>(sglang_reserve(gib(80), 1).value), (512 + 12'288 + 128 + 512) * kMib, 1);
  EXPECT_NEAR(static_cast<double>(sglang_reserve(gib(80), 8).value), (512 + 12'288 + 1024 + 512) * kMib, 1);
  EXPECT_NEAR(static_cast<double>(sglang_reserve(gib(180), 1).value), (512 + 24'576 + 128 + 1024) * kMib, 1);
  const GenerationPrediction prediction = predicted("llama-3.1-8b", "sglang", 8);
  const double room =
      static_cast<double>(prediction.limit.value) -
      static_cast<double>((sglang_reserve(prediction.limit, 1) + prediction.ranks[0].parameters).value);
  EXPECT_NEAR(static_cast<double>(prediction.cache_tokens), room / (2.0 * 32 * 8 * 128 * 2), 1);
  EXPECT_GT(room, 40 * kGib);
}

TEST(ServingGeneration, AStepOfLiveSequencesIsThatOfAGeneration) {
  for (const char* software : {"plumbline", "vllm"}) {
    const RunConfig config = serving("llama-3.1-8b", software, 8);
    const HardwareProfile& hardware = *find_hardware_preset(config.machine.hardware);
    const DecodeTime wanted = predicted(config).time.decode[1];
    const DecodeTime found = decode_step(config, hardware, 8, wanted.length);
    EXPECT_EQ(found.length, wanted.length);
    EXPECT_NEAR(found.step.value, wanted.step.value, 1e-12);
    EXPECT_NEAR(found.bound.value, wanted.bound.value, 1e-12);
    EXPECT_LT(decode_step(config, hardware, 4, 512).step, decode_step(config, hardware, 64, 512).step);
    EXPECT_LT(decode_step(config, hardware, 64, 512).step, decode_step(config, hardware, 64, 4096).step);
  }
  const RunConfig config = serving("llama-3.1-8b", "vllm", 8);
  const HardwareProfile& hardware = *find_hardware_preset(config.machine.hardware);
  EXPECT_THROW(decode_step(config, hardware, 0, 512), InputError);
  EXPECT_THROW(decode_step(config, hardware, 1, 1), InputError);
}

/// DeepSeek-V3 keeps 512 + 64 elements of a token and layer, the same on every tensor rank; own software the
/// keys and values of its heads.
TEST(ServingGeneration, LatentCachesAreCompressed) {
  for (const int tp : {1, 8}) {
    const Overrides more = {{"tp", std::to_string(tp), ""}, {"seq_length", "4096", ""}};
    const GenerationPrediction engine = predicted("deepseek-v3", "sglang", 16, more);
    EXPECT_EQ(engine.ranks[0].cache.value, std::int64_t{61} * 576 * 2 * 16 * 4096);
    const GenerationPrediction own = predicted("deepseek-v3", "plumbline", 16, more);
    EXPECT_EQ(own.ranks[0].cache.value, std::int64_t{61} * 128 / tp * 320 * 2 * 16 * 4096);
    EXPECT_LT(seconds_of(engine, "decode", "attention"), seconds_of(own, "decode", "attention"));
  }
  // Long caches are read once for all heads.
  const auto attention = [](int length) {
    const Overrides more = {{"seq_length", std::to_string(length), ""}, {"tp", "8", ""}};
    return seconds_of(predicted("deepseek-v3", "vllm", 64, more), "decode", "attention") / 61;
  };
  const Device& device = find_hardware_preset("h100-sxm-80gb")->accelerator()->constants.device;
  const double more = 64.0 * 576 * 2 * 16'384 / (device.bandwidth * device.serving.attention_share);
  EXPECT_NEAR(attention(32'768) - attention(16'384), more, 0.05 * more);
}

/// No engine is faster than reading what it reads, on any accelerator.
TEST(ServingGeneration, NoStepIsFasterThanTheMemory) {
  for (const char* hardware :
       {"a100-sxm-40gb", "h20-sxm-96gb", "h200-sxm-141gb", "b200-sxm-180gb", "mi300x"}) {
    for (const char* model : {"llama-3.1-8b", "qwen3-30b-a3b"}) {
      for (const int batch : {1, 32}) {
        const GenerationPrediction prediction =
            predicted(model, "sglang", batch, {{"hardware", hardware, ""}});
        for (const DecodeTime& step : prediction.time.decode)
          EXPECT_GT(step.step.value, 0.95 * step.bound.value) << hardware << ' ' << model << ' ' << batch;
      }
    }
  }
}

}  // namespace
}  // namespace plumbline::serving_generation_test
