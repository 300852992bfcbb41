// The schedule's actions as NVTX ranges, which any NVIDIA profiler shows along with the kernels.
#pragma once

#include <memory>

#include "core/run/step_observer.hpp"

namespace plumbline {

/// One range per action in the domain "plumbline", named by a registered string ("F", "SEND_F", …), with a
/// payload {type, stage, chunk, microbatch, bytes}. Costs next to nothing when no profiler listens.
class NvtxActions final : public StepObserver {
 public:
  /// `pipeline_rank`: a stage's chunk is its place among the stages of this rank.
  NvtxActions(const Schedule& schedule, int pipeline_rank);
  ~NvtxActions() override;
  NvtxActions(const NvtxActions&) = delete;
  NvtxActions& operator=(const NvtxActions&) = delete;

  void step_begins(int index) override;
  void action_begins(const Action& action, Bytes message) override;
  /// Ranges of a thread nest: the inner one of a pair ends, and one of the action that goes on begins.
  void action_goes_on(const Action& action) override;
  void action_ends(const Action& action) override;

 private:
  struct Domain;
  std::unique_ptr<Domain> domain_;
};

}  // namespace plumbline
