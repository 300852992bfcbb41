// Rows of torchtitan's benchmark page (docs/performance.md, December 2024).
#include <fmt/format.h>

#include <cctype>
#include <cstdlib>

#include "analysis/published/published_jobs.hpp"

namespace plumbline::cluster {

std::vector<PublishedRun> torchtitan_runs(const PublishedRow& row);

namespace {

/// The number that follows `key` in the text ("TP8", "TP 8"), or `otherwise`.
int number_after(const std::string& text, const std::string& key, int otherwise) {
  for (std::size_t at = text.find(key); at != std::string::npos; at = text.find(key, at + 1)) {
    if (at > 0 && std::isalpha(static_cast<unsigned char>(text[at - 1])) != 0) continue;
    std::size_t digits = at + key.size();
    while (digits < text.size() && text[digits] == ' ') ++digits;
    if (digits >= text.size() || std::isdigit(static_cast<unsigned char>(text[digits])) == 0) continue;
    return std::min(std::atoi(text.substr(digits, 6).c_str()), 100'000);
  }
  return otherwise;
}

bool names(const std::string& text, const std::string& what) {
  return text.find(what) != std::string::npos;
}

Model llama31(const PublishedRow& row) {
  Model model;
  model.vocab = 128256;
  model.head = 128;
  model.kv_heads = 8;
  model.gated = true;
  const std::string& name = row.repeated("model");
  if (name == "8B") {
    model.layers = 32, model.hidden = 4096, model.heads = 32, model.ffn = 14336;
  } else if (name == "70B") {
    model.layers = 80, model.hidden = 8192, model.heads = 64, model.ffn = 28672;
  } else if (name == "405B") {
    model.layers = 126, model.hidden = 16384, model.heads = 128, model.ffn = 53248;
  } else {
    row.fail("model", "8B, 70B or 405B");
  }
  return model;
}

}  // namespace

std::vector<PublishedRun> torchtitan_runs(const PublishedRow& row) {
  PublishedRun run;
  run.machine = "h100-grand-teton-96gb";
  const std::string techniques = row.techniques("table", "techniques");
  const std::string& layout = row.repeated("parallelism");
  const bool float8 = names(techniques, "Float8");
  const bool compiled = names(techniques, "compile");
  const bool async = names(techniques, "AsyncTP") || names(techniques, "Async TP");
  run.software = !compiled ? "torchtitan"
                 : !float8 ? "torchtitan-compile"
                           : (async ? "torchtitan-float8-async" : "torchtitan-float8");
  Job& job = run.job;
  job.model = llama31(row);
  const std::string& sequence = row.repeated("seq");
  // The page's runs use the recipe's 8192 unless a column says otherwise.
  const bool stated = !sequence.empty() && std::isdigit(static_cast<unsigned char>(sequence.front())) != 0;
  job.sequence = stated ? row.integer("seq", 1 << 22) : 8192;
  job.data = std::max(1, number_after(layout, "FSDP", 1));
  job.tensor = std::max(1, number_after(layout, "TP", 1));
  job.pipeline = std::clamp(number_after(layout, "PP", 1), 1, 64);
  job.context = std::max(1, number_after(layout, "CP", 1));
  job.sequence_parallel = job.tensor > 1;
  const int batch = std::max(1, number_after(techniques, "lbs", 1));
  // Pipelines split the local batch into as many micro-batches as there are stages (the recipes' default).
  job.microbatches = job.pipeline > 1 ? (batch % job.pipeline == 0 ? job.pipeline : batch) : 1;
  job.micro_batch = batch / job.microbatches;
  if (names(techniques, "full AC")) job.recomputation = Recomputation::full;
  if (names(techniques, "sel AC")) job.recomputation = Recomputation::selective;
  const bool interleaved = names(techniques, "nterleaved");
  job.chunks = interleaved ? 2 : 1;
  run.placement = even_placement(job.model.layers, job.pipeline * job.chunks);
  run.label = fmt::format("{} {}, {}", row.repeated("model"), layout, techniques);
  run.schedule = {
      interleaved ? "interleaved" : "1f1b", job.pipeline, job.microbatches, job.chunks, VocabPasses::none, 0};
  const char* rate = "tokens_per_s_per_gpu";
  if (row.has(rate)) {
    const double tokens = job.sequence * batch * job.data;
    run.step_s = tokens / (row.number(rate) * job.data * job.tensor * job.pipeline * job.context);
  }
  if (row.has("memory_gib")) run.peak_bytes = row.number("memory_gib", 1e6) * kBytesPerGiB;
  return {run};
}

}  // namespace plumbline::cluster
