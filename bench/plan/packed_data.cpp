#include "bench/plan/packed_data.hpp"

#include "analysis/predict/dynamic_context.hpp"
#include "core/config/config_checks.hpp"

namespace plumbline {

void add_packed_work(RunConfig& config) {
  if (!config.batch.packed_sequence || why_invalid(config)) return;
  config.batch.packed = work_of_chats(read_packed_chats(config), config).attention;
}

}  // namespace plumbline
