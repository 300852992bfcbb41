#include "analysis/published/published_jobs.hpp"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace plumbline::cluster {
namespace {

void finish_schedule(PublishedRun& run, const std::string& name) {
  run.schedule.name = name;
  run.schedule.pipeline = run.job.pipeline;
  run.schedule.microbatches = run.job.microbatches;
  run.schedule.chunks = run.job.chunks;
  run.schedule.vocabulary = run.job.vocabulary;
}

int divided(const PublishedRow& row, std::string_view column, int total, int divisor) {
  if (divisor < 1 || total < divisor || total % divisor != 0) {
    row.fail(column, fmt::format("a multiple of {}", divisor));
  }
  return total / divisor;
}

void check_run(const PublishedRow& row, const PublishedRun& run) {
  const Job& job = run.job;
  if (job.pipeline > 256) row.fail("pp", "at most 256 stages");
  if (static_cast<double>(job.pipeline) * job.microbatches * job.chunks > 4e6) {
    row.fail("micro_batch", "at most 4,000,000 micro-batches times stages");
  }
  if (job.model.layers < job.pipeline * job.chunks - 2) row.fail("layers", "at least one layer per stage");
}

/// The shape columns that most tables share.
Job megatron_job(const PublishedRow& row, bool tied) {
  Job job;
  job.sequence = row.integer("seq", 1 << 22);
  job.model = gpt_model(row.integer("layers", 10'000), row.integer("hidden"), row.integer("heads", 10'000),
                        row.has("vocab") ? row.integer("vocab", 10'000'000) : 32000, job.sequence, tied);
  return job;
}

std::vector<PublishedRun> sc21_table1(const PublishedRow& row) {
  PublishedRun run;
  run.machine = "a100-sxm-80gb";
  run.software = "megatron-2021";
  Job& job = run.job = megatron_job(row, true);
  job.tensor = row.integer("tp", 1024);
  job.pipeline = row.integer("pp", 256);
  job.data = row.integer("dp");
  job.chunks = row.integer("vpp_chunks", 64);
  job.micro_batch = row.integer("micro_batch", 100'000);
  job.microbatches =
      divided(row, "global_batch", row.integer("global_batch", 100'000'000), job.data * job.micro_batch);
  job.recomputation = Recomputation::full;
  run.label = fmt::format("{} B, t{} p{} d{}", row.text("params_B"), job.tensor, job.pipeline, job.data);
  check_run(row, run);
  run.placement = even_placement(job.model.layers, job.pipeline * job.chunks);
  finish_schedule(run, job.chunks > 1 ? "interleaved" : "1f1b");
  if (row.has("iter_s_derived_from_eq3")) run.step_s = row.number("iter_s_derived_from_eq3");
  return {run};
}

/// PTD-P's rows: 96 ranks of a model are 8 tensor ranks, a node, by 12 stages. They run without interleaving:
/// from 384 to 1536 accelerators the printed rates fall by 0.922 as 1F1B's bubbles of 384 and 96
/// micro-batches would have it, 0.923. ZeRO-3's rows are left out: they wait for parameters for most of a
/// step, at a tenth of the links' rate.
std::vector<PublishedRun> sc21_table2(const PublishedRow& row) {
  if (row.text("scheme") != "PTD-P") return {};
  PublishedRun run;
  run.machine = "a100-sxm-80gb";
  run.software = "megatron-2021";
  Job& job = run.job;
  job.sequence = 2048;
  job.model = gpt_model(96, 12288, 96, 51200, job.sequence, true);
  job.tensor = 8;
  job.pipeline = divided(row, "model_parallel_size", row.integer("model_parallel_size", 1024), job.tensor);
  job.data = divided(row, "gpus", row.integer("gpus"), job.tensor * job.pipeline);
  job.micro_batch = row.integer("micro_batch", 100'000);
  const int batch = row.integer("global_batch", 100'000'000);
  job.microbatches = divided(row, "global_batch", batch, job.data * job.micro_batch);
  job.recomputation = Recomputation::full;
  run.label = fmt::format("{} B, t{} p{} d{}", row.text("params_B"), job.tensor, job.pipeline, job.data);
  check_run(row, run);
  run.placement = even_placement(job.model.layers, job.pipeline);
  finish_schedule(run, "1f1b");
  // Equation 3 of the paper, recomputation included.
  const double h = job.model.hidden;
  const double flops = 96.0 * batch * job.sequence * job.model.layers * h * h *
                       (1 + job.sequence / (6 * h) + job.model.vocab / (16 * job.model.layers * h));
  if (row.has("tflops_per_gpu")) {
    run.step_s = flops / (row.number("tflops_per_gpu", 1e4) * 1e12 * row.integer("gpus"));
  }
  return {run};
}

std::vector<PublishedRun> korthikanti_table5(const PublishedRow& row) {
  std::vector<PublishedRun> runs;
  for (const bool present : {false, true}) {
    PublishedRun run;
    run.machine = "a100-sxm-80gb";
    run.software = "megatron-2022";
    Job& job = run.job = megatron_job(row, true);
    job.tensor = row.integer("tp", 1024);
    job.pipeline = row.integer("pp", 256);
    job.data = row.integer("dp");
    job.chunks = row.integer("interleave_m", 64);
    job.micro_batch = row.integer("micro_batch", 100'000);
    job.microbatches =
        divided(row, "global_batch", row.integer("global_batch", 100'000'000), job.data * job.micro_batch);
    job.recomputation = present ? Recomputation::selective : Recomputation::full;
    job.sequence_parallel = present;
    run.label = row.text("model") + (present ? ", sequence parallel, selective" : ", full recomputation");
    check_run(row, run);
    run.placement = even_placement(job.model.layers, job.pipeline * job.chunks);
    finish_schedule(run, job.chunks > 1 ? "interleaved" : "1f1b");
    const char* column = present ? "present_work_iter_s" : "full_recompute_iter_s";
    if (row.has(column)) run.step_s = row.number(column);
    runs.push_back(std::move(run));
  }
  return runs;
}

/// The vocabulary tables print MFU = model FLOPs / (time × 320 TFLOP/s), FLOPs as in arXiv:2104.04473 eq. 3
/// without recomputation: 72·b·s·l·h²·(1 + s/(6h) + V/(12hl)).
std::vector<PublishedRun> vocabulary_table(const PublishedRow& row, bool v_shaped) {
  std::vector<PublishedRun> runs;
  constexpr std::array<std::pair<const char*, int>, 4> kSizes = {
      {{"32k", 32000}, {"64k", 64000}, {"128k", 128000}, {"256k", 256000}}};
  const std::string& method = row.repeated("method");
  for (const auto& [size, vocab] : kSizes) {
    PublishedRun run;
    run.machine = "a100-sxm-80gb";
    run.software = v_shaped ? "megatron-vocabulary-v" : "megatron-vocabulary";
    Job& job = run.job = megatron_job(row, false);
    job.model.vocab = vocab;
    job.model.positions = 0;
    job.pipeline = row.integer("pp_gpus", 256);
    job.chunks = v_shaped ? 2 : 1;
    job.micro_batch = row.integer("micro_batch", 100'000);
    job.microbatches = row.integer("num_microbatches", 100'000);
    job.vocabulary = passes_named(method);
    check_run(row, run);
    const int stages = job.pipeline * job.chunks;
    run.placement = method == "Redis" ? redistributed(job.model, job.sequence, stages)
                                      : even_placement(job.model.layers, stages);
    run.label = fmt::format("{} p{} s{} {}", method, job.pipeline, job.sequence, size);
    finish_schedule(run, v_shaped ? "v-half" : "1f1b");
    if (v_shaped) run.schedule.vocabulary = VocabPasses::none;  // its passes are part of the block (step.cpp)
    const std::string mfu = std::string("mfu_") + size;
    const std::string peak = std::string("peak_gb_") + size;
    if (row.has(mfu)) {
      const double h = job.model.hidden;
      const double flops = 72.0 * job.micro_batch * job.microbatches * job.sequence * job.model.layers * h *
                           h * (1 + job.sequence / (6 * h) + vocab / (12 * h * job.model.layers));
      run.step_s = flops / (row.number(mfu, 100) / 100 * 320e12 * job.pipeline);
    }
    // Printed as GB: one more parameter adds 16 bytes only if the unit is 2^30.
    if (row.has(peak)) run.peak_bytes = row.number(peak, 1e6) * kBytesPerGiB;
    runs.push_back(std::move(run));
  }
  return runs;
}

std::vector<PublishedRun> vocabulary_1f1b(const PublishedRow& row) {
  return vocabulary_table(row, false);
}
std::vector<PublishedRun> vocabulary_v(const PublishedRow& row) {
  return vocabulary_table(row, true);
}

std::vector<PublishedRun> zero_bubble_table4(const PublishedRow& row) {
  PublishedRun run;
  const std::string& name = row.repeated("schedule");
  const bool zero_bubble = name.starts_with("ZB");
  run.machine = "a100-sxm-80gb";
  run.software = zero_bubble ? "megatron-zero-bubble" : "megatron-zero-bubble-1f1b";
  // The vocabulary follows from the printed parameter counts: 28.3 B = 62 layers of 6144 and 32,000 words.
  Job& job = run.job = megatron_job(row, false);
  job.pipeline = row.integer("pp_gpus", 256);
  job.micro_batch = row.integer("micro_batch", 100'000);
  job.microbatches = row.integer("num_microbatches", 100'000);
  // "1F1B-I": one layer per virtual stage; two layers fewer in all, for the embedding and the output layer.
  if (name == "1F1B-I") job.chunks = std::max(1, static_cast<int>(job.model.layers + 2) / job.pipeline);
  check_run(row, run);
  const int stages = job.pipeline * job.chunks;
  run.placement = even_placement(job.model.layers + 2, stages);
  run.placement.layers.front() -= 1;
  run.placement.layers.back() -= 1;
  run.label = fmt::format("{} {} m{}", row.repeated("model"), name, job.microbatches);
  finish_schedule(run, zero_bubble ? "zb-auto" : (job.chunks > 1 ? "interleaved" : "1f1b"));
  if (zero_bubble) run.schedule.memory_limit = job.pipeline * (name == "ZB-2p" ? 2.0 : 1.0);
  const char* rate = "samples_per_gpu_s";
  if (row.has(rate)) {
    run.step_s = static_cast<double>(job.microbatches) * job.micro_batch / (job.pipeline * row.number(rate));
  }
  if (row.has("memory_gb")) run.peak_bytes = row.number("memory_gb", 1e6) * 1e9;
  return {run};
}

std::vector<PublishedRun> vtrain(const PublishedRow& row, const char* machine) {
  PublishedRun run;
  run.machine = machine;
  run.software = "megatron-deepspeed";
  Job& job = run.job;
  job.sequence = row.integer("sequence length", 1 << 22);
  job.model = gpt_model(row.integer("# layers", 10'000), row.integer("hidden size"),
                        row.integer("attention heads", 10'000), 51200, job.sequence, true);
  job.tensor = row.integer("tensor parallelism", 1024);
  job.data = row.integer("data parallelism");
  job.pipeline = row.integer("pipeline parallelism", 256);
  job.micro_batch = row.integer("micro batch", 100'000);
  const int batch = row.integer("global batch", 100'000'000);
  job.microbatches = divided(row, "global batch", batch, job.data * job.micro_batch);
  job.recomputation = Recomputation::full;
  run.label = fmt::format("h{} L{} t{} p{} d{} b{} M{}", job.model.hidden, job.model.layers, job.tensor,
                          job.pipeline, job.data, job.micro_batch, job.microbatches);
  run.sweep = fmt::format("{} GPUs, h{} L{}, batch {}", row.text("# GPUs"), job.model.hidden,
                          job.model.layers, batch);
  check_run(row, run);
  run.placement = even_placement(job.model.layers, job.pipeline);
  finish_schedule(run, "1f1b");
  if (row.has("iteration time (ms)")) run.step_s = row.number("iteration time (ms)") / 1000;
  return {run};
}

std::vector<PublishedRun> vtrain_single(const PublishedRow& row) {
  return vtrain(row, "a100-sxm-80gb");
}
std::vector<PublishedRun> vtrain_multi(const PublishedRow& row) {
  return vtrain(row, "a100-sxm-80gb-4hdr");
}

}  // namespace

Model gpt_model(double layers, double hidden, double heads, double vocab, double positions, bool tied) {
  Model model;
  model.layers = layers;
  model.hidden = hidden;
  model.heads = model.kv_heads = heads;
  model.head = hidden / heads;
  model.ffn = 4 * hidden;
  model.vocab = vocab;
  model.positions = positions;
  model.tied = tied;
  return model;
}

std::vector<PublishedRun> torchtitan_runs(const PublishedRow& row);

RunReader run_reader(std::string_view table) {
  constexpr std::array<std::pair<std::string_view, RunReader>, 9> kReaders = {{
      {"megatron_sc21_table1", sc21_table1},
      {"megatron_sc21_table2", sc21_table2},
      {"korthikanti_table5", korthikanti_table5},
      {"vocab_parallel_table5_1f1b", vocabulary_1f1b},
      {"vocab_parallel_table6_vhalf", vocabulary_v},
      {"zero_bubble_table4", zero_bubble_table4},
      {"vtrain_ground_truth_single", vtrain_single},
      {"vtrain_ground_truth_multi", vtrain_multi},
      {"torchtitan_llama31_h100", torchtitan_runs},
  }};
  for (const auto& [name, reader] : kReaders) {
    if (name == table) return reader;
  }
  return nullptr;
}

}  // namespace plumbline::cluster
