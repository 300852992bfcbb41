// Settings that training software can be asked for.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plumbline {

/// Settings that the software's own arguments can ask for. Predictions do not change with them. Described in
/// analysis/hardware/software.json, with the source of every one; the defaults are plumbline's.
struct SoftwareArguments {
  bool even_stages = false;   // it stops when stages have unequal layers, unless a layout gives those of each
  bool stage_layouts = true;  // it takes such a layout
  bool sized_stages = false;  // the number of stages follows from the layers of one
  bool pipeline = true;       // it splits layers over ranks
  bool experts = true;        // and experts
  bool any_expert_tensor = true;   // expert tensor size apart from tensor's; else 1, with experts spread
  double most_zero = 3;            // highest ZeRO stage
  double most_zero_pipelined = 3;  // the same with several pipeline ranks
  bool sequence_parallel = true;
  bool always_sequence_parallel = false;  // with tensor parallelism
  bool recompute_groups = true;           // of several layers, of which the first input is kept
  bool recompute_selective = true;        // less than a layer
  bool bf16_gradients = true;             // gradients of the type of the parameters
  bool pads_vocabulary = true;
  std::vector<std::string> cp_comm_types = {"p2p", "all_gather", "a2a", "a2a+p2p"};  // empty: none
};

/// Arguments of a software by name; the defaults for a name that is not known.
const SoftwareArguments& software_arguments(std::string_view software);

}  // namespace plumbline
