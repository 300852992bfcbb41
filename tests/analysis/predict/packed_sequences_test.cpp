// Documents in sequences: packing, attention left on each rank, and predictions that follow.
#include "analysis/predict/packed_sequences.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "analysis/predict/predict.hpp"
#include "analysis/step/stage_shapes.hpp"
#include "analysis/work/flops.hpp"
#include "bench/plan/plan.hpp"
#include "core/base/error.hpp"

namespace plumbline::packed_sequences_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

RunConfig config_of(std::int64_t seq_length, int context = 1, int replicas = 1) {
  RunConfig config;
  config.model = *find_preset("llama-3.1-8b");
  config.model.layers = 2;
  config.batch = {.seq_length = seq_length, .micro_batch_size = 1, .global_batch_size = 2};
  config.numerics.precision = DType::bf16;
  config.machine.hardware = "h100-sxm-80gb";
  config.parallel.context = context;
  config.parallel.world_size = context * replicas;
  return config;
}

TEST(PackedSequences, DocumentsFollowEachOtherUntilOneHasNoRoom) {
  const PackedSequences packed = pack_sequences("3\n 5 \r\n\n2\n7\n8\n1", "f", 8);
  EXPECT_THAT(packed.lengths, ElementsAre(3, 5, 2, 7, 8, 1));
  EXPECT_THAT(packed.first_of, ElementsAre(0U, 2U, 3U, 4U, 5U));
  EXPECT_EQ(packed.tokens, 26);
  EXPECT_EQ(packed.longest, 8);
}

TEST(PackedSequences, WhatIsNoLengthIsNamedWithItsLine) {
  struct Case {
    std::string text, says;
  };
  for (const Case& c :
       {Case{"", "f: found no lengths"}, Case{"\n \r\n", "f: found no lengths"},
        Case{"4\nfour\n", "f:2: found \"four\", expected the tokens of a document: a whole number from 1 to"},
        Case{"9",
             "f:1: found \"9\", expected the tokens of a document: a whole number from 1 to seq_length 8"},
        Case{"0", "f:1: found \"0\""}, Case{"-3", "f:1: found \"-3\""}, Case{"3 4", "f:1: found \"3 4\""},
        Case{"4.5", "f:1: found \"4.5\""}, Case{"99999999999999999999", "f:1: found \"9999"},
        Case{std::string("\x1b[2J\0", 5), "f:1: found \"?[2J?\""}, Case{std::string(1000, '7'), "...\""}}) {
    EXPECT_THAT([&] { pack_sequences(c.text, "f", 8); }, ThrowsMessage<InputError>(HasSubstr(c.says)));
  }
  EXPECT_THAT([] { read_sequence_lengths("/nowhere/lengths.txt", 8); },
              ThrowsMessage<InputError>(HasSubstr("/nowhere/lengths.txt")));
}

