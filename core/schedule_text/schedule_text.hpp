// A schedule as text: PyTorch's pipeline CSV (in and out), the readable form, JSON.
#pragma once

#include <string>
#include <string_view>

#include "core/schedule/schedule.hpp"

namespace plumbline {

struct CsvOptions {
  /// PyTorch's "compute_comms" form also needs a WAIT_SEND_F or WAIT_SEND_B for every send; it is put before
  /// the next send of the same stage and direction, or at the end of the row.
  bool send_waits = false;
};

/// One line per rank, cells `<stage><TYPE><micro-batch>` separated by commas, overlapped pairs
/// `(a;b)OVERLAP_F_B`. Properties that cells cannot express (vocabulary passes, no barrier, joint teacher
/// messages) are in a first line `# key=value …`, written only when needed: F, B, I, W and transfers alone
/// are PyTorch's format.
std::string to_csv(const Schedule& schedule, CsvOptions options = {});

/// "rank 3: 3F0 3B0 …", one line per rank.
std::string to_text(const Schedule& schedule);

/// {"schema":1,"name":…,"ranks":…,"rank_of_stage":[…],"actions":[["0F0",…],…], …}.
std::string to_json(const Schedule& schedule);

/// Reads the CSV. Ranks, stages, micro-batches and routes follow from the cells. Empty cells are idle time;
/// PyTorch's cells about sharding, reductions and waiting (UNSHARD, RESHARD, REDUCE_GRAD, WAIT_…) are
/// skipped. Throws InputError: origin, row, column, what was found and expected. The result passes
/// check_ranges(); validate() decides the rest.
Schedule parse_schedule_csv(std::string_view text, const std::string& origin);

/// Reads the JSON that to_json() writes. Throws InputError.
Schedule parse_schedule_json(std::string_view text, const std::string& origin);

/// True if a CSV file has WAIT_SEND cells. In PyTorch's "compute_comms" form SEND and RECV return at once: F,
/// B and I wait for their received data. Throws InputError when it cannot be read.
bool has_send_waits(const std::string& path);

/// Reads a .csv or .json file and validates it. Throws InputError.
Schedule load_schedule(const std::string& path);

}  // namespace plumbline
