// Is a schedule a correct training step? Names the first broken rule and shows the cell.
#pragma once

#include <string>

#include "core/schedule/schedule.hpp"
#include "core/validate/fault.hpp"

namespace plumbline {

/// The first broken rule, or a fault with an empty rule. Rules, in this order:
/// 1. sizes agree; every action names a stage of its rank, a micro-batch in range and on the stage's route;
/// 2. no action appears twice;
/// 3. every stage and micro-batch has F, and B or else both I and W; when a kind of teacher, vocabulary,
///    input or end-of-step action appears, it appears everywhere it must;
/// 4. on a rank, F precedes B and I, I precedes W, and end-of-step actions follow everything else;
/// 5. when there are transfers, every hop between ranks has one SEND after its producer and one RECV before
///    its consumer, and hops within a rank have none;
/// 6. the order can run: no action waits, over any number of ranks, for itself.
Fault find_fault(const Schedule& schedule);

/// Throws InputError with the rule in its first line and, below it, the rank × step grid around the cell,
/// which is marked `>cell<`.
void validate(const Schedule& schedule);

/// Rank × step grid of all ranks near `rank` and steps near `position`, the cell marked.
std::string grid_around(const Schedule& schedule, int rank, int position);

}  // namespace plumbline
