// Kernel chosen for a call among several: recorded beside the versions of libraries.
#pragma once

#include <string>

namespace plumbline {

struct KernelChoice {
  std::string call;  // "attention_backward bf16, batch 8, seq 1024, heads 12/12 x 64"
  std::string by;    // "cuDNN 9.19.0", "own kernels", "algorithm 66, tile 20, …"
  std::string why;   // why a library that was wanted did not compute it; empty: it did
  friend bool operator==(const KernelChoice&, const KernelChoice&) = default;
};

}  // namespace plumbline