// By hand, sequences of eight tokens, two per step: the pairs of a document of n tokens are n²/2.
TEST(PackedSequences, PairsFollowTheLengths) {
  struct Case {
    const char* name;
    const char* lengths;
    int context, replicas;
    bool balanced;
    CpCommType type;
    double mean, slowest;
  };
  using enum CpCommType;
  const Case cases[] = {
      {"halves", "4\n4", 1, 1, true, p2p, 0.5, 0.5},
      {"whole", "8", 1, 1, true, p2p, 1, 1},
      {"one whole, one of halves", "8\n4\n4", 1, 1, true, p2p, 0.75, 0.75},
      {"each on a replica: all wait for the whole one", "8\n4\n4", 1, 2, true, p2p, 0.75, 1},
      {"padding has none", "6\n6", 1, 1, true, p2p, 36.0 / 64, 36.0 / 64},
      {"halves over two ranks", "4\n4", 2, 1, true, p2p, 0.5, 0.5},
      {"2 + 6: chunks of 2, 2, 6 and 10 pairs", "2\n6", 2, 1, true, all_gather, 20.0 / 32, 12.0 / 16},
      {"without balance the last rank has 16 of 20, of 24 of 32", "2\n6", 2, 1, false, p2p, 20.0 / 32,
       16.0 / 24},
      {"heads exchanged: all have as many", "2\n6", 2, 1, true, a2a, 20.0 / 32, 20.0 / 32},
      {"three sequences are two steps, the first sequence twice", "8\n4\n4\n4\n4", 1, 2, true, p2p, 0.75, 1}};
  for (const Case& c : cases) {
    RunConfig config = config_of(8, c.context, c.replicas);
    config.parallel.cp.load_balance = c.balanced;
    config.parallel.cp.comm_type = c.type;
    const PackedSequences packed = pack_sequences(c.lengths, "f", 8);
    const PackedWork work = packed_work(packed, config);
    EXPECT_DOUBLE_EQ(work.attention.mean, c.mean) << c.name;
    EXPECT_DOUBLE_EQ(work.attention.slowest, c.slowest) << c.name;
    config.machine.software = "megatron-core";  // cuts every document for its ranks
    if (c.balanced && c.replicas == 1) {
      EXPECT_DOUBLE_EQ(packed_work(packed, config).attention.slowest, c.mean) << c.name;
    }
  }
  const PackedWork work = packed_work(pack_sequences("2\n6", "f", 8), config_of(8, 2));
  EXPECT_THAT(work.by_context_rank, ElementsAre(1.2, 0.8));
  RunConfig both = config_of(16, 4);  // groups of two have two chunks of four tokens each
  both.parallel.cp.comm_type = CpCommType::a2a_p2p;
  both.parallel.cp.hierarchical = {2, 2};
  EXPECT_DOUBLE_EQ(packed_work(pack_sequences("4\n12", "f", 16), both).attention.slowest, 12.0 / 16);
}

TEST(PackedSequences, PredictionsHaveAsMuchAttention) {
  const HardwareProfile hardware = *find_hardware_preset("h100-sxm-80gb");
  for (const char* software : {"plumbline", "megatron-core"}) {
    RunConfig config = config_of(32768, 4);
    config.machine.software = software;
    const auto attention = [&] {
      Flops sum;
      for (const OperatorCall& call : forward_calls(stage_shapes(config, 1).front())) {
        if (call.as<AttentionCall>() != nullptr) sum += flops_of(call);
      }
      return sum.value;
    };
    const double whole = attention();
    const double model = model_flops_per_token(config).value;
    const double executed = executed_flops_per_token(config, 1).value;
    const Seconds step = predict(config, schedule_for(config), hardware).time.step;
    const Bytes peak = predict(config, schedule_for(config), hardware).memory.peak;
    config.batch.packed = packed_work(pack_sequences("8192\n8192\n16384\n", "f", 32768), config).attention;
    EXPECT_DOUBLE_EQ(config.batch.packed.mean, 3.0 / 8) << software;
    EXPECT_NEAR(attention() / whole, config.batch.packed.slowest, 1e-9) << software;
    const double width = 2.0 * 4096;  // layers · heads · head size
    EXPECT_NEAR(model - model_flops_per_token(config).value, 6 * width * 32768 * 5 / 8, 1) << software;
    EXPECT_LT(executed_flops_per_token(config, 1).value, executed) << software;
    EXPECT_LT(predict(config, schedule_for(config), hardware).time.step.value, 0.9 * step.value) << software;
    EXPECT_EQ(predict(config, schedule_for(config), hardware).memory.peak, peak) << software;
  }
}

TEST(PackedSequences, OtherMasksAreRefused) {
  const PackedSequences packed = pack_sequences("4\n4", "f", 8);
  RunConfig window = config_of(8);
  window.model.window.size = 4;
  RunConfig prefix = config_of(8);
  prefix.batch.prefix_length = 2;
  RunConfig unfused = config_of(8);
  unfused.numerics.attention_backend = AttentionBackend::unfused;
  RunConfig large = config_of(8);
  large.batch.global_batch_size = 1 << 28;
  for (const auto& [config, says] :
       {std::pair{window, "found a model with a sliding window, expected plain causal attention"},
        std::pair{prefix, "found a prefix_length"}, std::pair{unfused, "found attention_backend unfused"},
        std::pair{large, "found 1 sequences for steps of 268435456 over 1 ranks each"}}) {
    const auto counted = [&packed, &given = config] { packed_work(packed, given); };
    EXPECT_THAT(counted, ThrowsMessage<InputError>(HasSubstr(says)));
  }
}

}  // namespace
}  // namespace plumbline::packed_sequences_test
