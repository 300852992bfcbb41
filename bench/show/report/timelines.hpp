// The timelines of one cell, predicted and measured, and the file they travel in:
// DIR/timelines/<id>.json next to a matrix's records.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor/arena.hpp"
#include "core/trace/lane_span.hpp"
#include "core/trace/trace.hpp"

namespace plumbline {

/// A trace and, if it is known, the memory of every event. `memory` is empty or has an entry for every rank,
/// each empty or with one sample per event of that rank. `lanes` is empty or has the collectives of every
/// rank in order of start.
struct Timeline {
  Trace trace;
  std::vector<std::vector<MemorySample>> memory;
  std::vector<std::vector<LaneSpan>> lanes{};
};

struct CellTimelines {
  std::string id;  // of the record
  std::optional<Timeline> predicted;
  std::optional<Timeline> measured;
};

/// {"schema":1,"id":…,"predicted":…,"measured":…}; a timeline is
/// {"ranks":[{"actions":["0F0",…],"start_s":[…],"end_s":[…],
///            "peak_bytes":[[by category],…],"after_bytes":[…]},…]}:
/// one entry per pipeline rank, one element per event, categories in the order of a record's memory keys. A
/// timeline that does not exist is null; the bytes are left out if memory is not known. A rank also has, with
/// vocabulary parallelism, the collectives with kind and micro-batch of each, and, if they are known, the
/// lanes:
///   "collectives": {"names":["C0 0",…],"start_s":[…],"end_s":[…],
///                   "waited_from_s":[…],"waited_s":[…]}
///   "lanes": {"groups":["tensor",…,"host"],"start_s":[…],"end_s":[…],"waited_s":[…]}
std::string to_timeline_json(const CellTimelines& timelines);

/// Strict, since the file is untrusted. Throws InputError naming `origin` for wrong types and lengths,
/// negative bytes, times that are not finite or negative, an end before its start, and schemas of other
/// versions. Events are put in order of start.
CellTimelines parse_timeline_json(std::string_view text, const std::string& origin);

/// `folder`/timelines/<id>.json. An id with other characters than letters, digits, '.', '_' and '-' has no
/// file.
std::optional<std::string> timeline_path(const std::string& folder, const std::string& id);

/// The cell's timelines if `folder` has them. Throws InputError when the file is there and wrong.
std::optional<CellTimelines> load_timelines(const std::string& folder, const std::string& id);

}  // namespace plumbline
