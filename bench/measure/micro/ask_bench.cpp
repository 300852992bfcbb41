// Replies per second of one thread, from the request's text to the reply's.
#include <benchmark/benchmark.h>

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "bench/ask/answer.hpp"

namespace plumbline {
namespace {

/// Keys of an ordinary run; `kind` and more of the request in front.
std::string request(std::string_view kind) {
  return fmt::format(
      R"({{{},"id":1,"keys":{{"model":"llama-3.1-8b","hardware":"h100","gpus":64,"tp":2,"pp":4,"gbs":512,)"
      R"("seq_length":4096,"precision":"bf16","zero_stage":1,"sequence_parallel":true}}}})",
      kind);
}

void reply(benchmark::State& state, std::string_view kind) {
  const std::string asked = request(kind);
  for (auto _ : state) benchmark::DoNotOptimize(answer(asked));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK_CAPTURE(reply, predict, R"("ask":"predict")")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(reply, predict_full, R"("ask":"predict","full":true)")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(reply, legality, R"("ask":"legality")")->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace plumbline

BENCHMARK_MAIN();
