// A third party's program: predicts one configuration with the installed library.
#include <cstdio>

#include "analysis/predict/predict.hpp"
#include "bench/plan/plan.hpp"
#include "core/config_text/load_config.hpp"

int main(int count, char** arguments) {
  using namespace plumbline;
  const RunConfig config = load_run_config(arguments[count - 1], {{"pipeline_model_parallel_size", "2"}});
  const Prediction prediction = predict(config, schedule_for(config), load_hardware("h100-sxm-80gb"));
  std::printf("%lld bytes, %.3f ms\n", static_cast<long long>(prediction.memory.peak.value),
              1e3 * prediction.time.step.value);
}
