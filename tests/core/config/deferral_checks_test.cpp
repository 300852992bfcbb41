// Conflicts of deferred output-layer weight gradients, one line each.
#include "tests/core/config/reasons.hpp"

namespace plumbline::deferral_checks_test {
namespace {

TEST(DeferralChecks, WhatDoesNotGoWithItIsRefusedInOneLine) {
  test::expect_refusals(
      {
          {"", ""},
          {"pipeline_schedule=interleaved virtual_pipeline_chunks=2", ""},
          {"pipeline_schedule=gpipe zero_stage=3", ""},
          {"pp=1 world_size=1",
           "defer_embedding_wgrad_compute: found true with one pipeline rank, which has no bubble to compute "
           "them in; expected false"},
          {"pipeline_schedule=zb-h1",
           "defer_embedding_wgrad_compute: found true with pipeline_schedule zb-h1, expected false, or one "
           "whose backwards are whole"},
          {"", "defer_embedding_wgrad_compute: found true with pipeline_schedule mine.csv",
           [](RunConfig& c) { c.parallel.pp.schedule = "mine.csv"; }},
          {"vocab_parallel=vocab-2", "defer_embedding_wgrad_compute: found true with vocab_parallel"},
          {"teacher=llama-3-8b", "defer_embedding_wgrad_compute: found true with a teacher"},
          {"mtp_num_layers=1", ""},
          {"wgrad_deferral_limit=2",
           "wgrad_deferral_limit: found 2 with software plumbline, which defers all"},
          {"software=megatron-core wgrad_deferral_limit=2", ""},
          {"software=megatron-core mtp_num_layers=1",
           "defer_embedding_wgrad_compute: found true with mtp_num_layers 1"},
          {"software=megatron-core defer_embedding_wgrad_compute=false wgrad_deferral_limit=2",
           "wgrad_deferral_limit: found 2 with defer_embedding_wgrad_compute true, expected"},
      },
      "model=llama-3-8b pp=4 world_size=4 gbs=8 defer_embedding_wgrad_compute=true");
}

}  // namespace
}  // namespace plumbline::deferral_checks_test
