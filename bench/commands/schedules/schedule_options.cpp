#include "bench/commands/schedules/schedule_options.hpp"

#include "bench/commands/number_range.hpp"

namespace plumbline {

void add_schedule_options(CLI::App& command, ScheduleSource& source) {
  command.add_option("--pp", source.pp, "Pipeline-parallel size")
      ->check(number_from(1, 65535))
      ->capture_default_str();
  command.add_option("--microbatches", source.microbatches, "Micro-batches per step")
      ->check(number_from(1, 1 << 24))
      ->capture_default_str();
  command.add_option("--chunks", source.chunks, "Model chunks per rank (interleaved; default: 2)")
      ->check(number_from(1, 65535));
  command.add_option("--group", source.group, "Micro-batches per group (interleaved; default: pp)")
      ->check(number_from(1, 1 << 24));
  command
      .add_option("--memory-limit", source.memory_limit, "Activation limit per rank (zb-auto; default: pp)")
      ->check(number_from(1.0, 1e9));
  command.add_flag("--transfers", source.transfers, "Include SEND and RECV actions");
}

}  // namespace plumbline
