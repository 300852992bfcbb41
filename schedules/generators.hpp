// Every schedule the library knows, one generator each. All return compute actions only; passes.hpp adds
// transfers and the end of the step. They throw InputError with the constraint when the sizes do not allow
// the schedule.
#pragma once

#include "core/schedule.hpp"

namespace plumbline {

Schedule gpipe(int ranks, int microbatches);
Schedule one_f_one_b(int ranks, int microbatches);

}  // namespace plumbline
