// Layers of stages, and vocabularies that are cut.
#include "core/config/layer_distribution.hpp"

#include "core/base/error.hpp"
#include "tests/core/config/reasons.hpp"

namespace plumbline::layer_distribution_test {
namespace {

using test::expect_reason;
using test::expect_refusals;

TEST(LayerDistribution, AndSplitVocabularies) {
  expect_refusals(
      {
          {"vocab_parallel=vocab-1 pp=2", ""},
          {"vocab_parallel=vocab-2 pp=2 pipeline_schedule=v-half", ""},
          {"vocab_parallel=interlaced pp=2", ""},
          {"vocab_parallel=interlaced pp=2 pipeline_schedule=v-half", "v-half, expected 1f1b"},
          {"vocab_parallel=vocab-2 pp=2 pipeline_schedule=gpipe", "expected 1f1b or v-half"},
          {"pipeline_schedule=vocab-1", "expected 1f1b with vocab_parallel: vocab-1"},
          {"pipeline_schedule=v-half-vocab-2", "expected v-half with vocab_parallel: vocab-2"},
          {"vocab_parallel=vocab-1 pp=2 tp=2 sequence_parallel=true", ""},
          {"vocab_parallel=vocab-1 pp=2 tp=2 sequence_parallel=true software=megatron-vocabulary",
           "expected it off"},
          {"layer_distribution=balanced pp=2", ""},
          {"layer_distribution=3,1 pp=2", ""},
          {"layer_distribution=3,2 pp=2", "found 5 layers in all, expected the 4"},
          {"layer_distribution=4,0 pp=2", ""},
          {"layer_distribution=0,4 pp=2", "found no layer on stage 0 of 2"},
          {"layer_distribution=0,4 pp=2 software=megatron-2022", ""},
          {"layer_distribution=2,0,2 pp=3 software=megatron-2022", "found no layer on stage 1 of 3"},
          {"layer_distribution=0,1,1,1,1,0 pp=6 software=megatron-2022", ""},
          {"layer_distribution=0,1,1,1,1,0 pp=6", "expected at most the 4 layers"},
          {"layer_distribution=embedding+loss pp=2", ""},
          {"layer_distribution=loss+embedding pp=2",
           "found \"loss+embedding\", expected even, balanced, emb"},
          {"layer_distribution=fewest",
           "found \"fewest\", expected even, balanced, embedding+loss, embedding"},
      },
      "model=" + test::llama());
  RunConfig few;
  few.model = *find_preset("gpt2-124m");
  few.model.vocab = 5;
  few.parallel.pipeline = few.parallel.world_size = 6;
  few.parallel.pp.vocab_parallel = VocabPasses::two_barriers;
  few.batch.seq_length = 16;
  expect_reason(why_invalid(few), "at least one token id for each of the 6 ranks");
}

TEST(LayerDistribution, EvenBalancedAndGiven) {
  EXPECT_EQ(even_layers(24, 4), (std::vector<int>{6, 6, 6, 6}));
  EXPECT_EQ(even_layers(7, 3), (std::vector<int>{3, 2, 2}));
  EXPECT_EQ(even_layers(3, 3), (std::vector<int>{1, 1, 1}));
  RunConfig c;
  c.model = *find_preset("gpt2-124m");  // 12 layers of 2·h·12h + 2·h·s, output layer 2·h·v
  c.batch.seq_length = 1024;
  EXPECT_NEAR(output_layer_in_layers(c), 50304 / (12.0 * 768 + 1024), 1e-12);  // 4.9 layers
  EXPECT_EQ(layers_per_stage(c, 2), (std::vector<int>{6, 6}));
  c.parallel.pp.layer_distribution = "balanced";
  EXPECT_EQ(layers_per_stage(c, 2), (std::vector<int>{8, 4}));        // 8 against 8.9; 9 against 7.9
  EXPECT_EQ(layers_per_stage(c, 4), (std::vector<int>{4, 4, 4, 0}));  // 4.9; with one layer there 5.9
  EXPECT_EQ(layers_per_stage(c, 5), (std::vector<int>{3, 3, 3, 3, 0}));
  c.batch.seq_length = 1 << 20;  // the output layer is next to nothing
  EXPECT_EQ(layers_per_stage(c, 5), (std::vector<int>{2, 2, 3, 3, 2}));
  c.batch.seq_length = 1024;
  c.parallel.pipeline = 2;
  c.parallel.pp.vocab_parallel = VocabPasses::one_barrier;
  EXPECT_EQ(layers_per_stage(c, 2), (std::vector<int>{6, 6}));
  c.parallel.pp.layer_distribution = "embedding+loss";
  EXPECT_EQ(layers_per_stage(c, 7), (std::vector<int>{1, 2, 2, 2, 2, 2, 1}));
  EXPECT_EQ(layers_per_stage(c, 1), (std::vector<int>{12}));
  EXPECT_THAT([&] { layers_per_stage(c, 4); },
              testing::ThrowsMessage<InputError>(
                  testing::HasSubstr("the 12 layers of gpt2-124m on 4 stages, expected 14 in equal parts")));
  EXPECT_THAT([&] { layers_per_stage(c, 14); },
              testing::ThrowsMessage<InputError>(testing::HasSubstr("expected one at least beside")));
  c.machine.software = "megatron-core";  // a first stage may have the embedding alone
  EXPECT_EQ(layers_per_stage(c, 14).front(), 0);
  EXPECT_EQ(ends_without_layers(c), 2);
  c.parallel.pp.layer_distribution = "loss";
  EXPECT_EQ(layers_per_stage(c, 13), (std::vector<int>{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0}));
  c.parallel.pp.layer_distribution = "embedding";
  EXPECT_EQ(layers_per_stage(c, 13).front(), 0);
  c.machine.software = "plumbline";
  c.parallel.pp.layer_distribution = "7,5";
  EXPECT_EQ(layers_per_stage(c, 2), (std::vector<int>{7, 5}));
  EXPECT_THAT([&] { layers_per_stage(c, 3); },
              testing::ThrowsMessage<InputError>(testing::HasSubstr("found 2 numbers")));
}

}  // namespace
}  // namespace plumbline::layer_distribution_test
